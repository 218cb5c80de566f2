// film.c: the events of a film, and how they are written.
//
// A row of "events" is [type, ...]. The rows after a `block` row belong to that row's warp, and
// `instruction` is the number of the instruction that caused the row.
//
//   0 block     warp, block, mask
//   1 lanes     instruction, mask            the guard holds for these lanes only
//   2 counts    instruction, wavefronts, conflicts, sectors, shared bytes, global bytes
//   3 shared    instruction, access, base, pattern     access: enum film_access
//   4 global    instruction, access, allocation, base, pattern
//   5 arrive    instruction, barrier, mask, threads expected (0: all)
//   6 release   barrier, warps (bits)
//   7 mbarrier  instruction, address, kind, lanes, pending, expected, bytes missing, phases ended
//   8 ask       instruction, address, lanes, passed, phases ended
//   9 group     instruction, groups left (-1: commit), whether the open one counts
//  10 bulk      instruction, lane, address, bytes, mbarrier, phase, store
//  11 product   instruction, A from, A to, B from, B to (shared addresses; from = to: registers)
//  12 fault     its number in "faults"
//  13 value     instruction, which of its registers, bytes (0: a predicate), mask, then the bits of
//               each active lane's value
//
// A pattern is [bytes, mask, then for each active lane its address minus that of the lowest active
// lane, which is the access's base]. Most accesses repeat an earlier pattern.
#include "film.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORDS_MAX = 6 << 20, // words of events and patterns: a page must stay below 8 MB
    FAULTS_MAX = 32,
    SLOTS = 1 << 14, // slots of the hash table of patterns
};

struct film_pattern {
    int64_t from[WARP]; // 0 for lanes that are not active
    uint32_t mask, bytes, next;
};

struct film_report {
    enum fault_kind kind;
    uint32_t warp, lane, insn, other, event;
    // party: whether the other access's thread and address are known; wrote, pending: whether that
    // access is a write, and whether it is a copy that was still under way.
    bool party, wrote, pending;
    bool global;     // both accesses are to global memory, and `at` is an offset in `allocation`
    unsigned cta[3]; // the CTA of the other access
    uint32_t thread, bytes;
    uint64_t at;
    int64_t allocation;
    size_t what; // offset in the text where the account of the fault begins
    char text[sizeof((struct fault *)NULL)->text];
};

struct film {
    const struct program *program;
    const struct launch *launch;
    const struct kernel *kernel;
    unsigned grid[3], block[3], index[3];
    size_t dynamic_shared_bytes;
    uint32_t shared_bytes;
    int warps;
    bool cut;     // whether events were left out, since the film is full
    bool *wanted; // for each instruction, whether its values are shown; NULL: none is shown
    int64_t *words;
    size_t word_count, word_capacity, last_block;
    uint32_t events;
    struct film_pattern *patterns;
    size_t pattern_count, pattern_capacity, pattern_words;
    uint32_t slots[SLOTS]; // 1 + the latest pattern with this hash; 0: none
    uint64_t *allocations; // base addresses of the accessed allocations
    size_t allocation_count, allocation_capacity;
    struct film_report faults[FAULTS_MAX];
    int fault_count;
    struct film_report party; // the other access of the fault that is reported next
    struct film_description {
        uint32_t insn;
        char *json;
    } * descriptions;
    size_t description_count, description_capacity;
};

// ---- Values -------------------------------------------------------------------------------------

// Whether a list of lines ("164,my.cu:20") contains this line.
static bool lists_line(const char *list, const char *file, size_t length, int line)
{
    for (const char *item = list; *item; item += *item == ',') {
        size_t size = strcspn(item, ","), name = size;
        while (name > 0 && item[name - 1] != ':')
            --name;
        bool of_file = name == 0 ||
                       (name - 1 <= length && !strncmp(file + length - (name - 1), item, name - 1));
        if (of_file && atoi(item + name) == line)
            return true;
        item += size;
    }
    return false;
}

