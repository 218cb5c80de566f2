// trace.c: what the warps of one CTA did, and which shared addresses their lanes accessed. Recorded
// only if PTXSIM_TRACE asks for it, for the pictures of code/ptxsim/tool/profile.c, or PTXSIM_FILM
// (film.h), which keeps everything.
//
//   PTXSIM_TRACE=FILE          the CTA (0, 0, 0) of each kernel's first launch, as JSON into FILE
//   PTXSIM_TRACE=FILE@x,y,z    another CTA
//
// A warp's place is the number of warp instructions that it has executed: a step is an instruction,
// never a time. At a barrier, the waiting warps are moved up to the place of the one that is
// furthest ahead. At an mbarrier, a warp is moved up to the furthest place of the phase's arrivals,
// and the instructions of its failed tests are dropped. Of each shared access, the first execution
// by each warp is kept.
#include "machine.h"

#include "film.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRACE_RUNS_MAX = 1 << 20 };

struct trace_run { // a warp runs instructions [first, first + count), or waits at one
    uint64_t from, to;
    uint32_t warp, first, count;
    bool wait;
};

struct trace_access {
    uint32_t insn, warp, mask, bytes;
    // The number of the run of its basic block: the parts of one matrix load have the same number.
    uint64_t run;
    int wavefronts, least;
    bool store;
    uint32_t at[WARP];
};

struct trace_meeting { // the state of an mbarrier
    uint32_t at;
    // The furthest place of an arrival: reached: in the current phase; complete: in the phase
    // before it.
    uint64_t reached, complete;
};

