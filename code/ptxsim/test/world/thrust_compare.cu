// Thrust with an order of one's own: a stable sort of structs (a merge sort), lower_bound, and
// unique by a predicate.
#include <thrust/binary_search.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

#include <algorithm>

#include "check.h"

struct Item {
    short group, number;
};

struct ByGroup {
    __host__ __device__ bool operator()(const Item &a, const Item &b) const
    {
        return a.group < b.group;
    }
};

struct SameGroup {
    __host__ __device__ bool operator()(const Item &a, const Item &b) const
    {
        return a.group == b.group;
    }
};

static bool same(const std::vector<Item> &a, const std::vector<Item> &b)
{
    bool equal = a.size() == b.size();
    for (size_t i = 0; equal && i < a.size(); ++i)
        equal = a[i].group == b[i].group && a[i].number == b[i].number;
    return equal;
}

int main()
{
    const int n = 3000;
    std::vector<Item> in(n);
    for (int i = 0; i < n; ++i)
        in[i] = {(short)(i * 7919 % 97), (short)i};
    thrust::device_vector<Item> items(in.begin(), in.end());
    thrust::stable_sort(items.begin(), items.end(), ByGroup());
    std::vector<Item> want = in, got(n);
    std::stable_sort(want.begin(), want.end(), ByGroup());
    thrust::copy(items.begin(), items.end(), got.begin());
    expect("stable_sort", same(got, want));

    Item sought = {50, 0};
    auto found = thrust::lower_bound(items.begin(), items.end(), sought, ByGroup());
    auto place = std::lower_bound(want.begin(), want.end(), sought, ByGroup());
    expect("lower_bound", found - items.begin() == place - want.begin());

    auto end = thrust::unique(items.begin(), items.end(), SameGroup());
    want.erase(std::unique(want.begin(), want.end(), SameGroup()), want.end());
    got.resize(end - items.begin());
    thrust::copy(items.begin(), end, got.begin());
    expect("unique", same(got, want));
    printf("%zu groups, first %d, last %d\n", got.size(), got.front().number, got.back().number);
    return failures;
}
