# The lab driver: its verdicts, its record, and what it refuses.
# bats file_tags=quick
load test_lab

setup() {
    new_lab
}

recorded() { # true if the record holds this text
    grep -qF "$1" "$LAB/build/lab03/record.json"
}

# ---- Verdicts ----

@test "FAST: every round above the promise" {
    printf '%s\n' 150 150 151 149 150.5 >"$LAB/build/ch02_scalar.times"
    run lab3 --on gpu --rounds 12
    [ "$status" -eq 0 ]
    [[ "$output" == *"FAST: "* ]]
    [[ "$output" == *"of 1.30x: met"* ]]
    recorded '"verdict": "FAST"'
    recorded '"verdict": "met"'
    recorded '"rounds": 12'
    recorded '"after_p50_us": 100.0'
    recorded '"ch03_wmma_qk": "hash-of-ch03_wmma_qk"'
}

@test "a GPU clock that changed meanwhile is in the record and in the report" {
    echo 150 >"$LAB/build/ch02_scalar.times"
    echo '{"low_mhz": 1980, "high_mhz": 1980, "watts": 300.5}' >"$LAB/build/ch02_scalar.clock"
    run lab3 --on gpu --rounds 12
    [ "$status" -eq 0 ]
    [[ "$output" != *"the clock moved"* ]]
    recorded '"moved": false'
    echo '{"low_mhz": 1800, "high_mhz": 1965, "watts": 400.5}' >"$LAB/build/ch03_wmma_qk.clock"
    run lab3 --on gpu --rounds 12
    [ "$status" -eq 0 ]
    [[ "$output" == *"the clock moved meanwhile: from 1800 to 1980 MHz"* ]]
    recorded '"moved": true'
    recorded '"watts": 400.5'
    recorded '"readings": 26' # two programs, twelve rounds and a warm-up round
    rm "$LAB"/build/*.clock
    run lab3 --on gpu --rounds 12
    [ "$status" -eq 0 ]
    run -1 recorded '"clock"'
}

@test "VALID NEGATIVE: right, and surely short of the promise; exit status 0" {
    echo 110 >"$LAB/build/ch02_scalar.times"
    run lab3 --on gpu --rounds 12
    [ "$status" -eq 0 ]
    [[ "$output" == *"1.10x [1.10, 1.10] of 1.30x: missed"* ]]
    [[ "$output" == *"VALID NEGATIVE: "* ]]
    recorded '"verdict": "VALID NEGATIVE"'
}

@test "GREEN: an interval that contains the promise decides nothing" {
    for _ in {1..20}; do printf '%s\n' 100 170; done >"$LAB/build/ch02_scalar.times"
    run lab3 --on gpu --rounds 20
    [ "$status" -eq 0 ]
    [[ "$output" == *"of 1.30x: inconclusive"* ]]
    [[ "$output" == *"GREEN: "* ]]
}

@test "GREEN: a comparison without a promise is shown and judges nothing" {
    echo 50 >"$LAB/build/ch02_scalar.times"
    run "$LAB/build/lab" --lab 3 --before ch02_scalar --shapes small,mission \
        --compare mission --why "no such unit here" --rounds 12 --on gpu
    [ "$status" -eq 0 ]
    [[ "$output" == *"mission   no promise: no such unit here"* ]]
    [[ "$output" == *"50.0 -> 100.0 us: 0.50x [0.50, 0.50]: not judged"* ]]
    [[ "$output" == *"GREEN: every gate passed"* ]]
    [[ "$output" != *"too noisy"* ]]
    recorded '"verdict": "not judged"'
    run recorded '"promise"'
    [ "$status" -ne 0 ]
}

@test "GREEN without a GPU: no time is made up" {
    run lab3 --on simulator
    [ "$status" -eq 0 ]
    [[ "$output" == *"not measured: the simulator counts, it does not time"* ]]
    [[ "$output" == *"GREEN: "* ]]
    [[ "$output" =~ "warp instructions"\ +1,000\ +1,000 ]]
    [[ "$output" =~ ch03_wmma_qk\ +0.0.*3.0.*issue ]]
    recorded '"runtime": "simulator"'
    run recorded '"speedup"'
    [ "$status" -ne 0 ]
}

@test "a lab without a before-program is timed by itself" {
    printf '%s\n' 99 100 101 >"$LAB/build/ch03_wmma_qk.times"
    run "$LAB/build/lab" --lab 3 --shapes mission --rounds 6 --on gpu
    [ "$status" -eq 0 ]
    [[ "$output" == *"mission   p50 101.0 us, from 99.0 to 101.0 in 6 rounds"* ]]
    [[ "$output" == *"GREEN: every gate passed"* ]]
}

@test "RED: a program that stops answering" {
    echo '' >"$LAB/build/ch03_wmma_qk.times"
    run lab3 --on gpu --rounds 6
    [ "$status" -eq 1 ]
    [[ "$output" == *"RED: "* ]]
}

@test "RED: a wrong output, and nothing is timed" {
    touch "$LAB/build/ch03_wmma_qk.wrong"
    run lab3 --on gpu
    [ "$status" -eq 1 ]
    [[ "$output" == *"0 of 3 right"*"FAIL"* ]]
    [[ "$output" == *"a wrong program is not timed"* ]]
    [[ "$output" == *"RED: 2 gates failed"* ]]
    recorded '"verdict": "RED"'
}

@test "RED: outputs that change under timing" {
    touch "$LAB/build/ch03_wmma_qk.late"
    echo 150 >"$LAB/build/ch02_scalar.times"
    run lab3 --on gpu --rounds 6
    [ "$status" -eq 1 ]
    [[ "$output" == *"outputs after the timed runs: FAIL: ch03_wmma_qk: outputs changed"* ]]
}

@test "RED: a fault found by the simulator is shown with its line of the chapter" {
    touch "$LAB/build/ch03_wmma_qk.fault"
    run lab3 --on simulator
    [ "$status" -eq 1 ]
    [[ "$output" == *"chapters/03-x.md:7: reads past the end"* ]]
}

@test "many faults, and long ones, fit an 80-column terminal" {
    long="reads 16 bytes of shared memory at 8192 (t + 8192) that thread (0,0,0) wrote at chapters/03-x.md:82 with"
    sed -i "s|^faults=\$|faults='\"1 $long\",\"2 $long\",\"3 $long\",\"4\",\"5\"'|" "$LAB/build/ch03_wmma_qk"
    run lab3 --on simulator
    [ "$status" -eq 1 ]
    [[ "$output" == *"    3 reads 16 bytes"*$'\n      wrote at chapters/03-x.md:82 with\n    and 2 more kinds of fault'* ]]
    [ -z "$(grep -v '^  record ' <<<"$output" | awk 'length > 80')" ]
}

@test "RED: each resource gate by itself" {
    local good='"registers":64,"shared_bytes":16384,"local_bytes":0,"occupancy":0.67' change
    for change in 's/64/129/' 's/16384/65537/' 's/local_bytes":0/local_bytes":8/' 's/0.67/0.49/' \
                  's/"registers":64,//'; do
        echo "{\"threads\":128,\"sm_89\":{$(sed "$change" <<<"$good")}}" >"$LAB/build/ch03_wmma_qk.resources"
        run lab3 --on simulator
        [ "$status" -eq 1 ]
        [[ "$output" == *"RED: a gate failed"* ]]
    done
}

@test "a limit that is only shown does not count" {
    run lab3 --on simulator --show 'registers <= 1'
    [ "$status" -eq 0 ]
    [[ "$output" == *"(<= 1)"*"shown"* ]]
}

@test "every counter that has a title in counts.def is a line of the report, in that order" {
    rows=$(sed -nE 's/^COUNTER\(([a-z0-9_]+), "([^"]*)".*/\1:\2/p; s/^CLASS_COUNTER\(([a-z0-9_]+), [A-Z_]+, "([^"]*)".*/\1:\2/p' \
        code/ptxsim/counts.def)
    [ "$(wc -l <<<"$rows")" -eq "$(grep -c '^[A-Z_]*COUNTER(' code/ptxsim/counts.def)" ]
    sed -E '/^async_copies/d; s/:.*//; s/.*/"&":3000,/' <<<"$rows" >"$LAB/build/ch03_wmma_qk.counts"
    echo '"classes":{"copy_async":3000}' >>"$LAB/build/ch03_wmma_qk.counts"
    run lab3 --on simulator
    [ "$status" -eq 0 ]
    sed -nE 's/^  (.{28}) .* 1,000( .*)?$/\1/p' <<<"$output" | sed 's/ *$//' | diff <(cut -d: -f2 <<<"$rows" | grep .) -
}

