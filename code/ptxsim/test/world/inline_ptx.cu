// Inline PTX of the common kinds: carries, lop3, prmt, bit fields, selections, predicates, vectors
// of four, address spaces, named barriers, redux and match, branches and loops with labels.
#include "check.h"

constexpr int KINDS = 14;

__global__ void all(const unsigned *in, unsigned *out)
{
    int i = threadIdx.x;
    unsigned a = in[i], b = in[63 - i], *o = out + i * KINDS, x, y, z, w;
    asm("add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, 0, 0;" : "=r"(x), "=r"(y) : "r"(a), "r"(b));
    o[0] = x ^ y;
    asm("mad.lo.cc.u32 %0, %2, %3, %2;\n\tmadc.hi.u32 %1, %2, %3, 0;"
        : "=r"(x), "=r"(y)
        : "r"(a), "r"(b));
    o[1] = x ^ y << 1;
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(o[2]) : "r"(a), "r"(b), "r"(i));
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(o[3]) : "r"(a), "r"(b), "r"(i & 3));
    asm("bfe.s32 %0, %1, 5, 9;" : "=r"(x) : "r"(a));
    asm("bfi.b32 %0, %1, %2, 12, 7;" : "=r"(y) : "r"(a), "r"(b));
    o[4] = x + y;
    asm("bfind.u32 %0, %1;" : "=r"(x) : "r"(a >> i % 32));
    asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(i));
    o[5] = x ^ y;
    asm("{ .reg .pred p, q;\n\t"
        "setp.lt.and.u32 p|q, %1, %2, 1;\n\t"
        "@p mov.u32 %0, 10;\n\t"
        "@q mov.u32 %0, 20;\n\t"
        "}"
        : "=r"(o[6])
        : "r"(a), "r"(b));
    asm("slct.u32.s32 %0, %1, %2, %3;" : "=r"(x) : "r"(a), "r"(b), "r"((int)b));
    asm("sad.u32 %0, %1, %2, 3;" : "=r"(y) : "r"(a), "r"(b));
    o[7] = x + y;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "l"(in + i / 4 * 4));
    o[8] = x ^ y << 3 ^ z << 5 ^ w << 7;
    asm volatile("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 2, p; }"
                 : "=r"(o[9])
                 : "l"(i % 2 ? (const void *)in : (const void *)&x));
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0;\n\tbarrier.cta.red.popc.u32 %0, 0, p; }"
                 : "=r"(o[10])
                 : "r"(a & 1));
    asm volatile("redux.sync.xor.b32 %0, %1, 0xffffffff;" : "=r"(o[11]) : "r"(a));
    // Collatz: the number of steps to 1.
    asm volatile("{ .reg .pred p, even;\n\t.reg .u32 n, bit;\n\tmov.u32 n, %1;\n\tmov.u32 %0, 0;\n"
                 "again:\n\tsetp.le.u32 p, n, 1;\n\t@p bra done;\n\t"
                 "and.b32 bit, n, 1;\n\tsetp.eq.u32 even, bit, 0;\n\t"
                 "@even shr.u32 n, n, 1;\n\t@!even mad.lo.u32 n, n, 3, 1;\n\t"
                 "add.u32 %0, %0, 1;\n\tbra again;\ndone:\n\t}"
                 : "=&r"(o[12])
                 : "r"(i + 1));
    asm volatile("bar.sync 3, 64;" ::: "memory");
    asm("fns.b32 %0, %1, 0, %2;" : "=r"(o[13]) : "r"(a), "r"(i % 8 + 1));
}

static int collatz(int n)
{
    int steps = 0;
    for (; n > 1; ++steps)
        n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}

int main()
{
    std::vector<unsigned> in(64);
    unsigned odd = 0, folded[2] = {};
    for (int i = 0; i < 64; ++i) {
        in[i] = (i + 1) * 2654435761u;
        odd += in[i] & 1;
        folded[i / 32] ^= in[i];
    }
    unsigned *out = zeros<unsigned>(64 * KINDS);
    all<<<1, 64>>>(to_device(in), out);
    CHECK_KERNEL();
    std::vector<unsigned> got = to_host(out, 64 * KINDS);
    bool right = true;
    for (int i = 0; i < 64; ++i) {
        unsigned a = in[i], b = in[63 - i], *o = &got[i * KINDS];
        right = right && o[0] == ((a + b) ^ (a + b < a)) && o[2] == (a ^ b ^ i) &&
                o[6] == (a < b ? 10 : 20) && o[9] == (i % 2 ? 1 : 2) && o[10] == odd &&
                o[11] == folded[i / 32] && o[12] == (unsigned)collatz(i + 1);
    }
    expect("those that a line can say", right);
    for (int kind = 0; kind < KINDS; ++kind) {
        unsigned sum = 0;
        for (int i = 0; i < 64; ++i)
            sum = sum * 31 + got[i * KINDS + kind];
        printf("%d: %08x\n", kind, sum);
    }
    return failures;
}
