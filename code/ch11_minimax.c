// Tangled from chapters/11-fast-exp.md; edit that, then `make tangle`.

// ch11_minimax.c: cubics for 2^f, computed by the Remez exchange and proved.
//
//   build/ch11_minimax                prints the coefficients, then checks them
//   build/ch11_minimax --record FILE  also writes the numbers that the book
//                                     quotes, as a run record (JSON)
//
// Exit status: 0 all checks passed, 1 a check failed, 2 bad usage, 3 the
// machine failed (no memory, FILE not writable).

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "workbench/workbench.h"

static void give_up(const char *why)
{
    fprintf(stderr, "ch11_minimax: %s\n", why);
    exit(3);
}

// ---- Solve a few linear equations ----
enum { MOST = 5 }; // four coefficients and the error

// Gaussian elimination with pivots: a holds n equations, the right side last.
static void solve(int n, double a[MOST][MOST + 1], double x[MOST])
{
    for (int k = 0; k < n; ++k) {
        int pivot = k;
        for (int i = k + 1; i < n; ++i)
            pivot = fabs(a[i][k]) > fabs(a[pivot][k]) ? i : pivot;
        for (int j = 0; j <= n; ++j) {
            double swap = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = swap;
        }
        for (int i = k + 1; i < n; ++i)
            for (int j = n; j >= k; --j)
                a[i][j] -= a[i][k] / a[k][k] * a[k][j];
    }
    for (int k = n - 1; k >= 0; --k) {
        x[k] = a[k][n];
        for (int j = k + 1; j < n; ++j)
            x[k] -= a[k][j] * x[j];
        x[k] /= a[k][k];
    }
}

// ---- A cubic and its error ----
struct cubic {
    double c[4];
    bool through_one;  // p(0) = 1 is required
    double error;      // the error's size, the same at all peaks
    double peak[MOST]; // where the peaks are, from left to right
};

static double error_at(const struct cubic *p, double f)
{
    const double *c = p->c;
    return (c[0] + f * (c[1] + f * (c[2] + f * c[3]))) / exp2(f) - 1;
}

// A factor, 1 or -1, that makes the error's signs alternate from peak to peak.
// With p(0) = 1 the signs of error / f alternate: the factor is the sign of f.
static double side(const struct cubic *p, double f)
{
    return p->through_one && f < 0 ? -1 : 1;
}

// ---- Make the errors at the peaks equal ----
static int unknowns(const struct cubic *p)
{
    return p->through_one ? 4 : 5; // coefficients to find, and the error
}

static void fit(struct cubic *p)
{
    double a[MOST][MOST + 1], x[MOST];
    int n = unknowns(p), first = p->through_one; // finds c[first] to c[3]

    for (int i = 0; i < n; ++i) {
        double f = p->peak[i];
        for (int j = first; j < 4; ++j)
            a[i][j - first] = pow(f, j) / exp2(f);
        a[i][n - 1] = (i % 2 ? 1 : -1) * side(p, f);
        a[i][n] = 1 - first / exp2(f); // minus the fixed coefficient's part
    }
    solve(n, a, x);
    p->c[0] = 1;
    for (int j = first; j < 4; ++j)
        p->c[j] = x[j - first];
    p->error = fabs(x[n - 1]);
}

// ---- Find where the error peaks ----
enum { GRID = 200000 };

static void move_peaks(struct cubic *p)
{
    int found = 0;
    double last = 0, highest = 0;

    for (int i = 0; i < GRID; ++i) {
        double f = -0.5 + (double)i / (GRID - 1);
        double e = error_at(p, f) * side(p, f);
        if (i == 0 || e * last < 0) {
            if (found == unknowns(p))
                give_up("more peaks than equations");
            ++found;
            highest = 0;
        }
        if (fabs(e) > highest) {
            highest = fabs(e);
            p->peak[found - 1] = f;
        }
        last = e;
    }
    if (found < unknowns(p))
        give_up("fewer peaks than equations");
}

// ---- Exchange points until none moves ----
static struct cubic best_cubic(bool through_one)
{
    struct cubic p = {.through_one = through_one};
    double before[MOST];
    int n = unknowns(&p);

    for (int i = 0; i < n; ++i) // from the peaks of a Chebyshev polynomial
        p.peak[i] = -0.5 * cos(i * acos(-1) / (n - 1));
    for (int round = 0; round < 100; ++round) {
        memcpy(before, p.peak, sizeof before);
        fit(&p);
        move_peaks(&p);
        if (memcmp(before, p.peak, sizeof before) == 0)
            return p;
    }
    give_up("the exchange does not come to rest");
    return p;
}

// ---- Compute the exponential as the kernel does ----
static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static const float coefficient[4] = {1, 0.69328293f, 0.24221101f,
                                     0.0550089512f};

static float exponential(float x)
{
    const float log2_e = 1.44269504f, magic = 12582912;
    float held = fmaxf(x, -87.0f);
    float shifted = fmaf(held, log2_e, magic);
    float f = fmaf(held, log2_e, magic - shifted);
    float p = coefficient[3];
    for (int i = 2; i >= 0; --i)
        p = fmaf(p, f, coefficient[i]);
    return from_bits(bits_of(p) + (bits_of(shifted) << 23));
}

// ---- The Taylor polynomial of degree 5 ----
static double taylor(double x)
{
    double sum = 1, term = 1;

    for (int k = 1; k <= 5; ++k)
        sum += term *= x / k;
    return sum;
}