# ---- Nsight Compute ----

fake_ncu() {
    mkdir -p "$LAB/bin"
    cat >"$LAB/bin/ncu"
    chmod +x "$LAB/bin/ncu"
    echo 150 >"$LAB/build/ch02_scalar.times"
}

@test "ncu's figures, bank conflicts as a difference, without a metric that the GPU lacks" {
    fake_ncu <<'NCU'
#!/bin/bash
if [[ $* == *sm__pipe_tensor_cycles_active* ]]; then
    echo "==ERROR== Failed to find metric sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
    exit 1
fi
echo '==PROF== Connected to process 1'
echo '"ID","Kernel Name","Block Size","Metric Name","Metric Unit","Metric Value"'
row() { echo "\"0\",\"attention(int, float)\",\"(128, 1, 1)\",\"$1\",\"$2\",\"$3\""; }
row sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active % 12.5
row dram__bytes.sum byte 1,234,567
row sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum "" 3,000
row smsp__inst_executed_op_shared_ld.sum inst 1,000
row gpu__time_duration.sum ns 45,600
NCU
    PATH=$LAB/bin:$PATH run lab3 --on gpu --rounds 6
    [ "$status" -eq 0 ]
    [[ "$output" =~ "tensor pipe active, %"\ +12.50\ +12.50 ]]
    [[ "$output" =~ "DRAM bytes"\ +1,234,567 ]]
    [[ "$output" =~ \ 2,000\ +2,000 ]]
    [[ "$output" =~ "duration under the profiler, us"\ +45.60 ]]
    recorded '"ncu"'
    recorded '"shared_load_conflicts": 2000.0'
}

