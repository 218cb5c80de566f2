// lab.h: the parts of the lab driver.
//
//   lab.c       options, gates, the report, the verdict
//   process.c   programs as processes: run to the end, or asked for one timing batch at a time
//   evidence.c  what Nsight Compute or the simulator counted
#ifndef LAB_H
#define LAB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

enum { EXIT_GREEN = 0, EXIT_RED = 1, EXIT_USAGE = 2, EXIT_MACHINE = 3 };

// Prints one line, "lab3: ...", and exits.
void fail(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

// printf into a new string.
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- Processes (process.c) ----------------------------------------------------------------------

struct output {
    int status; // exit status; 128 + signal; -1: stopped because it ran too long
    char *out;  // stdout, NUL-terminated
    char *err;  // stderr
};

// Runs argv (NULL-terminated) to its end, at most `seconds`. env: "NAME=value" strings added to
// the environment, NULL-terminated, or NULL. When `show`, stdout goes to ours instead.
struct output run(char *const argv[], char *const env[], int seconds, bool show);
void output_free(struct output *output);

// The last line of a program's complaints, for a report of one line; "no message" if it said none.
const char *last_line(char *err);

// A program started with --on-demand: it times one batch for each line that it gets.
struct child {
    pid_t pid;
    FILE *in, *out;
    int err;
};
bool child_start(struct child *child, char *const argv[], char *const env[]);
// Time of the next batch in µs (its p50); negative when the program has ended or hangs.
double child_batch(struct child *child, int seconds);
// Ends the input and waits: the program then verifies its outputs again. Returns as run() does.
struct output child_finish(struct child *child, int seconds);

// ---- Evidence (evidence.c) ----------------------------------------------------------------------

struct counter {
    const char *key;   // in the record
    const char *title; // in the report
};
extern const struct counter ncu_counters[];       // ends with a NULL key
extern const struct counter simulator_counters[]; // ends with a NULL key

// What Nsight Compute reads for one launch of argv, by the keys of ncu_counters; NULL with one
// line in *why where there is no ncu or it was refused.
json_t *ncu_read(char *const argv[], char *const env[], char **why);

// Counts per launch and the L4's floors, flat, from a report of the simulator; its kernels are
// added up. NULL if it holds no launch.
json_t *simulator_read(json_t *report);

#endif