// If e^0 is computed as c, each tile without a new maximum multiplies by c what
// was summed up before. Returns the standard deviation of the weights that
// equal tiles get, divided by their mean.
static double drift(double c, int tiles)
{
    double sum = 0, squares = 0, factor = 1;

    for (int t = 0; t < tiles; ++t) {
        sum += factor;
        squares += factor * factor;
        factor *= c;
    }
    return sqrt(fmax(0, tiles * squares / (sum * sum) - 1));
}

// ---- Report a check ----
static int failures;

__attribute__((format(printf, 3, 4)))
static void check(bool ok, const char *name, const char *format, ...)
{
    va_list args;

    printf("  %s  %-11s", ok ? "pass" : "FAIL", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    failures += !ok;
}

// ---- Check the two cubics ----
static void check_cubic(const char *name, const struct cubic *p)
{
    double unequal = 0;

    for (int i = 0; i < unknowns(p); ++i) {
        double e = fabs(error_at(p, p->peak[i]));
        unequal = fmax(unequal, fabs(e / p->error - 1));
    }
    check(unequal < 1e-6, name, "%d peaks of %.4e, equal to %.0e",
          unknowns(p), p->error, unequal);
}

static void check_cubics(const struct cubic *one, const struct cubic *best)
{
    struct cubic kernel = *one;

    check_cubic("through-1", one);
    check_cubic("free", best);
    for (int i = 0; i < 4; ++i)
        kernel.c[i] = coefficient[i];
    move_peaks(&kernel);
    double worst = 0;
    for (int i = 0; i < unknowns(&kernel); ++i)
        worst = fmax(worst, fabs(error_at(&kernel, kernel.peak[i])));
    check(worst < 1.001 * one->error, "rounded",
          "the kernel's coefficients err by %.4e at most", worst);
    check(drift(best->c[0], 16) < 1e-3 && drift(best->c[0], 128) > 2e-3,
          "drift", "16 tiles tilt by %.1e, 128 by %.1e",
          drift(best->c[0], 16), drift(best->c[0], 128));
}

// ---- Check every float of the range ----
enum { FIRST = 0x37800000, LAST = 0x42ae0000 }; // 2^-16 and 87 as bits

static double check_floats(void)
{
    double worst = 0;
    float at = 0;

    for (uint32_t bits = FIRST; bits <= LAST; ++bits) {
        float x = -from_bits(bits);
        double e = fabs(exponential(x) / exp(x) - 1);
        if (!(e <= worst)) {
            worst = e;
            at = x;
        }
    }
    check(worst <= 1.1e-4, "floats", "%d floats: %.4e at most, at %.9g",
          LAST - FIRST + 1, worst, at);
    return worst;
}

// ---- Check the ends of the range ----
static void check_ends(void)
{
    int near = 0;

    for (uint32_t bits = 0; bits < FIRST; bits += 64) // x from -0 to -2^-16
        near += !(fabsf(exponential(-from_bits(bits)) - 1) < 2e-5f);
    check(exponential(0) == 1 && exponential(-0.0f) == 1, "one",
          "e^0 is 1 exactly");
    check(near == 0, "near-zero", "%d values near 0 err by 2e-5", near);
    check(exponential(-INFINITY) == exponential(-87) &&
              exponential(-1e30f) == exponential(-87),
          "floor", "below -87 it is %.3e", exponential(-87));
}

// ---- Write the numbers as a record ----
static void write_record(const char *path, const struct cubic *one,
                         const struct cubic *best, double worst)
{
    char date[32], why[512];
    time_t now = time(NULL);

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    json_t *record = json_pack(
        "{s:i, s:s, s:i, s:s, s:s, s:s, s:s, s:{s:f, s:f, s:f, s:f, s:f, "
        "s:f, s:f, s:f, s:f, s:f, s:f, s:f}}",
        "record", 1, "program", "ch11_minimax", "chapter", 11, "title",
        "A cubic for 2^f", "source_hash", SOURCE_HASH, "git_commit",
        GIT_COMMIT, "date", date, "numbers", "c1", one->c[1], "c2",
        one->c[2], "c3", one->c[3], "error", one->error, "worst", worst,
        "free_c0", best->c[0], "free_error", best->error, "taylor_at_10",
        taylor(-10), "drift_16", drift(best->c[0], 16), "drift_64",
        drift(best->c[0], 64), "drift_128", drift(best->c[0], 128),
        "drift_256", drift(best->c[0], 256));
    char *text = NULL;
    if (record)
        text = json_dumps(record, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (!text)
        give_up("out of memory");
    if (!file_write(path, text, strlen(text), why, sizeof why))
        give_up(why);
    free(text);
    json_decref(record);
}

// ---- Compute, check, record ----
int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("usage: ch11_minimax [--record FILE]\n"
               "Computes two cubics for 2^f, then checks the kernel's.\n");
        return 0;
    }
    if (argc > 1 && (argc != 3 || strcmp(argv[1], "--record") != 0)) {
        fprintf(stderr, "ch11_minimax: \"%s\": write --record FILE or --help\n",
                argv[1]);
        return 2;
    }
    struct cubic one = best_cubic(true), best = best_cubic(false);
    for (int i = 0; i < 4; ++i)
        printf("  c%d  %.9f with p(0) = 1, %.9f without\n", i, one.c[i],
               best.c[i]);
    printf("  the Taylor polynomial of degree 5 at -10: %.2f\n\nChecks\n\n",
           taylor(-10));
    check_cubics(&one, &best);
    check_ends();
    double worst = check_floats();
    if (argc == 3 && failures == 0)
        write_record(argv[2], &one, &best, worst);
    return failures > 0;
}
