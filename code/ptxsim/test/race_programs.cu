// race_programs.cu: programs drawn at random: accesses of one block to shared memory, or of four
// blocks to global memory, plain and strong ones of several sizes; barriers between accesses; and
// flags that one block sets and another waits for. Which accesses have no order follows from the
// barriers and flags alone: `past` finds them in a simple way, and the simulator must agree.
// test_races.bats runs them:
//   race_programs shared|global words|bytes COUNT SEED
// prints each program about which the two disagree, and how many programs have a race.
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int WARPS = 3, THREADS = 32 * WARPS, STEPS = 16; // warps and threads of a block
constexpr int BLOCKS = 4;                                  // in a program with global memory
constexpr int BYTES = 4096; // bytes of a block's own memory, if blocks have their own

enum kind { LOAD, STORE, SYNCWARP, SYNCTHREADS, HAND_OVER };
enum shape { RUN, SAME, BACKWARDS, SCATTERED }; // patterns of a warp's addresses

struct step {
    uint8_t kind, shape, size; // size: bytes that a lane accesses
    uint8_t blocks, warps;     // bit masks of the blocks, and of each block's warps, that take part
    uint8_t lanes;             // lanes 0 to lanes - 1 take part
    uint8_t from, to;          // HAND_OVER: the block that sets a flag, the block that waits for it
    bool apart, own;           // apart: each warp has bytes of its own; own: so has each block
    bool strong;
    uint16_t offset;
};

struct program {
    step steps[STEPS];
};

// Whether thread t takes part in a step; threads are numbered through all blocks.
__host__ __device__ bool takes_part(const step &s, int t)
{
    return s.blocks >> t / THREADS & 1 && s.warps >> t % THREADS / 32 & 1 && t % 32 < s.lanes;
}

__host__ __device__ int address(const step &s, int t)
{
    int lane = t % 32, warp = t % THREADS / 32, block = t / THREADS;
    int place = s.shape == SAME        ? 0
                : s.shape == RUN       ? lane
                : s.shape == BACKWARDS ? 31 - lane
                                       : lane * 13 % 32 * 2;
    return s.offset + (place + (s.apart ? 64 * warp : 0)) * s.size + (s.own ? BYTES * block : 0);
}

// The number to be stored, different in each step and warp: storing an equal value would be no
// race.
__device__ int value(int i, int t)
{
    return (WARPS * BLOCKS * i + t / 32 + 1) * 0x01010101;
}

// Makes a strong access: a load, or an exchange; a store of one or two bytes is a strong store.
template <bool WORDS> __device__ int access_strongly(const step &s, int v, char *at)
{
    unsigned long long word = (unsigned)v | (unsigned long long)v << 32, now = 0;

    if (s.kind == STORE && s.size == 4)
        return atomicExch((int *)at, v);
    if (s.kind == STORE && s.size == 8)
        return (int)atomicExch((unsigned long long *)at, word);
    if (s.size == 4)
        asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    if (s.size == 8)
        asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(now) : "l"(at) : "memory");
    if constexpr (!WORDS) {
        if (s.kind == LOAD && s.size == 1)
            asm volatile("ld.relaxed.gpu.u8 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
        if (s.kind == LOAD && s.size == 2)
            asm volatile("ld.relaxed.gpu.u16 %0, [%1];" : "=h"(*(short *)&v) : "l"(at) : "memory");
        if (s.kind == STORE && s.size == 1)
            asm volatile("st.relaxed.gpu.u8 [%0], %1;" ::"l"(at), "r"(v) : "memory");
        if (s.kind == STORE && s.size == 2)
            asm volatile("st.relaxed.gpu.u16 [%0], %1;" ::"l"(at), "h"((short)v) : "memory");
    }
    return v + (int)now;
}

