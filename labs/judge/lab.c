// lab.c: the lab at hand: its sheet, from build/labs/labNN.json, which the chapter's becomes.
#include "judge.h"

#include <string.h>

struct sheet sheet;
char sheet_hash[SHA256_DIGEST_STRING_LENGTH];

void lab_read(void)
{
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
}
