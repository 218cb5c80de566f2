// mma.sp in every type, shape and selector of sm_80 and sm_89, compared with products of the whole
// matrix A: this shows which lanes' metadata places the elements of A. The same executable passes on an H200.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include <cmocka.h>
}

#define assert_ok(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")

enum { WARP = 32, M = 16, N = 8, DEPTH = 128 }; // DEPTH: the most columns of A, with its zeros
// A lane's input words: where A, B, C and the metadata begin. IN, OUT: numbers of a lane's input
// and output words.
enum { A_AT = 0, B_AT = 4, C_AT = 8, METADATA_AT = 12, IN = 13, OUT = 4 };

// ---- The instructions ---------------------------------------------------------------------------

// X(places, saturation, k, sum, a, b, words of A and of B, words of a sum, selector). places: the
// metadata's order, increasing or any. One, two or all of a row's four lanes have the metadata.
#define PLACES(X, ...) X("::ordered_metadata", __VA_ARGS__) X("", __VA_ARGS__)
#define ALL_LANES(X, ...) PLACES(X, __VA_ARGS__, 0)
#define LANE_PAIR(X, ...) ALL_LANES(X, __VA_ARGS__) PLACES(X, __VA_ARGS__, 1)
#define ONE_LANE(X, ...)                                                                           \
    LANE_PAIR(X, __VA_ARGS__) PLACES(X, __VA_ARGS__, 2) PLACES(X, __VA_ARGS__, 3)
#define WHOLE(X, more, a, b, k, twice)                                                             \
    LANE_PAIR(X, more, k, s32, a, b, 2, 4)                                                         \
    ALL_LANES(X, more, twice, s32, a, b, 4, 4)
#define SIGNS(X, more, s, u, k, twice)                                                             \
    WHOLE(X, more, s, s, k, twice)                                                                 \
    WHOLE(X, more, s, u, k, twice) WHOLE(X, more, u, s, k, twice) WHOLE(X, more, u, u, k, twice)
#define PRODUCTS(X)                                                                                \
    ONE_LANE(X, "", 16, f32, f16, f16, 2, 4)                                                       \
    ONE_LANE(X, "", 16, f16, f16, f16, 2, 2)                                                       \
    LANE_PAIR(X, "", 32, f32, f16, f16, 4, 4)                                                      \
    LANE_PAIR(X, "", 32, f16, f16, f16, 4, 2)                                                      \
    ONE_LANE(X, "", 16, f32, bf16, bf16, 2, 4)                                                     \
    LANE_PAIR(X, "", 32, f32, bf16, bf16, 4, 4)                                                    \
    ONE_LANE(X, "", 8, f32, tf32, tf32, 2, 4)                                                      \
    LANE_PAIR(X, "", 16, f32, tf32, tf32, 4, 4)                                                    \
    ALL_LANES(X, "", 64, f32, e4m3, e4m3, 4, 4)                                                    \
    ALL_LANES(X, "", 64, f32, e4m3, e5m2, 4, 4)                                                    \
    ALL_LANES(X, "", 64, f32, e5m2, e4m3, 4, 4)                                                    \
    ALL_LANES(X, "", 64, f32, e5m2, e5m2, 4, 4)                                                    \
    SIGNS(X, "", s8, u8, 32, 64)                                                                   \
    SIGNS(X, ".satfinite", s8, u8, 32, 64)                                                         \
    SIGNS(X, "", s4, u4, 64, 128)                                                                  \
    SIGNS(X, ".satfinite", s4, u4, 64, 128)

#define A2 "{%4, %5}"
#define A4 "{%4, %5, %6, %7}"
#define B2 "{%8, %9}"
#define B4 "{%8, %9, %10, %11}"
#define D2 "{%0, %1}"
#define D4 "{%0, %1, %2, %3}"
#define EXECUTE(places, more, k, sum, a, b, words, sums, selector)                                 \
    case __COUNTER__ - FIRST:                                                                      \
        asm volatile("mma.sp" places ".sync.aligned.m16n8k" #k ".row.col" more "." #sum "." #a     \
                     "." #b "." #sum " " D##sums ", " A##words ", " B##words ", " D##sums          \
                     ", %12, " #selector ";"                                                       \
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                              \
                     : "r"(in[A_AT]), "r"(in[A_AT + 1]), "r"(in[A_AT + 2]), "r"(in[A_AT + 3]),     \
                       "r"(in[B_AT]), "r"(in[B_AT + 1]), "r"(in[B_AT + 2]), "r"(in[B_AT + 3]),     \
                       "r"(in[METADATA_AT]));                                                      \
        break;

