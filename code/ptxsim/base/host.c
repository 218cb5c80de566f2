// host.c: memory that the host may never touch (cudaMalloc's), or not while the device works on it.
// Its pages are closed while the program's own code runs, and page faults there are handled here.
#include "base.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    MOST_GUARDED = 64,
    MOST_CLOSINGS = 256,
    MOST_SHUTTINGS = 1 << 16, // system calls that close pages for a while; after these, none
    MOST_STEPS = 1 << 14,     // harmless accesses to such pages; after these, a page stays open
    MOST_PAGES = 4,           // pages that one instruction may touch
    FAULT_OF_WRITE = 2,       // a bit of the processor's error code: the access was a write
    SINGLE_STEP = 0x100,      // a bit of the processor's flags
};
static size_t guarded_count, closings, shuttings, steps;
static bool closed, guards_closed;
static struct sigaction before_us, step_before_us; // the program's own handlers

static struct shut { // pages that are closed for a while
    uint64_t start, end;
    bool reads;
} * shut;
static size_t shut_count, shut_capacity;
static void (*on_touch)(uint64_t at, bool writes, uint64_t instruction);

void memory_on_touch(void (*touched)(uint64_t at, bool writes, uint64_t instruction))
{
    on_touch = touched;
}

static uint64_t page_size(void)
{
    static uint64_t size;
    if (!size)
        size = (uint64_t)sysconf(_SC_PAGESIZE);
    return size;
}

static void protect(uint64_t start, uint64_t end, int access)
{
    mprotect((void *)(uintptr_t)start, end - start, access);
}

// The accesses to a page that are allowed now: PROT_NONE or PROT_READ; PROT_READ | PROT_WRITE: the
// page is open.
static int access_now(uint64_t at)
{
    int access = PROT_READ | PROT_WRITE;
    for (size_t i = 0; closed && i < shut_count; ++i)
        if (shut[i].start <= at && at < shut[i].end)
            access &= shut[i].reads ? PROT_NONE : PROT_READ;
    return access;
}

static _Thread_local uint64_t stepped[MOST_PAGES]; // pages that are open for one instruction
static _Thread_local int stepped_count;

// Handles SIGTRAP: after the instruction for which touched_shut opened pages, closes them again. A
// trap for another reason goes to the program's own handler.
static void step_done(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

    if (!stepped_count) {
        if (step_before_us.sa_flags & SA_SIGINFO)
            step_before_us.sa_sigaction(signal, info, context);
        else if (step_before_us.sa_handler != SIG_DFL && step_before_us.sa_handler != SIG_IGN)
            step_before_us.sa_handler(signal);
        else if (sigaction(SIGTRAP, &step_before_us, NULL) == 0)
            raise(SIGTRAP);
        return;
    }
    for (; stepped_count; --stepped_count) {
        uint64_t page = stepped[stepped_count - 1];
        protect(page, page + page_size(), access_now(page));
    }
    registers[REG_EFL] &= ~(greg_t)SINGLE_STEP;
}

// Passes an access to a shut page to on_touch, and opens the page for the instruction that makes
// the access. Returns false if the page is not shut.
static bool touched_shut(uint64_t at, bool writes, ucontext_t *context)
{
    greg_t *registers = context->uc_mcontext.gregs;
    uint64_t page = at / page_size() * page_size();

    if (access_now(at) == (PROT_READ | PROT_WRITE))
        return false;
    on_touch(at, writes, (uint64_t)registers[REG_RIP]);
    protect(page, page + page_size(), PROT_READ | PROT_WRITE);
    if (access_now(at) == (PROT_READ | PROT_WRITE) || ++steps > MOST_STEPS)
        return true; // the page stays open: nothing shuts it now, or there were too many steps
    if (stepped_count < MOST_PAGES)
        stepped[stepped_count++] = page;
    registers[REG_EFL] |= SINGLE_STEP;
    return true;
}

static void tell_guarded(uint64_t at, const struct allocation *a)
{
    char line[256];
    int used = snprintf(
        line, sizeof line,
        "ptxsim: the host follows a device pointer: 0x%llx is byte %llu of %llu bytes "
        "of cudaMalloc, which a GPU's host cannot touch: copy them with cudaMemcpy\n",
        (unsigned long long)at, (unsigned long long)(at - a->base), (unsigned long long)a->size);
    if (write(STDERR_FILENO, line, (size_t)used) < 0)
        _exit(128 + SIGSEGV);
}

