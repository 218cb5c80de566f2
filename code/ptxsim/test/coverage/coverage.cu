// coverage.cu: runs every opcode, random programs and every matrix product on fixed inputs and
// writes the results; compare.c compares the simulator's with a GPU's.
//
//   coverage FILE
//
// FILE: lines "NAME<tab>COUNT", each followed by COUNT words of 32 bits, in binary.

// clang-format 14 would change the macros of this file again each time that it formats them.
// clang-format off
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <type_traits>
using namespace nvcuda;

#define CHECK(call) \
    do { \
        cudaError_t error_ = (call); \
        if (error_ != cudaSuccess) { \
            fprintf(stderr, "coverage: %s: %s: %s\n", current, #call, cudaGetErrorString(error_)); \
            exit(1); \
        } \
    } while (0)

static const char *current = "start";
static FILE *file;

struct scalar_case {
    const char *name;
    void (*kernel)(const uint64_t *, uint64_t *);
};
#include "opcodes.inc"

enum { INPUTS = 1024 };

static uint64_t seed = 88172645463325252ull;
static uint64_t next64()
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1dull;
}

static void write_words(const char *name, const void *words, size_t count)
{
    fprintf(file, "%s\t%zu\n", name, count);
    fwrite(words, 4, count, file);
}

// ---- Scalars ------------------------------------------------------------------------------------

// Special values of every width, halves of pairs included.
static uint64_t special(unsigned which)
{
    static const uint64_t values[] = {
        0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 255, 0x7f, 0x80,
        0x7fff, 0x8000, 0x8001, 0xffff, 0x0400, 0x03ff, 0x3c00, 0xbc00, 0x7bff, 0x7c00, 0xfc00,
        0x7e00, 0xfe01, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 0x7c017e00, 0x3c00bc00, 0x03ff0001,
        0x80000000, 0x80000001, 0x7fffffff, 0xffffffff, 0x007fffff, 0x00800000, 0x3f800000,
        0xbf800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001,
        0x43e00000, 0x43e80001, 0x47600000, 0x47800000, 0x33000000, 0x477ff000, 0x4f000000,
        0xcf000000, 0x4f800000, 0x3f7fffff, 0x3effffff, 0x40200000, 0xc0200000, 0x42000000,
        0x8000000000000000, 0x7fffffffffffffff, 0xffffffffffffffff, 0x000fffffffffffff,
        0x0010000000000000, 0x3ff0000000000000, 0xbff8000000000000, 0x7fefffffffffffff,
        0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000012345,
        0x41dfffffffc00000, 0xc1e0000000000000, 0x43e0000000000000, 0x3810000000000000,
        0x47efffffe0000000, 0x47effffff0000000, 0x3690000000000000, 0x40efffc000000000};
    return values[which % (sizeof values / sizeof values[0])];
}

static uint64_t input(int i, int operand)
{
    if (i < 256 && operand < 2) // the first 256 cases are pairs of special values
        return special(operand ? (unsigned)i * 7 : (unsigned)i / 3);
    uint64_t x = next64(), y = next64();
    switch (y % 8) {
    case 0: return special((unsigned)(y >> 8));
    case 1: return x % 70;
    case 2: { // a float of ordinary size
        float f = (float)((int64_t)(x % 2000001) - 1000000) / 1000.0f;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        return bits | x << 32;
    }
    case 3: {
        double f = (double)((int64_t)(x % 2000001) - 1000000) / 1000.0;
        uint64_t bits;
        memcpy(&bits, &f, 8);
        return bits;
    }
    case 4: return (x & 0x83ff83ff83ff83ff) | 0x3800380038003800; // halves around one
    default: return x;
    }
}

static void run_scalars()
{
    uint64_t *in, *out;
    static uint32_t low[2 * INPUTS];
    CHECK(cudaMallocManaged(&in, INPUTS * 32));
    CHECK(cudaMallocManaged(&out, INPUTS * 8));
    for (int i = 0; i < INPUTS; ++i)
        for (int k = 0; k < 4; ++k)
            in[4 * i + k] = input(i, k);
    write_words("inputs", in, INPUTS * 8);
    for (const scalar_case &c : scalar_cases) {
        current = c.name;
        memset(out, 0, INPUTS * 8);
        c.kernel<<<INPUTS / 128, 128>>>(in, out);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        bool wide = false;
        for (int i = 0; i < INPUTS; ++i)
            wide |= out[i] >> 32 != 0;
        for (int i = 0; i < INPUTS && !wide; ++i)
            low[i] = (uint32_t)out[i];
        write_words(c.name, wide ? (void *)out : (void *)low, wide ? 2 * INPUTS : INPUTS);
    }
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}

