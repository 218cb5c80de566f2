// What a program asks about its device before it begins. Only what is true of every GPU since 2020
// is printed; the rest is checked for consistency.
#include <cstring>

#include "check.h"

static int attribute(cudaDeviceAttr which)
{
    int value = -1;
    CHECK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

int main()
{
    int count = 0, device = -1, driver = 0, runtime = 0, peer = 9;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDevice(&device));
    printf("at least one device %d, device %d\n", count >= 1, device);
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, 0));
    fprintf(stderr, "%s, %d.%d\n", p.name, p.major, p.minor);
    printf("warp %d, block %d, block's sides %d %d %d\n", p.warpSize, p.maxThreadsPerBlock,
           p.maxThreadsDim[0], p.maxThreadsDim[1], p.maxThreadsDim[2]);
    printf("grid %d %d %d\n", p.maxGridSize[0], p.maxGridSize[1], p.maxGridSize[2]);
    printf("shared %zu, registers %d, constant %zu\n", p.sharedMemPerBlock, p.regsPerBlock,
           p.totalConstMem);
    expect("name", strlen(p.name) > 0 && p.major >= 8);
    expect("sizes", p.totalGlobalMem > 1u << 30 && p.l2CacheSize > 1 << 20);
    expect("shared memory", p.sharedMemPerBlockOptin > p.sharedMemPerBlock &&
                                p.sharedMemPerMultiprocessor >= p.sharedMemPerBlockOptin);
    expect("can", p.concurrentKernels && p.cooperativeLaunch && p.managedMemory &&
                      p.unifiedAddressing && p.canMapHostMemory);
    expect("attributes agree",
           attribute(cudaDevAttrMultiProcessorCount) == p.multiProcessorCount &&
               attribute(cudaDevAttrMaxThreadsPerMultiProcessor) == p.maxThreadsPerMultiProcessor &&
               attribute(cudaDevAttrComputeCapabilityMajor) == p.major &&
               attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) == (int)p.sharedMemPerBlockOptin);
    expect("clocks", attribute(cudaDevAttrClockRate) > 100000 &&
                         attribute(cudaDevAttrMemoryClockRate) > 100000 &&
                         attribute(cudaDevAttrGlobalMemoryBusWidth) >= 64);
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    expect("versions", driver >= runtime && runtime >= 12000);
    size_t available = 0, total = 0;
    CHECK(cudaMemGetInfo(&available, &total));
    expect("memory", available > 0 && available <= total);
    char bus[32] = "";
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    expect("bus", strlen(bus) >= 12 && bus[4] == ':');
    CHECK(cudaDeviceCanAccessPeer(&peer, 0, 0));
    printf("its own peer %d\n", peer);
    cudaDeviceProp wanted = {};
    CHECK(cudaChooseDevice(&device, &wanted));
    expect("chosen", device >= 0 && device < count);
    printf("device 99: %s\n", cudaGetErrorName(cudaSetDevice(99)));
    printf("properties: %s\n", cudaGetErrorName(cudaGetDeviceProperties(&p, -1)));
    printf("attribute: %s\n",
           cudaGetErrorName(cudaDeviceGetAttribute(&device, (cudaDeviceAttr)9999, 0)));
    printf("last: %s\n", cudaGetErrorName(cudaGetLastError()));
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceReset());
    return failures;
}
