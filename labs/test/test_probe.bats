# labs/tools/probe and conditions: what they record and refuse; and appendix B's text about the metrics.

setup() {
    ROOT=$PWD
    cd "$BATS_TEST_TMPDIR"
}

refused() { # STATUS TEXT COMMAND...
    run "${@:3}"
    [ "$status" -eq "$1" ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$2"* ]] || { echo "not in: $output"; false; }
}

@test "probe: the simulator's answer to each mistake equals the record" {
    "$ROOT/labs/tools/probe" out.json --on simulator >table
    cmp out.json "$ROOT/plots/runs/simulator/probes.json"
    for right in right past_the_row one_lane_arrives; do grep -qE "^$right +- *$" table; done
    [ "$(grep -c reported table)" -eq 7 ]
    [ "$(wc -l <table)" -eq 11 ]
}

@test "probe: a GPU's record is of today's probes" {
    record=$ROOT/plots/runs/h200/probes.json
    [ -e "$record" ] || skip "no record of a GPU yet"
    grep -qF "\"source\": \"$(sha256sum <"$ROOT/labs/tools/probes.cu" | cut -d' ' -f1)\"" "$record"
    for probe in $(LD_LIBRARY_PATH="$ROOT/build/ptxsim" "$ROOT/build/probes"); do
        grep -qE "^ *\"$probe\": \{\"memcheck\": \"(reported|-)\", \"racecheck\": " "$record"
    done
}

@test "probe refuses unknown arguments" {
    refused 2 'usage: labs/tools/probe' "$ROOT/labs/tools/probe"
    refused 2 'usage: labs/tools/probe' "$ROOT/labs/tools/probe" --on simulator
    refused 2 'usage: labs/tools/probe' "$ROOT/labs/tools/probe" out.json --on moon
    refused 2 'no probe "absent"' env LD_LIBRARY_PATH="$ROOT/build/ptxsim" "$ROOT/build/probes" absent
    [ ! -e out.json ]
}

# A repository in which a program and ncu are scripts.
fake_tree() {
    mkdir -p labs/tools build bin
    cp "$ROOT/labs/tools/conditions" labs/tools
    printf 'ch02_scalar\tabc\n' >build/hashes.tsv
    printf '#!/bin/bash\nexit 0\n' >build/ch02_scalar
    cat >bin/ncu <<'FAKE'
#!/bin/bash
[ "$1" != --version ] || { echo "Version 2025.3.1.0 (build 1)"; exit; }
echo "$*" >>asked
while [ $# -gt 0 ]; do
    case $1 in --metrics) metrics=$2 ;; --cache-control) cache=$2 ;; esac
    shift
done
[ -e broken ] && exit 1
echo '==PROF== "a line of its own"'
echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
value=1,234.5
[ "$cache" = all ] || value=7
for metric in ${metrics//,/ }; do
    [ -e short ] && [[ $metric == dram* ]] && continue
    echo "\"0\",\"attention(args, \"\"x\"\")\",\"$metric\",\"\",\"$value\""
done
FAKE
    chmod +x build/ch02_scalar bin/ncu
    export PATH=$PWD/bin:$PATH
}

@test "conditions: four profiles of a launch, and a record" {
    fake_tree
    labs/tools/conditions out.json ch02_scalar >table
    [ "$(wc -l <table)" -eq 4 ]
    [ "$(grep -c -- '--clock-control none --cache-control none --launch-skip 3' asked)" -eq 1 ]
    grep -qF '"clock_base_cache_all": {"duration_ns": 1234.5, "cycles": 1234.5,' out.json
    grep -qF '"clock_none_cache_none": {"duration_ns": 7, "cycles": 7,' out.json
    grep -qF '"ch02_scalar": "abc"' out.json
    grep -qF '"version": "2025.3.1.0"' out.json
    [ "$(grep -c '"clock_[a-z]*_cache_[a-z]*": {' out.json)" -eq 4 ]
}

@test "conditions leaves nothing behind when it fails" {
    refused 2 'usage: labs/tools/conditions' "$ROOT/labs/tools/conditions"
    fake_tree
    refused 3 'build/absent is not there' labs/tools/conditions out.json absent
    touch short
    run labs/tools/conditions out.json ch02_scalar
    [ "$status" -eq 3 ]
    [[ $output == *"gave no counts"* ]]
    [ -z "$(ls out.json* 2>errors)" ]
    rm bin/ncu
    refused 3 'no Nsight Compute (ncu) here' env PATH=/usr/bin:/bin labs/tools/conditions out.json ch02_scalar
}

# The metrics that ncu.c asks for, one a line.
asked_for() {
    sed -n '/^} ncu_metrics\[\] = {$/,/^};$/p' "$ROOT/labs/driver/ncu.c" | grep -oE '"[a-z0-9]+__[a-z0-9_.]+"' | tr -d '"'
}

@test "appendix B explains every metric that is asked for, and no other" {
    stall=smsp__average_warps_issue_stalled_
    asked_for | sed -E "s/^$stall(.*)_per_issue_active\.ratio$/\1/" | sort >asked
    [ "$(wc -l <asked)" -gt 20 ]
    sed -n '/^## What the hardware counted/,/^## What the sanitizer sees/p' "$ROOT/chapters/B-profiling.md" |
        sed -nE 's/^\|[^|]*\| `([a-z0-9_.]+)` \|.*/\1/p' | sort >explained
    diff asked explained
}

@test "appendix B: a range of NVTX in a kernel does not compile, as recorded" {
    [ -x "$ROOT/build/cuda/bin/nvcc" ] || skip "no nvcc"
    sed -n '/^#include <nvtx3/,/^```$/p' "$ROOT/chapters/B-profiling.md" | sed '$d' >n.cu
    run "$ROOT/build/cuda/bin/nvcc" -c -arch=sm_89 n.cu -o n.o
    [ "$status" -ne 0 ]
    echo "$output" | fold -s -w 80 | sed 's/ *$//; /^$/d' | diff - "$ROOT/plots/runs/cpu/nvtx-in-a-kernel.txt"
}

@test "appendix C: the planted bugs that show the sources' mistakes are there" {
    sed -n '/planted bug/,/^Table:/p' "$ROOT/chapters/C-sources.md" | awk -F'|' 'NR > 2 && NF > 4 { print $4 }' |
        grep -oE '`[a-z-]+`' | tr -d '`' | sort -u >named
    [ "$(wc -l <named)" -ge 7 ]
    while read -r name; do
        grep -qE "^\`\`\` \{.*\.mutant .*name=${name}[ }]" "$ROOT"/chapters/*.md || { echo "no $name"; false; }
    done <named
}
