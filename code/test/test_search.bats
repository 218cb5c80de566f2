# Chapter 14's search: with shell scripts in place of the compiler and the programs, so that every
# verdict occurs and nothing takes long; the last tests have the real ones, in the simulator.

bats_require_minimum_version 1.5.0

setup() {
    ROOT=$PWD
    cd "$BATS_TEST_TMPDIR"
    mkdir build labs bin
    touch calls
    ln -s "$ROOT/build/ch14_search" build/
    printf 'ch13_warp_specialised\t%064d\nch14_autotune.any\t%064d\n' 13 14 >build/hashes.tsv
    fake_candidates
    fake_gpu
    PATH=$PWD/bin:$PATH
}

# Stand-ins: fast_exp does not change the machine code, block_n = 128 is a syntax error, block_m =
# 128 needs too much shared memory, a single stage is wrong; the times of the rest follow from their
# knobs.
fake_candidates() {
    cat >labs/candidates <<'SH'
#!/bin/bash
while IFS=- read -r m n w s p q e z; do
    out=$1/$m-$n-$w-$s-$p-$q-$e-$z
    echo "compile ${out##*/}" >>calls
    [ "$n" != 128 ] || { echo 'x.cu(1): error: expected a ;' >"$out.error"; continue; }
    echo "$m-$n-$w-$s-$p-$q-$z" | sha256sum | cut -c1-16 >"$out.code"
    cat >"$out" <<PROGRAM
#!/bin/bash
name=${out##*/} shared=$((m == 128 ? 70000 : 40000)) wrong=$((s == 1)) occupancy=0.$((s == 2 ? 41 : 25))
us=$((60 - 20 * z - m / 8 - s - 2 * p - q + n / 16)).5
PROGRAM
    cat >>"$out" <<'PROGRAM'
interrupt() { # sends SIGINT to the search, an ancestor
    pid=$PPID
    until [ "$(ps -o comm= "$pid")" = ch14_search ]; do pid=$(ps -o ppid= "$pid" | tr -d ' '); done
    kill -INT "$pid"
}
case "$*" in
*--resources*) echo "resources $name" >>calls
    echo "{\"local_bytes\": 0, \"sm_89\": {\"registers\": 99, \"shared_bytes\": $shared, \"local_bytes\": 0, \"occupancy\": $occupancy}}" ;;
*--record*) echo "time $name $*" >>calls
    [ ! -e stop-here ] || [ "$(grep -c ^time calls)" -lt "$(cat stop-here)" ] || interrupt
    for last; do :; done
    timing="{\"timing\": {\"p50_us\": $us}}"
    echo "{\"resources\": {\"registers\": 99}, \"shapes\": {\"small\": $timing, \"mission\": $timing, \"long\": $timing}}" >"$last" ;;
*--no-timing*) echo "check $name" >>calls
    [ $wrong = 0 ] || { echo "FAIL \"head 1\" is off by 7 µ\\"; exit 1; } ;;
esac
PROGRAM
    chmod +x "$out"
done
SH
    chmod +x labs/candidates
}

fake_gpu() {
    printf '#!/bin/sh\necho "NVIDIA Fake"\n' >bin/nvidia-smi
    chmod +x bin/nvidia-smi
}

search() {
    build/ch14_search --budget 40 "$@"
}

# python CODE: `journal` is the list of the journal's candidates, `elite` the contents of the search's elite.json.
python() {
    python3 - "$1" <<'PYTHON'
import json, os, sys
journal = [json.loads(line) for line in open("build/tune/journal.jsonl")][1:]
elite = json.load(open("build/tune/elite.json")) if os.path.exists("build/tune/elite.json") else None
exec(sys.argv[1])
PYTHON
}

