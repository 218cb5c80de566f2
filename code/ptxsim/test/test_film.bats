# Films: they record what the simulator counts; the page opens at a fault, and says what is missing.

bats_require_minimum_version 1.5.0
load test_cases

setup_file() {
    cd "$BATS_TEST_DIRNAME/../../.."
    make -s build/ptxsim/ptxsim build/ptxsim/libcudart.so.13 build/lab build/tangle.stamp \
        build/{ch02_scalar,ch03_wmma_qk,ch04_cp_async,ch13_warp_specialised,ch15_registers,ch18_hopper}
    compile_cases code/ptxsim/test/races_cases.cu 89 16
}

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
    page=$BATS_TEST_TMPDIR/film.html
}

# film PROGRAM SHAPE [OPTION...]: makes a page of a chapter's program.
film() {
    local program=$1 shape=$2
    shift 2
    run --separate-stderr build/ptxsim/ptxsim profile --film "$page" "$@" "build/$program" --shapes "$shape" --seeds 0 --no-timing --quiet
    echo "$output$stderr"
    [ "$status" -eq 0 ]
}

# Makes a page of one of the planted bugs of races_cases.cu; `fault` gets the page's first fault.
film_case() { # NAME
    run --separate-stderr build/ptxsim/ptxsim profile --film "$page" "$BATS_FILE_TMPDIR/cases" "$1" wrong
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    fault=$(python3 code/ptxsim/test/read_film.py faults "$page" | head -1)
    echo "$fault"
}

# The line of a case's mistake, marked in its text.
line_of_case() { grep -nwE -- "// <- (.*, )?$1" code/ptxsim/test/races_cases.cu | cut -d: -f1; }

report() { # PROGRAM SHAPE
    LD_LIBRARY_PATH=build/ptxsim PTXSIM_REPORT=$BATS_TEST_TMPDIR/report.json \
        "build/$1" --shapes "$2" --seeds 0 --no-timing --quiet
}

@test "the films of all CTAs add up to the simulator's counts, line by line" {
    local program
    for program in ch02_scalar ch04_cp_async; do
        for cta in 0 1 2; do
            page=$BATS_TEST_TMPDIR/$cta.html
            film $program 1x1x96 --cta $cta,0,0
        done
        report $program 1x1x96
        python3 code/ptxsim/test/read_film.py counts "$BATS_TEST_TMPDIR"/report.json "$BATS_TEST_TMPDIR"/{0,1,2}.html
    done
}

# How often a warp tests an mbarrier depends on the order in which warps run, which may differ from run to run:
# so counts and film of one run are compared.
@test "the film of every chapter's only CTA has the counts of its own run" {
    local program shape programs=0
    for program in $(code/tools/stages program); do
        [ -e "code/$program.cu" ] || continue
        shape=1x1x32
        if grep -q launch_cache "code/$program.cu"; then shape+=q4p16; fi
        if grep -q launch_prompt "code/$program.cu"; then shape+=q4p16s16; fi
        LD_LIBRARY_PATH=build/ptxsim PTXSIM_REPORT=$BATS_TEST_TMPDIR/report.json \
            PTXSIM_FILM=$BATS_TEST_TMPDIR/film.json "build/$program" --shapes "$shape" --seeds 0 --no-timing --quiet
        build/ptxsim/ptxsim profile --film "$page" "$BATS_TEST_TMPDIR/film.json"
        python3 code/ptxsim/test/read_film.py counts "$BATS_TEST_TMPDIR/report.json" "$page" ||
            { echo "$program: counts differ"; return 1; }
        programs=$((programs + 1))
    done
    [ "$programs" -ge 18 ]
}

@test "a film leaves results and counts as they are" {
    report ch04_cp_async 1x1x96
    mv "$BATS_TEST_TMPDIR/report.json" "$BATS_TEST_TMPDIR/plain.json"
    PTXSIM_FILM=$BATS_TEST_TMPDIR/film.json report ch04_cp_async 1x1x96
    cmp "$BATS_TEST_TMPDIR/plain.json" "$BATS_TEST_TMPDIR/report.json"
    [ -s "$BATS_TEST_TMPDIR/film.json" ]
}

