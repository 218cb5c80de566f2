// regrade.c: --item: grades one item of the sheet again for a class. The other items keep their
// earlier outcome if the submission's text and the secret are unchanged.
#include "judge.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

void check_item(void)
{
    char *known = text("%s", "");

    for (int i = 0; i < sheet.count && options.item; ++i) {
        const char *name = sheet.items[i].name;
        bool by_hand = strcmp(name, "written") == 0;
        if (strcmp(name, options.item) == 0 && !by_hand)
            return;
        known = text("%s%s%s", known, *known && !by_hand ? ", " : "", by_hand ? "" : name);
    }
    if (options.item)
        fail(EXIT_USAGE, "--item: lab %d has no item \"%s\" that is not read by a person: %s",
             sheet.number, options.item, known);
}

// Whether a file is a complete result of this lab with this secret.
static bool is_earlier(const json_t *result)
{
    return json_integer_value(json_object_get(result, "lab")) == sheet.number &&
           json_is_null(json_object_get(result, "refused")) &&
           strcmp(string_or(result, "drawn_from", ""), secret_name()) == 0;
}

// Gives an earlier result to every entry with the same text, unless the entry has a newer one.
static void stand_for(json_t *result, double written, struct entry *entries, int count)
{
    for (int i = 0; i < count; ++i) {
        struct entry *e = &entries[i];
        char hash[SHA256_DIGEST_STRING_LENGTH];
        if (!e->source || (e->earlier && e->earlier_written > written) ||
            strcmp(SHA256Data((const uint8_t *)e->source, e->bytes, hash),
                   string_or(result, "source", "")) != 0)
            continue;
        json_decref(e->earlier);
        e->earlier = json_incref(result);
        e->earlier_written = written;
    }
}

int find_earlier(struct entry *entries, int count)
{
    char *path = text("%s/build/grade/kept", root);
    DIR *folder = opendir(path);
    int without = 0;

    for (struct dirent *e; folder && (e = readdir(folder));) {
        char *file = text("%s/%s", path, e->d_name);
        struct stat about;
        json_t *result = stat(file, &about) ? NULL : json_load_file(file, 0, NULL);
        if (result && is_earlier(result))
            stand_for(result, (double)about.st_mtim.tv_sec + 1e-9 * (double)about.st_mtim.tv_nsec,
                      entries, count);
        json_decref(result);
        free(file);
    }
    if (folder)
        closedir(folder);
    for (int i = 0; i < count; ++i)
        without += !entries[i].earlier;
    free(path);
    return without;
}

const json_t *earlier_item(const json_t *earlier, const char *name, const char *limit)
{
    const json_t *item;
    size_t i;

    json_array_foreach (json_object_get(earlier, "items"), i, item)
        if (strcmp(name, options.item) != 0 && strcmp(string_or(item, "name", ""), name) == 0 &&
            strcmp(string_or(item, "limit", ""), limit) == 0)
            return item;
    return NULL;
}

json_t *joined_cases(const json_t *earlier, const json_t *anew)
{
    json_t *joined = json_array(), *c;
    bool first = strcmp(options.item, "correct") == 0; // the cases of `correct` come first
    size_t i;

    for (int turn = 0; turn < 2; ++turn)
        json_array_foreach (turn == first ? json_object_get(earlier, "cases") : anew, i, c)
            if (turn != first || strcmp(string_or(c, "item", ""), options.item) != 0)
                json_array_append(joined, c);
    return joined;
}