@test "without permission for the GPU's counters the simulator's are shown" {
    fake_ncu <<'NCU'
#!/bin/bash
echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"
exit 1
NCU
    PATH=$LAB/bin:$PATH run lab3 --on gpu --rounds 6
    [ "$status" -eq 0 ]
    [[ "$output" == *"Nsight Compute: no permission to read the GPU's counters"* ]]
    [[ "$output" =~ "warp instructions"\ +1,000 ]]
    recorded '"simulator"'
}

# ---- Recorded runs ----

old_record() {
    cat >"$LAB/plots/runs/h200/lab03.json" <<JSON
{"record":1,"lab":3,"date":"2026-11-21T09:00:00Z","runtime":"gpu","device":{"name":"NVIDIA H200"},
 "source_hashes":{"ch02_scalar":"hash-of-ch02_scalar","ch03_wmma_qk":"$1"},
 "speedup":{"mission":{"median":1.52,"low":1.5,"high":1.54,"rounds":30,"before_p50_us":61.2,
   "after_p50_us":40.3,"promise":1.3,"verdict":"met"}}}
JSON
}

@test "the recorded run stands beside, labelled with its GPU and date" {
    old_record hash-of-ch03_wmma_qk
    run lab3 --on simulator
    [[ "$output" == *"recorded on NVIDIA H200, 2026-11-21:"* ]]
    [[ "$output" == *"61.2 -> 40.3 us: 1.52x [1.50, 1.54] of 1.30x: met"* ]]
    [[ "$output" != *STALE* ]]
}

@test "a record of another program is marked STALE" {
    old_record hash-of-something-else
    run lab3 --on simulator
    [[ "$output" == *"recorded on NVIDIA H200, 2026-11-21 (STALE"* ]]
}

@test "a missing record is reported as missing" {
    run lab3 --on simulator
    [[ "$output" == *"no record of a GPU"* ]]
}

# ---- The profile ----

fake_profile() {
    printf '#!/bin/bash\n%s\n' "$1" >"$LAB/build/ptxsim/ptxsim"
    chmod +x "$LAB/build/ptxsim/ptxsim"
}

@test "--profile prints the lines of the promised shape, judges nothing and writes nothing" {
    fake_profile 'echo "$@" | sed "s,${0%/ptxsim/*}/,,"'
    rm "$LAB/build/ch02_scalar" # the lab does not run it
    run lab3 --profile
    [ "$status" -eq 0 ]
    [ "$output" = "profile ch03_wmma_qk --shapes mission --seeds 0 --no-timing --quiet" ]
    run lab3 --profile --shapes small
    [ "$output" = "profile ch03_wmma_qk --shapes small --seeds 0 --no-timing --quiet" ]
    [ ! -e "$LAB/build/lab03/record.json" ]
}

@test "--profile of a wrong program: the program's messages, then one line, status 1" {
    fake_profile 'echo "attention, chapters/03-x.md:7: reads past the end" >&2; echo no; exit 3'
    run lab3 --profile
    [ "$status" -eq 1 ]
    [ "${lines[0]}" = "attention, chapters/03-x.md:7: reads past the end" ]
    [ "${lines[1]}" = "lab3: no profile: ch03_wmma_qk fails, as said above; mend that first" ]
    [ "${#lines[@]}" -eq 2 ]
}

