# Planted bugs in programs for sm_90a: each is reported at its line, and its right version has no
# report. The programs are in hopper_cases.cu; test_hopper.cu tests results.

bats_require_minimum_version 1.5.0
load test_cases

setup_file() {
    compile_cases code/ptxsim/test/hopper_cases.cu 90a 6
}

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
}

@test "wgmma: accumulators before the wait" { expect no_wait "nothing has waited for it (wgmma.wait_group)"; }
@test "wgmma: registers that are written with no wgmma.fence" { expect no_fence "with no wgmma.fence in between"; }
@test "wgmma: operands that threads write with no proxy fence" {
    expect no_proxy_fence "a proxy fence is missing in between (fence.proxy.async)"
}
@test "wgmma: an operand with a byte that nothing has written" { expect unfilled "that nothing has written"; }
@test "wgmma: a box that one lane of each warp has waited for" { expect multiplied_early "a cp.async.bulk of thread (0,0,0)"; }
@test "wgmma: an operand that is overwritten before the wait" { expect overwritten "with no barrier in between"; }
@test "wgmma: an operand that is overwritten before the wait, with barriers before and after the write" {
    expect overwritten_between "while this was under way: nothing had waited for it, and a barrier does not (wgmma.wait_group)"
}
@test "wgmma: three of four warps" { expect three_warps "all four warps of a warpgroup must execute the same"; }
@test "wgmma: three of four warps, the fourth at a barrier" { expect elsewhere "for warp 3 of its warpgroup"; }
@test "wgmma: a box into a tile that four warps read, when one of them has waited" {
    expect one_waits "copies (cp.async.bulk)"
}
@test "wgmma: a tile that is given back before the product has read it" {
    expect released_early "copies (cp.async.bulk)"
}
@test "wgmma: a wait for products that is taken for a barrier" {
    expect wait_is_no_barrier "with no barrier in between"
}
@test "wgmma: a descriptor outside of shared memory" { expect outside "shared memory"; }
@test "setmaxnreg: more registers than an SM has, or than the block was launched with" {
    expect registers "would have 68608 registers, an SM has 65536"
    expect registers_of_block "would have 17408 registers, and were launched with 16384"
}
@test "TMA: a box that nobody waits for" { expect early "a cp.async.bulk of thread (0,0,0)"; }
@test "TMA: one thread waits for a box; others, which have met it after the issue but not after the wait, read" {
    expect met_before "a cp.async.bulk of thread (0,0,0) at $CASES:"
    [[ "$output" == *"has written: this thread has not waited for it, nor met one that had"* ]]
    expect lane_waits "a cp.async.bulk of thread (0,0,0)"
    expect handed_on "a cp.async.bulk of thread (0,0,0)"
}
@test "TMA: a box that a thread reads after waiting for another box" {
    expect other_awaited "a cp.async.bulk of thread (0,0,0)"
}
@test "TMA: bytes that never come: the report says which warps wait where" {
    expect expected "phase of parity 0: 1 of 1 arrivals, 16 bytes missing"
}
@test "TMA: a box into a tile that others read" { expect reused "copies (cp.async.bulk)"; }
@test "TMA: something that is no tensor map" { expect no_map "with something that is no tensor map"; }
@test "bulk store: what threads write with no proxy fence" { expect store_unfenced "a proxy fence is missing"; }
@test "bulk store: its source is overwritten before it has read" { expect store_reused "while this was under way"; }
@test "bulk store: its source is overwritten before it has read, between barriers or by its own thread" {
    expect store_between "while this was under way: nothing had waited for it, and a barrier does not (cp.async.bulk.wait_group)"
    expect store_own "while this was under way"
}
@test "TMA: a box into a tile that threads have read, with no proxy fence, or one behind the barrier" {
    expect read_unfenced "read at $CASES:$(grep -n '<- read_unfenced' "$CASES" | cut -d: -f1): a proxy fence is missing in between"
    expect fenced_late "a proxy fence is missing in between"
}
@test "bulk load: global memory that threads have written, with a proxy fence for shared memory only" {
    expect global_unfenced "of its allocation) that thread (0,0,0) wrote at"
    expect global_flag "that thread (0,0,0) of block (0,0,0) wrote at"
}
@test "bulk store: not waited for" { expect store_unwaited "has not been waited for"; }
@test "bulk store: a box half outside of the tensor" { expect store_outside "that nothing has written"; }
@test "bug reports: a proxy fence in a loop of no rounds, or by one warp only" {
    expect no_tiles "a proxy fence is missing in between"
    expect given_back "a proxy fence is missing in between"
}
@test "bug reports: a tile that is stored in a loop without a wait; a product of two boxes that waits for one" {
    expect store_loop "while this was under way"
    expect one_awaited "a cp.async.bulk of thread"
}
# The cases of appendix A's table of race tools.
@test "race tools: what a polled flag announces, read by TMA with no proxy fence" {
    expect flag_polled "that thread (0,0,0) of block (0,0,0) wrote at"
}
@test "race tools: a stage that threads have read, and TMA fills again with no proxy fence, or one on one of two paths" {
    expect read_then_load "a proxy fence is missing in between"
    expect two_paths "a proxy fence is missing in between"
}
@test "race tools: a copy through two stages that waits for one store too few" {
    expect copied_through "a cp.async.bulk of thread (0,0,0)"
}
@test "race tools: barriers in a loop of no rounds" { expect address_of_none "with no barrier in between"; }
@test "race tools: the record has these cases, reported or silent as here" {
    local record=plots/runs/simulator/race-tools.json name
    run sed -n 's/^ *"case": "\(.*\)",$/\1/p' $record
    [ "${#lines[@]}" -eq 6 ]
    for name in "${lines[@]}"; do
        run -1 "$BATS_FILE_TMPDIR/cases" "$name" wrong
        [[ "$output" == "ptxsim: $name, "* ]]
        run -0 "$BATS_FILE_TMPDIR/cases" "$name" right
        [ "$output" = cudaSuccess ]
    done
    [ "$(grep -c '^ *"caught": true,$' $record)" -eq 6 ]
    [ "$(grep -c '^ *"twin_silent": true,$' $record)" -eq 6 ]
}
