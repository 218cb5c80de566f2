#!/usr/bin/env bats
# test_program.bats: runs a chapter's program with various command lines, in the simulator.
# bats file_tags=quick

root=$BATS_TEST_DIRNAME/../..
program=$root/build/ch03_wmma_qk
fault_flags=(-std=c++20 -O1 -I"$root/code" -cudart shared --compress-mode=none
             -gencode 'arch=compute_89,code=[sm_89,compute_89]')

setup_file() {
    # Builds the plain kernels of fixtures/, which make a mistake on request.
    if [ -x "$root/build/cuda/bin/nvcc" ] && [ -f "$root/build/libworkbench.a" ]; then
        for fixture in faulty cached; do
            "$root/build/cuda/bin/nvcc" "${fault_flags[@]}" \
                "$root/code/workbench/fixtures/$fixture.cu" "$root/build/libworkbench.a" \
                -l:libjansson.a -o "$BATS_FILE_TMPDIR/$fixture"
        done
    fi
}

setup() {
    [ -e "$root/build/ptxsim/libcudart.so.13" ] || skip "no simulator in build/"
    [ -x "$program" ] || skip "no build/ch03_wmma_qk"
    export LD_LIBRARY_PATH=$root/build/ptxsim NO_COLOR=1
    unset FAULT PTXSIM_REPORT PTXSIM_SCHEDULE
    mkdir "$BATS_TEST_TMPDIR/folder" # bats keeps its own files beside it
    cd "$BATS_TEST_TMPDIR/folder"
}

# refused STATUS TEXT ARGUMENT...: the program must exit with STATUS, print one line on stderr that
# contains TEXT, print nothing on stdout, and leave nothing in the folder.
refused() {
    local expected=$1 text=$2
    shift 2
    run --separate-stderr "$program" "$@"
    echo "status $status; stdout: $output; stderr: $stderr"
    [ "$status" -eq "$expected" ]
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ ${stderr_lines[0]} == ch03_wmma_qk:*"$text"* ]]
    [ -z "$(ls -A)" ]
}

faulty() {
    [ -x "$BATS_FILE_TMPDIR/faulty" ] || skip "no nvcc to build fixtures/faulty.cu with"
    run --separate-stderr env FAULT="$1" "$BATS_FILE_TMPDIR/faulty" --shapes 1x2x33 --seeds 0 \
        --record record.json "${@:2}"
    echo "status $status; stdout: $output; stderr: $stderr"
}

cached() {
    [ -x "$BATS_FILE_TMPDIR/cached" ] || skip "no nvcc to build fixtures/cached.cu with"
    run --separate-stderr env FAULT="$1" "$BATS_FILE_TMPDIR/cached" --shapes 2x2x37q3p16r1 --seeds 0 \
        --record record.json "${@:2}"
    echo "status $status; stdout: $output; stderr: $stderr"
}

# of KEY [FILE]: prints the key's values in FILE (record.json) on one line, in the file's order. Records
# have one key on each line.
of() {
    sed -nE "s/^ *\"$1\": ([^{[]*[^{[,]),?\$/\1/p" "${2:-record.json}" | tr -d '"' | xargs
}

# within LEAST MOST VALUES: checks that there are values, all greater than LEAST and less than MOST.
within() {
    [ -n "$3" ] && tr ' ' '\n' <<<"$3" | awk -v least="$1" -v most="$2" '
        !($1 > least && $1 < most) { print $1 " is not between"; bad = 1 } END { exit bad }'
}

bats_require_minimum_version 1.5.0

@test "--help names every option and fits 80 columns" {
    run "$program" --help
    [ "$status" -eq 0 ]
    for option in shapes seeds inputs iters warmup rotations cold-l2 plain no-timing record summaries outputs \
                  against on-demand quiet resources launch-only help; do
        [[ $output == *"--$option"* ]]
    done
    [ -z "$(awk 'length > 80' <<<"$output")" ]
}

@test "unknown options and stray arguments are refused by name" {
    refused 2 'unknown option --shape-of' --shape-of small
    refused 2 'unknown option -s' -s
    refused 2 '--seeds needs a value' --seeds
    refused 2 '--quiet takes no value' --quiet=1
    refused 2 'what is "small"?' small
}

