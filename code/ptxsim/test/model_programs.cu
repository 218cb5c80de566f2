// model_programs.cu: random programs of a few threads of two blocks, with fences, scopes, masks, proxies and
// asynchronous copies. They are judged twice: by the simulator, and by PTX's memory model as a graph, in which
// operations are nodes, orders are edges, and two accesses to one place are a race if no path leads from one to the
// other. The graph shares no code with the simulator. test_races.bats runs this; so does `mutants`, with the
// simulator's rules weakened one by one:
//   model_programs COUNT SEED
// prints each program about which the two judges differ, how many programs have a race, and about
// how many the judges differ.
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bitset>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int BLOCKS = 2, WARPS = 2,
              LANES = 3; // lanes of a warp that act; the others only wait at barriers
constexpr int OF_BLOCK = WARPS * LANES, ACTORS = BLOCKS * OF_BLOCK;
constexpr int STEPS = 16, PLACES = 2,
              UNIT = 16; // bytes of a place; PLACES in shared memory, and PLACES in global memory

enum kind {
    LOAD,
    STORE,
    ADD,         // an atomic addition, of block or GPU scope
    FENCE,       // a fence, of block or GPU scope
    PROXY_FENCE, // fence.proxy.async
    SYNCWARP,    // for the lanes in `mask`; `extra`: a lane outside the mask that executes it, too
    SYNCTHREADS,
    SEND,      // a volatile store of a flag
    RECEIVE,   // waits for the flag of step `of`
    COPY,      // cp.async to shared memory
    COPY_TOLD, // cp.async with an mbarrier of its own, which all the thread's copies so far signal
    COPY_WAIT, // waits for all cp.async of the thread
    TELL,      // st.async, with an mbarrier of its own
    PULL,      // a bulk copy to shared memory, with an mbarrier of its own
    PULL_WAIT, // waits for the mbarrier of step `of`
    PUSH,      // a bulk copy from shared memory
    PUSH_WAIT, // waits for all PUSHes of the thread
    KINDS,
    NOTHING = KINDS
};
static const char *const names[] = {"load",
                                    "store",
                                    "atomic add",
                                    "fence",
                                    "proxy fence",
                                    "syncwarp",
                                    "syncthreads",
                                    "send",
                                    "receive",
                                    "cp.async",
                                    "cp.async on an mbarrier",
                                    "wait for cp.async",
                                    "st.async",
                                    "bulk load",
                                    "wait for the mbarrier",
                                    "bulk store",
                                    "wait for bulk stores"};

struct step {
    int8_t kind, actor, place, of;
    uint8_t mask, extra; // lanes of the actor's warp
    bool shared, cta;    // whether the place is in shared memory; whether the scope is the block
};

struct program {
    step steps[STEPS];
};

// Whether a step of this kind is a copy that signals an mbarrier when it completes.
__host__ __device__ bool tells(int kind)
{
    return kind == COPY_TOLD || kind == TELL || kind == PULL;
}

// ---- In the simulator ---------------------------------------------------------------------------

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void pull_wait(uint64_t *barrier)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
                     " selp.u32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"(shared_address(barrier))
                     : "memory");
}

__device__ void expect(uint64_t *barrier, unsigned bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ void tell(void *to, int value, uint64_t *barrier)
{
    expect(barrier, 4);
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                     shared_address(to)),
                 "r"(value), "r"(shared_address(barrier))
                 : "memory");
}

__device__ void pull(void *to, const void *from, uint64_t *barrier)
{
    expect(barrier, 16);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" ::
            "r"(shared_address(to)),
        "l"(from), "r"(shared_address(barrier))
        : "memory");
}