// Whether an instruction's line, or that of one of its callers, is in the list.
static bool listed(const char *list, const struct source_line *at)
{
    if (!at->line)
        return false;
    if (lists_line(list, at->file, strlen(at->file), at->line))
        return true;
    size_t length;
    for (const char *at_caller = at->callers; (at_caller = next_caller(at_caller, &length));
         at_caller += length) {
        size_t colon = length;
        while (at_caller[colon] != ':')
            --colon;
        if (lists_line(list, at_caller, colon, atoi(at_caller + colon + 1)))
            return true;
    }
    return false;
}

static bool *wanted_values(const struct program *p)
{
    const char *list = getenv("PTXSIM_FILM_VALUES");
    if (!list || !*list)
        return NULL;
    bool *wanted = checked_alloc(calloc(p->insn_count + 1, sizeof *wanted));
    for (size_t i = 0; i < p->insn_count; ++i)
        wanted[i] = listed(list, &p->insns[i].at);
    return wanted;
}

bool film_wants(const struct film *f, uint32_t insn)
{
    return f->wanted && f->wanted[insn];
}

struct film *film_start(const struct cta *cta)
{
    struct film *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->program = cta->program;
    f->kernel = cta->launch->kernel;
    memcpy(f->grid, cta->launch->grid, sizeof f->grid);
    memcpy(f->block, cta->launch->block, sizeof f->block);
    memcpy(f->index, cta->index, sizeof f->index);
    f->dynamic_shared_bytes = cta->launch->dynamic_shared_bytes;
    f->shared_bytes = cta->shared_bytes;
    f->warps = cta->warps;
    f->wanted = wanted_values(cta->program);
    return f;
}

void film_describe(struct film *f, uint32_t insn, const char *json)
{
    f->descriptions = array_grow(f->descriptions, f->description_count, &f->description_capacity,
                                 sizeof *f->descriptions);
    f->descriptions[f->description_count++] =
        (struct film_description){.insn = insn, .json = checked_alloc(strdup(json))};
}

// ---- Events -------------------------------------------------------------------------------------

