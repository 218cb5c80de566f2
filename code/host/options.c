// options.c: a program's options, described in a table: their names, their arguments, and the text
// of --help.
#include "host.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 22, HELP_WIDTH = 100 };

static void take(const struct option_row *row, const char *value)
{
    const char *option = text("--%s", row->name);
    if (row->call)
        row->call(option, value);
    else if (row->number)
        *row->number = whole(option, value, row->least, row->most);
    else if (row->word)
        *row->word = value;
    else
        *row->flag = true;
}

int options_read(int argc, char **argv, const struct option_row *rows, bool front)
{
    int count = 0;
    while (rows[count].name)
        ++count;
    struct option *known = need(calloc((size_t)count + 1, sizeof *known));
    for (int i = 0; i < count; ++i)
        known[i] = (struct option){.name = rows[i].name, .has_arg = rows[i].argument != NULL};
    opterr = 0;
    int which;
    for (int c; (c = getopt_long(argc, argv, front ? "+:" : ":", known, &which)) != -1;) {
        if (c == ':')
            fail(EXIT_USAGE, "%s needs a value; --help lists the options", argv[optind - 1]);
        if (c)
            fail(EXIT_USAGE, "%s is no option; --help lists them", argv[optind - 1]);
        take(&rows[which], optarg);
    }
    free(known);
    return optind;
}

void options_help(const struct option_row *rows)
{
    for (; rows->name; ++rows) {
        if (!rows->help)
            continue;
        const char *argument = rows->argument ? rows->argument : "";
        int column = printf("  %-*s", HELP_COLUMN - 3,
                            text("--%s%s%s", rows->name, *argument ? " " : "", argument));
        for (const char *word = rows->help; *word;) {
            int length = (int)strcspn(word, " \n");
            bool new_line = word == rows->help ? column >= HELP_COLUMN : word[-1] == '\n';
            if (new_line || column + 1 + length > HELP_WIDTH)
                column = printf("\n%*s", HELP_COLUMN - 1, "") - 1;
            column += printf(" %.*s", length, word);
            word += length + (word[length] != 0);
        }
        putchar('\n');
    }
}
