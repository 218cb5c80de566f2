// talk.c: the judge's end of the runner's pipes.
#include "judge.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Moves bytes until the deadline; false when the other end is gone or too slow.
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

void runner_end(struct runner *r)
{
    if (r->pid) {
        close(r->to);
        close(r->from);
        box_stop(r->pid);
    }
    r->pid = 0;
}

static bool send_request(struct runner *r, const struct request *request, const void *parts[],
                         const size_t sizes[], int part_count, double end)
{
    bool sent = move(r->to, (char *)request, sizeof *request, true, end);
    for (int i = 0; i < part_count && sent; ++i)
        sent = move(r->to, (char *)parts[i], sizes[i], true, end);
    return sent;
}

static bool take_reply(struct runner *r, size_t expected, struct reply *reply, char **out,
                       double end)
{
    *out = NULL;
    if (!move(r->from, (char *)reply, sizeof *reply, false, end) || reply->bytes != expected)
        return false;
    for (int i = 0; i < FAULTS_SAID; ++i)
        reply->text[i][sizeof reply->text[i] - 1] = '\0';
    if (reply->faults < 0 || reply->faults > FAULTS_SAID)
        return false;
    if (!(*out = malloc(expected + 1)))
        fail(EXIT_MACHINE, "out of memory");
    return move(r->from, *out, expected, false, end);
}

static bool begin(struct runner *r, const struct submission *s, char **why)
{
    char *command[] = {text("%s/build/runner", box_book()), r->box.gpu ? "gpu" : NULL, NULL};
    struct request load = {.verb = VERB_LOAD, .bytes = s->ptx_bytes};
    const void *parts[] = {s->ptx};
    struct reply reply;
    char *out;
    double end = now() + 60;

    signal(SIGPIPE, SIG_IGN);
    r->pid = box_start(&r->box, command, &r->to, &r->from);
    fcntl(r->to, F_SETFL, O_NONBLOCK);
    if (!send_request(r, &load, parts, &s->ptx_bytes, 1, end) ||
        !take_reply(r, 0, &reply, &out, end)) {
        *why = text("the runner does not take the kernel");
        runner_end(r);
        r->lost = true;
        return false;
    }
    free(out);
    if (reply.verdict != DONE) {
        *why = cleaned(reply.text[0], strlen(reply.text[0]));
        runner_end(r);
        return false;
    }
    return true;
}

bool runner_ask(struct runner *r, const struct submission *s, const struct request *request,
                const void *parts[], const size_t sizes[], int part_count, int seconds,
                struct reply *reply, char **out, char **why)
{
    struct request sent = *request;
    size_t expected = 0;
    double end;

    sent.bytes = 0;
    for (int i = 0; i < part_count; ++i)
        sent.bytes += sizes[i];
    if (sent.verb == VERB_RUN || sent.verb == VERB_TIME) {
        const struct run_request *run = parts[0];
        expected = 2 * shape_elements(&run->shape) * (size_t)run->sets;
    }
    *out = NULL;
    // Another minute for each case would be too much; an image is only read.
    if (r->lost && sent.verb != VERB_IMAGE) {
        *why = text("not run: it was stopped before");
        return false;
    }
    if (!r->pid && !begin(r, s, why))
        return false;
    end = now() + seconds;
    if (send_request(r, &sent, parts, sizes, part_count, end) &&
        take_reply(r, expected, reply, out, end))
        return true;
    *why = now() >= end ? text("stopped: it ran for more than %d s", seconds)
                        : text("stopped: it needed too much memory, or crashed");
    free(*out);
    *out = NULL;
    runner_end(r);
    r->lost = true;
    return false;
}
