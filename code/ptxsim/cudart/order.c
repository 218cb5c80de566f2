// order.c: the order between streams, and between the device and the host (CUDA Programming Guide,
// "Streams", "Explicit Synchronization", "Implicit Synchronization").
//
// Work is done when it is submitted. What is checked is whether the program has asked for that
// order. A stream, or a chain of a graph's nodes, is a timeline, which does one operation after
// another. A timeline has a vector clock: for every timeline, how many of its operations are known
// to be done before this timeline's next operation begins. The host has one clock for all its
// threads, since messages between them cannot be seen. For each operation that the host does not
// know to be done, the bytes that it has read and written are kept. A later operation that touches
// these bytes without knowing of the earlier one is reported. Accesses by the host itself are found
// by closing pages (base/host.c).
//
// Two strong accesses (atomic, volatile) by two kernels need no order. Where two kernels have
// strong accesses to the same bytes, these may be messages by which the kernels order themselves,
// so nothing is reported about the two.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

enum {
    READS = 1 << NOTE_READ,
    WRITES = 1 << NOTE_WRITE,
    STRONG_READS = 1 << NOTE_STRONG_READ,
    STRONG_WRITES = 1 << NOTE_STRONG_WRITE,
    STRONG = STRONG_READS | STRONG_WRITES,
    EARLY_READS = 1 << NOTE_EARLY_READ,
    EARLY_WRITES = 1 << NOTE_EARLY_WRITE,
    COARSE = 1 << NOTE_KINDS, // a run of whole sectors: some byte of each was accessed
    SECTOR = 32,
    ANY_READ = READS | STRONG_READS,
    ANY_WRITE = WRITES | STRONG_WRITES,
    MOST_OPERATIONS = 4096, // operations kept; the oldest are dropped first
    MOST_TOLD = 64,         // pairs of places that are reported
    PARTY = 800,            // bytes of text for one operation of a report
};

struct operation {
    struct operation *next; // the operation submitted before
    const char *verb;       // for reports, what the operation does; NULL: it reads or writes
    const char *what;       // "a copy"; for a kernel, "kernel", and its name follows
    char stream[TIMELINE_NAME];
    unsigned timeline;
    uint32_t count; // the operation's number within its timeline
    struct order_clock knows;
    struct callers callers; // the calls of the program that submitted it
    struct note_run *runs;  // bytes it has accessed, by address
    size_t run_count, run_capacity;
    const void *stub; // for a kernel: the function that the host calls
    // For a kernel: the kernel, whose instructions' accesses are in `touched`. For other
    // operations: NULL.
    const struct kernel *kernel;
    struct touched touched;
    bool for_host; // whether the host may touch some of the bytes
};

static struct operation *operations;
static size_t operation_count;
// host: what the host knows to be done; fence: the work before the last allocation, all of
// which comes before the work after that allocation.
static struct order_clock host, fence;
static struct timeline *now;
// Whether accesses to device memory are noted, since kernels may run beside other work.
static bool watched;

// ---- Clocks -------------------------------------------------------------------------------------

static uint32_t *latest; // for each timeline, the number of its last operation
static bool *taken;      // for each index, whether a timeline has it
static size_t timelines, timeline_room;

static uint32_t clock_of(const struct order_clock *clock, unsigned index)
{
    return index < clock->count ? clock->at[index] : 0;
}

static void clock_grow(struct order_clock *clock, size_t count)
{
    if (count <= clock->count)
        return;
    clock->at = checked_alloc(realloc(clock->at, count * sizeof *clock->at));
    memset(clock->at + clock->count, 0, (count - clock->count) * sizeof *clock->at);
    clock->count = count;
}

void order_join(struct order_clock *into, const struct order_clock *more)
{
    clock_grow(into, more->count);
    for (size_t i = 0; i < more->count; ++i)
        if (more->at[i] > into->at[i])
            into->at[i] = more->at[i];
}

void order_drop(struct order_clock *clock)
{
    free(clock->at);
    *clock = (struct order_clock){0};
}

// Begins a timeline. The index of a timeline that no longer exists is used again, once the host
// knows all its operations to be done.
void timeline_begin(struct timeline *t, const char *name)
{
    size_t index = 0;

    while (index < timelines && (taken[index] || clock_of(&host, (unsigned)index) < latest[index]))
        ++index;
    if (index == timelines) {
        if (timelines == timeline_room) {
            timeline_room = timeline_room ? 2 * timeline_room : 16;
            latest = checked_alloc(realloc(latest, timeline_room * sizeof *latest));
            taken = checked_alloc(realloc(taken, timeline_room * sizeof *taken));
        }
        latest[timelines++] = 0;
    }
    taken[index] = true;
    *t = (struct timeline){.index = (unsigned)index, .begun = true};
    snprintf(t->name, sizeof t->name, "%s", name);
}