@test "tiles have the program's own names, and a page is small" {
    film ch04_cp_async 1x1x96
    python3 code/ptxsim/test/read_film.py said "$page" tiles | tee "$BATS_TEST_TMPDIR/tiles"
    grep -qF '{"name": "t.codes[1].v", "at": 6144, "element": 1, "type": "uint8_t", "dims": [32, 64]}' "$BATS_TEST_TMPDIR/tiles"
    grep -qF '{"name": "t.scores", "at": 20480, "element": 4, "type": "float", "dims": [32, 32]}' "$BATS_TEST_TMPDIR/tiles"
    film ch18_hopper 1x1x96
    python3 code/ptxsim/test/read_film.py said "$page" tiles | grep -qF '"name": "vt_full", "at": 51248'
    # Tiles of a template's structure, whose arguments are in the kernel's mangled name.
    film ch15_registers 1x1x96
    python3 code/ptxsim/test/read_film.py said "$page" tiles | grep -qF '{"name": "tiles[2].v", "at": 40960, "element": 2, "type": "__half", "dims": [64, 64]}'
    [ "$(stat -c %s "$page")" -lt $((8 << 20)) ]
    [ "$(python3 code/ptxsim/test/read_film.py said "$page" cut)" = false ]
}

# The number of the first line of chapter 3 that has these words.
line_of_chapter3() { grep -nF "$1" chapters/03-wmma-scores.md | head -1 | cut -d: -f1; }

@test "values on request: a fragment's registers are the elements that are read from shared memory" {
    local scale
    scale=$(grep -nF 'float s = t.scores[row][lane]' chapters/02-scalar-baseline.md | head -1 | cut -d: -f1)
    film ch03_wmma_qk 1x1x96 --values "$(line_of_chapter3 'wmma::store_matrix_sync(&t.scores'),02-scalar-baseline.md:$scale"
    python3 code/ptxsim/test/read_film.py values "$page"
    # The page has no values of lines that were not asked for.
    film ch03_wmma_qk 1x1x96 --values "my.cu:$scale"
    run python3 code/ptxsim/test/read_film.py values "$page"
    [ "$status" -eq 1 ]
}

