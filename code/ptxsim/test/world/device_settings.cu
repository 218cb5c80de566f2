// What older courses, or courses for several GPUs, set and ask, though one GPU has no choice there:
// the width of shared memory's banks, access to peers, devices by their bus, streams that own memory.
#include "check.h"

__global__ void add(int *values)
{
    values[threadIdx.x] += threadIdx.x;
}

static void say(const char *what, cudaError_t error)
{
    printf("%s: %s\n", what, cudaGetErrorName(error));
    (void)cudaGetLastError();
}

int main()
{
    cudaSharedMemConfig banks = cudaSharedMemBankSizeDefault;
    CHECK(cudaDeviceGetSharedMemConfig(&banks));
    printf("banks %d\n", (int)banks);
    say("eight bytes", cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte));
    CHECK(cudaDeviceGetSharedMemConfig(&banks));
    printf("banks %d\n", (int)banks);
    say("of a kernel", cudaFuncSetSharedMemConfig(add, cudaSharedMemBankSizeFourByte));
    say("of no kernel", cudaFuncSetSharedMemConfig(&banks, cudaSharedMemBankSizeFourByte));
    say("no such width", cudaDeviceSetSharedMemConfig((cudaSharedMemConfig)9));
    say("nowhere", cudaDeviceGetSharedMemConfig(nullptr));

    char bus[32];
    int device = -1;
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    CHECK(cudaDeviceGetByPCIBusId(&device, bus));
    printf("by its bus: device %d\n", device);
    say("another bus", cudaDeviceGetByPCIBusId(&device, "00ff:1f:1f.7"));
    say("no bus", cudaDeviceGetByPCIBusId(&device, "bus"));
    int valid[] = {0};
    say("valid devices", cudaSetValidDevices(valid, 1));
    say("a device that is not", cudaSetValidDevices((valid[0] = 99, valid), 1));

    say("its own peer", cudaDeviceEnablePeerAccess(0, 0));
    say("a peer that is not", cudaDeviceEnablePeerAccess(99, 0));
    say("with flags", cudaDeviceEnablePeerAccess(0, 1));
    say("not enabled", cudaDeviceDisablePeerAccess(0));
    say("none to disable", cudaDeviceDisablePeerAccess(99));

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    device = -1;
    CHECK(cudaStreamGetDevice(stream, &device));
    printf("stream of device %d\n", device);
    int *managed, *own = zeros<int>(32);
    CHECK(cudaMallocManaged(&managed, 32 * sizeof(int), cudaMemAttachHost));
    for (int i = 0; i < 32; ++i)
        managed[i] = 100 * i;
    say("attached", cudaStreamAttachMemAsync(stream, managed, 0, cudaMemAttachSingle));
    CHECK(cudaStreamSynchronize(stream));
    add<<<1, 32, 0, stream>>>(managed);
    CHECK(cudaStreamSynchronize(stream));
    bool right = true;
    for (int i = 0; i < 32; ++i)
        right = right && managed[i] == 101 * i;
    expect("a kernel of its stream", right);
    say("to all", cudaStreamAttachMemAsync(stream, managed, 32 * sizeof(int), cudaMemAttachGlobal));
    say("part of it", cudaStreamAttachMemAsync(stream, managed, 4, cudaMemAttachGlobal));
    say("no such flag", cudaStreamAttachMemAsync(stream, managed, 0, 9));
    say("memory of the device", cudaStreamAttachMemAsync(stream, own, 0, cudaMemAttachSingle));
    say("single, of no stream", cudaStreamAttachMemAsync(nullptr, managed, 0, cudaMemAttachSingle));
    CHECK(cudaStreamSynchronize(stream));
    return failures;
}
