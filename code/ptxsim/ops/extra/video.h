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
    VIDEO_EQ, // vset: the result is 1 or 0
    VIDEO_NE,
    VIDEO_LT,
    VIDEO_LE,
    VIDEO_GT,
    VIDEO_GE,
};

enum video_then { THEN_NOTHING, THEN_ADD, THEN_MIN, THEN_MAX, THEN_MERGE }; // how c is used

struct video {
    enum video_kind kind;
    enum video_then then;
    int parts; // results in a word: 1, 2 or 4
    bool signed_d, signed_a, signed_b, saturate;
    bool wrap; // vshl, vshr: the amount is taken modulo 32; otherwise it is at most 32
    int scale; // vmad: how many bits the result is shifted right
    // Which part of its word each operand is. One result: a[0] and b[0] are the numbers of the
    // parts' lowest bits. Several results: for each result, the number of its operand's part; b's
    // parts are numbered after a's.
    uint8_t a[4], b[4];
    uint8_t a_bits, b_bits; // 8, 16 or 32
    // mask: which results are stored (the others leave c as it is); d_at, d_bits: where a single
    // result is merged into c.
    uint8_t mask, d_at, d_bits;
};

op_fn video_op; // operands: a struct video

#endif
