// video.h: what a video instruction does, for its decoder and its operation (PTX ISA, "Scalar Video
// Instructions" and "SIMD Video Instructions").
#ifndef PTXSIM_VIDEO_H
#define PTXSIM_VIDEO_H

#include "ptxsim/ops/ops.h"

enum video_kind {
    VIDEO_ADD,
    VIDEO_SUB,
    VIDEO_ABSDIFF,
    VIDEO_MIN,
    VIDEO_MAX,
    VIDEO_AVERAGE,
    VIDEO_SHL,
    VIDEO_SHR,
    VIDEO_MAD,
    VIDEO_EQ, // vset: 1 or 0
    VIDEO_NE,
    VIDEO_LT,
    VIDEO_LE,
    VIDEO_GT,
    VIDEO_GE,
};

enum video_then { THEN_NOTHING, THEN_ADD, THEN_MIN, THEN_MAX, THEN_MERGE }; // with c

struct video {
    enum video_kind kind;
    enum video_then then;
    int parts; // results in a word: 1, 2 or 4
    bool signed_d, signed_a, signed_b, saturate;
    bool wrap;              // of vshl and vshr: the amount modulo 32, not at most 32
    int scale;              // vmad: bits that its result is shifted right by
    uint8_t a[4], b[4];     // of one result: the lowest bit of the part; of more: its number, b's
                            // parts after a's
    uint8_t a_bits, b_bits; // 8, 16 or 32
    uint8_t mask, d_at, d_bits; // results that are kept; of one: where it is merged into c
};

op_fn video_op; // operands: a struct video

#endif
