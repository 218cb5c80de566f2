// mma.sync of integers: 8 bits (m16n8k32), 4 bits (m16n8k64) and single bits with popc of and and of
// xor (m16n8k256), each fragment filled as the manual draws it.
#include "check.h"

// Elements of BITS bits: a product has DEPTH of them in k, a 32-bit word PER_WORD.
template <int BITS, bool XOR = false> struct Shape {
    static constexpr int DEPTH = 256 / BITS, PER_WORD = 32 / BITS;
};

__device__ void multiply(Shape<8>, int *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void multiply(Shape<4>, int *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.s4.s32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void multiply(Shape<1>, int *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void multiply(Shape<1, true>, int *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// a is [16][8] words by rows, b is [8][8] words by columns: eight words hold the whole depth.
template <int BITS, bool XOR>
__global__ void product(const unsigned *a, const unsigned *b, int *out)
{
    int group = threadIdx.x / 4, place = threadIdx.x % 4, d[4] = {1, 2, 3, 4};
    unsigned left[4], right[2];
    for (int r = 0; r < 4; ++r)
        left[r] = a[(group + r % 2 * 8) * 8 + place + r / 2 * 4];
    for (int r = 0; r < 2; ++r)
        right[r] = b[group * 8 + place + r * 4];
    multiply(Shape<BITS, XOR>(), d, left, right);
    for (int i = 0; i < 4; ++i)
        out[(group + i / 2 * 8) * 8 + 2 * place + i % 2] = d[i];
}

template <int BITS, bool XOR = false> void test(const char *name)
{
    std::vector<unsigned> a(128), b(64);
    std::vector<int> want(128);
    for (int i = 0; i < 128; ++i)
        a[i] = (i + 1) * 2654435761u ^ i << 7;
    for (int i = 0; i < 64; ++i)
        b[i] = (i + 3) * 2246822519u ^ i << 9;
    auto element = [](const std::vector<unsigned> &x, int row, int k) {
        unsigned word = x[row * 8 + k / Shape<BITS>::PER_WORD] >> k % Shape<BITS>::PER_WORD * BITS;
        return BITS == 1 ? (int)(word & 1) : (int)(word << (32 - BITS)) >> (32 - BITS);
    };
    for (int i = 0; i < 128; ++i) {
        want[i] = 1 + i % 2 + (i / 64) * 2;
        for (int k = 0; k < Shape<BITS>::DEPTH; ++k) {
            int x = element(a, i / 8, k), y = element(b, i % 8, k);
            want[i] += XOR ? x ^ y : x * y;
        }
    }
    int *out = zeros<int>(128);
    product<BITS, XOR><<<1, 32>>>(to_device(a), to_device(b), out);
    CHECK_KERNEL();
    expect(name, to_host(out, 128) == want);
    printf("%d %d\n", want[0], want[127]);
}

int main()
{
    test<8>("8 bits");
    test<4>("4 bits");
    test<1>("1 bit, and");
    test<1, true>("1 bit, xor");
    return failures;
}