void timeline_end(struct timeline *t)
{
    if (t->begun)
        taken[t->index] = false;
    if (now == t)
        now = NULL;
    order_drop(&t->knows);
    order_drop(&t->before);
    t->begun = false;
}

bool order_late(void)
{
    static int is = -1;

    if (is < 0) {
        const char *schedule = getenv("PTXSIM_SCHEDULE");
        is = !only_written() && schedule && !strcmp(schedule, "late");
    }
    return is;
}

bool order_kept(void)
{
    static int kept = -1;

    if (kept < 0) {
        const char *check = getenv("PTXSIM_CHECK");
        kept = !only_written() && !order_late() &&
               !(check && (!strcmp(check, "off") || !strcmp(check, "memory")));
    }
    return kept;
}

bool order_strict(void)
{
    static int strict = -1;

    if (strict < 0) {
        const char *check = getenv("PTXSIM_CHECK");
        strict = check && !strcmp(check, "strict");
    }
    return strict;
}

void order_watch(bool kernels)
{
    watched = true;
    if (kernels)
        notes_begin();
}

void order_next(struct timeline *t)
{
    order_join(&t->knows, &host);
    order_join(&t->knows, &fence);
    now = t;
}

struct timeline *order_now(void)
{
    return order_kept() ? now : NULL;
}

void order_knows(struct order_clock *clock)
{
    if (order_now())
        order_join(clock, &now->knows);
}

// ---- Operations ---------------------------------------------------------------------------------

static void drop(struct operation *o)
{
    free(o->runs);
    free(o->touched.spans);
    order_drop(&o->knows);
    free(o);
    --operation_count;
}

// Closes the pages that the host may not touch until it knows that the operation is done. Of
// registered memory, and of pinned memory larger than a page, only pages that the operation uses
// entirely are closed, because a system call that accesses a closed page fails even if it needs
// other bytes of the page; the program's own access to such bytes goes on.
static void shut(const struct operation *o)
{
    for (size_t i = 0; o->for_host && i < o->run_count; ++i) {
        const struct note_run *run = &o->runs[i];
        const struct allocation *a = memory_find(run->start, 1, NULL);
        uint64_t page = 4096, start = run->start, end = run->end;
        if (!a || a->kind == MEMORY_DEVICE)
            continue;
        bool large = a->kind == MEMORY_HOST && a->size > page;
        if (a->kind == MEMORY_REGISTERED || (large && start > a->base))
            start = (start + page - 1) / page * page;
        if (a->kind == MEMORY_REGISTERED || (large && end < a->base + a->size))
            end = end / page * page;
        if (start < end)
            memory_shut(start, end - start, run->kinds & ANY_WRITE);
    }
}

// Drops operations that the host knows to be done: every later operation knows so, too.
static void prune(void)
{
    bool opens = false;

    for (struct operation **at = &operations; *at;) {
        struct operation *o = *at;
        if (clock_of(&host, o->timeline) < o->count) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        opens |= o->for_host;
        drop(o);
    }
    if (!opens)
        return;
    memory_unshut();
    for (const struct operation *o = operations; o; o = o->next)
        shut(o);
}

void order_host_knows(const struct order_clock *clock)
{
    order_join(&host, clock);
    prune();
}

void order_host_knows_all(void)
{
    clock_grow(&host, timelines);
    if (timelines)
        memcpy(host.at, latest, timelines * sizeof *latest);
    prune();
}

void order_fence(void)
{
    clock_grow(&fence, timelines);
    if (timelines)
        memcpy(fence.at, latest, timelines * sizeof *latest);
}

// ---- Reports ------------------------------------------------------------------------------------

// Gives a report the file and line of the first place that it names.
static void take_line(struct host_line *first, const char *file, int line)
{
    if (first->line || !file)
        return;
    first->line = line;
    snprintf(first->file, sizeof first->file, "%s", file);
}

