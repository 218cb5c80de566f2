// talk.c: the judge's end of the pipes to the runner.
#include "judge.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Moves bytes until the deadline. False: the other end is gone, or too slow.
static bool move(int fd, char *bytes, size_t count, bool writes, double end)
{
    while (count > 0) {
        struct pollfd ready = {.fd = fd, .events = writes ? POLLOUT : POLLIN};
        double left = end - now();
        if (left <= 0)
            return false;
        if (poll(&ready, 1, (int)(1000 * left) + 1) <= 0)
            continue;
        ssize_t n = writes ? write(fd, bytes, count) : read(fd, bytes, count);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        count -= (size_t)n;
    }
    return true;
}

double runner_end(struct runner *r)
{
    double used = 0;

    if (r->pid) {
        close(r->to);
        close(r->from);
        used = box_stop(r->pid);
    }
    r->pid = 0;
    return used;
}

static bool send_request(struct runner *r, const struct request *request, const void *parts[],
                         const size_t sizes[], int part_count, double end)
{
    bool sent = move(r->to, (char *)request, sizeof *request, true, end);
    for (int i = 0; i < part_count && sent; ++i)
        sent = move(r->to, (char *)parts[i], sizes[i], true, end);
    return sent;
}

// Reads a reply and the bytes after it: `least` of them or, for a film, up to `most`.
static bool take_reply(struct runner *r, size_t least, size_t most, struct reply *reply, char **out,
                       double end)
{
    *out = NULL;
    if (!move(r->from, (char *)reply, sizeof *reply, false, end) || reply->bytes < least ||
        reply->bytes > most)
        return false;
    reply->text[sizeof reply->text - 1] = '\0';
    reply->race[sizeof reply->race - 1] = '\0';
    if (reply->races < 0 || reply->printed_bytes > sizeof reply->printed)
        return false;
    if (!(*out = calloc(1, reply->bytes + 1)))
        fail(EXIT_MACHINE, "out of memory");
    return move(r->from, *out, reply->bytes, false, end);
}

// Starts a runner with the submission's kernels and a limit of CPU time. The limit by the clock is
// ten times as long, since the machine may be shared.
static bool begin(struct runner *r, const struct submission *s, int seconds, char **why)
{
    char *command[] = {text("%s/build/runner", box_book()), r->box.gpu ? "gpu" : NULL, NULL};
    struct request load = {.verb = VERB_LOAD, .bytes = s->ptx_bytes + 1 + s->cubin_bytes};
    const void *parts[] = {s->ptx, "", s->cubin};
    const size_t sizes[] = {s->ptx_bytes, 1, s->cubin_bytes};
    struct reply reply;
    char *out;
    double end = now() + wall_left(s, 10 * seconds);

    signal(SIGPIPE, SIG_IGN);
    r->box.cpu_seconds = seconds;
    r->pid = box_start(&r->box, command, &r->to, &r->from);
    fcntl(r->to, F_SETFL, O_NONBLOCK);
    free(command[0]);
    if (!send_request(r, &load, parts, sizes, 3, end) || !take_reply(r, 0, 0, &reply, &out, end)) {
        *why = wall_over(s) ? text("stopped: it %s", wall_told(s))
                            : text("the runner does not take the kernel");
        r->used += runner_end(r);
        return false;
    }
    free(out);
    if (reply.verdict != DONE) {
        *why = cleaned(reply.text, strlen(reply.text));
        r->used += runner_end(r);
        return false;
    }
    return true;
}

static size_t reply_bytes(const struct request *request, const void *parts[])
{
    const struct run_request *run = parts[0];
    if (request->verb != VERB_RUN && request->verb != VERB_TIME)
        return 0;
    return answer_bytes(&run->shape) * (size_t)run->sets;
}

bool runner_ask(struct runner *r, const struct submission *s, const struct request *request,
                const void *parts[], const size_t sizes[], int part_count, int seconds,
                struct reply *reply, char **out, char **why)
{
    struct request sent = *request;
    bool last = sent.verb != VERB_TIME; // only timing continues in the same process

    sent.bytes = 0;
    for (int i = 0; i < part_count; ++i)
        sent.bytes += sizes[i];
    *out = NULL;
    if (r->used > RUNNER_SECONDS && sent.verb != VERB_MEASURE) {
        *why = text("not run: %d s of CPU time are used up", RUNNER_SECONDS);
        return false;
    }
    if (wall_over(s)) {
        *why = text("not run: it %s", wall_told(s));
        return false;
    }
    if (!r->pid && !begin(r, s, last ? seconds : 600, why))
        return false;
    double end = now() + wall_left(s, 10 * seconds);
    size_t bytes = reply_bytes(&sent, parts);
    bool good =
        send_request(r, &sent, parts, sizes, part_count, end) &&
        take_reply(r, bytes, sent.verb == VERB_FILM ? FILM_BYTES_MAX : bytes, reply, out, end);
    if (good && !last)
        return true;
    bool late = now() >= end;
    double used = fmax(runner_end(r), late ? seconds : 0);
    r->used += used;
    if (good)
        return true;
    *why = late && wall_over(s)  ? text("stopped: it %s", wall_told(s))
           : late                ? text("stopped: it did not end")
           : used >= seconds - 1 ? text("stopped: it took more than %d s of CPU time", seconds)
                                 : text("stopped: it needed too much memory, or crashed");
    free(*out);
    *out = NULL;
    return false;
}
