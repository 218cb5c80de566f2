# compare, profile-ncu and pytorch: what they print and refuse.

setup() {
    TOOLS=$PWD/build
    cd "$BATS_TEST_TMPDIR"
}

# record FILE PROGRAM P50 P90 [SED-SCRIPT]: a record with small, mission and a shape that was not
# timed.
record() {
    sed "${5-}" >"$1" <<EOF
{"record":1,"program":"$2","runtime":"gpu","date":"2026-01-01T00:00:00Z","git_commit":"abc",
 "source_hash":"0123456789abcdef","device":{"name":"NVIDIA H200"},"shapes":{
 "small":{"correctness":[{"seed":0,"input":"normal","pass":true}],
  "timing":{"p50_us":10,"p90_us":11,"mean_us":10.5,"cold_l2":false}},
 "mission":{"correctness":[{"seed":0,"input":"normal","pass":true}],
  "timing":{"p50_us":$3,"p90_us":$4,"mean_us":$3.5,"cold_l2":false}},
 "1x1x1":{"correctness":[{"seed":0,"input":"normal","pass":true}]}}}
EOF
}

refused() { # STATUS TEXT COMMAND...
    run "${@:3}"
    [ "$status" -eq "$1" ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$2"* ]] || { echo "not in: $output"; false; }
}

@test "compare: a row for each shape that both have timed, with ratio and verdict" {
    record a.json ch02_scalar 100 102
    record b.json ch03_wmma_qk 80 81
    "$TOOLS/compare" a.json b.json >table
    grep -qx '# ch03_wmma_qk against ch02_scalar' table
    grep -qx '| small | 10.00 → 10.00 | 11.00 → 11.00 | 10.50 → 10.50 | 1.00 | 1.00 | 1.00 | too close to tell |' table
    grep -qx '| mission | 100.00 → 80.00 | 102.00 → 81.00 | 100.50 → 80.50 | 1.25 | 1.26 | 1.25 | faster |' table
    [ "$(grep -c '^| [a-z0-9]*x\?' table)" -eq 3 ] # the header and the rows of two shapes
    "$TOOLS/compare" b.json a.json | grep -q '^| mission .* 0.80 | 0.79 | 0.80 | slower |$'
    "$TOOLS/compare" a.json b.json --out COMPARE.md >said
    [ ! -s said ]
    cmp COMPARE.md table
}

@test "compare refuses wrong kernels, different devices, and files without times" {
    record a.json ch02_scalar 100 102
    compare() { refused "$1" "$2" "$TOOLS/compare" a.json "${@:3}"; }
    record b.json ch03_wmma_qk 80 81 '5s/true/false/'
    compare 3 'b.json: ch03_wmma_qk is wrong at mission, and a wrong kernel' b.json
    record b.json ch03_wmma_qk 80 81 's/H200/L4/'
    compare 3 'two devices: a.json is from NVIDIA H200, b.json from NVIDIA L4' b.json
    record b.json ch03_wmma_qk 80 81 's/"gpu"/"simulator"/'
    compare 3 'b.json: not from a GPU (runtime: simulator), so it holds no times' b.json
    record b.json ch03_wmma_qk 80 81 's/"cold_l2":false/"cold_l2":true/'
    compare 3 'small: one of the two was timed with a cold L2' b.json
    record b.json ch03_wmma_qk 80 81 's/"cold_l2":false/"mode":"plain",&/'
    compare 3 'small: one of the two was timed without a graph' b.json
    record b.json ch03_wmma_qk 80 81 's/"p50_us":80,//'
    compare 3 'b.json: shapes.mission.timing.p50_us is no time' b.json
    record b.json ch03_wmma_qk 80 81 's/\[{.*}\]/[]/'
    compare 3 'was not checked at small' b.json
    record b.json ch03_wmma_qk 80 81 's/"small"/"2x2x2"/; s/"mission"/"3x3x3"/; s/"1x1x1"/"4x4x4"/'
    compare 3 'a.json and b.json have timed no shape in common' b.json
    compare 3 'absent.json: cannot be read' absent.json
    echo '{' >b.json
    compare 3 'b.json:' b.json
    echo '{}' >b.json
    compare 3 'b.json: no run record' b.json
    compare 2 'usage: compare'
    compare 2 'usage: compare' a.json a.json
    compare 3 '--out: cannot write /nonexistent/c.md' a.json --out /nonexistent/c.md
}

# A tree for profile-ncu: a driver that reports a GPU, and scripts as the program and ncu.
fake_gpu() {
    mkdir -p build/ncu bin lib
    echo 'int cuInit(unsigned f) { (void)f; return 0; } int cuDeviceGetCount(int *n) { *n = 1; return 0; }' |
        cc -shared -fPIC -x c - -o lib/libcuda.so.1
    cat >build/ch09_fake <<'EOF'
#!/bin/bash
while [ $# -gt 0 ]; do
    case $1 in --record) record=$2 ;; --seeds) seeds=$2 ;; esac
    shift
done
echo "$seeds" >seeds
pass=true
[ ! -e wrong ] || pass=false
for seed in ${seeds//,/ }; do checks+="${checks:+,}{\"seed\":$seed,\"pass\":$pass}"; done
echo "{\"program\":\"ch09_fake\",\"source_hash\":\"h\",\"device\":{\"name\":\"Fake\"},
  \"shapes\":{\"mission\":{\"correctness\":[$checks]}}}" >"$record"
[ $pass = true ]
EOF
    cat >bin/ncu <<'EOF'
#!/bin/bash
echo "$*" >>asked
for word; do [[ $word == build/* ]] && break; shift; done
"$@"
echo '"ID","Metric Name","Metric Unit","Metric Value"'
row() { echo "\"0\",\"$1\",\"$2\",\"$3\""; }
row sm__inst_executed_pipe_xu.sum inst 4,096
row sm__warps_active.avg.pct_of_peak_sustained_active % 12.5
row gpu__time_duration.sum ns 45,600
EOF
    chmod +x build/ch09_fake bin/ncu
    export LD_LIBRARY_PATH=$PWD/lib PATH=$PWD/bin:$PATH
}

@test "profile-ncu: one launch after the warm-up, a table and a record" {
    fake_gpu
    run "$TOOLS/profile-ncu" ch09_fake mission 5 2
    [ "$status" -eq 0 ]
    [ "$(cat seeds)" = 7,6,5 ] # the launch with the last seed is measured
    grep -q -- '--clock-control none --launch-skip 2 --launch-count 1 --metrics' asked
    [[ ${lines[0]} == ch09_fake*Fake*"mission, seed 5, after 2 launches" ]]
    [[ $output =~ MUFU[^$'\n']*\ 4,096 ]]
    [[ $output =~ "warps active"[^$'\n']*\ 12.50 ]]
    [[ $output =~ "duration under"[^$'\n']*\ 45.60 ]]
    for said in '"program": "ch09_fake"' '"source_hash": "h"' '"seed": 5' '"warmup": 2' '"xu_instructions": 4096.0'; do
        grep -qF "$said" build/ncu/ch09_fake-mission.json
    done
    [ "$(ls build/ncu)" = ch09_fake-mission.json ]
}

@test "profile-ncu asks for the metrics that the evidence needs, by this GPU's names" {
    fake_gpu
    "$TOOLS/profile-ncu" ch09_fake
    for metric in sm__pipe_tensor sm__inst_executed_pipe_xu dram__bytes sm__warps_active smsp__issue_active \
        wavefronts_mem_shared_op_ld stalled_barrier stalled_math_pipe_throttle stalled_not_selected; do
        grep -q "$metric" asked
    done
    [ "$(cat seeds)" = 3,2,1,0 ]
}

@test "profile-ncu refuses: one line each" {
    refused 3 'build/ch09_fake is not there: type make build/ch09_fake' "$TOOLS/profile-ncu" ch09_fake
    fake_gpu
    refused 2 'usage: labs/tools/profile-ncu' "$TOOLS/profile-ncu"
    refused 2 '"2x8" is no shape' "$TOOLS/profile-ncu" ch09_fake 2x8
    refused 2 'seed: "-1" is no whole number' "$TOOLS/profile-ncu" ch09_fake mission -1
    refused 2 'warm-up: "61" is no whole number from 0 to 60' "$TOOLS/profile-ncu" ch09_fake mission 0 61
    touch wrong
    refused 1 'ch09_fake is wrong at mission: 0 of 4 outputs right' "$TOOLS/profile-ncu" ch09_fake
    [ -z "$(ls build/ncu)" ]
    rm wrong bin/ncu
    if ! command -v ncu && [ ! -e /usr/local/cuda/bin/ncu ]; then
        refused 3 'no Nsight Compute (ncu) here' "$TOOLS/profile-ncu" ch09_fake
    fi
    unset LD_LIBRARY_PATH
    [ -e /dev/nvidia0 ] || refused 3 'no GPU here: make profileN counts' "$TOOLS/profile-ncu" ch09_fake
}

@test "exchange: usage, and one line without a record of texts, PyTorch or a GPU" {
    local exchange=$TOOLS/../labs/tools/exchange
    refused 2 'the first argument is the record, OUT.json, not out.txt' "$exchange" out.txt
    refused 2 '--texts: --texts RECORD or --weights FILE' "$exchange" out.json --texts
    refused 2 '--texts : no such record; plots/runs/h200/activations.json is one' "$exchange" out.json
    refused 2 '--texts absent.json: no such record' "$exchange" out.json --texts absent.json
    python3 -c 'import torch, attention_in_stages' 2>/dev/null && skip "PyTorch and the operators are here"
    echo '{"texts": []}' >texts.json
    refused 3 'PyTorch and code/torch are needed (pip install code/torch)' "$exchange" out.json --texts texts.json
    [ ! -e out.json ]
}

@test "decoding: usage, and one line without PyTorch or the operators" {
    local decoding=$TOOLS/../labs/tools/decoding
    "$decoding" --help | grep -qx '  labs/tools/decoding OUT.json'
    run "$decoding"
    [ "$status" -eq 2 ]
    refused 2 'the argument is the record, OUT.json, not out.txt' "$decoding" out.txt
    python3 -c 'import torch, attention_in_stages' 2>/dev/null && skip "PyTorch and the operators are here"
    refused 3 'PyTorch and code/torch are needed (pip install code/torch)' "$decoding" out.json
    [ ! -e out.json ]
}

@test "activations: usage, and one line without weights or without PyTorch" {
    local activations=$TOOLS/../labs/tools/activations
    refused 2 'the first argument is the record, OUT.json, not out.txt' "$activations" out.txt
    refused 2 '--weights: --weights FILE or --tensors FOLDER' "$activations" out.json --weights
    refused 2 '--speed: --weights FILE or --tensors FOLDER' "$activations" out.json --speed 3
    refused 2 'nowhere: no such folder' "$activations" out.json --tensors nowhere
    refused 3 'absent.bin: no weights there: pip install --no-deps antiberty==0.1.3' "$activations" out.json --weights absent.bin
    python3 -c 'import torch' 2>/dev/null && skip "PyTorch is here"
    touch weights.bin
    refused 3 'PyTorch is not installed here' "$activations" out.json --weights weights.bin
    [ ! -e out.json ]
}

@test "pytorch: usage, and one line where PyTorch is not installed" {
    local pytorch=$TOOLS/../labs/tools/pytorch
    refused 2 'no such folder' "$pytorch" nowhere
    refused 2 '"fast" is none of flash, cudnn' "$pytorch" . --backends fast
    refused 2 '"2x8x64" is none of small' "$pytorch" . --shapes 2x8x64
    refused 2 '--iters: "0"' "$pytorch" . --iters 0
    refused 2 '--iters needs a value' "$pytorch" . --iters
    refused 2 'unknown option --speed' "$pytorch" . --speed
    refused 2 "mine.cu: no contestant's file, NAME.py" "$pytorch" --on-demand mine.cu
    refused 2 "absent.py: no contestant's file, NAME.py" "$pytorch" --on-demand absent.py
    touch flash.py
    refused 2 'flash.py: there is another flash' "$pytorch" --on-demand flash.py
    python3 -c 'import torch' 2>/dev/null && skip "PyTorch is here"
    refused 3 'PyTorch is not installed here' "$pytorch" .
    refused 3 'PyTorch is not installed here' "$pytorch" --on-demand
}
