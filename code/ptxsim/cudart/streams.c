// streams.c: streams, events and stream capture.
//
// Work is done when it is submitted, so a stream stores none, except in a capture and under
// PTXSIM_SCHEDULE=late.
#include "runtime.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUstream_st {
    unsigned flags;
    int priority;
    unsigned long long id;
    char name[TIMELINE_NAME];
    struct timeline time;
    // While capturing:
    struct CUgraph_st *capture; // NULL: not capturing; shared by all streams of the capture
    bool into;                  // in the origin: whether the program gave a graph to capture into
    unsigned long long capture_id;
    struct tips tips;                // nodes of `capture` after which the stream's next work comes
    struct tips late;                // when not capturing: such nodes in the graph of deferred work
    struct CUstream_st *origin;      // the stream that began the capture
    bool unjoined;                   // whether it has work that the origin does not depend on yet
    bool invalid;                    // in the origin: whether a forbidden call has been made
    enum cudaStreamCaptureMode mode; // in the origin: the capture's mode
    pthread_t thread;                // in the origin: the thread that began the capture
    struct CUstream_st *next;
};

static struct CUstream_st legacy; // cudaStreamLegacy and cudaStreamPerThread are this stream, too
static struct CUstream_st *streams = &legacy;
static unsigned long long last_stream_id, last_capture_id;
// created: how many streams were created; apart: how many of them do not wait for the legacy stream.
static size_t created, apart;

static struct CUstream_st *stream_find(cudaStream_t handle)
{
    if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
        return &legacy;
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s == handle)
            return s;
    return NULL;
}

// ---- Capture ------------------------------------------------------------------------------------

static void tips_free(struct tips *tips)
{
    free(tips->nodes);
    *tips = (struct tips){0};
}

// Adds those nodes of `from` that the list does not have yet.
static cudaError_t tips_join(struct tips *tips, const struct tips *from)
{
    struct CUgraphNode_st **grown =
        realloc(tips->nodes, (tips->count + from->count + 1) * sizeof *grown);
    if (!grown)
        return cudaErrorMemoryAllocation;
    tips->nodes = grown;
    for (size_t i = 0; i < from->count; ++i) {
        bool known = false;
        for (size_t k = 0; k < tips->count; ++k)
            known |= grown[k] == from->nodes[i];
        if (!known)
            grown[tips->count++] = from->nodes[i];
    }
    return cudaSuccess;
}

// Adds a node to the graph that a stream is capturing, after the stream's tips.
static cudaError_t capture_add(struct CUstream_st *stream, struct task *task)
{
    struct CUgraphNode_st *node = graph_node(stream->capture, task);
    if (!node)
        return cudaErrorMemoryAllocation;
    cudaError_t error = graph_depend(node, stream->tips.nodes, stream->tips.count);
    stream->tips.count = 0;
    if (error == cudaSuccess)
        error = tips_join(&stream->tips, &(struct tips){&node, 1});
    return error;
}

cudaError_t capture_forbids(void)
{
    cudaError_t error = cudaSuccess;

    for (struct CUstream_st *s = streams; s; s = s->next) {
        if (!s->capture || s->origin != s || s->mode == cudaStreamCaptureModeRelaxed ||
            (s->mode == cudaStreamCaptureModeThreadLocal &&
             !pthread_equal(s->thread, pthread_self())))
            continue;
        s->invalid = true;
        error = cudaErrorStreamCaptureUnsupported;
    }
    return error;
}

// The legacy stream waits for every blocking stream, so it cannot be used while one of them
// captures.
static cudaError_t legacy_forbids(void)
{
    cudaError_t error = cudaSuccess;

    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->capture && !(s->flags & cudaStreamNonBlocking)) {
            s->origin->invalid = true;
            error = cudaErrorStreamCaptureImplicit;
        }
    return error;
}

// Finds a stream; returns an error if it cannot be used.
static cudaError_t stream_use(cudaStream_t handle, struct CUstream_st **stream)
{
    *stream = stream_find(handle);
    if (!*stream)
        return cudaErrorInvalidResourceHandle;
    if (*stream == &legacy)
        return legacy_forbids();
    if ((*stream)->capture && (*stream)->origin->invalid)
        return cudaErrorStreamCaptureInvalidated;
    return cudaSuccess;
}

