# Ordinary programs, as a course or a library writes them (world/): in the simulator each prints
# what it printed on an H200 (world/h200/; nine of them on an H100, where the others print the
# same). world/not-yet.txt lists those that fail, with the reason; a program that passes must be
# taken off that list. Programs of CUB and Thrust take nvcc long: they are run with
# PTXSIM_WORLD=all. Those of world/wrong/ have a planted bug each.

setup_file() {
    cd "$BATS_TEST_DIRNAME/../../.."
    export LD_LIBRARY_PATH=$PWD/build/ptxsim PROGRAMS
    cd code/ptxsim/test/world
    PROGRAMS=$(ls ./*.cu)
    [ "${PTXSIM_WORLD:-}" = all ] || PROGRAMS=$(grep -LE '<(cub|thrust)/' ./*.cu)
    PROGRAMS=$(sed 's,.*/,,; s,\.cu$,,' <<<"$PROGRAMS" | grep -v '_2$')
    mkdir "$BATS_FILE_TMPDIR/wrong"
    { echo "$PROGRAMS"; ls wrong/*.cu | sed 's,\.cu$,,'; } | groups | xargs -P 2 -L 1 bash -c 'compile "$@"' _
}

# flags_of NAME: nvcc's flags from the program's line "// build:".
flags_of() {
    sed -n 's,^// build: ,,p' "$1.cu"
}

# groups <NAMES: groups of programs that are compiled together, a line each, since nvcc spends most
# of its time on a small program's headers. Programs with flags for linking are compiled separately,
# and with PTXSIM_WORLD=all every program is.
groups() {
    local name
    while read -r name; do
        printf '%s\t%s\n' "$(flags_of "$name")" "$name"
    done | awk -F'\t' -v each="${PTXSIM_WORLD:-}" '
        each != "all" && $1 ~ /^(|-lineinfo|compute_[0-9]+)$/ { same[$1] = same[$1] " " $2; next }
        { print $2 }
        END { for (flags in same) print same[flags] }'
}

# together NAME...: the text of one program that contains all of these and runs the one under whose
# name it is started. Each is in a namespace of its own, so that functions and kernels of equal names
# do not clash; the headers come first.
together() {
    local name
    sed -n '/^#include </p' "${@/%/.cu}" | sort -u
    printf '#include <cstring>\n#include "check.h"\n'
    for name; do
        printf 'namespace %s {\n#include "%s.cu"\n}\n' "${name#wrong/}" "$name"
    done
    printf 'int main(int, char **argv)\n{\n    const char *name = strrchr(argv[0], 47) + 1;\n'
    for name; do
        printf '    if (!strcmp(name, "%s"))\n        return %s::main();\n' "${name#wrong/}"{,}
    done
    printf '    return 99;\n}\n'
}

# compile NAME...: compiles to PTX only, which needs no assembler. nvcc's messages are in the first NAME's log.
compile() {
    local flags images=-arch=compute_89 sources=$1.cu name
    flags=$(flags_of "$1")
    case $flags in compute_*) images=-arch=$flags flags= ;; esac
    [ ! -f "$1_2.cu" ] || sources+=" $1_2.cu"
    if [ $# -gt 1 ]; then
        sources=$BATS_FILE_TMPDIR/$1-and-others.cu
        together "$@" >"$sources"
    fi
    # shellcheck disable=SC2086
    ../../../../build/cuda/bin/nvcc -std=c++17 -I. $images $flags -cudart shared --compress-mode=none \
        $sources -o "$BATS_FILE_TMPDIR/$1" >"$BATS_FILE_TMPDIR/$1.log" 2>&1 || return 0
    for name in "${@:2}"; do
        ln "$BATS_FILE_TMPDIR/$1" "$BATS_FILE_TMPDIR/$name"
    done
}
export -f compile together flags_of

setup() {
    cd "$BATS_TEST_DIRNAME/world"
}

not_yet() {
    cut -f 1 not-yet.txt
}

# as_on_h200 NAME: whether the program prints what it printed on an H200, and its exit status is the number of WRONG
# in that output.
as_on_h200() {
    local status=0
    (ulimit -t 60 && exec "$BATS_FILE_TMPDIR/$1") \
        >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" </dev/null || status=$?
    cmp -s "$BATS_TEST_TMPDIR/out" "h200/$1.txt" && [ "$status" -eq "$(grep -c WRONG "h200/$1.txt")" ]
}

@test "every program is compiled, and has an output of an H200" {
    local name wrong=0
    for name in $PROGRAMS; do
        [ -x "$BATS_FILE_TMPDIR/$name" ] || { echo "$name: not compiled"; wrong=1; }
        [ -s "h200/$name.txt" ] || { echo "h200/$name.txt: missing"; wrong=1; }
    done
    tail -n 30 "$BATS_FILE_TMPDIR"/*.log "$BATS_FILE_TMPDIR"/wrong/*.log
    [ "$(wc -w <<<"$PROGRAMS")" -ge 55 ]
    [ "$wrong" -eq 0 ]
}

@test "each prints what it prints on an H200" {
    local name wrong=0
    for name in $(grep -vxF "$(not_yet)" <<<"$PROGRAMS"); do
        as_on_h200 "$name" && continue
        echo "$name:"
        diff "$BATS_TEST_TMPDIR/out" "h200/$name.txt" || true
        head -n 5 "$BATS_TEST_TMPDIR/err"
        wrong=1
    done
    [ "$wrong" -eq 0 ]
}

@test "programs that do not pass yet are the listed ones, and no others" {
    local name wrong=0
    for name in $(grep -xF "$(not_yet)" <<<"$PROGRAMS"); do
        as_on_h200 "$name" || continue
        echo "$name: right: take it off world/not-yet.txt"
        wrong=1
    done
    for name in $(not_yet); do
        [ -f "$name.cu" ] || { echo "not-yet.txt: there is no $name.cu"; wrong=1; }
    done
    [ "$wrong" -eq 0 ]
}

# A bug's line is marked HERE, and the report's words stand in the file's head. A line of the host (HOST) is not in
# the report: a page fault ends the program there, as on a GPU, and a debugger shows the line.
@test "each planted bug is told at its line" {
    local file name line told ended place wrong=0
    for file in wrong/*.cu; do
        name=${file%.cu}
        line=$(grep -n '// HERE' "$file" | cut -d: -f1) told=$(sed -n 's,^// told: ,,p' "$file")
        [ "$line" -gt 0 ]
        [ -n "$told" ]
        ended=0
        (ulimit -t 60 && exec "$BATS_FILE_TMPDIR/$name") >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" \
            </dev/null || ended=$?
        place="[^a-z_]${name#wrong/}\.cu:${line}[^0-9]"
        if grep -q '// HERE, on the HOST' "$file" && [ "$ended" -eq 139 ]; then place=.; fi
        if grep -F "$told" "$BATS_TEST_TMPDIR/err" | grep -q "$place"; then
            if not_yet | grep -qxF "$name"; then echo "$name: told: take it off world/not-yet.txt"; wrong=1; fi
        elif ! not_yet | grep -qxF "$name"; then
            echo "$name: not told at line $line: $told"
            head -n 3 "$BATS_TEST_TMPDIR/err"
            wrong=1
        fi
    done
    [ "$wrong" -eq 0 ]
}
