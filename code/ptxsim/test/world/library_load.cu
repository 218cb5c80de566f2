// Kernels of a PTX text that the program loads while it runs, beside its own, and what is answered
// where there is no such kernel, variable or library.
#include "check.h"
#include <algorithm>
#include <string>

static const char text[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .global .align 8 .u64 total;

.visible .entry sum(.param .u64 array, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %a<4>;
    ld.param.u64 %a1, [array];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    mul.wide.u32 %a2, %r2, 4;
    add.s64 %a1, %a1, %a2;
    ld.global.u32 %r3, [%a1];
    cvt.u64.u32 %a3, %r3;
    atom.global.add.u64 %a2, [total], %a3;
    ret;
}

.visible .entry nothing()
{
    ret;
}
)";

__global__ void own(unsigned *array) // a kernel of the executable
{
    array[threadIdx.x] = threadIdx.x * threadIdx.x;
}

static void answers(const char *what, cudaError_t is, cudaError_t should_be)
{
    if (is != should_be)
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(is));
    expect(what, is == should_be);
    cudaGetLastError();
}

int main()
{
    unsigned *array = zeros<unsigned>(100), count = 100;
    cudaLibrary_t library = nullptr, other = nullptr;
    cudaKernel_t kernel, same, listed[4] = {};
    void *total;
    size_t bytes = 0;

    {
        std::string gone = text; // the text is overwritten and freed after the load
        answers(
            "load",
            cudaLibraryLoadData(&library, gone.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaSuccess);
        std::fill(gone.begin(), gone.end(), '-');
    }
    answers("no such file",
            cudaLibraryLoadFromFile(&other, "/nowhere/kernels.ptx", nullptr, nullptr, 0, nullptr,
                                    nullptr, 0),
            cudaErrorFileNotFound);
    answers("nothing",
            cudaLibraryLoadData(&other, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaErrorInvalidValue);
    unsigned kernels = 0;
    answers("count", cudaLibraryGetKernelCount(&kernels, library), cudaSuccess);
    expect("two kernels", kernels == 2);
    answers("list", cudaLibraryEnumerateKernels(listed, 2, library), cudaSuccess);
    answers("kernel", cudaLibraryGetKernel(&kernel, library, "sum"), cudaSuccess);
    answers("the same", cudaLibraryGetKernel(&same, library, "sum"), cudaSuccess);
    expect("one of the list", same == kernel && (listed[0] == kernel) != (listed[1] == kernel));
    answers("no such kernel", cudaLibraryGetKernel(&same, library, "product"),
            cudaErrorSymbolNotFound);
    answers("variable", cudaLibraryGetGlobal(&total, &bytes, library, "total"), cudaSuccess);
    expect("of eight bytes", bytes == 8);
    answers("no such variable", cudaLibraryGetGlobal(&total, &bytes, library, "totals"),
            cudaErrorSymbolNotFound);

    own<<<1, 100>>>(array);
    CHECK_KERNEL();
    void *arguments[] = {&array, &count};
    answers("launch", cudaLaunchKernel((const void *)kernel, 1, 128, arguments, 0, nullptr),
            cudaSuccess);
    unsigned long long sum = 0;
    answers("copy", cudaMemcpy(&sum, total, sizeof sum, cudaMemcpyDeviceToHost), cudaSuccess);
    printf("%llu\n", sum);
    cudaFuncAttributes attributes;
    answers("attributes", cudaFuncGetAttributes(&attributes, (const void *)kernel), cudaSuccess);
    expect("a block of 1024", attributes.maxThreadsPerBlock == 1024);
    answers("unload", cudaLibraryUnload(library), cudaSuccess);
    return failures;
}
