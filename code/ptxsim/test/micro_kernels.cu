// micro_kernels.cu: small access patterns, a kernel each, counted by the simulator here and by
// Nsight Compute on a GPU (plots/runs/h200/micro_kernels.json; test_counts.c compares them).
//
//   micro_kernels                 launches every kernel
//   micro_kernels NAME...         launches the kernels named
//   micro_kernels --list          prints the names of all kernels
//
// A kernel is named by what it does: shared loads of 8 bytes at a stride of 3 are load8_stride_3.
// It has 264 CTAs of one warp: two for each SM of an H200. All SMs are then equally busy, and a
// counter may be read on any of them. Each CTA makes one access with the pattern, in volatile
// assembly: there is no other access that ptxas could merge with it.
#include <cuda_fp16.h>
#include <mma.h>
#include <stdio.h>
#include <string.h>

using namespace nvcuda;

enum { CTAS = 264, SHARED_BYTES = 32768, GLOBAL_BYTES = 65536 };

typedef unsigned u32;

// A word made of lane and seed, the same in every run.
static __device__ u32 mix(u32 lane, u32 seed)
{
    u32 x = lane * 0x9e3779b9u + seed * 0x85ebca6bu + 0x27d4eb2fu;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return x ^ x >> 15;
}

// ---- One access of each kind; its result is used, so that the access cannot be left out ---------

#define LOAD_1(name, op, constraint)                                                               \
    static __device__ u32 name(u32 shared, char *global)                                           \
    {                                                                                              \
        u32 a;                                                                                     \
        asm volatile(op " %0, [%1];" : "=r"(a) : constraint : "memory");                           \
        return a;                                                                                  \
    }
#define LOAD_2(name, op, constraint)                                                               \
    static __device__ u32 name(u32 shared, char *global)                                           \
    {                                                                                              \
        u32 a, b;                                                                                  \
        asm volatile(op " {%0, %1}, [%2];" : "=r"(a), "=r"(b) : constraint : "memory");            \
        return a + b;                                                                              \
    }
#define LOAD_4(name, op, constraint)                                                               \
    static __device__ u32 name(u32 shared, char *global)                                           \
    {                                                                                              \
        u32 a, b, c, d;                                                                            \
        asm volatile(op " {%0, %1, %2, %3}, [%4];"                                                 \
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)                                          \
                     : constraint                                                                  \
                     : "memory");                                                                  \
        return a + b + c + d;                                                                      \
    }
#define ACT(name, op, constraint)                                                                  \
    static __device__ u32 name(u32 shared, char *global)                                           \
    {                                                                                              \
        asm volatile(op ::constraint, "r"(7) : "memory");                                          \
        return 0;                                                                                  \
    }
#define ATOM(name, op, constraint)                                                                 \
    static __device__ u32 name(u32 shared, char *global)                                           \
    {                                                                                              \
        u32 a;                                                                                     \
        asm volatile(op : "=r"(a) : constraint, "r"(threadIdx.x) : "memory");                      \
        return a;                                                                                  \
    }
// Copies from the start of the CTA's global memory, lane after lane, to the pattern in shared
// memory.
#define ACT2(name, op)                                                                             \
    static __device__ u32 name(u32 shared, char *global)                                           \
    {                                                                                              \
        asm volatile(op ::"r"(shared), "l"(global) : "memory");                                    \
        return 0;                                                                                  \
    }
#define AT_SHARED "r"(shared)
#define AT_GLOBAL "l"(global)