// NARROW: some fence or addition has block scope. Then the simulator stores releases in another
// way.
template <bool NARROW>
__device__ void act(const step &s, int i, char *at, uint64_t *barriers, int *flags,
                    char *private_places)
{
    char *mine = private_places + i * 2 * UNIT;
    switch (s.kind) {
    case LOAD: *(int *)mine = *(int *)at; break;
    case STORE: *(int *)at = 1000 * (i + 1); break; // a new value: storing an equal one is no race
    case ADD:
        if constexpr (NARROW)
            if (s.cta) {
                atomicAdd_block((int *)at, 1);
                break;
            }
        atomicAdd((int *)at, 1);
        break;
    case FENCE:
        if constexpr (NARROW)
            if (s.cta) {
                __threadfence_block();
                break;
            }
        __threadfence();
        break;
    case PROXY_FENCE: asm volatile("fence.proxy.async;" ::: "memory"); break;
    case SEND: *(volatile int *)(flags + i) = 1; break;
    case RECEIVE:
        while (*(volatile int *)(flags + s.of) == 0)
            ;
        break;
    case COPY:
    case COPY_TOLD:
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(at)),
                     "l"(mine + UNIT)
                     : "memory");
        if (s.kind == COPY_TOLD)
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(
                             shared_address(barriers + i))
                         : "memory");
        break;
    case TELL: tell(at, 1000 * (i + 1), barriers + i); break;
    case COPY_WAIT: asm volatile("cp.async.wait_all;" ::: "memory"); break;
    case PULL: pull(at, mine + UNIT, barriers + i); break;
    case PULL_WAIT: pull_wait(barriers + s.of); break;
    case PUSH:
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;"
                     " cp.async.bulk.commit_group;" ::"l"(mine),
                     "r"(shared_address(at))
                     : "memory");
        break;
    case PUSH_WAIT: asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); break;
    }
}