// Finds the line of a kernel's instruction that has accessed the byte at `at` in one of the ways in
// `kinds`. Of several such instructions, takes the one whose accesses span the fewest bytes.
static void place_of(const struct operation *o, uint64_t at, unsigned kinds, char *text,
                     size_t size, struct host_line *first)
{
    const struct touched_span *best = NULL;

    text[0] = 0;
    for (size_t i = 0; i < o->touched.count; ++i) {
        const struct touched_span *span = &o->touched.spans[i];
        if ((span->kinds & kinds) && span->start <= at && at < span->end &&
            (!best || span->end - span->start < best->end - best->start))
            best = span;
    }
    if (o->kernel) {
        char line[256];
        const struct fault_place place =
            kernel_line(o->kernel, best ? (size_t)(best - o->touched.spans) : 0, line, sizeof line);
        take_line(first, place.file, place.line);
        snprintf(text, size, ", %s,", line);
    }
}

// Writes one operation of a report, for example "kernel attention, FILE:LINE, in stream 3 writes".
static void name_party(const struct operation *o, uint64_t at, unsigned kinds, bool writes,
                       char *text, size_t size, struct host_line *first)
{
    char place[300], asked[340] = "", name[96] = "";
    unsigned these = kinds & (writes ? ANY_WRITE | EARLY_WRITES : ANY_READ | EARLY_READS);

    place_of(o, at, these, place, sizeof place, first);
    const struct host_line line = caller_line(&o->callers);
    if (line.line) {
        snprintf(asked, sizeof asked, " (submitted at %s:%d)", line.file, line.line);
        take_line(first, line.file, line.line);
    }
    if (o->kernel)
        kernel_base_name(kernel_info(o->kernel)->name, name, sizeof name);
    snprintf(text, size, "%s%s%s in %s%s %s", o->what, name, place, o->stream, asked,
             o->verb  ? o->verb
             : writes ? "writes"
                      : "reads");
}

// Writes, for example, "byte 12 of 128 bytes of managed memory".
static void name_byte(uint64_t at, char *text, size_t size)
{
    static const char *const kinds[] = {
        [MEMORY_DEVICE] = "device memory",
        [MEMORY_HOST] = "pinned memory",
        [MEMORY_MANAGED] = "managed memory",
        [MEMORY_REGISTERED] = "registered memory",
    };
    const struct allocation *a = memory_find(at, 1, NULL);

    snprintf(text, size, "byte %llu of %llu bytes of %s at 0x%llx",
             (unsigned long long)(a ? at - a->base : 0), (unsigned long long)(a ? a->size : 0),
             kinds[a ? a->kind : MEMORY_DEVICE], (unsigned long long)(a ? a->base : at));
}

// Makes a text that is the same for operations of one caller, at one place in a kernel, in any
// stream.
static void key_of(const struct operation *o, uint64_t at, unsigned kinds, char *text, size_t size)
{
    char place[300];
    struct host_line unused = {.line = 0};
    uint64_t callers = 0;

    for (int i = 0; i < o->callers.count; ++i)
        callers = callers * 31 + o->callers.at[i];
    place_of(o, at, kinds, place, sizeof place, &unused);
    snprintf(text, size, "%s%s %p %llx", o->what, place, (const void *)o->kernel,
             (unsigned long long)callers);
}

// Notes a pair of texts (key_of) as reported. Returns whether it is new and among the first
// MOST_TOLD.
static bool is_new(const char *one, const char *other)
{
    static char *told[MOST_TOLD];
    static size_t count;
    char pair[2 * PARTY];

    snprintf(pair, sizeof pair, "%s\n%s", one, other);
    for (size_t i = 0; i < count; ++i)
        if (!strcmp(told[i], pair))
            return false;
    if (count == MOST_TOLD)
        return false;
    told[count++] = checked_alloc(strdup(pair));
    return true;
}

static void tell_pair(const struct operation *later, unsigned later_kinds,
                      const struct operation *earlier, unsigned earlier_kinds, uint64_t at,
                      bool early)
{
    char one[PARTY], other[PARTY], byte[128];
    struct host_line first = {.line = 0};
    bool later_writes = later_kinds & WRITES, earlier_writes = earlier_kinds & ANY_WRITE;

    if (later_kinds & STRONG_WRITES && earlier_kinds & READS)
        later_writes = true;
    if (later_kinds & WRITES && !(earlier_kinds & ANY_WRITE))
        earlier_writes = false;
    key_of(later, at, later_kinds, one, sizeof one);
    key_of(earlier, at, earlier_kinds, other, sizeof other);
    if (!is_new(one, other))
        return;
    name_party(later, at, later_kinds, later_writes, one, sizeof one, &first);
    name_party(earlier, at, earlier_kinds, earlier_writes, other, sizeof other, &first);
    name_byte(at, byte, sizeof byte);
    complain_of_host(FAULT_ORDER, true, &first, "%s %s, which %s: %s", one, byte, other,
                     early ? "the kernel may begin before that one ends, and has not waited for it "
                             "(griddepcontrol.wait, cudaGridDependencySynchronize)"
                           : "nothing orders the two (an event and cudaStreamWaitEvent would)");
}

