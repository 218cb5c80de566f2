// tex2Dgather, as the filters of shadow maps and upscalers use it: one channel of the four texels that
// a linear filter would blend. Arrays have one channel or four, and their edges are tested, too. The
// filter mode makes no difference.
#include "check.h"

constexpr int WIDTH = 4, HEIGHT = 4;

template <class Four>
__global__ void gather(cudaTextureObject_t texture, float scale, int channel, Four *out)
{
    // All corners of texels, also those on the array's edges.
    float x = threadIdx.x * scale, y = threadIdx.y * scale;
    out[threadIdx.y * blockDim.x + threadIdx.x] = tex2Dgather<Four>(texture, x, y, channel);
}

static cudaTextureObject_t texture_of(cudaArray_t array, cudaTextureAddressMode mode,
                                      cudaTextureReadMode read, bool linear, bool normalised)
{
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc reading = {};
    reading.addressMode[0] = reading.addressMode[1] = mode;
    reading.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    reading.readMode = read;
    reading.normalizedCoords = normalised;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &reading, nullptr));
    return texture;
}

template <class Four> static void show(const char *what, const Four *out, int side)
{
    CHECK_KERNEL();
    printf("%s:", what);
    for (const Four &value : to_host(out, side * side))
        printf(" %g,%g,%g,%g", double(value.x), double(value.y), double(value.z), double(value.w));
    printf("\n");
}

int main()
{
    float image[HEIGHT][WIDTH];
    uchar4 pixels[HEIGHT][WIDTH];
    for (int i = 0; i < WIDTH * HEIGHT; ++i) {
        image[i / WIDTH][i % WIDTH] = float(10 * (i / WIDTH) + i % WIDTH);
        pixels[i / WIDTH][i % WIDTH] = make_uchar4(i, 51 * (i % 6), 100 + i, 255 - i);
    }
    auto one = cudaCreateChannelDesc<float>(), four = cudaCreateChannelDesc<uchar4>();
    cudaArray_t array, colours;
    CHECK(cudaMallocArray(&array, &one, WIDTH, HEIGHT, cudaArrayTextureGather));
    CHECK(cudaMallocArray(&colours, &four, WIDTH, HEIGHT, cudaArrayTextureGather));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, image, sizeof image[0], sizeof image[0], HEIGHT,
                              cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DToArray(colours, 0, 0, pixels, sizeof pixels[0], sizeof pixels[0], HEIGHT,
                              cudaMemcpyHostToDevice));

    float4 *out = zeros<float4>(64);
    auto read = cudaReadModeElementType;
    gather<<<1, dim3(5, 5)>>>(texture_of(array, cudaAddressModeClamp, read, false, false), 1, 0,
                              out);
    show("clamp", out, 5);
    gather<<<1, dim3(5, 5)>>>(texture_of(array, cudaAddressModeBorder, read, true, false), 1, 0,
                              out);
    show("border", out, 5);
    gather<<<1, dim3(5, 5)>>>(texture_of(array, cudaAddressModeWrap, read, false, true), 0.25f, 0,
                              out);
    show("wrap", out, 5);
    auto shares =
        texture_of(colours, cudaAddressModeClamp, cudaReadModeNormalizedFloat, true, false);
    gather<<<1, dim3(3, 3)>>>(shares, 1, 1, out);
    show("green", out, 3);

    uchar4 *bytes = zeros<uchar4>(64);
    auto texels = texture_of(colours, cudaAddressModeClamp, read, false, false);
    for (int channel = 0; channel < 4; ++channel) {
        gather<<<1, dim3(3, 3)>>>(texels, 1, channel, bytes);
        show("bytes", bytes, 3);
    }
    CHECK(cudaFreeArray(array));
    CHECK(cudaFreeArray(colours));
    return failures;
}