// ---- mma.sync -----------------------------------------------------------------------------------

// Inputs and outputs are the warp's registers: this tests layout and arithmetic at once.
#define MMA(name, opcode, na, nb, nc, nd) \
    __global__ void name(const uint32_t *in, uint32_t *out) \
    { \
        uint32_t a[4], b[2], c[4], d[4] = {0, 0, 0, 0}; \
        for (int i = 0; i < 4; ++i) { \
            a[i] = in[32 * i + threadIdx.x]; \
            b[i / 2] = in[128 + 32 * (i / 2) + threadIdx.x]; \
            c[i] = in[192 + 32 * i + threadIdx.x]; \
        } \
        asm volatile(opcode " " nd##_D "," na##_A "," nb##_B "," nc##_C ";" \
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), \
                       "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])); \
        for (int i = 0; i < 4; ++i) \
            out[32 * i + threadIdx.x] = d[i]; \
    }
#define two_D "{%0,%1}"
#define four_D "{%0,%1,%2,%3}"
#define one_A "{%4}"
#define two_A "{%4,%5}"
#define four_A "{%4,%5,%6,%7}"
#define one_B "{%8}"
#define two_B "{%8,%9}"
#define two_C "{%10,%11}"
#define four_C "{%10,%11,%12,%13}"
MMA(mma_f16_k8, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", two, one, four, four)
MMA(mma_f16_k16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", four, two, four, four)
MMA(mma_f16_k8_h, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", two, one, two, two)
MMA(mma_f16_k16_h, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", four, two, two, two)
MMA(mma_bf16_k8, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", two, one, four, four)
MMA(mma_bf16_k16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", four, two, four, four)
MMA(mma_tf32_k4, "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", two, one, four, four)
MMA(mma_tf32_k8, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", four, two, four, four)
MMA(mma_e4m3_k32, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", four, two, four, four)
MMA(mma_e5m2_k32, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", four, two, four, four)
MMA(mma_e4m3_e5m2_k32, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", four, two, four, four)
MMA(mma_s8_k16, "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", two, one, four, four)
MMA(mma_s8_k32, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", four, two, four, four)
MMA(mma_u8_k32, "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", four, two, four, four)
MMA(mma_u8_s8_k32, "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32", four, two, four, four)
MMA(mma_s8_m8, "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", one, one, two, two)

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

enum values { WHOLE, REAL }; // WHOLE: small integers, whose sums are exact in any order
static uint32_t element(const char *type, values kind)
{
    int whole = (int)(next64() % 9) - 4;
    float real = (float)((int)(next64() % 2001) - 1000) / 300.0f;
    float value = kind == WHOLE ? (float)whole : real;
    if (!strcmp(type, "f16"))
        return __half_as_ushort(__float2half(value));
    if (!strcmp(type, "bf16"))
        return __bfloat16_as_ushort(__float2bfloat16(value));
    if (!strcmp(type, "e4m3") || !strcmp(type, "e5m2")) {
        static const uint8_t e4m3[] = {0xc8, 0xc4, 0xc0, 0xb8, 0, 0x38, 0x40, 0x44, 0x48};
        static const uint8_t e5m2[] = {0xc4, 0xc2, 0xc0, 0xbc, 0, 0x3c, 0x40, 0x42, 0x44};
        return kind == WHOLE ? (type[1] == '4' ? e4m3 : e5m2)[whole + 4] : next64() % 256 & 0xcf;
    }
    if (strchr("su", type[0]))
        return kind == WHOLE ? (uint32_t)whole & 0xff : (uint32_t)next64() & 0xff;
    return bits_of(value);
}

static void run_mma()
{
    static const struct {
        const char *name, *a, *b, *c;
        void (*kernel)(const uint32_t *, uint32_t *);
    } cases[] = {{"mma m16n8k8 f16", "f16", "f16", "f32", mma_f16_k8},
                 {"mma m16n8k16 f16", "f16", "f16", "f32", mma_f16_k16},
                 {"mma m16n8k8 f16 in f16", "f16", "f16", "f16", mma_f16_k8_h},
                 {"mma m16n8k16 f16 in f16", "f16", "f16", "f16", mma_f16_k16_h},
                 {"mma m16n8k8 bf16", "bf16", "bf16", "f32", mma_bf16_k8},
                 {"mma m16n8k16 bf16", "bf16", "bf16", "f32", mma_bf16_k16},
                 {"mma m16n8k4 tf32", "f32", "f32", "f32", mma_tf32_k4},
                 {"mma m16n8k8 tf32", "f32", "f32", "f32", mma_tf32_k8},
                 {"mma m16n8k32 e4m3", "e4m3", "e4m3", "f32", mma_e4m3_k32},
                 {"mma m16n8k32 e5m2", "e5m2", "e5m2", "f32", mma_e5m2_k32},
                 {"mma m16n8k32 e4m3 e5m2", "e4m3", "e5m2", "f32", mma_e4m3_e5m2_k32},
                 {"mma m16n8k16 s8", "s8", "s8", "s32", mma_s8_k16},
                 {"mma m16n8k32 s8", "s8", "s8", "s32", mma_s8_k32},
                 {"mma m16n8k32 u8", "u8", "u8", "s32", mma_u8_k32},
                 {"mma m16n8k32 u8 s8", "u8", "s8", "s32", mma_u8_s8_k32},
                 {"mma m8n8k16 s8", "s8", "s8", "s32", mma_s8_m8}};
    uint32_t *in, *out;
    static uint32_t all[16 * 128], given[16 * 320];
    CHECK(cudaMallocManaged(&in, 320 * 4));
    CHECK(cudaMallocManaged(&out, 128 * 4));
    for (const auto &c : cases)
        for (int kind = 0; kind < 2; ++kind) {
            char name[64];
            snprintf(name, sizeof name, "%s, %s", c.name, kind ? "reals" : "whole numbers");
            current = name;
            for (int trial = 0; trial < 16; ++trial) {
                for (int i = 0; i < 320; ++i) {
                    const char *type = i < 128 ? c.a : i < 192 ? c.b : c.c;
                    int bits = strchr("bf", type[0]) && strstr(type, "16") ? 16
                               : strlen(type) == 2 || type[0] == 'e'       ? 8
                                                                           : 32;
                    in[i] = 0;
                    for (int e = 0; e < 32; e += bits)
                        in[i] |= !strcmp(type, "s32") ? (kind ? (uint32_t)next64() : 5u)
                                                      : element(type, (values)kind) << e;
                    if (i >= 192 && trial % 4 == 3)
                        in[i] = 0;
                }
                memcpy(given + 320 * trial, in, 4 * 320);
                c.kernel<<<1, 32>>>(in, out);
                CHECK(cudaDeviceSynchronize());
                memcpy(all + 128 * trial, out, 512);
            }
            write_words(name, all, 16 * 128);
            strcat(name, ", inputs");
            write_words(name, given, 16 * 320);
        }
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}

__global__ void mma_f64(const double *in, double *out)
{
    double d0, d1;
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%4,%5};"
                 : "=d"(d0), "=d"(d1)
                 : "d"(in[threadIdx.x]), "d"(in[32 + threadIdx.x]), "d"(in[64 + threadIdx.x]),
                   "d"(in[96 + threadIdx.x]));
    out[threadIdx.x] = d0;
    out[32 + threadIdx.x] = d1;
}

__global__ void tiles(const uint32_t *in, uint32_t *out)
{
    __shared__ __align__(16) uint32_t s[8 * 4 * 8];
    for (int i = 0; i < 8; ++i)
        s[32 * i + threadIdx.x] = in[32 * i + threadIdx.x];
    __syncwarp();
    uint32_t at = (uint32_t)__cvta_generic_to_shared(s) + threadIdx.x * 16, x[15];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(x[8]), "=r"(x[9]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(x[10]), "=r"(x[11]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1+512];" : "=r"(x[12]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1+512];"
                 : "=r"(x[13]) : "r"(at));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(x[14]) : "r"(x[0]));
    for (int i = 0; i < 15; ++i)
        out[32 * i + threadIdx.x] = x[i];
}

static void run_tiles()
{
    double *in, *out;
    current = "mma m8n8k4 f64";
    CHECK(cudaMallocManaged(&in, 4096));
    CHECK(cudaMallocManaged(&out, 4096));
    for (int i = 0; i < 128; ++i)
        in[i] = (double)((int64_t)next64() >> 20) / 3e9;
    mma_f64<<<1, 32>>>(in, out);
    CHECK(cudaDeviceSynchronize());
    write_words(current, out, 128);
    current = "ldmatrix and movmatrix";
    for (int i = 0; i < 256; ++i)
        ((uint32_t *)in)[i] = (uint32_t)next64();
    tiles<<<1, 32>>>((uint32_t *)in, (uint32_t *)out);
    CHECK(cudaDeviceSynchronize());
    write_words(current, out, 15 * 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}

// ---- wmma ---------------------------------------------------------------------------------------

// Writes the registers after loads of matrices whose elements are their own indices: this shows
// where each element goes. Then writes a product of small whole numbers, whose sums are exact in
// any order.
template <int M, int N, int K, class T, class S, class C, class LA, class LB>
__global__ void wmma_kernel(const S *places, const S *a, const S *b, const C *places_c, const C *c,
                            int lda, int ldb, uint32_t *fragments, C *out)
{
    __shared__ __align__(256) S copy[1024];
    wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;
    uint32_t *o = fragments + threadIdx.x * 128;
    constexpr int A = sizeof fa.x / 4, B = sizeof fb.x / 4, D = sizeof fc.x / 4;
    wmma::load_matrix_sync(fa, places, lda);
    for (int i = 0; i < A; ++i)
        o[i] = ((uint32_t *)fa.x)[i];
    wmma::load_matrix_sync(fb, places, ldb);
    for (int i = 0; i < B; ++i)
        o[32 + i] = ((uint32_t *)fb.x)[i];
    wmma::load_matrix_sync(fc, places_c, N, wmma::mem_row_major);
    for (int i = 0; i < D; ++i)
        o[64 + i] = ((uint32_t *)fc.x)[i];
    wmma::load_matrix_sync(fc, places_c, M, wmma::mem_col_major);
    for (int i = 0; i < D; ++i)
        o[96 + i] = ((uint32_t *)fc.x)[i];
    for (int i = threadIdx.x; i < 512; i += 32)
        copy[i] = b[i];
    __syncwarp();
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, copy, ldb);
    wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(out, fc, N, wmma::mem_row_major);
    wmma::store_matrix_sync(out + 256, fc, M, wmma::mem_col_major);
}

template <int M, int N, int K, class T, class S, class C, class LA, class LB>
static void run_wmma(const char *type, bool a_row, bool b_row)
{
    char name[96];
    snprintf(name, sizeof name, "wmma m%dn%dk%d %s%s %s %s", M, N, K, type,
             std::is_same<C, __half>::value ? " in f16" : "", a_row ? "row" : "col", b_row ? "row" : "col");
    current = name;
    S *m;
    C *c;
    uint32_t *fragments;
    CHECK(cudaMallocManaged(&m, 3 * 512 * sizeof(S)));
    CHECK(cudaMallocManaged(&c, 4 * 256 * sizeof(C)));
    CHECK(cudaMallocManaged(&fragments, 128 * 128));
    memset(fragments, 0, 128 * 128);
    memset(c, 0, 4 * 256 * sizeof(C));
    for (int i = 0; i < 512; ++i) {
        m[i] = (S)(float)(sizeof(S) == 1 ? i % 128 : i);
        m[512 + i] = (S)(float)(next64() % 4);
        m[1024 + i] = (S)(float)(next64() % 4);
    }
    for (int i = 0; i < 256; ++i) {
        c[i] = (C)(float)i;
        c[256 + i] = (C)(float)(next64() % 16);
    }
    wmma_kernel<M, N, K, T, S, C, LA, LB><<<1, 32>>>(m, m + 512, m + 1024, c, c + 256, a_row ? K : M,
                                                     b_row ? N : K, fragments, c + 512);
    CHECK(cudaDeviceSynchronize());
    strcat(name, ", places");
    write_words(name, fragments, 32 * 128);
    strcpy(strrchr(name, ','), ", product");
    write_words(name, c + 512, 512 * sizeof(C) / 4);
    CHECK(cudaFree(m));
    CHECK(cudaFree(c));
    CHECK(cudaFree(fragments));
}

template <int M, int N, int K, class T, class S, class C> static void run_layouts(const char *type)
{
    run_wmma<M, N, K, T, S, C, wmma::row_major, wmma::col_major>(type, true, false);
    run_wmma<M, N, K, T, S, C, wmma::row_major, wmma::row_major>(type, true, true);
    run_wmma<M, N, K, T, S, C, wmma::col_major, wmma::col_major>(type, false, false);
    run_wmma<M, N, K, T, S, C, wmma::col_major, wmma::row_major>(type, false, true);
}

template <class T, class C> static void run_shapes(const char *type)
{
    run_layouts<16, 16, 16, T, T, C>(type);
    run_layouts<32, 8, 16, T, T, C>(type);
    run_layouts<8, 32, 16, T, T, C>(type);
}

// ---- Lanes of a warp ----------------------------------------------------------------------------

// Inputs: each lane's value, a lane number, and a clamp with segments. Outputs: d and e.
enum { WARP_CASES = 22 };
static const char *const warp_names[WARP_CASES] = {
    "shfl.sync.up", "shfl.sync.down", "shfl.sync.bfly", "shfl.sync.idx", "shfl.sync of half warps",
    "vote.sync.all", "vote.sync.any", "vote.sync.uni", "vote.sync.ballot", "vote.sync of odd lanes",
    "match.any.sync.b32", "match.any.sync.b64", "match.all.sync.b32", "match.all.sync.b64",
    "redux.sync.add.u32", "redux.sync.min.s32", "redux.sync.max.u32", "redux.sync.and.b32",
    "redux.sync.or.b32", "redux.sync.xor.b32", "redux.sync of odd lanes", "bar.red"};

__global__ void warp_cases(const uint64_t *in, uint32_t *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const uint64_t *at = in + 4 * i;
    uint32_t value = (uint32_t)at[0], by = (uint32_t)at[1], clamp = (uint32_t)at[2] & 0x1f1f;
    uint32_t few = (uint32_t)(at[2] >> 40) % 3, all_same = (uint32_t)(in[4 * (i - lane)] & 1);
    uint32_t d = 0, e = 0, k = 0;
    auto keep = [&]() {
        out[2 * (k * 1024 + i)] = d;
        out[2 * (k * 1024 + i) + 1] = e;
        d = e = 0;
        k++;
    };
#define SHUFFLE(mode) \
    asm volatile("{.reg .pred p; shfl.sync." mode ".b32 %0|p, %2, %3, %4, -1; selp.u32 %1, 1, 0, p;}" \
                 : "=r"(d), "=r"(e) : "r"(value), "r"(by), "r"(clamp))
    SHUFFLE("up"); keep();
    SHUFFLE("down"); keep();
    SHUFFLE("bfly"); keep();
    SHUFFLE("idx"); keep();
    if (lane < 16) // each half of the warp by itself
        asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x100f, 0xffff;" : "=r"(d) : "r"(value), "r"(by & 15));
    else
        asm volatile("shfl.sync.up.b32 %0, %1, %2, 0x1000, 0xffff0000;" : "=r"(d) : "r"(value), "r"(by & 15));
    keep();
#define VOTE(mode, mask, yes) \
    asm volatile("{.reg .pred p, q; setp.ne.u32 p, %2, 0; vote.sync." mode ".pred q, p, " mask "; " \
                 "selp.u32 %0, 1, 0, q; vote.sync." mode ".pred q, !p, " mask "; selp.u32 %1, 1, 0, q;}" \
                 : "=r"(d), "=r"(e) : "r"((uint32_t)(yes)))
    VOTE("all", "-1", few || all_same); keep();
    VOTE("any", "-1", !few && all_same); keep();
    VOTE("uni", "-1", few && all_same); keep();
    asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; vote.sync.ballot.b32 %0, p, -1; "
                 "vote.sync.ballot.b32 %1, !p, -1;}" : "=r"(d), "=r"(e) : "r"(few));
    keep();
    if (lane & 1)
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; vote.sync.ballot.b32 %0, p, 0xaaaaaaaa; "
                     "vote.sync.any.pred p, p, 0xaaaaaaaa; selp.u32 %1, 1, 0, p;}"
                     : "=r"(d), "=r"(e) : "r"(few));
    keep();
    uint32_t equal = all_same ? 5 : few;
    uint64_t wide = (uint64_t)equal << 40;
    asm volatile("match.any.sync.b32 %0, %1, -1;" : "=r"(d) : "r"(few)); keep();
    asm volatile("match.any.sync.b64 %0, %1, -1;" : "=r"(d) : "l"((uint64_t)few << 33)); keep();
    asm volatile("{.reg .pred p; match.all.sync.b32 %0|p, %2, -1; selp.u32 %1, 1, 0, p;}"
                 : "=r"(d), "=r"(e) : "r"(equal));
    keep();
    asm volatile("{.reg .pred p; match.all.sync.b64 %0|p, %2, -1; selp.u32 %1, 1, 0, p;}"
                 : "=r"(d), "=r"(e) : "l"(wide));
    keep();
#define REDUX(mode) asm volatile("redux.sync." mode " %0, %1, -1;" : "=r"(d) : "r"(value))
    REDUX("add.u32"); keep();
    REDUX("min.s32"); keep();
    REDUX("max.u32"); keep();
    REDUX("and.b32"); keep();
    REDUX("or.b32"); keep();
    REDUX("xor.b32"); keep();
    if (lane & 1) {
        asm volatile("redux.sync.add.s32 %0, %1, 0xaaaaaaaa;" : "=r"(d) : "r"(value));
        asm volatile("redux.sync.max.s32 %0, %1, 0xaaaaaaaa;" : "=r"(e) : "r"(value));
    }
    keep();
    uint32_t both;
    asm volatile("{.reg .pred p, q; setp.ne.u32 p, %3, 0; bar.red.popc.u32 %0, 0, p; "
                 "bar.red.and.pred q, 0, p; selp.u32 %1, 1, 0, q; bar.red.or.pred q, 0, !p; "
                 "selp.u32 %2, 1, 0, q;}" : "=r"(d), "=r"(e), "=r"(both) : "r"(few));
    e += 2 * both;
    keep();
}

static void run_warps()
{
    uint64_t *in;
    uint32_t *out;
    current = "warp instructions";
    CHECK(cudaMallocManaged(&in, INPUTS * 32));
    CHECK(cudaMallocManaged(&out, 8 * (size_t)WARP_CASES * (size_t)INPUTS));
    for (int i = 0; i < INPUTS; ++i)
        for (int k = 0; k < 4; ++k)
            in[4 * i + k] = input(i, k);
    warp_cases<<<INPUTS / 128, 128>>>(in, out);
    CHECK(cudaDeviceSynchronize());
    for (int k = 0; k < WARP_CASES; ++k)
        write_words(warp_names[k], out + 2048 * k, 2048);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}

// ---- Atomic operations --------------------------------------------------------------------------

// First every thread has an address of its own: the values before and after are written. Then
// 16 threads share an address, with operands that give one result in any order.
enum { MEET = 16 };
#define ATOMIC(kernel, opcode, T, constraint, fixed, returns) \
    __global__ void kernel(const uint64_t *in, const uint64_t *meet, uint64_t *at, uint64_t *out) \
    { \
        __shared__ uint64_t own[128], common[128 / MEET]; \
        int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, group = t / MEET; \
        T a = (T)in[4 * i + 1], m = (T)(fixed ? meet[0] : meet[i]), old = 0; \
        uint32_t mine = (uint32_t)__cvta_generic_to_shared(&own[t]); \
        uint32_t ours = (uint32_t)__cvta_generic_to_shared(&common[group]); \
        uint64_t *far = at + INPUTS + blockIdx.x * (128 / MEET) + group; \
        own[t] = in[4 * i]; \
        at[i] = in[4 * i]; \
        if (t % MEET == 0) \
            common[group] = *far = meet[i]; \
        __syncthreads(); \
        if (returns) { \
            asm volatile("atom.global." opcode " %0, [%1], %2;" : "=" constraint(old) : "l"(at + i), constraint(a) : "memory"); \
            out[i] = old; \
            asm volatile("atom.shared." opcode " %0, [%1], %2;" : "=" constraint(old) : "r"(mine), constraint(a) : "memory"); \
            out[INPUTS + i] = old; \
            asm volatile("atom.global." opcode " %0, [%1], %2;" : "=" constraint(old) : "l"(far), constraint(m) : "memory"); \
            asm volatile("atom.shared." opcode " %0, [%1], %2;" : "=" constraint(old) : "r"(ours), constraint(m) : "memory"); \
        } else { \
            RED_##returns(opcode, constraint) \
        } \
        __syncthreads(); \
        out[2 * INPUTS + i] = at[i]; \
        out[3 * INPUTS + i] = own[t]; \
        if (t % MEET == 0) { \
            out[4 * INPUTS + i / MEET] = *far; \
            out[4 * INPUTS + INPUTS / MEET + i / MEET] = common[group]; \
        } \
    }
#define RED_1(opcode, constraint)
#define RED_0(opcode, constraint) \
    asm volatile("red.global." opcode " [%0], %1;" :: "l"(at + i), constraint(a) : "memory"); \
    asm volatile("red.shared." opcode " [%0], %1;" :: "r"(mine), constraint(a) : "memory"); \
    asm volatile("red.global." opcode " [%0], %1;" :: "l"(far), constraint(m) : "memory"); \
    asm volatile("red.shared." opcode " [%0], %1;" :: "r"(ours), constraint(m) : "memory");

// A row: kernel, opcode, type and constraint of the registers, and the operands of the 16 threads
// with one address: random values of a kind, or ONE value for all.
#define ATOMICS(X) \
    X(add_u32, "add.u32", uint32_t, "r", WHOLE_NUMBERS) X(add_s32, "add.s32", uint32_t, "r", WHOLE_NUMBERS) \
    X(add_u64, "add.u64", uint64_t, "l", WHOLE_NUMBERS) X(inc_u32, "inc.u32", uint32_t, "r", ONE) \
    X(dec_u32, "dec.u32", uint32_t, "r", ONE) X(min_u32, "min.u32", uint32_t, "r", WHOLE_NUMBERS) \
    X(max_u32, "max.u32", uint32_t, "r", WHOLE_NUMBERS) X(min_s32, "min.s32", uint32_t, "r", WHOLE_NUMBERS) \
    X(max_s32, "max.s32", uint32_t, "r", WHOLE_NUMBERS) X(min_u64, "min.u64", uint64_t, "l", WHOLE_NUMBERS) \
    X(max_u64, "max.u64", uint64_t, "l", WHOLE_NUMBERS) X(min_s64, "min.s64", uint64_t, "l", WHOLE_NUMBERS) \
    X(max_s64, "max.s64", uint64_t, "l", WHOLE_NUMBERS) X(and_b32, "and.b32", uint32_t, "r", WHOLE_NUMBERS) \
    X(or_b32, "or.b32", uint32_t, "r", WHOLE_NUMBERS) X(xor_b32, "xor.b32", uint32_t, "r", WHOLE_NUMBERS) \
    X(and_b64, "and.b64", uint64_t, "l", WHOLE_NUMBERS) X(or_b64, "or.b64", uint64_t, "l", WHOLE_NUMBERS) \
    X(xor_b64, "xor.b64", uint64_t, "l", WHOLE_NUMBERS) X(add_f32, "add.f32", uint32_t, "r", SINGLES) \
    X(add_f64, "add.f64", uint64_t, "l", DOUBLES) X(add_f16, "add.noftz.f16", uint16_t, "h", HALVES) \
    X(add_f16x2, "add.noftz.f16x2", uint32_t, "r", HALVES)
enum meeting { WHOLE_NUMBERS, SINGLES, DOUBLES, HALVES, ONE };
#define ATOM(name, opcode, T, constraint, what) ATOMIC(atom_##name, opcode, T, constraint, what == ONE, 1)
#define RED(name, opcode, T, constraint, what) ATOMIC(red_##name, opcode, T, constraint, what == ONE, 0)
ATOMICS(ATOM)
ATOMICS(RED)
ATOM(exch_b32, "exch.b32", uint32_t, "r", ONE)
ATOM(exch_b64, "exch.b64", uint64_t, "l", ONE)

#define SWAP(kernel, opcode, T, constraint) \
    __global__ void kernel(const uint64_t *in, const uint64_t *, uint64_t *at, uint64_t *out) \
    { \
        __shared__ uint64_t own[128]; \
        int t = threadIdx.x, i = blockIdx.x * blockDim.x + t; \
        T a = (T)in[4 * i + t % 2], b = (T)in[4 * i + 2], old; \
        uint32_t mine = (uint32_t)__cvta_generic_to_shared(&own[t]); \
        own[t] = at[i] = in[4 * i]; \
        asm volatile("atom.global." opcode " %0, [%1], %2, %3;" \
                     : "=" constraint(old) : "l"(at + i), constraint(a), constraint(b) : "memory"); \
        out[i] = old; \
        asm volatile("atom.shared." opcode " %0, [%1], %2, %3;" \
                     : "=" constraint(old) : "r"(mine), constraint(a), constraint(b) : "memory"); \
        out[INPUTS + i] = old; \
        out[2 * INPUTS + i] = at[i]; \
        out[3 * INPUTS + i] = own[t]; \
    }
SWAP(atom_cas_b16, "cas.b16", uint16_t, "h")
SWAP(atom_cas_b32, "cas.b32", uint32_t, "r")
SWAP(atom_cas_b64, "cas.b64", uint64_t, "l")

static uint64_t meeting_value(meeting what)
{
    int number = (int)(next64() % 31) - 15;
    float single = (float)number;
    double wide = number;
    uint32_t bits;
    uint64_t result;
    switch (what) {
    case SINGLES: memcpy(&bits, &single, 4); return bits;
    case DOUBLES: memcpy(&result, &wide, 8); return result;
    case HALVES: return __half_as_ushort(__float2half(single)) * 0x10001u;
    case ONE: return 7;
    default: return next64();
    }
}

static void run_atomics()
{
    static const struct {
        const char *name;
        void (*kernel)(const uint64_t *, const uint64_t *, uint64_t *, uint64_t *);
        meeting what;
    } cases[] = {
#define ATOM_CASE(name, opcode, T, constraint, what) {"atom." opcode, atom_##name, what},
#define RED_CASE(name, opcode, T, constraint, what) {"red." opcode, red_##name, what},
        ATOMICS(ATOM_CASE) ATOMICS(RED_CASE)
        {"atom.exch.b32", atom_exch_b32, ONE}, {"atom.exch.b64", atom_exch_b64, ONE},
        {"atom.cas.b16", atom_cas_b16, ONE}, {"atom.cas.b32", atom_cas_b32, ONE},
        {"atom.cas.b64", atom_cas_b64, ONE}};
    enum { OUT = 4 * INPUTS + 2 * INPUTS / MEET };
    uint64_t *in, *meet, *at, *out;
    CHECK(cudaMallocManaged(&in, INPUTS * 32));
    CHECK(cudaMallocManaged(&meet, INPUTS * 8));
    CHECK(cudaMallocManaged(&at, 2 * INPUTS * 8));
    CHECK(cudaMallocManaged(&out, OUT * 8));
    for (const auto &c : cases) {
        current = c.name;
        for (int i = 0; i < INPUTS; ++i) {
            meet[i] = meeting_value(c.what);
            for (int k = 0; k < 4; ++k)
                in[4 * i + k] = input(i, k);
        }
        memset(at, 0, 2 * INPUTS * 8);
        memset(out, 0, OUT * 8);
        c.kernel<<<INPUTS / 128, 128>>>(in, meet, at, out);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        write_words(c.name, out, 2 * OUT);
    }
    CHECK(cudaFree(in));
    CHECK(cudaFree(meet));
    CHECK(cudaFree(at));
    CHECK(cudaFree(out));
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: coverage FILE\n");
        return 2;
    }
    file = fopen(argv[1], "wb");
    if (!file) {
        fprintf(stderr, "coverage: cannot write %s\n", argv[1]);
        return 1;
    }
    run_scalars();
    run_mma();
    run_tiles();
    run_shapes<__half, float>("f16");
    run_shapes<__half, __half>("f16");
    run_shapes<__nv_bfloat16, float>("bf16");
    run_shapes<signed char, int>("s8");
    run_shapes<unsigned char, int>("u8");
    run_layouts<16, 16, 8, wmma::precision::tf32, float, float>("tf32");
    run_layouts<8, 8, 4, double, double, double>("f64");
    run_warps();
    run_atomics();
    if (fclose(file)) {
        fprintf(stderr, "coverage: cannot write %s\n", argv[1]);
        return 1;
    }
    return 0;
}