template <bool WORDS> __device__ int access(const step &s, int i, int t, char *memory)
{
    char *at = memory + address(s, t);
    int v = value(i, t);

    if (s.strong)
        return access_strongly<WORDS>(s, v, at);
    if (s.kind == LOAD) {
        int4 four;
        switch (s.size) {
        case 4: return *(int *)at;
        case 8: return ((int2 *)at)->x + ((int2 *)at)->y;
        case 16: four = *(int4 *)at; return four.x + four.y + four.z + four.w;
        }
        if constexpr (!WORDS)
            return s.size == 1 ? *at : *(short *)at;
        return 0;
    }
    switch (s.size) {
    case 4: *(int *)at = v; break;
    case 8: *(int2 *)at = make_int2(v, v); break;
    case 16: *(int4 *)at = make_int4(v, v, v, v); break;
    }
    if constexpr (!WORDS) {
        if (s.size == 1)
            *at = (char)v;
        if (s.size == 2)
            *(short *)at = (short)v;
    }
    return 0;
}

// When the threads of block s.to go on past this step, all threads of block s.from have done their
// steps before it.
__device__ void hand_over(const step &s, int *flag)
{
    if (blockIdx.x != s.from && blockIdx.x != s.to)
        return;
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x == s.from) {
        __threadfence();
        atomicExch(flag, 1);
    }
    if (threadIdx.x == 0 && blockIdx.x == s.to) {
        while (*(volatile int *)flag == 0) // an atomic operation could order `to` before `from`
            ;
        __threadfence();
    }
    __syncthreads();
}

template <bool WORDS, bool SHARED>
__global__ void follow(program p, char *global, int *out, int *flags)
{
    __shared__ alignas(16) char shared[SHARED ? BYTES : 16];
    char *memory = SHARED ? shared : global;
    int t = blockIdx.x * THREADS + threadIdx.x, sum = 0;

    if (SHARED)
        for (int i = threadIdx.x; i < BYTES / 4; i += THREADS)
            ((int *)shared)[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < STEPS; ++i) {
        const step &s = p.steps[i];
        if (s.kind == SYNCWARP)
            __syncwarp();
        else if (s.kind == SYNCTHREADS)
            __syncthreads();
        else if (s.kind == HAND_OVER)
            hand_over(s, flags + i);
        else if (takes_part(s, t))
            sum += access<WORDS>(s, i, t, memory);
    }
    out[t] = sum;
}

// ---- The simple judge: vector clocks only -------------------------------------------------------

struct accessed {
    int thread, time;
    bool store;
    int strong; // bytes of a strong access; 0: it is plain
    int met;    // strong stores to the same byte that have no order with this access
};

static bool both_strong(const accessed &a, const accessed &b)
{
    return a.strong && a.strong == b.strong;
}

enum verdict { NONE, PERHAPS, TOLD };

// What has been done so far, by all threads.
struct past {
    int threads;
    // Vector clocks. known[t][u]: the time up to which thread u's accesses are ordered before
    // thread t's next access.
    int known[BLOCKS * THREADS][BLOCKS * THREADS];
    std::vector<accessed> bytes[BLOCKS * BYTES];

    past(int blocks) : threads(blocks * THREADS)
    {
        for (int t = 0; t < threads; ++t)
            for (int u = 0; u < threads; ++u)
                known[t][u] = t == u;
    }

    template <class F> void each_byte(const step &s, F f)
    {
        for (int t = 0; s.kind < SYNCWARP && t < threads; ++t)
            for (int b = 0; takes_part(s, t) && b < s.size; ++b)
                f(t, bytes[address(s, t) + b]);
    }

    bool apart(const accessed &a, int t) // whether `a` is not ordered before thread t's next access
    {
        return a.thread != t && a.time > known[t][a.thread];
    }

    void access(const step &s)
    {
        each_byte(s, [&](int t, std::vector<accessed> &at) {
            accessed me = {t, known[t][t], s.kind == STORE, s.strong ? s.size : 0, 0};
            for (accessed &a : at)
                if (both_strong(a, me) && apart(a, t)) {
                    me.met += a.store;
                    a.met += me.store;
                }
            at.push_back(me);
        });
    }

