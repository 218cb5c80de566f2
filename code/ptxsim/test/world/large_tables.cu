// Large tables of pointers in the device's memory: of functions, as interpreters have them, of other
// variables and of texts.
#include "check.h"

template <int K> __device__ int by(int x)
{
    return K & 1 ? x * K : x + K;
}

typedef int (*Step)(int);
#define FOUR(K) by<K>, by<K + 1>, by<K + 2>, by<K + 3>
__device__ Step steps[] = {FOUR(0),  FOUR(4),  FOUR(8),  FOUR(12), FOUR(16), FOUR(20),
                           FOUR(24), FOUR(28), FOUR(32), FOUR(36), FOUR(40), FOUR(44)};

__device__ int odd[48], even[48];
#define TWO odd, even
__constant__ int *rows[] = {TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO,
                            TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO};
__device__ const char *const names[] = {"nil",  "load", "store", "add",  "sub",  "mul",  "div",
                                        "rem",  "and",  "or",    "xor",  "not",  "shl",  "shr",
                                        "jump", "call", "ret",   "push", "pop",  "dup",  "swap",
                                        "drop", "over", "rot",   "eq",   "less", "halt", "trap"};

__global__ void run(int *out, int *letters)
{
    int i = threadIdx.x;
    out[i] = steps[(7 * i) % 48](i);
    rows[i][i] = i;
    letters[i] = names[i % 28][i % 3];
}

int main()
{
    int *out = zeros<int>(48), *letters = zeros<int>(48);
    run<<<1, 48>>>(out, letters);
    CHECK_KERNEL();
    for (int value : to_host(out, 48))
        printf("%d ", value);
    printf("\n");
    for (int letter : to_host(letters, 48))
        printf("%c", letter);
    int counts[2][48];
    CHECK(cudaMemcpyFromSymbol(counts[0], odd, sizeof counts[0]));
    CHECK(cudaMemcpyFromSymbol(counts[1], even, sizeof counts[1]));
    printf("\n");
    for (int i = 0; i < 48; ++i)
        printf("%d ", counts[i % 2][i]);
    printf("\n");
    return failures;
}
