# Planted bugs in the order between streams, and between the device and the host: each is reported
# with the lines of both parties, and its right version is not reported. The programs are in
# streams_cases.cu.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../../.."
    export LD_LIBRARY_PATH=$PWD/build/ptxsim CASES=code/ptxsim/test/streams_cases.cu
    build/cuda/bin/nvcc -std=c++20 -O0 -g -lineinfo --compress-mode=none -cudart shared \
        -gencode arch=compute_90,code=compute_90 "$CASES" -o "$BATS_FILE_TMPDIR/cases"
}

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
}

# expect NAME TEXT: the right version has no report. The wrong version runs to its end, and has one
# report: a line with TEXT and with every marked source line.
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
        [[ "${lines[0]}" =~ $CASES:${line}[^0-9] ]]
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
@test "cudaMemcpy from ordinary memory counts as done, but when PTXSIM_CHECK=strict" {
    run "$BATS_FILE_TMPDIR/cases" staged wrong
    [ "$output" = cudaSuccess ]
    PTXSIM_CHECK=strict expect staged "which a copy in the default stream"
}
# comes_out NAME RIGHT WRONG: the program prints RIGHT; but its wrong version, under
# PTXSIM_SCHEDULE=late, prints WRONG.
comes_out() {
    for schedule in 0 late; do
        PTXSIM_SCHEDULE=$schedule run "$BATS_FILE_TMPDIR/cases" "$1" right
        [ "$output" = "$2"$'\n'cudaSuccess ]
    done
    PTXSIM_SCHEDULE=0 run --separate-stderr "$BATS_FILE_TMPDIR/cases" "$1" wrong
    [ "$output" = "$2"$'\n'cudaSuccess ]
    [[ "$stderr" == "ptxsim: "*" byte 0 of 4096 bytes "* ]]
    PTXSIM_SCHEDULE=late run "$BATS_FILE_TMPDIR/cases" "$1" wrong
    [ "$output" = "$3"$'\n'cudaSuccess ]
}
@test "PTXSIM_SCHEDULE=late: wrong versions give wrong results, right versions right ones" {
    comes_out says_other 1 0
    comes_out says_result one zero
    comes_out says_staged "0 1" "1 1"
}
@test "halves of an allocation do not overlap; one byte too many is reported" { expect overlap "writes byte 124 of 4096"; }
@test "atomic counts of two streams need no order, plain ones do" { expect counter "in stream 2"; }
@test "a pinned result that the host reads early, a pinned source that it fills again" {
    expect result_early "reads byte 0 of 4096 bytes of pinned memory"
    expect staging "writes byte 0 of 4096 bytes of pinned memory"
}
@test "managed memory: the host may access bytes that the kernel does not access" { expect managed "the host, $CASES"; }
@test "the host's line is named whole in a folder with a space and an umlaut" {
    mkdir "$BATS_TEST_TMPDIR/Größe 1"
    cat >"$BATS_TEST_TMPDIR/Größe 1/early.c" <<'END'
#include <cuda_runtime_api.h>
int main(void)
{
    char *on_device, *pinned;
    cudaStream_t stream;
    cudaMalloc((void **)&on_device, 4096);
    cudaMallocHost((void **)&pinned, 4096);
    cudaStreamCreate(&stream);
    cudaMemset(on_device, 0, 4096);
    cudaMemcpyAsync(pinned, on_device, 4096, cudaMemcpyDeviceToHost, stream);
    return pinned[0] == 1;
}
END
    gcc -g -isystem build/cuda/include "$BATS_TEST_TMPDIR/Größe 1/early.c" -o "$BATS_TEST_TMPDIR/early" build/ptxsim/libcudart.so.13
    run -0 "$BATS_TEST_TMPDIR/early"
    echo "$output"
    [[ $output == "ptxsim: the host, $BATS_TEST_TMPDIR/Größe 1/early.c:11, reads byte 0 of 4096 bytes of pinned memory"* ]]
    [[ $output == *"(submitted at $BATS_TEST_TMPDIR/Größe 1/early.c:10)"* ]]
}
@test "cudaFree of a pool's memory that is in use" { expect freed "frees memory of a pool"; }
@test "two branches of a graph" { expect branches "in a branch of a graph"; }
@test "a dependent launch that does not wait" { expect dependent "griddepcontrol.wait"; }
@test "after a race the rest of the program is checked, and every call fails" {
    run "$BATS_FILE_TMPDIR/cases" after_race wrong
    echo "$output"
    [ "$(grep -c "^ptxsim: race, $CASES:$(grep -n '// <- race' "$CASES" | cut -d: -f1), " <<<"$output")" -ge 1 ]
    [ "$(grep -c '^ptxsim: fill, .* past the end of the allocation of 4096 bytes' <<<"$output")" -eq 1 ]
    [ "$(grep -cx cudaErrorLaunchFailure <<<"$output")" -eq 3 ]
}
@test "a graph that copies from memory that has been freed is reported" {
    run "$BATS_FILE_TMPDIR/cases" freed_source right
    [ "$output" = $'cudaSuccess\ncudaSuccess' ]
    run "$BATS_FILE_TMPDIR/cases" freed_source wrong
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "ptxsim: a copy reads 4096 bytes at 0x"*", in an allocation that has been freed" ]]
    [ "${lines[1]}" = cudaErrorIllegalAddress ]
}
@test "the clocks of all warps rise" {
    run "$BATS_FILE_TMPDIR/cases" clocks right
    [ "$output" = $'66 threads\ncudaSuccess' ]
}
@test "PTX for sm_90 that is loaded while the program runs, with a pointer after a word: the device becomes one of that kind" {
    cat >"$BATS_TEST_TMPDIR/load.c" <<'END'
#include <cuda_runtime_api.h>
#include <stdio.h>
int main(void)
{
    const char *text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry set(.param .u32 n, "
                       ".param .u64 .ptr .global .align 1 to)\n{\n"
                       ".reg .b32 %r;\n.reg .b64 %d;\nld.param.u64 %d, [to];\nmov.b32 %r, 7;\n"
                       "st.global.b32 [%d], {%r};\nret;\n}\n";
    cudaLibrary_t library;
    cudaKernel_t kernel;
    struct cudaDeviceProp properties;
    int *to, got = 0, first = 1;
    void *arguments[] = {&first, &to};
    cudaGetDeviceProperties(&properties, 0);
    printf("%s\n", properties.name);
    printf("%d\n", cudaLibraryLoadData(&library, text, 0, 0, 0, 0, 0, 0));
    cudaLibraryGetKernel(&kernel, library, "set");
    cudaMalloc((void **)&to, 4);
    cudaLaunchKernel(kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, 0);
    cudaMemcpy(&got, to, 4, cudaMemcpyDefault);
    cudaGetDeviceProperties(&properties, 0);
    printf("%d %s\n", got, properties.name);
}
END
    cc -I build/cuda/include "$BATS_TEST_TMPDIR/load.c" -o "$BATS_TEST_TMPDIR/load" -L build/ptxsim -l:libcudart.so.13
    run "$BATS_TEST_TMPDIR/load"
    echo "$output"
    [ "$(grep -v '^ptxsim: ' <<<"$output")" = $'NVIDIA L4 (ptxsim)\n0\n7 NVIDIA H200 (ptxsim)' ]
    [[ "$output" == *"ptxsim: the program loads PTX for sm_90: the simulated GPU is an H200 from now on"* ]]
}
@test "bug reports: a result, a buffer and a scratch buffer that another stream uses meanwhile" {
    expect scalar "nothing orders the two"
    expect pool_reads "nothing orders the two"
    expect scratch "in stream 2"
    expect arena "which a fill in stream 1"
    expect device_copy "which a copy in the default stream"
}
@test "bug reports: arguments, constants and a graph's input that are overwritten while a kernel reads them" {
    expect arguments "which kernel take"
    expect constants "which kernel scale"
    expect input_reused "which kernel take"
}
@test "bug reports: memory that goes back to its pool while a side stream copies it" {
    expect side_stream "cudaFreeAsync in stream 1"
}
@test "cudaFreeHost counts as waiting, but when PTXSIM_CHECK=strict" {
    run "$BATS_FILE_TMPDIR/cases" freed_pinned wrong
    [ "$output" = cudaSuccess ]
    PTXSIM_CHECK=strict expect freed_pinned "cudaFreeHost, "
}
@test "a call's line is one of the program, or none: never one of the C library, even with its symbols" {
    printf '%s\n' '#include <cuda_runtime_api.h>' 'int main(void)' '{' 'char *on_device, *pinned;' 'cudaStream_t stream;' \
        'cudaMalloc((void **)&on_device, 4096);' 'cudaMallocHost((void **)&pinned, 4096);' 'cudaStreamCreate(&stream);' \
        'cudaMemset(on_device, 0, 4096);' 'cudaMemcpyAsync(pinned, on_device, 4096, cudaMemcpyDeviceToHost, stream);' \
        'return pinned[0] == 1;' '}' >"$BATS_TEST_TMPDIR/early.c"
    gcc -isystem build/cuda/include "$BATS_TEST_TMPDIR/early.c" -o "$BATS_TEST_TMPDIR/early" build/ptxsim/libcudart.so.13
    run -0 "$BATS_TEST_TMPDIR/early"
    echo "$output"
    [[ $output == "ptxsim: the host reads byte 0 of 4096 bytes of pinned memory"*"which a copy in stream 1 writes: "* ]]
}
@test "without the race checks the order between streams is not checked" {
    for check in off memory; do
        PTXSIM_CHECK=$check run "$BATS_FILE_TMPDIR/cases" pair wrong
        [ "$output" = cudaSuccess ]
    done
}
