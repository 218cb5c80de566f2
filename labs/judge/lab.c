// lab.c: the current lab: its sheet, from build/labs/labNN.json, which is made from the chapter;
// its program and its starter.
#include "judge.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

struct sheet sheet;
struct sheet all_sheets[LABS_MAX];
int sheet_count;
char sheet_hash[SHA256_DIGEST_STRING_LENGTH], lab_hash[SHA256_DIGEST_STRING_LENGTH];

struct source of_the_lab(const struct sheet *s, const char *folder)
{
    char *path = text("%s/%s/%s.%s", root, folder, s->program, s->ending);
    struct source source = source_of(path);

    free(path);
    return source.text ? source : (struct source){text("%s", ""), 0};
}

void hash_sheet(SHA2_CTX *hash, const struct sheet *s)
{
    static const char *const folders[] = {"code", "build/starters"};

    hash_bytes(hash, s->text, strlen(s->text));
    for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) {
        struct source source = of_the_lab(s, folders[i]);
        hash_bytes(hash, source.text, source.bytes);
        free(source.text);
    }
    if (s->model) { // the lab's program judges, too, so its hash is included
        size_t bytes = 0;
        char *program = read_file(text("%s/build/%s", root, s->program), &bytes);
        if (!program)
            fail(EXIT_MACHINE, "there is no build/%s: type make grade", s->program);
        hash_bytes(hash, program, bytes);
        free(program);
    }
}

void lab_read(void)
{
    SHA2_CTX hash;
    const char *path =
        options.lab_file ? options.lab_file : text("%s/build/labs/lab%02d.json", root, options.lab);
    bool missing;
    char *why;
    int sum = 0;

    bool good = sheet_read(&sheet, path, &missing, &why);
    if (missing)
        fail(EXIT_USAGE, "%s: type make tangle, or is there no lab %d?", why, options.lab);
    if (sheet.not_graded)
        fail(EXIT_USAGE, "lab %d is not graded: %s (./lab%d FILE says the points that it can see)",
             sheet.number, sheet.not_graded, sheet.number);
    if (!good)
        fail(EXIT_USAGE, "%s", why);
    if (sheet.number != options.lab || !sheet.title || !sheet.program || sheet.count == 0)
        fail(EXIT_USAGE, "%s: is not lab %d's: lab, title, program or points are missing", path,
             options.lab);
    for (int i = 0; i < sheet.count; ++i)
        sum += sheet.items[i].points;
    if (sum != 100)
        fail(EXIT_USAGE, "%s: the points are %d, not 100", path, sum);
    SHA256Data((const uint8_t *)sheet.text, strlen(sheet.text), sheet_hash);
    SHA256Init(&hash);
    hash_sheet(&hash, &sheet);
    SHA256End(&hash, lab_hash);
}

// Reads the sheets of graded labs whose kernels have aims, without those of labs whose program is a
// search or runs a language model.
void labs_read(void)
{
    char *pattern = text("%s/build/labs/lab[0-9][0-9].json", root);
    glob_t found;
    SHA2_CTX hash;

    if (glob(pattern, 0, NULL, &found))
        fail(EXIT_USAGE, "there is no %s: type make tangle", pattern);
    SHA256Init(&hash);
    for (size_t i = 0; i < found.gl_pathc; ++i) {
        struct sheet *s = &all_sheets[sheet_count];
        bool missing;
        char *why = NULL;
        if (sheet_count == LABS_MAX)
            fail(EXIT_MACHINE, "more than %d labs", LABS_MAX);
        if (!sheet_read(s, found.gl_pathv[i], &missing, &why))
            fail(EXIT_USAGE, "%s", why);
        if (s->not_graded || s->journal || s->model || !has_aims(s))
            continue;
        hash_sheet(&hash, s);
        ++sheet_count;
    }
    globfree(&found);
    free(pattern);
    if (!sheet_count)
        fail(EXIT_USAGE, "no lab has an aim: type make tangle");
    SHA256End(&hash, lab_hash);
    sheet = all_sheets[0];
}