// ---- Two operations -----------------------------------------------------------------------------

static bool conflict(unsigned a, unsigned b)
{
    return (a & WRITES && b & (ANY_READ | ANY_WRITE)) ||
           (b & WRITES && a & (ANY_READ | ANY_WRITE)) || (a & STRONG_WRITES && b & READS) ||
           (b & STRONG_WRITES && a & READS);
}

static bool message(unsigned a, unsigned b)
{
    return a & STRONG && b & STRONG && (a | b) & STRONG_WRITES;
}

// The kinds of a kernel's accesses before griddepcontrol.wait, as plain reads and writes.
static unsigned early_kinds(unsigned kinds)
{
    return (kinds & EARLY_READS ? READS : 0) | (kinds & EARLY_WRITES ? WRITES : 0);
}

// Whether two runs have a byte in common; *at gets the first. If one run is of sectors, a sector
// counts only if the other run covers it whole.
static bool overlap(const struct note_run *a, const struct note_run *b, uint64_t *at)
{
    const struct note_run *coarse = a->kinds & COARSE ? a : b;
    uint64_t from = a->start > b->start ? a->start : b->start;
    uint64_t to = a->end < b->end ? a->end : b->end;

    if (a->kinds & b->kinds & COARSE)
        return false;
    if (coarse->kinds & COARSE && from != coarse->start)
        from = (from + SECTOR - 1) / SECTOR * SECTOR;
    if (coarse->kinds & COARSE && to != coarse->end)
        to = to / SECTOR * SECTOR;
    *at = from;
    return from < to;
}

// Compares what two operations have touched, in the order of addresses. early: compares only what
// the later operation touched before its griddepcontrol.wait. Reports the first conflict, unless it
// was reported before; returns whether there is one.
static bool compare(const struct operation *later, const struct operation *earlier, bool early)
{
    const struct note_run *found[2] = {NULL};
    size_t i = 0, k = 0;
    uint64_t at, first = 0;

    while (i < later->run_count && k < earlier->run_count) {
        const struct note_run *a = &later->runs[i], *b = &earlier->runs[k];
        if (overlap(a, b, &at)) {
            if (!early && message(a->kinds, b->kinds))
                return false;
            if (!found[0] && conflict(early ? early_kinds(a->kinds) : a->kinds, b->kinds)) {
                first = at;
                found[0] = a;
                found[1] = b;
            }
        }
        if (a->end < b->end)
            ++i;
        else
            ++k;
    }
    if (!found[0])
        return false;
    tell_pair(later, early ? early_kinds(found[0]->kinds) : found[0]->kinds, earlier,
              found[1]->kinds, first, early);
    return true;
}

// Checks an operation against all operations that are not ordered before it. knows: the operation's
// clock; early: the clock for what it did before griddepcontrol.wait, if it may have begun before
// the previous kernel had ended; otherwise NULL. A missing order is reported once: then it counts
// as present, so that its consequences are not reported.
static void check(const struct operation *o, struct order_clock *knows,
                  const struct order_clock *early)
{
    for (const struct operation *e = operations; e; e = e->next) {
        if (clock_of(knows, e->timeline) < e->count) {
            if (compare(o, e, false))
                order_join(knows, &e->knows);
        } else if (early && clock_of(early, e->timeline) < e->count)
            compare(o, e, true);
    }
}

// ---- Submitting an operation --------------------------------------------------------------------

static struct operation *operation_new(const char *what)
{
    struct operation *o = checked_alloc(calloc(1, sizeof *o));
    o->what = what;
    ++operation_count;
    return o;
}

static void add_run(const struct note_run *run, void *data)
{
    struct operation *o = data;
    const struct allocation *a = memory_find(run->start, 1, NULL);
    o->runs = array_grow(o->runs, o->run_count, &o->run_capacity, sizeof *o->runs);
    o->runs[o->run_count++] = *run;
    o->for_host |= a && a->kind != MEMORY_DEVICE;
}

static void add_sectors(const struct note_run *run, void *data)
{
    add_run(&(struct note_run){run->start, run->end, run->kinds | COARSE}, data);
}

