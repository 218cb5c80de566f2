# The whole path as a user walks it: make, the programs in the simulator, the labs, the book.
# Tests that change a chapter work on a copy of the tree, with its time stamps.

bats_require_minimum_version 1.5.0

load test_tree

copy() { # [NAME]
    TREE=$BATS_TEST_TMPDIR/${1-tree}
    copy_tree "$TREE" build/{obj,tangled,mutants,starters,ptxsim,cuda,gpu,flags,debug-print,deps-*,*.stamp,*.tsv,*.a,lab,series,ch*}
}

# A PATH with everything that make needs, but not the command named.
path_without() {
    local bin=$BATS_TEST_TMPDIR/bin command
    mkdir -p "$bin"
    for command in bash sh make env sed grep awk cat cut cp mv rm ln mkdir touch printf sort xargs tr \
                   head tail cmp dirname basename readlink mktemp chmod sha256sum git gcc g++ cc c++ \
                   ar as ld id date dpkg-query pandoc gnuplot nvidia-smi uname seq find tee; do
        [ "$command" = "$1" ] || ! command -v "$command" >/dev/null ||
            ln -sf "$(command -v "$command")" "$bin/$command"
    done
    echo "$bin"
}

programs() {
    sed -n 's/^\(ch[0-9]*_[a-z0-9_]*\)\t.*/\1/p' build/hashes.tsv
}

# ---- Make ----

@test "a second make chapter3 does nothing, in under a second of the processor" {
    make chapter3
    local used
    TIMEFORMAT="%U %S"
    used=$({ time make chapter3 >"$BATS_TEST_TMPDIR/said"; } 2>&1)
    [ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 1 ]
    awk '{ exit !($1 + $2 < 1) }' <<<"$used"
}

# bats test_tags=quick
@test "the committed code/ is what the chapters say" {
    if git diff --quiet HEAD -- chapters 2>/dev/null; then # make has just tangled these
        git diff --exit-code --stat HEAD -- 'code/ch[0-9]*'
    else
        TANGLE=check pandoc -f code/literate/tangle.lua chapters/[0-9]*.md
    fi
}

@test "every planted bug is caught by the check that its chapter names" {
    run make mutants
    [ "$status" -eq 0 ]
    [[ "$output" =~ ch02_scalar\ +no-rescale\ +correctness\ +correctness ]]
    [[ "$output" =~ ch01_attention\ +nan-passes\ +nan\ +nan ]]
}

