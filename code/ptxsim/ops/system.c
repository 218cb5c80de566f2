// system.c: functions that the device's runtime provides to every kernel: vprintf, __assertfail,
// malloc and free. (children.c has the functions that launch kernels.)
//
// What a warp prints is kept, and written to stdout at the end of the launch, block by block and
// warp by warp: so it is the same in every run. (Launches behave as under CUDA_LAUNCH_BLOCKING=1.)
#include "system.h"
#include "address.h"
#include "ptxsim/base/heap.h"
#include "scalars.h"

#include <stdio.h>
#include <stdlib.h>

// The host pointer for a generic address; NULL after a fault.
static void *generic_place(struct warp *w, const struct op *op, int lane, uint64_t at,
                           uint32_t bytes, bool store)
{
    struct op generic = *op;
    generic.space = SPACE_GENERIC;
    if (at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT) {
        uint64_t offset = at - SHARED_WINDOW;
        if (within(offset, bytes, w->cta->shared_bytes) && offset % bytes == 0)
            return w->cta->shared + offset;
        fault_shared(w, op, lane, offset > UINT32_MAX ? UINT32_MAX : (uint32_t)offset, bytes,
                     store);
        return NULL;
    }
    if (at >> WINDOW_SHIFT)
        return private_memory(w, &generic, lane, at, bytes, store);
    if (at % bytes == 0 && global_span(w, at, bytes))
        return (void *)(uintptr_t)at;
    fault_global(w, op, lane, at, bytes, store);
    return NULL;
}

bool generic_store(struct warp *w, const struct op *op, int lane, uint64_t at, const void *from,
                   uint32_t bytes)
{
    struct cta *cta = w->cta;
    void *place = generic_place(w, op, lane, at, bytes, true);
    if (!place)
        return false;
    if (at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT) {
        race_shared(w, op, 1u << lane, (uint32_t)at, bytes, RACE_WRITE, from);
        if (cta->written)
            written_mark(cta->written, (uint32_t)at, bytes);
    } else if (!(at >> WINDOW_SHIFT)) {
        global_defined(w, at, bytes, true);
        global_touch(w, op, at, bytes, true);
        race_global(w, op, 1u << lane, at, bytes, RACE_WRITE, from); // makes a plain store, too
    }
    memcpy(place, from, bytes);
    return true;
}

// Reads bytes at a generic address; false after a fault.
static bool fetch(struct warp *w, const struct op *op, int lane, uint64_t at, void *to,
                  uint32_t bytes)
{
    const void *from = generic_place(w, op, lane, at, bytes, false);
    if (from)
        memcpy(to, from, bytes);
    return from != NULL;
}

// Copies a string from device memory, cut to `size` bytes.
static bool fetch_text(struct warp *w, const struct op *op, int lane, uint64_t at, char *to,
                       size_t size)
{
    for (size_t i = 0; i + 1 < size; ++i) {
        if (!fetch(w, op, lane, at + i, to + i, 1))
            return false;
        if (!to[i])
            return true;
    }
    to[size - 1] = 0;
    return true;
}

// Reads the next argument, 4 or 8 bytes, from the buffer at *at, aligned to its size, and moves *at
// past it.
static bool next_argument(struct warp *w, const struct op *op, int lane, uint64_t *at,
                          uint32_t bytes, uint64_t *value)
{
    *value = 0;
    *at = (*at + bytes - 1) & ~(uint64_t)(bytes - 1);
    *at += bytes;
    return fetch(w, op, lane, *at - bytes, value, bytes);
}

// Whether a warp alone has printed launch->print_bytes bytes, the most that are kept of a launch;
// 0: there is no limit.
static bool prints_in_vain(const struct warp *w)
{
    size_t most = w->cta->launch->print_bytes;
    return most && w->printed.size >= most;
}

static void put(struct warp *w, const char *from, size_t size)
{
    if (!prints_in_vain(w))
        text_add(&w->printed, from, size);
}

// Larger widths and precisions are cut to this. A GPU's driver obeys them up to two thousand
// million characters, which take it a second; the simulator would have to keep these in memory.
enum { WIDEST = 4096 };

// Reads the number at format[*at], and moves *at to its last digit.
static int digits(const char *format, size_t *at)
{
    int number = format[*at] - '0';

    while (format[*at + 1] >= '0' && format[*at + 1] <= '9') {
        number = number * 10 + format[++*at] - '0';
        number = number > WIDEST ? WIDEST : number;
    }
    return number;
}

