// compare.c: compares two files of coverage.cu, or makes a record of one.
//
//   compare HERE THERE        every case with its worst difference; fails beyond a case's bound
//   compare record FILE       makes the record of FILE, which may stand for THERE above: a line for
//                             each case, tab-separated: name, number of words, and their hash, or
//                             "~" and, on further lines, the words
//
// Exact operations must have the same bits. Results of approximate operations (MUFU) may differ by
// the error that the PTX manual allows both machines together. For sums of a matrix product the
// GPU's rule is known (see machine_sum): the GPU's results have to follow it bit for bit, and the
// simulator's must be as near to them as two ways of adding can be. Where there is a bound, any NaN
// matches any NaN.
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    char name[96];
    size_t count;
    uint64_t hash;
    uint32_t *words; // NULL: only the hash is known
};

struct pieces {
    struct piece *piece;
    size_t count;
};

static _Noreturn void fail(const char *what, const char *name)
{
    fprintf(stderr, "compare: %s: %s\n", name, what);
    exit(1);
}

static uint64_t hash_words(const uint32_t *words, size_t count)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; ++i)
        hash = (hash ^ words[i]) * UINT64_C(1099511628211);
    return hash;
}

// How close two results must be.
struct bound {
    enum { SAME, ULPS_F32, ULPS_F64, ULPS_F16, LOGARITHM, ANGLE, SUM } kind;
    double limit;
};

static bool is_sum(const char *name);

static struct bound bound_of(const char *name)
{
    static const struct {
        const char *start;
        struct bound bound;
    } bounds[] = {
        {"ex2.approx.f16", {ULPS_F16, 2}}, // one unit for the simulator, one for the GPU
        {"tanh.approx.f16", {ULPS_F16, 2}},
        {"tanh.approx.f32", {ULPS_F32, 8192}}, // 2^-11 for each of the two
        {"sin.approx", {ANGLE, 0x1p-19}},      // up to 2 pi; the manual bounds no other
        {"cos.approx", {ANGLE, 0x1p-19}},
        {"lg2.approx", {LOGARITHM, 4}},             // or an absolute error of 2^-21
        {"rcp.approx.ftz.f64", {ULPS_F64, 0x1p33}}, // only the result's upper word is computed
        {"rsqrt.approx.ftz.f64", {ULPS_F64, 0x1p33}},
        {"rsqrt.approx.f64", {ULPS_F64, 2}},
        {"ex2.approx", {ULPS_F32, 4}},
        {"rcp.approx", {ULPS_F32, 2}},
        {"rsqrt.approx", {ULPS_F32, 4}},
        {"sqrt.approx", {ULPS_F32, 4}},
        {"div.approx", {ULPS_F32, 4}},
        {"div.full", {ULPS_F32, 4}},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; ++i)
        if (!strncmp(name, bounds[i].start, strlen(bounds[i].start)))
            return bounds[i].bound;
    return is_sum(name) ? (struct bound){SUM, 1} : (struct bound){SAME, 0};
}

// ---- Reading ------------------------------------------------------------------------------------

static struct pieces read_pieces(const char *path)
{
    struct pieces all = {0};
    char line[256];
    FILE *file = fopen(path, "rb");
    if (!file)
        fail("cannot be opened", path);
    while (fgets(line, sizeof line, file)) {
        all.piece = realloc(all.piece, (all.count + 1) * sizeof *all.piece);
        if (!all.piece)
            abort();
        struct piece *p = &all.piece[all.count++];
        *p = (struct piece){0};
        char mark = 0;
        int used = 0;
        if (sscanf(line, "%95[^\t]\t%zu%c%n", p->name, &p->count, &mark, &used) != 3 ||
            p->count > 1 << 24)
            fail("is no file of coverage", path);
        if (mark == '\t' && line[used] != '~') { // a record
            p->hash = strtoull(line + used, NULL, 16);
            continue;
        }
        p->words = malloc((p->count + 1) * 4);
        if (!p->words)
            abort();
        if (mark == '\t') {
            for (size_t i = 0; i < p->count; ++i)
                if (fscanf(file, "%" SCNx32, &p->words[i]) != 1)
                    fail("ends too early", path);
            if (!fgets(line, sizeof line, file))
                fail("ends too early", path);
        } else if (fread(p->words, 4, p->count, file) != p->count) {
            fail("ends too early", path);
        }
        p->hash = hash_words(p->words, p->count);
    }
    fclose(file);
    if (!all.count)
        fail("is empty", path);
    return all;
}