// Each block executes instruction number `which` on words of its own: [block][word of a
// lane][lane].
enum { FIRST = __COUNTER__ + 1 };
__global__ void execute(int which, const uint32_t *words, uint32_t *sums)
{
    uint32_t in[IN], d[OUT];
    for (int i = 0; i < IN; ++i)
        in[i] = words[(blockIdx.x * IN + i) * WARP + threadIdx.x];
    for (int i = 0; i < OUT; ++i)
        d[i] = in[C_AT + i];
    switch (which) {
        PRODUCTS(EXECUTE)
    }
    for (int i = 0; i < OUT; ++i)
        sums[(blockIdx.x * OUT + i) * WARP + threadIdx.x] = d[i];
}

static const struct product {
    const char *places, *more;
    int k;
    const char *sum, *a, *b;
    int words, selector;
} products[] = {
#define ROW(places, more, k, sum, a, b, words, sums, selector)                                     \
    {places, more, k, #sum, #a, #b, words, selector},
    PRODUCTS(ROW)};
enum { COUNT = sizeof products / sizeof *products };

// ---- Numbers ------------------------------------------------------------------------------------

static const struct format {
    const char *name;
    int bits, exponent, fraction; // numbers of bits; exponent 0: an integer
    bool sign;
} formats[] = {{"f16", 16, 5, 10, true}, {"bf16", 16, 8, 7, true}, {"tf32", 32, 8, 23, true},
               {"e4m3", 8, 4, 3, true},  {"e5m2", 8, 5, 2, true},  {"s8", 8, 0, 0, true},
               {"u8", 8, 0, 0, false},   {"s4", 4, 0, 0, true},    {"u4", 4, 0, 0, false},
               {"f32", 32, 8, 23, true}, {"s32", 32, 0, 0, true}};

static const struct format *format_of(const char *name)
{
    const struct format *f = formats;
    while (strcmp(f->name, name))
        ++f;
    return f;
}

static uint64_t state;

static uint32_t draw()
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

// tf32 has the upper 19 bits of a word.
static double value_of(const struct format *f, uint32_t code)
{
    uint32_t top = 1u << (f->bits - 1);
    if (!f->exponent)
        return f->sign && (code & top) ? (double)code - 2.0 * top : (double)code;
    if (!strcmp(f->name, "tf32"))
        code &= 0xffffe000;
    int exponent = (int)(code >> f->fraction & ((1u << f->exponent) - 1));
    double digits = ldexp(code & ((1u << f->fraction) - 1), -f->fraction) + (exponent ? 1 : 0);
    double value = ldexp(digits, (exponent ? exponent : 1) - (1 << (f->exponent - 1)) + 1);
    return code & top ? -value : value;
}

// The code of a random number of the format: any integer; of a float format a whole number from -3
// to 3, since sums of these are exact, or, if near_one, a number whose magnitude is from 1/4 to 4.
static uint32_t draw_code(const struct format *f, bool near_one)
{
    uint32_t v = draw(), one = ((1u << (f->exponent - 1)) - 1) << f->fraction;
    uint32_t sign = (v >> 31) << (f->bits - 1), half = 1u << (f->fraction - 1);
    if (!f->exponent)
        return f->bits == 32 ? v : v & ((1u << f->bits) - 1);
    if (near_one)
        return (one + (v >> 28 & 3) * 2 * half - 4 * half) | (v & (2 * half - 1)) | sign;
    uint32_t below = strcmp(f->name, "tf32") ? 0 : v & 0x1fff; // bits that do not count
    switch (v >> 16 & 3) {
    case 0: return sign;
    case 1: return one | sign | below;
    default: return (one + 2 * half + (v >> 16 & 1) * half) | sign | below;
    }
}

// ---- Fragments ----------------------------------------------------------------------------------

struct image { // the lanes' input words, and the matrices that they stand for
    uint32_t in[IN][WARP];
    double a[M][DEPTH], b[DEPTH][N], c[M][N];
};

// Writes an element's code into the lanes' words. A word has neighbouring columns, and the four
// lanes of a row have neighbouring words. A lane's next word is eight rows further down, if there
// are 16 rows; the word after that is further along the row.
static void put(uint32_t (*words)[WARP], int rows, int bits, int row, int column, uint32_t code)
{
    int each = 32 / bits, along = column / (4 * each), lane = row % 8 * 4 + column / each % 4;
    uint32_t *word = &words[rows == M ? 2 * along + row / 8 : along][lane];
    int shift = column % each * bits;
    *word = (*word & ~((bits == 32 ? 0 : 1u << bits) - 1 << shift)) | code << shift;
}

// Writes `code`, the metadata of a row's stored element (or pair) `which`, `bits` wide, into the row's bit string.
static void put_place(const struct product *p, struct image *o, int row, int which, uint32_t code,
                      int bits)
{
    int at = which * bits, stored = format_of(p->a)->bits, lane = row % 8 * 4, shift;
    int row_bits = p->k / 2 / (stored == 4 ? 2 : 1) * bits, lanes = row_bits * 2 / 32;
    lane += p->selector * lanes;
    if (stored >= 16) { // two rows in a word
        lane += at / 16;
        shift = row / 8 * 16 + at % 16;
    } else { // a lane's word for each row
        lane += at / 32 * 2 + row / 8;
        shift = at % 32;
    }
    uint32_t *word = &o->in[METADATA_AT][lane];
    *word = (*word & ~(((1u << bits) - 1) << shift)) | code << shift;
}

static void draw_row_of_a(const struct product *p, struct image *o, int row, bool near_one)
{
    const struct format *f = format_of(p->a);
    bool one_of_two = f->bits == 32;
    int pair = f->bits == 4 ? 2 : 1, group = one_of_two ? 2 : 4 * pair, stored = 0, which = 0;
    for (int k = 0; k < p->k; k += group) {
        int places[2] = {(int)(draw() % 4), 0}, count = one_of_two ? 1 : 2;
        places[1] = (places[0] + 1 + (int)(draw() % 3)) % 4;
        if (p->places[0] && places[0] > places[1]) {
            int other = places[0];
            places[0] = places[1];
            places[1] = other;
        }
        places[0] = one_of_two ? places[0] % 2 : places[0];
        for (int i = 0; i < count; ++i) {
            uint32_t code = one_of_two ? (places[i] ? 14 : 4) : (uint32_t)places[i];
            put_place(p, o, row, which++, code, one_of_two ? 4 : 2);
            for (int e = 0; e < pair; ++e) {
                code = draw_code(f, near_one);
                put(o->in + A_AT, M, f->bits, row, stored++, code);
                o->a[row][k + places[i] * pair + e] = value_of(f, code);
            }
        }
    }
}

// Draws the matrices. In odd rounds the integers of C are near the ends of their range, else
// anywhere.
static void draw_image(const struct product *p, struct image *o, bool near_one, int round)
{
    const struct format *b = format_of(p->b), *sum = format_of(p->sum);
    memset(o->a, 0, sizeof o->a);
    for (int i = 0; i < IN; ++i)
        for (int lane = 0; lane < WARP; ++lane)
            o->in[i][lane] = draw();
    for (int row = 0; row < M; ++row)
        draw_row_of_a(p, o, row, near_one);
    for (int k = 0; k < p->k; ++k)
        for (int j = 0; j < N; ++j) {
            uint32_t code = draw_code(b, near_one);
            put(o->in + B_AT, N, b->bits, j, k, code);
            o->b[k][j] = value_of(b, code);
        }
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            uint32_t code = draw_code(sum, near_one);
            if (!sum->exponent && round % 2)
                code = (code & 0x80000fff) ^ (code >> 31 ? 0 : 0x7ffff000);
            if (sum->bits == 16)
                put(o->in + C_AT, M, 16, i, j, code);
            else // neighbours of a row are in neighbouring words
                o->in[C_AT + i / 8 * 2 + j % 2][i % 8 * 4 + j / 2] = code;
            o->c[i][j] = value_of(sum, code);
        }
}

