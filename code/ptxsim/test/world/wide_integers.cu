// Integers of 128 bits, which nvcc computes with carries in halves of 32 and 64 bits, as hashes and
// checked arithmetic use them: products, quotients, remainders, shifts and comparisons, each also on the
// host. And the carry flag after a subtraction, which is the borrow's complement.
#include "check.h"

#include <cstdint>

typedef unsigned __int128 Wide;
typedef __int128 Signed;

constexpr int COUNT = 96;

struct Results {
    Wide product, quotient, rest, left, right;
    Signed signed_quotient, signed_rest, arithmetic;
    int order;
};

__host__ __device__ static Results compute(Wide a, Wide b, int shift)
{
    Signed x = Signed(a), y = Signed(b);
    return {a * b, a / b, a % b,      a << shift,           a >> shift,
            x / y, x % y, x >> shift, (a < b) + 2 * (x < y)};
}

__global__ void all(const Wide *pairs, Results *out)
{
    int i = threadIdx.x;
    out[i] = compute(pairs[2 * i], pairs[2 * i + 1], i);
}

__global__ void carries(uint32_t *out)
{
    uint32_t a = threadIdx.x / 3, b = threadIdx.x % 3, none = 0, *to = out + 3 * threadIdx.x;
    asm("sub.cc.u32 %0, %1, %2;\n\taddc.u32 %0, %3, %3;"
        : "=&r"(to[0])
        : "r"(a), "r"(b), "r"(none));
    asm("add.cc.u32 %0, %1, %2;\n\tsubc.u32 %0, %3, %3;"
        : "=&r"(to[1])
        : "r"(a), "r"(b - 2), "r"(none));
    asm("sub.cc.u32 %0, %1, %2;\n\tsubc.u32 %0, %3, %3;"
        : "=&r"(to[2])
        : "r"(a), "r"(b), "r"(none));
}

int main()
{
    Wide pairs[2 * COUNT];
    uint64_t state = 88172645463325252;
    auto next = [&] {
        state ^= state << 13;
        state ^= state >> 7;
        return state ^= state << 17;
    };
    for (int i = 0; i < 2 * COUNT; ++i) { // numbers of every length
        Wide value = Wide(next()) << 64 | next();
        value >>= next() % 128;
        pairs[i] = value ? value : 1;
    }
    Wide *device = zeros<Wide>(2 * COUNT);
    Results *results = zeros<Results>(COUNT);
    CHECK(cudaMemcpy(device, pairs, sizeof pairs, cudaMemcpyHostToDevice));
    all<<<1, COUNT>>>(device, results);
    CHECK_KERNEL();
    auto here = to_host(results, COUNT);
    int equal[9] = {0};
    uint64_t sum = 0;
    for (int i = 0; i < COUNT; ++i) {
        Results is = here[i], should = compute(pairs[2 * i], pairs[2 * i + 1], i);
        equal[0] += is.product == should.product;
        equal[1] += is.quotient == should.quotient;
        equal[2] += is.rest == should.rest;
        equal[3] += is.left == should.left;
        equal[4] += is.right == should.right;
        equal[5] += is.signed_quotient == should.signed_quotient;
        equal[6] += is.signed_rest == should.signed_rest;
        equal[7] += is.arithmetic == should.arithmetic;
        equal[8] += is.order == should.order;
        sum = 31 * sum + uint64_t(is.quotient) + uint64_t(is.rest >> 64);
    }
    const char *names[] = {"product",         "quotient",    "rest",       "left", "right",
                           "signed quotient", "signed rest", "arithmetic", "order"};
    for (int i = 0; i < 9; ++i)
        printf("%s: %d of %d\n", names[i], equal[i], COUNT);
    printf("sum %016llx\n", (unsigned long long)sum);

    uint32_t *out = zeros<uint32_t>(27);
    carries<<<1, 9>>>(out);
    CHECK_KERNEL();
    printf("carries:");
    for (uint32_t value : to_host(out, 27))
        printf(" %d", int(value));
    printf("\n");
    return failures;
}