LOAD_1(load1, "ld.shared.u8", AT_SHARED)
LOAD_1(load2, "ld.shared.u16", AT_SHARED)
LOAD_1(load4, "ld.shared.u32", AT_SHARED)
LOAD_2(load8, "ld.shared.v2.u32", AT_SHARED)
LOAD_4(load16, "ld.shared.v4.u32", AT_SHARED)
ACT(store1, "st.shared.u8 [%0], %1;", AT_SHARED)
ACT(store2, "st.shared.u16 [%0], %1;", AT_SHARED)
ACT(store4, "st.shared.u32 [%0], %1;", AT_SHARED)
ACT(store8, "st.shared.v2.u32 [%0], {%1, %1};", AT_SHARED)
ACT(store16, "st.shared.v4.u32 [%0], {%1, %1, %1, %1};", AT_SHARED)
ATOM(atom_add, "atom.shared.add.u32 %0, [%1], %2;", AT_SHARED)
ATOM(atom_exch, "atom.shared.exch.b32 %0, [%1], %2;", AT_SHARED)
ATOM(atom_cas, "atom.shared.cas.b32 %0, [%1], 0, %2;", AT_SHARED)
ACT(red_add, "red.shared.add.u32 [%0], %1;", AT_SHARED)
ATOM(atom_max, "atom.shared.max.u32 %0, [%1], %2;", AT_SHARED)
ATOM(atom_add64,
     "{ .reg .u64 x, y; cvt.u64.u32 y, %2; atom.shared.add.u64 x, [%1], y; cvt.u32.u64 %0, x; }",
     AT_SHARED)
ATOM(atom_addf, "{ .reg .f32 x, y; mov.b32 y, %2; atom.shared.add.f32 x, [%1], y; mov.b32 %0, x; }",
     AT_SHARED)