template <bool NARROW>
__global__ void follow(program p, char *global, int *flags, char *private_places)
{
    __shared__ alignas(UNIT) char places[PLACES * UNIT];
    __shared__ uint64_t barriers[STEPS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int actor = lane < LANES ? (int)(blockIdx.x * OF_BLOCK) + warp * LANES + lane : -1;

    if (threadIdx.x < PLACES * UNIT / 4)
        ((int *)places)[threadIdx.x] = 0;
    if (threadIdx.x < STEPS)
        asm volatile(
            "mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barriers + threadIdx.x)));
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < STEPS; ++i) {
        const step &s = p.steps[i];
        char *at = (s.shared ? places : global) + s.place * UNIT;
        if (s.kind == SYNCTHREADS)
            __syncthreads();
        else if (s.kind == SYNCWARP && actor >= 0 && s.actor / LANES == actor / LANES &&
                 (s.mask | s.extra) >> lane & 1)
            asm volatile("bar.warp.sync %0;" ::"r"((unsigned)s.mask) : "memory");
        else if (s.kind < KINDS && s.kind != SYNCWARP && s.actor == actor)
            act<NARROW>(s, i, at, barriers, flags, private_places);
    }
    __syncthreads();
    for (int i = 0; i < STEPS; ++i) // waits for all copies that are still under way
        if (p.steps[i].actor == actor && tells(p.steps[i].kind))
            pull_wait(barriers + i);
    asm volatile("cp.async.bulk.wait_group 0; cp.async.wait_all;" ::: "memory");
}

// ---- PTX's memory model, as a graph -------------------------------------------------------------

enum verdict { NONE, PERHAPS, TOLD };

// A step is a node for each actor that takes part in it; a copy under way is one more node.
constexpr int NODES = STEPS * (ACTORS + 1);
typedef std::bitset<NODES> nodes;
struct graph {
    nodes to[NODES];

    static int node(int step, int actor)
    {
        return step * (ACTORS + 1) + actor;
    }
    static int copied(int step)
    {
        return node(step, ACTORS);
    }
    void edge(int a, int b)
    {
        to[a][b] = true;
    }
    void close()
    {
        for (int k = 0; k < NODES; ++k)
            for (int a = 0; to[k].any() && a < NODES; ++a)
                if (to[a][k])
                    to[a] |= to[k];
    }
};

static int block_of(int actor)
{
    return actor / OF_BLOCK;
}
static bool is_copy(const step &s)
{
    return s.kind == COPY || s.kind == PUSH || tells(s.kind);
}
static bool is_bulk(const step &s)
{
    return s.kind == PULL || s.kind == PUSH;
}

static bool takes_part(const step &s, int actor)
{
    if (s.kind == SYNCTHREADS)
        return true;
    if (s.kind == SYNCWARP)
        return s.actor / LANES == actor / LANES && s.mask >> actor % LANES & 1;
    return s.kind < KINDS && s.actor == actor;
}

static bool reaches(const step &fence, int a, int b) // whether the fence's scope has both actors
{
    return !fence.cta || block_of(a) == block_of(b);
}

// Whether the cp.async of step i signals the mbarrier of step j, a later COPY_TOLD of the same thread.
static bool is_told_later(const program &p, int i, int j)
{
    const step &a = p.steps[i], &b = p.steps[j];
    return (a.kind == COPY || a.kind == COPY_TOLD) && b.kind == COPY_TOLD && a.actor == b.actor &&
           i < j;
}

// Whether some thread waits for the cp.async of step i at an mbarrier, and the thread that issued it waits with
// COPY_WAIT. In the simulator, a thread that meets the issuing thread between the two waits is ordered after the copy.
static bool is_awaited_twice(const program &p, int i)
{
    bool own = false, seen = false;
    for (int j = i + 1; p.steps[i].kind <= COPY_TOLD && j < STEPS; ++j) {
        own |= p.steps[j].kind == COPY_WAIT && p.steps[j].actor == p.steps[i].actor;
        seen |= p.steps[j].kind == PULL_WAIT &&
                (p.steps[j].of == i || is_told_later(p, i, p.steps[j].of));
    }
    return own && seen;
}

// Adds program order, and the order of copies: each comes after its issue, and before a wait of the
// right kind. lenient: adds orders that the simulator may see, too.
static void order_threads(graph &g, const program &p, bool lenient)
{
    for (int actor = 0; actor < ACTORS; ++actor)
        for (int i = 0, last = -1; i < STEPS; ++i)
            if (takes_part(p.steps[i], actor)) {
                if (last >= 0)
                    g.edge(g.node(last, actor), g.node(i, actor));
                last = i;
            }
    for (int i = 0; i < STEPS; ++i)
        for (int j = i + 1; is_copy(p.steps[i]) && j < STEPS; ++j) {
            const step &c = p.steps[i], &w = p.steps[j];
            bool own = w.actor == c.actor &&
                       (((c.kind == COPY || c.kind == COPY_TOLD) && w.kind == COPY_WAIT) ||
                        (c.kind == PUSH && w.kind == PUSH_WAIT));
            bool seen = w.kind == PULL_WAIT && tells(c.kind) && w.of == i;
            if (seen && (c.kind != COPY_TOLD || lenient)) // the mbarrier's arrival releases, too
                g.edge(g.node(i, c.actor), g.node(j, w.actor));
            if (own || seen || (w.kind == PULL_WAIT && is_told_later(p, i, w.of)))
                g.edge(g.copied(i), g.node(j, w.actor));
        }
    for (int i = 0; i < STEPS; ++i)
        if (is_copy(p.steps[i])) {
            g.edge(g.node(i, p.steps[i].actor), g.copied(i));
            if (lenient && is_awaited_twice(p, i))
                g.edge(g.copied(i), g.node(i, p.steps[i].actor));
        }
}

// What a thread does before a barrier comes before what the barrier's other threads do after it.
static void order_barriers(graph &g, const program &p)
{
    for (int i = 0; i < STEPS; ++i)
        for (int a = 0;
             p.steps[i].kind == SYNCTHREADS || p.steps[i].kind == SYNCWARP ? a < ACTORS : false;
             ++a)
            for (int b = 0; b < ACTORS; ++b)
                if (a != b && takes_part(p.steps[i], a) && takes_part(p.steps[i], b) &&
                    block_of(a) == block_of(b))
                    g.edge(g.node(i, a), g.node(i, b));
}

// Where a fence, a flag, a wait for the flag and a fence follow one another, the first fence comes
// before the second. lenient: an earlier fence by any thread of the sender's block counts, too, and
// atomic operations on one place are ordered both ways, except that by this rule none comes before
// step `but` (-1: no exception). raw: the flag comes before the wait even without fences.
static void order_messages(graph &g, const program &p, bool lenient, bool raw, int but)
{
    graph before = g; // the order without messages
    before.close();
    for (int r = 0; r < STEPS; ++r) {
        if (p.steps[r].kind != RECEIVE)
            continue;
        int s = p.steps[r].of, from = p.steps[s].actor, to = p.steps[r].actor;
        if (raw)
            g.edge(g.node(s, from), g.node(r, to));
        for (int f = 0; f < s; ++f)
            for (int a = r + 1; a < STEPS; ++a) {
                const step &left = p.steps[f], &right = p.steps[a];
                bool own = left.actor == from;
                if (left.kind == FENCE && right.kind == FENCE && right.actor == to &&
                    reaches(left, from, to) && reaches(right, from, to) &&
                    (own || (lenient && block_of(left.actor) == block_of(from))))
                    g.edge(g.node(f, left.actor), g.node(a, to));
            }
    }
    // Two atomic operations on one place may be ordered in either way.
    for (int i = 0; lenient && i < STEPS; ++i)
        for (int j = 0; j < STEPS; ++j)
            if (i != j && j != but && p.steps[i].kind == ADD && p.steps[j].kind == ADD &&
                p.steps[i].place == p.steps[j].place && p.steps[i].shared == p.steps[j].shared)
                g.edge(g.node(i, p.steps[i].actor), g.node(j, p.steps[j].actor));
}

static graph order(const program &p, bool lenient, bool raw, int but = -1)
{
    graph g;
    order_threads(g, p, lenient);
    order_barriers(g, p);
    order_messages(g, p, lenient, raw, but);
    g.close();
    return g;
}

static bool writes(const step &s)
{
    return s.kind == STORE || s.kind == ADD || (is_copy(s) && s.kind != PUSH);
}
static bool accesses(const step &s)
{
    return s.kind <= ADD || is_copy(s);
}

static bool same_place(const step &a, const step &b)
{
    return a.place == b.place && a.shared == b.shared &&
           (!a.shared || block_of(a.actor) == block_of(b.actor));
}

static bool morally_strong(const step &a, const step &b)
{
    return a.kind == ADD && b.kind == ADD &&
           ((!a.cta && !b.cta) || block_of(a.actor) == block_of(b.actor));
}

// Whether access i comes before access j; if j is of the asynchronous proxy and i is not, the path
// from i to j must have a proxy fence.
static bool comes_before(const graph &g, const program &p, int i, int j)
{
    const step &a = p.steps[i], &b = p.steps[j];
    int from = is_copy(a) ? g.copied(i) : g.node(i, a.actor), to = g.node(j, b.actor);
    if (is_bulk(a) || !is_bulk(b))
        return g.to[from][to];
    for (int f = 0; f < STEPS; ++f) {
        int fence = g.node(f, p.steps[f].actor >= 0 ? p.steps[f].actor : 0);
        if (p.steps[f].kind == PROXY_FENCE && g.to[from][fence] && g.to[fence][to])
            return true;
    }
    return false;
}

static verdict judge(const program &p)
{
    static graph strict, lenient, told, without;
    strict = order(p, false, false);
    lenient = order(p, true, false);
    told = order(p, true, true);
    verdict is = NONE;
    for (int i = 0; i < STEPS; ++i)
        if (p.steps[i].kind == SYNCWARP && p.steps[i].extra)
            is = TOLD;
    for (int j = 0; j < STEPS; ++j)
        for (int i = 0; i < j; ++i) {
            const step &a = p.steps[i], &b = p.steps[j];
            if (!accesses(a) || !accesses(b) || !same_place(a, b) || (!writes(a) && !writes(b)) ||
                morally_strong(a, b) || (a.actor == b.actor && !is_copy(a) && !is_bulk(b)) ||
                comes_before(strict, p, i, j))
                continue;
            bool adds = a.kind == ADD && b.kind == ADD;
            if (adds)
                without = order(p, true, true, j);
            bool sure = adds ? !comes_before(without, p, i, j)
                             : !comes_before(lenient, p, i, j) &&
                                   (writes(a) || !comes_before(told, p, i, j));
            for (int k = 0; k < STEPS; ++k) // a shadow cell keeps only one strong write
                sure &= !(p.steps[k].kind == ADD && k != i && k != j &&
                          (a.kind == ADD || b.kind == ADD) && same_place(p.steps[k], a));
            is = sure ? TOLD : is == NONE ? PERHAPS : is;
        }
    return is;
}

// ---- Drawing programs, and running them
// ----------------------------------------------------------

static uint64_t state;

static int below(int n)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return (int)((state >> 33) % (uint64_t)n);
}