@test "malformed shapes are refused by name" {
    refused 2 '--shapes: "2x8" is no shape: write BxHxS (2x8x512) or small, mission, long, huge' \
        --shapes 2x8
    refused 2 '"2x8x0": S must be at least 1' --shapes 2x8x0
    refused 2 '"small,,long": an item of the list is empty' --shapes small,,long
    refused 2 '"65536x65536x65536" is too large' --shapes 65536x65536x65536
    refused 2 '"small" is there twice' --shapes small,small
    refused 2 '--shapes: "2x8x33r0" is no shape' --shapes 2x8x33r0
}

@test "a ragged batch is refused by a program that takes none" {
    refused 2 '--shapes: 2x2x33r1: ch03_wmma_qk takes no sequences of different lengths' --shapes small,2x2x33r1
    refused 2 '--shapes: 2x2x33r1: --launch-only takes no sequences of different lengths' --launch-only --shapes 2x2x33r1
}

@test "malformed numbers are refused by name" {
    refused 2 '--seeds: "x" is no seed' --seeds 0,x
    refused 2 '--seeds: "-1" is no seed' --seeds -1
    refused 2 '--seeds: "18446744073709551616" is no seed' --seeds 18446744073709551616
    refused 2 '--inputs: "flat" is no input: write normal, mean, peaky, sink, rising, falling, needle or model' --inputs flat
    refused 2 '--time-inputs: "peak" is no input' --time-inputs peak
    refused 2 '--iters: "0": write a whole number from 1 to' --iters 0
    refused 2 '--rotations: "4.5"' --rotations 4.5
    refused 2 '--warmup: ""' --warmup ''
}

@test "a language model's queries, keys and values are inputs, a layer by its seed" {
    refused 2 '--inputs: model: in which folder? Add --tensors FOLDER' --inputs model
    mkdir ../layers
    refused 2 '--tensors: ../layers/3.half: No such file or directory' --inputs model --seeds 3 --tensors ../layers
    "$root/build/tiny-model" ../tiny.gguf
    head -c 150 "$BATS_TEST_FILENAME" | "$root/build/ask" ../tiny.gguf --tensors ../layers
    read -r _ heads _ tokens _ <../layers/1.half
    refused 2 "layer 0 has $heads heads and $tokens tokens: write 1x${heads}xS, S at most $tokens" \
        --inputs model --seeds 0,1 --shapes "1x${heads}x32,1x${heads}x$((tokens + 1))" --tensors ../layers
    refused 2 '--time-inputs: model is timed alone, and of --inputs, too' \
        --inputs model --time-inputs normal,model --tensors ../layers
    run --separate-stderr "$program" --inputs model --seeds 0,1 --shapes "1x${heads}x$tokens" --tensors ../layers --record of.json
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.shapes[].correctness[] | [.input, .seed, .pass]]' of.json)" = '[["model",0,true],["model",1,true]]' ]
    rm of.json
    truncate -s -1 ../layers/1.half
    refused 2 '--tensors: ../layers/1.half is no layer of a model, as build/ask --tensors writes it' \
        --inputs model --seeds 0,1 --shapes "1x${heads}x8" --tensors ../layers
}

@test "needles that an output finds are counted, and told" {
    run --separate-stderr "$program" --inputs needle,normal --seeds 1 --shapes 1x2x96 --record needles.json
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"needles: 192 of 192 found; by the reference 192"* ]]
    [ "$(jq -c '[.shapes[].correctness[] | .needles, .needles_exact | [.of, .found, (.share // 0 | . > 0.8 and . < 1)]]' needles.json)" = \
        '[[192,192,true],[192,192,true],[null,null,false],[null,null,false]]' ]
    rm needles.json
}

@test "a time is a graph's, plain or cold" {
    refused 2 '--plain: --cold-l2 and --plain exclude each other' --cold-l2 --plain
}

# Runs the program with a library that reports a millisecond for every interval, since the simulator
# has no clock, and that hides the simulator's version. All else that the program does is real.
with_a_clock() {
    cat >../clock.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
int cudaEventElapsedTime(float *ms, void *a, void *b) { (void)a, (void)b; *ms = 1; return 0; }
void *dlsym(void *handle, const char *name)
{
    void *(*real)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return strcmp(name, "ptxsim_version") == 0 ? 0 : real(handle, name);
}
C
    cc -shared -fPIC ../clock.c -o ../clock.so -ldl
    LD_PRELOAD=../clock.so run --separate-stderr "$program" --shapes 1x1x17 --seeds 0 --inputs normal "$@"
    echo "status $status; stdout: $output; stderr: $stderr"
}

