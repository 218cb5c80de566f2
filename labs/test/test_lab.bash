# A folder with the driver and with shell scripts as programs: the scripts write records and speak
# the on-demand protocol as chapter programs do; the test sets results, times and noise.

# new_lab: sets LAB to a fresh tree. Programs read their behaviour from files beside them:
# NAME.times (one p50 a batch, the last one repeated), NAME.clock (what it reports of the clock),
# NAME.machine (if it exists, the device has too little memory), NAME.wrong (if it exists,
# correctness fails), NAME.how (in which way), NAME.prints (on stdout),
# NAME.refused (the launch is refused with this message), NAME.fault (the simulator finds a fault),
# NAME.endless (a loop that the simulator stopped), NAME.waits (runs until it is interrupted, as the
# simulator does), NAME.late (fails after timing), NAME.resources (JSON), NAME.counts (the
# simulator's counts for three launches: members of a JSON object, without its braces). For each run
# they add a line with the shape and the budget to NAME.budget.
new_lab() {
    LAB=$BATS_TEST_TMPDIR/lab
    rm -rf "$LAB"
    mkdir -p "$LAB/build" "$LAB/chapters" "$LAB/plots/runs/h200"
    printf '%s\t%s\t%s\t%s\t%s\n' number name program images least \
        2 "the first" ch02_scalar - - 3 "products of tiles" ch03_wmma_qk sm_89 75 4 "no program" - sm_89 75 \
        >"$LAB/chapters/stages.tsv"
    cp build/lab "$LAB/build/lab"
    mkdir "$LAB/build/ptxsim"
    touch "$LAB/build/ptxsim/libcudart.so.13"
    local name
    for name in ch02_scalar ch03_wmma_qk; do
        cat >"$LAB/build/$name" <<'PROGRAM'
#!/bin/bash
me=$0 name=${0##*/}
resources='{"registers":64,"static_shared_bytes":16384,"dynamic_shared_bytes":0,"local_bytes":0,
  "threads":128,"sm_89":{"registers":64,"shared_bytes":16384,"local_bytes":0,"occupancy":0.67}}'
[ -f "$me.resources" ] && resources=$(cat "$me.resources")
counts='"warp_instructions":3000,"classes":{"int":300}'
[ -f "$me.counts" ] && counts=$(cat "$me.counts")
while [ $# -gt 0 ]; do
    case $1 in
    --resources) echo "$resources"; exit 0 ;;
    --shapes) shape=$2; shift ;;
    --seeds) seeds=$2; shift ;;
    --record) record=$2; shift ;;
    --on-demand) on_demand=1 ;;
    esac
    shift
done
if [ -n "${on_demand:-}" ]; then
    n=0
    mapfile -t times <"$me.times"
    while read -r line; do
        clock=$(cat "$me.clock" 2>/dev/null)
        echo "{\"p50_us\": ${times[n < ${#times[@]} ? n : ${#times[@]} - 1]}, \"mean_us\": 1${clock:+, \"clock\": $clock}}"
        n=$((n + 1))
    done
    [ ! -f "$me.late" ] || { echo "$name: outputs changed" >&2; exit 1; }
    exit 0
fi
[ ! -f "$me.machine" ] || { echo "$name: shape $shape needs 96 GiB on the device, 23 are free" >&2; exit 3; }
pass=true
[ ! -f "$me.wrong" ] || pass=false
checks=
[ ! -f "$me.prints" ] || cat "$me.prints"
[ $pass = false ] || echo "$name: PASS: 3 of 3 outputs right" # the workbench prints this even with --quiet
how=
[ ! -f "$me.how" ] || how=",\"how\":\"$(cat "$me.how")\""
if [ -f "$me.refused" ]; then
    pass=false
    cat "$me.refused" >&2
    echo "$name: $shape, normal, seed 0: the kernel failed: cudaErrorInvalidValue: invalid argument" >&2
fi
for seed in ${seeds//,/ }; do
    checks="$checks${checks:+,}{\"seed\":$seed,\"input\":\"normal\",\"pass\":$pass,\"rel_head\":1e-4$how}"
done
echo "{\"source_hash\":\"hash-of-$name\",\"device\":{\"name\":\"Fake\"},
  \"shapes\":{\"$shape\":{\"correctness\":[$checks]}}}" >"$record"
echo "$shape ${PTXSIM_BUDGET:-none}" >>"$me.budget"
if [ -f "$me.waits" ]; then
    trap 'echo "ptxsim: attention, chapters/03-x.md:9, block (0,0,0), thread (0,0,0): interrupted here" >&2
          trap - INT; kill -INT $$' INT
    touch "$me.waiting"
    while :; do sleep 0.1; done
fi
endless=
faults=
if [ -f "$me.endless" ]; then
    endless='"endless":true,'
    faults='"attention, chapters/03-x.md:8: the loop here has not ended after 600000000 warp instructions of the launch (PTXSIM_BUDGET)"'
fi
[ ! -f "$me.fault" ] || faults='"attention, chapters/03-x.md:7: reads past the end"'
if [ -n "${PTXSIM_REPORT:-}" ]; then
    echo "{\"kernels\":[{\"launches\":3,\"grid\":[8,4,1],\"counts\":{$counts},
      \"l4_floors_us\":{\"tensor\":0,\"issue\":3,\"binding\":\"issue\"}}],$endless\"faults\":[$faults]}" >"$PTXSIM_REPORT"
fi
[ -z "$faults" ] || exit 3
[ $pass = true ]
PROGRAM
        chmod +x "$LAB/build/$name"
        echo 100 >"$LAB/build/$name.times"
        printf '%s\t%s\n' $name hash-of-$name >>"$LAB/build/hashes.tsv"
    done
}

# lab3 [options]: a lab with two shapes, four gates and a promise.
lab3() {
    "$LAB/build/lab" --lab 3 --before ch02_scalar --shapes small,mission \
        --gate 'registers <= 128' --gate 'shared <= 65536' --gate 'spills == 0' \
        --gate 'occupancy >= 50' --promise mission:1.3 "$@"
}

# refused STATUS TEXT: the last `run` printed one line, with this text, and had this exit status.
refused() {
    [ "$status" -eq "$1" ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "${lines[0]}" == *"$2"* ]]
}
