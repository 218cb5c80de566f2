# The simulator's library from the outside: what it exports, and its messages when an executable
# cannot be run. test_runtime.cu tests programs that can.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../../.."
    nvcc=$PWD/build/cuda/bin/nvcc
    export LIBRARY=$PWD/build/ptxsim
    export REAL=$PWD/build/cuda/lib64/libcudart.so.13
    cd "$BATS_FILE_TMPDIR"
    cat >small.cu <<'END'
#include <stdio.h>
__global__ void store(int *out) { *out = 7; }
int main()
{
    int *device, host = 0;
    cudaMipmappedArray_t array;
    cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    cudaMalloc(&device, 4);
    store<<<1, 1>>>(device);
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    store<<<1, 1>>>(device);
    cudaMemcpy(&host, device, 4, cudaMemcpyDeviceToHost);
    printf("%d\n", host);
    printf("%s\n", cudaGetErrorName(cudaMallocMipmappedArray(&array, &format, {16, 16, 0}, 2)));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
END
    build() {
        "$nvcc" -cudart shared small.cu -o "$@"
    }
    build good --compress-mode=none -gencode arch=compute_80,code=compute_80 \
        -gencode arch=compute_90,code=compute_90
    build compressed -gencode arch=compute_80,code=compute_80 -gencode arch=compute_90,code=compute_90
    build newer --compress-mode=none -arch=compute_100
    build separate --compress-mode=none -arch=compute_89 -rdc=true
    build separate-compressed -arch=compute_89 -rdc=true
    build machine-code --compress-mode=none -gencode arch=compute_89,code=sm_89
}

run_simulated() {
    LD_LIBRARY_PATH=$LIBRARY run "$@"
}

# Expects one line, printed once, for a program that cannot be run: its launches fail, and nothing else does.
expect_no_image() {
    run_simulated "$BATS_FILE_TMPDIR/$1"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ptxsim: the .*executable' <<<"$output")" -eq 1 ]
    grep -qxF "ptxsim: $2" <<<"$output"
    grep -qx "no kernel image is available for execution on the device" <<<"$output"
}

@test "a program runs; a missing function is an error with its name" {
    run_simulated "$BATS_FILE_TMPDIR/good"
    echo "$output"
    [ "$status" -eq 0 ]
    expected="ptxsim: cudaMallocMipmappedArray: not supported
no error
7
cudaErrorNotSupported
cudaErrorNotSupported"
    [ "$(sort <<<"$output")" = "$(sort <<<"$expected")" ]
}