cudaError_t capture_broken(cudaStream_t handle, cudaError_t error)
{
    struct CUstream_st *stream = stream_find(handle);

    if (stream && stream->capture)
        stream->origin->invalid = true;
    return error;
}

// ---- Deferred work ------------------------------------------------------------------------------

// Deferred work: under PTXSIM_SCHEDULE=late, work goes into a graph. When the host waits for nodes
// of this graph, they are run, and with them all nodes on which they depend. Of the nodes that may
// be run next, the one submitted last is taken.
static struct CUgraph_st *late; // the graph; NULL: no work is deferred
static bool *late_done;         // for each node of `late`, whether it has been run
// The number of the graph, since an event may belong to a node of an earlier graph.
static unsigned late_round = 1;
enum { MOST_LATE = 1024 }; // most nodes of `late`: a GPU's queues are finite, too

static bool blocking(const struct CUstream_st *s)
{
    return s != &legacy && !(s->flags & cudaStreamNonBlocking);
}

// Adds to *tips the nodes of `late` after which a stream's next work comes.
static cudaError_t late_tips(struct CUstream_st *stream, struct tips *tips)
{
    cudaError_t error = tips_join(tips, &stream->late);
    if (error == cudaSuccess && blocking(stream))
        error = tips_join(tips, &legacy.late);
    for (struct CUstream_st *s = streams; stream == &legacy && s; s = s->next)
        if (error == cudaSuccess && blocking(s))
            error = tips_join(tips, &s->late);
    return error;
}

// Whether a node is wanted and has not been run, and every node on which it depends has been run.
static bool late_ready(const struct CUgraphNode_st *node, const bool *wanted)
{
    bool ready = wanted[node->index] && !late_done[node->index];
    for (size_t i = 0; ready && i < node->after_count; ++i)
        ready = late_done[node->after[i]->index];
    return ready;
}

// Runs the deferred work that the nodes of `until` need; NULL: all of it.
static void late_run(const struct tips *until)
{
    static bool running;
    if (!late || running)
        return;
    bool *wanted = calloc(late->count, sizeof *wanted);
    if (!wanted)
        return;
    running = true;
    for (size_t i = 0; until && i < until->count; ++i)
        wanted[until->nodes[i]->index] = true;
    for (size_t i = late->count; i-- > 0;) { // a node comes after nodes with lower numbers only
        wanted[i] |= !until;
        for (size_t k = 0; wanted[i] && k < late->nodes[i]->after_count; ++k)
            wanted[late->nodes[i]->after[k]->index] = true;
    }
    for (size_t i = late->count; i > 0;) {
        if (!late_ready(late->nodes[i - 1], wanted)) {
            --i;
            continue;
        }
        task_run(&late->nodes[i - 1]->task); // the task's fault, if any, is kept
        late_done[i - 1] = true;
        i = late->count;
    }
    free(wanted);
    running = false;
    for (size_t i = 0; i < late->count; ++i)
        if (!late_done[i])
            return;
    for (struct CUstream_st *s = streams; s; s = s->next)
        s->late.count = 0;
    graph_free(late);
    late = NULL;
    late_round++;
}

static void late_run_stream(struct CUstream_st *stream)
{
    struct tips tips = {0};
    if (late && late_tips(stream, &tips) == cudaSuccess)
        late_run(&tips);
    tips_free(&tips);
}

static void late_run_event(const struct CUevent_st *event)
{
    if (late && event->late_round == late_round)
        late_run(&(struct tips){&late->nodes[event->late_node], 1});
}