// Handles a page fault: if the page is closed for a while, the program goes on; if it is guarded,
// reports that and lets the fault end the program.
static void tell_fault(int signal, siginfo_t *info, void *context)
{
    uint64_t at = (uint64_t)(uintptr_t)info->si_addr;
    bool writes = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & FAULT_OF_WRITE;
    const struct allocation *a = memory_find(at, 1, NULL);

    (void)signal;
    if (touched_shut(at, writes, context))
        return;
    if (closed && a && a->guarded)
        tell_guarded(at, a);
    // The access faults again, now for the program's own handler.
    sigaction(SIGSEGV, &before_us, NULL);
}

// Installs the handler of page faults; false if that fails.
static bool watch(void)
{
    static bool begun;
    const struct sigaction ours = {.sa_sigaction = tell_fault, .sa_flags = SA_SIGINFO};
    const struct sigaction step = {.sa_sigaction = step_done, .sa_flags = SA_SIGINFO};

    if (!begun)
        begun =
            !sigaction(SIGSEGV, &ours, &before_us) && !sigaction(SIGTRAP, &step, &step_before_us);
    return begun;
}

// Whether page faults still come here: the program may have set a handler of its own.
static bool watching(void)
{
    struct sigaction now;
    return watch() && !sigaction(SIGSEGV, NULL, &now) && now.sa_sigaction == tell_fault;
}

// ---- Guarded for ever ---------------------------------------------------------------------------

static void guard(const struct allocation *a, int access)
{
    protect(a->base, (a->base + a->size + page_size() - 1) / page_size() * page_size(), access);
}

void memory_guard(void *address)
{
    struct allocation *a = (struct allocation *)memory_find((uint64_t)(uintptr_t)address, 1, NULL);

    if (!a || guarded_count == MOST_GUARDED)
        return;
    a->guarded = watch();
    guarded_count += a->guarded;
    if (guards_closed && a->guarded)
        guard(a, PROT_NONE);
}

void memory_unguard(struct allocation *a)
{
    guarded_count -= a->guarded;
    a->guarded = false;
}

static void guard_all(int access)
{
    const struct allocation *a;
    for (size_t i = 0; guarded_count && (a = memory_nth(i)); ++i)
        if (a->guarded && a->live)
            guard(a, access);
}

// ---- Shut for a while ---------------------------------------------------------------------------

void memory_shut(uint64_t address, uint64_t bytes, bool reads)
{
    uint64_t page = page_size(), start = address / page * page;
    uint64_t end = (address + bytes + page - 1) / page * page;
    struct shut *last = shut_count ? &shut[shut_count - 1] : NULL;

    if (last && last->reads == reads && last->start <= start && start <= last->end) {
        last->end = end > last->end ? end : last->end;
        return;
    }
    shut = array_grow(shut, shut_count, &shut_capacity, sizeof *shut);
    shut[shut_count++] = (struct shut){start, end, reads};
}

void memory_unshut(void)
{
    if (shut_count)
        memory_open();
    shut_count = 0;
}

// Closes pages to reads last: some of them may also be closed to writes.
static void shut_all(void)
{
    if (!shut_count || shuttings > MOST_SHUTTINGS || !watching())
        return;
    for (int reads = 0; reads < 2; ++reads)
        for (size_t i = 0; i < shut_count; ++i)
            if (shut[i].reads == reads)
                protect(shut[i].start, shut[i].end, reads ? PROT_NONE : PROT_READ);
    shuttings += shut_count;
}

void memory_close(void)
{
    if (closed)
        return;
    if (closings < MOST_CLOSINGS) {
        closings += guarded_count > 0;
        guards_closed = true;
        guard_all(PROT_NONE);
    }
    shut_all();
    closed = true;
}

void memory_open(void)
{
    if (!closed)
        return;
    if (guards_closed)
        guard_all(PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < shut_count; ++i)
        protect(shut[i].start, shut[i].end, PROT_READ | PROT_WRITE);
    guards_closed = closed = false;
}
