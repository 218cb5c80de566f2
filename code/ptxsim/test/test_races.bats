# Planted bugs: each is reported at its line under every schedule, and its right version has no
# report. The programs are in races_cases.cu.

load test_cases

setup_file() {
    compile_cases code/ptxsim/test/races_cases.cu 89 16
}

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
}

@test "a cp.async without a wait" { expect copy_wait "is still writing: nothing has waited for it"; }
@test "a wait that leaves one group too many" { expect copy_groups "is still writing"; }
@test "a cp.async and an mbarrier in helpers: their lines, and the lines that call them" {
    at() { grep -nwE -- "// <- (.*, )?$1" "$CASES" | cut -d: -f1; }
    expect helper "a cp.async of thread"
    run "$BATS_FILE_TMPDIR/cases" helper wrong
    echo "$output"
    [[ "$output" == *" at $CASES:$(at fetched) (called at $CASES:$(at fetching)) is still writing"* ]]
    run "$BATS_FILE_TMPDIR/cases" arrivals wrong
    echo "$output"
    called() { echo "$CASES:$(at arrivals) (called at $CASES:$(at "$1"), $CASES:$(at hands))"; }
    [[ "$output" == "ptxsim: arrivals, $(called fills), block (0,0,0), thread ("* ]]
    [[ "$output" == *"warps 2-3 at $(called waits) (mbarrier.test_wait."* ]]
}
@test "a cp.async into a tile that others read" { expect copy_reuse "with no barrier in between"; }
@test "a cp.async from what others write: before it, and after it" {
    expect copy_source "wrote at"
    expect copy_source_again "read at"
}
@test "a cp.async whose mbarrier nobody waits for" { expect copy_mbarrier "is still writing"; }
@test "a cp.async that one thread waits for, and that others read which have met this thread only before its wait" {
    expect copy_seen "has written: this thread has not waited for it, nor met one that had"
    expect copy_own_wait "that a cp.async of thread"
}
@test "no barrier before reading" { expect read_early "with no barrier in between"; }
@test "no barrier before overwriting" { expect overwrite "with no barrier in between"; }
@test "no __syncwarp" { expect warp_step "with no __syncwarp or barrier in between"; }
@test "the wrong named barrier" { expect named "with no barrier in between"; }
@test "a barrier under divergence" { expect divergent "bar.sync under divergence"; }
@test "the wrong parity of an mbarrier" { expect parity "parity"; }
@test "an arrival too few: the report says which warps wait where" { expect arrivals "(full + 0), phase of parity 0: 64 of 65 arrivals"; }
@test "a flag that nobody sets" { expect flag "deadlock: 4 of 4 warps"; }
@test "blocks that wait for one another in a circle" { expect chain "in 4 of 4 CTAs: warp 0 at"; }
@test "a lock that its owner takes again" { expect twice_locked "deadlock: "; }
@test "a flag that nobody sets, and a wait that counts" {
    PTXSIM_SPIN=100000 expect flag_counted "no progress (PTXSIM_SPIN): 1 of 4 warps"
}
@test "a deadlock is reported alike on any number of host threads" {
    for name in flag chain; do
        PTXSIM_THREADS=1 run "$BATS_FILE_TMPDIR/cases" $name wrong
        one=$(sed -E 's/0x[0-9a-f]+/ADDRESS/' <<<"$output")
        for threads in 2 3 4; do
            PTXSIM_THREADS=$threads run "$BATS_FILE_TMPDIR/cases" $name wrong
            [ "$(sed -E 's/0x[0-9a-f]+/ADDRESS/' <<<"$output")" = "$one" ]
        done
    done
}
@test "one element out of bounds" { expect bounds "0 bytes past the end of the allocation"; }
@test "an uninitialised read of shared memory" { expect uninitialised "that nothing has written"; }
@test "an uninitialised read of global memory" { expect fresh "that nothing has written"; }
@test "unwritten reads are reported in kernels and lines of any name; PTXSIM_UNWRITTEN=libraries exempts libraries" {
    for name in borrowed borrowed_line; do
        run "$BATS_FILE_TMPDIR/cases" $name right
        [ "$output" = cudaSuccess ]
        run "$BATS_FILE_TMPDIR/cases" $name wrong
        [[ "$output" == "ptxsim: "*"that nothing has written"* ]]
        PTXSIM_UNWRITTEN=libraries run "$BATS_FILE_TMPDIR/cases" $name wrong
        [ "$output" = cudaSuccess ]
    done
    PTXSIM_UNWRITTEN=libraries run "$BATS_FILE_TMPDIR/cases" uninitialised wrong
    [[ "$output" == "ptxsim: uninitialised, $CASES:"* ]]
    PTXSIM_UNWRITTEN=yes run "$BATS_FILE_TMPDIR/cases" borrowed wrong
    [[ "$output" == 'ptxsim: PTXSIM_UNWRITTEN: "yes" is not libraries: ignored'*"that nothing has written"* ]]
}
@test "an exchange reads if its result is used" { expect exchanged "that nothing has written"; }
@test "a queue without atomics in shared memory" { expect queue "4 bytes of shared memory"; }
# told NAME COUNT TEXT: as expect NAME TEXT; and under every schedule COUNT races are reported, those included that a
# report only counts ("and 3 more like it").
told() {
    expect "$1" "$3"
    [ "$(awk -v count="$2" '/^schedule / { schedules++; told = 0 } /^ptxsim: / { told++ }
        match($0, /\(and [0-9]+ more/) { told += substr($0, RSTART + 5) }
        /^cuda/ { good += told == count } END { print good, schedules }' <<<"$output")" = "$SCHEDULES $SCHEDULES" ]
}
@test "a word of another block's vector, stored and loaded" {
    told vector_stored 4 "in between"
    told vector_loaded 4 "in between"
}
@test "a word that all lanes load, and the first or the last of them has written or overwrites" {
    told same_word 4 "with no __syncwarp or barrier in between"
    told last_lane 4 "with no __syncwarp or barrier in between"
}

@test "equal values, stored by several warps or blocks, are no race, in any order" {
    expect same_values "with no release and acquire in between"
    expect same_row "with no barrier in between"
    expect same_matrix "with no barrier in between"
}

@test "strong accesses that overlap in part are a race: in shared memory, between blocks, after another read" {
    expect partly "with no barrier in between"
    expect partly_global "with no release and acquire in between"
    expect partly_read "with no barrier in between"
}
@test "a third reader that the writer has not waited for: a block, and a warp" {
    expect third_block "with no release and acquire in between"
    expect third_warp "with no barrier in between"
    expect table_written "with no release and acquire in between"
}

@test "random programs: a race is reported where there is one, and nowhere else" {
    local memory sizes programs=$BATS_TEST_TMPDIR/programs
    compile code/ptxsim/test/race_programs.cu 89 "$programs" -Xcompiler -O1
    for memory in shared global; do
        for sizes in words bytes; do
            run "$programs" $memory $sizes 500 11
            echo "$memory, $sizes: $output"
            [ "$status" -eq 0 ]
            [[ $output =~ ^"500 programs, "[12][0-9][0-9]" with a race, 0 told wrongly"$ ]]
        done
    done
    PTXSIM_CHECK=off run "$programs" shared words 40 11 # the comparison can fail
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} =~ ^"40 programs, "([0-9]+)" with a race, "([0-9]+)" told wrongly"$ ]]
    [ "${BASH_REMATCH[1]}" -gt 5 ]
    [ "${BASH_REMATCH[2]}" = "${BASH_REMATCH[1]}" ]
    grep -q "a race that is not told" <<<"$output"
}

