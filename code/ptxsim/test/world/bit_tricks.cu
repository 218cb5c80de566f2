// Integer intrinsics: dot products of bytes, byte permutations, funnel shifts, counting and
// reversing bits, high halves of products, 24-bit products, rounding averages, warp votes and
// match.
#include "check.h"

constexpr int KINDS = 20;

__global__ void all(const unsigned *in, int n, unsigned *out)
{
    int i = threadIdx.x;
    unsigned a = in[i], b = in[(i * 5 + 1) % n], *o = out + i * KINDS;
    o[0] = __dp4a((int)a, (int)b, 100);
    o[1] = __dp4a(a, b, 100u);
    o[2] = __dp2a_lo((int)a, (int)b, -7);
    o[3] = __dp2a_hi(a, b, 7u);
    o[4] = __byte_perm(a, b, 0x5140);
    o[5] = __byte_perm(a, b, i * 0x1111 & 0x7777);
    o[6] = __funnelshift_l(a, b, i);
    o[7] = __funnelshift_rc(a, b, i);
    o[8] = __brev(a) ^ (unsigned)(__brevll((unsigned long long)b) >> 32);
    o[9] = __clz(a >> i % 32) + 100 * __clzll((long long)b << i % 32);
    o[10] = __ffs(a & -1 << i % 32) + 100 * __ffsll((long long)b << 20);
    o[11] = __popc(a) + 100 * __popcll((unsigned long long)a << 32 | b);
    o[12] = __mulhi((int)a, (int)b);
    o[13] = __umulhi(a, b);
    o[14] = (unsigned)__umul64hi((unsigned long long)a << 32 | b, 0x123456789abcdefull);
    o[15] = __mul24((int)a, (int)b) ^ __umul24(a, b);
    o[16] = __sad((int)a, (int)b, 5u) + __usad(a, b, 6u);
    o[17] = __hadd((int)a, (int)b) + 3 * __rhadd((int)a, (int)b) + 5 * __uhadd(a, b) +
            7 * __urhadd(a, b);
    o[18] = __float_as_uint(__uint2float_rn(a)) ^ (unsigned)__float2int_rz(__int2float_rd((int)b));
    o[19] = __match_any_sync(0xffffffff, a % 3) ^ __ballot_sync(0xffffffff, b & 1) ^
            __reduce_add_sync(0xffffffff, a) ^ __reduce_max_sync(0xffffffff, b);
}

// The results by plain code, for those tricks that take one line of plain code.
static unsigned expected(int kind, unsigned a, unsigned b, int i)
{
    unsigned result = 100, s = i & 31;
    unsigned long long both = (unsigned long long)b << 32 | a;
    switch (kind) {
    case 0:
        for (int k = 0; k < 32; k += 8)
            result += (signed char)(a >> k) * (signed char)(b >> k);
        return result;
    case 1:
        for (int k = 0; k < 32; k += 8)
            result += (a >> k & 255) * (b >> k & 255);
        return result;
    case 2: return -7 + (short)a * (signed char)b + (short)(a >> 16) * (signed char)(b >> 8);
    case 3: return 7 + (a & 0xffff) * (b >> 16 & 255) + (a >> 16) * (b >> 24);
    case 4: return (a & 255) | (b & 255) << 8 | (a >> 8 & 255) << 16 | (b >> 8 & 255) << 24;
    case 6: return s ? b << s | a >> (32 - s) : b;
    case 7: return i >= 32 ? b : (unsigned)(both >> i);
    case 11: return __builtin_popcount(a) * 101 + 100 * __builtin_popcount(b);
    case 12: return (unsigned)((long long)(int)a * (int)b >> 32);
    case 13: return (unsigned)((unsigned long long)a * b >> 32);
    default: return 0;
    }
}

int main()
{
    const int n = 64, plain[] = {0, 1, 2, 3, 4, 6, 7, 11, 12, 13};
    std::vector<unsigned> in(n);
    for (int i = 0; i < n; ++i)
        in[i] = (i + 1) * 2654435761u;
    unsigned *out = zeros<unsigned>(n * KINDS);
    all<<<1, n>>>(to_device(in), n, out);
    CHECK_KERNEL();
    std::vector<unsigned> got = to_host(out, n * KINDS);
    for (int kind : plain)
        for (int i = 0; i < n; ++i)
            if (got[i * KINDS + kind] != expected(kind, in[i], in[(i * 5 + 1) % n], i)) {
                printf("kind %d of thread %d: %x\n", kind, i, got[i * KINDS + kind]);
                ++failures;
            }
    for (int kind = 0; kind < KINDS; ++kind) {
        unsigned sum = 0;
        for (int i = 0; i < n; ++i)
            sum = sum * 31 + got[i * KINDS + kind];
        printf("%d: %08x\n", kind, sum);
    }
    return failures;
}
