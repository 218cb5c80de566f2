// counts.c: wavefronts and sectors of one access; what the counters of a launch add up to; the
// floors that an L4's units set under them.
#include "interp.h"

#include <stdlib.h>
#include <string.h>

const char *const op_class_names[CLASSES] = {
    "int",         "fp32",         "fp64",        "half",         "convert", "mufu",  "tensor",
    "shared_load", "shared_store", "global_load", "global_store", "local",   "const", "atomic",
    "shuffle",     "branch",       "barrier",     "copy_async",   "move",    "other"};

// ---- Shared memory ------------------------------------------------------------------------------

// 32 banks of 4 bytes. The words that some lanes want, deduplicated; the bank with the most
// different words says how many wavefronts they take.
static int words_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *distinct)
{
    enum { BANKS = 32, MOST = 4 * WARP };
    uint32_t word[MOST];
    uint8_t next[MOST], head[BANKS], depth[BANKS] = {0};
    int count = 0, most = 0;
    memset(head, 0xff, sizeof head);
    int words = bytes > 4 ? bytes / 4 : 1;
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t first = address[__builtin_ctz(left)] / 4;
        for (int i = 0; i < words; ++i) {
            uint32_t wanted = first + (uint32_t)i, bank = wanted % BANKS;
            uint8_t at = head[bank];
            while (at != 0xff && word[at] != wanted)
                at = next[at];
            if (at != 0xff)
                continue;
            word[count] = wanted;
            next[count] = head[bank];
            head[bank] = (uint8_t)count++;
            if (++depth[bank] > most)
                most = depth[bank];
        }
    }
    *distinct += count;
    return most;
}

// Whether lanes whose numbers differ in `bit` want the same address, all of them.
static bool pairs_agree(const uint32_t address[WARP], uint32_t mask, int bit)
{
    for (int i = 0; i < WARP; ++i)
        if (mask >> i & mask >> (i ^ bit) & 1 && address[i] != address[i ^ bit])
            return false;
    return true;
}

int shared_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *least)
{
    *least = mask ? 1 : 0;
    if (!mask)
        return 0;
    // 8-byte accesses go half a warp at a time, 16-byte ones a quarter; two such parts go together
    // where neighbours (lane ^ 1 or lane ^ 2) all share their address.
    int parts = bytes <= 4 ? 1 : bytes / 4;
    if (parts > 1 && (pairs_agree(address, mask, 1) || pairs_agree(address, mask, 2)))
        parts /= 2;
    int lanes = WARP / parts, wavefronts = 0, distinct = 0;
    for (int part = 0; part < parts; ++part) {
        uint32_t these = lanes == WARP ? mask : mask & ((1u << lanes) - 1) << part * lanes;
        if (these)
            wavefronts += words_wavefronts(address, bytes, these, &distinct);
    }
    *least = (distinct + 31) / 32;
    if (*least > wavefronts)
        *least = wavefronts;
    return wavefronts;
}

int global_sectors(const uint64_t address[WARP], int bytes, uint32_t mask)
{
    uint64_t seen[2 * WARP];
    int count = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        uint64_t at = address[__builtin_ctz(left)];
        for (uint64_t sector = at / 32; sector <= (at + (uint64_t)bytes - 1) / 32; ++sector) {
            int i = count;
            while (i > 0 && seen[i - 1] != sector)
                --i;
            if (!i && count < 2 * WARP)
                seen[count++] = sector;
        }
    }
    return count;
}

// ---- Sums ---------------------------------------------------------------------------------------

static void add_insn(struct counts *to, const struct insn_info *insn, const struct insn_counts *c,
                     uint64_t warps, uint64_t threads)
{
    threads -= c->lanes_off;
    to->warp_instructions += warps;
    to->thread_instructions += threads;
    to->classes[insn->op_class] += warps;
    to->tensor_flops += warps * insn->tensor_flops;
    to->tensor_instructions += warps * insn->tensor_instructions;
    if (insn->mufu)
        to->mufu_threads += threads;
    if (insn->barrier)
        to->barriers += warps;
    if (insn->store) {
        to->shared_store_wavefronts += c->wavefronts;
        to->shared_store_conflicts += c->conflicts;
        to->global_store_sectors += c->sectors;
        to->global_store_bytes += c->global_bytes;
    } else {
        to->shared_load_wavefronts += c->wavefronts;
        to->shared_load_conflicts += c->conflicts;
        to->global_load_sectors += c->sectors;
        to->global_load_bytes += c->global_bytes;
    }
    to->shared_bytes += c->shared_bytes;
    to->divergent_branches += c->divergent;
}

static int compare_lines(const char *file, int line, const struct line_counts *with)
{
    int order = strcmp(file, with->file);
    return order ? order : (line > with->line) - (line < with->line);
}

static struct counts *find_line(struct line_counts **lines, size_t *count,
                                const struct source_line *at)
{
    size_t low = 0, high = *count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare_lines(at->file, at->line, &(*lines)[middle]);
        if (!order)
            return &(*lines)[middle].counts;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    struct line_counts *grown = realloc(*lines, (*count + 1) * sizeof **lines);
    if (!grown)
        abort();
    *lines = grown;
    memmove(&grown[low + 1], &grown[low], (*count - low) * sizeof *grown);
    grown[low] = (struct line_counts){.file = at->file, .line = at->line};
    ++*count;
    return &grown[low].counts;
}

void counts_derive(const struct program *p, const struct insn_counts *insns,
                   const struct block_counts *blocks, struct counts *counts,
                   struct line_counts **lines, size_t *line_count)
{
    for (size_t b = 0; b < p->block_count; ++b) {
        const struct basic_block *block = &p->blocks[b];
        if (!blocks[b].warps)
            continue;
        for (uint32_t i = block->insn; i < block->insn + block->insns; ++i) {
            const struct insn_info *insn = &p->insns[i];
            if (counts)
                add_insn(counts, insn, &insns[i], blocks[b].warps, blocks[b].threads);
            if (lines && line_count && insn->at.line)
                add_insn(find_line(lines, line_count, &insn->at), insn, &insns[i], blocks[b].warps,
                         blocks[b].threads);
        }
    }
}

// ---- An L4 --------------------------------------------------------------------------------------

// NVIDIA L4 data sheet: 300 GB/s; 121 TFLOP/s dense for FP16 products (242 with sparsity).
// Ada architecture paper, per SM and cycle: 4 warp instructions issued, 16 special-function
// results, 1 shared-memory wavefront of 128 bytes. 58 SMs; 2.04 GHz boost.
struct floors l4_floors(const struct counts *counts, uint64_t dram_bytes)
{
    const double sms = 58, cycles_per_us = 2040;
    struct floors f = {
        .tensor = (double)counts->tensor_flops / 121e6,
        .exp = (double)counts->mufu_threads / (16 * sms * cycles_per_us),
        .shared = (double)(counts->shared_load_wavefronts + counts->shared_store_wavefronts) /
                  (sms * cycles_per_us),
        .issue = (double)counts->warp_instructions / (4 * sms * cycles_per_us),
        .dram = (double)dram_bytes / 300e3,
    };
    const double values[] = {f.tensor, f.exp, f.shared, f.issue, f.dram};
    static const char *const names[] = {"tensor", "exp", "shared", "issue", "dram"};
    int most = 0;
    for (int i = 1; i < 5; ++i)
        if (values[i] > values[most])
            most = i;
    f.binding = names[most];
    return f;
}