@test "of a variant that differs in device code alone only that is compiled; any other is compiled whole" {
    local root=$PWD hash change
    hash=$(sha256sum </dev/null | cut -d' ' -f1)
    cd "$BATS_TEST_TMPDIR"
    mkdir -p build/tangled build/obj
    printf '%s\n' 'constexpr int TILE = 32; // keys' 'constexpr int PITCH = TILE + 8;' 'static_assert(PITCH > TILE);' \
        'struct alignas(16) buffers {' '    int k[PITCH];' '};' 'struct alignas(16) shared {' '    buffers b[2];' '};' \
        'struct alignas(16) row {' '    int sum[TILE];' '};' '__device__ int done;' \
        '__device__ int next(int tile) { return tile + 1; }' 'template <int N>' '__global__ void kernel(int *out)' '{' \
        '    if (out) {' '        out[0] = N;' '    }' '}' 'static int launch(void)' '{' '    return sizeof(shared);' '}' \
        >build/tangled/ch99_x.cu
    # Stand-ins for the files that a compiler and a linker make; and a compiler and a linker that log
    # their arguments.
    printf 'const char hash[] = "%s"; __attribute__((section(".nv_fatbin"))) const char kernel[] = "the old kernel";' "$hash" |
        cc -x c -c - -o build/obj/ch99_x.o
    echo 'extern const char hash[], kernel[]; int main(void) { return !hash[0] + !kernel[0]; }' |
        cc -x c - -x none build/obj/ch99_x.o -o build/ch99_x
    printf '#!/bin/bash\n[[ $* == "-O3 "*"ch99_x.bug.cu -o "* ]] || exit 1\n%s\n' \
        '[[ $* == *" -fatbin "* ]] && echo "${KERNEL-new kernel}" >"${!#}" || printf "\177ELF whole" >"${!#}"' >nvcc
    printf '#!/bin/bash\n[[ $* == *" x.a -o "* ]] || exit 1\ncp "$1" "${!#}"\n' >linker
    chmod +x nvcc linker
    variant() { # SED
        sed "$1" build/tangled/ch99_x.cu >ch99_x.bug.cu
        run -1 cmp -s build/tangled/ch99_x.cu ch99_x.bug.cu
        rm -f ch99_x.bug.part out
        "$root/code/tools/compile-variant" ch99_x.bug.cu ch99_x.bug.part ./nvcc -O3
        "$root/code/tools/compile-variant" ch99_x.bug.part out ./linker x.a
    }
    is_new() { # WORDS
        [ "$(strings out | grep -c "^$1$")" -eq 1 ]
        [ "$(strings out | grep -cE "old kernel|$hash")" -eq 0 ]
        strings out | grep -qE '^0{64}$' # the variant's hash is zeros, so that no measurement belongs to it
    }
    for change in 's/= N;/= N + 1;/' 's/tile + 1/tile/' 's/if (out)/for (;;)/' 's/keys/rows/' 's/int sum/long sum/' \
        's/PITCH > TILE/PITCH != TILE/'; do
        variant "$change"
        is_new "new kernel"
        ./out
    done
    KERNEL="a kernel longer than the old one" variant 's/= N;/= N + 1;/' # too long to replace the old one: the program is linked anew
    is_new "a kernel longer than the old one"
    for change in 's/= 32/= 64/' 's/+ 8/+ 4/' 's/int k/long k/' 's/b.2./b[3]/' 's/int done/long done/' 's/int N/unsigned N/' \
        's/int .out)/long *out)/' 's/return sizeof/return 2 * sizeof/' '1i #include "x.h"'; do
        variant "$change"
        [ "$(tail -c 5 out)" = whole ]
    done
    rm ch99_x.bug.part
    run -1 "$root/code/tools/compile-variant" ch99_x.bug.cu ch99_x.bug.part ./nvcc -O2 # a compiler that refuses
    [ ! -e ch99_x.bug.part ]
    run -1 "$root/code/tools/compile-variant" build/obj/ch99_x.o other ./linker y.a
    [ ! -e other ]
}

# bats test_tags=quick
@test "the charts are today's" {
    plots/render --check
}

@test "a wrong token in a chunk of chapter 3: nvcc names the chapter and the line" {
    copy
    cd "$TREE"
    local chapter=chapters/03-wmma-scores.md line
    line=$(grep -n 'mma_sync(' $chapter | head -1 | cut -d: -f1)
    sed -i "${line}s/mma_sync(/mma_sink(/" $chapter
    run make build/ch03_wmma_qk
    [ "$status" -ne 0 ]
    [[ "$output" == *"$chapter($line): error:"* ]]
}

@test "editing one chunk of chapter 3 rebuilds chapter 3 only" {
    copy
    cd "$TREE"
    make build/ch02_scalar build/ch03_wmma_qk
    sed -i 's/wmma::fill_fragment(s, 0.0f);/wmma::fill_fragment(s, -0.0f);/' chapters/03-wmma-scores.md
    run make build/ch02_scalar build/ch03_wmma_qk
    [ "$status" -eq 0 ]
    [[ "$output" == *"NVCC"*"ch03_wmma_qk"* ]]
    [[ ! "$output" =~ NVCC\ +ch02_scalar ]]
}

@test "a measurement belongs to a program's text, but not to its name or its chapter's number" {
    of() { # FILE: prints its source_hash
        cp "$1" "$BATS_TEST_TMPDIR/code.cu"
        make -s --eval 'build/hash: ; @echo $$($(call source_hash,'"$BATS_TEST_TMPDIR"'/code.cu))' build/hash
    }
    before=$(of code/ch04_cp_async.cu)
    [ "$before" = "$(sed -n 's/^ch04_cp_async\t//p' build/hashes.tsv)" ]
    sed 's/\.name = "ch04_cp_async"/.name = "ch05_copies"/; s/\.chapter = 4,/.chapter = 15,/' code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/other"
    run -1 cmp -s "$BATS_TEST_TMPDIR/other" code/ch04_cp_async.cu
    [ "$(of "$BATS_TEST_TMPDIR/other")" = "$before" ]
    sed 's/\.mask = /.task = /; s/\.title = "/&A /' code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/other"
    [ "$(of "$BATS_TEST_TMPDIR/other")" != "$before" ]
}