@test "programs of fences, scopes, masks, proxies and copies under way, drawn at random" {
    local programs=$BATS_TEST_TMPDIR/programs
    compile code/ptxsim/test/model_programs.cu 90 "$programs" -Xcompiler -O1
    run "$programs" 600 2
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ ^"600 programs, "([0-9]+)" with a race, 0 told wrongly"$ ]]
    [ "${BASH_REMATCH[1]}" -gt 100 ]
    PTXSIM_CHECK=off run "$programs" 40 1 # the comparison can fail
    [ "$status" -eq 1 ]
    grep -q "a race that is not told" <<<"$output"
}

@test "a queue without atomics in global memory" { expect global_queue "in between"; }
@test "a fence that is too early: before a barrier, before the writes" {
    expect fence_before_barrier "with no release and acquire in between"
    expect fence_before_write "with no release and acquire in between"
}
@test "a last block without a fence" { expect last_block "with no release and acquire in between"; }
@test "blocks that meet at their border" { expect border "with no release and acquire in between"; }

@test "rows that overlap, in shared and in global memory" {
    expect overlap "4 bytes of shared memory"
    expect overlap_global "in between"
}
@test "a line of one thread that reads what the same line of another writes" { expect neighbour "with no barrier in between"; }
@test "an access past the end of its tile, into another one" { expect runs_over "4 bytes of shared memory"; }
@test "rounds that write the same places" { expect turns "with no barrier in between"; }
@test "a line that writes two tiles" { expect two_tiles "with no barrier in between"; }