// Draws step i, the last of the program so far; a step that is not allowed there becomes NOTHING.
static step draw_step(const program &p, int i)
{
    static const int8_t often[] = {
        LOAD,      LOAD,        LOAD,        STORE,     STORE,     ADD,         FENCE,
        FENCE,     PROXY_FENCE, PROXY_FENCE, SYNCWARP,  SYNCWARP,  SYNCTHREADS, SYNCTHREADS,
        SEND,      RECEIVE,     RECEIVE,     COPY,      COPY_WAIT, PULL,        PULL_WAIT,
        PULL_WAIT, PUSH,        PUSH_WAIT,   COPY_TOLD, TELL,      PULL_WAIT};
    step s = {};
    s.kind = often[below(sizeof often)];
    s.actor = below(ACTORS);
    s.place = below(PLACES);
    s.shared = is_copy(s) || below(2);
    s.cta = below(3) == 0;
    s.of = i ? below(i) : 0;
    bool of_send = s.kind == RECEIVE, of_pull = s.kind == PULL_WAIT;
    if ((of_send && p.steps[s.of].kind != SEND) || (of_pull && !tells(p.steps[s.of].kind)))
        s.kind = NOTHING;
    if (of_pull && block_of(p.steps[s.of].actor) != block_of(s.actor))
        s.kind = NOTHING;
    if (of_send && p.steps[s.of].actor == s.actor)
        s.kind = NOTHING;
    if (s.kind == SYNCWARP) {
        s.mask = 1 + below((1 << LANES) - 1);
        s.extra = below(16) ? 0 : (uint8_t)(~s.mask & 1 << below(LANES));
    }
    return s;
}

