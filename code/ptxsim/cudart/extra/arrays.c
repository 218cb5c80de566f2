// arrays.c: arrays, and the textures and surfaces by which kernels read and write them. An array
// lies in the device's memory row by row, without tiling.
#include "extra.h"
#include "ptxsim/ops/extra/texture.h"

#include <stdlib.h>

enum { MOST_TEXELS_1D = 131072, MOST_TEXELS = 32768, MOST_LAYERS = 2048 };
enum {
    KNOWN_FLAGS =
        cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayTextureGather | cudaArrayCubemap
};

struct cudaArray {
    struct cudaChannelFormatDesc format;
    struct cudaExtent extent; // as the program gave it; 0: the array lacks that dimension
    unsigned flags;
    struct texture texels; // the array's elements
    struct cudaArray *next;
};

static struct cudaArray *arrays;

static const struct cudaArray *array_find(cudaArray_const_t handle)
{
    for (const struct cudaArray *a = arrays; a; a = a->next)
        if (a == handle)
            return a;
    return NULL;
}

// ---- Formats ------------------------------------------------------------------------------------

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

// Sets in *t the channels of a format; returns false if there is no such format.
static bool take_format(const struct cudaChannelFormatDesc *f, struct texture *t)
{
    const int bits[] = {f->x, f->y, f->z, f->w};
    t->channels = 0;
    while (t->channels < 4 && bits[t->channels] == f->x)
        t->channels++;
    for (int i = t->channels; i < 4; ++i)
        if (bits[i] != 0)
            return false;
    t->channel_bytes = (uint8_t)(f->x / 8);
    t->is_signed = f->f == cudaChannelFormatKindSigned;
    t->is_float = f->f == cudaChannelFormatKindFloat;
    return t->channels != 3 && (f->x == 8 || f->x == 16 || f->x == 32) &&
           (t->is_signed || f->f == cudaChannelFormatKindUnsigned || (t->is_float && f->x != 8));
}

// ---- Arrays -------------------------------------------------------------------------------------

size_t array_element(cudaArray_const_t array)
{
    return (size_t)array->texels.channels * array->texels.channel_bytes;
}

