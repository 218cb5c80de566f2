// counts_derive.c: adds up the counters of a launch, in total and for each source line.
#include "exec.h"

#include <stdlib.h>
#include <string.h>

// Wavefronts, multiplied by the share of the warps' lanes that took no part.
static uint64_t in_turns(uint64_t wavefronts, uint64_t warps, uint64_t threads)
{
    const uint64_t lanes = WARP * warps;
    return lanes ? wavefronts * (lanes - threads) / lanes : 0;
}

static void add_insn(struct counts *to, const struct insn_info *insn, const struct insn_counts *c,
                     uint64_t warps, uint64_t threads)
{
    threads -= c->lanes_off;
    to->warp_instructions += warps;
    to->thread_instructions += threads;
    to->classes[insn->op_class] += warps;
    to->tensor_flops += warps * insn->tensor_flops;
    to->tensor_flops_8bit += warps * insn->tensor_flops_8bit;
    to->tensor_instructions += warps * insn->tensor_instructions;
    to->mufu_threads += insn->mufu * threads;
    if (insn->substitutes)
        to->mufu_substitutes += threads;
    to->further_arithmetic += insn->further * warps;
    if (insn->barrier)
        to->barriers += warps;
    if (insn->signals)
        to->signals += warps;
    if (insn->op_class == CLASS_ATOMIC) {
        to->shared_atomic_wavefronts += c->wavefronts;
        to->shared_atomic_conflicts += c->conflicts;
        to->global_atomic_sectors += c->sectors;
        to->global_atomic_bytes += c->global_bytes;
    } else if (insn->store) {
        to->shared_store_wavefronts += c->wavefronts;
        to->shared_store_conflicts += c->conflicts;
        to->stored_in_turns += in_turns(c->wavefronts, warps, threads);
        to->global_store_sectors += c->sectors;
        to->global_store_bytes += c->global_bytes;
    } else {
        to->shared_load_wavefronts += c->wavefronts;
        to->shared_load_conflicts += c->conflicts;
        to->loaded_in_turns += in_turns(c->wavefronts, warps, threads);
        to->global_load_sectors += c->sectors;
        to->global_load_bytes += c->global_bytes;
        if (insn->op_class == CLASS_COPY_ASYNC)
            to->async_bytes += c->global_bytes;
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