static int by_address(const void *a, const void *b)
{
    const struct note_run *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

// Drops an earlier operation of the same timeline, kernel and verb that touched the same bytes: an
// operation that is not ordered with the earlier one is not ordered with this one either.
static void replace(const struct operation *o)
{
    for (struct operation **at = &operations; *at; at = &(*at)->next) {
        struct operation *e = *at;
        if (e->timeline != o->timeline || e->run_count != o->run_count || e->verb != o->verb ||
            e->kernel != o->kernel || memcmp(e->runs, o->runs, o->run_count * sizeof *o->runs) != 0)
            continue;
        *at = e->next;
        drop(e);
        return;
    }
}

static void drop_oldest(void)
{
    struct operation **at = &operations;
    while ((*at)->next)
        at = &(*at)->next;
    drop(*at);
    *at = NULL;
}

// Gives an operation its number in the current timeline, checks it against all operations that are
// not ordered before it, and keeps it. early: as for check.
static void submit(struct operation *o, const struct order_clock *early)
{
    struct timeline *t = now;

    clock_grow(&t->knows, timelines);
    o->timeline = t->index;
    o->count = ++latest[t->index];
    memcpy(o->stream, t->name, sizeof o->stream);
    if (watched || o->for_host)
        note_callers(&o->callers);
    drop_callers(&o->callers, o->stub);
    check(o, &t->knows, early);
    t->knows.at[t->index] = o->count;
    if (!o->run_count) {
        drop(o);
        return;
    }
    order_join(&o->knows, &t->knows);
    replace(o);
    o->next = operations;
    operations = o;
    shut(o);
    if (operation_count > MOST_OPERATIONS)
        drop_oldest();
}

// ---- Kernels ------------------------------------------------------------------------------------

struct touched *order_kernel(struct kernel *kernel)
{
    static struct touched touched;

    if (!order_kept() || !now)
        return NULL;
    if (!notes_begun() && kernel_starts_dependents(kernel))
        notes_begin();
    touched = (struct touched){0};
    return notes_taken() || watched ? &touched : NULL;
}

void order_kernel_done(const struct CUkern_st *kernel, const struct touched *touched, bool early)
{
    struct timeline *t = now;
    struct order_clock before = {0};

    if (!touched)
        return;
    struct operation *o = operation_new("kernel ");
    o->kernel = kernel->kernel;
    o->stub = kernel->host;
    o->touched = *touched;
    notes_take(add_run, o);
    if (watched && !notes_begun()) {
        bool both = o->run_count > 0;
        notes_take_sectors(add_sectors, o);
        if (both)
            qsort(o->runs, o->run_count, sizeof *o->runs, by_address);
    }
    order_join(&before, &t->knows);
    bool starts = touched->starts_dependents;
    submit(o, early && t->starts_dependents ? &t->before : NULL);
    order_drop(&t->before);
    t->before = before;
    t->starts_dependents = starts;
}

// ---- Copies, fills, allocations -----------------------------------------------------------------

// Notes the bytes that an operation touches, row by row. Memory that is no allocation is skipped.
static void add_rows(struct operation *o, const char *at, size_t pitch, size_t slice, size_t width,
                     size_t height, size_t depth, unsigned kinds)
{
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)at, 1, NULL);

    if (!a)
        return;
    if (pitch == width) {
        width *= height;
        height = 1;
    }
    for (size_t z = 0; z < (depth ? depth : 1); ++z)
        for (size_t y = 0; y < height; ++y) {
            uint64_t start = (uint64_t)(uintptr_t)at + z * slice + y * pitch;
            add_run(&(struct note_run){start, start + width, kinds}, o);
        }
}

static bool host_waits; // whether the next copy returns only when it is done

void order_waits(bool waits)
{
    host_waits = waits;
}

void order_copy(const struct task *task)
{
    if (!order_kept() || !now || (host_waits && !watched))
        return;
    bool copies = task->kind == TASK_COPY;
    struct operation *o = operation_new(copies ? "a copy" : "a fill");
    if (copies) {
        add_rows(o, task->copy.from, task->copy.from_pitch, task->copy.from_slice, task->copy.width,
                 task->copy.height, task->copy.depth, READS);
        add_rows(o, task->copy.to, task->copy.to_pitch, task->copy.to_slice, task->copy.width,
                 task->copy.height, task->copy.depth, WRITES);
    } else {
        add_rows(o, task->fill.to, task->fill.pitch, task->fill.slice,
                 task->fill.width * task->fill.element, task->fill.height, task->fill.depth,
                 WRITES);
    }
    if (o->run_count)
        qsort(o->runs, o->run_count, sizeof *o->runs, by_address);
    now->starts_dependents = false;
    submit(o, NULL);
}

