// libcu++ in device code: atomic_ref, tuple, optional, span, array, complex, numeric_limits.
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/cmath>
#include <cuda/std/complex>
#include <cuda/std/limits>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/utility>

#include "check.h"

__device__ cuda::std::optional<int> find(cuda::std::span<const int> in, int sought)
{
    for (size_t i = 0; i < in.size(); ++i)
        if (in[i] == sought)
            return (int)i;
    return cuda::std::nullopt;
}

__device__ cuda::std::tuple<int, int> extremes(cuda::std::span<const int> in)
{
    int least = cuda::std::numeric_limits<int>::max(), most = cuda::std::numeric_limits<int>::min();
    for (int value : in) {
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    return cuda::std::make_tuple(least, most);
}

__global__ void types(const int *in, int n, int *out)
{
    cuda::std::span<const int> all(in, n);
    auto part = all.subspan(threadIdx.x * 8, 8);
    auto [least, most] = extremes(part);
    cuda::std::optional<int> place = find(part, most);
    cuda::std::array<int, 4> row = {least, most, place.value_or(-1), find(part, -7).has_value()};
    for (int i = 0; i < 4; ++i)
        out[threadIdx.x * 4 + i] = row[i];
}

__global__ void atomics(unsigned *count, int *most, unsigned long long *bits)
{
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*count);
    cuda::atomic_ref<int, cuda::thread_scope_device> largest(*most);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> mask(*bits);
    counter.fetch_add(threadIdx.x, cuda::memory_order_relaxed);
    largest.fetch_max((int)(threadIdx.x * 37 % 101));
    mask.fetch_or(1ull << threadIdx.x % 64);
    unsigned seen = counter.load();
    while (!counter.compare_exchange_weak(seen, seen ^ 0x80000000u))
        ;
}

__global__ void mandelbrot(int *out)
{
    cuda::std::complex<float> c(threadIdx.x / 16.0f - 1.5f, blockIdx.x / 8.0f - 1), z = 0;
    int steps = 0;
    while (steps < 20 && cuda::std::norm(z) <= 4) {
        z = z * z + c;
        ++steps;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = steps;
}

int main()
{
    std::vector<int> in(64);
    for (int i = 0; i < 64; ++i)
        in[i] = i * 29 % 67;
    int *out = zeros<int>(32 * 16);
    types<<<1, 8>>>(to_device(in), 64, out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 32);
    for (int i = 0; i < 8; ++i)
        printf("%d %d %d %d\n", got[4 * i], got[4 * i + 1], got[4 * i + 2], got[4 * i + 3]);
    unsigned *count = zeros<unsigned>(1);
    unsigned long long *bits = zeros<unsigned long long>(1);
    int *most = zeros<int>(1);
    atomics<<<2, 128>>>(count, most, bits);
    CHECK_KERNEL();
    printf("%u %d %llx\n", to_host(count, 1)[0], to_host(most, 1)[0], to_host(bits, 1)[0]);
    mandelbrot<<<16, 32>>>(out);
    CHECK_KERNEL();
    for (int y = 0; y < 16; y += 3) {
        for (int x = 0; x < 32; ++x)
            putchar(" .:-=+*%@#"[to_host(out + y * 32 + x, 1)[0] / 2 % 10]);
        putchar('\n');
    }
    return failures;
}