// Prints one conversion specification, which begins at the '%'; *length gets its length in
// characters. False after a fault.
static bool print_one(struct warp *w, const struct op *op, int lane, const char *format,
                      size_t *length, uint64_t *arguments, int *converted)
{
    char spec[64] = "%", out[2 * WIDEST];
    size_t used = 1, at = 1;
    bool wide = false;
    uint64_t value;
    for (; format[at] && strchr("-+ #0123456789.*lhqjztL", format[at]); ++at) {
        char c = format[at];
        if (used > sizeof spec - 16)
            break;
        if (c >= '1' && c <= '9') {
            used += (size_t)sprintf(spec + used, "%d", digits(format, &at));
            continue;
        }
        if (c == '*' && format[at - 1] == '.') { // a GPU takes no precision from the arguments
            *length = at + 1 + (format[at + 1] != 0);
            put(w, format, *length);
            return true;
        }
        if (c == '*') {
            if (!next_argument(w, op, lane, arguments, 4, &value))
                return false;
            int width = (int)value > WIDEST ? WIDEST : (int)value < -WIDEST ? -WIDEST : (int)value;
            used += (size_t)sprintf(spec + used, "%d", width);
        } else if (strchr("lqjzt", c)) {
            wide = true; // `long` has 64 bits
        } else if (!strchr("hL", c)) {
            spec[used++] = c;
        }
    }
    char kind = format[at];
    *length = at + (kind != 0);
    if (kind == '%') {
        put(w, "%", 1);
        return true;
    }
    if (!kind || !strchr("diouxXcspfFeEgGaA", kind)) { // no conversion: it is printed unchanged
        put(w, format, *length);
        return true;
    }
    bool is_float = strchr("fFeEgGaA", kind) != NULL;
    if (!next_argument(w, op, lane, arguments, wide || is_float || strchr("sp", kind) ? 8 : 4,
                       &value))
        return false;
    char text[1024];
    strcpy(text, "(null)");
    if (kind == 's' && value && !fetch_text(w, op, lane, value, text, sizeof text))
        return false;
    ++*converted;
    if (prints_in_vain(w))
        return true;
    const char *size = format[at - 1] == 'h' ? (at > 1 && format[at - 2] == 'h' ? "hh" : "h") : "";
    sprintf(spec + used, "%s%c",
            kind == 's' || kind == 'c' || is_float || kind == 'p' ? ""
            : wide                                                ? "ll"
                                                                  : size,
            kind);
    int count;
    if (is_float) {
        double number;
        memcpy(&number, &value, 8);
        count = snprintf(out, sizeof out, spec, number);
    } else if (kind == 's') {
        count = snprintf(out, sizeof out, spec, text);
    } else if (kind == 'p') {
        count = snprintf(out, sizeof out, spec, (void *)(uintptr_t)value);
    } else if (wide) {
        count = snprintf(out, sizeof out, spec, (long long)value);
    } else {
        count = snprintf(out, sizeof out, spec, (int)value);
    }
    if (count > 0)
        put(w, out, (size_t)count < sizeof out ? (size_t)count : sizeof out - 1);
    return true;
}

char *parameter(struct warp *w, const char *r, const struct op *op, int lane, int index)
{
    return w->local + (size_t)lane * w->cta->program->local_bytes +
           ((const u64 *)(r + FRAME_LOCAL))[lane] + op->regs[index];
}

// int vprintf(format, arguments). regs: the result, the parameters.
void vprintf_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left), converted = 0;
        uint64_t address, arguments;
        char format[4096];
        memcpy(&address, parameter(w, r, op, lane, 1), 8);
        memcpy(&arguments, parameter(w, r, op, lane, 2), 8);
        if (!fetch_text(w, op, lane, address, format, sizeof format))
            return;
        for (const char *at = format; *at;) {
            size_t length = strcspn(at, "%");
            put(w, at, length);
            at += length;
            length = 0;
            if (*at && !print_one(w, op, lane, at, &length, &arguments, &converted))
                return;
            at += length;
        }
        memcpy(parameter(w, r, op, lane, 0), &converted, 4);
    }
}

// void __assertfail(message, file, line, function, char size): prints the same line as a GPU.
void assert_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct cta *cta = w->cta;
    int lane = __builtin_ctz(mask);
    uint64_t message, file, function;
    uint32_t line;
    char text[3][160] = {"", "", ""};
    memcpy(&message, parameter(w, r, op, lane, 0), 8);
    memcpy(&file, parameter(w, r, op, lane, 1), 8);
    memcpy(&line, parameter(w, r, op, lane, 2), 4);
    memcpy(&function, parameter(w, r, op, lane, 3), 8);
    if (cta->faulted || !fetch_text(w, op, lane, message, text[0], sizeof text[0]) ||
        !fetch_text(w, op, lane, file, text[1], sizeof text[1]) ||
        !fetch_text(w, op, lane, function, text[2], sizeof text[2]))
        return;
    fault_at(w, op, lane, FAULT_ASSERT,
             "%.120s:%u: %.120s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%.100s` failed.",
             source_path(text[1]), line, text[2], cta->index[0], cta->index[1], cta->index[2],
             w->tid[0][lane], w->tid[1][lane], w->tid[2][lane], text[0]);
}

// void *malloc(size). NULL when the heap is exhausted.
void malloc_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    note_effect(w);
    for (; mask; mask &= mask - 1) {
        uint64_t value;
        int lane = __builtin_ctz(mask);
        memcpy(&value, parameter(w, r, op, lane, 1), 8);
        value = heap_take(value);
        memcpy(parameter(w, r, op, lane, 0), &value, 8);
    }
}

// void free(address)
void free_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    note_effect(w);
    // The allocation that was accessed last may be a block that is freed now.
    w->cta->worker->last = (struct allocation){0};
    for (; mask; mask &= mask - 1) {
        uint64_t address;
        int lane = __builtin_ctz(mask);
        memcpy(&address, parameter(w, r, op, lane, 0), 8);
        if (address && !heap_give(address)) {
            fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                     "frees 0x%llx, which malloc in device code did not return, or which has been "
                     "freed",
                     (unsigned long long)address);
            return;
        }
    }
}
