// SIMD within a word: sums, absolute differences, averages, comparisons of four bytes and of two
// halves, and the video instructions in PTX, each against the host byte by byte.
#include "check.h"

constexpr int KINDS = 20;

__global__ void all(const unsigned *in, int n, unsigned *out)
{
    int i = threadIdx.x;
    unsigned a = in[i], b = in[(i * 7 + 3) % n], *o = out + i * KINDS;
    o[0] = __vadd4(a, b);
    o[1] = __vaddus4(a, b);
    o[2] = __vaddss4(a, b);
    o[3] = __vsub4(a, b);
    o[4] = __vabsdiffu4(a, b);
    o[5] = __vabsdiffs4(a, b);
    o[6] = __vsadu4(a, b);
    o[7] = __vsads4(a, b);
    o[8] = __vmaxu4(a, b);
    o[9] = __vmins4(a, b);
    o[10] = __vcmpgtu4(a, b);
    o[11] = __vcmpeq4(a, b & 0xff00ffff);
    o[12] = __vsetltu4(a, b);
    o[13] = __vavgu4(a, b);
    o[14] = __vadd2(a, b);
    o[15] = __vsadu2(a, b);
    o[16] = __vmaxs2(a, b);
    o[17] = __vneg4(a);
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(o[18]) : "r"(a), "r"(b), "r"(1000));
    asm("vadd.s32.s32.s32.sat %0, %1.b1, %2.b3;" : "=r"(o[19]) : "r"(a), "r"(b));
}

static unsigned byte_of(int kind, unsigned x, unsigned y)
{
    int s = (signed char)x, t = (signed char)y, sum = s + t;
    switch (kind) {
    case 0: return x + y;
    case 1: return x + y > 255 ? 255 : x + y;
    case 2: return sum > 127 ? 127 : sum < -128 ? -128 : sum;
    case 3: return x - y;
    case 4: return x > y ? x - y : y - x;
    case 5: return s > t ? s - t : t - s;
    case 8: return x > y ? x : y;
    case 9: return s < t ? s : t;
    case 10: return x > y ? 255 : 0;
    case 12: return x < y;
    case 13: return (x + y + 1) / 2;
    default: return -x;
    }
}

static unsigned expected(int kind, unsigned a, unsigned b)
{
    unsigned result = 0;
    unsigned a0 = a & 0xffff, a1 = a >> 16, b0 = b & 0xffff, b1 = b >> 16;
    switch (kind) {
    case 6:
    case 7:
    case 18:
        for (int i = 0; i < 32; i += 8)
            result += byte_of(kind == 7 ? 5 : 4, a >> i & 255, b >> i & 255);
        return result + (kind == 18 ? 1000 : 0);
    case 11:
        for (int i = 0; i < 32; i += 8)
            result |= (a >> i & 255) == ((b & 0xff00ffff) >> i & 255) ? 255u << i : 0;
        return result;
    case 14: return ((a0 + b0) & 0xffff) | (a1 + b1) << 16;
    case 15: return (a0 > b0 ? a0 - b0 : b0 - a0) + (a1 > b1 ? a1 - b1 : b1 - a1);
    case 16: return ((short)a0 > (short)b0 ? a0 : b0) | ((short)a1 > (short)b1 ? a1 : b1) << 16;
    case 19: return (signed char)(a >> 8) + (signed char)(b >> 24);
    default:
        for (int i = 0; i < 32; i += 8)
            result |= (byte_of(kind, a >> i & 255, b >> i & 255) & 255) << i;
        return result;
    }
}

int main()
{
    const int n = 256;
    std::vector<unsigned> in(n);
    for (int i = 0; i < n; ++i)
        in[i] = i * 2654435761u ^ (i % 5 == 0 ? 0x80ff007fu : 0);
    unsigned *out = zeros<unsigned>(n * KINDS);
    all<<<1, n>>>(to_device(in), n, out);
    CHECK_KERNEL();
    std::vector<unsigned> got = to_host(out, n * KINDS);
    for (int kind = 0; kind < KINDS; ++kind) {
        int wrong = 0;
        for (int i = 0; i < n; ++i)
            wrong += got[i * KINDS + kind] != expected(kind, in[i], in[(i * 7 + 3) % n]);
        printf("%d: %d wrong\n", kind, wrong);
        failures += wrong > 0;
    }
    return failures;
}