// ---- Beginnings ---------------------------------------------------------------------------------

// Sequences of steps that hardly ever arise if each step is drawn by itself. Here the sequence is
// given; threads, scopes and whether an optional step is there are drawn. Each draw_... writes its
// steps to `s` and returns their number; 0: no beginning.

static step access_of(int8_t kind, int actor, int place)
{
    step s = {kind, (int8_t)actor, (int8_t)place};
    return s;
}

static step fence_by(int actor)
{
    step s = {FENCE, (int8_t)actor};
    s.cta = below(3) == 0;
    return s;
}

// One thread writes and signals to another one by a flag.
static int draw_message(step *s)
{
    int writer = below(ACTORS), reader = below(ACTORS), n = 0;
    s[n++] = access_of(STORE, writer, 0);
    s[n++] = fence_by(writer);
    s[n++] = {SEND, (int8_t)writer};
    s[n] = {RECEIVE, (int8_t)reader, 0, (int8_t)(n - 1)};
    n++;
    s[n++] = fence_by(reader);
    s[n++] = access_of(LOAD, reader, 0);
    return writer == reader ? 0 : n;
}

// A thread writes; after a barrier, a thread of its block, with a fence before or after that barrier, sets a
// flag for a reader in the other block.
static int draw_early_fence(step *s)
{
    int block = below(BLOCKS), other = (block + 1) % BLOCKS, n = 0;
    int writer = block * OF_BLOCK + below(OF_BLOCK), sender = block * OF_BLOCK + below(OF_BLOCK);
    int reader = other * OF_BLOCK + below(OF_BLOCK);
    bool is_early = below(2);
    s[n++] = access_of(STORE, writer, 0);
    if (is_early)
        s[n++] = fence_by(sender);
    s[n++] = {SYNCTHREADS, -1};
    if (!is_early)
        s[n++] = fence_by(sender);
    s[n++] = {SEND, (int8_t)sender};
    s[n] = {RECEIVE, (int8_t)reader, 0, (int8_t)(n - 1)};
    n++;
    s[n++] = fence_by(reader);
    s[n++] = access_of(LOAD, reader, 0);
    return n;
}

