// The device's math library, as nvcc compiles it, against the host's in long double. The bounds are
// those of the CUDA C++ Programming Guide, 17.1 "Standard Functions", tables 17 (float) and 18
// (double): for each function the greatest distance, in units of the last place, from the result
// rounded to nearest even. lgamma is tested only to the right of its poles, where its bound is
// valid. Functions that the tables do not list are exact by definition (fmax, fmin, copysign), or
// of a half format: for half formats we chose a bound of one unit. The same executable passes on a
// GPU.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include <cmocka.h>
}

#define assert_ok(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")

// ---- Distances ----------------------------------------------------------------------------------

static const int FRACTION_BITS[] = {52, 23, 10, 7}; // double, float, half, bfloat16

// Bits of a float format as an integer that counts its values in order; -0 is 0.
static int64_t ordered(double, double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? INT64_MIN - bits : bits;
}

static int64_t ordered(float, float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

template <typename T> static int64_t ordered_16(T x)
{
    int16_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? (int64_t)INT16_MIN - bits : bits;
}

static int64_t ordered(__half, __half x)
{
    return ordered_16(x);
}

static int64_t ordered(__nv_bfloat16, __nv_bfloat16 x)
{
    return ordered_16(x);
}

// Rounds to nearest even, to a format with `bits` fraction bits and the least exponent `least`.
static long double rounded(long double x, int bits, int least)
{
    int exponent;
    if (x == 0 || !isfinite(x))
        return x;
    frexpl(x, &exponent);
    int unit = (exponent - 1 < least ? least : exponent - 1) - bits;
    return ldexpl(rintl(ldexpl(x, -unit)), unit);
}

template <typename T> static T nearest(long double x);
template <> double nearest(long double x)
{
    return (double)x;
}
template <> float nearest(long double x)
{
    return (float)x;
}
template <> __half nearest(long double x) // rounded() first: float holds it exactly
{
    return __float2half_rn((float)rounded(x, FRACTION_BITS[2], -14));
}
template <> __nv_bfloat16 nearest(long double x)
{
    return __float2bfloat16_rn((float)rounded(x, FRACTION_BITS[3], -126));
}

static long double widen(double x)
{
    return x;
}
static long double widen(float x)
{
    return x;
}
static long double widen(__half x)
{
    return __half2float(x);
}
static long double widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

// ---- Arguments ----------------------------------------------------------------------------------

enum { COUNT = 6144 };

static uint64_t random_bits()
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * UINT64_C(2685821657736338717);
}

// Fills in arguments: if `any` is true, first special numbers (edges), and then a third of the rest
// has arbitrary bits. If low <= 0 < high, a third has random exponents in this interval. All others
// are spread evenly over [low, high].
template <typename T> static void fill(T *x, double low, double high, bool any)
{
    static const double edges[] = {
        0.0,     -0.0,     INFINITY, -INFINITY, NAN,     1,       -1,       0.5,    2,
        FLT_MIN, -FLT_MIN, FLT_MAX,  -FLT_MAX,  DBL_MIN, DBL_MAX, 1e-45,    -1e-45, 5e-324,
        10,      100,      0.999999, 1.000001,  1e-8,    -1e-8,   3.141593, 1.5708, -2.5};
    const int edge_count = sizeof edges / sizeof *edges;
    for (int i = 0; i < COUNT; ++i) {
        double unit = (double)(random_bits() >> 11) * 0x1p-53;
        uint64_t bits = random_bits();
        if (any && i < edge_count) {
            x[i] = (T)edges[i];
        } else if (any && i % 3 == 0) {
            memcpy(&x[i], &bits, sizeof x[i]);
        } else if (i % 3 == 1 && low <= 0 && high > 0) {
            double small = ldexp(1 + unit, -(int)(bits % 40)) * high / 2;
            x[i] = (T)(bits >> 63 && low < 0 ? -small * (low / -high) : small);
        } else {
            x[i] = (T)(low + unit * (high - low));
        }
    }
}

// ---- Comparison ---------------------------------------------------------------------------------

