# Planted bugs of programs for sm_90a, each reported at its line, and a right version of each with no
# report. The programs are in hopper_cases.cu; test_hopper.cu has the results.

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    export LD_LIBRARY_PATH=$PWD/build/ptxsim CASES=code/ptxsim/hopper_cases.cu
    build/cuda/bin/nvcc -std=c++20 -O3 -lineinfo --compress-mode=none -cudart shared \
        -gencode arch=compute_90a,code=compute_90a "$CASES" -o "$BATS_FILE_TMPDIR/cases"
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
}

# expect NAME TEXT: the report has the text, on a line that names the marked one.
expect() {
    line=$(grep -nwE -- "// <- (.*, )?$1" "$CASES" | cut -d: -f1)
    for seed in $(seq 0 5); do
        PTXSIM_SCHEDULE=$seed run "$BATS_FILE_TMPDIR/cases" "$1" right
        echo "schedule $seed: $output"
        [ "$status" -eq 0 ]
        [ "$output" = cudaSuccess ]
        PTXSIM_SCHEDULE=$seed run "$BATS_FILE_TMPDIR/cases" "$1" wrong
        echo "schedule $seed: $output"
        [ "$status" -eq 1 ]
        grep -F -- "$2" <<<"$output" | grep -qE "^ptxsim: $1, .*$CASES:$line[^0-9]"
    done
}

@test "wgmma: accumulators before the wait" { expect no_wait "nothing has waited for it (wgmma.wait_group)"; }
@test "wgmma: registers that are written with no wgmma.fence" { expect no_fence "with no wgmma.fence in between"; }
@test "wgmma: operands that threads write with no proxy fence" {
    expect no_proxy_fence "a proxy fence is missing in between (fence.proxy.async)"
}
@test "wgmma: an operand that is overwritten before the wait" { expect overwritten "with no barrier in between"; }
@test "wgmma: three of four warps" { expect three_warps "all four warps of a warpgroup must execute the same"; }
@test "wgmma: a descriptor outside of shared memory" { expect outside "shared memory"; }
@test "setmaxnreg: more registers than an SM has" { expect registers "waits for ever"; }
@test "TMA: a box that nobody waits for" { expect early "a cp.async.bulk of thread (0,0,0)"; }
@test "TMA: bytes that never come: who waits where" {
    expect expected "phase of parity 0: 1 of 1 arrivals, 16 bytes missing"
}
@test "TMA: a box into a tile that others read" { expect reused "copies (cp.async.bulk)"; }
@test "TMA: something that is no tensor map" { expect no_map "with something that is no tensor map"; }
@test "bulk store: what threads write with no proxy fence" { expect store_unfenced "a proxy fence is missing"; }
@test "bulk store: overwritten before it has read" { expect store_reused "in between"; }
@test "bulk store: not waited for" { expect store_unwaited "has not been waited for"; }
