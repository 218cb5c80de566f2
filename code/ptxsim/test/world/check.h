// What the programs of this folder share: every CUDA call is checked, and every result is one line.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <vector>

// Ends the program with a line on stderr where `call` has failed.
#define CHECK(call) check_call((call), #call, __FILE__, __LINE__)

inline void check_call(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s:%d: %s: %s: %s\n", file, line, call, cudaGetErrorName(error),
            cudaGetErrorString(error));
    exit(1);
}

// After a launch: ends the program if the launch was refused or the kernel failed.
#define CHECK_KERNEL() (CHECK(cudaGetLastError()), CHECK(cudaDeviceSynchronize()))

inline int failures; // what `main` returns

// Prints "WHAT: right" or "WHAT: WRONG".
inline void expect(const char *what, bool right)
{
    printf("%s: %s\n", what, right ? "right" : "WRONG");
    failures += !right;
}

// A new array on the device, with a copy of `values`.
template <class T> T *to_device(const std::vector<T> &values)
{
    T *array;
    CHECK(cudaMalloc(&array, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(array, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return array;
}

// A new array of `count` zeros on the device.
template <class T> T *zeros(size_t count)
{
    T *array;
    CHECK(cudaMalloc(&array, count * sizeof(T)));
    CHECK(cudaMemset(array, 0, count * sizeof(T)));
    return array;
}

// The `count` elements of a device array, once the device has finished.
template <class T> std::vector<T> to_host(const T *array, size_t count)
{
    std::vector<T> values(count);
    CHECK(cudaMemcpy(values.data(), array, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}