// Two atomic operations at one place.
static int draw_two_adds(step *s)
{
    for (int i = 0; i < 2; ++i) {
        s[i] = access_of(ADD, below(ACTORS), 0);
        s[i].cta = below(2);
    }
    return 2;
}

// All lanes of a warp read a place; the first lane writes it after a __syncwarp() with some of the others: a race with
// the lanes that the mask leaves out, even if these were the last to read.
static int draw_readers(step *s)
{
    int warp = below(ACTORS / LANES), first = below(LANES), n = 0;
    for (int i = 0; i < LANES; ++i)
        s[n++] = access_of(LOAD, warp * LANES + (first + i) % LANES, 0);
    s[n] = {SYNCWARP, (int8_t)(warp * LANES)};
    s[n++].mask = (uint8_t)(1 << first | 1 << below(LANES) | 1 << below(LANES));
    s[n++] = access_of(STORE, warp * LANES + first, 0);
    return n;
}

// A place is read, then a bulk copy writes it (pull); or a bulk copy reads a place, which is then
// written. In between is a barrier; the fence or wait that is needed as well may be left out.
static int draw_copied(step *s, bool pull)
{
    int block = below(BLOCKS), n = 0;
    int one = block * OF_BLOCK + below(OF_BLOCK), other = block * OF_BLOCK + below(OF_BLOCK);
    s[n++] = access_of(pull ? LOAD : PUSH, one, 0);
    if (below(2))
        s[n++] = {(int8_t)(pull ? PROXY_FENCE : PUSH_WAIT), (int8_t)one};
    s[n++] = {SYNCTHREADS, -1};
    s[n++] = access_of(pull ? PULL : STORE, other, 0);
    if (!pull && below(2))
        s[n++] = {PROXY_FENCE, (int8_t)other};
    for (int i = 0; i < n; ++i)
        s[i].shared = true;
    return n;
}

// A copy, a barrier, a wait for the copy by one thread (mostly at the copy's mbarrier), and an access by another
// thread; a barrier between wait and access may be left out.
static int draw_awaited(step *s)
{
    int block = below(BLOCKS), n = 0;
    int waits = block * OF_BLOCK + below(OF_BLOCK), other = block * OF_BLOCK + below(OF_BLOCK);
    static const int8_t kinds[] = {PULL, COPY_TOLD, TELL};
    s[n++] = access_of(kinds[below(3)], block * OF_BLOCK + below(OF_BLOCK), 0);
    s[n++] = {SYNCTHREADS, -1};
    s[n++] = {(int8_t)(s[0].kind == COPY_TOLD && !below(4) ? COPY_WAIT : PULL_WAIT), (int8_t)waits};
    if (below(2))
        s[n++] = {SYNCTHREADS, -1};
    s[n++] = access_of(below(2) ? LOAD : STORE, other, 0);
    for (int i = 0; i < n; ++i)
        s[i].shared = true;
    return n;
}

// A thread copies to two places, with an mbarrier each: a wait for the second mbarrier covers the first copy, too,
// whether another thread has waited for the first mbarrier or not.
static int draw_told_twice(step *s)
{
    int block = below(BLOCKS), n = 0;
    int copies = block * OF_BLOCK + below(OF_BLOCK), waits = block * OF_BLOCK + below(OF_BLOCK);
    for (int place = 0; place < 2; ++place)
        s[n++] = access_of(COPY_TOLD, copies, place);
    if (below(2))
        s[n++] = {PULL_WAIT, (int8_t)(block * OF_BLOCK + below(OF_BLOCK)), 0, (int8_t)below(2)};
    s[n++] = {PULL_WAIT, (int8_t)waits, 0, (int8_t)below(2)};
    s[n++] = access_of(LOAD, waits, below(2));
    for (int i = 0; i < n; ++i)
        s[i].shared = true;
    return n;
}

