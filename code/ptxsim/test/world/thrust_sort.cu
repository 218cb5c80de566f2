// Thrust: sort, unique, reduce_by_key, transform_reduce and exclusive_scan on device vectors of
// int.
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

#include <algorithm>
#include <map>

#include "check.h"

struct Square {
    __host__ __device__ int operator()(int x) const
    {
        return x * x;
    }
};

int main()
{
    const int n = 5000;
    std::vector<int> in(n);
    for (int i = 0; i < n; ++i)
        in[i] = (int)(i * 2654435761u >> 20) % 700;
    thrust::device_vector<int> keys(in.begin(), in.end()), ones(n, 1);
    std::vector<int> sorted = in;
    std::sort(sorted.begin(), sorted.end());
    thrust::sort(keys.begin(), keys.end());
    std::vector<int> got(n);
    thrust::copy(keys.begin(), keys.end(), got.begin());
    expect("sort", got == sorted);

    thrust::device_vector<int> labels(n), counts(n);
    auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), ones.begin(), labels.begin(),
                                      counts.begin());
    std::map<int, int> histogram;
    for (int value : in)
        ++histogram[value];
    int different = ends.first - labels.begin();
    bool right = different == (int)histogram.size();
    int at = 0;
    for (auto &entry : histogram) {
        right = right && labels[at] == entry.first && counts[at] == entry.second;
        ++at;
    }
    expect("reduce_by_key", right);

    auto end = thrust::unique(keys.begin(), keys.end());
    expect("unique",
           end - keys.begin() == different && thrust::equal(keys.begin(), end, labels.begin()));
    int squares = thrust::transform_reduce(keys.begin(), end, Square(), 0, thrust::plus<int>());
    int want = 0;
    for (auto &entry : histogram)
        want += entry.first * entry.first;
    expect("transform_reduce", squares == want);

    thrust::exclusive_scan(thrust::device, counts.begin(), counts.begin() + different,
                           counts.begin());
    expect("exclusive_scan", counts[different - 1] == n - histogram.rbegin()->second);
    printf("%d different of %d, sum of squares %d\n", different, n, squares);
    return failures;
}
