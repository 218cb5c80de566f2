// messages.c: prints faults in the way of compilers' errors, FILE:LINE first, so that editors and
// CI find the place.
//
// The simulator sends each fault as a record (fault_write in ptxsim.h). The message for a kernel's
// fault begins with the line of the instruction; if that line is in a header of the toolkit, with
// the line of the program that calls it.
#include "tool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fault_add(json_t *faults, const char *record)
{
    json_t *fault = json_loads(record, 0, NULL);
    if (!fault)
        fail(EXIT_MACHINE, "a fault that the simulator has told of is no JSON: %s", record);
    if (json_object_get(fault, "kind"))
        json_array_append_new(faults, fault);
    else // {}: a kernel was launched
        json_decref(fault);
}

// ---- Sentences from the film --------------------------------------------------------------------

// Whether an instruction is at a fault's place: file, line and callers. A place without a line of
// the source has no callers: then only the line, 0, is compared.
static bool is_same_line(const json_t *instruction, const json_t *fault)
{
    const json_t *callers = json_object_get(fault, "callers");
    return instruction &&
           json_integer_value(json_array_get(instruction, 1)) == whole_at(fault, "line") &&
           (!callers ||
            (json_equal(json_array_get(instruction, 0), json_object_get(fault, "file")) &&
             json_equal(json_array_get(instruction, 2), callers)));
}

// Whether a film's fault is also a fault of the run: of the same kind, and with the same words
// (exact), or else with the same kernel and the same two lines.
static bool is_same(const json_t *kernel, const json_t *filmed, const json_t *fault, bool exact)
{
    const char *a = string_or(filmed, "text", ""), *b = string_or(fault, "text", "");
    const json_t *lines = json_object_get(kernel, "instructions");
    const json_t *other = json_object_get(fault, "other");
    if (strcmp(string_or(filmed, "kind", ""), string_or(fault, "kind", "")) != 0)
        return false;
    if (exact) // b may end in the number of further faults like it
        return strncmp(a, b, strlen(a)) == 0;
    return strcmp(string_or(kernel, "kernel", ""), string_or(fault, "kernel", "")) == 0 &&
           whole_at(filmed, "ptx_line") == whole_at(fault, "ptx_line") &&
           is_same_line(json_array_get(lines, (size_t)whole_at(filmed, "insn")), fault) &&
           (!other ||
            is_same_line(json_array_get(lines, (size_t)whole_at(filmed, "other")), other));
}

void faults_explain(json_t *faults, json_t *recording, const char *program)
{
    json_t *kernel, *filmed, *fault;
    size_t i, k, n;
    json_array_foreach (json_object_get(recording, "kernels"), i, kernel) {
        film_explain(kernel, program);
        for (int exact = 1; exact >= 0; --exact)
            json_array_foreach (json_object_get(kernel, "faults"), k, filmed)
                json_array_foreach (faults, n, fault)
                    if (!json_object_get(fault, "sentence") &&
                        is_same(kernel, filmed, fault, exact))
                        json_object_set_new(fault, "sentence",
                                            json_string(string_or(filmed, "sentence", "")));
    }
}

// ---- Places -------------------------------------------------------------------------------------

// Whether a file is a header of the system or of a toolkit, which users do not change.
static bool is_foreign(const char *file)
{
    return strstr(file, "/include/") && (strncmp(file, "/usr/include/", 13) == 0 ||
                                         strstr(file, "/cuda") || strstr(file, "/nvidia/"));
}

// Sets the place of a fault to FILE:LINE.
static void set_place(json_t *object, const char *place)
{
    const char *colon = strrchr(place, ':');
    json_object_set_new(object, "file", json_stringn(place, (size_t)(colon - place)));
    json_object_set_new(object, "line", json_integer(atol(colon + 1)));
}

// For an instruction in a header of the toolkit, replaces the place by that of the call in the
// program. A file of the checkout is named from the checkout's root, wherever the program was
// started; replaces its name by one that can be opened.
static void settle_place(json_t *object)
{
    const json_t *callers = json_object_get(object, "callers"), *caller;
    size_t i;
    json_array_foreach (callers, i, caller)
        if (is_foreign(string_or(object, "file", "")))
            set_place(object, json_string_value(caller));
    json_object_del(object, "callers");
    json_object_del(object, "ptx_line");
    const char *file = string_or(object, "file", NULL);
    char *in_root = file ? text("%s/%s", root, file) : NULL;
    if (file && access(file, R_OK) != 0 && access(in_root, R_OK) == 0)
        json_object_set_new(object, "file", json_string(in_root));
    free(in_root);
}

void faults_settle(json_t *faults)
{
    json_t *fault;
    size_t i;
    json_array_foreach (faults, i, fault) {
        settle_place(fault);
        json_object_del(json_object_get(fault, "other"), "callers");
        settle_place(json_object_get(fault, "other"));
    }
}

// ---- Printing -----------------------------------------------------------------------------------

// Prints words with an indentation, in lines of at most 100 columns.
static void print_wrapped(FILE *out, const char *words)
{
    enum { INDENT = 4, WIDTH = 100 };
    int column = 0;
    while (*words) {
        int length = (int)strcspn(words, " ");
        if (column && column + 1 + length > WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        fprintf(out, "%*s%.*s", column ? 1 : INDENT, "", length, words);
        column += (column ? 1 : INDENT) + length;
        words += length + (words[length] == ' ');
    }
    fputc('\n', out);
}

static void print_place(FILE *out, const json_t *object)
{
    long line = whole_at(object, "line");
    if (line)
        fprintf(out, "%s:%ld: ", string_or(object, "file", ""), line);
    else
        fputs("ptxsim: ", out);
}

static const char *coordinates(const json_t *three)
{
    return text("(%d,%d,%d)", (int)json_integer_value(json_array_get(three, 0)),
                (int)json_integer_value(json_array_get(three, 1)),
                (int)json_integer_value(json_array_get(three, 2)));
}

static void print_fault(const json_t *fault, FILE *out)
{
    const json_t *block = json_object_get(fault, "block"),
                 *thread = json_object_get(fault, "thread");
    const json_t *other = json_object_get(fault, "other");
    print_place(out, fault);
    fprintf(out, "error: [%s] %s\n", string_or(fault, "kind", ""), string_or(fault, "what", ""));
    if (*string_or(fault, "sentence", ""))
        print_wrapped(out, string_or(fault, "sentence", ""));
    if (block)
        fprintf(out, "    kernel %s, block %s, thread %s\n", string_or(fault, "kernel", "?"),
                coordinates(block), coordinates(thread));
    if (whole_at(other, "line")) {
        print_place(out, other);
        fprintf(out, "note: the other access, of thread %s%s\n",
                coordinates(json_object_get(other, "thread")),
                json_object_get(other, "block")
                    ? text(" of block %s", coordinates(json_object_get(other, "block")))
                    : "");
    }
}

void faults_print(const json_t *faults, FILE *out)
{
    const json_t *fault;
    size_t i;
    json_array_foreach (faults, i, fault)
        print_fault(fault, out);
}
