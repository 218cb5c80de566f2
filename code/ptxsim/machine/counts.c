// counts.c: wavefronts and sectors of one access; the least time that a launch takes in each unit
// of an L4, from its counts.
#include "machine.h"

#include "image/gpus.h"

#include <stdlib.h>
#include <string.h>

const char *const op_class_names[CLASSES] = {
    "int",         "fp32",         "fp64",        "half",         "convert", "mufu",  "tensor",
    "shared_load", "shared_store", "global_load", "global_store", "local",   "const", "atomic",
    "shuffle",     "branch",       "barrier",     "copy_async",   "move",    "other"};

// ---- Shared memory ------------------------------------------------------------------------------

// Whether no two lanes access different elements in the same banks. places: how many elements the
// 32 banks hold side by side.
static bool all_apart(const uint32_t address[WARP], int shift, uint32_t places, uint32_t mask)
{
    uint32_t last[WARP], others = 0;
    for (int i = 0; i < WARP; ++i)
        if (mask >> i & 1)
            last[address[i] >> shift & (places - 1)] = address[i] >> shift;
    for (int i = 0; i < WARP; ++i)
        if (mask >> i & 1)
            others |= last[address[i] >> shift & (places - 1)] ^ address[i] >> shift;
    return !others;
}

// There are 32 banks of 4 bytes. An element that several lanes want counts once. An element of
// several words lies in as many neighbouring banks, so one count serves all of these. The fullest
// bank gives the number of wavefronts.
static int fullest_bank(const uint32_t address[WARP], int shift, uint32_t mask)
{
    enum { BANKS = 32 };
    uint32_t element[WARP];
    uint8_t next[WARP], head[BANKS], depth[BANKS] = {0};
    int count = 0, most = 0;
    uint32_t places = (uint32_t)(4 * BANKS >> shift);
    if (mask == ~0u ? all_apart(address, shift, places, ~0u)
                    : all_apart(address, shift, places, mask))
        return mask != 0;
    memset(head, 0xff, sizeof head);
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t wanted = address[__builtin_ctz(left)] >> shift, place = wanted & (places - 1);
        uint8_t at = head[place];
        while (at != 0xff && element[at] != wanted)
            at = next[at];
        if (at != 0xff)
            continue;
        element[count] = wanted;
        next[count] = head[place];
        head[place] = (uint8_t)count++;
        if (++depth[place] > most)
            most = depth[place];
    }
    return most;
}

// The result of fullest_bank, remembered. Most accesses have the pattern of the last one, shifted
// by some elements, and then take as many wavefronts as the last one: every element's bank is
// shifted by the same number.
static int elements_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask)
{
    static _Thread_local struct {
        uint32_t from_first[WARP], mask;
        int shift, wavefronts;
    } last;
    int shift = bytes <= 4 ? 2 : __builtin_ctz((unsigned)bytes);
    uint32_t first = address[0] >> shift,
             differs = (mask ^ last.mask) | (uint32_t)(shift ^ last.shift);
    for (int i = 0; i < WARP; ++i)
        differs |= ((address[i] >> shift) - first) ^ last.from_first[i];
    if (differs) {
        for (int i = 0; i < WARP; ++i)
            last.from_first[i] = (address[i] >> shift) - first;
        last.mask = mask;
        last.shift = shift;
        last.wavefronts = fullest_bank(address, shift, mask);
    }
    return last.wavefronts;
}

// Whether every lane wants the same address as the lane whose number differs in `bit`.
static bool pairs_agree(const uint32_t address[WARP], uint32_t mask, int bit)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (!(mask >> (i ^ bit) & 1) || address[i] != address[i ^ bit])
            return false;
    }
    return true;
}

// Whether a load serves the lanes of two neighbouring parts of the warp (halves or quarters)
// together. It does if they have no conflict, and either are no more than the `lanes` of one part,
// or come in pairs that share an address.
static bool go_together(const uint32_t address[WARP], int bytes, uint32_t mask, int lanes)
{
    return (__builtin_popcount(mask) <= lanes || pairs_agree(address, mask, 1) ||
            pairs_agree(address, mask, 2)) &&
           elements_wavefronts(address, bytes, mask) == 1;
}

// Those lanes of `mask` that are in part number `part` of the warp; each part has `lanes` lanes.
static uint32_t part_of(uint32_t mask, int part, int lanes)
{
    return lanes == WARP ? mask : mask & ((1u << lanes) - 1) << part * lanes;
}

