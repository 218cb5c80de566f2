// half, bfloat16 and FP8: arithmetic and conversions that are exact or rounded once, their vectors
// of two, comparisons, and conversions that saturate. Bits are printed.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "check.h"

constexpr int KINDS = 16;

__device__ unsigned bits(half2 x)
{
    return (unsigned)__half_as_ushort(__high2half(x)) << 16 | __half_as_ushort(__low2half(x));
}

__device__ unsigned bits(__nv_bfloat162 x)
{
    return (unsigned)__bfloat16_as_ushort(__high2bfloat16(x)) << 16 |
           __bfloat16_as_ushort(__low2bfloat16(x));
}

__global__ void all(const float *in, unsigned *out)
{
    int i = threadIdx.x;
    float x = in[i], y = in[31 - i];
    unsigned *o = out + i * KINDS;
    half a = __float2half(x), b = __float2half_rz(y);
    half2 p = __floats2half2_rn(x, y), q = __half2half2(b);
    o[0] = bits(__hadd2(p, q));
    o[1] = bits(__hfma2(p, q, p));
    o[2] = bits(__hmul2_sat(p, q));
    o[3] = bits(__hmax2(p, q)) ^ bits(__hmin2(q, p)) << 1;
    o[4] = __half_as_ushort(__hfma_relu(a, b, a)) | (__hlt(a, b) | __hge(a, b) << 1) << 16;
    o[5] = __half2int_rn(a) + 1000 * __half2int_rd(b);
    o[6] = __half_as_ushort(hfloor(a)) | __half_as_ushort(hrint(b)) << 16;
    o[7] = bits(p * q - __habs2(q));
    o[8] = __half_as_ushort(__ushort2half_rn(i * 2049));

    __nv_bfloat162 u = __floats2bfloat162_rn(x, y), v = __float2bfloat162_rn(y);
    o[9] = bits(__hadd2(u, v));
    o[10] = bits(__hfma2(u, v, u));
    o[11] = __float_as_uint(__bfloat162float(__float2bfloat16_ru(x)));

    o[12] = __nv_fp8_e4m3(x).__x | __nv_fp8_e5m2(y).__x << 8;
    o[13] = __nv_cvt_float2_to_fp8x2(make_float2(x * 100, y), __NV_SATFINITE, __NV_E4M3);
    __nv_fp8x4_e4m3 four(make_float4(x, y, -x, 0.3f));
    float4 back = float4(four);
    o[14] = __float_as_uint(back.x) ^ __float_as_uint(back.y) >> 1 ^ __float_as_uint(back.z) >> 2;
    o[15] = __float_as_uint(float(__nv_fp8_e5m2(__float2half(y))));
}

int main()
{
    std::vector<float> in(32);
    for (int i = 0; i < 32; ++i)
        in[i] = (i - 16) * 0.37f + (i % 4 == 0 ? 700.0f : 0) + i % 7 * 0.001f;
    in[5] = 1e6f;  // beyond the largest half
    in[6] = 3e-8f; // below the smallest half
    in[7] = -0.0f;
    in[8] = 6e-5f; // a subnormal half
    unsigned *out = zeros<unsigned>(32 * KINDS);
    all<<<1, 32>>>(to_device(in), out);
    CHECK_KERNEL();
    std::vector<unsigned> got = to_host(out, 32 * KINDS);
    for (int kind = 0; kind < KINDS; ++kind) {
        unsigned sum = 0;
        for (int i = 0; i < 32; ++i)
            sum = sum * 31 + got[i * KINDS + kind];
        printf("%2d: %08x, thread 9 %08x, thread 5 %08x\n", kind, sum, got[9 * KINDS + kind],
               got[5 * KINDS + kind]);
    }
    return failures;
}