@test "a refusal is printed once, with its reason" {
    cd "$BATS_FILE_TMPDIR"
    cat >refused.cu <<'END'
#include <stdio.h>
__global__ void good(int *out) { *out = 7; }
__global__ void strange(int *out) { asm volatile("strange.s32 %0, 1;" : "=r"(*out)); }
int main()
{
    int *device, host = 0, *pinned;
    float time = 1;
    cudaEvent_t event;
    cudaMalloc(&device, 400);
    cudaMallocHost(&pinned, 4);
    cudaEventCreate(&event);
    for (int i = 0; i < 2; ++i) {
        good<<<1, 2048>>>(device);
        good<<<1, 32, 64 << 10>>>(device);
        good<<<dim3(1, 70000), 1>>>(device);
        cudaFree(device + 1);
        cudaFreeHost(device);
        cudaGetLastError();
        strange<<<1, 1>>>(device);
        printf("%s\n", cudaGetErrorName(cudaGetLastError()));
        cudaEventRecord(event);
        cudaEventSynchronize(event);
        cudaEventElapsedTime(&time, event, event);
        printf("%d, %s\n", time > 0, cudaGetErrorName(cudaGetLastError()));
    }
    good<<<1, 1>>>(device);
    cudaMemcpy(&host, device, 4, cudaMemcpyDeviceToHost);
    printf("%d\n", host);
}
END
    build() {
        "$BATS_TEST_DIRNAME/../../../build/cuda/bin/nvcc" -cudart shared --compress-mode=none \
            -arch=compute_89 "$1.cu" -o "$1"
    }
    build refused
    run_simulated ./refused
    echo "$output"
    [ "$status" -eq 0 ]
    told=$(grep '^ptxsim: ' <<<"$output" | sed 's/0x[0-9a-f]*/ADDRESS/; s/line [0-9]*/line N/')
    expected="ptxsim: good is not launched: 2048 threads in a block, at most 1024
ptxsim: good is not launched: 65536 bytes of dynamic shared memory, at most 49152\
 (cudaFuncSetAttribute asks for more)
ptxsim: good is not launched: 70000 blocks in y, at most 65535
ptxsim: cudaFree: ADDRESS is byte 4 of an allocation, not where it begins
ptxsim: cudaFreeHost: ADDRESS is memory of the device: free it with cudaFree
ptxsim: strange, PTX line N: instruction strange.s32 is not supported
ptxsim: it counts and does not time: what cudaEventElapsedTime gives is no time, but 1 for a million instructions\
 of warps"
    [ "$told" = "$expected" ]
    [ "$(grep -v '^ptxsim: ' <<<"$output")" = "cudaErrorNotSupported
1, cudaSuccess
cudaErrorNotSupported
1, cudaSuccess
7" ]
}

@test "compressed PTX, as nvcc leaves it: expanded; without the library: says how to build" {
    run_simulated "$BATS_FILE_TMPDIR/good"
    expected=$output
    run_simulated "$BATS_FILE_TMPDIR/compressed"
    [ "$(sed -E 's/0x[0-9a-f]+//g' <<<"$output")" = "$(sed -E 's/0x[0-9a-f]+//g' <<<"$expected")" ]
    grep -qx 7 <<<"$output"
    without_expanders compressed
}

# Expects the message for compressed PTX from a program for which the loader finds files named libzstd.so.1 and
# liblz4.so.1 that are not libraries.
without_expanders() {
    mkdir -p "$BATS_TEST_TMPDIR/none"
    touch "$BATS_TEST_TMPDIR"/none/lib{zstd,lz4}.so.1
    LIBRARY=$BATS_TEST_TMPDIR/none:$LIBRARY expect_no_image "$1" "the PTX of the executable is compressed, and\
 libzstd.so.1 or liblz4.so.1 is missing or cannot expand it: build it with nvcc --compress-mode=none"
}

@test "PTX for a newer GPU: says how to build" {
    expect_no_image newer "the PTX of the executable is for compute_100, the simulated GPU is sm_89:\
 build it with -gencode arch=compute_89,code=compute_89"
}

@test "no PTX: says how to build" {
    expect_no_image machine-code \
        "the executable holds no PTX: build it with -gencode arch=compute_89,code=compute_89"
}

@test "separate compilation: the PTX is linked, if it can be read" {
    run_simulated "$BATS_FILE_TMPDIR/separate"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -qx 7 <<<"$output"
    run_simulated "$BATS_FILE_TMPDIR/separate-compressed"
    [ "$status" -eq 0 ]
    grep -qx 7 <<<"$output"
    without_expanders separate-compressed
}

# Both files have a static function `mine` and a static variable `number`.
@test "linked files: each keeps its own static functions and variables" {
    cd "$BATS_FILE_TMPDIR"
    cat >one.cu <<'END'
#include <stdio.h>
static __device__ int number = 1;
static __device__ __noinline__ int mine() { return number; }
extern __device__ int theirs();
__device__ int shared_by_both = 40;
__global__ void sum(int *out) { printf("first\n"); *out = 100 * mine() + theirs() + shared_by_both; }
int main()
{
    int *out, host = 0;
    cudaMalloc(&out, 4);
    sum<<<1, 1>>>(out);
    cudaMemcpy(&host, out, 4, cudaMemcpyDeviceToHost);
    printf("%d\n", host);
}
END
    cat >two.cu <<'END'
#include <stdio.h>
static __device__ int number = 2;
static __device__ __noinline__ int mine() { return number; }
extern __device__ int shared_by_both;
__device__ int theirs() { printf("other\n"); shared_by_both += 1000; return 10 * mine(); }
END
    "$BATS_TEST_DIRNAME/../../../build/cuda/bin/nvcc" -rdc=true -cudart shared --compress-mode=none \
        -arch=compute_89 one.cu two.cu -o linked
    run_simulated ./linked
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" = "first
other
1160" ]
}

# The grids that a kernel launches run after the kernel has ended; each is followed by the grids that it
# launches itself.
@test "kernels launch kernels: children run after their parent, in order, each followed by its own children" {
    cd "$BATS_FILE_TMPDIR"
    cat >nested.cu <<'END'
#include <stdio.h>
__global__ void leaf(int *log, int depth, int name)
{
    extern __shared__ int room[];
    room[threadIdx.x] = name;
    __syncthreads();
    if (threadIdx.x == 0 && name % 10 != 9)
        log[atomicAdd(log, 1) + 1] = room[blockDim.x - 1] + 1000 * blockDim.x;
    if (threadIdx.x == 0 && depth)
        for (int i = 1; i <= 2; ++i)
            leaf<<<1, 8 * i, 8 * i * sizeof(int)>>>(log, depth - 1, 10 * name + i);
}
__global__ void top(int *log, int *copy)
{
    cudaStream_t stream;
    int *scratch;
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == 0) {
        leaf<<<1, 4096>>>(log, 0, 9);
        printf("%d too many, then %d\n", cudaGetLastError(), cudaGetLastError());
        printf("%d malloc\n", cudaMalloc(&scratch, 64));
        *scratch = 1;
        printf("%d free\n", cudaFree(scratch));
        printf("%d stream\n", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    leaf<<<1, 4, 4 * sizeof(int)>>>(log, 1, 1 + blockIdx.x);
    if (blockIdx.x == 1)
        cudaMemcpyAsync(copy, log, 4, cudaMemcpyDeviceToDevice, 0);
}
int main()
{
    int *log, *copy, host[32] = {0}, copied = 0;
    cudaMalloc(&log, sizeof host);
    cudaMalloc(&copy, 4);
    cudaMemset(log, 0, sizeof host);
    top<<<2, 32>>>(log, copy);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    cudaMemcpy(host, log, sizeof host, cudaMemcpyDeviceToHost);
    cudaMemcpy(&copied, copy, 4, cudaMemcpyDeviceToHost);
    for (int i = 1; i <= host[0]; ++i)
        printf("%d ", host[i]);
    printf("copied %d\n", copied);
}
END
    "$BATS_TEST_DIRNAME/../../../build/cuda/bin/nvcc" -rdc=true -cudart shared --compress-mode=none \
        -arch=compute_89 nested.cu -o nested -lcudadevrt
    run_simulated ./nested
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" = "9 too many, then 0
0 malloc
0 free
0 stream
no error
4001 8011 16012 4002 8021 16022 copied 6" ]
    PTXSIM_THREADS=1 run_simulated ./nested
    grep -qx "4001 8011 16012 4002 8021 16022 copied 6" <<<"$output"
}

@test "a loaded module's kernel launches another kernel of the module, which the program has not looked up" {
    cd "$BATS_TEST_TMPDIR"
    cat >loaded.c <<'END'
#include <cuda.h>
#include <stdio.h>
#define PARAMETERS "__cudaCDP2GetParameterBufferV2"
#define LAUNCH "__cudaCDP2LaunchDeviceV2"
static const char text[] =
    ".version 8.0\n.target sm_89\n.address_size 64\n"
    ".extern .func (.param .b64 r) " PARAMETERS
    "(.param .b64 f, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);\n"
    ".extern .func (.param .b32 r) " LAUNCH "(.param .b64 p, .param .b64 s);\n"
    ".visible .entry child(.param .u64 out) {\n.reg .b64 %a<3>;\n.reg .b32 %r<3>;\nld.param.u64 %a1, [out];\n"
    "mov.u32 %r1, %tid.x;\nmul.wide.u32 %a2, %r1, 4;\nadd.u64 %a1, %a1, %a2;\nadd.u32 %r2, %r1, 40;\n"
    "st.global.u32 [%a1], %r2;\nret;\n}\n"
    ".visible .entry parent(.param .u64 out) {\n.reg .b64 %a<4>;\nld.param.u64 %a1, [out];\nmov.u64 %a2, child;\n"
    "{\n.param .b64 f;\n.param .b64 q;\n.param .align 4 .b8 g[12];\n.param .align 4 .b8 b[12];\n.param .b32 s;\nst.param.b64 [f], %a2;\n"
    "st.param.b32 [g], 1;\nst.param.b32 [g+4], 1;\nst.param.b32 [g+8], 1;\n"
    "st.param.b32 [b], 2;\nst.param.b32 [b+4], 1;\nst.param.b32 [b+8], 1;\nst.param.b32 [s], 0;\n"
    "call.uni (q), " PARAMETERS ", (f, g, b, s);\nld.param.b64 %a3, [q];\n}\nst.u64 [%a3], %a1;\n"
    "{\n.param .b64 p;\n.param .b64 t;\n.param .b32 q;\nst.param.b64 [p], %a3;\nst.param.b64 [t], 0;\n"
    "call.uni (q), " LAUNCH ", (p, t);\n}\nret;\n}\n";
int main(void)
{
    int words[2] = {0};
    CUdeviceptr out;
    CUcontext context;
    CUmodule module;
    CUfunction parent;
    void *arguments[] = {&out};
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuMemAlloc(&out, sizeof words) || cuModuleLoadData(&module, text) || cuModuleGetFunction(&parent, module, "parent"))
        return 2;
    int error = cuLaunchKernel(parent, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
    cuMemcpyDtoH(words, out, sizeof words);
    return printf("%d: %d %d\n", error, words[0], words[1]) < 0;
}
END
    cc -I"$BATS_TEST_DIRNAME/../../../build/cuda/include" loaded.c "$LIBRARY/libcuda.so.1" -o loaded
    run_simulated ./loaded
    echo "$output"
    [ "$output" = "0: 40 41" ]
}

@test "without machine code registers are estimated, and one line says so" {
    cd "$BATS_FILE_TMPDIR"
    cat >asks.cu <<'END'
#include <stdio.h>
__global__ void __launch_bounds__(1024) bounded(float *x)
{
    float y[100];
    for (int i = 0; i < 100; ++i)
        y[i] = x[i];
    for (int i = 0; i < 100; ++i)
        x[i] = y[99 - i] + y[i];
}
__global__ void wide(float *x)
{
    float y[100];
    for (int i = 0; i < 100; ++i)
        y[i] = x[i];
    for (int i = 0; i < 100; ++i)
        x[i] = y[99 - i] + y[i];
}
int main()
{
    cudaFuncAttributes a;
    int blocks;
    cudaFuncGetAttributes(&a, bounded);
    printf("%d\n", a.numRegs);
    cudaFuncGetAttributes(&a, wide);
    printf("%d\n", a.numRegs >= 100 && a.numRegs <= 128);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, wide, 512, 0);
    printf("%d\n", blocks);
}
END
    "$BATS_TEST_DIRNAME/../../../build/cuda/bin/nvcc" -cudart shared --compress-mode=none \
        -arch=compute_89 asks.cu -o asks
    run_simulated ./asks
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep '^ptxsim: ' <<<"$output")" = "ptxsim: registers and occupancy are estimated from the PTX:\
 build with -gencode arch=compute_89,code=[compute_89,sm_89] for those of the machine code" ]
    [ "$(grep -v '^ptxsim: ' <<<"$output")" = "64
1
1" ]
}

@test "runtime functions that kernels cannot call are refused by name" {
    cd "$BATS_FILE_TMPDIR"
    sed 's/{ \*out = 7; }/{ cudaEvent_t e; if (*out == 3) cudaEventCreateWithFlags(\&e, 2); }/' small.cu >event.cu
    "$BATS_TEST_DIRNAME/../../../build/cuda/bin/nvcc" -rdc=true -cudart shared --compress-mode=none \
        -arch=compute_89 event.cu -o event -lcudadevrt
    run_simulated ./event
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q "^ptxsim: store, .*calls cudaCDP2EventCreateWithFlags: of the runtime, kernels have launches,\
 cudaMalloc, cudaFree and cudaMemcpyAsync, and no more" <<<"$output"
}

@test "a program with a static runtime: one line says how to build, with the simulator as driver or preloaded" {
    cd "$BATS_FILE_TMPDIR"
    "$BATS_TEST_DIRNAME/../../../build/cuda/bin/nvcc" -cudart static -arch=compute_89 small.cu -o static
    expected="ptxsim: the executable has a CUDA runtime of its own: build it with nvcc 13 and\
 -cudart shared"
    ln -s "$LIBRARY" preloaded # the loader would cut a path in two at a space
    LD_PRELOAD=./preloaded/libcudart.so.13 run ./static
    echo "$output"
    [ "$(grep -cxF "$expected" <<<"$output")" -eq 1 ]
    LD_LIBRARY_PATH=$LIBRARY run ./static
    echo "$output"
    [ "$(grep -cxF "$expected" <<<"$output")" -eq 1 ]
    [ "$(grep -c ptxsim <<<"$output")" -eq 1 ]
    LD_PRELOAD=./preloaded/libcudart.so.13 run ./good
    [ "$status" -eq 0 ]
    [[ $output != *'runtime of its own'* ]]
}

@test "a copy to the host of memory that nothing has written is reported once, and is no error" {
    cd "$BATS_TEST_TMPDIR"
    cat >copied.cu <<'END'
#include <cstdio>
int main()
{
    int *device, host[100];
    cudaMalloc(&device, sizeof host);
    cudaMemset(device, 0, 40);
    cudaError_t error = cudaMemcpy(host, device, 40, cudaMemcpyDeviceToHost);
    puts("ten");
    fflush(stdout);
    for (int i = 0; i < 2 && error == cudaSuccess; ++i)
        error = cudaMemcpy(host + i, device + i, sizeof(int) * 50, cudaMemcpyDeviceToHost);
    printf("%s %d %d\n", cudaGetErrorString(error), host[9], host[10]);
}
END
    "$BATS_TEST_DIRNAME/../../../build/cuda/bin/nvcc" -cudart shared -arch=compute_89 copied.cu -o copied
    run_simulated ./copied
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" = "ten
ptxsim: a copy to the host has bytes that nothing has written, the first at byte 40 of an allocation of 400\
 bytes: here they are 0xff, on a GPU they may be anything
no error 0 -1" ]
    PTXSIM_CHECK=off run_simulated ./copied
    [ "$output" = "ten
no error 0 -1" ]
}

# The program is linked with a library that has the driver's names, since a machine without a GPU has no
# driver.
@test "a program of the driver's library finds the simulator; the loader names a missing function" {
    cd "$BATS_TEST_TMPDIR"
    printf '%s\n' 'int cuInit(void) { return 1; }' 'int cuDeviceGetCount(void) { return 1; }' \
        'int cuLinkComplete(void) { return 1; }' >driver.c
    cc -shared -Wl,-soname,libcuda.so.1 driver.c -o libcuda.so
    cat >count.c <<'END'
#include <cuda.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int count = 0;
    if (cuInit(0) || cuDeviceGetCount(&count))
        return 1;
    printf("%d device\n", count);
    fflush(stdout);
    return argc > 1 ? cuLinkComplete(NULL, NULL, NULL) : argv == NULL;
}
END
    cc -I"$BATS_TEST_DIRNAME/../../../build/cuda/include" -Wl,-z,lazy count.c -L. -lcuda -o count
    LD_LIBRARY_PATH=$LIBRARY run ./count
    [ "$status" -eq 0 ]
    [ "$output" = '1 device' ]
    LD_LIBRARY_PATH=$LIBRARY run ./count more
    [ "$status" -eq 127 ]
    grep -q 'undefined symbol: cuLinkComplete' <<<"$output"
}

@test "a report that cannot be written is one line, and the program's status stays" {
    export PTXSIM_REPORT=$BATS_TEST_TMPDIR/missing/report.json
    run_simulated "$BATS_FILE_TMPDIR/good"
    [ "$status" -eq 0 ]
    [ "$(grep -cxF "ptxsim: PTXSIM_REPORT: $PTXSIM_REPORT: No such file or directory" \
        <<<"$output")" -eq 1 ]
}

@test "a report is written whole or not at all, relative to where the program began" {
    cd "$BATS_TEST_TMPDIR"
    export PTXSIM_REPORT=report.json
    run_simulated "$BATS_FILE_TMPDIR/good"
    [ "$(ls)" = report.json ]
    [ "$(head -c 16 report.json)" = '{"ptxsim":"0.1",' ]
    [ "$(tail -n 1 report.json)" = '"faults":[]}' ]
}

@test "nonsense in the environment is named once and ignored" {
    export PTXSIM_THREADS=many
    run_simulated "$BATS_FILE_TMPDIR/good"
    echo "$output"
    [ "$(grep -cxF 'ptxsim: PTXSIM_THREADS: "many" is no whole number up to 1024: ignored' \
        <<<"$output")" -eq 1 ]
    grep -qx 7 <<<"$output"
}

@test "the library is named and versioned as the real one" {
    readelf -d "$LIBRARY/libcudart.so.13" | grep -qF 'soname: [libcudart.so.13]'
    local needed
    needed=$(readelf -d "$LIBRARY/libcudart.so.13" | grep -c NEEDED)
    [ "$needed" -gt 0 ] # the library needs these libraries and no others:
    [ "$(readelf -d "$LIBRARY/libcudart.so.13" | grep NEEDED |
        grep -cE 'lib(c|m|pthread|dl)\.so|ld-linux')" -eq "$needed" ]
    nm -D --defined-only "$LIBRARY/libcudart.so.13" | grep -q ' cudaMalloc@@libcudart.so.13$'
}

@test "the library has every function of the real library, and no other" {
    [ -f "$REAL" ] || skip "no libcudart.so.13 of the toolkit"
    functions() { # without the functions of the driver's library, such as cuInit
        nm -D --defined-only "$1" | sed -nE 's/.* [TWi] ([A-Za-z_0-9]+)@.*/\1/p' | grep -v '^cu[A-Z]' | sort
    }
    run diff <(functions "$REAL") <(functions "$LIBRARY/libcudart.so.13")
    echo "$output"
    [ "$(grep '^[<>]' <<<"$output")" = "> ptxsim_version" ]
}

@test "a chapter's program compiled with -G computes the same" {
    cd "$BATS_TEST_DIRNAME/../../.."
    build/cuda/bin/nvcc -std=c++20 -G -Icode --compress-mode=none -arch=compute_89 -DSOURCE_HASH='"-"' \
        -DGIT_COMMIT='"-"' -DBUILD_FLAGS='"-G"' -c code/ch03_wmma_qk.cu -o "$BATS_TEST_TMPDIR/debug.o"
    g++ "$BATS_TEST_TMPDIR/debug.o" build/libworkbench.a -l:libjansson.a -lm -lpthread -ldl \
        -Lbuild/cuda/lib64 -lcudart -o "$BATS_TEST_TMPDIR/debug"
    run_simulated "$BATS_TEST_TMPDIR/debug" --shapes 1x1x40 --seeds 0 --no-timing
    echo "$output"
    [ "$status" -eq 0 ]
}
