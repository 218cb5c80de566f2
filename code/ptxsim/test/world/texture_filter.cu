// Textures over arrays, as courses use them: linear filtering, normalised coordinates, the four
// address modes, a layered array. Coordinates are multiples of 1/8 of a texel, so that the nine-bit
// weights of the filter are exact.
#include "check.h"

constexpr int WIDTH = 8, HEIGHT = 4;

__global__ void along(cudaTextureObject_t texture, float scale, float *out)
{
    // 18 samples from before the row to after it, through row 1's centre, none on a texel's edge.
    float x = (threadIdx.x * 0.75f - 2.875f) * scale;
    out[threadIdx.x] = tex2D<float>(texture, x, 1.5f * (scale < 1 ? 1.0f / HEIGHT : 1));
}

__global__ void between(cudaTextureObject_t texture, float *out)
{
    out[threadIdx.x] = tex2D<float>(texture, 2.5f + threadIdx.x / 8.0f, 1.5f + threadIdx.x / 4.0f);
}

__global__ void layers(cudaTextureObject_t texture, float *out)
{
    out[threadIdx.x] = tex2DLayered<float>(texture, threadIdx.x + 0.5f, 0.5f, threadIdx.x % 3);
}

static cudaTextureObject_t texture_of(cudaArray_t array, cudaTextureAddressMode mode, bool linear,
                                      bool normalised)
{
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc reading = {};
    for (int i = 0; i < 3; ++i)
        reading.addressMode[i] = mode;
    reading.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    reading.readMode = cudaReadModeElementType;
    reading.normalizedCoords = normalised;
    reading.borderColor[0] = -1;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &reading, nullptr));
    return texture;
}

static void show(const char *what, const float *out, int n)
{
    CHECK_KERNEL();
    printf("%s:", what);
    for (float value : to_host(out, n))
        printf(" %g", value);
    printf("\n");
}

int main()
{
    float image[HEIGHT][WIDTH], volume[3][HEIGHT][WIDTH], *out = zeros<float>(32);
    for (int i = 0; i < WIDTH * HEIGHT; ++i)
        image[i / WIDTH][i % WIDTH] = 64 * (i / WIDTH) + 8 * (i % WIDTH);
    for (int i = 0; i < 3 * WIDTH * HEIGHT; ++i)
        volume[i / 32][i / 8 % 4][i % 8] = i;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array, stack;
    CHECK(cudaMallocArray(&array, &format, WIDTH, HEIGHT));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, image, sizeof image[0], sizeof image[0], HEIGHT,
                              cudaMemcpyHostToDevice));
    const char *names[] = {"wrap", "clamp", "mirror", "border"};
    for (int mode = 0; mode < 4; ++mode) {
        bool normalised = mode == cudaAddressModeWrap || mode == cudaAddressModeMirror;
        auto texture = texture_of(array, (cudaTextureAddressMode)mode, false, normalised);
        along<<<1, 18>>>(texture, normalised ? 1.0f / WIDTH : 1, out);
        show(names[mode], out, 18);
        CHECK(cudaDestroyTextureObject(texture));
    }
    auto smooth = texture_of(array, cudaAddressModeClamp, true, false);
    between<<<1, 16>>>(smooth, out);
    show("linear", out, 16);
    auto repeated = texture_of(array, cudaAddressModeWrap, true, true);
    along<<<1, 18>>>(repeated, 1.0f / WIDTH, out);
    show("linear, wrap", out, 18);

    CHECK(cudaMalloc3DArray(&stack, &format, make_cudaExtent(WIDTH, HEIGHT, 3), cudaArrayLayered));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(volume, WIDTH * sizeof(float), WIDTH, HEIGHT);
    copy.dstArray = stack;
    copy.extent = make_cudaExtent(WIDTH, HEIGHT, 3);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    layers<<<1, 8>>>(texture_of(stack, cudaAddressModeClamp, false, false), out);
    show("layers", out, 8);
    CHECK(cudaFreeArray(array));
    CHECK(cudaFreeArray(stack));
    return failures;
}