static int draw_beginning(step *s)
{
    switch (below(11)) {
    case 0: return draw_message(s);
    case 1: return draw_early_fence(s);
    case 2: return draw_two_adds(s);
    case 3: return draw_readers(s);
    case 4: return draw_copied(s, true);
    case 5: return draw_copied(s, false);
    case 6: return draw_awaited(s);
    case 7: return draw_told_twice(s);
    }
    return 0;
}

// Draws a program, which ends with its first race; most steps that would be a race are drawn again.
// Returns whether the program has a race that must be reported.
static bool draw(program *p)
{
    verdict is = PERHAPS;
    int begun = 0;
    while (is == PERHAPS) {
        for (step &s : p->steps)
            s = {NOTHING, -1};
        begun = draw_beginning(p->steps);
        is = begun ? judge(*p) : NONE;
    }
    for (int i = begun; i < STEPS && is != TOLD; ++i)
        do {
            p->steps[i] = draw_step(*p, i);
            is = p->steps[i].kind == NOTHING                  ? PERHAPS
                 : accesses(p->steps[i]) || p->steps[i].extra ? judge(*p)
                                                              : NONE;
        } while (is == PERHAPS || (is == TOLD && below(6)));
    return is == TOLD;
}

static void print(const program &p)
{
    for (int i = 0; i < STEPS; ++i) {
        const step &s = p.steps[i];
        if (s.kind == NOTHING)
            continue;
        printf("  %2d: ", i);
        if (s.kind != SYNCTHREADS)
            printf("block %d, warp %d, lane %d: ", block_of(s.actor), s.actor / LANES % WARPS,
                   s.actor % LANES);
        printf("%s", names[s.kind]);
        if (accesses(s))
            printf(" of %s place %d", s.shared ? "shared" : "global", s.place);
        if ((s.kind == FENCE || s.kind == ADD) && s.cta)
            printf(" for the block");
        if (s.kind == RECEIVE || s.kind == PULL_WAIT)
            printf(" of step %d", s.of);
        if (s.kind == SYNCWARP)
            printf(" of lanes %x%s", s.mask, s.extra ? ", and another lane" : "");
        printf("\n");
    }
}

// Returns 1 if the simulator reports a race (the launch fails), otherwise 0.
static int launch(const program &p)
{
    char *global, *private_places;
    int *flags;

    cudaMalloc(&flags, STEPS * sizeof(int));
    cudaMemset(flags, 0, STEPS * sizeof(int));
    cudaMalloc(&global, PLACES * UNIT);
    cudaMemset(global, 0, PLACES * UNIT);
    cudaMalloc(&private_places, STEPS * 2 * UNIT);
    cudaMemset(private_places, 0, STEPS * 2 * UNIT);
    bool narrow = false;
    for (const step &s : p.steps)
        narrow |= (s.kind == FENCE || s.kind == ADD) && s.cta;
    (narrow ? follow<true> : follow<false>)<<<BLOCKS, 32 * WARPS>>>(p, global, flags,
                                                                    private_places);
    return cudaDeviceSynchronize() != cudaSuccess;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s COUNT SEED\n", argv[0]);
        return 2;
    }
    int count = atoi(argv[1]), races = 0, wrong = 0;

    state = (uint64_t)atoi(argv[2]);
    for (int i = 0; i < count; ++i) {
        program p;
        bool race = draw(&p);
        fflush(stdout);
        pid_t child = fork(); // a launch that failed is the last of its process
        if (child == 0) {
            char schedule[16];
            snprintf(schedule, sizeof schedule, "%d", i % 16);
            setenv("PTXSIM_SCHEDULE", schedule, 1);
            if (!getenv("MODEL_SAID") && !freopen("/dev/null", "w", stderr))
                _exit(3);
            _exit(launch(p));
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
