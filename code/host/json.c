// json.c: values in JSON by dotted paths, and JSON files.
#include "host.h"

#include "workbench/workbench.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *at(const json_t *json, const char *path)
{
    char key[128];
    while (json && *path) {
        size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        json = json_object_get(json, key);
        path += length + (path[length] == '.');
    }
    return json_is_null(json) ? NULL : (json_t *)json;
}

double number_or(const json_t *json, const char *path, double otherwise)
{
    const json_t *value = at(json, path);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

double number_at(const json_t *json, const char *path)
{
    return number_or(json, path, NAN);
}

const char *string_or(const json_t *json, const char *path, const char *otherwise)
{
    const char *string = json_string_value(at(json, path));
    return string ? string : otherwise;
}

const char *string_at(const json_t *json, const char *path)
{
    return string_or(json, path, "?");
}

void write_json(const json_t *json, const char *path, size_t format, const char *end)
{
    char why[PATH_MAX + 128], *dumped = need(json_dumps(json, format));
    char *words = text("%s%s", dumped, end);
    if (!file_write(path, words, strlen(words), why, sizeof why))
        fail(EXIT_MACHINE, "%s", why);
    free(dumped);
    free(words);
}

void must_be_writable(const char *path)
{
    char why[PATH_MAX + 128];
    if (!file_writable(path, why, sizeof why))
        fail(EXIT_USAGE, "%s", why);
}

char *read_stream(FILE *file, size_t *bytes)
{
    char *content = NULL;
    size_t room = 0, size = 0, n = 1;

    for (; n > 0; size += n) {
        content = need(realloc(content, (room += 1 << 16) + 1));
        n = fread(content + size, 1, room - size, file);
    }
    content[size] = '\0';
    if (bytes)
        *bytes = size;
    if (!ferror(file))
        return content;
    free(content);
    return NULL;
}

char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rbe");
    if (bytes)
        *bytes = 0;
    char *content = file ? read_stream(file, bytes) : NULL;
    if (file)
        fclose(file);
    return content;
}