@test "on demand: each line its own way and number of samples, the outputs checked at the end" {
    printf '%s\n' batch 'plain 2' 'cold 3' 'graph 4' 'graph 6' 'warp 2' 'cold 1' >../asked
    with_a_clock --on-demand --iters 5 --warmup 1 --quiet --record record.json <../asked
    [ "$status" -eq 0 ]
    [ "$(grep '^{' <<<"$output")" = \
'{"p50_us":250.0000,"mean_us":250.0000,"samples":5,"launches_per_sample":4}
{"p50_us":250.0000,"mean_us":250.0000,"samples":2,"launches_per_sample":4}
{"p50_us":1000.0000,"mean_us":1000.0000,"samples":3,"launches_per_sample":1}
{"p50_us":250.0000,"mean_us":250.0000,"samples":4,"launches_per_sample":4}
{"p50_us":250.0000,"mean_us":250.0000,"samples":5,"launches_per_sample":4}
{"p50_us":250.0000,"mean_us":250.0000,"samples":5,"launches_per_sample":4}
{"p50_us":1000.0000,"mean_us":1000.0000,"samples":1,"launches_per_sample":1}' ]
    [[ $(of pass) == true* ]]
    run -1 grep -q '"timing"' record.json
}

@test "the record says in which way a time was taken" {
    for way in graph plain cold-l2; do
        option=()
        [ $way = graph ] || option=("--$way")
        with_a_clock --iters 2 --warmup 1 --rotations 2 --record $way.json "${option[@]}"
        [ "$status" -eq 0 ]
    done
    [ "$(of mode graph.json) $(of mode plain.json) $(of mode cold-l2.json)" = "graph plain cold" ]
    [ "$(of launches_per_sample graph.json) $(of launches_per_sample plain.json) $(of launches_per_sample cold-l2.json)" = "2 2 1" ]
    [ "$(of cold_l2 plain.json) $(of cold_l2 cold-l2.json)" = "false true" ]
}

@test "a time belongs to a kind of inputs: normal ones where it always stood, others by name" {
    with_a_clock --iters 2 --warmup 1 --rotations 2 --record kinds.json --time-inputs sink,normal
    [ "$status" -eq 0 ]
    [ "$(of launches_per_sample kinds.json)" = "2 2" ]
    python3 -c 'import json, sys
shape = json.load(open("kinds.json"))["shapes"]["1x1x17"]
assert shape["timing"]["p50_us"] == 500 and shape["timing_of"]["sink"]["p50_us"] == 500, shape
assert list(shape["timing_of"]) == ["sink"] and len(shape["correctness"]) == 1, shape'
    [[ $output == *$'\n  sink:\n  1x1x17 '* ]]
    with_a_clock --iters 2 --warmup 1 --rotations 2 --record one.json --time-inputs falling
    [ "$status" -eq 0 ]
    grep -q '"timing_of"' one.json
    run -1 grep -qE '"(timing|tflops)"' one.json
}

@test "on demand there is one shape, and a GPU" {
    refused 2 '--on-demand: times one shape, and --shapes names 2' --on-demand --shapes small,long
    refused 2 '--on-demand: times one kind of inputs, and --time-inputs names 2' \
        --on-demand --shapes small --time-inputs normal,sink
    refused 2 '--on-demand and --no-timing exclude each other' --on-demand --no-timing
    refused 3 '--on-demand: time is not measured in the simulator' --on-demand --shapes small
}

@test "a shape beyond memory is refused before any work" {
    refused 3 '--shapes: 4x16x524288 needs' --shapes 4x16x524288
    [[ $stderr == *"GiB on the"*"free"* ]]
}

@test "files that cannot be written are refused before any work" {
    refused 3 '--record: cannot write /nonexistent/r.json: No such file' --record /nonexistent/r.json
    mkfifo ../pipe # in place of /dev/null, which root could replace by renaming
    refused 3 '--record: cannot write ../pipe: it is no regular file' --record ../pipe
    refused 3 '--summaries: cannot make /nonexistent/s: No such file' --summaries /nonexistent/s
    refused 3 '--summaries: cannot make ../pipe/s: Not a directory' --summaries ../pipe/s
    refused 3 '--outputs: cannot make /nonexistent/o: No such file' --outputs /nonexistent/o
    refused 3 '--outputs: cannot write ../pipe/' --outputs ../pipe
    refused 2 '--against: /nonexistent/small-normal-seed0.half: No such file' \
        --against /nonexistent --shapes small
}

@test "a right kernel passes, is reported in 80 columns and recorded" {
    run --separate-stderr "$program" --shapes 1x2x33,1x1x1 --seeds 0,1 --inputs normal,mean,peaky \
        --record record.json
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ ${lines[-1]} == "ch03_wmma_qk: PASS: 12 of 12 outputs right" ]]
    [[ $output == *"time: not measured in the simulator"* ]]
    [[ $output == *"sm_89 (L4)"* ]]
    [ -z "$(LC_ALL=C.UTF-8 awk 'length > 80' <<<"$output")" ]
    [ "$(ls)" = record.json ]
    [ "$(of record) $(of program) $(of chapter)" = "1 ch03_wmma_qk 3" ]
    [ "$(of runtime) $(of threads)" = "simulator 128" ]
    [[ $(of source_hash) =~ ^[0-9a-f]{64}$ ]]
    [[ $(of date) =~ ^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$ ]]
    [ "$(of batch); $(of heads); $(of seq_len)" = "1 1; 2 1; 33 1" ]
    [ "$(of seed)" = "0 1 0 1 0 1 0 1 0 1 0 1" ]
    [ "$(of input)" = "normal normal mean mean peaky peaky normal normal mean mean peaky peaky" ]
    [ "$(of rows)" = "all all all all all all all all all all all all" ]
    [ "$(of not_finite)" = "0 0 0 0 0 0 0 0 0 0 0 0" ]
    [ "$(grep -c '"pass": true' record.json)" -ge 12 ]
    within 1e-5 4e-4 "$(of rel_head)"
    within 1e-5 8e-4 "$(of rel_row)"
    within 0 1 "$(of occupancy)"
    [ -n "$(of limited_by)" ]
    run -1 grep -q 'timing\|tflops\|agreement\|fault' record.json
}