@test "without JavaScript the page has the counts of each line" {
    film ch02_scalar 1x1x96
    line=$(grep -n 't.accum\[row\]\[d\] \* norm' chapters/02-scalar-baseline.md | head -1 | cut -d: -f1)
    grep -q "<tr><td>chapters/02-scalar-baseline.md:$line</td><td>[0-9]*</td><td>64</td><td>0</td>" "$page"
    [ "$(grep -cE "https?://" "$page")" -eq 0 ]
}

@test "a missing barrier: both lines, both lanes, and the sentence" {
    film_case read_early
    line=$(line_of_case read_early)
    [[ "$fault" == race$'\t'$((line - 3))$'\t'$line$'\t'"A barrier is missing (__syncthreads()) between line races_cases.cu:$((line - 3)) and line races_cases.cu:$line: warp 0, lane 0 reads tile[40] before warp 1, lane 8 writes it, and nothing makes it wait. If they should not share that place, look at the index." ]]
    [[ "${lines[1]}" == "A barrier is missing (__syncthreads()) between "* ]]
    grep -q "<strong>A barrier is missing (__syncthreads()) between" "$page"
}

@test "a missing barrier at the end of a loop: the next round comes too early" {
    film_case overwrite
    line=$(line_of_case overwrite)
    [[ "$fault" == race$'\t'$((line + 2))$'\t'$line$'\t'"A barrier is missing (__syncthreads()) between line races_cases.cu:$((line + 2)) and line races_cases.cu:$line of the next time round: "*" writes tile["*" before "*" reads it, "* ]]
}

@test "between lanes of one warp a __syncwarp() is missing" {
    film_case warp_step
    [[ "$fault" == race$'\t'*"A barrier is missing (__syncwarp()) between "* ]]
}

@test "rows that overlap: two threads write one place in the same round, and no barrier is asked for" {
    film_case overlap
    line=$(line_of_case overlap)
    [ "$fault" = race$'\t'"$line"$'\t'"$line"$'\t'"Two threads use the same place at line races_cases.cu:$line: warp 0, lane 28 writes tile[24], and warp 1, lane 0 writes it in the same round. A barrier would only decide who is last: look at the address." ]
    film_case overlap_global
    [[ "$fault" == *"Two threads use the same place at line races_cases.cu:$(line_of_case overlap_global): warp 0, lane 28 writes byte 96 of an allocation in global memory, and warp 1, lane 0 writes it in the same round. A barrier would only decide who is last: look at the address." ]]
}

@test "a line that reads what the same line of another thread writes: no barrier is asked for" {
    film_case neighbour
    [[ "$fault" == *"Two threads use the same place at line races_cases.cu:$(line_of_case neighbour): warp 0, lane 0 reads tile[32], and warp 1, lane 0 writes it in the same round. No barrier stands between a line and itself: look at the address. If it is meant, use an atomic operation, or "* ]]
}

@test "an access past the end of the tile that its line names: the address is wrong" {
    film_case runs_over
    line=$(line_of_case runs_over)
    [[ "$fault" == *"An address is wrong at line races_cases.cu:$line: the line names lists.from, but warp 2, lane 0 reads lists.to[0] there, which warp 0, lane 0 writes at line races_cases.cu:$((line + 1)). A barrier would only decide who is first: look at the index and at the distance of two rows." ]]
}

@test "a barrier is asked for where rounds follow each other, or where a line names two tiles as one" {
    film_case turns
    line=$(line_of_case turns)
    [[ "$fault" == *"A barrier is missing (__syncthreads()) between line races_cases.cu:$line and line races_cases.cu:$line of the next time round: "* ]]
    film_case two_tiles
    line=$(line_of_case two_tiles)
    [[ "$fault" == *"A barrier is missing (__syncthreads()) between line races_cases.cu:$line and line races_cases.cu:$((line + 3)): "* ]]
}

@test "a copy that nothing waits for" {
    film_case copy_wait
    [[ "$fault" == race$'\t'"$(line_of_case copy_wait)"$'\t'*"A wait is missing before line "*" is still on its way."* ]]
}

@test "a read of memory that nobody has written: the film says that no write came before" {
    film_case uninitialised
    [[ "$fault" == uninitialised$'\t'"$(line_of_case uninitialised)"$'\t'*"A write is missing before line "* ]]
}

@test "an invalid address and a barrier in a branch: the sentence is printed without a page, too" {
    local line
    film_case bounds
    line=$(line_of_case bounds)
    [[ "$fault" == "out of bounds"$'\t'"$line"$'\t'*"An address is wrong at line races_cases.cu:$line, \`out[t] = in["*"\`: warp 0, lane 0 reads 4 bytes at 0x"*", 0 bytes past the end of the allocation of "*" bytes. Look at the index; "* ]]
    film_case divergent
    line=$(line_of_case divergent)
    [[ "$fault" == *"A barrier stands where not all threads come: at line races_cases.cu:$line some lanes wait, "* ]]
    run --separate-stderr build/ptxsim/ptxsim profile --fault "$BATS_FILE_TMPDIR/cases" divergent wrong
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 3 ]
    [ "${lines[0]}" = "divergent barrier" ]
    [[ "${lines[2]}" == "A barrier stands where not all threads come: "* ]]
    run --separate-stderr build/ptxsim/ptxsim profile --fault "$BATS_FILE_TMPDIR/cases" divergent right
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "a deadlock: the film shows which warps wait for what" {
    film_case arrivals
    spins=$(line_of_case arrivals)
    [[ "$fault" == deadlock$'\t'*"Nobody goes on: warps 0, 1 wait at line races_cases.cu:$(line_of_case fills) (there races_cases.cu:$spins) for the mbarrier empty[0], which lacks 64 of 64 arrivals; warps 2, 3 wait at line races_cases.cu:$(line_of_case waits) (there races_cases.cu:$spins) for the mbarrier full[0], which lacks 1 of 65 arrivals. "* ]]
}

# code/ptxsim/test/faults.tsv says how the film of each of the book's planted races and wrong barriers opens. Chapter
# 23's bugs are left out: its program runs a model and no shape.
@test "the films of the planted bugs open at the culprit lines, and say what is missing" {
    local bug shape wanted status=0
    # shellcheck disable=SC2046
    make -s $(sed '/^#/d; s,\t.*,,; s,^,build/planted/,' code/ptxsim/test/faults.tsv)
    diff <(awk -F'\t' '$4 == "race" && $1 !~ /^ch23_/ { print $1 "." $2 }' build/mutants/list.tsv | sort) \
        <(awk -F'\t' '$3 == "race" { print $1 }' code/ptxsim/test/faults.tsv | sort)
    while IFS=$'\t' read -r bug shape _ wanted; do
        build/ptxsim/ptxsim profile --film "$page" "build/planted/$bug" --shapes "$shape" --seeds 0 --no-timing --quiet >/dev/null 2>&1
        diff <(echo "$wanted") <(python3 code/ptxsim/test/read_film.py culprit "$page") || status=1
    done < <(sed '/^#/d' code/ptxsim/test/faults.tsv)
    [ "$status" -eq 0 ]
}

@test "a fault in a CTA other than the first: that CTA is filmed" {
    film_case last_block
    python3 code/ptxsim/test/read_film.py said "$page" cta
    [ -n "$fault" ]
    film ch04_cp_async 1x1x96 --cta 2,0,0
    [ "$(python3 code/ptxsim/test/read_film.py said "$page" cta)" = "[2, 0, 0]" ]
}

@test "./lab4 --film writes a page, with a shape and a CTA of its own" {
    run labs/lab04 --film "$page"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "  film     $page" ]
    [ "$(python3 code/ptxsim/test/read_film.py said "$page" grid)" = "[3, 1, 1]" ]
    run labs/lab04 --film "$page" --film-shape 1x2x64 --film-cta 1,1,0
    [ "$status" -eq 0 ]
    [ "$(python3 code/ptxsim/test/read_film.py said "$page" cta)" = "[1, 1, 0]" ]
}