int shared_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *least)
{
    *least = mask ? 1 : 0;
    if (!mask || bytes <= 4)
        return mask ? elements_wavefronts(address, bytes, mask) : 0;
    // 8-byte loads are served half a warp at a time, 16-byte ones a quarter, unless two parts go together.
    int parts = bytes / 4, lanes = WARP / parts, wavefronts = 0;
    *least = 0;
    for (int part = 0; part < parts; part += 2) {
        uint32_t low = part_of(mask, part, lanes), high = part_of(mask, part + 1, lanes);
        int most = 0;
        if (low && high && go_together(address, bytes, low | high, lanes))
            low |= high, high = 0;
        if (low)
            wavefronts += elements_wavefronts(address, bytes, low), ++most;
        if (high)
            wavefronts += elements_wavefronts(address, bytes, high), ++most;
        *least += most;
    }
    return wavefronts;
}

int shared_store_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *least)
{
    int parts = bytes <= 4 ? 1 : bytes / 4, wavefronts = 0;
    *least = 0;
    for (int part = 0; part < parts; ++part) {
        uint32_t these = part_of(mask, part, WARP / parts);
        if (!these)
            continue;
        wavefronts += elements_wavefronts(address, bytes, these);
        ++*least;
    }
    return wavefronts;
}

int shared_atomic_wavefronts(const uint64_t address[WARP], int bytes, uint32_t mask, bool swaps,
                             int *least)
{
    int parts = bytes <= 4 ? 1 : bytes / 4, wavefronts = 0;
    *least = 0;
    for (int part = 0; part < parts; ++part) {
        uint32_t these = part_of(mask, part, WARP / parts);
        int depth[WARP] = {0}, most = 0;
        for (uint32_t left = these; left; left &= left - 1) {
            int bank = (int)(address[__builtin_ctz(left)] / 4 % WARP);
            if (++depth[bank] > most)
                most = depth[bank];
        }
        wavefronts += most;
        *least += these != 0;
    }
    *least *= swaps ? 2 : 1;
    return swaps ? 2 * wavefronts : wavefronts;
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

int global_atomic_sectors(const uint64_t address[WARP], int bytes, uint32_t mask)
{
    int sectors = 0;
    while (mask) { // each round takes, of every distinct address, the first lane that remains
        uint32_t now = 0;
        for (uint32_t left = mask; left; left &= left - 1) {
            int lane = __builtin_ctz(left);
            bool taken = false;
            for (uint32_t other = now; other && !taken; other &= other - 1)
                taken = address[__builtin_ctz(other)] == address[lane];
            now |= (uint32_t)!taken << lane;
        }
        sectors += global_sectors(address, bytes, now);
        mask &= ~now;
    }
    return sectors;
}

// ---- By name ------------------------------------------------------------------------------------

const uint64_t *counts_find(const struct counts *counts, const char *name)
{
#define COUNTER(known, title, what)                                                                \
    if (strcmp(name, #known) == 0)                                                                 \
        return &counts->known;
#define CLASS_COUNTER(known, op_class, title, what)                                                \
    if (strcmp(name, #known) == 0)                                                                 \
        return &counts->classes[CLASS_##op_class];
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
    return NULL;
}

// ---- An L4 --------------------------------------------------------------------------------------

// The least time in µs of a launch in each unit of an L4 at its boost clock.
struct floors l4_floors(const struct counts *counts, uint64_t dram_bytes)
{
    const struct gpu *l4 = &gpus[GPU_L4];
    const double cycles = (double)l4->sms * l4->clock_khz / 1e3; // cycles of all SMs in a µs
    struct floors f = {
        .tensor = ((double)counts->tensor_flops - 0.5 * (double)counts->tensor_flops_8bit) /
                  (l4->tensor_fp16_tflops * 1e6),
        .exp = (double)counts->mufu_threads / (GPU_RATE_EXP * cycles),
        .shared = (double)(counts->shared_load_wavefronts + counts->shared_store_wavefronts +
                           counts->shared_atomic_wavefronts) /
                  (GPU_RATE_SHARED * cycles),
        .issue = (double)counts->warp_instructions / (GPU_RATE_ISSUE * cycles),
        .dram = (double)dram_bytes / (l4->dram_gbs * 1e3),
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
