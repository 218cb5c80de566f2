// CUB's device-wide algorithms that look back at the tiles before them: InclusiveSum, a scan with
// an operator of one's own, DeviceSelect::If and ::Flagged, run-length encoding.
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include "check.h"

struct Odd {
    __device__ bool operator()(int x) const
    {
        return x % 2 != 0;
    }
};

struct Larger {
    __device__ int operator()(int a, int b) const
    {
        return a > b ? a : b;
    }
};

// Calls `algorithm` twice, as CUB requires: once for the size of its storage, once to run it.
template <class F> void with_storage(F algorithm)
{
    void *storage = nullptr;
    size_t bytes = 0;
    CHECK(algorithm(storage, bytes));
    CHECK(cudaMalloc(&storage, bytes));
    CHECK(algorithm(storage, bytes));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(storage));
}

int main()
{
    const int n = 20000;
    std::vector<int> in(n), sums(n), maxima(n), odd, runs;
    for (int i = 0, sum = 0, most = -1; i < n; ++i) {
        in[i] = i / 3 * 37 % 251;
        sums[i] = sum += in[i];
        maxima[i] = most = in[i] > most ? in[i] : most;
        if (in[i] % 2)
            odd.push_back(in[i]);
        if (i == 0 || in[i] != in[i - 1])
            runs.push_back(0);
        ++runs.back();
    }
    int *device = to_device(in), *out = zeros<int>(n), *counts = zeros<int>(n),
        *found = zeros<int>(1);
    with_storage([=](void *storage, size_t &bytes) {
        return cub::DeviceScan::InclusiveSum(storage, bytes, device, out, n);
    });
    expect("InclusiveSum", to_host(out, n) == sums);
    with_storage([=](void *storage, size_t &bytes) {
        return cub::DeviceScan::InclusiveScan(storage, bytes, device, out, Larger(), n);
    });
    expect("InclusiveScan", to_host(out, n) == maxima);
    with_storage([=](void *storage, size_t &bytes) {
        return cub::DeviceSelect::If(storage, bytes, device, out, found, n, Odd());
    });
    int selected = to_host(found, 1)[0];
    expect("Select::If", selected == (int)odd.size() && to_host(out, selected) == odd);
    with_storage([=](void *storage, size_t &bytes) {
        return cub::DeviceRunLengthEncode::Encode(storage, bytes, device, out, counts, found, n);
    });
    int encoded = to_host(found, 1)[0];
    expect("Encode", encoded == (int)runs.size() && to_host(counts, encoded) == runs);
    printf("%d %d %d\n", sums[n - 1], selected, encoded);
    return failures;
}