@test "what cannot be filmed is refused in one line" {
    refused() { # STATUS WORDS COMMAND...
        local status_wanted=$1 words=$2
        shift 2
        run --separate-stderr "$@"
        echo "$stderr"
        [ "$status" -eq "$status_wanted" ]
        [ "$(tail -1 <<<"$stderr")" = "$words" ]
    }
    refused 2 'lab4: --film-shape: "1x1" is no shape: write BxHxS (2x8x512) or small, mission, long, huge' labs/lab04 --film "$page" --film-shape 1x1
    refused 2 'lab4: --film-cta: "1" is no CTA: X,Y,Z' labs/lab04 --film "$page" --film-cta 1
    refused 2 'lab4: --film-cta goes with --film FILE.html' labs/lab04 --film-cta 0,0,0
    refused 2 'lab4: --film-values goes with --film FILE.html' labs/lab04 --film-values 20
    refused 2 'lab4: --film writes a page and judges nothing: leave out --profile' labs/lab04 --film "$page" --profile
    refused 3 'lab4: no film: no kernel was launched with a CTA 9,0,0' labs/lab04 --film "$page" --film-cta 9,0,0
    refused 2 "ptxsim profile: cannot write $BATS_TEST_TMPDIR/none/film.html: No such file or directory" \
        build/ptxsim/ptxsim profile --film "$BATS_TEST_TMPDIR/none/film.html" build/ch02_scalar --shapes 1x1x32 --seeds 0 --no-timing --quiet
    [ ! -e "$page" ]
}

@test "a film too long for a page is cut, and says so; the steps that it has are complete" {
    PTXSIM_CHECK=memory film ch02_scalar 1x1x2944 # without races, which a film would open at
    [ "${lines[-1]}" = "$page: cut: the kernel goes on after what a page of 8 MB holds; a smaller shape shows it whole" ]
    [ "$(python3 code/ptxsim/test/read_film.py said "$page" cut)" = true ]
    [ "$(stat -c %s "$page")" -lt $((8 << 20)) ]
    command -v chromium >/dev/null || skip "no chromium"
    python3 code/ptxsim/test/watch_films.py "$page" >"$BATS_TEST_TMPDIR/said"
    python3 code/ptxsim/test/read_film.py watched "$BATS_TEST_TMPDIR/said" walks
    python3 code/ptxsim/test/read_film.py watched "$BATS_TEST_TMPDIR/said" counts
}

# The recorder has a limit of its own. These recordings are below that limit, but their pages would
# be larger than 8 MB.
@test "a page that its values, its patterns or a second CTA make too large is cut to fit, and opens" {
    local recording=$BATS_TEST_TMPDIR/recording.json values kind
    values=$(seq -s, 1 1200)
    fits() {
        echo "$output"
        [ "$status" -eq 0 ]
        [ "${lines[-1]}" = "$page: cut: the kernel goes on after what a page of 8 MB holds; a smaller shape shows it whole" ]
        [ "$(stat -c %s "$page")" -lt $((8 << 20)) ]
        [ "$(stat -c %s "$page")" -gt $((2 << 20)) ]
    }
    LD_LIBRARY_PATH=build/ptxsim PTXSIM_FILM=$recording PTXSIM_FILM_VALUES=$values \
        build/ch03_wmma_qk --shapes 1x1x384 --seeds 0 --no-timing --quiet
    head -c 1000 "$recording" | grep -qF '"cut":false'
    run build/ptxsim/ptxsim profile --film "$page" "$recording"
    fits
    [ "$(python3 code/ptxsim/test/read_film.py said "$page" cut)" = true ]
    mv "$page" "$BATS_TEST_TMPDIR/values.html"
    PTXSIM_CHECK=off run --separate-stderr build/ptxsim/ptxsim profile --film "$page" "$BATS_FILE_TMPDIR/cases" gathers right
    fits
    mv "$page" "$BATS_TEST_TMPDIR/patterns.html"
    make -s build/planted/ch12_persistent.plain-counter
    run --separate-stderr build/ptxsim/ptxsim profile --film "$page" --values "$values" build/planted/ch12_persistent.plain-counter --shapes 1x1x640 --seeds 0 --no-timing --quiet
    fits
    command -v chromium >/dev/null || skip "no chromium"
    python3 code/ptxsim/test/watch_films.py "$BATS_TEST_TMPDIR"/{values,patterns}.html "$page" >"$BATS_TEST_TMPDIR/said"
    for kind in walks counts; do
        python3 code/ptxsim/test/read_film.py watched "$BATS_TEST_TMPDIR/said" $kind
    done
}