static uint32_t result(const struct product *p, const uint32_t (*out)[WARP], int i, int j)
{
    int lane = i % 8 * 4 + j / 2;
    if (format_of(p->sum)->bits == 16)
        return out[i / 8][lane] >> 16 * (j % 2) & 0xffff;
    return out[i / 8 * 2 + j % 2][lane];
}

// ---- Products -----------------------------------------------------------------------------------

enum { ROUNDS = 4 };

static void multiply(int which, const struct image *images, uint32_t (*out)[OUT][WARP])
{
    static uint32_t *words, *sums;
    if (!words) {
        assert_ok(cudaMalloc(&words, ROUNDS * sizeof images->in));
        assert_ok(cudaMalloc(&sums, ROUNDS * sizeof *out));
    }
    for (int round = 0; round < ROUNDS; ++round)
        assert_ok(cudaMemcpy(words + round * IN * WARP, images[round].in, sizeof images->in,
                             cudaMemcpyHostToDevice));
    execute<<<ROUNDS, WARP>>>(which, words, sums);
    assert_ok(cudaGetLastError());
    assert_ok(cudaMemcpy(out, sums, ROUNDS * sizeof *out, cudaMemcpyDeviceToHost));
}

// Compares the sums of an instruction with the product of the whole A. near_one: the sums may be
// off by `slack`, which is proportional to the sum of magnitudes; otherwise they are exact.
static void compare(int which, bool near_one)
{
    static struct image images[ROUNDS];
    static uint32_t out[ROUNDS][OUT][WARP];
    const struct product *p = &products[which];
    const struct format *sum_format = format_of(p->sum);
    state = 88172645463325252 + (uint64_t)which;
    for (int round = 0; round < ROUNDS; ++round)
        draw_image(p, &images[round], near_one, round);
    multiply(which, images, out);
    for (int round = 0; round < ROUNDS; ++round)
        for (int i = 0; i < M; ++i)
            for (int j = 0; j < N; ++j) {
                const struct image *o = &images[round];
                double sum = o->c[i][j], size = fabs(sum);
                for (int k = 0; k < p->k; ++k) {
                    sum += o->a[i][k] * o->b[k][j];
                    size += fabs(o->a[i][k] * o->b[k][j]);
                }
                uint32_t code = result(p, out[round], i, j);
                double got = value_of(sum_format, code), slack = 0;
                if (!sum_format->exponent && p->more[0])
                    sum = fmin(fmax(sum, INT32_MIN), INT32_MAX);
                else if (!sum_format->exponent)
                    sum = (double)(int32_t)(uint32_t)(int64_t)sum;
                if (near_one)
                    slack = (1.5 * p->k / 2 + 7) * ldexp(size, -24) +
                            (sum_format->bits == 16 ? ldexp(fabs(sum), -11) : 0);
                if (!(fabs(got - sum) <= slack))
                    fail_msg("mma.sp%s.m16n8k%d%s.%s.%s.%s, selector %d: (%d, %d) is %.9g, not "
                             "%.9g",
                             p->places, p->k, p->more, p->sum, p->a, p->b, p->selector, i, j, got,
                             sum);
            }
}

static void every_product(void **)
{
    assert_int_equal(COUNT, 152);
    for (int which = 0; which < COUNT; ++which)
        compare(which, false);
}

// Sums that are not exact are within the error of tensor cores, which cut terms, and of fused
// multiply-adds.
static void sums_within_their_error(void **)
{
    int count = 0;
    for (int which = 0; which < COUNT; ++which)
        if (format_of(products[which].sum)->exponent) {
            compare(which, true);
            ++count;
        }
    assert_int_equal(count, 56);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_product),
        cmocka_unit_test(sums_within_their_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