// Defers a task. Takes over what the task owns.
static cudaError_t late_add(struct CUstream_st *stream, struct task *task)
{
    struct CUevent_st *event = task->kind == TASK_RECORD ? task->event : NULL;
    if (late && late->count == MOST_LATE)
        late_run(NULL);
    if (!late) {
        late = graph_new();
        free(late_done);
        late_done = calloc(MOST_LATE, sizeof *late_done);
    }
    struct CUgraphNode_st *node = late && late_done ? graph_node(late, task) : NULL;
    struct tips tips = {0};
    if (!node)
        return cudaErrorMemoryAllocation;
    cudaError_t error = late_tips(stream, &tips);
    if (error == cudaSuccess)
        error = graph_depend(node, tips.nodes, tips.count);
    tips_free(&tips);
    stream->late.count = 0;
    if (error == cudaSuccess)
        error = tips_join(&stream->late, &(struct tips){&node, 1});
    if (event) {
        event->late_node = node->index;
        event->late_round = late_round;
    }
    return error;
}

void streams_wait(void)
{
    late_run(NULL);
    order_host_knows_all();
}

void streams_meet(void)
{
    late_run(NULL);
    order_fence();
}

// ---- Order --------------------------------------------------------------------------------------

// The legacy stream waits for all blocking streams, and they wait for it.
static void join_legacy(struct CUstream_st *stream)
{
    if (blocking(stream) && legacy.time.begun)
        order_join(&stream->time.knows, &legacy.time.knows);
    for (struct CUstream_st *s = streams; stream == &legacy && s; s = s->next)
        if (blocking(s) && s->time.begun)
            order_join(&legacy.time.knows, &s->time.knows);
}

// Begins a stream's next work. kernels: whether the work may be a kernel.
static void stream_turn(struct CUstream_st *stream, bool kernels)
{
    if (!order_kept())
        return;
    if (!stream->time.begun)
        timeline_begin(&stream->time, stream == &legacy ? "the default stream" : stream->name);
    if (stream == &legacy && apart && kernels)
        order_watch(true);
    join_legacy(stream);
    order_next(&stream->time);
}

bool stream_next(cudaStream_t handle)
{
    struct CUstream_st *stream = stream_find(handle);

    if (!stream || stream->capture)
        return false;
    late_run_stream(stream);
    stream_turn(stream, false);
    return true;
}

// Runs a stream's deferred work; the host now knows that all the stream's work so far is done.
static void stream_waited(cudaStream_t handle)
{
    struct CUstream_st *stream = stream_find(handle);

    if (stream)
        late_run_stream(stream);
    if (!order_kept() || !stream)
        return;
    if (!stream->time.begun && stream != &legacy)
        return;
    stream_turn(stream, false);
    order_host_knows(&stream->time.knows);
}

cudaError_t stream_waited_after(cudaError_t error)
{
    stream_waited(NULL);
    order_waits(false);
    return error;
}

// Whether a copy returns only when it is done: one to pageable memory does, and one from pageable
// memory unless it is to device memory.
static bool returns_done(const struct task *task)
{
    const struct allocation *to, *from;

    if (task->kind != TASK_COPY)
        return false;
    to = memory_find((uint64_t)(uintptr_t)task->copy.to, 1, NULL);
    from = memory_find((uint64_t)(uintptr_t)task->copy.from, 1, NULL);
    return !to || (to->kind != MEMORY_DEVICE && !from);
}

// Whether a task may be deferred. A copy to or from pageable memory may not, since it is staged.
static bool may_be_late(const struct task *task)
{
    return order_late() &&
           (task->kind != TASK_COPY ||
            (memory_find((uint64_t)(uintptr_t)task->copy.to, 1, NULL) &&
             memory_find((uint64_t)(uintptr_t)task->copy.from, 1, NULL) && !returns_done(task)));
}

static cudaError_t submit(cudaStream_t handle, struct CUstream_st *stream, const struct task *task)
{
    stream_turn(stream, task->kind != TASK_COPY && task->kind != TASK_FILL);
    cudaError_t error = task_run(task);
    if (returns_done(task))
        stream_waited(handle);
    return error;
}

cudaError_t stream_submit(cudaStream_t handle, struct task *task)
{
    struct CUstream_st *stream;
    cudaError_t error = stream_use(handle, &stream);

    if (error == cudaSuccess && stream->capture) {
        stream->unjoined = stream != stream->origin;
        return capture_add(stream, task);
    }
    if (error == cudaSuccess && may_be_late(task))
        return late_add(stream, task);
    if (error == cudaSuccess) {
        late_run_stream(stream);
        error = submit(handle, stream, task);
    }
    task_free(task);
    return error;
}