static cudaError_t array_new(const struct cudaChannelFormatDesc *format, struct cudaExtent extent,
                             unsigned flags, struct cudaArray **array)
{
    struct cudaArray a = {.format = *format, .extent = extent, .flags = flags};
    bool cube = flags & cudaArrayCubemap, layered = cube || flags & cudaArrayLayered;
    size_t rows = extent.height ? extent.height : 1, slices = extent.depth ? extent.depth : 1;
    if (!take_format(format, &a.texels) || extent.width == 0 || extent.width > MOST_TEXELS_1D ||
        rows > MOST_TEXELS || slices > MOST_LAYERS * 8 ||
        (layered ? extent.depth == 0 || slices > MOST_LAYERS : extent.depth && !extent.height))
        return cudaErrorInvalidValue;
    if (cube && (extent.width != extent.height || slices % 6 ||
                 (!(flags & cudaArrayLayered) && slices != 6)))
        return cudaErrorInvalidValue;
    if (flags & ~(unsigned)KNOWN_FLAGS) {
        complain("cudaMalloc3DArray: sparse arrays are not supported");
        return cudaErrorNotSupported;
    }
    struct texture *t = &a.texels;
    t->size[0] = (uint32_t)extent.width;
    t->size[1] = (uint32_t)rows;
    t->size[2] = layered ? 1 : (uint32_t)slices;
    t->layers = layered ? (uint32_t)slices : 0;
    t->cube = cube;
    t->dimensions = (uint8_t)(extent.depth && !layered ? 3 : extent.height ? 2 : 1);
    t->pitch = (extent.width * array_element(&a) + 31) / 32 * 32;
    t->slice = t->pitch * rows;
    t->constant = !(flags & cudaArraySurfaceLoadStore);
    *array = malloc(sizeof **array);
    t->data = *array ? memory_alloc(t->slice * slices) : NULL;
    if (!t->data) {
        free(*array);
        return cudaErrorMemoryAllocation;
    }
    memory_track(t->data);
    a.next = arrays;
    **array = a;
    arrays = *array;
    return cudaSuccess;
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format,
                              struct cudaExtent extent, unsigned flags)
{
    API_ENTER();
    if (!array || !format)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = capture_forbids();
    return api_result(error == cudaSuccess ? array_new(format, extent, flags, array) : error);
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format,
                            size_t width, size_t height, unsigned flags)
{
    return cudaMalloc3DArray(array, format, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t cudaFreeArray(cudaArray_t handle)
{
    API_ENTER();
    for (struct cudaArray **a = &arrays; *a; a = &(*a)->next)
        if (*a == handle) {
            *a = handle->next;
            // A later read of the array through a texture finds its memory freed.
            memory_free(handle->texels.data);
            free(handle);
            return cudaSuccess;
        }
    return api_result(handle ? cudaErrorInvalidResourceHandle : cudaSuccess);
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *format, struct cudaExtent *extent,
                             unsigned *flags, cudaArray_t handle)
{
    API_ENTER();
    const struct cudaArray *array = array_find(handle);
    if (!array)
        return api_result(cudaErrorInvalidResourceHandle);
    if (format)
        *format = array->format;
    if (extent)
        *extent = array->extent;
    if (flags)
        *flags = array->flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *format, cudaArray_const_t array)
{
    return cudaArrayGetInfo(format, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}

// ---- Copies -------------------------------------------------------------------------------------

cudaError_t array_side(cudaArray_const_t handle, const struct cudaPos *at,
                       const struct cudaExtent *extent, struct side *side)
{
    const struct cudaArray *array = array_find(handle);
    if (!array)
        return cudaErrorInvalidResourceHandle;
    const struct texture *t = &array->texels;
    const size_t from[] = {at->x, at->y, at->z},
                 count[] = {extent->width, extent->height, extent->depth};
    const size_t size[] = {t->size[0], t->size[1], t->layers ? t->layers : t->size[2]};
    for (int i = 0; i < 3; ++i)
        if (!within(from[i], count[i], size[i]))
            return cudaErrorInvalidValue;
    side->pitch = t->pitch;
    side->slice = t->slice;
    side->at = (char *)t->data + at->x * array_element(array) + at->y * t->pitch + at->z * t->slice;
    return cudaSuccess;
}

// Copies rows of `width` bytes between memory and an array, from byte x of the array's row y on.
static cudaError_t copy_rows(cudaArray_const_t array, size_t x, size_t y, char *memory,
                             size_t pitch, size_t width, size_t height, bool to_array,
                             enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct side side;
    struct task task;
    if (!array_find(array))
        return cudaErrorInvalidResourceHandle;
    size_t element = array_element(array);
    if (x % element || width % element)
        return cudaErrorInvalidValue;
    cudaError_t error = array_side(array, &(struct cudaPos){x / element, y, 0},
                                   &(struct cudaExtent){width / element, height, 1}, &side);
    if (error == cudaSuccess)
        error = to_array
                    ? copy_task(side.at, side.pitch, memory, pitch, width, height, kind, &task)
                    : copy_task(memory, pitch, side.at, side.pitch, width, height, kind, &task);
    if (error != cudaSuccess || task.kind == TASK_NOTHING)
        return error;
    return stream_submit(stream, &task);
}

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t array, size_t x, size_t y, const void *from,
                                     size_t pitch, size_t width, size_t height,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    API_ENTER();
    return api_result(
        copy_rows(array, x, y, (char *)(uintptr_t)from, pitch, width, height, true, kind, stream));
}
ALSO(cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync_ptsz);

cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t array, size_t x,
                                       size_t y, size_t width, size_t height,
                                       enum cudaMemcpyKind kind, cudaStream_t stream)
{
    API_ENTER();
    return api_result(copy_rows(array, x, y, to, pitch, width, height, false, kind, stream));
}
ALSO(cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync_ptsz);

cudaError_t cudaMemcpy2DToArray(cudaArray_t array, size_t x, size_t y, const void *from,
                                size_t pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    API_ENTER();
    return stream_waited_after(
        cudaMemcpy2DToArrayAsync(array, x, y, from, pitch, width, height, kind, NULL));
}
ALSO(cudaMemcpy2DToArray, cudaMemcpy2DToArray_ptds);

cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t array, size_t x,
                                  size_t y, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    API_ENTER();
    return stream_waited_after(
        cudaMemcpy2DFromArrayAsync(to, pitch, array, x, y, width, height, kind, NULL));
}
ALSO(cudaMemcpy2DFromArray, cudaMemcpy2DFromArray_ptds);

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y,
                                     cudaArray_const_t from, size_t x, size_t y, size_t width,
                                     size_t height, enum cudaMemcpyKind kind)
{
    API_ENTER();
    struct side side;
    const struct cudaArray *source = array_find(from);
    if (!source || x % array_element(source) || width % array_element(source))
        return api_result(cudaErrorInvalidValue);
    size_t element = array_element(source);
    cudaError_t error = array_side(source, &(struct cudaPos){x / element, y, 0},
                                   &(struct cudaExtent){width / element, height, 1}, &side);
    if (error == cudaSuccess)
        error = copy_rows(to, to_x, to_y, side.at, side.pitch, width, height, true, kind, NULL);
    return api_result(error);
}
ALSO(cudaMemcpy2DArrayToArray, cudaMemcpy2DArrayToArray_ptds);

