// texture.h: textures and surfaces, which cudart/extra/arrays.c makes and the operations read.
#ifndef PTXSIM_TEXTURE_H
#define PTXSIM_TEXTURE_H

#include <stdbool.h>
#include <stdint.h>

// Numbered as in CUDA.
enum address_mode { ADDRESS_WRAP, ADDRESS_CLAMP, ADDRESS_MIRROR, ADDRESS_BORDER };

struct texture { // a texture or a surface
    uint8_t *data;
    uint32_t size[3];      // texels in each dimension; 1: the texture lacks that dimension
    uint32_t layers;       // 0: not layered. Of a cube: its faces, six for each layer
    bool cube;             // square faces, read by a direction
    uint64_t pitch, slice; // bytes from a row to the next, from a slice or layer to the next
    uint8_t dimensions;
    uint8_t channels, channel_bytes; // 1, 2 or 4 channels of 1, 2 or 4 bytes
    bool is_signed, is_float;        // both false: unsigned integers
    bool is_surface;
    bool constant; // no kernel can write it, so its reads cannot race
    // For textures, not for surfaces:
    bool linear_memory;          // linear memory, for tex1Dfetch: reads past its ends give 0
    bool normalised_coordinates; // coordinates run from 0 to 1, not from 0 to the size
    // normalised_values: integers are read as 0 to 1, or -1 to 1; filter: the linear filter is
    // used.
    bool normalised_values, filter;
    uint8_t mode[3]; // enum address_mode
    float border[4];
};

// The handle of a texture. The struct must stay in place until it is removed. Calls that change the
// table never run during a launch.
uint64_t texture_add(const struct texture *texture);
void texture_remove(uint64_t handle);

#endif