    void take_back(const step &s)
    {
        each_byte(s, [&](int t, std::vector<accessed> &at) {
            accessed me = {t, known[t][t], s.kind == STORE, s.strong ? s.size : 0, 0};
            at.pop_back();
            for (accessed &a : at)
                a.met -= both_strong(a, me) && apart(a, t) && me.store;
        });
    }

    // Whether a step would be a race, among its own warps or with earlier steps. PERHAPS: a shadow
    // cell keeps only one of several strong stores that nothing orders, so that a race with another
    // of these stores may go unreported.
    verdict races(const step &s)
    {
        verdict is = NONE;
        access(s);
        each_byte(s, [&](int t, std::vector<accessed> &at) {
            const accessed *me = &at.back();
            while (me->thread != t)
                --me;
            for (const accessed &a : at)
                if (&a < me && apart(a, t) && (a.store || me->store) && !both_strong(a, *me)) {
                    bool sure = !a.met && !me->met;
                    is = sure ? TOLD : is == NONE ? PERHAPS : is;
                }
        });
        take_back(s);
        return is;
    }

    // Joins the clocks of `count` threads from `first` on with one another and with `more`, which
    // then has the joined clock, too.
    void meet(int first, int count, std::vector<int> &more)
    {
        more.resize(threads);
        for (int v = 0; v < threads; ++v) {
            for (int t = first; t < first + count; ++t)
                more[v] = known[t][v] > more[v] ? known[t][v] : more[v];
            for (int t = first; t < first + count; ++t)
                known[t][v] = more[v] + (t == v);
        }
    }

    void add(const step &s)
    {
        int together = s.kind == SYNCWARP ? 32 : THREADS;
        std::vector<int> handed;

        access(s);
        if (s.kind == HAND_OVER) {
            meet(s.from * THREADS, THREADS, handed);
            meet(s.to * THREADS, THREADS, handed);
            return;
        }
        for (int first = 0; s.kind >= SYNCWARP && first < threads; first += together) {
            std::vector<int> nothing;
            meet(first, together, nothing);
        }
    }
};

// ---- Drawing programs, and running them
// ----------------------------------------------------------

static uint64_t state;

static int below(int n)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return (int)((state >> 33) % (uint64_t)n);
}

static step draw_step(bool words, int blocks, const int place[], int places)
{
    step s = {};
    int kind = below(16);

    s.kind = kind < 7 ? LOAD : kind < 11 ? STORE : kind < 13 ? SYNCWARP : SYNCTHREADS;
    if (kind >= 14 && blocks > 1)
        s.kind = HAND_OVER;
    s.from = below(blocks);
    s.to = blocks > 1 ? (s.from + 1 + below(blocks - 1)) % blocks : 0;
    s.strong = below(3) == 0;
    s.size = words ? 4 << below(s.strong ? 2 : 3) : 1 << below(s.strong ? 4 : 5);
    if (s.strong && s.kind == STORE && blocks > 1) // a store of a flag would order reads (races.h)
        s.size = 4 << below(2);
    s.shape = below(3) ? RUN : s.kind == STORE ? BACKWARDS + below(2) : SAME + below(3);
    s.blocks = blocks == 1 || below(2) ? (1 << BLOCKS) - 1 : 1 << below(blocks);
    s.own = below(4) != 0;
    s.warps = below(2) ? 7 : 1 << below(WARPS);
    s.lanes = below(4) ? 32 : 1 + below(31);
    s.apart = below(4) != 0;
    s.offset = place[below(places)] + (below(4) ? 0 : below(2) ? s.size : 128);
    return s;
}

