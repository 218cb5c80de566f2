// Sparse tensor products of halves: two of four elements of A are stored, and a word says which
// (mma.sp.m16n8k32). All six patterns, and one that alternates, against a plain loop.
#include <cuda_fp16.h>

#include "check.h"

// a is [16][16], what is stored of [16][32]; b is [8][32] by columns.
__global__ void product(const half *a, const half *b, unsigned pattern, float *out)
{
    int group = threadIdx.x / 4, place = threadIdx.x % 4;
    unsigned left[4], right[4];
    float d[4] = {0, 0, 0, 0};
    for (int r = 0; r < 4; ++r) {
        left[r] = *(const unsigned *)&a[(group + r % 2 * 8) * 16 + 2 * place + r / 2 * 8];
        right[r] = *(const unsigned *)&b[group * 32 + 2 * place + r * 8];
    }
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]),
                   "r"(right[1]), "r"(right[2]), "r"(right[3]), "r"(pattern));
    for (int i = 0; i < 4; ++i)
        out[(group + i / 2 * 8) * 8 + 2 * place + i % 2] = d[i];
}

int main()
{
    // Four bits for each four elements: the index of the first stored one, and of the second.
    const unsigned patterns[] = {0x44444444, 0x88888888, 0x99999999, 0xcccccccc,
                                 0xdddddddd, 0xeeeeeeee, 0xe4e4e4e4};
    std::vector<half> a(256), b(256);
    for (int i = 0; i < 256; ++i) {
        a[i] = __float2half((float)(i * 7 % 13 - 6));
        b[i] = __float2half((float)(i * 11 % 17 - 8));
    }
    half *left = to_device(a), *right = to_device(b);
    float *out = zeros<float>(128);
    for (unsigned pattern : patterns) {
        std::vector<float> want(128);
        for (int i = 0; i < 128; ++i)
            for (int k = 0; k < 16; ++k) {
                int four = k / 2, place = pattern >> (four * 4 + k % 2 * 2) & 3;
                want[i] += __half2float(a[i / 8 * 16 + k]) *
                           __half2float(b[i % 8 * 32 + four * 4 + place]);
            }
        product<<<1, 32>>>(left, right, pattern, out);
        CHECK_KERNEL();
        printf("%08x, first %g\n", pattern, want[0]);
        expect("product", to_host(out, 128) == want);
    }
    return failures;
}