@test "copies drained after they were handed over" { expect copy_drained "(tile + "; }
@test "a wmma tile in place, looked at by lanes" { expect wmma_looked_at "with no __syncwarp or barrier in between"; }
@test "a wmma tile in place, one for each warp" { expect wmma_in_place "with no barrier in between"; }
@test "volatile is no order between lanes in step" { expect in_step "with no __syncwarp or barrier in between"; }
@test "volatile is no order between lanes in step in global memory" { expect in_step_global "with no __syncwarp or barrier in between"; }
@test "a flag that lanes poll in step is no race; one that they compute with is" {
    expect polled "with no __syncwarp or barrier in between"
}
@test "a flag between lanes, without a fence" { expect lane_flag "with no __syncwarp or barrier in between"; }
@test "a ballot whose mask leaves out the lane itself" {
    expect outside "leaves out the lane itself, 0: it is undefined"
}
@test "a __syncwarp() or a shuffle whose mask leaves out the lane itself, or the lane that it reads" {
    expect outside_sync "leaves out the lane itself, 8: it is undefined"
    expect outside_shuffle "leaves out the lane itself, 1: it is undefined"
    expect outside_source "takes the value of lane 16, which its mask leaves out: it is undefined"
}
@test "atomics of a block's scope at a place of several blocks" {
    expect block_scope "both are strong, but a scope leaves out the other's block"
}
@test "a volatile message to another block, with a fence for one block on either side" {
    expect sent_to_block "for one block only (__threadfence_block)"
    expect received_for_block "for one block only (__threadfence_block)"
}
@test "a lock without a fence after it is reported under PTXSIM_CHECK=strict alone" {
    PTXSIM_CHECK=strict expect locked "with no release and acquire in between"
    run "$BATS_FILE_TMPDIR/cases" locked wrong
    [ "$output" = cudaSuccess ]
}
@test "bug reports: a scan without a fence, a vote and a reused buffer without a barrier, a mask of 24 lanes" {
    expect scan "with no release and acquire in between"
    expect vote "with no __syncwarp or barrier in between"
    expect norms "with no barrier in between"
    expect stored_tile "with no __syncwarp or barrier in between"
    expect short_mask "leaves out the lane itself, 24: it is undefined"
}
@test "bug report: a last block without a fence after its count is reported under PTXSIM_CHECK=strict alone" {
    PTXSIM_CHECK=strict expect last_unfenced "with no release and acquire in between"
    run "$BATS_FILE_TMPDIR/cases" last_unfenced wrong
    [ "$output" = cudaSuccess ]
}
@test "a hash table with a lock for each list: one thread takes another list's lock" {
    expect buckets "in between"
}
@test "locks that are taken more often than the checker keeps, and then a store without a lock" {
    SCHEDULES=2 expect long_history "in between"
}
# On one CPU a host thread that waits by asking for a lock again and again would ask for a whole time slice in vain.
@test "locks that two host threads on one CPU contend for are asked for hardly more often than on one" {
    SCHEDULES=2 expect crowded "in between"
    local threads cpu one asked
    cpu=$(taskset --cpu-list --pid $$ | sed -E 's/.*: ([0-9]+).*/\1/')
    for threads in 1 2 2 2; do
        PTXSIM_THREADS=$threads PTXSIM_REPORT=$BATS_TEST_TMPDIR/report.json run \
            taskset --cpu-list "$cpu" "$BATS_FILE_TMPDIR/cases" crowded right
        [ "$output" = cudaSuccess ]
        asked=$(sed -nE 's/.*"atomic":([0-9]+).*/\1/p' "$BATS_TEST_TMPDIR/report.json" | head -1)
        one=${one:-$asked}
        echo "$threads host threads: $asked"
        [ "$asked" -gt $((one / 2)) ]
        [ "$asked" -lt $((one * 3 / 2)) ]
    done
}
@test "a shuffle from a lane that has left" { expect left "which has left the kernel"; }
@test "two __syncthreads() for one" { expect two_barriers "where others came to that at"; }
@test "a loop whose counter stands still" { SCHEDULES=4 expect endless "the loop here does not end"; }
@test "a loop of one warp, or of some lanes, while the others wait at a barrier" {
    expect warp_spins "the loop here does not end: nothing changes"
    expect lanes_spin "the loop here does not end: nothing changes"
}
@test "a loop that stores the same for ever" { expect endless_stores "deadlock: 1 of 4 warps"; }
@test "a loop that counts past its end" {
    PTXSIM_SPIN=100000 expect missed_end "the loop here does not end: "
}
@test "a loop that stores for ever is stopped by the budget, at its own line" {
    export SCHEDULES=4 PTXSIM_BUDGET=300000
    line_of() { grep -n "// <- $1\$" "$CASES" | cut -d: -f1; }
    expect same_tile ", to line $(($(line_of same_tile) + 5)), has not ended after 300000 warp instructions of the launch (PTXSIM_BUDGET)"
    expect no_step ", to line $(($(line_of no_step) + 4)), has not ended after 300000 warp instructions of the launch (PTXSIM_BUDGET)"
    expect walks ", to line $(($(line_of walks) + 2)), has not ended after 300000 warp instructions of the launch (PTXSIM_BUDGET)"
    local name threads said
    for name in same_tile walks; do
        for threads in 1 2 4; do
            PTXSIM_THREADS=$threads run "$BATS_FILE_TMPDIR/cases" $name wrong
            said=${said:-$output}
            [[ "$output" == *cudaErrorLaunchTimeout ]]
        done
        [[ "$output" != *"wait for others"* ]]
    done
    PTXSIM_REPORT=$BATS_TEST_TMPDIR/report.json run "$BATS_FILE_TMPDIR/cases" walks wrong
    grep -q '^"endless":true,"faults":\["walks, ' "$BATS_TEST_TMPDIR/report.json"
    PTXSIM_BUDGET=lots run "$BATS_FILE_TMPDIR/cases" walks right
    [[ "$output" == 'ptxsim: PTXSIM_BUDGET: "lots" is no whole number up to '*': ignored'* ]]
    [[ "$output" == *cudaSuccess ]]
}
@test "Ctrl-C says in which kernel and line it was, and ends the program by that signal" {
    local pid status=0 line
    (exec env --default-signal=INT "$BATS_FILE_TMPDIR/cases" same_tile wrong >"$BATS_TEST_TMPDIR/said" 2>&1 3>&-) &
    pid=$!
    # The process, at first a shell, is in the kernel once it has become the program and handles SIGINT (SigCgt).
    until [ "$(readlink "/proc/$pid/exe")" = "$(realpath "$BATS_FILE_TMPDIR/cases")" ] &&
        grep -qE '^SigCgt:.*[2367abef]$' "/proc/$pid/status"; do
        kill -0 $pid
    done
    kill -INT $pid
    wait $pid || status=$?
    [ "$status" -eq 130 ]
    cat "$BATS_TEST_TMPDIR/said"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -eq 1 ]
    line=$(sed -nE "s|^ptxsim: same_tile, .*$CASES:([0-9]+), block \(0,0,0\), thread \(.*\): interrupted here$|\1|p" "$BATS_TEST_TMPDIR/said")
    sed -n "$((line - 9)),${line}p" "$CASES" | grep -q '<- same_tile' # the line is within the loop
}
@test "on a terminal, a kernel that takes longer says how far it is; into a file it does not" {
    command -v script >/dev/null || skip "no script(1) to make a terminal"
    local said
    PTXSIM_PATIENCE=0 PTXSIM_BUDGET=30000000 run script -qec "'$BATS_FILE_TMPDIR/cases' same_tile wrong" /dev/null </dev/null
    said=$(cat -v <<<"$output")
    [[ "$said" == *"^M^[[Ksame_tile: 0 of 1 blocks, "*" s^M^[[Kptxsim: same_tile, "* ]]
    PTXSIM_PATIENCE=0 PTXSIM_BUDGET=30000000 run "$BATS_FILE_TMPDIR/cases" same_tile wrong
    [[ "$output" == "ptxsim: same_tile, "* ]]
}
@test "blocks in turns, each writes where the one before has read" { expect in_place "with no release and acquire in between"; }

