// error.c: the API's lock, errors and their names, and what is printed on stderr.
#include "runtime.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static pthread_mutex_t api_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int depth; // how deep calls of the API are nested
static cudaError_t sticky;
static bool stopped;
static _Thread_local cudaError_t last_error;
bool runtime_called, driver_used;
_Thread_local bool runtime_called_here;

int driver_enter(void)
{
    pthread_mutex_lock(&api_lock);
    ++depth;
    return 1;
}

int api_enter(void)
{
    driver_enter();
    if (depth == 1) // the call is the program's, not one by the driver's library
        runtime_called = runtime_called_here = true;
    return 1;
}

// Leaves a call. Device memory that a call has opened to the host (memory_open, task.c) is closed
// again when the outermost call ends.
void api_leave(const int *entered)
{
    (void)entered;
    if (--depth == 0)
        memory_close();
    pthread_mutex_unlock(&api_lock);
}

cudaError_t sticky_error(void)
{
    return sticky;
}

bool device_stopped(void)
{
    return stopped;
}

cudaError_t api_result(cudaError_t error)
{
    if (error == cudaSuccess)
        error = sticky;
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t api_result_sticky(cudaError_t error, bool stops)
{
    if (sticky == cudaSuccess)
        sticky = error;
    stopped |= stops;
    return api_result(sticky);
}

// Clears the last error. The error of a kernel's fault stays, and the next call returns it
// (API_ENTER).
cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

static _Thread_local char said[2048];

void complain(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    fprintf(stderr, "ptxsim: %s\n", said);
}

// Sends a message to ptxsim run through the socket whose file descriptor is in PTXSIM_FAULTS; the
// socket keeps messages apart. Returns false if there is no socket, or the message was not sent
// whole.
static bool send_to_run(const char *message, size_t size)
{
    const char *fd = getenv("PTXSIM_FAULTS");
    return fd && *fd && send(atoi(fd), message, size, MSG_NOSIGNAL) == (ssize_t)size;
}

void tell_launched(void)
{
    static bool told;
    if (!told)
        send_to_run("{}", strlen("{}"));
    told = true;
}

static bool hand_over(const struct fault *fault)
{
    const char *fd = getenv("PTXSIM_FAULTS");
    char *record = NULL;
    size_t size = 0;
    FILE *file = fd && *fd ? open_memstream(&record, &size) : NULL;

    if (!file)
        return false;
    fault_write(file, fault);
    bool taken = fclose(file) == 0 && send_to_run(record, size);
    free(record);
    return taken;
}

void complain_of(const struct fault *fault)
{
    snprintf(said, sizeof said, "%s", fault->text);
    if (!hand_over(fault))
        fprintf(stderr, "ptxsim: %s\n", said);
}

const char *complained(void)
{
    return said;
}

int report_unsupported(const char *name); // called by unsupported.c
int report_unsupported(const char *name)
{
    complain("%s: not supported", name);
    return api_result(cudaErrorNotSupported);
}

const char *ptxsim_version(void)
{
    return PTXSIM_VERSION;
}

// ---- Names --------------------------------------------------------------------------------------

struct error_text {
    cudaError_t error;
    const char *name;
    const char *text; // NULL: made from the error's name
};

static const struct error_text error_texts[] = {
#define ERROR(name, text) {name, #name, text},
#include "errors.def"
#undef ERROR
};

static const struct error_text *find_error(cudaError_t error)
{
    for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; ++i)
        if (error_texts[i].error == error)
            return &error_texts[i];
    return NULL;
}

const char *cudaGetErrorName(cudaError_t error)
{
    const struct error_text *found = find_error(error);
    return found ? found->name : "unrecognized error code";
}

// Texts for errors that programs can meet here are the real library's. The others are made from the
// name: "peer access unsupported" from cudaErrorPeerAccessUnsupported.
const char *cudaGetErrorString(cudaError_t error)
{
    static _Thread_local char words[128];
    const struct error_text *found = find_error(error);
    size_t length = 0;

    if (!found)
        return "unrecognized error code";
    if (found->text)
        return found->text;
    for (const char *c = found->name + strlen("cudaError"); *c && length + 2 < sizeof words; ++c) {
        bool capital = *c >= 'A' && *c <= 'Z';
        if (capital && length > 0)
            words[length++] = ' ';
        words[length++] = (char)(capital ? *c - 'A' + 'a' : *c);
    }
    words[length] = 0;
    return words;
}