static void record(const struct pieces *all)
{
    for (size_t i = 0; i < all->count; ++i) {
        const struct piece *p = &all->piece[i];
        bool exact = bound_of(p->name).kind == SAME;
        printf("%s\t%zu\t", p->name, p->count);
        if (exact) {
            printf("%016" PRIx64 "\n", p->hash);
            continue;
        }
        printf("~");
        for (size_t k = 0; k < p->count; ++k)
            printf("%s%" PRIx32, k % 16 ? " " : "\n", p->words[k]);
        printf("\n");
    }
}

// ---- Comparing ----------------------------------------------------------------------------------

static double half_value(uint32_t h)
{
    int exponent = h >> 10 & 31;
    double value = exponent == 31 ? (h & 1023 ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + (h & 1023), exponent - 25)
                                  : ldexp(h & 1023, -24);
    return h & 0x8000 ? -value : value;
}

static double single_value(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static double double_value(const uint32_t *words)
{
    double value;
    memcpy(&value, words, 8);
    return value;
}

// The distance of x and y in units in the last place of a format with `fraction` fraction bits and
// the least exponent `least`; 0 if they are equal, or both NaN; infinite if only one is finite.
static double distance(double x, double y, int fraction, int least)
{
    if (x == y || (x != x && y != y))
        return 0;
    if (!(fabs(x) < INFINITY) || !(fabs(y) < INFINITY))
        return INFINITY;
    double most = fmax(fabs(x), fabs(y));
    return fabs(x - y) / ldexp(1, (int)fmax(ilogb(most), least) - fraction);
}

static double difference(const struct piece *a, const struct piece *b, struct bound bound,
                         const struct piece *inputs)
{
    double worst = 0;
    size_t step = bound.kind == ULPS_F64 ? 2 : 1;
    for (size_t i = 0; i + step <= a->count; i += step) {
        double d = 0;
        uint32_t x = a->words[i], y = b->words[i];
        switch (bound.kind) {
        case ULPS_F16:
            d = fmax(distance(half_value(x & 0xffff), half_value(y & 0xffff), 10, -14),
                     distance(half_value(x >> 16), half_value(y >> 16), 10, -14));
            break;
        case ULPS_F64:
            d = distance(double_value(a->words + i), double_value(b->words + i), 52, -1022);
            break;
        case ANGLE:
            if (inputs->count < 8 * a->count || !(fabs(single_value(inputs->words[8 * i])) < 6.28))
                break;
            d = single_value(x) == single_value(y) ||
                        (isnan(single_value(x)) && isnan(single_value(y)))
                    ? 0
                    : fabs(single_value(x) - single_value(y));
            break;
        case LOGARITHM:
            if (fabs(single_value(x) - single_value(y)) < 0x1p-21)
                break;
            // fall through
        default: d = distance(single_value(x), single_value(y), 23, -126);
        }
        if (!(d <= worst))
            worst = d;
    }
    return worst;
}

// ---- Sums of products ---------------------------------------------------------------------------

struct format {
    const char *name;
    int exponent, fraction, bias, bits, skip; // skip: low bits of a code that do not count
};
static const struct format formats[] = {{"f16", 5, 10, 15, 16, 0},
                                        {"bf16", 8, 7, 127, 16, 0},
                                        {"tf32", 8, 10, 127, 32, 13},
                                        {"e4m3", 4, 3, 7, 8, 0},
                                        {"e5m2", 5, 2, 15, 8, 0}};
static const struct format f32 = {"f32", 8, 23, 127, 32, 0};

// Reads k and the formats of A and B from a case's name, such as "mma m16n8k32 e4m3 e5m2, reals";
// false: the case is no product, or its results must have the same bits.
static bool parse_product(const char *name, int *k, const struct format *of[2])
{
    char first[8], second[8] = "";
    int end = 0;
    if (sscanf(name, "mma m16n8k%d %7[a-z0-9]%n", k, first, &end) != 2)
        return false;
    if (name[end] == ' ' && sscanf(name + end, " %7[a-z0-9]%n", second, (int[]){0}) == 1 &&
        !strcmp(second, "in"))
        return false; // sums in f16 must have the same bits
    of[0] = of[1] = NULL;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; ++i) {
        if (!strcmp(first, formats[i].name))
            of[0] = &formats[i];
        if (!strcmp(second[0] ? second : first, formats[i].name))
            of[1] = &formats[i];
    }
    return of[0] && of[1] && strstr(name, ", reals") && !strstr(name, "inputs");
}