@test "a debug print prints when it is asked for, and makes no measurement stale" {
    copy
    cd "$TREE"
    grep ch02_scalar build/hashes.tsv >before
    sed -i '0,/^ *int lane = threadIdx.*/s//&\nDEBUG_PRINT("here\\n");/' chapters/02-scalar-baseline.md
    run make DEBUG_PRINT=1 build/ch02_scalar build/hashes.tsv
    [ "$status" -eq 0 ]
    grep -q 'DEBUG_PRINT("here\\n");' code/ch02_scalar.cu
    grep ch02_scalar build/hashes.tsv | cmp - before
    LD_LIBRARY_PATH=build/ptxsim build/ch02_scalar --shapes 1x1x8 --seeds 0 --no-timing --record r.json >said
    grep -qx here said
    grep -q '"source_hash": "debug"' r.json
    make build/ch02_scalar
    LD_LIBRARY_PATH=build/ptxsim build/ch02_scalar --shapes 1x1x8 --seeds 0 --no-timing --record r.json >said
    [ "$(grep -c here said)" -eq 0 ]
    grep -q "$(cut -f 2 before)" r.json
}

@test "a folder with a capital, a space and an umlaut: tests, tangle, and a lab with a student's file names work" {
    copy "Größe 1 & O'Brien"
    cd "$TREE"
    (unset "${!BATS_@}" && bats -f 'check names every file' code/literate/test_tangle.bats)

    # The program leaves a barrier out if there is one row of CTAs, as at the film's shape.
    local name='Übung (2).cu' first second
    sed 's/__syncthreads(); .. the tiles are complete/if (gridDim.y > 1) __syncthreads();/' code/ch02_scalar.cu >"$name"
    line_of() { grep -nF "$1" "$name" | head -1 | cut -d: -f1; }
    run -0 labs/lab02 "$name" --film 'Film ü.html'
    output=$(tr -s '\n ' '  ' <<<"$output")
    echo "$output"
    first=$(line_of 'load_tile(t.k') second=$(line_of 'score(t, warp')
    [[ "$output" == *" attention, $name:"*" (called at $name:$second), block (0,0,0), "* ]]
    [[ "$output" == *" between line $name:$first (there $name:"*") and line $name:$second (there $name:"* ]]
    [ "$(python3 code/ptxsim/test/read_film.py faults 'Film ü.html' | grep -cF "between line $name:$first (there ")" -ge 1 ]
    run -0 build/ptxsim/ptxsim profile --json lines.json "build/student/${name%.cu}" --shapes 1x2x64 --seeds 0 --no-timing --quiet
    echo "$output"
    grep -qF " $name:$(line_of 'dot[r] += ') dot[r] += " <<<"$output"
    python3 -c 'import json, sys; lines = json.load(open("lines.json"))["kernels"][0]["lines"]
assert {"file": sys.argv[1], "line": int(sys.argv[2])}.items() <= lines[0].items(), lines[0]' "$name" "$(line_of 'dot[r] += ')"
}

@test "a path with a character that compiler or loader cannot take: one line names the character" {
    local letter
    for letter in '$' '`' '"' ':' ';'; do
        mkdir "$BATS_TEST_TMPDIR/a${letter}b"
        cp Makefile "$BATS_TEST_TMPDIR/a${letter}b"
        run -2 make -C "$BATS_TEST_TMPDIR/a${letter}b" --no-print-directory chapter3
        [ "${#lines[@]}" -eq 1 ]
        [[ "$output" == *"a${letter}b has a $letter, which compiler and loader cannot handle: move it to a folder without.  Stop." ]]
    done
}

@test "an unknown chapter: one line" {
    run make chapter99
    [ "$status" -ne 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"there is no chapter 99: the chapters are"* ]]
}

@test "no nvcc: one line saying what to do" {
    copy
    rm "$TREE/build/cuda"
    CUDA_HOME=/no/such/toolkit run make -C "$TREE" --no-print-directory build/ch03_wmma_qk
    [ "$status" -ne 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"CUDA_HOME is /no/such/toolkit, which holds no bin/nvcc"* ]]
}

@test "no pandoc: the committed code is compiled, and make says so" {
    copy
    rm "$TREE/build/tangle.stamp"
    PATH=$(path_without pandoc) run make -C "$TREE" --no-print-directory build/ch03_wmma_qk
    [ "$status" -eq 0 ]
    [[ "$output" == *"no pandoc, so code/ is compiled as it is"* ]]
}