fails_with() { # STATUS TEXT
    [ "$status" -eq "$1" ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$2"* ]] || { echo "not in: $output"; false; }
}

@test "a search meets every verdict, and every line fits 80 columns" {
    search >said
    python 'assert sum(c["generation"] < 9999 for c in journal) == 40'
    python 'assert {c["verdict"] for c in journal} == {"not built", "same", "refused", "wrong", "timed"}'
    [ "$(wc -L <said)" -le 80 ]
    grep -q '^  tried .*  m .* stages prod ' said
    grep -qE '^ +1/40 +32 +32 +2 +2 +0 +0 +0 +0 +56\.50 us  best$' said
    grep -qE 'refused: 70000 bytes shared$' said
    grep -qE 'same as [0-9-]+$' said
    grep -qE 'not built: x.cu\(1\): error: ' said
    grep -qE 'wrong: FAIL "head 1" is off' said
}

@test "only checked candidates are timed, and only those within the limits are checked" {
    search >said
    python 'for c in journal: print(c["verdict"], c["knobs"])' >verdicts
    for name in $(sed -n 's/^timed //p' verdicts); do
        [ "$(grep -E "^[a-z]+ $name( |$)" calls | cut -d' ' -f1 | head -4 | xargs)" = "compile resources check time" ]
    done
    run -1 grep -E "^time ($(sed -n 's/^wrong //p; s/^refused //p; s/^same //p' verdicts | paste -sd '|')) " calls
    run -1 grep -E "^check ($(sed -n 's/^refused //p; s/^same //p' verdicts | paste -sd '|'))$" calls
    run -1 grep -E "^resources ($(sed -n 's/^same //p' verdicts | paste -sd '|'))$" calls
}

@test "the best is better than its neighbours, the elite is timed 500 times, best first" {
    search --iters 500 >said
    python 'assert elite["runtime"] == "gpu" and elite["on"] == "NVIDIA Fake"'
    python 'assert elite["source_hashes"]["ch14_autotune.any"][-2:] == "14"'
    python 'scores = [e["score"] for e in elite["elite"]]; assert len(scores) == 3 and scores == sorted(scores)'
    python 'assert elite["changes_of"] == elite["elite"][0]["knobs"]'
    python 'times = [c["score"] for c in elite["changes"] if c["verdict"] == "timed"]
assert len(times) > 5 and min(times) >= elite["elite"][0]["score"]'
    python 'off = [c for c in elite["changes"] if c["knob"] == "swizzle"]
assert len(off) == 1 and off[0]["value"] == 0 and off[0]["score"] > elite["elite"][0]["score"] + 19'
    [ "$(grep -c -- '--shapes small,mission,long --seeds 0,1,2 --iters 500' calls)" -eq 3 ]
    python 'assert sum(elite["verdicts"].values()) == elite["tried"] == len(journal)'
}

@test "a search with a least occupancy refuses candidates below it, and does not continue another search" {
    search --occupancy 40 >said
    grep -qE 'refused: 25 % occupancy$' said
    python 'timed = [c["knobs"].split("-")[3] for c in journal if c["verdict"] == "timed"]; assert set(timed) == {"2"}'
    python 'assert elite["occupancy"] == 40 and all(e["knob"]["stages"] == 2 for e in elite["elite"])'
    run search
    fails_with 2 "journal.jsonl is of another search"
}

@test "with a journal from elsewhere the elite is compiled for its last measurement" {
    search --budget 10 --no-neighbours >said
    mv build/tune first
    mkdir build/tune
    cp first/journal.jsonl build/tune/
    : >calls
    search --budget 10 --no-neighbours >said
    cmp first/elite.json build/tune/elite.json
    [ "$(grep -c ^compile calls)" -eq 3 ]
}

@test "a search with the same seed tries the same candidates, one with another seed does not" {
    search >said
    mv build/tune first
    search >/dev/null
    cmp first/journal.jsonl build/tune/journal.jsonl
    rm -r build/tune
    search --seed 2 >/dev/null
    run -1 diff <(sed 1d first/journal.jsonl) <(sed 1d build/tune/journal.jsonl)
}

@test "a search that is interrupted three times and resumed finds what it finds without interruption" {
    search >said
    mv build/tune whole
    : >calls
    for at in 3 9 20; do
        echo $at >stop-here
        run search
        [ "$status" -ne 0 ]
        [ ! -e build/tune/elite.json ]
    done
    rm stop-here
    search >said
    grep -q 'going on after' said
    cmp whole/journal.jsonl build/tune/journal.jsonl
    cmp whole/elite.json build/tune/elite.json
    # Known candidates are not tried again: an interruption costs the one candidate that was under
    # way.
    [ "$(grep -c ^time calls)" -eq $(($(grep -c '"timed"' whole/journal.jsonl) + 3 + 3)) ]
}

@test "a half-written last line is dropped" {
    search >said
    cp build/tune/journal.jsonl whole
    truncate -s -20 build/tune/journal.jsonl
    search >said
    cmp whole build/tune/journal.jsonl
    grep -q 'going on after' said
}

@test "a larger budget goes on from where a smaller one ended" {
    search --budget 10 --no-neighbours >said
    search --budget 24 --no-neighbours >said
    mv build/tune two
    search --budget 24 --no-neighbours >said
    cmp two/journal.jsonl build/tune/journal.jsonl
    [ "$(wc -l <two/journal.jsonl)" -eq 25 ]
}

@test "the journal of another search, a broken one, and one in use are refused" {
    search --budget 2 --no-neighbours >said
    run search --seed 7
    fails_with 2 "journal.jsonl is of another search"
    sed -i 's/\(ch14_autotune.any\t\)0/\11/' build/hashes.tsv
    run search
    fails_with 2 "journal.jsonl is of another search"
    sed -i 's/\(ch14_autotune.any\t\)1/\10/' build/hashes.tsv
    cp build/tune/journal.jsonl whole
    sed -i '2s/timed/fine/' build/tune/journal.jsonl
    run search
    fails_with 2 "journal.jsonl:2: not a line of a journal"
    sed 2p whole >build/tune/journal.jsonl # a candidate twice
    run search
    fails_with 2 "journal.jsonl:3: not a line of a journal"
    cp whole build/tune/journal.jsonl
    run flock build/tune/journal.jsonl build/ch14_search
    fails_with 3 "another search is at work in build/tune"
    cmp whole build/tune/journal.jsonl
}

# The journal of the book's search, in place of compiler and GPU.
@test "replayed with the book's seed and budget, the search asks and finds what the book's search did" {
    journal=$ROOT/plots/runs/h200/search.jsonl
    build/ch14_search --replay "$journal" --budget 72 >said
    [ "$(wc -L <said)" -le 80 ]
    grep -q '^mission on NVIDIA H200, replayed; seed 1, 72 candidates$' said
    [ "$(tail -1 said)" = "best: 64-64-2-2-0-0-0-1, 10.04 us; 91 asked for, 0 not in the journal" ]
    diff <(sed -nE 's/^ *[0-9]+(\/72)? +([0-9]+( +[0-9]+){7})  .*/\2/p' said | tr -s ' ' -) \
        <(sed -nE 's/.*"knobs": "([0-9-]+)".*/\1/p' "$journal")
    build/ch14_search --replay "$journal" --seed 2 >said
    grep -qE '^ *[0-9]+/48 .*  untried: not in the journal$' said
    [ ! -e build/tune ]
    [ ! -s calls ]
}

@test "replayed by an answering process: one question for each candidate; without an answer the search ends" {
    answer() { # answers with a score that depends on block_n alone
        while read -r word knobs; do
            [ "$word" = ask ] || continue
            echo "$knobs" >>asked
            IFS=- read -r _ n _ <<<"$knobs"
            echo "{\"knobs\": \"$knobs\", \"generation\": 0, \"verdict\": \"timed\", \"score\": $((200 - n)), \"code\": \"\", \"said\": \"\"}"
        done
    }
    mkfifo there
    # shellcheck disable=SC2094 # `there` carries the answers back
    build/ch14_search --replay - --budget 20 <there | tee said | answer >there
    [ "$(wc -l <asked)" -eq "$(sort -u asked | wc -l)" ]
    [[ $(tail -1 said) == "best: "*"-128-"*", 72.00 us; $(wc -l <asked) asked for, 0 not in the journal" ]]
    run build/ch14_search --replay - </dev/null
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} == "ch14_search: no answer to 32-32-2-2-0-0-0-0: the replay is over" ]]
    run build/ch14_search --replay - <<<'{"knobs": "32-32-2-2-0-0-0-0"}'
    [ "$status" -eq 1 ]
}