struct trace {
    const struct kernel *kernel;
    const struct program *program;
    unsigned block[3];
    int warps;
    uint64_t *place; // each warp's place
    // For each warp, its place when it began to wait; UINT64_MAX: it does not wait.
    uint64_t *arrived;
    uint32_t *stands; // the instruction at which each warp waits
    // For each warp, its place at its first failed test of an mbarrier; UINT64_MAX: none has
    // failed.
    uint64_t *asked;
    struct trace_meeting *meetings;
    size_t meeting_count, meeting_capacity;
    uint64_t blocks_run;
    struct trace_run *runs;
    size_t run_count, run_capacity;
    struct trace_access *accesses;
    size_t access_count, access_capacity;
    uint64_t *last_run; // for each (instruction, warp), the run whose accesses are kept
    bool full;
    bool kept;         // whether PTXSIM_TRACE asks for the trace
    struct film *film; // NULL: not asked for by PTXSIM_FILM
    struct trace *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct trace *traces, **last_trace = &traces;

static const char PICTURES[] = "PTXSIM_TRACE", FILM[] = "PTXSIM_FILM";

// Reads file name and CTA from an environment variable; false if it is not set, or if what follows
// its '@' is no CTA.
static bool wanted_by(const char *variable, char *path, size_t size, unsigned block[3])
{
    const char *wanted = getenv(variable);
    block[0] = block[1] = block[2] = 0;
    if (!wanted || !*wanted)
        return false;
    const char *slash = strrchr(wanted, '/'), *at = strrchr(slash ? slash : wanted, '@');
    int length = at ? (int)(at - wanted) : (int)strlen(wanted), end = 0;
    if (at && (sscanf(at, "@%u,%u,%u%n", &block[0], &block[1], &block[2], &end) != 3 || at[end])) {
        static bool said;
        if (!said)
            fprintf(stderr, "ptxsim: %s: \"%s\" is no CTA: @x,y,z\n", variable, at);
        said = true;
        return false;
    }
    snprintf(path, size, "%.*s", length, wanted);
    return true;
}

// Whether an environment variable names this CTA.
static bool asks_for(const char *variable, const struct cta *cta)
{
    char path[4096];
    unsigned block[3];
    return wanted_by(variable, path, sizeof path, block) &&
           memcmp(block, cta->index, sizeof block) == 0;
}

struct trace *trace_start(const struct cta *cta)
{
    bool kept = asks_for(PICTURES, cta), filmed = asks_for(FILM, cta);
    if (!kept && !filmed)
        return NULL;
    if (cta->cluster) {
        static atomic_bool said;
        if (!atomic_exchange(&said, true))
            fprintf(stderr,
                    "ptxsim: %s: block (%u,%u,%u) is one of a cluster of %d: only CTAs that are "
                    "alone are "
                    "recorded\n",
                    filmed ? FILM : PICTURES, cta->index[0], cta->index[1], cta->index[2],
                    cta->cluster->size);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    bool had = false;
    for (const struct trace *t = traces; t; t = t->next)
        had |= t->program == cta->program && (!kept || t->kept) && (!filmed || t->film);
    struct trace *t = had ? NULL : calloc(1, sizeof *t);
    if (t) {
        t->kernel = cta->launch->kernel;
        t->program = cta->program;
        t->warps = cta->warps;
        memcpy(t->block, cta->index, sizeof t->block);
        t->kept = kept;
        t->film = filmed ? film_start(cta) : NULL;
        size_t warps = (size_t)cta->warps;
        t->place = calloc(warps, sizeof *t->place);
        t->arrived = malloc(warps * sizeof *t->arrived);
        t->stands = calloc(warps, sizeof *t->stands);
        t->asked = malloc(warps * sizeof *t->asked);
        t->last_run = calloc(warps * cta->program->insn_count + 1, sizeof *t->last_run);
        if (!t->place || !t->arrived || !t->stands || !t->asked || !t->last_run)
            abort();
        memset(t->arrived, 0xff, warps * sizeof *t->arrived);
        memset(t->asked, 0xff, warps * sizeof *t->asked);
        *last_trace = t;
        last_trace = &t->next;
    }
    pthread_mutex_unlock(&lock);
    return t;
}

static void add_run(struct trace *t, struct trace_run run)
{
    if (t->run_count == TRACE_RUNS_MAX) {
        t->full = true;
        return;
    }
    t->runs = array_grow(t->runs, t->run_count, &t->run_capacity, sizeof *t->runs);
    t->runs[t->run_count++] = run;
}

struct film *trace_film(const struct trace *t)
{
    return t ? t->film : NULL;
}

void trace_block(struct trace *t, const struct warp *w, const struct basic_block *b, uint32_t mask)
{
    if (t->film)
        film_block(t->film, w, (uint32_t)(b - w->cta->program->blocks), mask);
    uint64_t from = t->place[w->index];
    t->blocks_run++;
    t->place[w->index] += b->insns;
    if (b->insns)
        add_run(t, (struct trace_run){.from = from,
                                      .to = from + b->insns,
                                      .warp = (uint32_t)w->index,
                                      .first = b->insn,
                                      .count = b->insns});
}

void trace_arrive(struct trace *t, const struct warp *w, uint32_t insn, unsigned barrier,
                  uint32_t mask)
{
    if (t->film)
        film_arrive(t->film, insn, barrier, mask, w->cta->barrier[barrier].expected);
    t->arrived[w->index] = t->place[w->index];
    t->stands[w->index] = insn;
}

// Notes that all warps that wait at barrier `id` go on.
void trace_release(struct trace *t, const struct cta *cta, unsigned id)
{
    uint64_t place = 0;
    uint32_t warps = 0;
    for (int pass = 0; pass < 2; ++pass)
        for (int i = 0; i < cta->warps; ++i) {
            const struct warp *w = &cta->warp[i];
            bool waits = false;
            for (int k = 0; k < w->group_count; ++k)
                waits |= w->groups[k].arrived && w->groups[k].barrier == id;
            if (!waits || t->arrived[i] == UINT64_MAX)
                continue;
            warps |= 1u << i;
            if (pass == 0) {
                place = place > t->place[i] ? place : t->place[i];
                continue;
            }
            // If the warp had nothing to wait for, its run is empty.
            add_run(t, (struct trace_run){.from = t->arrived[i],
                                          .to = place,
                                          .warp = (uint32_t)i,
                                          .first = t->stands[i],
                                          .count = 1,
                                          .wait = true});
            t->place[i] = place;
            t->arrived[i] = UINT64_MAX;
        }
    if (t->film)
        film_release(t->film, id, warps);
}

static struct trace_meeting *meeting_at(struct trace *t, uint32_t at)
{
    for (size_t i = 0; i < t->meeting_count; ++i)
        if (t->meetings[i].at == at)
            return &t->meetings[i];
    t->meetings =
        array_grow(t->meetings, t->meeting_count, &t->meeting_capacity, sizeof *t->meetings);
    t->meetings[t->meeting_count] = (struct trace_meeting){.at = at};
    return &t->meetings[t->meeting_count++];
}

void trace_meet(struct trace *t, const struct warp *w, uint32_t at, bool ends_phase)
{
    struct trace_meeting *m = meeting_at(t, at);
    m->reached = m->reached > t->place[w->index] ? m->reached : t->place[w->index];
    if (ends_phase) {
        m->complete = m->reached;
        m->reached = 0;
    }
}

void trace_ask(struct trace *t, const struct warp *w, uint32_t insn, uint32_t at, bool passed)
{
    uint64_t *place = &t->place[w->index], *asked = &t->asked[w->index];
    if (!passed) {
        *asked = *asked < *place ? *asked : *place;
        return;
    }
    if (*asked != UINT64_MAX) { // drops the loop of failed tests
        *place = *asked;
        for (size_t i = t->run_count; i-- > 0;) {
            struct trace_run *r = &t->runs[i];
            if (r->warp != (uint32_t)w->index)
                continue;
            if (r->from < *place)
                break;
            r->to = r->from;
            r->count = 0;
        }
        *asked = UINT64_MAX;
    }
    uint64_t complete = meeting_at(t, at)->complete;
    if (complete <= *place)
        return;
    add_run(t, (struct trace_run){.from = *place,
                                  .to = complete,
                                  .warp = (uint32_t)w->index,
                                  .first = insn,
                                  .count = 1,
                                  .wait = true});
    *place = complete;
}

void trace_access(struct trace *t, const struct warp *w, uint32_t insn, const uint32_t at[WARP],
                  int bytes, uint32_t mask, bool store)
{
    if (t->film)
        film_shared(t->film, insn, at, bytes, mask, store ? FILM_STORE : FILM_LOAD);
    uint64_t *kept = &t->last_run[(size_t)w->index * t->program->insn_count + insn];
    if (!mask || (*kept && *kept != t->blocks_run))
        return;
    *kept = t->blocks_run;
    t->accesses =
        array_grow(t->accesses, t->access_count, &t->access_capacity, sizeof *t->accesses);
    struct trace_access *a = &t->accesses[t->access_count++];
    *a = (struct trace_access){.insn = insn,
                               .warp = (uint32_t)w->index,
                               .mask = mask,
                               .bytes = (uint32_t)bytes,
                               .run = t->blocks_run,
                               .store = store};
    a->wavefronts = shared_wavefronts(at, bytes, mask, &a->least);
    memcpy(a->at, at, sizeof a->at);
}

// ---- The file -----------------------------------------------------------------------------------

static void write_trace(FILE *file, const struct trace *t)
{
    const struct program *p = t->program;
    char name[256];

    kernel_base_name(kernel_info(t->kernel)->name, name, sizeof name);
    fprintf(file, "{\"kernel\":\"%s\",\"block\":[%u,%u,%u],\"warps\":%d,\"complete\":%s", name,
            t->block[0], t->block[1], t->block[2], t->warps, t->full ? "false" : "true");
    // Each instruction's source line and class; a run names its instructions by number.
    fprintf(file, ",\n\"instructions\":[");
    for (size_t i = 0; i < p->insn_count; ++i) {
        const struct insn_info *insn = &p->insns[i];
        fprintf(file, i ? ",\n[" : "\n[");
        write_string(file, insn->at.line ? source_path(insn->at.file) : "");
        fprintf(file, ",%d,\"%s\",\"%s\"]", insn->at.line, op_class_names[insn->op_class],
                insn->opcode);
    }
    fprintf(file, "],\n\"runs\":[");
    for (size_t i = 0; i < t->run_count; ++i) {
        const struct trace_run *r = &t->runs[i];
        fprintf(file, "%s\n[%u,%llu,%llu,%u,%u,%s]", i ? "," : "", r->warp,
                (unsigned long long)r->from, (unsigned long long)r->to, r->first, r->count,
                r->wait ? "true" : "false");
    }
    fprintf(file, "],\n\"accesses\":[");
    for (size_t i = 0; i < t->access_count; ++i) {
        const struct trace_access *a = &t->accesses[i];
        fprintf(file,
                "%s\n{\"instruction\":%u,\"warp\":%u,\"store\":%s,\"bytes\":%u,\"wavefronts\":%d,"
                "\"least\":%d,\"lanes\":[",
                i ? "," : "", a->insn, a->warp, a->store ? "true" : "false", a->bytes,
                a->wavefronts, a->least);
        for (int lane = 0; lane < WARP; ++lane) {
            const char *comma = lane ? "," : "";
            if (a->mask >> lane & 1)
                fprintf(file, "%s%u", comma, a->at[lane]);
            else
                fprintf(file, "%snull", comma);
        }
        fprintf(file, "]}");
    }
    fprintf(file, "]}");
}

static void write_all(FILE *file, const char *variable)
{
    const char *comma = "";

    fprintf(file, "{\"kernels\":[");
    for (const struct trace *t = traces; t; t = t->next) {
        if (variable == FILM ? !t->film : !t->kept)
            continue;
        fprintf(file, "%s\n", comma);
        comma = ",";
        if (variable == FILM)
            film_write(file, t->film);
        else
            write_trace(file, t);
    }
    fprintf(file, "]}\n");
}

void films_write(FILE *file)
{
    write_all(file, FILM);
}

// Writes the file that an environment variable names, if it is set.
static void write_file(const char *variable)
{
    char path[4096], temporary[4096 + 32];
    unsigned block[3];
    struct stat status;

    if (!wanted_by(variable, path, sizeof path, block))
        return;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) { // renaming would replace a device
        fprintf(stderr, "ptxsim: %s: %s is no regular file\n", variable, path);
        return;
    }
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    FILE *file = fopen(temporary, "we");
    if (file) {
        write_all(file, variable);
        bool failed = ferror(file) != 0;
        if (fclose(file) == 0 && !failed && rename(temporary, path) == 0)
            return;
        remove(temporary);
    }
    fprintf(stderr, "ptxsim: %s: %s: cannot be written\n", variable, path);
}

__attribute__((destructor)) static void trace_write(void)
{
    write_file(PICTURES);
    write_file(FILM);
}

void films_save(void)
{
    static bool saved;
    if (!saved)
        write_file(FILM);
    saved = true;
}