// Counts results that are more than `bound` units in the last place off; prints the worst.
template <typename T>
static int far_off(const char *name, const T *got, const T *expected, const T *x, const T *y,
                   int count, int64_t bound)
{
    int bad = 0, at = -1;
    int64_t worst = -1;
    for (int i = 0; i < count; ++i) {
        bool nan = isnan((double)widen(expected[i])), nan_got = isnan((double)widen(got[i]));
        int64_t distance = nan != nan_got ? INT64_MAX
                           : nan          ? 0
                                          : llabs(ordered(T(), got[i]) - ordered(T(), expected[i]));
        bad += distance > bound;
        if (distance > worst) {
            worst = distance;
            at = i;
        }
    }
    if (worst > bound)
        print_message("%s(%.17Lg%s%.17Lg) is %.17Lg, not %.17Lg: %lld ulp where %lld are allowed\n",
                      name, widen(x[at]), y ? ", " : "", y ? widen(y[at]) : 0.0L, widen(got[at]),
                      widen(expected[at]), (long long)worst, (long long)bound);
    return bad;
}

template <typename T> using unary = void (*)(const T *, const T *, T *, int);

// Compares the kernel's results with the reference's; returns how many are too far off. y: NULL for
// a function of one argument.
template <typename T, typename F>
static int compare(const char *name, unary<T> kernel, F reference, const T *x, const T *y,
                   int count, int64_t bound)
{
    T *device, *got = (T *)malloc(count * sizeof(T)), *expected = (T *)malloc(count * sizeof(T));
    assert_ok(cudaMalloc((void **)&device, 3 * count * sizeof(T)));
    assert_ok(cudaMemcpy(device, x, count * sizeof(T), cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpy(device + count, y ? y : x, count * sizeof(T), cudaMemcpyHostToDevice));
    kernel<<<(count + 255) / 256, 256>>>(device, device + count, device + 2 * count, count);
    assert_ok(cudaGetLastError());
    assert_ok(cudaMemcpy(got, device + 2 * count, count * sizeof(T), cudaMemcpyDeviceToHost));
    assert_ok(cudaFree(device));
    for (int i = 0; i < count; ++i)
        expected[i] = nearest<T>(reference(widen(x[i]), widen(y ? y[i] : x[i])));
    int bad = far_off(name, got, expected, x, y, count, bound);
    free(got);
    free(expected);
    return bad;
}

// ---- References that libm lacks -----------------------------------------------------------------

static const long double PI = 3.14159265358979323846264338327950288L;

static long double sin_pi(long double x)
{
    if (!isfinite(x))
        return NAN;
    long double r = fmodl(x, 2); // exact, as the next two lines are
    r = r > 1 ? r - 2 : r < -1 ? r + 2 : r;
    r = r > 0.5L ? 1 - r : r < -0.5L ? -1 - r : r;
    return sinl(PI * r);
}

static long double cos_pi(long double x)
{
    if (!isfinite(x))
        return NAN;
    long double r = fabsl(fmodl(x, 2));
    r = r > 1 ? 2 - r : r;
    return r > 0.75L ? -cosl(PI * (1 - r)) : r < 0.25L ? cosl(PI * r) : sinl(PI * (0.5L - r));
}

static long double normal_cdf(long double x)
{
    return 0.5L * erfcl(-x * sqrtl(0.5L));
}

// The root of f(z) = p for an increasing f, by bisection.
template <typename F>
static long double invert(F f, long double p, long double low, long double high)
{
    for (int i = 0; i < 200 && low < high; ++i) {
        long double middle = low + (high - low) / 2;
        if (middle == low || middle == high)
            break;
        (f(middle) < p ? low : high) = middle;
    }
    return fabsl(f(low) - p) < fabsl(f(high) - p) ? low : high;
}

static long double inverse_erf(long double p)
{
    if (!(fabsl(p) <= 1))
        return NAN;
    if (fabsl(p) == 1)
        return p * INFINITY;
    // Near 1 by erfc, which is accurate there.
    long double z = fabsl(p) < 0.5L ? invert(erfl, fabsl(p), 0.0L, 1.0L)
                                    : invert([](long double v) { return -erfcl(v); }, fabsl(p) - 1,
                                             0.2L, 30.0L);
    return copysignl(z, p);
}

static long double inverse_erfc(long double p)
{
    if (!(p >= 0 && p <= 2))
        return NAN;
    if (p == 0 || p == 2)
        return p ? -INFINITY : INFINITY;
    return p > 0.5L ? inverse_erf(1 - p)
                    : invert([](long double v) { return -erfcl(v); }, -p, 0.2L, 120.0L);
}

static long double scaled_erfc(long double x)
{
    return expl(x * x) * erfcl(x);
}

// ---- Kernels ------------------------------------------------------------------------------------

// A row: the call, its reference, least and greatest argument, whether arguments outside of these
// are tested, too, and the bound in units of the last place.
#define ONE_FLOAT(F)                                                                               \
    F(sinf(x), sinl(x), -100, 100, true, 2)                                                        \
    F(cosf(x), cosl(x), -100, 100, true, 2)                                                        \
    F(tanf(x), tanl(x), -100, 100, true, 4)                                                        \
    F(sinpif(x), sin_pi(x), -10, 10, true, 1)                                                      \
    F(cospif(x), cos_pi(x), -10, 10, true, 1)                                                      \
    F(asinf(x), asinl(x), -1, 1, true, 2)                                                          \
    F(acosf(x), acosl(x), -1, 1, true, 2)                                                          \
    F(atanf(x), atanl(x), -10, 10, true, 2)                                                        \
    F(sinhf(x), sinhl(x), -90, 90, true, 3)                                                        \
    F(coshf(x), coshl(x), -90, 90, true, 2)                                                        \
    F(tanhf(x), tanhl(x), -10, 10, true, 2)                                                        \
    F(asinhf(x), asinhl(x), -10, 10, true, 3)                                                      \
    F(acoshf(x), acoshl(x), 1, 10, true, 4)                                                        \
    F(atanhf(x), atanhl(x), -1, 1, true, 3)                                                        \
    F(expf(x), expl(x), -104, 89, true, 2)                                                         \
    F(exp2f(x), exp2l(x), -150, 128, true, 2)                                                      \
    F(exp10f(x), exp10l(x), -46, 39, true, 2)                                                      \
    F(expm1f(x), expm1l(x), -20, 89, true, 1)                                                      \
    F(logf(x), logl(x), 0, 10, true, 1)                                                            \
    F(log2f(x), log2l(x), 0, 10, true, 1)                                                          \
    F(log10f(x), log10l(x), 0, 10, true, 2)                                                        \
    F(log1pf(x), log1pl(x), -1, 10, true, 1)                                                       \
    F(sqrtf(x), sqrtl(x), 0, 10, true, 0)                                                          \
    F(rsqrtf(x), 1 / sqrtl(x), 0, 10, true, 2)                                                     \
    F(cbrtf(x), cbrtl(x), -10, 10, true, 1)                                                        \
    F(rcbrtf(x), 1 / cbrtl(x), -10, 10, true, 1)                                                   \
    F(erff(x), erfl(x), -5, 5, true, 2)                                                            \
    F(erfcf(x), erfcl(x), -5, 11, true, 4)                                                         \
    F(erfinvf(x), inverse_erf(x), -1, 1, false, 2)                                                 \
    F(erfcinvf(x), inverse_erfc(x), 0, 2, false, 4)                                                \
    F(erfcxf(x), scaled_erfc(x), -9, 60, false, 4)                                                 \
    F(normcdff(x), normal_cdf(x), -14, 10, true, 5)                                                \
    F(tgammaf(x), tgammal(x), -30, 35, false, 5)                                                   \
    F(lgammaf(x), lgammal(x), 0, 100, false, 6)                                                    \
    F(1 / x, 1 / x, -10, 10, true, 0)                                                              \
    F(floorf(x), floorl(x), -10, 10, true, 0)                                                      \
    F(ceilf(x), ceill(x), -10, 10, true, 0)                                                        \
    F(truncf(x), truncl(x), -10, 10, true, 0)                                                      \
    F(roundf(x), roundl(x), -10, 10, true, 0)                                                      \
    F(rintf(x), rintl(x), -10, 10, true, 0)                                                        \
    F(logbf(x), logbl(x), -10, 10, true, 0)

// The reference for correctly rounded functions is the host's double function, since a long double
// would be rounded twice.
#define ONE_DOUBLE(F)                                                                              \
    F(sin(x), sinl(x), -100, 100, true, 2)                                                         \
    F(cos(x), cosl(x), -100, 100, true, 2)                                                         \
    F(tan(x), tanl(x), -100, 100, true, 2)                                                         \
    F(sinpi(x), sin_pi(x), -10, 10, true, 2)                                                       \
    F(cospi(x), cos_pi(x), -10, 10, true, 2)                                                       \
    F(asin(x), asinl(x), -1, 1, true, 2)                                                           \
    F(acos(x), acosl(x), -1, 1, true, 2)                                                           \
    F(atan(x), atanl(x), -10, 10, true, 2)                                                         \
    F(sinh(x), sinhl(x), -700, 700, true, 2)                                                       \
    F(cosh(x), coshl(x), -700, 700, true, 1)                                                       \
    F(tanh(x), tanhl(x), -20, 20, true, 1)                                                         \
    F(asinh(x), asinhl(x), -10, 10, true, 3)                                                       \
    F(acosh(x), acoshl(x), 1, 10, true, 3)                                                         \
    F(atanh(x), atanhl(x), -1, 1, true, 2)                                                         \
    F(exp(x), expl(x), -746, 710, true, 1)                                                         \
    F(exp2(x), exp2l(x), -1075, 1024, true, 1)                                                     \
    F(exp10(x), exp10l(x), -324, 309, true, 1)                                                     \
    F(expm1(x), expm1l(x), -40, 710, true, 1)                                                      \
    F(log(x), logl(x), 0, 10, true, 1)                                                             \
    F(log2(x), log2l(x), 0, 10, true, 1)                                                           \
    F(log10(x), log10l(x), 0, 10, true, 1)                                                         \
    F(log1p(x), log1pl(x), -1, 10, true, 1)                                                        \
    F(sqrt(x), sqrt((double)x), 0, 10, true, 0)                                                    \
    F(rsqrt(x), 1 / sqrtl(x), 0, 10, true, 1)                                                      \
    F(cbrt(x), cbrtl(x), -10, 10, true, 1)                                                         \
    F(rcbrt(x), 1 / cbrtl(x), -10, 10, true, 1)                                                    \
    F(erf(x), erfl(x), -6, 6, true, 2)                                                             \
    F(erfc(x), erfcl(x), -6, 27, true, 5)                                                          \
    F(normcdf(x), normal_cdf(x), -37, 10, false, 5)                                                \
    F(tgamma(x), tgammal(x), -20, 170, false, 10)                                                  \
    F(lgamma(x), lgammal(x), 0, 100, false, 4)                                                     \
    F(1 / x, 1 / (double)x, -10, 10, true, 0)                                                      \
    F(floor(x), floorl(x), -10, 10, true, 0)                                                       \
    F(ceil(x), ceill(x), -10, 10, true, 0)                                                         \
    F(round(x), roundl(x), -10, 10, true, 0)                                                       \
    F(rint(x), rintl(x), -10, 10, true, 0)

#define TWO_FLOATS(F)                                                                              \
    F(powf(x, y), powl(x, y), -10, 10, true, 4)                                                    \
    F(atan2f(x, y), atan2l(x, y), -10, 10, true, 3)                                                \
    F(fmodf(x, y), fmodl(x, y), -10, 10, true, 0)                                                  \
    F(remainderf(x, y), remainderl(x, y), -10, 10, true, 0)                                        \
    F(hypotf(x, y), hypotl(x, y), -10, 10, true, 3)                                                \
    F(rhypotf(x, y), 1 / hypotl(x, y), -10, 10, true, 2)                                           \
    F(fdimf(x, y), fdiml(x, y), -10, 10, true, 0)                                                  \
    F(fmaxf(x, y), fmaxl(x, y), -10, 10, true, 0)                                                  \
    F(fminf(x, y), fminl(x, y), -10, 10, true, 0)                                                  \
    F(copysignf(x, y), copysignl(x, y), -10, 10, true, 0)                                          \
    F(fmaf(x, x, y), fmal(x, x, y), -10, 10, false, 0)                                             \
    F(ldexpf(x, (int)fminf(fabsf(y), 300)), ldexpl(x, (int)(fabsl(y) < 300 ? fabsl(y) : 300)),     \
      -10, 10, true, 0)                                                                            \
    F(x / y, x / y, -10, 10, true, 0)

#define TWO_DOUBLES(F)                                                                             \
    F(pow(x, y), powl(x, y), -10, 10, true, 2)                                                     \
    F(atan2(x, y), atan2l(x, y), -10, 10, true, 2)                                                 \
    F(fmod(x, y), fmodl(x, y), -10, 10, true, 0)                                                   \
    F(remainder(x, y), remainderl(x, y), -10, 10, true, 0)                                         \
    F(hypot(x, y), hypotl(x, y), -10, 10, true, 2)                                                 \
    F(fdim(x, y), fdiml(x, y), -10, 10, true, 0)                                                   \
    F(x / y, (double)x / (double)y, -10, 10, true, 0)

// Tested at every value of the format. The bound: 0 for the correctly rounded result, 1 for its
// neighbours, too.
#define ONE_HALF(F)                                                                                \
    F(hexp(x), expl(x), 1)                                                                         \
    F(hexp2(x), exp2l(x), 1)                                                                       \
    F(hexp10(x), exp10l(x), 1)                                                                     \
    F(hlog(x), logl(x), 1)                                                                         \
    F(hlog2(x), log2l(x), 1)                                                                       \
    F(hlog10(x), log10l(x), 1)                                                                     \
    F(hsin(x), sinl(x), 1)                                                                         \
    F(hcos(x), cosl(x), 1)                                                                         \
    F(htanh(x), tanhl(x), 1)                                                                       \
    F(hsqrt(x), sqrtl(x), 0)                                                                       \
    F(hrsqrt(x), 1 / sqrtl(x), 1)                                                                  \
    F(hrcp(x), 1 / x, 1)                                                                           \
    F(hfloor(x), floorl(x), 0)                                                                     \
    F(hrint(x), rintl(x), 0)

#define TABLE(prefix, T, list, KERNEL)                                                             \
    namespace prefix                                                                               \
    {                                                                                              \
    template <int N> __global__ void kernel(const T *, const T *, T *, int);                       \
    enum { FIRST = __COUNTER__ + 1 };                                                              \
    list(KERNEL)                                                                                   \
    }

// A kernel for a row of the tables above; its number is the row's.
#define KERNEL(T, N, code)                                                                         \
    template <> __global__ void kernel<N>(const T *xs, const T *ys, T *out, int n)                 \
    {                                                                                              \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                             \
        if (i < n) {                                                                               \
            [[maybe_unused]] T x = xs[i], y = ys[i];                                               \
            out[i] = code;                                                                         \
        }                                                                                          \
    }
#define KERNEL_FLOAT(code, ...) KERNEL(float, __COUNTER__, code)
#define KERNEL_DOUBLE(code, ...) KERNEL(double, __COUNTER__, code)
#define KERNEL_HALF(code, ...) KERNEL(__half, __COUNTER__, code)
#define KERNEL_BF16(code, ...) KERNEL(__nv_bfloat16, __COUNTER__, code)

TABLE(one_float, float, ONE_FLOAT, KERNEL_FLOAT)
TABLE(one_double, double, ONE_DOUBLE, KERNEL_DOUBLE)
TABLE(two_floats, float, TWO_FLOATS, KERNEL_FLOAT)
TABLE(two_doubles, double, TWO_DOUBLES, KERNEL_DOUBLE)
TABLE(one_half, __half, ONE_HALF, KERNEL_HALF)
TABLE(one_bf16, __nv_bfloat16, ONE_HALF, KERNEL_BF16)

// ---- Tests --------------------------------------------------------------------------------------

// The rows again, with the references.
#define ROW(space, T, code, reference, low, high, any, ulps)                                       \
    {                                                                                              \
        fill(x, low, high, any);                                                                   \
        fill(y, low, high, any);                                                                   \
        bad += compare<T>(                                                                         \
            #code, space::kernel<space::FIRST + __COUNTER__ - base>,                               \
            [](long double x, long double y) -> long double {                                      \
                (void)y;                                                                           \
                return reference;                                                                  \
            },                                                                                     \
            x, two ? y : nullptr, COUNT, ulps);                                                    \
    }
#define ROWS(space, T, list, row, pair)                                                            \
    static void test_##space(void **)                                                              \
    {                                                                                              \
        static T x[COUNT], y[COUNT];                                                               \
        constexpr bool two = pair;                                                                 \
        int bad = 0;                                                                               \
        constexpr int base = __COUNTER__ + 1;                                                      \
        list(row) assert_int_equal(bad, 0);                                                        \
    }
#define ROW_FLOAT(...) ROW(one_float, float, __VA_ARGS__)
#define ROW_DOUBLE(...) ROW(one_double, double, __VA_ARGS__)
#define ROW_FLOATS(...) ROW(two_floats, float, __VA_ARGS__)
#define ROW_DOUBLES(...) ROW(two_doubles, double, __VA_ARGS__)
ROWS(one_float, float, ONE_FLOAT, ROW_FLOAT, false)
ROWS(one_double, double, ONE_DOUBLE, ROW_DOUBLE, false)
ROWS(two_floats, float, TWO_FLOATS, ROW_FLOATS, true)
ROWS(two_doubles, double, TWO_DOUBLES, ROW_DOUBLES, true)

#define ALL_16(space, T, code, reference, ulps)                                                    \
    bad += compare<T>(                                                                             \
        #code, space::kernel<space::FIRST + __COUNTER__ - base>,                                   \
        [](long double x, long double) -> long double { return reference; }, x, nullptr, 65536,    \
        ulps);
#define VALUES_16(space, T, row)                                                                   \
    static void test_##space(void **)                                                              \
    {                                                                                              \
        static T x[65536];                                                                         \
        for (uint32_t i = 0; i < 65536; ++i)                                                       \
            memcpy(&x[i], &i, 2);                                                                  \
        int bad = 0;                                                                               \
        constexpr int base = __COUNTER__ + 1;                                                      \
        ONE_HALF(row)                                                                              \
        assert_int_equal(bad, 0);                                                                  \
    }
#define ROW_HALF(code, reference, ulps) ALL_16(one_half, __half, code, reference, ulps)
#define ROW_BF16(code, reference, ulps) ALL_16(one_bf16, __nv_bfloat16, code, reference, ulps)
VALUES_16(one_half, __half, ROW_HALF)
VALUES_16(one_bf16, __nv_bfloat16, ROW_BF16)

// Calls frexp, modf, remquo, sincos, and functions from floats to integers.
__global__ void parts(const float *xs, float *out, int *numbers, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = xs[i];
    out[6 * i] = frexpf(x, &numbers[4 * i]);
    out[6 * i + 1] = modff(x, &out[6 * i + 2]);
    out[6 * i + 3] = remquof(x, 0.75f, &numbers[4 * i + 1]);
    sincosf(x, &out[6 * i + 4], &out[6 * i + 5]);
    numbers[4 * i + 2] = ilogbf(x);
    numbers[4 * i + 3] = (int)llrintf(x);
}

static void test_functions_of_several_results(void **)
{
    enum { N = 1024 };
    static float x[N], out[6 * N];
    static int numbers[4 * N];
    float *device_x, *device_out;
    int *device_numbers;
    for (int i = 0; i < N; ++i)
        x[i] = ldexpf((float)((int64_t)random_bits() >> 40), i % 24 - 30);
    assert_ok(cudaMalloc(&device_x, sizeof x));
    assert_ok(cudaMalloc(&device_out, sizeof out));
    assert_ok(cudaMalloc(&device_numbers, sizeof numbers));
    assert_ok(cudaMemcpy(device_x, x, sizeof x, cudaMemcpyHostToDevice));
    parts<<<N / 128, 128>>>(device_x, device_out, device_numbers, N);
    assert_ok(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost));
    assert_ok(cudaMemcpy(numbers, device_numbers, sizeof numbers, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; ++i) {
        int exponent, quotient;
        float whole, fraction = frexpf(x[i], &exponent), rest = modff(x[i], &whole);
        float left = remquof(x[i], 0.75f, &quotient);
        assert_true(out[6 * i] == fraction && numbers[4 * i] == exponent);
        assert_true(out[6 * i + 1] == rest && out[6 * i + 2] == whole);
        assert_true(out[6 * i + 3] == left);
        assert_int_equal(numbers[4 * i + 1] & 7, quotient & 7); // three bits are promised
        assert_true(llabs(ordered(0.f, out[6 * i + 4]) - ordered(0.f, (float)sinl(x[i]))) <= 2);
        assert_true(llabs(ordered(0.f, out[6 * i + 5]) - ordered(0.f, (float)cosl(x[i]))) <= 2);
        assert_int_equal(numbers[4 * i + 2], x[i] == 0 ? INT32_MIN : ilogbf(x[i]));
        assert_int_equal(numbers[4 * i + 3], (int)llrintf(x[i]));
    }
    assert_ok(cudaFree(device_x));
    assert_ok(cudaFree(device_out));
    assert_ok(cudaFree(device_numbers));
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(test_one_float),
        cmocka_unit_test(test_one_double),
        cmocka_unit_test(test_two_floats),
        cmocka_unit_test(test_two_doubles),
        cmocka_unit_test(test_one_half),
        cmocka_unit_test(test_one_bf16),
        cmocka_unit_test(test_functions_of_several_results),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