static bool is_sum(const char *name)
{
    int k;
    const struct format *of[2];
    return parse_product(name, &k, of);
}

// value * 2^exponent. top: a number's exponent as its format has it, less the bias; for a product,
// the sum of its factors' exponents.
struct term {
    int64_t value;
    int exponent, top;
};

static struct term decode(uint32_t bits, const struct format *f)
{
    bits >>= f->skip;
    int e = (int)(bits >> f->fraction & ((1u << f->exponent) - 1));
    int64_t value = (int64_t)(bits & ((1u << f->fraction) - 1));
    if (e)
        value |= INT64_C(1) << f->fraction;
    else
        e = 1;
    bool negative = bits >> (f->exponent + f->fraction) & 1;
    return (struct term){negative ? -value : value, e - f->bias - f->fraction, e - f->bias};
}

// value * 2^exponent as an f32, cut towards zero.
static float cut(int64_t value, int exponent)
{
    uint64_t size = (uint64_t)(value < 0 ? -value : value);
    if (!size)
        return 0;
    int drop = 40 - __builtin_clzll(size); // low bits to cut off, so that 24 bits stay
    if (drop < -149 - exponent)
        drop = -149 - exponent;
    if (drop > 0) {
        size >>= drop;
        exponent += drop;
    }
    return copysignf((float)ldexp((double)size, exponent), value < 0 ? -1 : 1);
}

// An H200's sum of c and products, in one step: every term is cut 25 bits below the leading bit that
// the largest of the terms could have, what remains is added exactly, and the sum is cut to an f32.
static float fused_sum(uint32_t c, const struct term *term, int count)
{
    enum { KEPT = 25 };
    struct term start = decode(c, &f32);
    int top = start.value ? start.top : INT32_MIN;
    for (int i = 0; i < count; ++i)
        if (term[i].value && term[i].top > top)
            top = term[i].top;
    if (top == INT32_MIN)
        return 0;
    int64_t sum = 0;
    for (int i = -1; i < count; ++i) {
        struct term t = i < 0 ? start : term[i];
        int shift = t.exponent - (top - KEPT);
        int64_t size = t.value < 0 ? -t.value : t.value;
        size = shift >= 0 ? size << (shift > 40 ? 0 : shift) : shift < -63 ? 0 : size >> -shift;
        sum += t.value < 0 ? -size : size;
    }
    return cut(sum, top - KEPT);
}

// An H200's result for a row and a column: one fused_sum(). narrow (eight-bit formats): a
// fused_sum() of 0 and the terms whose k is 0 or 1 modulo 4, then one of this sum and the other
// terms; c is added afterwards, with rounding to nearest.
static float machine_sum(uint32_t c, const struct term *term, int k, bool narrow)
{
    if (!narrow)
        return fused_sum(c, term, k);
    float sum = 0;
    for (int part = 0; part < 4; part += 2) {
        struct term half[16];
        uint32_t bits;
        for (int i = 0; i < 16; ++i)
            half[i] = term[i / 2 * 4 + i % 2 + part];
        memcpy(&bits, &sum, 4);
        sum = fused_sum(bits, half, 16);
    }
    return sum + single_value(c);
}