ACT2(copy4, "cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;")
ACT2(copy8, "cp.async.ca.shared.global [%0], [%1], 8; cp.async.wait_all;")
ACT2(copy16, "cp.async.cg.shared.global [%0], [%1], 16; cp.async.wait_all;")
LOAD_1(gload1, "ld.global.u8", AT_GLOBAL)
LOAD_1(gload4, "ld.global.u32", AT_GLOBAL)
LOAD_2(gload8, "ld.global.v2.u32", AT_GLOBAL)
LOAD_4(gload16, "ld.global.v4.u32", AT_GLOBAL)
ACT(gstore1, "st.global.u8 [%0], %1;", AT_GLOBAL)
ACT(gstore4, "st.global.u32 [%0], %1;", AT_GLOBAL)
ACT(gstore8, "st.global.v2.u32 [%0], {%1, %1};", AT_GLOBAL)
ACT(gstore16, "st.global.v4.u32 [%0], {%1, %1, %1, %1};", AT_GLOBAL)
ATOM(gatom_add, "atom.global.add.u32 %0, [%1], %2;", AT_GLOBAL)
ACT(gred_add, "red.global.add.u32 [%0], %1;", AT_GLOBAL)
ATOM(matrix1, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];", AT_SHARED)
LOAD_2(matrix2, "ldmatrix.sync.aligned.m8n8.x2.shared.b16", AT_SHARED)
LOAD_4(matrix4, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", AT_SHARED)
LOAD_4(matrix4t, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", AT_SHARED)

// ---- The patterns: kind, name, byte offset of a lane, whether the lane takes part ---------------

#define STRIDES(X, kind, bytes)                                                                    \
    X(kind, stride_1, lane *bytes, true)                                                           \
    X(kind, stride_2, lane * 2 * bytes, true)                                                      \
    X(kind, stride_3, lane * 3 * bytes, true)                                                      \
    X(kind, stride_4, lane * 4 * bytes, true)                                                      \
    X(kind, stride_5, lane * 5 * bytes, true)                                                      \
    X(kind, stride_8, lane * 8 * bytes, true)                                                      \
    X(kind, stride_9, lane * 9 * bytes, true)                                                      \
    X(kind, stride_16, lane * 16 * bytes, true)                                                    \
    X(kind, stride_17, lane * 17 * bytes, true)                                                    \
    X(kind, stride_32, lane * 32 * bytes, true)                                                    \
    X(kind, stride_33, lane * 33 * bytes, true)
#define SHARES(X, kind, bytes)                                                                     \
    X(kind, same, 0 * lane, true)                                                                  \
    X(kind, same_pairs, lane / 2 * bytes, true)                                                    \
    X(kind, same_fours, lane / 4 * bytes, true)                                                    \
    X(kind, same_eights, lane / 8 * bytes, true)                                                   \
    X(kind, same_halves, lane / 16 * bytes, true)                                                  \
    X(kind, same_every_second, lane % 2 * bytes, true)                                             \
    X(kind, same_every_fourth, lane % 4 * bytes, true)                                             \
    X(kind, same_every_eighth, lane % 8 * bytes, true)                                             \
    X(kind, same_every_16th, lane % 16 * bytes, true)                                              \
    X(kind, same_bit_1, (lane / 4 * 2 + lane % 2) * bytes, true)                                   \
    X(kind, same_bit_2, (lane / 8 * 4 + lane % 4) * bytes, true)
#define MASKS(X, kind, bytes)                                                                      \
    X(kind, mask_one, lane *bytes, lane == 0)                                                      \
    X(kind, mask_low_half, lane *bytes, lane < 16)                                                 \
    X(kind, mask_low_quarter, lane *bytes, lane < 8)                                               \
    X(kind, mask_even, lane *bytes, lane % 2 == 0)                                                 \
    X(kind, mask_fourth, lane *bytes, lane % 4 == 0)                                               \
    X(kind, mask_eighth, lane *bytes, lane % 8 == 0)                                               \
    X(kind, mask_even_packed, lane / 2 * bytes, lane % 2 == 0)                                     \
    X(kind, mask_random, lane *bytes, mix(lane, 99) & 1)
#define RANDOMS(X, kind, bytes)                                                                    \
    X(kind, random_1, mix(lane, 1) % (SHARED_BYTES / bytes) * bytes, true)                         \
    X(kind, random_2, mix(lane, 2) % (SHARED_BYTES / bytes) * bytes, true)                         \
    X(kind, random_3, mix(lane, 3) % 64 * bytes, true)                                             \
    X(kind, random_4, mix(lane, 4) % 32 * bytes, true)                                             \
    X(kind, random_5, mix(lane, 5) % 16 * bytes, true)                                             \
    X(kind, random_6, mix(lane, 6) % 8 * bytes, true)                                              \
    X(kind, random_7, mix(lane / 2, 7) % (SHARED_BYTES / bytes) * bytes, true)                     \
    X(kind, random_8, mix(lane, 8) % 256 * bytes, mix(lane, 98) & 1)
// Neighbouring lanes with one address: in a part of the warp, differently in each half, at random
// addresses, or with lanes left out.
#define MIXES(X, kind, bytes)                                                                      \
    X(kind, mix_pairs_low, (lane < 16 ? lane / 2 : lane) * bytes, true)                            \
    X(kind, mix_pairs_both_ways, (lane < 16 ? lane / 2 : lane / 4 * 2 + lane % 2) * bytes, true)   \
    X(kind, mix_pairs_random, mix(lane / 2, 11) % 64 * bytes, true)                                \
    X(kind, mix_pairs_masked, lane / 2 * bytes, mix(lane, 97) & 1)                                 \
    X(kind, mix_pairs_quarter, (lane < 8 ? lane : lane / 2) * bytes, true)
// One address in all lanes, computed from loaded zeros, so that the compiler cannot know it.
#define LOADED_SAME(X, kind, bytes)                                                                \
    X(kind, same_loaded, ((volatile u32 *)words)[lane] * bytes, true)
#define WIDE(X, kind, bytes)                                                                       \
    STRIDES(X, kind, bytes) SHARES(X, kind, bytes) MASKS(X, kind, bytes) RANDOMS(X, kind, bytes)
#define FEW(X, kind, bytes)                                                                        \
    X(kind, stride_1, lane *bytes, true)                                                           \
    X(kind, stride_2, lane * 2 * bytes, true)                                                      \
    X(kind, stride_8, lane * 8 * bytes, true)                                                      \
    X(kind, stride_32, lane * 32 * bytes, true)                                                    \
    X(kind, same, 0 * lane, true)                                                                  \
    X(kind, same_pairs, lane / 2 * bytes, true)                                                    \
    X(kind, same_every_eighth, lane % 8 * bytes, true)                                             \
    X(kind, mask_even, lane *bytes, lane % 2 == 0)                                                 \
    X(kind, random_1, mix(lane, 1) % (SHARED_BYTES / bytes) * bytes, true)                         \
    X(kind, random_3, mix(lane, 3) % 64 * bytes, true)
#define GLOBALS(X, kind, bytes)                                                                    \
    X(kind, stride_1, lane *bytes, true)                                                           \
    X(kind, stride_2, lane * 2 * bytes, true)                                                      \
    X(kind, stride_3, lane * 3 * bytes, true)                                                      \
    X(kind, stride_9, lane * 9 * bytes, true)                                                      \
    X(kind, stride_32, lane * 32 * bytes, true)                                                    \
    X(kind, shifted, lane *bytes + bytes, true)                                                    \
    X(kind, shifted_half_sector, lane *bytes + 16, true)                                           \
    X(kind, same, 64 + 0 * lane, true)                                                             \
    X(kind, mask_even, lane *bytes, lane % 2 == 0)                                                 \
    X(kind, random_1, mix(lane, 1) % (SHARED_BYTES / bytes) * bytes, true)                         \
    X(kind, random_3, mix(lane, 3) % 64 * bytes, true)
// rows_N: rows of 16 bytes, N bytes apart; lanes 8 to 31 point to the rows of further 8 x 8 tiles.
#define MATRICES(X, kind)                                                                          \
    X(kind, rows_16, lane * 16, true)                                                              \
    X(kind, rows_32, lane * 32, true)                                                              \
    X(kind, rows_64, lane * 64, true)                                                              \
    X(kind, rows_80, lane * 80, true)                                                              \
    X(kind, rows_128, lane * 128, true)                                                            \
    X(kind, rows_144, lane * 144, true)                                                            \
    X(kind, rows_same, 0 * lane, true)                                                             \
    X(kind, rows_swizzled, lane * 128 + lane % 8 * 16, true)                                       \
    X(kind, rows_random, mix(lane, 1) % (SHARED_BYTES / 16) * 16, true)

// clang-format off
#define SHARED_PATTERNS(X) \
    FEW(X, load1, 1) FEW(X, load2, 2) \
    STRIDES(X, load4, 4) SHARES(X, load4, 4) MASKS(X, load4, 4) RANDOMS(X, load4, 4) \
    WIDE(X, load8, 8) WIDE(X, load16, 16) \
    FEW(X, store1, 1) FEW(X, store2, 2) FEW(X, store4, 4) WIDE(X, store8, 8) WIDE(X, store16, 16) \
    FEW(X, atom_add, 4) FEW(X, atom_exch, 4) FEW(X, atom_cas, 4) FEW(X, red_add, 4) \
    MIXES(X, load8, 8) MIXES(X, load16, 16) MIXES(X, store16, 16) \
    LOADED_SAME(X, load16, 16) LOADED_SAME(X, store16, 16) LOADED_SAME(X, atom_add, 4) \
    LOADED_SAME(X, atom_max, 4) LOADED_SAME(X, red_add, 4) \
    FEW(X, atom_max, 4) FEW(X, atom_add64, 8) FEW(X, atom_addf, 4) \
    FEW(X, copy4, 4) FEW(X, copy8, 8) FEW(X, copy16, 16) \
    MATRICES(X, matrix1) MATRICES(X, matrix2) MATRICES(X, matrix4) MATRICES(X, matrix4t)
#define GLOBAL_PATTERNS(X) \
    GLOBALS(X, gload1, 1) GLOBALS(X, gload4, 4) GLOBALS(X, gload8, 8) GLOBALS(X, gload16, 16) \
    GLOBALS(X, gstore1, 1) GLOBALS(X, gstore4, 4) GLOBALS(X, gstore8, 8) GLOBALS(X, gstore16, 16) \
    GLOBALS(X, gatom_add, 4) GLOBALS(X, gred_add, 4)
// clang-format on

// Shared memory is filled first, by stores of four bytes that have no conflict.
#define SHARED_KERNEL(kind, pattern, offset, takes_part)                                           \
    extern "C" __global__ void kind##_##pattern(char *memory, u32 never)                           \
    {                                                                                              \
        __shared__ __align__(1024) u32 words[SHARED_BYTES / 4];                                    \
        u32 lane = threadIdx.x, found = 0;                                                         \
        char *mine = memory + (size_t)blockIdx.x * GLOBAL_BYTES + lane * 16;                       \
        for (u32 i = lane; i < SHARED_BYTES / 4; i += 32)                                          \
            ((volatile u32 *)words)[i] = 0;                                                        \
        __syncwarp();                                                                              \
        if (takes_part)                                                                            \
            found = kind((u32)__cvta_generic_to_shared(words) + (offset), mine);                   \
        if (found == never)                                                                        \
            *(u32 *)memory = found;                                                                \
    }
#define GLOBAL_KERNEL(kind, pattern, offset, takes_part)                                           \
    extern "C" __global__ void kind##_##pattern(char *memory, u32 never)                           \
    {                                                                                              \
        u32 lane = threadIdx.x, found = 0;                                                         \
        char *mine = memory + (size_t)blockIdx.x * GLOBAL_BYTES;                                   \
        if (takes_part)                                                                            \
            found = kind(0, mine + (offset));                                                      \
        if (found == never)                                                                        \
            *(u32 *)memory = found;                                                                \
    }
SHARED_PATTERNS(SHARED_KERNEL)
GLOBAL_PATTERNS(GLOBAL_KERNEL)

// ---- Fragments: operand, its layout, elements from one row or column to the next ----------------

template <typename Fragment, int STRIDE>
static __device__ void load_fragment(char *memory, u32 never)
{
    __shared__ __align__(1024) __half tile[32 * 128];
    Fragment fragment;
    for (u32 i = threadIdx.x; i < 32 * 128 / 2; i += 32)
        ((volatile u32 *)tile)[i] = 0;
    __syncwarp();
    wmma::load_matrix_sync(fragment, tile, STRIDE);
    for (int i = 0; i < fragment.num_elements; ++i)
        if (((unsigned short)__half_as_ushort(fragment.x[i])) == never)
            ((u32 *)memory)[i] = never;
}

template <typename Number, int STRIDE>
static __device__ void load_sums(wmma::layout_t layout, char *memory, u32 never)
{
    __shared__ __align__(1024) Number tile[32 * 128];
    wmma::fragment<wmma::accumulator, 16, 16, 16, Number> fragment;
    for (u32 i = threadIdx.x; i < sizeof tile / 4; i += 32)
        ((volatile u32 *)tile)[i] = 0;
    __syncwarp();
    wmma::load_matrix_sync(fragment, tile, STRIDE, layout);
    for (int i = 0; i < fragment.num_elements; ++i)
        if ((float)fragment.x[i] == (float)never)
            ((u32 *)memory)[i] = never;
}

template <typename Number, int STRIDE>
static __device__ void store_fragment(wmma::layout_t layout, u32 never)
{
    __shared__ __align__(1024) Number tile[32 * 128];
    wmma::fragment<wmma::accumulator, 16, 16, 16, Number> fragment;
    wmma::fill_fragment(fragment, (Number)(float)never);
    wmma::store_matrix_sync(tile, fragment, STRIDE, layout);
}

#define FRAGMENT_STRIDES(X, kind)                                                                  \
    X(kind, 16) X(kind, 24) X(kind, 32) X(kind, 64) X(kind, 72) X(kind, 128)
#define LOADED_FRAGMENTS(X)                                                                        \
    FRAGMENT_STRIDES(X, wmma_a_row)                                                                \
    FRAGMENT_STRIDES(X, wmma_a_col) FRAGMENT_STRIDES(X, wmma_b_row) FRAGMENT_STRIDES(X, wmma_b_col)
#define STORED_FRAGMENTS(X)                                                                        \
    FRAGMENT_STRIDES(X, wmma_d_row)                                                                \
    FRAGMENT_STRIDES(X, wmma_d_col)                                                                \
    FRAGMENT_STRIDES(X, wmma_dh_row) FRAGMENT_STRIDES(X, wmma_dh_col)
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> wmma_a_row;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::col_major> wmma_a_col;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> wmma_b_row;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> wmma_b_col;
#define LOADED_SUMS(X)                                                                             \
    FRAGMENT_STRIDES(X, wmma_c_row)                                                                \
    FRAGMENT_STRIDES(X, wmma_c_col)                                                                \
    FRAGMENT_STRIDES(X, wmma_ch_row) FRAGMENT_STRIDES(X, wmma_ch_col)
typedef float wmma_c_row, wmma_c_col;
typedef __half wmma_ch_row, wmma_ch_col;
static constexpr wmma::layout_t layout_of_wmma_c_row = wmma::mem_row_major;
static constexpr wmma::layout_t layout_of_wmma_c_col = wmma::mem_col_major;
static constexpr wmma::layout_t layout_of_wmma_ch_row = wmma::mem_row_major;
static constexpr wmma::layout_t layout_of_wmma_ch_col = wmma::mem_col_major;
typedef float wmma_d_row, wmma_d_col;
typedef __half wmma_dh_row, wmma_dh_col;
static constexpr wmma::layout_t layout_of_wmma_d_row = wmma::mem_row_major;
static constexpr wmma::layout_t layout_of_wmma_d_col = wmma::mem_col_major;
static constexpr wmma::layout_t layout_of_wmma_dh_row = wmma::mem_row_major;
static constexpr wmma::layout_t layout_of_wmma_dh_col = wmma::mem_col_major;
#define LOADED(kind, stride)                                                                       \
    extern "C" __global__ void kind##_##stride(char *memory, u32 never)                            \
    {                                                                                              \
        load_fragment<kind, stride>(memory, never);                                                \
    }
#define STORED(kind, stride)                                                                       \
    extern "C" __global__ void kind##_##stride(char *memory, u32 never)                            \
    {                                                                                              \
        store_fragment<kind, stride>(layout_of_##kind, never);                                     \
    }
#define SUMS(kind, stride)                                                                         \
    extern "C" __global__ void kind##_##stride(char *memory, u32 never)                            \
    {                                                                                              \
        load_sums<kind, stride>(layout_of_##kind, memory, never);                                  \
    }
LOADED_FRAGMENTS(LOADED)
LOADED_SUMS(SUMS)
STORED_FRAGMENTS(STORED)

// ---- Matrix products and divergence -------------------------------------------------------------

template <int M, int N, int K, typename Sum>
static __device__ void multiply(char *memory, u32 never)
{
    wmma::fragment<wmma::matrix_a, M, N, K, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, M, N, K, __half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> d;
    for (int i = 0; i < a.num_elements; ++i) // all different, so that no two products are equal
        a.x[i] = __ushort_as_half((unsigned short)(threadIdx.x + 3 * i));
    for (int i = 0; i < b.num_elements; ++i)
        b.x[i] = __ushort_as_half((unsigned short)(threadIdx.x + 5 * i));
    for (int i = 0; i < d.num_elements; ++i)
        d.x[i] = (Sum)(float)(never + i);
    wmma::mma_sync(d, a, b, d);
    for (int i = 0; i < d.num_elements; ++i)
        if ((float)d.x[i] == -5)
            ((u32 *)memory)[i] = never;
}
#define PRODUCTS(X)                                                                                \
    X(mma_16_16_16_f32, (16, 16, 16, float))                                                       \
    X(mma_16_16_16_f16, (16, 16, 16, __half))                                                      \
    X(mma_32_8_16_f32, (32, 8, 16, float))                                                         \
    X(mma_32_8_16_f16, (32, 8, 16, __half))                                                        \
    X(mma_8_32_16_f32, (8, 32, 16, float))                                                         \
    X(mma_8_32_16_f16, (8, 32, 16, __half))
#define INSIDE(...) __VA_ARGS__
#define PRODUCT(name, arguments)                                                                   \
    extern "C" __global__ void name(char *memory, u32 never)                                       \
    {                                                                                              \
        multiply<INSIDE arguments>(memory, never);                                                 \
    }
PRODUCTS(PRODUCT)

// A loop of `trips` iterations that no compiler can unroll or predicate away.
static __device__ u32 loop(u32 trips)
{
    u32 clock = 0, sum = 0;
    for (u32 i = 0; i < trips; ++i) {
        asm volatile("mov.u32 %0, %%clock;" : "=r"(clock)::"memory");
        sum |= clock >> 31 & i >> 31; // always 0: i is small
    }
    return sum;
}
#define LOOPS(X)                                                                                   \
    X(loop_uniform, 5)                                                                             \
    X(loop_by_lane, threadIdx.x)                                                                   \
    X(loop_two_sides, threadIdx.x % 2 ? 3 : 9)                                                     \
    X(loop_one_longer, threadIdx.x == 7 ? 20 : 4)
#define LOOP(name, trips)                                                                          \
    extern "C" __global__ void name(char *memory, u32 never)                                       \
    {                                                                                              \
        if (loop((trips) + (never == 5)) == never)                                                 \
            *(u32 *)memory = never;                                                                \
    }
LOOPS(LOOP)

// ---- Host ---------------------------------------------------------------------------------------

typedef void kernel(char *, u32);
static const struct {
    const char *name;
    kernel *run;
} kernels[] = {
#define PATTERN_ENTRY(kind, pattern, offset, takes_part) {#kind "_" #pattern, kind##_##pattern},
#define FRAGMENT_ENTRY(kind, stride) {#kind "_" #stride, kind##_##stride},
#define ENTRY(name, ...) {#name, name},
    SHARED_PATTERNS(PATTERN_ENTRY) GLOBAL_PATTERNS(PATTERN_ENTRY) LOADED_FRAGMENTS(FRAGMENT_ENTRY)
        LOADED_SUMS(FRAGMENT_ENTRY) STORED_FRAGMENTS(FRAGMENT_ENTRY) PRODUCTS(ENTRY) LOOPS(ENTRY)};

static bool wanted(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; ++i)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc == 1;
}

int main(int argc, char **argv)
{
    const size_t count = sizeof kernels / sizeof *kernels;
    char *memory;
    int failed = 0, launched = 0;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; ++i)
            puts(kernels[i].name);
        return 0;
    }
    cudaError_t error = cudaMalloc(&memory, (size_t)CTAS * GLOBAL_BYTES);
    if (error == cudaSuccess)
        error = cudaMemset(memory, 0, (size_t)CTAS * GLOBAL_BYTES);
    for (size_t i = 0; i < count && error == cudaSuccess; ++i) {
        if (!wanted(argc, argv, kernels[i].name))
            continue;
        kernels[i].run<<<CTAS, 32>>>(memory, 0x12345677u);
        cudaError_t refused = cudaGetLastError();
        if (refused != cudaSuccess) { // the other kernels are launched nevertheless
            fprintf(stderr, "%s: %s\n", kernels[i].name, cudaGetErrorString(refused));
            failed++;
        }
        launched++;
    }
    if (error == cudaSuccess)
        error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        fprintf(stderr, "micro_kernels: %s\n", cudaGetErrorString(error));
        return 1;
    }
    if (!launched) {
        fprintf(stderr, "micro_kernels: no kernel of this name: --list shows them\n");
        return 2;
    }
    return failed ? 1 : 0;
}
