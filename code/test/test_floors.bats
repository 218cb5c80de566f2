#!/usr/bin/env bats
# Each folder of C code uses only the folders below it (code/tools/check-floors); a use of one above is reported.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
}

# Makes $TREE, a copy of all that the check reads, to plant faults in.
scratch() {
    TREE=$BATS_TEST_TMPDIR/tree
    mkdir "$TREE"
    find code/*/ labs plots \( -name '*.[ch]' -o -name '*.def' \) -exec cp --parents -t "$TREE" {} +
    find build/obj/code build/obj/labs build/obj/plots -name '*.o' -exec cp --parents -t "$TREE" {} +
}

# plant FILE TEXT: adds C text to a file of the copy, and compiles that file alone.
plant() {
    printf '\n%s\n' "$2" >>"$TREE/$1"
    cc -std=c11 -D_GNU_SOURCE -I"$TREE/code" -c "$TREE/$1" -o "$TREE/build/obj/${1%.c}.o"
}

@test "no folder uses one above it" {
    run code/tools/check-floors
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "in order, lowest first; each folder uses only those before it:" ]
    [[ ${lines[1]} == "  code/image "* ]]
    [ "$(grep -oE '^  code/ptxsim[a-z0-9/]*' <<<"$output" | xargs)" = "code/ptxsim code/ptxsim/base \
code/ptxsim/parse code/ptxsim/machine code/ptxsim/races code/ptxsim/ops code/ptxsim/decode code/ptxsim/exec \
code/ptxsim/capi code/ptxsim/cudart code/ptxsim/ops/extra code/ptxsim/decode/extra code/ptxsim/cudart/extra \
code/ptxsim/cudart12 code/ptxsim/tool" ]
}

@test "upward uses are named with both files: of exec/ below it, of a report of races in machine/, of an operation in races/" {
    scratch
    code/tools/check-floors "$TREE"
    plant code/ptxsim/base/arena.c 'int launch_run(void); int planted(void); int planted(void) { return launch_run(); }'
    plant code/ptxsim/machine/names.c 'void race_leave(void); void planted_2(void); void planted_2(void) { race_leave(); }'
    plant code/ptxsim/races/storage.c 'void wgmma_op(void); void planted_3(void); void planted_3(void) { wgmma_op(); }'
    run code/tools/check-floors "$TREE"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(sort <<<"$output")" = "code/ptxsim/base/arena.c (code/ptxsim/base) uses launch_run of code/ptxsim/exec/launch.c \
(code/ptxsim/exec), which is above it
code/ptxsim/machine/names.c (code/ptxsim/machine) uses race_leave of code/ptxsim/races/cluster.c (code/ptxsim/races), \
which is above it
code/ptxsim/races/storage.c (code/ptxsim/races) uses wgmma_op of code/ptxsim/ops/wgmma.c (code/ptxsim/ops), \
which is above it" ]
}

@test "a use of a file that the folder's header lists below the user is named, so that cudart has no circle" {
    scratch
    plant code/ptxsim/cudart/launches.c 'int planted(void); int planted(void) { return kernel_find(0, 0); }'
    code/tools/check-floors "$TREE"
    plant code/ptxsim/cudart/registry.c 'int planted_up(void); int planted_up(void) { return binary_module(0, 0); }'
    run code/tools/check-floors "$TREE"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "${lines[0]}" = "code/ptxsim/cudart/registry.c (code/ptxsim/cudart) uses binary_module of \
code/ptxsim/cudart/kernels.c, which the header of their folder lists below it" ]
    [ "${lines[1]}" = "a circle of files: code/ptxsim/cudart/device.c uses arch_needed of \
code/ptxsim/cudart/registry.c, which uses binary_module of code/ptxsim/cudart/kernels.c, which uses device_becomes of \
code/ptxsim/cudart/device.c" ]
    [ "${#lines[@]}" -eq 2 ]
    [ "$(grep -rl 'uses only those above it in this list' --include='*.h' code labs plots | sort | xargs)" = "code/host/host.h \
code/model/model.h code/ptxsim/base/base.h code/ptxsim/cudart/extra/extra.h code/ptxsim/cudart/runtime.h code/ptxsim/decode/internal.h \
code/ptxsim/exec/exec.h code/ptxsim/races/races.h code/ptxsim/tool/tool.h labs/driver/lab.h labs/judge/judge.h \
labs/sheet/sheet.h plots/series.h" ]
}

@test "a file that the list of its folder leaves out is named" {
    scratch
    plant code/ptxsim/exec/more.c 'int planted(void); int planted(void) { return 1; }'
    plant code/ptxsim/ops/more.c 'int planted_where_nothing_is_listed;'
    run code/tools/check-floors "$TREE"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$output" = "code/ptxsim/exec/more.c: the header of its folder lists each file below those that it uses, and this one not" ]
}

@test "a circle is named with all its files and uses where no header lists them, and a circle of headers" {
    scratch
    plant code/workbench/clocks.c 'int planted_1(void); int planted_2(void); int planted_1(void) { return planted_2(); }'
    plant code/workbench/files.c 'int planted_2(void); int planted_3(void); int planted_2(void) { return planted_3(); }'
    plant code/workbench/stages.c 'int planted_3(void); int planted_3(void) { return 3; }'
    code/tools/check-floors "$TREE"
    plant code/workbench/stages.c 'int planted_1(void); int planted_4(void); int planted_4(void) { return planted_1(); }'
    run code/tools/check-floors "$TREE"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$output" = "a circle of files: code/workbench/clocks.c uses planted_2 of code/workbench/files.c, which uses \
planted_3 of code/workbench/stages.c, which uses planted_1 of code/workbench/clocks.c" ]
    cp code/workbench/stages.c "$TREE/code/workbench/"
    cp build/obj/code/workbench/stages.o "$TREE/build/obj/code/workbench/"
    sed -i '1i #include "workbench/workbench.h"' "$TREE/code/workbench/diagnosis.h"
    sed -i '1i #include "diagnosis.h"' "$TREE/code/workbench/workbench.h"
    run code/tools/check-floors "$TREE"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$output" = "a circle of files: code/workbench/diagnosis.h includes code/workbench/workbench.h, which includes \
code/workbench/diagnosis.h" ]
}

@test "a downward use, and a use of a name that a folder below defines, too, are no faults" {
    scratch
    plant code/ptxsim/base/arena.c 'int planted(void); int planted(void) { return 1; }'
    plant code/image/fatbin.c 'int planted_low(void); int planted_low(void) { return 1; }'
    plant code/ptxsim/base/paths.c 'int planted_low(void); int use(void); int use(void) { return planted_low(); }'
    code/tools/check-floors "$TREE"
    # A folder above defines the name as well: the use may mean the definition below.
    plant code/ptxsim/exec/counts_derive.c 'int planted_low(void); int planted_low(void) { return 2; }'
    code/tools/check-floors "$TREE"
}

@test "an upward include is named with both files" {
    scratch
    sed -i '1i #include "ptxsim/exec/exec.h"' "$TREE/code/ptxsim/machine/machine.h"
    sed -i '1i #include "../machine/machine.h"' "$TREE/code/ptxsim/parse/module.h"
    run code/tools/check-floors "$TREE"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ "$output" == *"code/ptxsim/machine/machine.h (code/ptxsim/machine) includes code/ptxsim/exec/exec.h \
(code/ptxsim/exec), which is above it"* ]]
    [[ "$output" == *"code/ptxsim/parse/module.h (code/ptxsim/parse) includes code/ptxsim/machine/machine.h \
(code/ptxsim/machine), which is above it"* ]]
}

@test "the simulator linked without extra/ runs the book's programs, and has no textures" {
    objects=$(find code/ptxsim code/image -name '*.c' | grep -vE '/(extra|test|tool|capi|cudart12)/|/test_' | sort | sed 's,.*,build/obj/&,; s/c$/o/')
    # shellcheck disable=SC2086
    cc -shared -Wl,-soname,libcudart.so.13 -Wl,--version-script=code/ptxsim/cudart/libcudart.map -Wl,-z,defs \
        $objects -lm -lpthread -ldl -o "$BATS_TEST_TMPDIR/libcudart.so.13"
    run -1 grep -c cudaCreateTextureObject "$BATS_TEST_TMPDIR/libcudart.so.13"
    for program in "ch03_wmma_qk 1x1x33" "ch13_warp_specialised 1x1x33" "ch16_fp8_mma 1x1x33" "ch18_hopper 1x1x33" \
        "ch21_hopper 1x1x65q1p16"; do
        run env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR" "build/${program% *}" --shapes "${program#* }" --seeds 0 --no-timing --quiet
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$output" = "${program% *}: PASS: 1 of 1 outputs right" ]
    done
}

@test "a folder without a place, and a file without an object, are refused by name" {
    scratch
    mkdir "$TREE/code/attic" "$TREE/build/obj/code/attic"
    plant code/attic/old.c 'int old;'
    run code/tools/check-floors "$TREE"
    [ "$status" -eq 1 ]
    [ "$output" = "code/attic/old.c: its folder has no place in the order (code/tools/check-floors)" ]
    rm "$TREE/build/obj/code/attic/old.o"
    run code/tools/check-floors "$TREE"
    [ "$status" -eq 2 ]
    [ "$output" = "check-floors: code/attic/old.c has no object build/obj/code/attic/old.o: type make tests" ]
}
