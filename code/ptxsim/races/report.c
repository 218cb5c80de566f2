// report.c: the texts of reports, and the log, which has one entry for each pair of source lines. The log also has
// reads of bytes that nothing has written, and other faults after which a kernel goes on.
#include "order.h"
#include "ptxsim/machine/film.h"

// Whether two instructions have one source line. A line of a helper that is inlined at two calls counts as two lines.
static bool same_line(const struct source_line *a, const struct source_line *b)
{
    return a->line == b->line && a->file == b->file &&
           (a->callers == b->callers || strcmp(a->callers, b->callers) == 0);
}

// Whether a path belongs to a header of the system or of a CUDA toolkit. The path may end at a colon.
static bool is_header_of_system(const char *path)
{
    static const char *const folders[] = {"/cccl/", "/cuda", "/nvidia/"};
    char text[512];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(path, ":"), path);
    if (strncmp(text, "/usr/include/", 13) == 0)
        return true;
    for (size_t i = 0; strstr(text, "/include/") && i < sizeof folders / sizeof *folders; ++i)
        if (strstr(text, folders[i]))
            return true;
    return false;
}

bool race_in_library(const struct program *program, uint32_t insn)
{
    const char *kernel = program->kernel->function->name;
    return program->insns[insn].at.in_library || strncmp(kernel, "_ZN3cub", 7) == 0 ||
           strncmp(kernel, "_ZN6thrust", 10) == 0;
}

// Whether a source line is in the program's own files, or is inlined into one of them.
static bool is_mine(const struct source_line *at)
{
    if (!at->line || !is_header_of_system(at->file))
        return true;
    size_t length;
    for (const char *caller = at->callers; (caller = next_caller(caller, &length));
         caller += length)
        if (!is_header_of_system(caller))
            return true;
    return false;
}

// The entry in the log for the source lines of a pair of instructions; NULL: the pair of lines is new. A line may have
// several instructions.
static struct race_entry *find_entry(const struct race_log *log, const struct insn_info *insns,
                                     enum fault_kind kind, uint32_t insn, uint32_t other)
{
    const struct insn_info *a = &insns[insn], *b = &insns[other];
    for (size_t i = 0; i < log->count; ++i) {
        struct race_entry *e = &log->entries[i];
        bool same = a->at.line ? same_line(&a->at, &insns[e->insn].at) : e->insn == insn;
        same &= b->at.line ? same_line(&b->at, &insns[e->other].at) : e->other == other;
        if (same && e->fault.kind == kind)
            return e;
    }
    return NULL;
}

// Counts a fault in the log, and describes it if it is new. other: the other party's instruction; party: what is known
// of that party, or NULL.
static void report(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
                   uint32_t other, const struct fault_place *party, const char *format,
                   va_list arguments)
{
    enum { MOST_PAIRS = 256 };
    struct cta *cta = w->cta;
    struct race_log *log = &cta->worker->races;
    const struct insn_info *insns = cta->program->insns;
    other &= RACE_INSN;
    if (cta->launch->mine && !is_mine(&insns[op->insn].at) && !is_mine(&insns[other].at))
        return;
    // Stops the kernel after this many reports: a kernel that computes with garbage may loop for ever.
    uint64_t enough = cta->launch->reports ? cta->launch->reports : 1 << 20;
    bool stops = ++log->total == enough;
    struct race_entry *e = find_entry(log, insns, kind, op->insn, other);
    bool is_new = !e && log->count < MOST_PAIRS;
    if (e)
        e->count++;
    if (!is_new && !stops && !cta->film)
        return;
    struct fault fault = fault_of(w, op, lane, kind, format, arguments);
    if (party)
        fault.other = *party;
    if (cta->film)
        film_fault(cta->film, &fault, w, lane, op->insn, other);
    if (stops)
        log->total = 0;
    if (stops && !cta->faulted) {
        fault_at(w, op, lane, kind, "%.511s: stopped: %llu accesses were reported",
                 fault.text + fault.what, (unsigned long long)enough);
        cta->fault.other = fault.other;
    }
    if (!is_new)
        return;
    log->entries = array_grow(log->entries, log->count, &log->capacity, sizeof *log->entries);
    log->entries[log->count++] = (struct race_entry){
        .insn = op->insn, .other = other, .cta = cta->number, .count = 1, .fault = fault};
}

void race_report(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
                 uint32_t other, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report(w, op, lane, kind, other, NULL, format, arguments);
    va_end(arguments);
}

void race_log_merge(struct race_log *into, struct race_log *from)
{
    for (size_t i = 0; i < from->count; ++i) {
        struct race_entry *e = &from->entries[i], *same = NULL;
        for (size_t k = 0; k < into->count && !same; ++k)
            if (into->entries[k].insn == e->insn && into->entries[k].other == e->other &&
                into->entries[k].fault.kind == e->fault.kind)
                same = &into->entries[k];
        if (!same) {
            into->entries =
                array_grow(into->entries, into->count, &into->capacity, sizeof *into->entries);
            into->entries[into->count++] = *e;
            continue;
        }
        same->count += e->count;
        if (e->cta < same->cta) {
            same->cta = e->cta;
            same->fault = e->fault;
        }
    }
    free(from->entries);
    *from = (struct race_log){0};
}

