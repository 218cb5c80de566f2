// Special registers that agree with the launch: lanes and their masks, warps, SMs, the sizes of
// shared memory and the part of it that the system keeps.
#include "check.h"

#define REGISTER(name)                                                                             \
    ({                                                                                             \
        unsigned value;                                                                            \
        asm volatile("mov.u32 %0, %%" name ";" : "=r"(value));                                     \
        value;                                                                                     \
    })

__global__ void look(unsigned *out)
{
    extern __shared__ int dynamic[];
    __shared__ int fixed[100];
    fixed[threadIdx.x % 100] = dynamic[threadIdx.x] = threadIdx.x;
    unsigned lane = REGISTER("laneid");
    bool masks = REGISTER("lanemask_eq") == 1u << lane &&
                 REGISTER("lanemask_lt") == (1u << lane) - 1 &&
                 REGISTER("lanemask_le") == (2u << lane) - 1 &&
                 REGISTER("lanemask_gt") == ~((2u << lane) - 1) &&
                 REGISTER("lanemask_ge") == ~((1u << lane) - 1);
    bool lanes = lane == threadIdx.x % 32 && masks;
    bool warps = REGISTER("warpid") < REGISTER("nwarpid");
    bool sms = REGISTER("smid") < REGISTER("nsmid");
    unsigned size = REGISTER("dynamic_smem_size"), total = REGISTER("total_smem_size");
    unsigned begin = REGISTER("reserved_smem_offset_begin");
    unsigned end = REGISTER("reserved_smem_offset_end");
    unsigned first = (unsigned)__cvta_generic_to_shared(fixed);
    unsigned other = (unsigned)__cvta_generic_to_shared(dynamic);
    atomicAnd(&out[0], lanes);
    atomicAnd(&out[1], warps);
    atomicAnd(&out[2], sms);
    atomicAnd(&out[3], REGISTER("ntid.x") == blockDim.x && REGISTER("ctaid.y") == blockIdx.y &&
                           REGISTER("nctaid.x") == gridDim.x && REGISTER("tid.x") == threadIdx.x);
    atomicAnd(&out[4], begin <= end && (first >= end || first + sizeof fixed <= begin));
    atomicAnd(&out[5], other >= first + sizeof fixed || other < first);
    if (threadIdx.x + blockIdx.x + blockIdx.y == 0) {
        out[6] = size;
        out[7] = total >= size + sizeof fixed && total % 128 == 0;
        out[8] = end - begin;
        out[9] = REGISTER("nsmid");
        fixed[0] = out[10];
        out[11] = fixed[0] + dynamic[0];
    }
}

int main()
{
    unsigned ones[12];
    for (unsigned &one : ones)
        one = 1;
    unsigned *out = zeros<unsigned>(12);
    CHECK(cudaMemcpy(out, ones, sizeof ones, cudaMemcpyHostToDevice));
    look<<<dim3(7, 3), 96, 1000>>>(out);
    CHECK_KERNEL();
    std::vector<unsigned> got = to_host(out, 12);
    const char *names[] = {"lanes", "warps", "SMs", "grid and block", "reserved", "apart"};
    for (int i = 0; i < 6; ++i)
        expect(names[i], got[i] == 1);
    printf("dynamic %u\n", got[6]);
    expect("total", got[7] == 1);
    int sms, reserved;
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, 0));
    expect("as many SMs as the device says", got[9] >= (unsigned)sms);
    expect("as much reserved as the device says", got[8] == (unsigned)reserved);
    return failures;
}