@test "the summaries say what the record says" {
    "$program" --shapes 1x2x33,1x1x1 --seeds 0,1 --record record.json --summaries brief --quiet \
        --iters 3 --warmup 1
    [ "$(cd brief && echo *)" = "build_meta.json correctness_summary.json perf_baseline.json" ]
    local file
    for file in brief/*; do
        [ "$(of source_hash "$file") $(of flags "$file")" = "$(of source_hash) $(of flags)" ]
        [ "$(of git_commit "$file") $(of runtime "$file")" = "$(of git_commit) simulator" ]
    done
    [ "$(of passed brief/correctness_summary.json | cut -d' ' -f1,2)" = "4 2" ]
    [ "$(of rel_head brief/correctness_summary.json | cut -d' ' -f1)" = \
      "$(of rel_head | tr ' ' '\n' | head -2 | sort -g | tail -1)" ]
    grep -q '"shapes": {}' brief/perf_baseline.json # no time in the simulator
    [ "$(of registers brief/build_meta.json)" = "$(of registers)" ]
    [ "$(of name brief/build_meta.json)" = "$(of name)" ]
}

@test "only failures and the last line with --quiet" {
    run "$program" --shapes 1x1x33 --seeds 0 --quiet
    [ "$status" -eq 0 ]
    [ "$output" = "ch03_wmma_qk: PASS: 1 of 1 outputs right" ]
}

@test "resources are printed as JSON without a run" {
    run "$program" --resources
    [ "$status" -eq 0 ]
    echo "$output" >resources.json
    [ "$(of threads resources.json)" = 128 ]
    [[ $(of registers resources.json) =~ ^[0-9]+\ [0-9]+$ ]]
    [ "$(of static_shared_bytes resources.json)" = "$(of shared_bytes resources.json)" ]
    [ "$(of local_bytes resources.json)" = "0 0" ]
    # products of halves (hmma) on an L4 and on a Hopper, and none of 8 bits (qmma)
    [[ $(of hmma resources.json) =~ ^[1-9][0-9]*\ [1-9][0-9]*$ ]]
    [ "$(of qmma resources.json)" = "0 0" ]
}

@test "outputs are stored, and compared with" {
    "$program" --shapes 1x2x33 --seeds 0,1 --outputs stored --quiet
    [ "$(cd stored && echo *)" = "1x2x33-normal-seed0.half 1x2x33-normal-seed1.half" ]
    [ "$(stat -c %s stored/1x2x33-normal-seed0.half)" -eq $((2 * 33 * 64 * 2)) ]
    run "$program" --shapes 1x2x33 --seeds 0,1 --against stored --record same.json
    [ "$status" -eq 0 ]
    [[ $output == *"100.000 % identical, at most 0 ulp"* ]]
    [ "$(of identical_percent same.json); $(of max_ulp same.json)" = "100.0 100.0; 0 0" ]

    # One element of seed 1 becomes 1024 (0x6400); it was below 8 (0x4800).
    printf '\0\x64' | dd of=stored/1x2x33-normal-seed1.half bs=2 seek=7 conv=notrunc status=none
    "$program" --shapes 1x2x33 --seeds 0,1 --against stored --record other.json --quiet
    within 99.97 99.98 "$(of identical_percent other.json | cut -d' ' -f2)" # 4223 of 4224 are identical
    within 1022 1026 "$(of max_abs other.json | awk '{ print $NF }')"
    within 7167 44033 "$(of max_ulp other.json | cut -d' ' -f2)"

    truncate -s 100 stored/1x2x33-normal-seed0.half
    run "$program" --shapes 1x2x33 --seeds 0 --against stored
    [ "$status" -eq 2 ]
    [[ $output == *"has 100 bytes, the output 8448" ]]
}

@test "the plain kernel of the fixtures is right" {
    faulty none
    [ "$status" -eq 0 ]
    [[ ${lines[-1]} == "faulty: PASS: 1 of 1 outputs right" ]]
}

@test "zeros, a dropped key and unwritten elements fail the gate" {
    faulty zeros
    [ "$status" -eq 1 ]
    [[ $output == *"1.0e+00"*FAIL* ]]
    faulty last-key
    [ "$status" -eq 1 ]
    faulty unwritten
    [ "$status" -eq 1 ]
    [[ $output == *"2 elements NaN, infinite or not written"*FAIL* ]]
    [[ ${lines[-1]} == "faulty: FAIL: 0 of 1 outputs right" ]]
    [ "$(of pass | cut -d' ' -f1) $(of rel_head) $(of not_finite)" = "false null 2" ]
}

@test "with a mask, a kernel that sees all keys fails the gate; one that sees them in order is right" {
    export MASK=causal
    faulty none
    [ "$status" -eq 1 ]
    [ "$(of mask) $(of pass | cut -d' ' -f1)" = "causal false" ]
    faulty causal
    [ "$status" -eq 0 ]
    unset MASK
    faulty causal
    [ "$status" -eq 1 ]
    run -1 grep -q '"mask"' record.json
}

@test "a ragged batch: each sequence has its length, the record has them, and nobody looks past them" {
    export MASK=causal
    faulty causal --shapes 4x2x33r1,4x2x33
    [ "$status" -eq 0 ]
    [ "$(python3 -c 'import json; print([s.get("lengths") for s in json.load(open("record.json"))["shapes"].values()])')" = \
        "[None, [30, 17, 1, 26], None]" ]
    faulty last-key --shapes 4x2x33r1
    [ "$status" -eq 1 ]
    faulty none --shapes 4x2x33r1
    [ "$status" -eq 1 ]
}

@test "a cache: right outputs, the record has what it is, and its default shapes are caches" {
    cached none --inputs normal,mean,peaky
    [ "$status" -eq 0 ]
    [ "$(of queries) $(of page)" = "3 16" ]
    # 31 and 5 tokens of two heads, K and V, 65 bytes each
    [ "$(of cache_bytes | cut -d. -f1)" = "$(python3 -c '
import json
print(sum(json.load(open("record.json"))["shapes"]["2x2x37q3p16r1"]["lengths"]) * 2 * 2 * 65)')" ]
    cached none --shapes 1x1x16q1p16,3x1x17q16p16
    [ "$status" -eq 0 ]
    [[ ${lines[-1]} == "cached: PASS: 3 of 3 outputs right" ]]
    run --separate-stderr "$BATS_FILE_TMPDIR/cached" --seeds 0
    [[ $output == *"2x2x200q4p32r1"*"1x2x512q4p16"* ]]
}

@test "a cache: what is not seen, or not in its place, or not this sequence's, fails" {
    for fault in newest-unseen past-end one-scale; do
        cached $fault
        [ "$status" -eq 1 ]
        [[ ${lines[-1]} == "cached: FAIL: 0 of 1 outputs right" ]]
    done
    cached not-appended
    [ "$status" -eq 1 ]
    [ "$(of fault)" = "the new token is not in its place in the cache" ]
    cached neighbour # the outputs are right, the cache is not
    [ "$status" -eq 1 ]
    [[ $output == *"bytes of the cache have changed that are not the new token's FAIL"* ]]
    cached once
    [ "$status" -eq 1 ]
    [[ $output == *"In a second launch, with scratch memory as the first left it: Nothing was stored: "* ]]
}

@test "--launch-only prints where a page of a cache has what, and how much scratch memory is wanted" {
    [ -x "$BATS_FILE_TMPDIR/cached" ] || skip "no nvcc to build fixtures/cached.cu with"
    PTXSIM_LAUNCHES=3 run "$BATS_FILE_TMPDIR/cached" --shapes 1x2x33q1p16 \
        --launch-only 3>lines
    [ "$status" -eq 0 ]
    [ "$(wc -l <lines)" -eq 2 ]
    read -r head scratch codes scales <<<"$output"
    [ "$head $scratch ${#codes} ${#scales}" = "cache 0 8192 128" ]
    [ "${codes:4:4} ${codes:$((4 * 1024)):4} ${codes: -4}" = "0001 0400 07ff" ] # K, V
    [ "${scales:0:12} ${scales: -4}" = "000000020004 001f" ] # scales: K's and V's in pairs
}

@test "a cache is for programs that ask one, and they ask nothing else" {
    refused 2 "--shapes: 1x2x33q1p16: ch03_wmma_qk asks no cache: write BxHxS without q and p" --shapes 1x2x33q1p16
    refused 2 "--shapes: 1x2x33q1p16: ch03_wmma_qk asks no cache" --shapes 1x2x33q1p16 --launch-only
    refused 2 "1x2x33q17p16\" is no cache: write BxHxSqQpP (2x8x512q4p16): 1 to 16 queries" --shapes 1x2x33q17p16
    cached none --shapes small
    [ "$status" -eq 2 ]
    [ "$stderr" = "cached: --shapes: small: cached asks a cache: write BxHxSqQpP, as 2x8x512q4p16" ]
    cached none --shapes 1x2x33q1p32
    [ "$status" -eq 1 ]
    [[ $stderr == *"launch refused: pages of 32, not 16"* ]]
}

@test "a prompt and heads of 128 are for programs that take them; one token is a query of a cache" {
    refused 2 "--shapes: 1x2x33d128: ch03_wmma_qk takes heads of 64 elements only: write it without d128" --shapes 1x2x33d128
    refused 2 "--shapes: 1x2x33q1p16s2: ch03_wmma_qk asks no cache" --shapes 1x2x33q1p16s2
    cached none --shapes 2x2x37q3p16s1r1
    [ "$status" -eq 0 ]
    [ "$(of queries) $(of page)" = "3 3 16 16" ]
    [ "$(python3 -c 'import json; print([s.get("asked") for s in json.load(open("record.json"))["shapes"].values()])')" = \
        "[None, [1, 1]]" ]
    cached not-appended --shapes 2x2x37q3p16s1r1
    [ "$status" -eq 1 ]
    cached none --shapes 2x2x37q3p16s2
    [ "$status" -eq 2 ]
    [ "$stderr" = "cached: --shapes: 2x2x37q3p16s2: cached asks one query of a cache: write BxHxSqQpP without s" ]
}

@test "a fault ends the run: status 1, and a record that says so" {
    for fault in illegal outside; do
        faulty $fault --seeds 1
        [ "$status" -eq 1 ]
        [[ $stderr == *"the kernel failed: cudaErrorIllegalAddress"* ]]
        [[ ${lines[-1]} == "faulty: FAIL: 0 of 1 outputs right" ]]
        [ "$(of seed) $(of pass) $(of fault)" = "0 false cudaErrorIllegalAddress" ]
    done
}

@test "P rounded to E4M3 is wrong, unless the program says so; then wrong is what was wrong" {
    faulty e4m3-p
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} == *"FAIL: 0 of 1 outputs right" ]]
    run -1 grep -q rounded_p record.json
    export ROUNDS_P=8
    faulty e4m3-p
    [ "$status" -eq 0 ]
    [[ $output == *" at most "*"2 x what P in E4M3 alone costs"* ]]
    [ -z "$(LC_ALL=C.UTF-8 awk 'length > 80' <<<"$output")" ]
    [ "$(of format) $(of offset) $(of sum) $(of factor)" = "e4m3 8 unrounded 2.0" ]
    read -r error own limit <<<"$(of rel_head)"
    within 0.01 0.04 "$error $own"
    within 1.999 2.001 "$(awk "BEGIN { print $limit / $own }")"
    local fault
    for fault in zeros unwritten last-key; do
        faulty $fault
        [ "$status" -eq 1 ]
    done
    export ROUNDS_P=-12 # P is all zeros then; a limit of twice its error would let zeros pass
    faulty zeros
    [ "$status" -eq 1 ]
    [ "$(of rel_head | cut -d' ' -f2-)" = "1.0 0.1" ]
}

@test "a refused launch fails by name, and the next one is tried" {
    faulty refused --seeds 1
    [ "$status" -eq 1 ]
    [[ ${stderr_lines[0]} == "faulty: launch refused: S is 33, the limit 0" ]]
    [[ ${stderr_lines[1]} == *"cudaErrorInvalidConfiguration"* ]]
    [[ ${lines[-1]} == "faulty: FAIL: 0 of 2 outputs right" ]]
}

@test "without a device, one line says what to do" {
    [ ! -e /dev/nvidia0 ] || skip "there is a GPU"
    [ -e "$root/build/cuda/lib64/libcudart.so.13" ] || skip "no CUDA runtime"
    export WORKBENCH_ON=gpu LD_LIBRARY_PATH=$root/build/cuda/lib64
    refused 3 'no CUDA device: ' --shapes small
    [[ $stderr == *"; make chapterN builds the simulator, which needs none" ]]
    cp "$program" "$BATS_TEST_TMPDIR" # to a folder that has no simulator
    unset WORKBENCH_ON
    program=$BATS_TEST_TMPDIR/ch03_wmma_qk refused 3 'no CUDA device: ' --shapes small
}

@test "a terminal that is narrower than the tables is told so" {
    command -v script >/dev/null || skip "no script(1) to make a terminal"
    local columns
    for columns in 60 80; do
        PROGRAM=$program run script -qec "stty cols $columns; \"\$PROGRAM\" --shapes 1x1x8 --seeds 0" /dev/null </dev/null
        [ "$status" -eq 0 ]
        [ "$(grep -c '^(tables of 80 columns: this terminal has 60)' <<<"$output")" -eq $((columns < 80)) ]
    done
}

@test "without a device, a program runs in the simulator by itself and says so" {
    [ ! -e /dev/nvidia0 ] || skip "there is a GPU"
    [ -e "$root/build/cuda/lib64/libcudart.so.13" ] || skip "no CUDA runtime"
    unset LD_LIBRARY_PATH
    run --separate-stderr "$program" --shapes 1x1x8 --seeds 0 --quiet
    [ "$status" -eq 0 ]
    [ "$stderr" = "ch03_wmma_qk: no GPU here: in the simulator" ]
    [ "$output" = "ch03_wmma_qk: PASS: 1 of 1 outputs right" ]
    # On a cluster, an environment module may have put the real runtime into LD_LIBRARY_PATH.
    LD_LIBRARY_PATH=$root/build/cuda/lib64 run --separate-stderr "$program" --shapes 1x1x8 --seeds 0 --quiet
    [ "$status" -eq 0 ]
    mkdir "$BATS_TEST_TMPDIR/student"
    cp "$program" "$BATS_TEST_TMPDIR/student/mine"
    ln -s "$root/build/ptxsim" "$BATS_TEST_TMPDIR/ptxsim"
    LD_LIBRARY_PATH=$root/build/cuda/lib64 run --separate-stderr "$BATS_TEST_TMPDIR/student/mine" \
        --shapes 1x1x8 --seeds 0 --quiet
    [ "$status" -eq 0 ]
}