static int by_place(const void *a, const void *b)
{
    const struct race_entry *x = a, *y = b;
    // Sorted by CTA; within a CTA, uninitialised reads come before races.
    const uint64_t mine[] = {x->cta, x->fault.kind, x->insn, x->other};
    const uint64_t other[] = {y->cta, y->fault.kind, y->insn, y->other};
    for (int i = 0; i < 4; ++i)
        if (mine[i] != other[i])
            return mine[i] < other[i] ? -1 : 1;
    return 0;
}

void race_log_sort(struct race_log *log)
{
    if (log->count > 1)
        qsort(log->entries, log->count, sizeof *log->entries, by_place);
}

// ---- Two accesses that nothing orders -------------------------------------------------------------

// How a report names the other access: its thread, its line, and the variable or the byte of an allocation.
struct other_party {
    struct fault_place place;
    char who[64], block[64], where[544], variable[80];
};

static void name_block(const unsigned index[3], char *text, size_t size)
{
    snprintf(text, size, " of block (%u,%u,%u)", index[0], index[1], index[2]);
}

// Names a party by its thread and line, and by its block unless that is the warp's own.
static struct other_party name_thread(const struct warp *w, const unsigned block[3], unsigned x,
                                      unsigned y, unsigned z, uint32_t insn)
{
    const struct program *program = w->cta->program;
    struct other_party p = {.place = insn_place(program, insn & RACE_INSN)};
    p.place.by_thread = true;
    memcpy(p.place.block, block, sizeof p.place.block);
    memcpy(p.place.thread, (const unsigned[]){x, y, z}, sizeof p.place.thread);
    snprintf(p.who, sizeof p.who, "thread (%u,%u,%u)", x, y, z);
    if (memcmp(block, w->cta->index, sizeof p.place.block) != 0)
        name_block(block, p.block, sizeof p.block);
    insn_line(program, insn & RACE_INSN, p.where, sizeof p.where);
    return p;
}

// Names the party of an access to shared memory: a thread of the CTA `cta`.
static struct other_party name_party(const struct warp *w, const struct cta *cta, uint32_t thread,
                                     uint32_t insn, uint32_t at)
{
    const struct cta *issuing = issuing_cta(cta, thread);
    const struct warp *other = &issuing->warp[issuer_of(thread) / WARP];
    uint32_t lane = thread % WARP;
    struct other_party p = name_thread(w, issuing->index, other->tid[0][lane], other->tid[1][lane],
                                       other->tid[2][lane], insn);
    shared_name(cta->program, at, p.variable, sizeof p.variable);
    return p;
}

// Reports a race with a party whose instruction is `insn`.
__attribute__((format(printf, 6, 7))) static void report_pair(struct warp *w, const struct op *op,
                                                              int lane, uint32_t insn,
                                                              const struct other_party *p,
                                                              const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report(w, op, lane, FAULT_RACE, insn, &p->place, format, arguments);
    va_end(arguments);
}

// An instruction's name in a report, as two arguments for "%.*s".
#define NAME_OF(info) (info)->name_length, (info)->opcode

void report_shared(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                   enum race_access access, uint32_t thread, uint32_t insn, bool wrote,
                   uint32_t stamp)
{
    const struct cta *cta = w->cta;
    bool pending = wrote && stamp == RACE_PENDING, same_warp = thread / WARP == (uint32_t)w->index;
    bool by_load = wrote && source_of(thread) >= LOADS;
    char copies[48];
    snprintf(copies, sizeof copies, "copies (%.*s)", NAME_OF(insn_of(w, op->insn)));
    const char *verb = access == RACE_READ || access == RACE_LOOK ? "reads"
                       : access == RACE_WRITE                     ? "writes"
                                                                  : copies;
    struct other_party p = name_party(w, cta, thread, insn, at);
    if (cta->film)
        film_party(cta->film, issuer_of(thread), at, bytes, wrote, pending || by_load);
    if (pending)
        report_pair(
            w, op, lane, insn, &p,
            "%s %u bytes of shared memory at %u%s that a %.*s of %s%s at %s is still writing: "
            "nothing has waited for it",
            verb, bytes, at, p.variable, NAME_OF(insn_of(w, insn)), p.who, p.block, p.where);
    else if (by_load)
        report_pair(w, op, lane, insn, &p,
                    "%s %u bytes of shared memory at %u%s that a %.*s of %s%s at %s has written: "
                    "this thread has not waited for it, nor met one that had",
                    verb, bytes, at, p.variable, NAME_OF(insn_of(w, insn)), p.who, p.block,
                    p.where);
    else
        report_pair(w, op, lane, insn, &p,
                    "%s %u bytes of shared memory at %u%s that %s %s at %s with no %s in "
                    "between",
                    verb, bytes, at, p.variable, p.who, wrote ? "wrote" : "read", p.where,
                    same_warp ? "__syncwarp or barrier" : "barrier");
}

