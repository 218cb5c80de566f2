// Hints to the caches, which change no value: __ldg, __ldcs and their kin, policies of the L2 made
// by createpolicy, prefetches, a stream's access policy window.
#include "check.h"

__global__ void builtins(const int *in, int *out)
{
    int i = threadIdx.x;
    int4 four = __ldg((const int4 *)in + i % 16);
    int sum = __ldg(in + i) + __ldcs(in + i) + __ldcg(in + i) + __ldca(in + i) + __ldlu(in + i) +
              __ldcv(in + i);
    __stcs(out + i, sum);
    __stcg(out + 64 + i, four.x + four.w);
    __stwb(out + 128 + i, 7 * i);
    __stwt(out + 192 + i, -i);
}

__global__ void policies(const int *in, int *out)
{
    int i = threadIdx.x, value, more, third;
    unsigned long long last, first, range;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
    asm volatile("createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %0, 0.5;"
                 : "=l"(first));
    asm volatile(
        "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %0, [%1], %2, %3;"
        : "=l"(range)
        : "l"(in), "r"(128), "r"(256));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(in + i));
    asm volatile("ld.global.L2::cache_hint.b32 %0, [%1], %2;"
                 : "=r"(value)
                 : "l"(in + i), "l"(last));
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.b32 %0, [%1], %2;"
                 : "=r"(more)
                 : "l"(in + 63 - i), "l"(first));
    asm volatile("ld.global.L1::evict_last.b32 %0, [%1];" : "=r"(third) : "l"(in + (i ^ 1)));
    asm volatile("st.global.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(out + i),
                 "r"(value + 1000 * more + third), "l"(range)
                 : "memory");
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(in) : "memory");
}

int main()
{
    std::vector<int> in(64), want(256);
    for (int i = 0; i < 64; ++i)
        in[i] = i * i + 1;
    for (int i = 0; i < 64; ++i) {
        want[i] = 6 * in[i];
        want[64 + i] = in[i % 16 * 4] + in[i % 16 * 4 + 3];
        want[128 + i] = 7 * i;
        want[192 + i] = -i;
    }
    int *device = to_device(in), *out = zeros<int>(256);
    builtins<<<1, 64>>>(device, out);
    CHECK_KERNEL();
    expect("built-in functions", to_host(out, 256) == want);

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow.base_ptr = device;
    window.accessPolicyWindow.num_bytes = 256;
    window.accessPolicyWindow.hitRatio = 1;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    CHECK(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window));
    policies<<<1, 64, 0, stream>>>(device, out);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 64; ++i)
        want[i] = in[i] + 1000 * in[63 - i] + in[i ^ 1];
    want.resize(64);
    expect("policies", to_host(out, 64) == want);
    printf("%d %d\n", want[0], want[63]);
    return failures;
}