void order_allocation(const void *address, bool frees)
{
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)address, 1, NULL);

    if (!order_kept() || !now || !a)
        return;
    struct operation *o = operation_new(frees ? "cudaFreeAsync" : "cudaMallocAsync");
    o->verb = frees ? "frees" : "allocates";
    add_run(&(struct note_run){a->base, a->base + a->size, WRITES}, o);
    submit(o, NULL);
}

// Reports memory that is freed while it is in use. Freeing memory of a pool does not wait. Freeing
// pinned memory waits, but CUDA does not promise that: pinned memory is checked under
// PTXSIM_CHECK=strict only.
void order_free(const void *address, bool pinned_memory)
{
    static const char *const texts[] = {
        "cudaFree%s frees memory of a pool, which it does at once, while %s %s: nothing has waited "
        "for it (cudaStreamSynchronize, or cudaFreeAsync in its stream)",
        "cudaFreeHost%s frees pinned memory while %s %s: nothing has waited for it "
        "(cudaStreamSynchronize), and that cudaFreeHost does is not promised"};
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)address, 1, NULL);
    char party[PARTY], byte[128], place[340] = "";
    struct callers here = {0};

    if (operations)
        note_callers(&here);
    for (const struct operation *o = operations; a && o; o = o->next)
        for (size_t i = 0; i < o->run_count; ++i) {
            const struct note_run *run = &o->runs[i];
            if (run->start < a->base || run->start >= a->base + a->size || o->verb)
                continue;
            key_of(o, run->start, run->kinds, party, sizeof party);
            if (!is_new(pinned_memory ? "cudaFreeHost" : "cudaFree", party))
                break;
            struct host_line line = caller_line(&here);
            if (line.line)
                snprintf(place, sizeof place, ", %s:%d,", line.file, line.line);
            name_party(o, run->start, run->kinds, run->kinds & ANY_WRITE, party, sizeof party,
                       &line);
            name_byte(run->start, byte, sizeof byte);
            complain_of_host(FAULT_ORDER, true, &line, texts[pinned_memory], place, party, byte);
            break;
        }
}

// ---- The host -----------------------------------------------------------------------------------

static const struct note_run *run_at(const struct operation *o, uint64_t at)
{
    size_t low = 0, high = o->run_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (o->runs[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < o->run_count && o->runs[low].start <= at ? &o->runs[low] : NULL;
}

static void tell_host(const struct operation *o, const struct note_run *run, uint64_t at,
                      bool writes, uint64_t instruction)
{
    const struct callers here = {.at = {instruction}, .count = 1};
    char party[PARTY], byte[128], place[340] = "";

    key_of(o, at, run->kinds, party, sizeof party);
    if (!is_new(writes ? "host writes" : "host reads", party))
        return;
    struct host_line line = caller_line(&here);
    if (line.line)
        snprintf(place, sizeof place, ", %s:%d,", line.file, line.line);
    name_party(o, at, run->kinds, run->kinds & ANY_WRITE, party, sizeof party, &line);
    name_byte(at, byte, sizeof byte);
    complain_of_host(
        FAULT_ORDER, true, &line,
        "the host%s %s %s, which %s: it has not waited for that (cudaDeviceSynchronize, "
        "cudaStreamSynchronize, or an event)",
        place, writes ? "writes" : "reads", byte, party);
}

// Called when the host has touched a page used by an operation that it does not know to be done. A
// value that kernels write only by atomic or volatile stores is a message: a host that has read it
// knows all that came before it.
static void host_touches(uint64_t at, bool writes, uint64_t instruction)
{
    API_LOCK();
    struct order_clock learned = {0};
    for (struct operation *o = operations; o; o = o->next) {
        const struct note_run *run = o->for_host ? run_at(o, at) : NULL;
        if (!run)
            continue;
        if (!(run->kinds & (READS | WRITES)))
            order_join(&learned, &o->knows);
        else if (writes || run->kinds & WRITES) {
            tell_host(o, run, at, writes, instruction);
            order_join(&learned, &o->knows); // the missing order is reported only once
        }
    }
    if (learned.count)
        order_host_knows(&learned);
    order_drop(&learned);
}

__attribute__((constructor)) static void begin(void)
{
    memory_on_touch(host_touches);
}