@test "./lab4 my.cu --film: a kernel without one of its barriers, to the sentence that says which" {
    local first second
    sed "s,__syncthreads(); // everybody's part.*,," code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/my.cu"
    first=$(grep -n 'copy_tile(t, tile, k, v, seq_len);' "$BATS_TEST_TMPDIR/my.cu" | cut -d: -f1)
    second=$(grep -n 'convert(t.k, ' "$BATS_TEST_TMPDIR/my.cu" | cut -d: -f1)
    run labs/lab04 "$BATS_TEST_TMPDIR/my.cu" --film "$page" --film-values my.cu:"$second"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$(tr -s ' \n' ' ' <<<"$output")" == *"A barrier is missing (__syncthreads()) between line my.cu:$first "*" and line my.cu:$second "* ]]
    [ "$(python3 code/ptxsim/test/read_film.py said "$page" chapter)" = '"00"' ] # no lessons: they speak of chapter 4's program
}

# ---- In a browser -------------------------------------------------------------------------------

# watched CHECK [ARGUMENT...]: whether all pages pass a check of read_film.py. Chromium has watched all pages in one
# session; the file "said" has a line for each page.
watched() { # CHECK [ARGUMENT...]
    command -v chromium >/dev/null || skip "no chromium"
    python3 code/ptxsim/test/read_film.py watched "$BATS_FILE_TMPDIR/said" "$@"
}

@test "in a browser: each chapter's film goes to the end and back without an error" {
    command -v chromium >/dev/null || skip "no chromium"
    make -s films
    [ -z "$(find build/films -name '*.html' -size +8388607c)" ]
    film_case read_early
    local bug bugs=(ch04_cp_async.barrier-before-wait ch12_persistent.plain-counter ch13_one_producer.one-too-many)
    make -s "${bugs[@]/#/build/planted/}"
    for bug in "${bugs[@]}"; do
        build/ptxsim/ptxsim profile --film "$BATS_TEST_TMPDIR/$bug.html" "build/planted/$bug" --shapes 1x1x96 --seeds 0 --no-timing --quiet >/dev/null 2>&1
    done
    build/ptxsim/ptxsim profile --film "$BATS_TEST_TMPDIR/values.html" --values "$(line_of_chapter3 'wmma::store_matrix_sync(&t.scores')" \
        build/ch03_wmma_qk --shapes 1x1x96 --seeds 0 --no-timing --quiet >/dev/null 2>&1
    sed '/^<script type="application/i <script>const CHUNKS = {"chapters/03-wmma-scores.md": [[1, 399, "../chapter3.html#here"]]};</script>' \
        build/films/chapter3.html >"$BATS_TEST_TMPDIR/linked.html"
    python3 code/ptxsim/test/watch_films.py build/films/chapter*.html "$BATS_TEST_TMPDIR"/*.html 'build/films/chapter4.html?colours=dark#step=77' \
        build/films/chapter13.html#bookmark=producer-waits >"$BATS_FILE_TMPDIR/said"
    [ "$(wc -l <"$BATS_FILE_TMPDIR/said")" -eq $(($(find build/films -name 'chapter*.html' | wc -l) + 8)) ]
    watched walks
}

@test "in a browser: as many wavefronts are drawn as counted, and counts equal the recording's, line by line" {
    watched counts
}

@test "in a browser: every lesson of every chapter is found, and shows what its sentence says" {
    watched lessons code/ptxsim/test/lessons.tsv
}

@test "in a browser: a film opens at its first lesson, at its race, or where its address says" {
    watched opens
}

@test "in a browser: lesson after lesson by one button, and a film that plays until the reader takes a step" {
    watched tours
}

@test "in a browser: on a site each line links to its chunk, and keys reach the link of the current step" {
    watched chunks
}

@test "in a browser: the current step's line is scrolled into view, however the reader got to the step" {
    watched seen
}

@test "in a browser: light or dark as the address asks" {
    watched colours
}

@test "in a browser: a fragment's values are told with their elements" {
    watched held
}

@test "in a browser: the buffers of a ring are listed with who touched them last" {
    watched buffers
}

@test "in a browser: painted in less than two seconds, and sixty steps a second" {
    watched quick
}