@test "the children of a candidate are the same for the same seed" {
    build/ch14_search --children 64-64-2-2-0-0-0-1 >one
    build/ch14_search --children 64-64-2-2-0-0-0-1 | cmp - one
    [ "$(grep -cE '^child [0-9]+(-[0-9]+){7}$' one)" -eq 500 ]
    build/ch14_search --children 64-64-2-2-0-0-0-1 --seed 2 >two
    run -1 cmp -s one two
}

@test "bad options: one line, and nothing is written" {
    try() { # STATUS TEXT OPTION...
        local status_wanted=$1 text=$2
        shift 2
        run build/ch14_search "$@"
        fails_with "$status_wanted" "$text"
    }
    try 2 "--budget: a number from 1 to 900, not '0'" --budget 0
    try 2 "--jobs: a number from 1 to 256, not 'two'" --jobs two
    try 2 "--iters: a number" --iters 1x
    try 2 "--occupancy: a number from 0 to 100, not '-1'" --occupancy -1
    try 2 "--shape: " --shape pentagon
    try 2 "--shape: letters" --shape 'small;date'
    try 2 "--folder: letters" --folder 'a b'
    try 2 "--on: gpu or simulator, not 'mars'" --on mars
    try 3 "/nowhere/elite.json: cannot write there" --elite /nowhere/elite.json
    try 2 "'more' is not an option" more
    try 2 "unrecognized option" --colour
    try 2 "--children: knobs as in 32-32-2-2-0-0-0-1, not '32-32'" --children 32-32
    try 2 "--replay nowhere: No such file" --replay nowhere
    echo '{"search": "mission"}' >odd
    try 2 "odd:1: not a line of a journal" --replay odd
    printf '%s\n' '{"search": "mission", "on": "a GPU"}' '{"knobs": "32-32-2-2"}' >odd
    try 2 "odd:2: not a line of a journal" --replay odd
    : >odd
    try 2 "odd: an empty journal" --replay odd
    rm bin/nvidia-smi
    [ -n "$(command -v nvidia-smi)" ] || try 3 "--on gpu: nvidia-smi finds none" --on gpu
    rm build/hashes.tsv
    try 3 "make chapter14" --on simulator
    [ ! -s calls ]
    [ ! -e build/tune/journal.jsonl ]
}

