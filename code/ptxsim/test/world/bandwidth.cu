// The first program of every course: add two vectors, time it with events, print GB/s. The numbers
// go to stderr, since they differ; stdout says only that the calls succeeded. A simulator measures
// no time: NaN and any time above zero are both right.
#include <cmath>

#include "check.h"

__global__ void add(int n, const float *x, const float *y, float *z)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = x[i] + y[i];
}

int main()
{
    const int n = 1 << 18;
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; ++i) {
        x[i] = i % 1000;
        y[i] = 2 * (i % 500);
    }
    float *a = to_device(x), *b = to_device(y), *c = zeros<float>(n), milliseconds = -1;
    cudaEvent_t start, stop, untimed;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    add<<<(n + 255) / 256, 256>>>(n, a, b, c);
    CHECK(cudaEventRecord(start));
    add<<<(n + 255) / 256, 256>>>(n, a, b, c);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    fprintf(stderr, "%g ms, %g GB/s\n", milliseconds, 3.0 * n * sizeof(float) / milliseconds / 1e6);
    expect("elapsed time is a time or none", std::isnan(milliseconds) || milliseconds > 0);
    CHECK(cudaEventRecord(untimed));
    CHECK(cudaEventSynchronize(untimed));
    printf("without timing: %s\n",
           cudaGetErrorName(cudaEventElapsedTime(&milliseconds, start, untimed)));
    (void)cudaGetLastError();
    std::vector<float> z = to_host(c, n);
    float error = 0;
    for (int i = 0; i < n; ++i)
        error = std::fmax(error, std::fabs(z[i] - x[i] - y[i]));
    printf("max error %g\n", error);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaEventDestroy(untimed));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
    return failures;
}