// Draws a program, which ends with its first race. Most steps with a race are drawn again, since
// programs would otherwise end after a few steps. Returns whether the program has a race.
static bool draw(program *p, bool words, int blocks)
{
    past before(blocks);
    int places = 1 + below(3), place[3]; // few, so that accesses meet
    bool race = false;
    verdict is;

    for (int &at : place)
        at = 16 * below(16);
    for (step &s : p->steps) {
        s = {};
        s.kind = SYNCWARP;
        if (race)
            continue;
        do {
            s = draw_step(words, blocks, place, places);
            is = before.races(s);
        } while (is == PERHAPS || (is == TOLD && below(8)));
        before.add(s);
        race = is == TOLD;
    }
    return race;
}

static void print(const program &p)
{
    static const char *const kinds[] = {"load", "store", "__syncwarp", "__syncthreads",
                                        "hand over"};
    static const char *const shapes[] = {"run", "same", "backwards", "scattered"};

    for (const step &s : p.steps)
        if (s.kind == LOAD || s.kind == STORE)
            printf("  %s%s %d bytes, %s from %d on, %d lanes of warps %x%s of blocks %x%s\n",
                   s.strong ? "strong " : "", kinds[s.kind], s.size, shapes[s.shape], s.offset,
                   s.lanes, s.warps, s.apart ? ", apart," : "", s.blocks,
                   s.own ? ", each its own" : "");
        else if (s.kind == HAND_OVER)
            printf("  block %d hands over to %d\n", s.from, s.to);
        else
            printf("  %s\n", kinds[s.kind]);
}

// Returns 1 if the simulator reports a race (the launch fails), otherwise 0.
static int launch(const program &p, bool shared, bool words)
{
    void (*const kernels[2][2])(program, char *, int *, int *) = {
        {follow<false, false>, follow<false, true>}, {follow<true, false>, follow<true, true>}};
    char *global;
    int *out, *flags;

    cudaMalloc(&flags, STEPS * sizeof(int));
    cudaMemset(flags, 0, STEPS * sizeof(int));
    cudaMalloc(&global, BLOCKS * BYTES);
    cudaMalloc(&out, BLOCKS * THREADS * sizeof(int));
    cudaMemset(global, 0, BLOCKS * BYTES);
    kernels[words][shared]<<<shared ? 1 : BLOCKS, THREADS>>>(p, global, out, flags);
    return cudaDeviceSynchronize() != cudaSuccess;
}

int main(int argc, char **argv)
{
    bool shared = argc == 5 && !strcmp(argv[1], "shared");
    bool words = argc == 5 && !strcmp(argv[2], "words");
    if (argc != 5 || (!shared && strcmp(argv[1], "global")) ||
        (!words && strcmp(argv[2], "bytes"))) {
        fprintf(stderr, "usage: %s shared|global words|bytes COUNT SEED\n", argv[0]);
        return 2;
    }
    int count = atoi(argv[3]), races = 0, wrong = 0;

    state = (uint64_t)atoi(argv[4]);
    for (int i = 0; i < count; ++i) {
        program p;
        bool race = draw(&p, words, shared ? 1 : BLOCKS);
        fflush(stdout);
        pid_t child = fork(); // a launch that failed is the last of its process
        if (child == 0) {
            char schedule[16];
            snprintf(schedule, sizeof schedule, "%d", i % 8);
            setenv("PTXSIM_SCHEDULE", schedule, 1);
            if (!freopen("/dev/null", "w", stderr))
                _exit(3);
            _exit(launch(p, shared, words));
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
            WEXITSTATUS(status) > 1) {
            printf("program %d did not run\n", i);
            return 3;
        }
        bool told = WEXITSTATUS(status) == 1;
        races += race;
        if (told != race) {
            printf("program %d: %s\n", i,
                   race ? "a race that is not told" : "a race is told, and there is none");
            print(p);
            wrong++;
        }
    }
    printf("%d programs, %d with a race, %d told wrongly\n", count, races, wrong);
    return wrong > 0;
}
