// texture.h: textures and surfaces, which cudart/extra/arrays.c makes and the operations read.
#ifndef PTXSIM_TEXTURE_H
#define PTXSIM_TEXTURE_H

#include <stdbool.h>
#include <stdint.h>

enum address_mode { ADDRESS_WRAP, ADDRESS_CLAMP, ADDRESS_MIRROR, ADDRESS_BORDER }; // as CUDA's

struct texture { // or a surface
    uint8_t *data;
    uint32_t size[3];      // texels; 1 in dimensions that it does not have
    uint32_t layers;       // 0: not layered; in a cube, a layer is six faces
    bool cube;             // faces of two dimensions, read by a direction
    uint64_t pitch, slice; // bytes from a row to the next, from a slice or layer to the next
    uint8_t dimensions;
    uint8_t channels, channel_bytes; // 1, 2 or 4 of 1, 2 or 4 bytes
    bool is_signed, is_float;        // the channels; neither: unsigned
    bool is_surface;
    bool constant; // no kernel can write it, so it cannot race
    // Of a texture
    bool linear_memory;             // for tex1Dfetch: 0 past its ends
    bool normalised_coordinates;    // coordinates run from 0 to 1, not from 0 to the size
    bool normalised_values, filter; // integers are read as 0 to 1 or -1 to 1; linear filtering
    uint8_t mode[3];                // enum address_mode
    float border[4];
};

// The handle of a texture, which must stay in place until it is removed. As for allocations, calls
// that change the table never run during a launch.
uint64_t texture_add(const struct texture *texture);
void texture_remove(uint64_t handle);

#endif