// Copies bytes between memory and the beginning of an array, to the array if `into` is true: part
// of the first row, or whole rows. Other copies have to use cudaMemcpy2DToArray and the like.
static cudaError_t copy_first(cudaArray_const_t array, size_t x, size_t y, char *memory,
                              size_t bytes, bool into, enum cudaMemcpyKind kind)
{
    const struct cudaArray *a = array_find(array);
    size_t row = a ? a->texels.size[0] * array_element(a) : 0;
    if (!a || x || y || bytes > row * a->texels.size[1] || (bytes > row && bytes % row))
        return api_result(cudaErrorInvalidValue);
    size_t width = bytes < row ? bytes : row;
    return stream_waited_after(api_result(
        copy_rows(array, 0, 0, memory, width, width, width ? bytes / width : 0, into, kind, NULL)));
}

#pragma GCC diagnostic push // older programs call these
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
cudaError_t cudaMemcpyToArray(cudaArray_t array, size_t x, size_t y, const void *from, size_t bytes,
                              enum cudaMemcpyKind kind)
{
    API_ENTER();
    return copy_first(array, x, y, (char *)(uintptr_t)from, bytes, true, kind);
}
ALSO(cudaMemcpyToArray, cudaMemcpyToArray_ptds);

cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t array, size_t x, size_t y, size_t bytes,
                                enum cudaMemcpyKind kind)
{
    API_ENTER();
    return copy_first(array, x, y, to, bytes, false, kind);
}
ALSO(cudaMemcpyFromArray, cudaMemcpyFromArray_ptds);
#pragma GCC diagnostic pop

// ---- Objects ------------------------------------------------------------------------------------

struct object { // a texture object or a surface object
    struct texture texture;
    struct cudaResourceDesc resource;
    uint64_t handle;
    struct object *next;
};

static struct object *objects;

static struct object **object_find(uint64_t handle, bool surface)
{
    struct object **o = &objects;
    while (*o && ((*o)->handle != handle || (*o)->texture.is_surface != surface))
        o = &(*o)->next;
    return o;
}

