// extra.c: the instructions and system calls that the book does not use, in the tables that
// opcodes.c and control.c search.
#include "extra.h"

static const struct opcode opcodes[] = {
#define OPCODE(text, how, class, control, result, family)                                          \
    {text, decode_##how, CLASS_##class, CONTROL_##control, RESULT_##result, FAMILY_##family},
#include "opcodes.def"
#undef OPCODE
};

static const struct system_call calls[] = {
    // In ops/extra/children.c:
    {"__cudaCDP2GetParameterBufferV2", child_params_op, {8, 8, 12, 12, 4}, true},
    {"__cudaCDP2LaunchDeviceV2", child_launch_op, {4, 8, 8}, false},
    {"__cudaCDP2MemcpyAsync", child_copy_op, {4, 8, 8, 8, 4, 8}, false},
    {"__cudaCDP2Malloc", device_malloc_op, {4, 8, 8}, true},
    {"__cudaCDP2Free", device_free_op, {4, 8}, false},
    {"__cudaCDP2StreamCreateWithFlags", stream_create_op, {4, 8, 4}, false},
    {"cudaGraphSetConditional", set_condition_op, {8, 4}, false},
    {"__cudaCDP2StreamDestroy", device_success_op, {4, 8}, false},
    {"__cudaCDP2GetLastError", get_error_op, {4}, false},
    {"__cudaCDP2PeekAtLastError", peek_error_op, {4}, false},
    {"__cudaCDP2GetErrorString", device_success_op, {8, 4}, false},
};

const struct extra extra_instructions = {
    opcodes,
    calls,
    sizeof opcodes / sizeof opcodes[0],
    sizeof calls / sizeof calls[0],
};