@test "without its compiler the search stops and says so" {
    printf '#!/bin/sh\necho "candidates: build/flags is missing" >&2\nexit 3\n' >labs/candidates
    run search
    [ "$status" -eq 3 ]
    [[ $output == *"build/flags is missing"*"labs/candidates build/tune 2 0 failed"* ]]
    [ "$(wc -l <build/tune/journal.jsonl)" -eq 1 ]
}

@test "where everything is wrong there is no elite" {
    sed -i 's/wrong=$((s == 1))/wrong=1/' labs/candidates
    run search
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} == *"no candidate of the first generation was right" ]]
    [ ! -e build/tune/elite.json ]
}

@test "the real search in the simulator: two ancestors are compiled, checked, and bounded" {
    cd "$ROOT"
    build/ch14_search --on simulator --shape small --budget 2 --no-neighbours \
        --folder "$BATS_TEST_TMPDIR/build/tune" >"$BATS_TEST_TMPDIR/said"
    cd "$BATS_TEST_TMPDIR"
    grep -q 'floor on an L4, not a time' said
    python 'assert elite["runtime"] == "simulator" and len(elite["elite"]) == 2 and "timing" not in elite["elite"][0]'
    # Chapter 10's finding: without the swizzle, shared memory is the bottleneck.
    python 'best, other = elite["elite"]; assert best["knob"]["swizzle"] == 1 and other["score"] > best["score"]'
    python 'assert len({c["code"] for c in journal}) == 2'
}

@test "knobs that mean the same are the same machine code, others are not" {
    cd "$ROOT"
    printf '%s\n' 32-32-2-2-0-0-0-1 32-32-2-2-0-0-0-01 32-32-2-2-0-0-0-0 |
        labs/candidates "$BATS_TEST_TMPDIR/knobs" 1
    cd "$BATS_TEST_TMPDIR/knobs"
    cmp 32-32-2-2-0-0-0-1.code 32-32-2-2-0-0-0-01.code
    run -1 cmp -s 32-32-2-2-0-0-0-1.code 32-32-2-2-0-0-0-0.code
    run -1 cmp -s 32-32-2-2-0-0-0-1 32-32-2-2-0-0-0-01 # the programs differ, their machine code does not
}

@test "a setting that cannot work says which assertion" {
    cd "$ROOT"
    echo 32-48-2-2-0-0-0-1 | labs/candidates "$BATS_TEST_TMPDIR/knobs" 1
    grep -q 'ldmatrix loads 16 keys' "$BATS_TEST_TMPDIR/knobs/32-48-2-2-0-0-0-1.error"
    [ ! -e "$BATS_TEST_TMPDIR/knobs/32-48-2-2-0-0-0-1.code" ]
}

@test "with the knobs of chapter 13 the kernel computes what chapter 13 does, bit for bit" {
    echo 32-32-2-2-2-0-0-1 | (cd "$ROOT" && labs/candidates "$BATS_TEST_TMPDIR/knobs" 1)
    export LD_LIBRARY_PATH=$ROOT/build/ptxsim
    one=(--shapes small,1x2x239 --seeds 0 --inputs normal,peaky --no-timing)
    "$ROOT/build/ch13_warp_specialised" "${one[@]}" --outputs outputs
    knobs/32-32-2-2-2-0-0-1 "${one[@]}" --against outputs >said
    [ "$(grep -c 'stored output: 100.000 % identical, at most 0 ulp' said)" -eq 4 ]
}