// Describes the texels of a resource in *t.
static cudaError_t resource_texels(const struct cudaResourceDesc *resource, struct texture *t)
{
    *t = (struct texture){.size = {1, 1, 1}};
    if (resource->resType == cudaResourceTypeArray) {
        const struct cudaArray *array = array_find(resource->res.array.array);
        if (array)
            *t = array->texels;
        return array ? cudaSuccess : cudaErrorInvalidResourceHandle;
    }
    if (resource->resType == cudaResourceTypeLinear) {
        if (!take_format(&resource->res.linear.desc, t))
            return cudaErrorInvalidChannelDescriptor;
        t->data = resource->res.linear.devPtr;
        t->size[0] = (uint32_t)(resource->res.linear.sizeInBytes / t->channels / t->channel_bytes);
        t->dimensions = 1;
        t->linear_memory = true;
    } else if (resource->resType == cudaResourceTypePitch2D) {
        if (!take_format(&resource->res.pitch2D.desc, t))
            return cudaErrorInvalidChannelDescriptor;
        t->data = resource->res.pitch2D.devPtr;
        t->size[0] = (uint32_t)resource->res.pitch2D.width;
        t->size[1] = (uint32_t)resource->res.pitch2D.height;
        t->pitch = resource->res.pitch2D.pitchInBytes;
        t->dimensions = 2;
    } else {
        complain("textures of mipmapped arrays are not supported");
        return cudaErrorNotSupported;
    }
    size_t bytes =
        t->size[0] * (size_t)t->channels * t->channel_bytes + (t->size[1] - 1) * t->pitch;
    return t->size[0] && t->size[1] && memory_find((uint64_t)(uintptr_t)t->data, bytes, NULL)
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

// Sets in *t how the texture is read.
static cudaError_t take_reading(const struct cudaTextureDesc *reading, struct texture *t)
{
    t->normalised_coordinates = reading->normalizedCoords && !t->linear_memory;
    t->normalised_values = reading->readMode == cudaReadModeNormalizedFloat && !t->is_float;
    t->filter = reading->filterMode == cudaFilterModeLinear && !t->linear_memory;
    if (t->normalised_values && t->channel_bytes == 4)
        return cudaErrorInvalidNormSetting;
    if (t->filter && !t->is_float && !t->normalised_values)
        return cudaErrorInvalidFilterSetting;
    if (reading->sRGB || reading->maxAnisotropy > 1) {
        complain("cudaCreateTextureObject: sRGB and anisotropic filters are not supported");
        return cudaErrorNotSupported;
    }
    for (int i = 0; i < 3; ++i) {
        t->mode[i] = (uint8_t)reading->addressMode[i];
        if (!t->normalised_coordinates && t->mode[i] != ADDRESS_BORDER)
            t->mode[i] = ADDRESS_CLAMP; // other modes need normalised coordinates
    }
    for (int i = 0; i < 4; ++i)
        t->border[i] = reading->borderColor[i];
    return cudaSuccess;
}

static cudaError_t object_new(const struct cudaResourceDesc *resource,
                              const struct cudaTextureDesc *reading, uint64_t *handle)
{
    struct object o = {.resource = *resource};
    cudaError_t error = resource_texels(resource, &o.texture);
    if (error == cudaSuccess && reading)
        error = take_reading(reading, &o.texture);
    if (error == cudaSuccess && !reading &&
        (o.texture.constant || !array_find(resource->res.array.array)))
        error = cudaErrorInvalidValue; // the array was made without the flag for surfaces
    if (error != cudaSuccess)
        return error;
    struct object *object = malloc(sizeof *object);
    if (!object)
        return cudaErrorMemoryAllocation;
    *object = o;
    object->texture.is_surface = !reading;
    object->handle = *handle = texture_add(&object->texture);
    object->next = objects;
    objects = object;
    return cudaSuccess;
}

static cudaError_t object_free(uint64_t handle, bool surface)
{
    struct object **o = object_find(handle, surface), *object = *o;
    if (!object)
        return handle ? cudaErrorInvalidValue : cudaSuccess;
    *o = object->next;
    texture_remove(handle);
    free(object);
    return cudaSuccess;
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *texture,
                                    const struct cudaResourceDesc *resource,
                                    const struct cudaTextureDesc *reading,
                                    const struct cudaResourceViewDesc *view)
{
    API_ENTER();
    if (!texture || !resource || !reading)
        return api_result(cudaErrorInvalidValue);
    if (view && view->format != cudaResViewFormatNone) {
        complain(
            "cudaCreateTextureObject: views of a resource in another format are not supported");
        return api_result(cudaErrorNotSupported);
    }
    uint64_t handle = 0;
    cudaError_t error = object_new(resource, reading, &handle);
    *texture = handle;
    return api_result(error);
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texture)
{
    API_ENTER();
    return api_result(object_free(texture, false));
}

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *resource,
                                             cudaTextureObject_t texture)
{
    API_ENTER();
    struct object *object = *object_find(texture, false);
    if (!object || !resource)
        return api_result(cudaErrorInvalidValue);
    *resource = object->resource;
    return cudaSuccess;
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *surface,
                                    const struct cudaResourceDesc *resource)
{
    API_ENTER();
    if (!surface || !resource || resource->resType != cudaResourceTypeArray)
        return api_result(cudaErrorInvalidValue);
    uint64_t handle = 0;
    cudaError_t error = object_new(resource, NULL, &handle);
    *surface = handle;
    return api_result(error);
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surface)
{
    API_ENTER();
    return api_result(object_free(surface, true));
}