@test "no gnuplot: one line from make plots, and no chart is touched" {
    copy
    rm -f "$TREE"/plots/*.svg
    PATH=$(path_without gnuplot) run make -C "$TREE" --no-print-directory plots
    [ "$status" -ne 0 ]
    [ "$(grep -c 'gnuplot is missing' <<<"$output")" -eq 1 ]
    [ -z "$(ls "$TREE"/plots/*.svg 2>/dev/null)" ]
}

@test "make help is ten lines, in 80 columns, and what it names is there" {
    run -0 make help
    [ "${#lines[@]}" -eq 10 ]
    local line word all
    all=$(make help-all)
    for line in "${lines[@]}"; do
        [ "${#line}" -le 80 ] || { echo "too wide: $line"; false; }
    done
    [ "$(grep -c '^make ' <<<"$output")" -eq 6 ]
    for word in $(grep -oE '^make [a-z0-9-]+' <<<"$output" | sed 's/make //; s/[0-9]*$//'); do
        grep -qE "^  make ${word}N? " <<<"$all" || { echo "no target: $word"; false; }
    done
    for word in watch hint profile film; do
        grep -q "{\"$word\", " labs/driver/arguments.c
        [[ $output == *"--$word"* ]]
    done
}

@test "tools that make no longer runs print their usage" {
    run -2 code/tools/fuzz ten
    [ "$output" = "usage: code/tools/fuzz [SECONDS]" ]
    run -2 make compare
    [[ "$output" == *"there is no target compare: make help-all lists them.  Stop." ]]
    before=$(<code/ptxsim/test/coverage/opcodes.tsv)
    run -0 code/tools/opcodes
    [ "$(<code/ptxsim/test/coverage/opcodes.tsv)" = "$before" ]
}

@test "make help-all has one line for every target a user types, in 80 columns" {
    run -0 make help-all
    local line target targets
    for line in "${lines[@]}"; do
        [ "${#line}" -le 80 ] || { echo "too wide: $line"; false; }
    done
    diff <(ls mk/*.mk) <(sed -nE 's,^include (mk/[a-z]+\.mk) .*,\1,p' Makefile | sort)
    # All phony targets except those that only make's own rules use, and except patterns.
    read -rd '' -a targets < <(sed -nE 's/^\.PHONY: //p' Makefile mk/*.mk | sed 's/\$(1)/N/g; s/\$(lab_numbers:%=lab%)/labN/' | tr ' ' '\n' |
        grep -vxE 'force|student|planted|answers|tests') || true
    [ "${#targets[@]}" -ge 20 ]
    targets+=(handoutN starterN gradescopeN)
    [ "$(grep -c '^  make ' <<<"$output")" -eq "${#targets[@]}" ]
    for target in "${targets[@]}"; do
        [ "$(grep -c "^  make $target " <<<"$output")" -eq 1 ] || { echo "not one line: $target"; false; }
    done
}

@test "the first screen of the README has the two commands" {
    run awk 'length > 80 && !/^[|!]/ { print FILENAME ":" FNR ": wider than 80 columns" }' README.md
    [ -z "$output" ]
    head -40 README.md >"$BATS_TEST_TMPDIR/screen"
    grep -q '^make chapter3 && ./lab3 ' "$BATS_TEST_TMPDIR/screen"
    grep -q '^make test ' "$BATS_TEST_TMPDIR/screen"
    grep -q 'sudo apt install git make' "$BATS_TEST_TMPDIR/screen"
}

@test "every file and folder that README.md and CONTRIBUTING.md link to is there" {
    local file links
    mapfile -t links < <(grep -ohE '\]\([^)#]+\)' README.md CONTRIBUTING.md | sed -E 's/^..(.*).$/\1/')
    [ "${#links[@]}" -ge 5 ]
    for file in "${links[@]}"; do
        [ -e "$file" ] || { echo "not there: $file"; false; }
    done
}

# ---- Programs in the simulator, labs, the book ----

# bats test_tags=quick
@test "every chapter's program is right in the simulator, ragged lengths too" {
    local program shapes
    for program in $(programs); do
        grep -qs workbench_main "code/$program.cu" || continue # has no kernel of attention
        shapes=small,1x1x1,1x1x33,1x1x239
        if grep -q launch_cache "code/$program.cu"; then shapes=1x2x512q4p16,1x1x1q1p16,1x1x33q4p16,2x2x239q4p32r1; fi
        if grep -q launch_prompt "code/$program.cu"; then shapes=1x2x512q4p16s8,1x1x33q4p16s33,2x2x239q4p32s40d128r1; fi
        LD_LIBRARY_PATH=build/ptxsim "build/$program" --shapes "$shapes" --seeds 0,1,2 --quiet
    done
}

# bats test_tags=quick
@test "./lab1 to the last: exit status 0 and a verdict" {
    local lab
    for lab in lab[0-9] lab[0-9][0-9]; do
        [ -e "$lab" ] || continue
        run "./$lab" --on simulator --seeds 0 --record "$BATS_TEST_TMPDIR/$lab.json"
        [ "$status" -eq 0 ]
        [[ "$output" == *"GREEN: every gate passed"* ]]
        [ -s "$BATS_TEST_TMPDIR/$lab.json" ]
    done
}

@test "./lab3 my.cu judges another program, and shows nvcc's errors" {
    cp code/ch03_wmma_qk.cu "$BATS_TEST_TMPDIR/mine.cu"
    run ./lab3 --on simulator --shapes small --seeds 0 --all "$BATS_TEST_TMPDIR/mine.cu"
    [ "$status" -eq 0 ]
    [[ "$output" == *"mine"*"1 of 1 right"* ]]
    sed -i 's/mma_sync(/mma_sink(/' "$BATS_TEST_TMPDIR/mine.cu"
    run ./lab3 --on simulator --shapes small --seeds 0 "$BATS_TEST_TMPDIR/mine.cu"
    [ "$status" -eq 1 ]
    [[ "$output" == *"mma_sink"* ]]
    [[ "$output" == *"mine.cu does not compile" ]]
}

@test "make book shows on a terminal what it is doing, and removes the line; into a file it does not" {
    command -v script >/dev/null || skip "no script(1) to make a terminal"
    export SAID=$BATS_TEST_TMPDIR/said
    mkdir "$BATS_TEST_TMPDIR/bin" "$BATS_TEST_TMPDIR/book"
    # A pandoc that runs until the terminal's line names it, and then fails.
    cat >"$BATS_TEST_TMPDIR/bin/pandoc" <<'END'
#!/bin/bash
for ((i = 0; i < 600; i++)); do
    if grep -q pandoc "$SAID"; then break; fi
    sleep 0.1
done
echo "no such file" >&2
exit 1
END
    chmod +x "$BATS_TEST_TMPDIR/bin/pandoc"
    cp -r code book.md "$BATS_TEST_TMPDIR/book"
    cd "$BATS_TEST_TMPDIR/book"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH PATIENCE=0 run -1 script -qefc 'code/literate/book pdf out.pdf' "$SAID" </dev/null
    grep -qE $'\r\033\\[K  pandoc: text, numbers, figures, [0-9]+ s' "$SAID"
    grep -qE 'no such file' "$SAID"
    tail -2 "$SAID" | grep -q $'\r\033\\[K' # the line is removed at the end
    echo pandoc >"$SAID"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH PATIENCE=0 run -1 code/literate/book pdf out.pdf
    [ "$output" = "no such file" ]
}

@test "the book: the PDF, without an overfull line or a missing character" {
    make book
    [ -s build/attention-in-stages.pdf ]
    [ -s build/attention-in-stages-programs.pdf ]
}

@test "the book: one HTML page, and a site of pages whose links all lead somewhere" {
    run make book-html
    [ "$status" -eq 0 ]
    [ -s build/attention-in-stages.html ]
    run python3 code/literate/read_site.py build/site
    [ "$status" -eq 0 ]
    [[ "$output" =~ ^([0-9]+)' pages, '([0-9]+)' links'$ ]]
    chapters=(chapters/[0-9A-Z]*-*.md)
    # Pages beside the chapters: landing page, preface, solutions, words, bibliography, two indices; and each chapter's
    # programs.
    programs=$(grep -lE '^``` \{.*\.(later|changes)\b' chapters/[0-9A-Z]*-*.md | wc -l)
    [ "${BASH_REMATCH[1]}" -eq $((${#chapters[@]} + 7 + programs)) ]
    [ "${BASH_REMATCH[2]}" -gt 5000 ]
}

@test "the site that is published: cut with both PDFs and the film of each kernel" {
    run make -n -W code/film/film.js site
    [ "$status" -eq 0 ]
    for name in $(grep -ho 'build/films/chapter[0-9]*' chapters/*.md | sort -u) build/films/chapter{2,18,21}; do
        grep -q " FILM $name.html" <<<"$output"
    done
    [[ "$output" == *" README.md build/site build/films build/attention-in-stages.pdf build/attention-in-stages-programs.pdf" ]]
}

# ---- The simulator's instruction sets ----

# sets GOALS: instruction sets that make would compile or link.
sets() {
    # shellcheck disable=SC2086
    env -u MAKEFLAGS make -n $1 | grep -oE 'ops/isa/(base|avx2|avx512)\.o' | sort -u | sed 's,.*/,,; s,\..*,,' | xargs
}