// Whether the results `there` follow the rule; *worst: the largest distance of the results `here`, in
// units of the bound. Here each of k + 1 fused additions rounds by up to 2^-24 S, where S is the sum of
// magnitudes; there each of k terms and c is cut by up to 2^-25 S, twice if there are two steps, and
// each result by up to 2^-23 S.
static bool follows_rule(const struct piece *here, const struct piece *there,
                         const struct piece *inputs, double *worst)
{
    int k;
    const struct format *of[2];
    if (!parse_product(here->name, &k, of) || !inputs->words || inputs->count < 16 * 320 ||
        here->count != 16 * 128)
        return false;
    bool narrow = of[0]->bits == 8;
    int per = 32 / of[0]->bits;
    *worst = 0;
    for (int at = 0; at < 16 * 128; ++at) {
        const uint32_t *in = inputs->words + at / 128 * 320;
        int r = at / 32 % 4, lane = at % 32, row = lane / 4 + r / 2 * 8,
            column = lane % 4 * 2 + r % 2;
        uint32_t c = in[192 + at % 128];
        struct term term[32];
        double size = fabs((double)single_value(c));
        for (int i = 0; i < k; ++i) {
            // A's registers: rows 0 to 7, then 8 to 15, then the next 4 * `per` columns; B's: the
            // next 4 * `per` rows.
            int reg = i / (4 * per), word = i % (4 * per) / per, shift = i % per * of[0]->bits;
            uint32_t mask = of[0]->bits == 32 ? ~0u : (1u << of[0]->bits) - 1;
            struct term a =
                decode(in[(2 * reg + row / 8) * 32 + row % 8 * 4 + word] >> shift & mask, of[0]);
            struct term b = decode(in[128 + reg * 32 + column * 4 + word] >> shift & mask, of[1]);
            term[i] = (struct term){a.value * b.value, a.exponent + b.exponent, a.top + b.top};
            size += fabs(ldexp((double)term[i].value, term[i].exponent));
        }
        float expected = machine_sum(c, term, k, narrow);
        if (memcmp(&expected, &there->words[at], 4)) {
            printf("%s: word %d is not what the rule gives\n", here->name, at);
            return false;
        }
        double bound = size * ldexp((k + 1) + 0.5 * (k + 2) + (narrow ? 5 : 2), -24);
        double apart = fabs((double)single_value(here->words[at]) - (double)expected) / bound;
        if (!(apart <= *worst))
            *worst = apart;
    }
    return true;
}

// ---- Programs that ptxas changes ----------------------------------------------------------------

// Why the machine code of a random program does something else than its PTX; NULL: it is not known
// to. Each program was traced on an H200, instruction by instruction, to the first result that
// differs.
static const char *changed_by_ptxas(const char *name)
{
    static const char guard[] =
        "ptxas converts the result of a set or testp under a guard that is false";
    static const char shift[] =
        "ptxas leaves out a 64-bit shift by a count from a float instruction";
    static const char same[] = "ptxas takes max(x, x) for x: the payload of a NaN stays";
    static const char twice[] = "ptxas leaves out a .sat whose operand is the result of another";
    static const struct {
        int program;
        const char *why;
    } known[] = {{2, twice},  {7, guard},  {9, shift},  {23, guard}, {29, guard},
                 {30, guard}, {32, shift}, {33, guard}, {34, same},  {36, guard},
                 {39, guard}, {43, guard}, {46, guard}};
    int number;
    if (sscanf(name, "program %d", &number) != 1)
        return NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i)
        if (known[i].program == number)
            return known[i].why;
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: compare HERE THERE | compare record FILE\n");
        return 2;
    }
    struct pieces there = read_pieces(argv[2]);
    if (!strcmp(argv[1], "record")) {
        record(&there);
        return 0;
    }
    struct pieces here = read_pieces(argv[1]);
    size_t equal = 0, within = 0, changed = 0, bad = 0;
    if (here.count != there.count)
        fail("has other cases", argv[2]);
    for (size_t i = 0; i < here.count; ++i) {
        const struct piece *a = &here.piece[i], *b = &there.piece[i];
        if (strcmp(a->name, b->name) || a->count != b->count)
            fail("has other cases", argv[2]);
        struct bound bound = bound_of(a->name);
        if (bound.kind == SUM && a->words && b->words && i + 1 < here.count) {
            double worst;
            bool good = follows_rule(a, b, &here.piece[i + 1], &worst) && worst <= 1;
            printf("%s: %s, %.2g of the bound apart\n", a->name,
                   good ? "follows the rule" : "WRONG", good ? worst : NAN);
            good ? within++ : bad++;
            continue;
        }
        if (a->hash == b->hash) {
            equal++;
            continue;
        }
        if (changed_by_ptxas(a->name)) {
            printf("%s: %s\n", a->name, changed_by_ptxas(a->name));
            changed++;
            continue;
        }
        if (bound.kind == SAME || !a->words || !b->words) {
            printf("%s: differs\n", a->name);
            bad++;
            continue;
        }
        double limit = bound.limit;
        double worst = difference(a, b, bound, &here.piece[0]);
        bool good = worst <= limit;
        printf("%s: %s by %.3g%s, bound %.3g\n", a->name, good ? "differs" : "TOO FAR", worst,
               bound.kind == ANGLE ? "" : " units in the last place", limit);
        good ? within++ : bad++;
    }
    printf("%zu cases: %zu bit for bit, %zu within their bounds, %zu changed by ptxas, %zu wrong\n",
           here.count, equal, within, changed, bad);
    return bad != 0;
}
