# Planted bugs of the order between streams, and between the device and the host: each is reported with the lines
# of both parties, and a right version of it has no report. The programs are in streams_cases.cu.

setup_file() {
    cd "$BATS_TEST_DIRNAME/../../.."
    export LD_LIBRARY_PATH=$PWD/build/ptxsim CASES=code/ptxsim/test/streams_cases.cu
    build/cuda/bin/nvcc -std=c++20 -O0 -g -lineinfo --compress-mode=none -cudart shared \
        -gencode arch=compute_90,code=compute_90 "$CASES" -o "$BATS_FILE_TMPDIR/cases"
}

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
}

# expect NAME TEXT: the right version says nothing; the wrong one goes on, and says once, in one line, the text and
# every line that is marked.
expect() {
    local line
    run "$BATS_FILE_TMPDIR/cases" "$1" right
    echo "$output"
    [ "$output" = cudaSuccess ]
    run "$BATS_FILE_TMPDIR/cases" "$1" wrong
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    [ "${lines[1]}" = cudaSuccess ]
    [[ "${lines[0]}" == "ptxsim: "*"$2"* ]]
    [ "$(grep -cwE -- "// <- (.*, )?$1(, .*)?" "$CASES")" -gt 0 ]
    for line in $(grep -nwE -- "// <- (.*, )?$1(, .*)?" "$CASES" | cut -d: -f1); do
        [[ "${lines[0]}" =~ $CASES:$line[^0-9] ]]
    done
}

@test "two kernels in two streams, without an event, and with one that is recorded too early" {
    expect pair "in stream 2"
    expect early "nothing orders the two"
}
@test "the default stream, and one that does not wait for it: a kernel, cudaMemset, cudaMemcpy" {
    expect apart "in the default stream"
    expect cleared "which a fill in the default stream"
    expect copy_back "a copy in the default stream"
}
@test "halves of an allocation are apart; a byte too many is told" { expect overlap "writes byte 124 of 4096"; }
@test "atomic counts of two streams need no order, plain ones do" { expect counter "in stream 2"; }
@test "a pinned result that the host reads early, a pinned source that it fills again" {
    expect result_early "reads byte 0 of 4096 bytes of pinned memory"
    expect staging "writes byte 0 of 4096 bytes of pinned memory"
}
@test "managed memory: the host may have what the kernel has not" { expect managed "the host, $CASES"; }
@test "cudaFree of a pool's memory that is in use" { expect freed "frees memory of a pool"; }
@test "two branches of a graph" { expect branches "in a branch of a graph"; }
@test "a dependent launch that does not wait" { expect dependent "griddepcontrol.wait"; }
@test "nothing of it is looked at without the checks of races" {
    for check in off memory; do
        PTXSIM_CHECK=$check run "$BATS_FILE_TMPDIR/cases" pair wrong
        [ "$output" = cudaSuccess ]
    done
}