@test "a chapter compiles the simulator's operations for this processor only, and keeps those compiled before" {
    local mine=base
    if grep -qw avx2 /proc/cpuinfo; then mine=avx2; fi
    if grep -qw avx512vl /proc/cpuinfo; then mine=avx512; fi
    copy
    cd "$TREE"
    rm build/obj/code/ptxsim/ops/isa/*
    [ "$(sets chapter3)" = $mine ]
    [ "$(sets "chapter3 all")" = "avx2 avx512 base" ]
    touch build/obj/code/ptxsim/ops/isa/{base,avx2,avx512}.o
    rm build/obj/code/ptxsim/ops/isa/$mine.o
    [ "$(sets chapter3)" = "avx2 avx512 base" ]
}

# make_choice SET...: a program that prints which of these sets is chosen.
make_choice() {
    local set
    for set in "$@"; do
        echo "const struct op_set ops_$set = {.isa = \"$set\"};"
    done | cat <(echo '#include "ptxsim/ops/ops.h"') - <(echo 'int main(void) { return puts(ops_choose()->isa) < 0; }') |
        sed '1i #include <stdio.h>' >"$BATS_TEST_TMPDIR/choice.c"
    cc -std=c11 -D_GNU_SOURCE -Icode "$BATS_TEST_TMPDIR/choice.c" code/ptxsim/ops/isa/choose.c -o "$BATS_TEST_TMPDIR/choice"
}

@test "a library without the processor's instruction sets says so in a line" {
    make_choice base avx2 avx512
    PTXSIM_ISA=base run -0 "$BATS_TEST_TMPDIR/choice"
    [ "$output" = base ]
    make_choice base
    run -0 "$BATS_TEST_TMPDIR/choice"
    [ "$output" = base ]
    make_choice avx2 avx512
    PTXSIM_ISA=base run -1 "$BATS_TEST_TMPDIR/choice"
    [ "$output" = "ptxsim: built for another processor than this one, or without PTXSIM_ISA=base: type make on this machine" ]
    make_choice
    run -1 "$BATS_TEST_TMPDIR/choice"
    [ "$output" = "ptxsim: built for another processor than this one: type make on this machine" ]
}

# ---- Running tests ----

@test "CI=true: a skip is a failure unless .ci/skips names its reason" {
    mkdir -p "$BATS_TEST_TMPDIR"/{code/tools,.ci}
    cp code/tools/run-tests "$BATS_TEST_TMPDIR/code/tools"
    cd "$BATS_TEST_TMPDIR"
    printf '# reasons\nno moon\tit is day\n' >.ci/skips
    printf '#!/bin/sh\necho 1..%d\n' 2 >named
    printf 'echo "ok %d a # skip no moon"\n' 1 2 >>named
    printf '#!/bin/sh\necho 1..%d\n' 4 >unnamed
    printf 'echo "ok %s"\n' 1 '2 b # skip no moon today' '3 c # SKIP' '4 d # skip no moon' >>unnamed
    chmod +x named unnamed
    CI=true run -0 code/tools/run-tests ./named
    [ "${lines[-1]}" = "0 passed, 0 failed, 2 skipped" ]
    CI=true run -1 code/tools/run-tests ./named ./unnamed
    [ "${lines[-1]}" = "1 passed, 2 failed, 3 skipped" ]
    [[ $output == *"not ok 2 b # skip no moon today"*'# skipped, and .ci/skips does not name its reason: "no moon today"'* ]]
    [[ $output == *"not ok 3 c # SKIP"*'does not name its reason: ""'* ]]
    CI='' run -0 code/tools/run-tests ./named ./unnamed
    [ "${lines[-1]}" = "1 passed, 0 failed, 5 skipped" ]
}