@test "--profile is refused without its tool, with options that do not fit, and without a kernel" {
    run lab3 --profile
    refused 3 "build/ptxsim/ptxsim is not there: type make chapter3"
    run lab3 --profile --on gpu
    refused 2 "--profile counts in the simulator: leave out --on gpu"
    run lab3 --profile --record "$BATS_TEST_TMPDIR/x.json"
    refused 2 "--profile prints lines and judges nothing: leave out --record"
    run "$LAB/build/lab" --lab 2 --profile
    refused 2 "--profile: ch02_scalar has no kernel to count"
    run lab3 --profile no-such-file.cu
    refused 2 "no-such-file.cu: No such file or directory"
    rm "$LAB/build/ptxsim/libcudart.so.13"
    run lab3 --profile
    refused 3 "build/ptxsim/libcudart.so.13 is not there: type make chapter3"
}

# ---- Ctrl-C ----

@test "Ctrl-C: the lab's name, the simulator's line about the place, and the end by that signal" {
    touch "$LAB/build/ch03_wmma_qk.waits"
    cd "$BATS_TEST_TMPDIR"
    (exec env --default-signal=INT "$LAB/build/lab" --lab 3 --shapes small --on simulator >out 2>err 3>&-) &
    local pid=$! status=0
    until [ -e "$LAB/build/ch03_wmma_qk.waiting" ]; do
        kill -0 $pid
        sleep 0.1
    done
    kill -INT $pid
    wait $pid || status=$?
    [ "$status" -eq 130 ]
    [ "$(cat err)" = "lab3: attention, chapters/03-x.md:9, block (0,0,0), thread (0,0,0): interrupted here" ]
    [ "$(grep -c 'GREEN\|RED' out)" -eq 0 ]
}

# in_terminal COMMAND: runs the command with a terminal as its standard output; $output becomes what
# it printed, with visible escapes.
in_terminal() {
    output=$(script -qec "$1" /dev/null </dev/null | cat -v)
}

@test "on a terminal the lab shows what it is doing, and removes the line; into a file it does not" {
    command -v script >/dev/null || skip "no script(1) to make a terminal"
    in_terminal "$LAB/build/lab --lab 3 --shapes small --on simulator"
    [[ "$output" == *"^M^[[K  ch03_wmma_qk, small ...^M^[[K"* ]]
    in_terminal "$LAB/build/lab --lab 3 --shapes small --on simulator 2>$BATS_TEST_TMPDIR/err"
    [[ "$output" != *"..."* ]]
    [ ! -s "$BATS_TEST_TMPDIR/err" ]
}

# ---- What is refused: one line, an exit status, nothing half-written ----

@test "a checkout that cannot be written is to blame, not the program" {
    mkdir -p "$LAB/build/lab03"
    echo 'int main(void) { return 0; }' >"$BATS_TEST_TMPDIR/mine.cu"
    if [ "$(id -u)" = 0 ]; then # a user who may write everywhere: root
        export -f lab3
        export LAB
        unshare --mount true || skip "no mounts of our own here"
        run unshare --mount bash -c 'mount --bind "$LAB" "$LAB" && mount -o remount,bind,ro "$LAB" && lab3 "$1"' \
            _ "$BATS_TEST_TMPDIR/mine.cu"
    else
        chmod a-w "$LAB/build/lab03"
        run lab3 "$BATS_TEST_TMPDIR/mine.cu"
    fi
    refused 3 "$LAB/build/lab03 cannot be written ("
    [[ "$output" == *"): make BUILD=~/attention chapter3, and go there" ]]
}

