// texture.h: textures and surfaces: what cudart/extra/arrays.c makes and the operations read.
#ifndef PTXSIM_TEXTURE_H
#define PTXSIM_TEXTURE_H

#include <stdbool.h>
#include <stdint.h>

enum address_mode { ADDRESS_WRAP, ADDRESS_CLAMP, ADDRESS_MIRROR, ADDRESS_BORDER }; // as CUDA's

struct texture { // or a surface
    uint8_t *data;
    uint32_t size[3];      // texels; those past the dimensions are 1
    uint32_t layers;       // 0: it is not layered; of a cube, six faces a layer
    bool cube;             // two dimensions, fetched by a direction
    uint64_t pitch, slice; // bytes from a row to the next, from a slice or layer to the next
    uint8_t dimensions;
    uint8_t channels, channel_bytes; // 1, 2 or 4 of 1, 2 or 4 bytes
    bool is_signed, is_float;        // the channels; neither: unsigned
    bool is_surface;
    bool constant; // no kernel can write it: it cannot race
    // Of a texture
    bool linear_memory;             // fetched by tex1Dfetch, 0 past its ends
    bool normalised_coordinates;    // a coordinate runs from 0 to 1, else from 0 to the size
    bool normalised_values, filter; // integers as 0 to 1 or -1 to 1; linear filtering
    uint8_t mode[3];                // enum address_mode
    float border[4];
};

// The handle of a texture, which must stay where it is until it is removed. Calls that change the
// table never run beside a launch, as with allocations.
uint64_t texture_add(const struct texture *texture);
void texture_remove(uint64_t handle);

#endif