// Adds an event: its type and `count` numbers.
static void add(struct film *f, enum film_event type, const int64_t *numbers, int count)
{
    if (f->cut)
        return;
    // If the film is full, drops the last block, which would be cut, and ends the film.
    if (f->word_count + f->pattern_words + (size_t)count + 2 > WORDS_MAX) {
        f->cut = true;
        f->word_count = f->last_block;
        return;
    }
    const int64_t head[] = {count, type};
    for (int i = -2; i < count; ++i) {
        f->words = array_grow(f->words, f->word_count, &f->word_capacity, sizeof *f->words);
        f->words[f->word_count++] = i < 0 ? head[i + 2] : numbers[i];
    }
    f->events++;
}
#define ADD(film, type, ...)                                                                       \
    add(film, type, (const int64_t[]){__VA_ARGS__},                                                \
        (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

// The number of the pattern of these addresses; *base becomes the lowest active lane's address.
static uint32_t pattern_of(struct film *f, const uint64_t at[WARP], uint32_t bytes, uint32_t mask,
                           uint64_t *base)
{
    struct film_pattern p = {.mask = mask, .bytes = bytes};
    uint64_t hash = mask * UINT64_C(0x9e3779b97f4a7c15) + bytes;
    *base = at[__builtin_ctz(mask)];
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        p.from[i] = (int64_t)(at[i] - *base);
        hash = (hash ^ (uint64_t)p.from[i]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    uint32_t *slot = &f->slots[hash % SLOTS];
    for (uint32_t i = *slot; i; i = f->patterns[i - 1].next) {
        const struct film_pattern *q = &f->patterns[i - 1];
        if (q->mask == mask && q->bytes == bytes && !memcmp(q->from, p.from, sizeof p.from))
            return i - 1;
    }
    p.next = *slot;
    f->patterns = array_grow(f->patterns, f->pattern_count, &f->pattern_capacity, sizeof p);
    f->patterns[f->pattern_count++] = p;
    f->pattern_words += 2 + (size_t)__builtin_popcount(mask);
    *slot = (uint32_t)f->pattern_count;
    return *slot - 1;
}

void film_block(struct film *f, const struct warp *w, uint32_t block, uint32_t mask)
{
    if (!f->cut)
        f->last_block = f->word_count;
    ADD(f, EVENT_BLOCK, w->index, block, mask);
}

void film_lanes(struct film *f, uint32_t insn, uint32_t mask)
{
    ADD(f, EVENT_LANES, insn, mask);
}

void film_counts(struct film *f, uint32_t insn, const struct insn_counts *before,
                 const struct insn_counts *after)
{
    int64_t n[] = {insn,
                   (int64_t)(after->wavefronts - before->wavefronts),
                   (int64_t)(after->conflicts - before->conflicts),
                   (int64_t)(after->sectors - before->sectors),
                   (int64_t)(after->shared_bytes - before->shared_bytes),
                   (int64_t)(after->global_bytes - before->global_bytes)};
    if (n[1] | n[2] | n[3] | n[4] | n[5])
        add(f, EVENT_COUNTS, n, 6);
}

void film_shared(struct film *f, uint32_t insn, const uint32_t at[WARP], int bytes, uint32_t mask,
                 enum film_access access)
{
    uint64_t wide[WARP], base;
    if (!mask || f->cut)
        return;
    for (int i = 0; i < WARP; ++i)
        wide[i] = at[i];
    uint32_t pattern = pattern_of(f, wide, (uint32_t)bytes, mask, &base);
    ADD(f, EVENT_SHARED, insn, access, (int64_t)base, pattern);
}

// The number of an allocation, in the order of first accesses.
static int64_t allocation_number(struct film *f, uint64_t base)
{
    for (size_t i = 0; i < f->allocation_count; ++i)
        if (f->allocations[i] == base)
            return (int64_t)i;
    f->allocations = array_grow(f->allocations, f->allocation_count, &f->allocation_capacity,
                                sizeof *f->allocations);
    f->allocations[f->allocation_count++] = base;
    return (int64_t)f->allocation_count - 1;
}

void film_global(struct film *f, uint32_t insn, const uint64_t at[WARP], int bytes, uint32_t mask,
                 enum film_access access)
{
    uint64_t base;
    if (!mask || f->cut)
        return;
    uint32_t pattern = pattern_of(f, at, (uint32_t)bytes, mask, &base);
    const struct allocation *a = memory_find(base, (uint64_t)bytes, NULL);
    ADD(f, EVENT_GLOBAL, insn, access, a ? allocation_number(f, a->base) : -1,
        a ? (int64_t)(base - a->base) : 0, pattern);
}

void film_value(struct film *f, uint32_t insn, int index, int bytes, uint32_t mask,
                const void *values)
{
    int64_t n[4 + WARP] = {insn, index, bytes, mask};
    int count = 4;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        n[count++] = bytes == 0   ? *(const uint32_t *)values >> i & 1
                     : bytes == 1 ? ((const uint8_t *)values)[i]
                     : bytes == 2 ? ((const uint16_t *)values)[i]
                     : bytes == 4 ? ((const uint32_t *)values)[i]
                                  : ((const int64_t *)values)[i];
    }
    add(f, EVENT_VALUE, n, count);
}

void film_arrive(struct film *f, uint32_t insn, unsigned barrier, uint32_t mask, uint32_t expected)
{
    ADD(f, EVENT_ARRIVE, insn, barrier, mask, expected);
}

void film_release(struct film *f, unsigned barrier, uint32_t warps)
{
    ADD(f, EVENT_RELEASE, barrier, warps);
}

void film_mbarrier(struct film *f, uint32_t insn, const struct film_mbarrier *m)
{
    ADD(f, EVENT_MBARRIER, insn, m->at, m->kind, m->lanes, m->pending, m->expected, m->bytes,
        m->phases);
}

void film_ask(struct film *f, uint32_t insn, uint32_t at, uint32_t lanes, uint32_t passed,
              uint32_t phases)
{
    ADD(f, EVENT_ASK, insn, at, lanes, passed, phases);
}

void film_group(struct film *f, uint32_t insn, int64_t left, bool all)
{
    ADD(f, EVENT_GROUP, insn, left, all);
}

void film_bulk(struct film *f, uint32_t insn, int lane, uint32_t at, uint32_t bytes,
               uint32_t mbarrier, uint32_t phase, bool store)
{
    ADD(f, EVENT_BULK, insn, lane, at, bytes, mbarrier, phase, store);
}

void film_product(struct film *f, uint32_t insn, const uint32_t from[2], const uint32_t to[2])
{
    ADD(f, EVENT_PRODUCT, insn, from[0], to[0], from[1], to[1]);
}

// ---- Faults -------------------------------------------------------------------------------------

void film_party(struct film *f, uint32_t thread, uint32_t at, uint32_t bytes, bool wrote,
                bool pending)
{
    f->party = (struct film_report){.party = true,
                                    .thread = thread,
                                    .at = at,
                                    .bytes = bytes,
                                    .wrote = wrote,
                                    .pending = pending};
    memcpy(f->party.cta, f->index, sizeof f->index);
}

void film_global_party(struct film *f, const unsigned cta[3], uint32_t thread, uint64_t at,
                       uint32_t bytes, bool wrote)
{
    const struct allocation *a = memory_find(at, bytes, NULL);
    f->party = (struct film_report){.party = true,
                                    .global = true,
                                    .thread = thread,
                                    .allocation = a ? allocation_number(f, a->base) : -1,
                                    .at = a ? at - a->base : 0,
                                    .bytes = bytes,
                                    .wrote = wrote};
    memcpy(f->party.cta, cta, sizeof f->party.cta);
}

// Whether a race is between two warps: __syncwarp() cannot mend such a race.
static bool across(const struct film *f, const struct film_report *r)
{
    return r->party &&
           (r->thread / WARP != r->warp || memcmp(r->cta, f->index, sizeof f->index) != 0);
}

void film_fault(struct film *f, const struct fault *fault, const struct warp *w, int lane,
                uint32_t insn, uint32_t other)
{
    struct film_report report = f->party;
    f->party.party = false;
    int at = 0;
    while (at < f->fault_count && (f->faults[at].kind != fault->kind ||
                                   f->faults[at].insn != insn || f->faults[at].other != other))
        at++;
    bool known = at < f->fault_count;
    report.warp = (uint32_t)w->index;
    if (at == FAULTS_MAX || (known && (across(f, &f->faults[at]) || !across(f, &report))))
        return;
    report.kind = fault->kind;
    report.lane = (uint32_t)lane;
    report.insn = insn;
    report.other = other;
    report.event = f->events;
    report.what = fault->what;
    snprintf(report.text, sizeof report.text, "%s", fault->text);
    f->faults[at] = report;
    ADD(f, EVENT_FAULT, at);
    f->fault_count += !known;
}

// ---- The file -----------------------------------------------------------------------------------

// Writes the instructions, each as [file, line, callers, class, opcode, whether it stores], and the
// blocks, each as [number of its first instruction, how many it has].
static void write_instructions(FILE *file, const struct program *p)
{
    fprintf(file, ",\n\"instructions\":[");
    for (size_t i = 0; i < p->insn_count; ++i) {
        const struct insn_info *insn = &p->insns[i];
        fprintf(file, "%s\n[", i ? "," : "");
        write_string(file, insn->at.line ? source_path(insn->at.file) : "");
        fprintf(file, ",%d,", insn->at.line);
        write_callers(file, insn->at.line ? insn->at.callers : "");
        fprintf(file, ",\"%s\",", op_class_names[insn->op_class]);
        write_string(file, insn->opcode);
        fprintf(file, ",%d]", insn->store);
    }
    fprintf(file, "],\n\"blocks\":[");
    for (size_t i = 0; i < p->block_count; ++i)
        fprintf(file, "%s[%u,%u]", i ? "," : "", p->blocks[i].insn, p->blocks[i].insns);
    fputc(']', file);
}

static void write_variables(FILE *file, const struct film *f)
{
    const struct function *function = f->kernel->function;
    const struct module *module = function->module;
    const char *comma = "";
    char name[128];
    fprintf(file, ",\n\"variables\":[");
    for (int which = 0; which < 2; ++which) {
        size_t count = which ? module->variable_count : function->variable_count;
        for (size_t i = 0; i < count; ++i) {
            const struct variable *v = which ? module->variables[i] : function->variables[i];
            if (v->space != SPACE_SHARED)
                continue;
            variable_name(v, name, sizeof name);
            fprintf(file, "%s[\"%s\",%zu,%zu]", comma, name,
                    v->dynamic ? f->program->dynamic_offset : v->offset,
                    v->dynamic ? f->dynamic_shared_bytes : v->size);
            comma = ",";
        }
    }
    fputc(']', file);
}

static void write_events(FILE *file, const struct film *f)
{
    fprintf(file, ",\n\"patterns\":[");
    for (size_t i = 0; i < f->pattern_count; ++i) {
        const struct film_pattern *p = &f->patterns[i];
        fprintf(file, "%s[%u,%u", i ? ",\n" : "\n", p->bytes, p->mask);
        for (uint32_t left = p->mask; left; left &= left - 1)
            fprintf(file, ",%lld", (long long)p->from[__builtin_ctz(left)]);
        fputc(']', file);
    }
    fprintf(file, "],\n\"events\":[");
    for (size_t i = 0; i < f->word_count; i += (size_t)f->words[i] + 2) {
        fprintf(file, "%s[%lld", i ? ",\n" : "\n", (long long)f->words[i + 1]);
        for (int64_t k = 0; k < f->words[i]; ++k)
            fprintf(file, ",%lld", (long long)f->words[i + 2 + (size_t)k]);
        fputc(']', file);
    }
    fputc(']', file);
}

static void write_faults(FILE *file, const struct film *f)
{
    fprintf(file, ",\n\"faults\":[");
    for (int i = 0; i < f->fault_count; ++i) {
        const struct film_report *r = &f->faults[i];
        fprintf(file,
                "%s\n{\"kind\":\"%s\",\"event\":%u,\"warp\":%u,\"lane\":%u,\"insn\":%lld,\"other\":"
                "%lld",
                i ? "," : "", fault_kind_name(r->kind), r->event, r->warp, r->lane,
                r->insn == UINT32_MAX ? -1LL : (long long)r->insn,
                r->other == UINT32_MAX ? -1LL : (long long)r->other);
        if (r->insn != UINT32_MAX && !f->program->insns[r->insn].at.line)
            fprintf(file, ",\"ptx_line\":%d", f->program->insns[r->insn].ptx_line);
        if (r->party)
            fprintf(file, ",\"thread\":%u,\"%s\":%llu,\"bytes\":%u,\"wrote\":%s,\"pending\":%s",
                    r->thread, r->global ? "byte" : "at", (unsigned long long)r->at, r->bytes,
                    r->wrote ? "true" : "false", r->pending ? "true" : "false");
        if (r->party && r->global)
            fprintf(file, ",\"allocation\":%lld,\"cta\":[%u,%u,%u]", (long long)r->allocation,
                    r->cta[0], r->cta[1], r->cta[2]);
        fprintf(file, ",\"what\":");
        write_string(file, r->text + r->what);
        fprintf(file, ",\"text\":");
        write_string(file, r->text);
        fputc('}', file);
    }
    fputc(']', file);
}

void film_write(FILE *file, const struct film *f)
{
    char name[256];
    kernel_base_name(kernel_info(f->kernel)->name, name, sizeof name);
    fprintf(file,
            "{\"kernel\":\"%s\",\"mangled\":\"%s\",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],"
            "\"cta\":[%u,%u,%u],"
            "\"warps\":%d,\"shared_bytes\":%u,\"cut\":%s",
            name, kernel_info(f->kernel)->name, f->grid[0], f->grid[1], f->grid[2], f->block[0],
            f->block[1], f->block[2], f->index[0], f->index[1], f->index[2], f->warps,
            f->shared_bytes, f->cut ? "true" : "false");
    write_instructions(file, f->program);
    write_variables(file, f);
    fprintf(file, ",\n\"fragments\":{");
    for (size_t i = 0; i < f->description_count; ++i)
        fprintf(file, "%s\n\"%u\":%s", i ? "," : "", f->descriptions[i].insn,
                f->descriptions[i].json);
    fputc('}', file);
    write_faults(file, f);
    write_events(file, f);
    fputc('}', file);
}
