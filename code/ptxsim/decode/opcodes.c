// opcodes.c: which decoder an instruction has, its class, and what it waits for.
#include "internal.h"

#include <string.h>

// ---- the switchboard --------------------------------------------------------------

bool in_list(const char *word, const char *const *list)
{
    for (; *list; ++list)
        if (!strcmp(word, *list))
            return true;
    return false;
}

void decode_insn(struct decoder *d)
{
    static const char *const nothing[] = {"prefetch", "prefetchu",     "pmevent", "griddepcontrol",
                                          "discard",  "applypriority", NULL};
    static const struct {
        const char *base;
        void (*decode)(struct decoder *);
    } table[] = {{"mov", decode_mov},
                 {"setp", decode_setp},
                 {"set", decode_set},
                 {"selp", decode_selp},
                 {"slct", decode_slct},
                 {"cvt", decode_cvt},
                 {"cvta", decode_cvta},
                 {"isspacep", decode_isspacep},
                 {"bfi", decode_bfi},
                 {"lop3", decode_lop3},
                 {"prmt", decode_prmt},
                 {"shfl", decode_shfl},
                 {"vote", decode_vote},
                 {"match", decode_match},
                 {"redux", decode_redux},
                 {"elect", decode_elect},
                 {"wmma", decode_wmma},
                 {"mma", decode_product},
                 {"wgmma", decode_wgmma},
                 {"setmaxnreg", decode_setmaxnreg},
                 {"ldmatrix", decode_tiles},
                 {"stmatrix", decode_tiles},
                 {"movmatrix", decode_movmatrix},
                 {"bra", decode_branch},
                 {"brx", decode_switch},
                 {"call", decode_call},
                 {"addc", decode_carry},
                 {"subc", decode_carry},
                 {"madc", decode_carry},
                 {"cp", decode_copy},
                 {"mbarrier", decode_mbarrier},
                 {"fence", decode_fence},
                 {"membar", decode_fence},
                 {"alloca", decode_stack},
                 {"stacksave", decode_stack},
                 {"stackrestore", decode_stack}};
    d->scratch_used = 0;
    const char *base = d->base;
    if (has(d, "cc")) {
        decode_carry(d);
        return;
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i)
        if (!strcmp(base, table[i].base)) {
            table[i].decode(d);
            return;
        }
    if (!strcmp(base, "ld") || !strcmp(base, "ldu")) {
        decode_access(d, false);
    } else if (!strcmp(base, "st")) {
        decode_access(d, true);
    } else if (!strcmp(base, "atom") || !strcmp(base, "red")) {
        decode_atomic(d, base[0] == 'a');
    } else if (!strcmp(base, "bar") && has(d, "warp")) {
        uint32_t members = source(d, operand(d, 0), 4);
        emit(d, warp_sync_op, 0)->b = members;
    } else if (!strcmp(base, "bar") || !strcmp(base, "barrier")) {
        decode_barrier(d);
    } else if (!strcmp(base, "activemask")) {
        emit(d, activemask_op, 0)->d = destination(d, operand(d, 0), 4);
    } else if (!strcmp(base, "exit") || (!strcmp(base, "ret") && d->function->is_kernel)) {
        emit(d, exit_op, 0);
    } else if (!strcmp(base, "ret")) {
        emit(d, return_op, 0);
    } else if (!strcmp(base, "trap") || !strcmp(base, "brkpt")) {
        emit(d, trap_op, 0);
    } else if (!strcmp(base, "nanosleep")) {
        emit(d, nanosleep_op, 0);
    } else if (in_list(base, nothing)) {
        emit(d, nothing_op, 0);
    } else {
        if (!strcmp(last_modifier(d), "pred")) { // and.pred, not.pred: in the list as they are
            int id = find_parts(base, "pred", "");
            if (id < 0)
                unsupported(d);
            uint32_t to = destination(d, operand(d, 0), 0), a = source(d, operand(d, 1), 0), b = 0;
            if (d->insn->count > 2)
                b = source(d, operand(d, 2), 0);
            emit_plain(d, id, to, a, b, 0);
            return;
        }
        decode_arithmetic(d);
    }
}

// ---- What an instruction is ---------------------------------------------------------------------

enum op_class classify(const struct decoder *d)
{
    static const char *const mufu[] = {"ex2", "lg2", "rsqrt", "sin", "cos", "tanh", NULL};
    static const char *const branches[] = {"bra",  "brx",  "call",  "ret",
                                           "exit", "trap", "brkpt", NULL};
    static const char *const lanes[] = {"shfl",       "vote",  "match",     "redux",
                                        "activemask", "elect", "movmatrix", NULL};
    const char *base = d->base, *type = last_modifier(d);
    bool store = !strcmp(base, "st");
    if (store || !strcmp(base, "ld") || !strcmp(base, "ldu") || !strcmp(base, "ldmatrix") ||
        !strcmp(base, "stmatrix") || (!strcmp(base, "wmma") && !has(d, "mma"))) {
        store |= has(d, "store") || !strcmp(base, "stmatrix");
        switch (memory_space(d)) {
        case SPACE_SHARED: return store ? CLASS_SHARED_STORE : CLASS_SHARED_LOAD;
        case SPACE_LOCAL: return CLASS_LOCAL;
        case SPACE_PARAM: return d->function->is_kernel ? CLASS_CONST : CLASS_LOCAL;
        case SPACE_CONST: return CLASS_CONST;
        default: return store ? CLASS_GLOBAL_STORE : CLASS_GLOBAL_LOAD;
        }
    }
    if (!strcmp(base, "wmma") || !strcmp(base, "mma") || has(d, "mma_async"))
        return CLASS_TENSOR;
    if (!strcmp(base, "wgmma") || !strcmp(base, "setmaxnreg"))
        return CLASS_OTHER;
    if (!strcmp(base, "atom") || !strcmp(base, "red"))
        return CLASS_ATOMIC;
    if (in_list(base, branches))
        return CLASS_BRANCH;
    if (in_list(base, lanes))
        return CLASS_SHUFFLE;
    if (!strcmp(base, "bar") || !strcmp(base, "barrier") || !strcmp(base, "mbarrier"))
        return CLASS_BARRIER;
    if (!strcmp(base, "cp"))
        return CLASS_COPY_ASYNC;
    if (!strcmp(base, "cvt"))
        return CLASS_CONVERT;
    if (!strcmp(base, "mov") || !strcmp(base, "selp") || !strcmp(base, "slct") ||
        !strcmp(base, "cvta"))
        return CLASS_MOVE;
    if (in_list(base, mufu) ||
        ((!strcmp(base, "rcp") || !strcmp(base, "sqrt")) && has(d, "approx")))
        return CLASS_MUFU;
    if (strstr(type, "f16"))
        return CLASS_HALF;
    if (!strcmp(type, "f32"))
        return CLASS_FP32;
    if (!strcmp(type, "f64"))
        return CLASS_FP64;
    if (!strcmp(base, "membar") || !strcmp(base, "fence") || !strcmp(base, "nanosleep"))
        return CLASS_OTHER;
    return CLASS_INT;
}

enum sync_kind sync_of(const struct decoder *d)
{
    if ((!strcmp(d->base, "bar") || !strcmp(d->base, "barrier")) && !has(d, "warp"))
        return SYNC_BARRIER;
    if (has(d, "sync"))
        return SYNC_MEMBERS;
    return SYNC_NONE;
}

bool ends_block(const struct decoder *d)
{
    static const char *const enders[] = {"bra",  "brx",  "call",  "ret",
                                         "exit", "trap", "brkpt", NULL};
    return in_list(d->base, enders);
}
