# The scoreboard, with scripts as contestants, and a file that stands in for the GPU.

bats_require_minimum_version 1.5.0

setup() {
    TREE=$BATS_TEST_TMPDIR
    mkdir -p "$TREE/build" "$TREE/chapters" "$TREE/code/tools" "$TREE/labs/tools" "$TREE/lib" "$TREE/plots/runs"
    cp code/tools/stages "$TREE/code/tools"
    cp labs/tools/scoreboard "$TREE/labs/tools"
    ln -s "$PWD/build/scoreboard" "$TREE/build/scoreboard"
    cd "$TREE"
    echo 'int cuInit(unsigned f) { (void)f; return 0; } int cuDeviceGetCount(int *n) { *n = 1; return 0; }' |
        cc -shared -fPIC -x c - -o lib/libcuda.so.1
    export LD_LIBRARY_PATH=$PWD/lib NO_COLOR=1
}

# program NAME GRAPH PLAIN COLD: makes a contestant with these times. NAME.wrong: it fails its
# check; NAME.late: it fails the check at the end; NAME.clock: what it reports of the clock, a line
# a batch, the last one repeated. It writes the requests that it gets to NAME.asked.
program() {
    echo "$2 $3 $4" >"build/$1.times"
    cat >"build/$1" <<'PROGRAM'
#!/bin/bash
me=$0 name=${0##*/}
echo "$*" >"$me.arguments"
while [ $# -gt 0 ]; do case $1 in --record) record=$2 ;; --shapes) shape=$2 ;; esac; shift; done
[ ! -f "$me.wrong" ] || { echo "$name: FAIL: 1 of 1 outputs wrong" >&2; exit 1; }
read -r graph plain cold <"$me.times"
while read -r mode samples; do
    echo "$mode $samples" >>"$me.asked"
    clock=$(sed -n "$(wc -l <"$me.asked")p" "$me.clock" 2>/dev/null)
    [ -n "$clock" ] || clock=$(tail -1 "$me.clock" 2>/dev/null)
    echo "{\"p50_us\": ${!mode}, \"mean_us\": 1, \"samples\": $samples, \"launches_per_sample\": 4
        ${clock:+, \"clock\": $clock}}" | tr -d '\n'
    echo
done
[ ! -f "$me.late" ] || { echo "$name: wrong after the timed runs" >&2; exit 1; }
echo "{\"chapter\": 3, \"title\": \"t\", \"source_hash\": \"hash-of-$name\", \"device\": {\"name\": \"NVIDIA Fake\"},
  \"shapes\": {\"$shape\": {\"correctness\": [{\"pass\": true, \"rel_head\": 2.5e-4, \"rel_row\": 5e-4}]}}}" >"$record"
PROGRAM
    chmod +x "build/$1"
}

# pytorch [ANSWER]: makes a labs/tools/pytorch that answers requests to time flash with 10 us, cudnn
# with 8 us, any other backend with 4 us, and requests to check with ANSWER, a JSON object. It
# writes its arguments to pytorch.arguments.
pytorch() {
    local check='{"pass": true, "rel_head": 3e-4}'
    cat >labs/tools/pytorch <<PROGRAM
#!/bin/bash
echo "\$*" >pytorch.arguments
while read -r shape backend mode samples; do
    [[ \$shape != */* ]] || echo "\$shape" >>pytorch.shapes
    case "\$shape \$mode" in
    "hello ") echo '{"torch": "9.9", "cudnn": 1}' ;;
    *" check") echo '${1:-$check}' ;;
    *) case \$backend in flash) p50=10 ;; cudnn) p50=8 ;; *) p50=4 ;; esac
       echo "{\"p50_us\": \$p50, \"mean_us\": 1, \"launches_per_sample\": 4}" ;;
    esac
done
PROGRAM
    chmod +x labs/tools/pytorch
}

board() {
    run build/scoreboard --shapes mission --rounds 6 --backends flash,cudnn "$@"
}

said() { # PATH WANTED: a value of the record
    local got
    got=$(python3 -c 'import json, sys
value = json.load(open("OUT.json"))
for key in sys.argv[1].split("."): value = value[key]
print(value)' "$1") || return 1
    [ "$got" = "$2" ] || { echo "$1 is $got, not $2"; false; }
}

refused() { # STATUS TEXT
    [ "$status" -eq "$1" ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$2"* ]] || { echo "not in: $output"; false; }
}

@test "every contestant in three ways, PyTorch beside the stages, ratios with their interval" {
    program ch03_one 20 22 25
    program ch10_two 5 7 9
    pytorch
    board OUT.json --programs ch03_one,ch10_two
    [ "$status" -eq 0 ]
    [[ $output =~ ch10_two\ +5.00\ +7.00\ +9.00\ +2.5e-04\ +2.00 ]]
    [[ $output =~ pytorch-cudnn\ +8.00\ +8.00\ +8.00\ +3.0e-04 ]]
    said shapes.mission.best.name ch10_two
    said shapes.mission.best.p50_us 5.0
    said shapes.mission.best.over_flash.high 2.0
    said shapes.mission.best.plain.p50_us 7.0
    said shapes.mission.best_pytorch.name pytorch-cudnn
    said shapes.mission.entries.ch10_two.cold.p50_us 9.0
    said shapes.mission.entries.ch10_two.over_flash.median 2.0
    said shapes.mission.entries.ch10_two.over_cudnn.low 1.6
    said shapes.mission.entries.ch03_one.graph.rounds 6
    said shapes.mission.entries.ch03_one.rel_head 0.00025
    said source_hashes.ch03_one hash-of-ch03_one
    said device.name "NVIDIA Fake"
    said pytorch.torch 9.9
    grep -q -- '--shapes mission --seeds 0 --inputs normal' build/ch03_one.arguments
    grep -q -- '--on-demand' build/ch03_one.arguments
    run -1 grep -q over_ch OUT.json
    # The requests: one (cold) for the check; for each of the three modes, one that chooses how many
    # samples a batch has, and six rounds.
    [ "$(cut -d' ' -f1 build/ch10_two.asked | xargs -n1 | sort | uniq -c | xargs)" = "8 cold 7 graph 7 plain" ]
    [ -z "$(ls build/board)" ]
}

@test "several kinds of inputs: all contestants on each kind; kinds after the first by graphs only" {
    program ch03_one 20 22 25
    pytorch
    board OUT.json --programs ch03_one --inputs normal,peaky
    [ "$status" -eq 0 ]
    [[ $output == *"mission  B2 H8 S512, peaky inputs: p50 in us"* ]]
    grep -q -- '--inputs peaky --time-inputs peaky' build/ch03_one.arguments
    said first_inputs normal
    said shapes.mission.entries.ch03_one.cold.p50_us 25.0
    said shapes.mission.inputs.peaky.entries.ch03_one.graph.p50_us 20.0
    said shapes.mission.inputs.peaky.entries.ch03_one.over_flash.median 0.5
    said shapes.mission.inputs.peaky.best.name ch03_one
    run -1 said shapes.mission.inputs.peaky.entries.ch03_one.cold.p50_us 25.0
    [ "$(sort -u pytorch.shapes | xargs)" = "mission/normal mission/peaky" ]
    board OUT.json --programs ch03_one --inputs normal,odd
    refused 2 '--inputs: "odd" is none of normal, mean, peaky, sink, rising, falling'
    board OUT.json --programs ch03_one --inputs peaky,peaky
    refused 2 '--inputs: "peaky" is there twice'
    run build/scoreboard --programs ch03_one --shapes 1x2x512q4p16 --inputs peaky
    refused 2 '1x2x512q4p16 is a cache, which is timed with normal inputs only'
}

@test "a contestant in a Python file is on the board, and is neither a stage nor PyTorch's" {
    program ch10_two 5 7 9
    pytorch '{"pass": true, "rel_head": 0.02, "title": "Mine", "note": "64 x 32"}'
    touch mine.py
    board OUT.json --programs ch10_two --contestant mine.py
    [ "$status" -eq 0 ]
    [ "$(cat pytorch.arguments)" = "--on-demand mine.py" ]
    said shapes.mission.entries.mine.graph.p50_us 4.0
    said shapes.mission.entries.mine.title Mine
    said shapes.mission.entries.mine.note '64 x 32'
    said shapes.mission.entries.mine.contestant True
    said shapes.mission.entries.ch10_two.over_mine.median 0.8
    said shapes.mission.best.name ch10_two
    said shapes.mission.best_pytorch.name pytorch-cudnn
    pytorch '{"left_out": "ModuleNotFoundError: no triton"}'
    board OUT.json --programs ch10_two --backends none --contestant mine.py
    [ "$status" -eq 0 ]
    said shapes.mission.entries.mine "{'contestant': True, 'left out': 'ModuleNotFoundError: no triton'}"
    board OUT.json --programs ch10_two --contestant mine.cu
    refused 2 '--contestant "mine.cu" is no Python file'
    board OUT.json --programs ch10_two --contestant absent.py
    refused 3 'absent.py: No such file'
    board OUT.json --programs ch10_two --contestant mine.py --contestant ./mine.py
    refused 2 'mine is there twice'
    mkdir labs/peers
    touch labs/peers/peer.py code/ch10_two.cu
    printf 'number\tname\tprogram\n10\ttwo\tch10_two\n' >chapters/stages.tsv
    pytorch
    run labs/tools/scoreboard OUT.json --shapes mission --rounds 6
    [ "$status" -eq 0 ]
    said shapes.mission.entries.peer.graph.p50_us 4.0
}

@test "--over: programs compared with one of them" {
    program ch03_one 20 22 25
    program ch10_two 5 7 9
    board OUT.json --programs ch03_one,ch10_two --backends none --over ch03_one
    [ "$status" -eq 0 ]
    said shapes.mission.entries.ch10_two.over_ch03_one.median 4.0
    said shapes.mission.entries.ch10_two.over_ch03_one.low 4.0
    [ "$(grep -c over_ OUT.json)" -eq 2 ] # for the entry and for the best, but for no program against itself
}

@test "slow contestants get three rounds, and no plain launches" {
    program ch02_slow 30000 30000 30000
    pytorch
    board OUT.json --programs ch02_slow --backends none
    [ "$status" -eq 0 ]
    said shapes.mission.entries.ch02_slow.graph.rounds 3
    said shapes.mission.entries.ch02_slow.graph.samples 1
    run -1 grep -q plain build/ch02_slow.asked
    grep -q '"cold"' OUT.json
    run -1 grep -q '"plain": {' OUT.json
}

@test "a contestant that is wrong, before or after timing, has no times, and the run says so" {
    program ch03_one 20 22 25
    program ch04_bad 1 1 1
    program ch05_late 1 1 1
    touch build/ch04_bad.wrong build/ch05_late.late
    pytorch '{"pass": false, "rel_head": 0.7}'
    board OUT.json --programs ch03_one,ch04_bad,ch05_late
    [ "$status" -eq 1 ]
    [[ $output == *"ch04_bad               wrong: ch04_bad: FAIL"* ]]
    [[ $output == *"ch05_late              wrong: ch05_late: wrong after the timed runs"* ]]
    [[ $output == *"pytorch-flash          wrong: relative error 7.0e-01"* ]]
    said shapes.mission.best.name ch03_one
    python3 - <<'E2'
import json
e = json.load(open("OUT.json"))["shapes"]["mission"]["entries"]
assert "graph" in e["ch03_one"] and "over_flash" not in e["ch03_one"]
for name in ("ch04_bad", "ch05_late", "pytorch-flash"):
    assert "graph" not in e[name] and e[name]["wrong"], name
E2
}

@test "without PyTorch: one line, and the stages are measured all the same" {
    program ch03_one 20 22 25
    printf '#!/bin/sh\necho "pytorch: PyTorch is not installed here" >&2\nexit 3\n' >labs/tools/pytorch
    chmod +x labs/tools/pytorch
    board OUT.json --programs ch03_one
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == "scoreboard: the stages only: pytorch: PyTorch is not installed here" ]]
    said shapes.mission.entries.pytorch-flash "{'left out': 'no PyTorch here'}"
    said shapes.mission.best.name ch03_one
}

@test "a clock that changes by more than 5 % between rounds marks the row; batches before the rounds do not count" {
    program ch03_one 20 22 25
    program ch04_calm 30 33 35
    program ch05_mute 40 44 45
    # The first four answer the check and, for each way of timing, the choice of samples; then come
    # the rounds: graph, plain, cold.
    { for _ in 1 2 3 4; do echo '{"low_mhz": 300, "high_mhz": 300, "watts": 80}'; done
        echo '{"low_mhz": 1965, "high_mhz": 1980, "watts": 500}'
        echo '{"low_mhz": 1980, "high_mhz": 1980, "watts": 510}'
        echo '{"low_mhz": 1980, "high_mhz": 1980, "watts": 510}'
        echo '{"low_mhz": 1860, "high_mhz": 1980, "watts": 640.5}'
        echo '{"low_mhz": 1980, "high_mhz": 1980, "watts": 510}'; } >build/ch03_one.clock
    echo '{"low_mhz": 1900, "high_mhz": 1980, "watts": 500}' >build/ch04_calm.clock
    board OUT.json --programs ch03_one,ch04_calm,ch05_mute --backends none
    [ "$status" -eq 0 ]
    [ "$(grep -c 'the clock moved$' <<<"$output")" -eq 1 ]
    [[ $output =~ ch03_one\ [^$'\n']*the\ clock\ moved ]]
    said shapes.mission.entries.ch03_one.graph.clock \
        "{'readings': 6, 'low_mhz': 1860.0, 'high_mhz': 1980.0, 'watts': 640.5, 'moved': True}"
    said shapes.mission.entries.ch03_one.plain.clock.moved False
    said shapes.mission.entries.ch04_calm.graph.clock.moved False
    run -1 said shapes.mission.entries.ch05_mute.graph.clock.moved False
}

@test "the record goes to its GPU's folder" {
    program ch03_one 20 22 25
    board --programs ch03_one --backends none
    [ "$status" -eq 0 ]
    [ -s plots/runs/fake/scoreboard.json ]
}

@test "bad usage, no programs, no GPU: one line" {
    program ch03_one 20 22 25
    board --programs ch03_one,ch03_one
    refused 2 'ch03_one is there twice'
    board --programs ch09_none
    refused 3 'build/ch09_none is not there: type make build/ch09_none'
    board --programs ''
    refused 3 'no program is built: type make all'
    board --programs ch03_one --backends fast
    refused 2 '"fast" is none of flash, cudnn, efficient, math'
    board --programs ch03_one --shapes 2x8
    refused 2 '--shapes: "2x8" is no shape'
    board --programs ch03_one --rounds 0
    refused 2 '--rounds: "0" is no whole number from 1 to 99'
    board --programs ch03_one --over ch04_other
    refused 2 '--over: "ch04_other" is none of the programs'
    board --programs ch03_one --speed
    refused 2 '--speed is no option; --help lists them'
    board --programs
    refused 2 '--programs needs a value'
    board --programs ch03_one /nonexistent/x.json
    refused 3 'cannot write /nonexistent/x.json'
    board --programs ch03_one absent.cu
    refused 3 'absent.cu: No such file'
    unset LD_LIBRARY_PATH
    [ -e /dev/nvidia0 ] && skip "a GPU is here"
    board --programs ch03_one
    refused 3 'no GPU here: there is nothing to time'
}

@test "with a causal mask PyTorch is asked for one, and half of the work is counted" {
    program ch03_one 20 22 25
    pytorch
    board OUT.json --programs ch03_one --causal
    [ "$status" -eq 0 ]
    [ "$(<pytorch.arguments)" = "--on-demand --causal" ]
    said mask causal
    said shapes.mission.gflop 0.537919488 # 4 * 2 * 8 * (512 * 513 / 2) * 64
    said shapes.mission.best.tflops 26.8959744
    board OUT.json --programs ch03_one
    [ "$(<pytorch.arguments)" = "--on-demand" ]
    run -1 grep -q '"mask"' OUT.json
    said shapes.mission.gflop 1.07374182
}

@test "the script finds the stages that are built, and leaves out those with a mask" {
    program ch03_one 20 22 25
    program ch04_other 1 1 1
    program ch07_masked 1 1 1
    touch code/ch03_one.cu code/ch04_other.cu
    echo '.mask = MASK_CAUSAL,' >code/ch07_masked.cu
    printf 'number\tname\tprogram\n3\tone\tch03_one\n5\tabsent\tch05_absent\n6\tnone\t-\n7\tmask\tch07_masked\n' >chapters/stages.tsv
    run labs/tools/scoreboard OUT.json --shapes mission --rounds 6 --backends none
    [ "$status" -eq 0 ]
    said source_hashes "{'ch03_one': 'hash-of-ch03_one'}"
}
