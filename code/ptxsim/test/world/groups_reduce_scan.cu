// cg::reduce with several operators and types, cg::inclusive_scan and exclusive_scan on tiles and
// on coalesced threads, and invoke_one.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void reductions(const int *in, int *out)
{
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int i = threadIdx.x, value = in[i];
    out[i] = cg::reduce(tile, value, cg::plus<int>());
    out[64 + i] = cg::reduce(tile, value, cg::less<int>());
    out[128 + i] = cg::reduce(tile, value, cg::greater<int>());
    out[192 + i] = cg::reduce(tile, value, cg::bit_xor<int>());
    out[256 + i] = (int)cg::reduce(tile, (double)value, cg::plus<double>());
}

__global__ void scans(const int *in, int *out)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int i = threadIdx.x, value = in[i];
    out[i] = cg::inclusive_scan(warp, value);
    out[64 + i] = cg::exclusive_scan(warp, value);
    out[128 + i] = cg::inclusive_scan(warp, value, cg::greater<int>());
    out[192 + i] = 0;
    if (value % 3 == 0) {
        auto some = cg::coalesced_threads();
        out[192 + i] = cg::exclusive_scan(some, 1);
    }
}

int main()
{
    const int n = 64;
    std::vector<int> in(n), want(5 * n);
    for (int i = 0; i < n; ++i)
        in[i] = (i * 37 + 11) % 101 - 20;
    for (int i = 0; i < n; ++i) {
        int first = i / 16 * 16, *w = &want[i];
        w[n] = w[2 * n] = in[first];
        for (int k = first; k < first + 16; ++k) {
            w[0] += in[k];
            w[n] = in[k] < w[n] ? in[k] : w[n];
            w[2 * n] = in[k] > w[2 * n] ? in[k] : w[2 * n];
            w[3 * n] ^= in[k];
        }
        w[4 * n] = w[0];
    }
    int *device = to_device(in), *out = zeros<int>(5 * n);
    reductions<<<1, n>>>(device, out);
    CHECK_KERNEL();
    expect("reductions", to_host(out, 5 * n) == want);

    for (int first = 0; first < n; first += 32)
        for (int i = first, sum = 0, most = in[first], threes = 0; i < first + 32; ++i) {
            want[n + i] = sum;
            want[i] = sum += in[i];
            want[2 * n + i] = most = in[i] > most ? in[i] : most;
            want[3 * n + i] = in[i] % 3 == 0 ? threes++ : 0;
        }
    want.resize(4 * n);
    scans<<<1, n>>>(device, out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 4 * n);
    expect("scans", got == want);
    printf("%d %d %d %d\n", got[31], got[95], got[191], got[255]);
    return failures;
}