bool stream_captures(cudaStream_t handle)
{
    const struct CUstream_st *stream = stream_find(handle);
    return stream && stream->capture;
}

cudaError_t stream_now(cudaStream_t handle)
{ // runs the stream's deferred work first
    struct CUstream_st *stream;
    cudaError_t error = stream_use(handle, &stream);

    if (error == cudaSuccess && stream->capture)
        error = capture_broken(handle, cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess) {
        late_run_stream(stream);
        stream_turn(stream, true);
    }
    return error;
}

static void capture_end(struct CUstream_st *origin)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->capture && s->origin == origin) {
            s->capture = NULL;
            s->capture_id = 0;
            tips_free(&s->tips);
        }
}

// Begins to capture into a graph (NULL: a new one), after those of its nodes that `after` lists.
static cudaError_t capture_begin(cudaStream_t handle, struct CUgraph_st *graph,
                                 const cudaGraphNode_t *after, size_t count,
                                 enum cudaStreamCaptureMode mode)
{
    struct CUstream_st *stream = stream_find(handle);
    if (!stream)
        return api_result(cudaErrorInvalidResourceHandle);
    if (stream == &legacy)
        return api_result(cudaErrorStreamCaptureUnsupported);
    if (stream->capture)
        return api_result(cudaErrorIllegalState);
    if (mode > cudaStreamCaptureModeRelaxed)
        return api_result(cudaErrorInvalidValue);
    stream->into = graph != NULL;
    stream->capture = graph ? graph : graph_new();
    if (!stream->capture)
        return api_result(cudaErrorMemoryAllocation);
    if (count &&
        tips_join(&stream->tips, &(struct tips){(cudaGraphNode_t *)(uintptr_t)after, count}))
        return api_result(cudaErrorMemoryAllocation);
    stream->capture_id = ++last_capture_id;
    stream->origin = stream;
    stream->unjoined = stream->invalid = false;
    stream->mode = mode;
    stream->thread = pthread_self();
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    API_ENTER();
    return capture_begin(handle, NULL, NULL, 0, mode);
}
ALSO(cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz);

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t handle, cudaGraph_t graph,
                                          const cudaGraphNode_t *after,
                                          const cudaGraphEdgeData *edges, size_t count,
                                          enum cudaStreamCaptureMode mode)
{
    API_ENTER();
    (void)edges;
    if (!graph || (count && !after))
        return api_result(cudaErrorInvalidValue);
    return capture_begin(handle, graph, after, count, mode);
}
ALSO(cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz);

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph)
{
    API_ENTER();
    struct CUstream_st *stream = stream_find(handle);
    cudaError_t error = cudaSuccess;
    if (!stream)
        return api_result(cudaErrorInvalidResourceHandle);
    if (!stream->capture)
        return api_result(cudaErrorIllegalState);
    if (!graph && !stream->into)
        return api_result(cudaErrorInvalidValue);
    if (graph)
        *graph = NULL;
    if (stream->origin != stream)
        return api_result(capture_broken(stream, cudaErrorStreamCaptureUnmatched));
    if (stream->invalid)
        error = cudaErrorStreamCaptureInvalidated;
    else if (stream->mode != cudaStreamCaptureModeRelaxed &&
             !pthread_equal(stream->thread, pthread_self()))
        return api_result(cudaErrorStreamCaptureWrongThread);
    for (struct CUstream_st *s = streams; s && error == cudaSuccess; s = s->next)
        if (s->capture && s->origin == stream && s->unjoined)
            error = cudaErrorStreamCaptureUnjoined;
    if (error == cudaSuccess && graph)
        *graph = stream->capture;
    else if (error != cudaSuccess && !stream->into)
        graph_free(stream->capture);
    capture_end(stream);
    return api_result(error);
}
ALSO(cudaStreamEndCapture, cudaStreamEndCapture_ptsz);

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status)
{
    API_ENTER();
    struct CUstream_st *stream = stream_find(handle);
    if (!stream || !status)
        return api_result(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *status = !stream->capture          ? cudaStreamCaptureStatusNone
              : stream->origin->invalid ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
ALSO(cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz);

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **after, const cudaGraphEdgeData **edges,
                                     size_t *count)
{
    API_ENTER();
    const struct CUstream_st *stream = stream_find(handle);
    cudaError_t error = cudaStreamIsCapturing(handle, status);
    if (error != cudaSuccess || !stream->capture)
        return error;
    if (id)
        *id = stream->capture_id;
    if (graph)
        *graph = stream->capture;
    if (after)
        *after = stream->tips.nodes;
    if (edges)
        *edges = NULL; // all edges are of the ordinary kind
    if (count)
        *count = stream->tips.count;
    return cudaSuccess;
}
ALSO(cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz);

// Sets the nodes after which the stream's next work comes, or adds to them.
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t *after,
                                                const cudaGraphEdgeData *edges, size_t count,
                                                unsigned flags)
{
    API_ENTER();
    struct CUstream_st *stream = stream_find(handle);
    (void)edges;
    if (!stream || (count && !after) || flags > cudaStreamSetCaptureDependencies)
        return api_result(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    if (!stream->capture)
        return api_result(cudaErrorIllegalState);
    for (size_t i = 0; i < count; ++i)
        if (!after[i] || after[i]->graph != stream->capture)
            return api_result(cudaErrorInvalidValue);
    if (flags == cudaStreamSetCaptureDependencies)
        stream->tips.count = 0;
    return api_result(tips_join(&stream->tips, &(struct tips){after, count}));
}
ALSO(cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz);

// ---- Streams ------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned flags, int priority)
{
    API_WORK();
    if (!handle || flags > cudaStreamNonBlocking)
        return api_result(cudaErrorInvalidValue);
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    if (!stream)
        return api_result(cudaErrorMemoryAllocation);
    stream->flags = flags;
    stream->priority = priority;
    stream->id = ++last_stream_id;
    snprintf(stream->name, sizeof stream->name, "stream %llu", stream->id);
    stream->next = streams;
    streams = stream;
    ++created;
    apart += !blocking(stream);
    if (order_kept() && (created > 1 || apart))
        order_watch(created > 1);
    *handle = stream;
    return api_result(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned flags)
{
    return cudaStreamCreateWithPriority(handle, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *handle)
{
    return cudaStreamCreateWithPriority(handle, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    API_WORK();
    for (struct CUstream_st **s = &streams; *s; s = &(*s)->next) {
        if (*s != handle || *s == &legacy)
            continue;
        struct CUstream_st *stream = *s;
        if (stream->capture && stream->origin == stream) {
            if (!stream->into)
                graph_free(stream->capture);
            capture_end(stream);
        }
        late_run_stream(stream);
        tips_free(&stream->late);
        tips_free(&stream->tips);
        --created;
        apart -= !blocking(stream);
        timeline_end(&stream->time);
        *s = stream->next;
        free(stream);
        return api_result(cudaSuccess);
    }
    return api_result(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    API_WORK();
    struct CUstream_st *stream;
    cudaError_t error = stream_use(handle, &stream);
    if (error == cudaSuccess && stream->capture)
        error = capture_broken(handle, cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess)
        error = capture_forbids();
    if (error == cudaSuccess)
        stream_waited(handle);
    return api_result(error);
}
ALSO(cudaStreamSynchronize, cudaStreamSynchronize_ptsz);
ALSO(cudaStreamSynchronize, cudaStreamQuery); // runs deferred work: never cudaErrorNotReady
ALSO(cudaStreamSynchronize, cudaStreamQuery_ptsz);

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *flags)
{
    API_ENTER();
    struct CUstream_st *stream = stream_find(handle);
    if (!stream || !flags)
        return api_result(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *flags = stream->flags;
    return cudaSuccess;
}
ALSO(cudaStreamGetFlags, cudaStreamGetFlags_ptsz);

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority)
{
    API_ENTER();
    struct CUstream_st *stream = stream_find(handle);
    if (!stream || !priority)
        return api_result(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *priority = stream->priority;
    return cudaSuccess;
}
ALSO(cudaStreamGetPriority, cudaStreamGetPriority_ptsz);

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *id)
{
    API_ENTER();
    struct CUstream_st *stream = stream_find(handle);
    if (!stream || !id)
        return api_result(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *id = stream->id;
    return cudaSuccess;
}
ALSO(cudaStreamGetId, cudaStreamGetId_ptsz);

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int *device)
{
    API_ENTER();
    struct CUstream_st *stream = stream_find(handle);
    if (!stream || !device)
        return api_result(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *device = 0;
    return cudaSuccess;
}
ALSO(cudaStreamGetDevice, cudaStreamGetDevice_ptsz);

// Attaches managed memory to a stream, so that only this stream's kernels access it: a hint,
// without effect where the host may touch managed memory at any time.
cudaError_t cudaStreamAttachMemAsync(cudaStream_t handle, void *address, size_t bytes,
                                     unsigned flags)
{
    API_ENTER();
    const struct CUstream_st *stream = stream_find(handle);
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)address, 1, NULL);
    if (!stream)
        return api_result(cudaErrorInvalidResourceHandle);
    bool whole = a && a->kind == MEMORY_MANAGED && a->base == (uint64_t)(uintptr_t)address &&
                 (bytes == 0 || bytes == a->size);
    bool known = flags == cudaMemAttachGlobal || flags == cudaMemAttachHost ||
                 (flags == cudaMemAttachSingle && stream != &legacy);
    return api_result(whole && known ? cudaSuccess : cudaErrorInvalidValue);
}
ALSO(cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz);

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    API_WORK();
    if (!function)
        return api_result(cudaErrorInvalidValue);
    struct task task = {.kind = TASK_HOST};
    task.host.function = function;
    task.host.data = data;
    return api_result(stream_submit(stream, &task));
}
ALSO(cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz);

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void *data,
                                  unsigned flags)
{
    API_ENTER();
    struct CUstream_st *stream;
    if (!callback || flags != 0)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = stream_use(handle, &stream);
    if (error == cudaSuccess && stream->capture)
        error = capture_broken(handle, cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess) {
        stream_waited(handle);
        memory_open();
        callback(handle, cudaSuccess, data);
    }
    return api_result(error);
}
ALSO(cudaStreamAddCallback, cudaStreamAddCallback_ptsz);

// Hints, without effect: which data should stay in L2, how streams share the device.
cudaError_t cudaStreamSetAttribute(cudaStream_t handle, cudaStreamAttrID attribute,
                                   const cudaStreamAttrValue *value)
{
    API_ENTER();
    (void)attribute;
    if (!stream_find(handle))
        return api_result(cudaErrorInvalidResourceHandle);
    return api_result(value ? cudaSuccess : cudaErrorInvalidValue);
}
ALSO(cudaStreamSetAttribute, cudaStreamSetAttribute_ptsz);

// ---- Events -------------------------------------------------------------------------------------

// The error for asking about an event that was last recorded in a capture.
static cudaError_t captured_error(const struct CUevent_st *event)
{
    if (event->capture_id == 0)
        return cudaSuccess;
    for (const struct CUstream_st *s = streams; s; s = s->next)
        if (s->capture && s->capture_id == event->capture_id && !s->origin->invalid)
            return cudaErrorCapturedEvent;
    return cudaErrorInvalidValue; // the capture has ended, or is invalid
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned flags)
{
    API_WORK();
    const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (!handle || (flags & ~known))
        return api_result(cudaErrorInvalidValue);
    struct CUevent_st *event = calloc(1, sizeof *event);
    if (!event)
        return api_result(cudaErrorMemoryAllocation);
    event->flags = flags;
    event_add(event);
    *handle = event;
    return api_result(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t *handle)
{
    return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    API_WORK();
    late_run_event(event_find(handle) ? handle : &(struct CUevent_st){0});
    if (!event_remove(handle))
        return api_result(cudaErrorInvalidResourceHandle);
    tips_free(&handle->tips);
    order_drop(&handle->knows);
    free(handle);
    return api_result(cudaSuccess);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags)
{
    API_WORK();
    struct CUevent_st *event = event_find(handle);
    struct CUstream_st *stream;
    if (!event)
        return api_result(cudaErrorInvalidResourceHandle);
    if (flags & ~(unsigned)cudaEventRecordExternal)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = stream_use(stream_handle, &stream);
    if (error != cudaSuccess)
        return api_result(error);
    if (!stream->capture || (flags & cudaEventRecordExternal)) {
        event->capture_id = 0;
        struct task task = {.kind = TASK_RECORD};
        task.event = event;
        return api_result(stream_submit(stream_handle, &task));
    }
    event->capture_id = stream->capture_id; // the event marks a point of the capture
    event->stream = stream;
    event->tips.count = 0;
    return api_result(tips_join(&event->tips, &stream->tips));
}
ALSO(cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz);

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
ALSO(cudaEventRecord, cudaEventRecord_ptsz);

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags)
{
    API_WORK();
    struct CUevent_st *event = event_find(event_handle);
    struct CUstream_st *stream;
    (void)flags;
    if (!event)
        return api_result(cudaErrorInvalidResourceHandle);
    cudaError_t error = stream_use(handle, &stream);
    if (error != cudaSuccess)
        return api_result(error);
    if (event->capture_id == 0) {
        if (stream->capture && event->recorded && !(flags & cudaEventWaitExternal))
            return api_result(capture_broken(handle, cudaErrorStreamCaptureIsolation));
        if (!stream->capture) {
            if (late && event->late_round == late_round)
                error = tips_join(&stream->late, &(struct tips){&late->nodes[event->late_node], 1});
            stream_turn(stream, false);
            order_join(&stream->time.knows, &event->knows);
        }
        return api_result(error);
    }
    struct CUstream_st *from = stream_find(event->stream);
    if (!from || from->capture_id != event->capture_id || stream == &legacy)
        return api_result(captured_error(event));
    if (stream->capture && stream->capture_id != event->capture_id) {
        from->origin->invalid = true;
        return api_result(capture_broken(handle, cudaErrorStreamCaptureMerge));
    }
    if (!stream->capture) { // the stream joins the capture
        stream->capture = from->capture;
        stream->capture_id = from->capture_id;
        stream->origin = from->origin;
        stream->unjoined = true;
    }
    if (stream != from)
        from->unjoined = false;
    return api_result(tips_join(&stream->tips, &event->tips));
}
ALSO(cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz);

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    API_WORK();
    struct CUevent_st *event = event_find(handle);
    if (!event)
        return api_result(cudaErrorInvalidResourceHandle);
    cudaError_t captured = captured_error(event), error = capture_forbids();
    if (captured == cudaSuccess && error == cudaSuccess)
        late_run_event(event);
    if (captured == cudaSuccess && error == cudaSuccess && order_kept())
        order_host_knows(&event->knows);
    return api_result(captured != cudaSuccess ? captured : error);
}
ALSO(cudaEventQuery, cudaEventSynchronize);

// The simulator does not measure time: a program that compares its kernels gets a number that grows
// with their executed instructions, and is told that it is not a time.
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    static bool explained;
    const double instructions_ms = 1e6;

    API_ENTER();
    struct CUevent_st *first = event_find(start), *second = event_find(end);
    if (!milliseconds)
        return api_result(cudaErrorInvalidValue);
    *milliseconds = NAN;
    if (first && second) {
        late_run_event(first);
        late_run_event(second);
    }
    if (first && second && (first->capture_id || second->capture_id))
        return api_result(captured_error(first->capture_id ? first : second));
    if (!first || !second || !first->recorded || !second->recorded ||
        (first->flags & cudaEventDisableTiming) || (second->flags & cudaEventDisableTiming))
        return api_result(cudaErrorInvalidResourceHandle);
    double passed = (double)second->instructions - (double)first->instructions;
    *milliseconds = (float)((passed < 0 ? passed - 1 : passed + 1) / instructions_ms);
    if (!explained)
        complain("it counts and does not time: what cudaEventElapsedTime gives is no time, but 1 "
                 "for a million "
                 "instructions of warps");
    explained = true;
    return cudaSuccess;
}