@test "an error of make itself is not blamed on the program" {
    echo 'int main(void) { return 0; }' >"$BATS_TEST_TMPDIR/mine.cu"
    printf '$(error CUDA_HOME is wrong)\n' >"$LAB/Makefile"
    run lab3 "$BATS_TEST_TMPDIR/mine.cu"
    refused 3 "lab3: CUDA_HOME is wrong."
    mkdir "$LAB/mk"
    mv "$LAB/Makefile" "$LAB/mk/toolchain.mk"
    echo 'include mk/toolchain.mk' >"$LAB/Makefile"
    run lab3 "$BATS_TEST_TMPDIR/mine.cu"
    refused 3 "lab3: CUDA_HOME is wrong."
    printf 'student:\n\t@echo "mine.cu(1): error: Makefile: *** is no word" >&2; exit 1\n' >"$LAB/Makefile"
    run lab3 "$BATS_TEST_TMPDIR/mine.cu"
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "lab3: $BATS_TEST_TMPDIR/mine.cu does not compile" ]
    printf 'student:\n\t@echo "fatal: mine.o: No space left on device" >&2; exit 1\n' >"$LAB/Makefile"
    run lab3 "$BATS_TEST_TMPDIR/mine.cu"
    refused 3 "lab3: the disk is full"
    rm -rf "$LAB/build/student"
    touch "$LAB/build/student"
    run lab3 "$BATS_TEST_TMPDIR/mine.cu"
    refused 3 "$LAB/build/student cannot be written ("
}

@test "a file that is no program for this lab: one line that says what is expected" {
    local whole="lab 3 takes a whole program, with its main(), as code/ch03_wmma_qk.cu is"
    cd "$BATS_TEST_TMPDIR"
    : >empty.cu
    mkdir folder.cu
    echo 'int main() {}' >plain.c
    echo 'hello' >README
    run lab3 empty.cu
    refused 2 "lab3: empty.cu is empty: $whole"
    run lab3 folder.cu
    refused 2 "lab3: folder.cu is a folder: $whole"
    run lab3 /dev/null
    refused 2 "lab3: /dev/null is no .cu file: $whole"
    run lab3 plain.c
    refused 2 "lab3: plain.c is no .cu file: $whole"
    run lab3 README
    refused 2 "lab3: README is no .cu file: $whole"
    mkdir "$LAB/build/labs"
    echo '{}' >"$LAB/build/labs/lab03.json"
    run lab3 empty.cu
    refused 2 "empty.cu is empty: $whole or make starter3 writes one"
    run "$LAB/build/lab" --lab 2 plain.cu
    refused 2 "plain.cu: No such file or directory"
    cp empty.cu mine.cu
    run "$LAB/build/lab" --lab 2 mine.cu
    refused 2 "mine.cu is no .c file: lab 2 takes a program in C, as code/ch02_scalar.c is"
}

@test "a program without main, and one with a main that is not the workbench's: one line" {
    cd "$BATS_TEST_TMPDIR"
    # "Compiled" by a copy; linking fails if there is no main.
    cat >"$LAB/Makefile" <<'END'
student:
	@grep -q main $(SRC) || { printf 'undefined reference to \140main\047\n' >&2; exit 1; }
	@mkdir -p build/student; cp $(SRC) $(OUT); chmod +x $(OUT)
END
    printf '#!/bin/sh\n' >none.cu
    run lab3 none.cu
    refused 1 "lab3: none.cu has no main(): lab 3 takes a whole program, with its main(), as code/ch03_wmma_qk.cu is"
    printf '#!/bin/sh\necho main: hello\n' >own.cu
    run lab3 own.cu
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "lab3: own.cu has a main() that does not call workbench_main(), as code/ch03_wmma_qk.cu does: nothing here can be judged" ]
    [ ! -e "$LAB/build/lab03/record.json" ]
    sed '2i : "main()\n        .chapter = 10,\n"' "$LAB/build/ch03_wmma_qk" >other.cu
    run lab3 --on simulator other.cu
    [ "$status" -eq 0 ]
    [ "${lines[2]}" = "note: its main() says .chapter = 10: ./lab10 judges such programs" ]
    sed -i 's/= 10,/= 3,/' other.cu
    run lab3 --on simulator other.cu
    [ "$status" -eq 0 ]
    [[ "$output" != *"note: "* ]]
}

@test "bad usage is refused" {
    run lab3 --frobnicate
    refused 2 "--frobnicate is no option; --help lists them"
    run lab3 --shapes
    refused 2 "--shapes needs a value"
    run lab3 --shapes 2x8
    refused 2 "2x8"
    run lab3 --shapes 1x8x0
    refused 2 "1x8x0"
    run lab3 --shapes small,,mission
    refused 2 "empty entry"
    run lab3 --shapes ''
    refused 2 "the list is empty"
    run lab3 --seeds one
    refused 2 '"one" is no whole number'
    run lab3 --seeds 1,-2
    refused 2 '"-2" is no whole number'
    run lab3 --seeds 18446744073709551616
    refused 2 'is no whole number from 0 to 18446744073709551615'
    run lab3 --inputs strange
    refused 2 "normal, mean, peaky, sink, rising or falling"
    run lab3 --rounds 5
    refused 2 "from 6 to"
    run lab3 --on cloud
    refused 2 "neither gpu nor simulator"
    run lab3 no-such-file.cu
    refused 2 "no-such-file.cu: No such file or directory"
    run lab3 --gate 'registers < 3' --on simulator
    [ "$status" -eq 2 ]
    run lab3 a.cu b.cu
    refused 2 "one program at a time"
    for name in '2$' 'a`b' 'a"b' 'a,b'; do
        cp "$LAB/build/ch03_wmma_qk" "$BATS_TEST_TMPDIR/$name.cu"
        run lab3 "$BATS_TEST_TMPDIR/$name.cu"
        refused 2 "$name.cu: rename it: nvcc takes no "
    done
    [ ! -e "$LAB/build/lab03/record.json" ]
}