@test "PTXSIM_CHECK=off checks nothing; PTXSIM_CHECK=memory checks reads, but no races" {
    PTXSIM_CHECK=off run "$BATS_FILE_TMPDIR/cases" uninitialised wrong
    [ "$output" = cudaSuccess ]
    PTXSIM_CHECK=memory run "$BATS_FILE_TMPDIR/cases" uninitialised wrong
    [[ "$output" == "ptxsim: uninitialised, "* ]]
    PTXSIM_CHECK=memory run "$BATS_FILE_TMPDIR/cases" overwrite wrong
    [ "$output" = cudaSuccess ]
}

@test "PTXSIM_CHECK=mine tells of no races within headers of the toolkit" {
    run "$BATS_FILE_TMPDIR/cases" header wrong
    [[ "$output" == "ptxsim: header, /opt/cuda/include/racing.h:8, "* ]]
    PTXSIM_CHECK=mine run "$BATS_FILE_TMPDIR/cases" header wrong
    [ "$output" = cudaSuccess ]
    for name in overwrite copy_wait uninitialised; do
        PTXSIM_CHECK=mine run "$BATS_FILE_TMPDIR/cases" $name wrong
        [[ "$output" == "ptxsim: $name, $CASES:"* ]]
    done
}

@test "a race is in the report's faults" {
    PTXSIM_REPORT=$BATS_TEST_TMPDIR/report.json run "$BATS_FILE_TMPDIR/cases" overwrite wrong
    grep -q '"faults":\["overwrite, ' "$BATS_TEST_TMPDIR/report.json"
}
