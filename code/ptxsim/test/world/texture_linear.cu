// Texture objects over linear memory: elements fetched by tex1Dfetch, as integers and as normalised
// floats, int4 elements, and rows with a pitch read by tex2D.
#include "check.h"

__global__ void fetch(cudaTextureObject_t words, cudaTextureObject_t bytes,
                      cudaTextureObject_t vectors, int *out)
{
    int i = threadIdx.x;
    int4 four = tex1Dfetch<int4>(vectors, i / 4);
    out[i] = tex1Dfetch<int>(words, 63 - i) + four.x + four.w;
    out[64 + i] = (int)(tex1Dfetch<float>(bytes, i) * 255 + 0.5f);
}

__global__ void rows(cudaTextureObject_t image, int *out)
{
    int x = threadIdx.x, y = threadIdx.y;
    // Texels are sampled at their centres; coordinates outside are clamped to the edge.
    out[y * 16 + x] = (int)tex2D<float>(image, x - 2 + 0.5f, y - 1 + 0.5f);
}

int main()
{
    std::vector<int> words(64);
    std::vector<unsigned char> bytes(64);
    for (int i = 0; i < 64; ++i) {
        words[i] = i * i;
        bytes[i] = 4 * i;
    }
    int *device = to_device(words);
    unsigned char *small = to_device(bytes);
    cudaTextureObject_t texture[4];
    cudaResourceDesc resource = {};
    cudaTextureDesc reading = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = device;
    resource.res.linear.sizeInBytes = 64 * sizeof(int);
    resource.res.linear.desc = cudaCreateChannelDesc<int>();
    reading.readMode = cudaReadModeElementType;
    CHECK(cudaCreateTextureObject(&texture[0], &resource, &reading, nullptr));
    resource.res.linear.desc = cudaCreateChannelDesc<int4>();
    CHECK(cudaCreateTextureObject(&texture[2], &resource, &reading, nullptr));
    resource.res.linear.devPtr = small;
    resource.res.linear.sizeInBytes = 64;
    resource.res.linear.desc = cudaCreateChannelDesc<unsigned char>();
    reading.readMode = cudaReadModeNormalizedFloat;
    CHECK(cudaCreateTextureObject(&texture[1], &resource, &reading, nullptr));
    int *out = zeros<int>(128);
    fetch<<<1, 64>>>(texture[0], texture[1], texture[2], out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 128);
    bool right = true;
    for (int i = 0; i < 64; ++i)
        right = right && got[64 + i] == 4 * i &&
                got[i] == words[63 - i] + words[i / 4 * 4] + words[i / 4 * 4 + 3];
    expect("fetched", right);

    float image[6][12], *rows_of;
    size_t pitch;
    for (int i = 0; i < 72; ++i)
        image[i / 12][i % 12] = 100 * (i / 12) + i % 12;
    CHECK(cudaMallocPitch(&rows_of, &pitch, sizeof image[0], 6));
    CHECK(cudaMemcpy2D(rows_of, pitch, image, sizeof image[0], sizeof image[0], 6,
                       cudaMemcpyHostToDevice));
    resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D = {rows_of, cudaCreateChannelDesc<float>(), 12, 6, pitch};
    reading = {};
    reading.addressMode[0] = reading.addressMode[1] = cudaAddressModeClamp;
    reading.filterMode = cudaFilterModePoint;
    CHECK(cudaCreateTextureObject(&texture[3], &resource, &reading, nullptr));
    rows<<<1, dim3(16, 8)>>>(texture[3], out);
    CHECK_KERNEL();
    got = to_host(out, 128);
    for (int y = 0; y < 8; y += 7)
        printf("%d %d %d %d %d\n", got[16 * y], got[16 * y + 2], got[16 * y + 7], got[16 * y + 13],
               got[16 * y + 15]);
    for (cudaTextureObject_t one : texture)
        CHECK(cudaDestroyTextureObject(one));
    return failures;
}