@test "a shape the driver never heard of is judged under its own name" {
    run lab3 --on simulator --shapes 1x2x33
    [ "$status" -eq 0 ]
    [[ "$output" =~ ch03_wmma_qk\ +1x2x33\ +"3 of 3 right" ]]
}

@test "one shape is ragged unless --shapes is given; a script's --also adds to its own shapes alone" {
    run "$LAB/build/lab" --lab 3 --on simulator
    [ "$status" -eq 0 ]
    [[ "$output" == *" small "*" 1x2x77 "*" mission "* ]]
    run "$LAB/build/lab" --lab 3 --shapes small --also 1x2x33 --on simulator
    [[ "$output" == *" 1x2x33 "*" small "* && "$output" != *"1x2x77"* ]]
    run "$LAB/build/lab" --lab 3 --shapes small --also 1x2x33 --on simulator --shapes mission
    [[ "$output" == *" mission "* && "$output" != *"1x2x33"* ]]
}

@test "a wrong program is not compared with another" {
    touch "$LAB/build/ch03_wmma_qk.wrong"
    run lab3 --on simulator
    [ "$status" -eq 1 ]
    [[ "$output" != *"warp instructions"* && "$output" != *"Speedup"* && "$output" != *"Evidence"* ]]
}

@test "a shape beyond memory stops with the program's own line" {
    touch "$LAB/build/ch02_scalar.machine"
    run lab3 --on simulator
    [ "$status" -eq 3 ]
    [[ "$output" == *"needs 96 GiB on the device, 23 are free"* ]]
    [ ! -e "$LAB/build/lab03/record.json" ]
}

@test "an unwritable record is refused before the work" {
    run lab3 --record /no/such/folder/x.json
    refused 3 "--record /no/such/folder/x.json: No such file or directory"
}

@test "the head of the report: the stage by its name, the programs against each other" {
    run lab3 --on simulator
    [ "${lines[0]}" = "Lab 3: products of tiles" ]
    [ "${lines[1]}" = "ch03_wmma_qk against ch02_scalar, in the simulator" ]
    recorded '"after": "ch03_wmma_qk"'
}

@test "a stage without a row or a program, and an invalid table: one line says what to add" {
    run "$LAB/build/lab" --lab 5
    refused 3 "lab5: chapters/stages.tsv has no stage 5: add a row of its number, name, program, images, least"
    run "$LAB/build/lab" --lab 4
    refused 3 "lab4: chapters/stages.tsv: stage 4 has no program to judge"
    run "$LAB/build/lab"
    refused 2 "--lab is needed"
    sed -i '3s/\t75$//' "$LAB/chapters/stages.tsv"
    run lab3
    refused 3 "lab3: chapters/stages.tsv:3: no row of number, name, program, images, least"
    rm "$LAB/chapters/stages.tsv"
    run lab3
    refused 3 "lab3: chapters/stages.tsv: No such file or directory"
}

@test "a program that is not built is named, with what to type" {
    rm "$LAB/build/ch02_scalar"
    run lab3
    refused 3 "build/ch02_scalar is not there: type make chapter3"
    new_lab
    rm "$LAB/build/ptxsim/libcudart.so.13"
    run lab3 --on simulator
    refused 3 "build/ptxsim/libcudart.so.13 is not there: type make chapter3"
}

@test "--help names every option, in 80 columns" {
    run lab3 --help
    [ "$status" -eq 0 ]
    [ -z "$(awk 'length > 80' <<<"$output")" ]
    local option
    for option in on shapes seeds inputs rounds quick profile film film-shape film-values film-cta all watch hint record; do
        [[ "$output" == *"--$option"* ]]
    done
}