void report_overwritten(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                        uint32_t thread, uint32_t insn)
{
    struct other_party p = name_party(w, w->cta, thread, insn, at);
    if (w->cta->film)
        film_party(w->cta->film, issuer_of(thread), at, bytes, true, false);
    report_pair(w, op, lane, insn, &p,
                "reads %u bytes of shared memory at %u%s that %s wrote at %s while this was under "
                "way: nothing had waited for it, and a barrier does not (%s)",
                bytes, at, p.variable, p.who, p.where,
                is_bulk(w, op->insn) ? "cp.async.bulk.wait_group" : "wgmma.wait_group");
}

void report_proxy(struct warp *w, const struct op *op, int lane, const struct cta *home,
                  uint32_t at, uint32_t bytes, bool store, uint32_t thread, uint32_t insn,
                  bool wrote)
{
    struct other_party p = name_party(w, home, thread, insn, at);
    if (w->cta->film && home == w->cta)
        film_party(w->cta->film, thread, at, bytes, wrote, false);
    report_pair(w, op, lane, insn, &p,
                "%s %u bytes of shared memory at %u%s that %s%s %s at %s: a proxy fence is "
                "missing in between (fence.proxy.async)",
                store ? "copies" : "reads", bytes, at, p.variable, p.who, p.block,
                wrote ? "wrote" : "read", p.where);
}

// The report does not name the block of the shared memory, or of the other thread, if it is the
// lane's own.
void report_cluster(struct warp *w, const struct op *op, int lane, const struct cta *home,
                    uint32_t at, uint32_t bytes, enum race_access access, const struct party *p,
                    const char *did)
{
    char of[64] = "";
    const struct cta *other = cta_of(w, p->cta);
    const char *verb = access == RACE_READ ? "reads" : access == RACE_WRITE ? "writes" : "copies";
    struct other_party named = name_party(w, other, p->thread, p->insn, at);
    if (home != w->cta)
        name_block(home->index, of, sizeof of);
    report_pair(
        w, op, lane, p->insn, &named,
        "%s %u bytes of shared memory at %u%s%s that %s%s %s at %s with no barrier%s in between",
        verb, bytes, at, named.variable, of, named.who, named.block, did, named.where,
        other == w->cta ? "" : " of the cluster");
}

static struct other_party name_global_party(const struct warp *w, const struct party *p,
                                            uint64_t at, uint32_t bytes, bool wrote)
{
    const struct cta *cta = w->cta;
    const struct launch *launch = cta->launch;
    const struct allocation *a = memory_find(at, bytes, NULL);
    unsigned x = launch->block[0], y = launch->block[1];
    const unsigned theirs[3] = {p->cta % launch->grid[0],
                                p->cta / launch->grid[0] % launch->grid[1],
                                p->cta / launch->grid[0] / launch->grid[1]};
    struct other_party named =
        name_thread(w, theirs, p->thread % x, p->thread / x % y, p->thread / x / y, p->insn);
    if (a)
        snprintf(named.variable, sizeof named.variable, " (byte %llu of its allocation)",
                 (unsigned long long)(at - a->base));
    if (cta->film)
        film_global_party(cta->film, theirs, p->thread, at, bytes, wrote);
    return named;
}

void report_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                   enum race_access access, const struct party *p, bool wrote)
{
    struct other_party named = name_global_party(w, p, at, bytes, wrote);
    bool narrow =
        are_strong(race_kind(op), p->kind) && !are_morally_strong(w, op, p->cta, p->kind, p->insn);
    report_pair(w, op, lane, p->insn, &named,
                "%s %u bytes at 0x%llx%s that %s%s %s at %s with %s in between%s",
                access == RACE_READ ? "reads" : "writes", bytes, (unsigned long long)at,
                named.variable, named.who, named.block, wrote ? "wrote" : "read", named.where,
                p->cta != (uint32_t)w->cta->number       ? "no release and acquire"
                : p->thread / WARP == (unsigned)w->index ? "no __syncwarp or barrier"
                                                         : "no barrier",
                narrow ? ": both are strong, but a scope leaves out the other's block" : "");
}

// Reports a read of what a party wrote to global memory. missing: what should have ordered the two accesses.
static void report_read(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                        const struct party *p, const char *missing)
{
    struct other_party named = name_global_party(w, p, at, bytes, true);
    report_pair(w, op, lane, p->insn, &named, "reads %u bytes at 0x%llx%s that %s%s wrote at %s%s",
                bytes, (unsigned long long)at, named.variable, named.who, named.block, named.where,
                missing);
}

void report_narrow(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                   const struct party *p)
{
    report_read(w, op, lane, at, bytes, p,
                " with a fence in between that is for one block only (__threadfence_block): the "
                "value may be an old one");
}

void report_proxy_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                         const struct party *p)
{
    report_read(w, op, lane, at, bytes, p,
                ": a proxy fence is missing in between (fence.proxy.async)");
}
