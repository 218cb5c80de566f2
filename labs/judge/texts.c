// texts.c: makes texts from submissions fit for a report, a spreadsheet, a file, a hash.
#include "judge.h"

#include <stdlib.h>
#include <string.h>

// Bytes of the UTF-8 character at `s`; 0: there is none.
static size_t utf8(const unsigned char *s, size_t left)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (n > 1 && (s[0] < 0xc2 || s[0] > 0xf4 || n > left))
        return 0;
    for (size_t i = 1; i < n; ++i)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

// The code point of the character at `s`, which has n bytes.
static unsigned code_point(const unsigned char *s, size_t n)
{
    unsigned code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; ++i)
        code = code << 6 | (s[i] & 0x3f);
    return code;
}

// Whether a character is one of Unicode's format characters and line separators, which are
// invisible, or change the order, place or looks of others.
static bool is_disguise(unsigned code)
{
    static const unsigned ranges[][2] = {
        {0xad, 0xad},     {0x34f, 0x34f},     {0x600, 0x605},     {0x61c, 0x61c},
        {0x6dd, 0x6dd},   {0x70f, 0x70f},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
        {0x180b, 0x180f}, {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},
        {0x3164, 0x3164}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
        {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

char *cleaned(const char *line, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)line;
    char *clean = need(malloc(4 * bytes + 1)), *at = clean;

    for (size_t i = 0; i < bytes;) {
        size_t n = utf8(s + i, bytes - i);
        bool control = (s[i] < 0x20 && s[i] != '\n') || s[i] == 0x7f ||
                       (n == 2 && s[i] == 0xc2 && s[i + 1] < 0xa0);
        if (n == 0 || control) {
            at += sprintf(at, "\\x%02x", s[i++]);
            continue;
        }
        unsigned code = code_point(s + i, n);
        if (is_disguise(code)) {
            at += sprintf(at, code > 0xffff ? "\\U%08x" : "\\u%04x", code);
        } else {
            memcpy(at, s + i, n);
            at += n;
        }
        i += n;
    }
    *at = '\0';
    return clean;
}

char *clean_name(const char *name)
{
    char *clean = cleaned(name, strlen(name));

    for (char *at; (at = strchr(clean, '\n'));) {
        char *longer = text("%.*s\\n%s", (int)(at - clean), clean, at + 1);
        free(clean);
        clean = longer;
    }
    return clean;
}

// Whether a spreadsheet may take a field for a formula: the first character after blanks decides,
// in ASCII or in full width.
static bool is_formula(const char *field)
{
    static const char *const signs[] = {"=", "+", "-", "@", "＝", "＋", "－", "＠"};

    if (*field == '\t' || *field == '\r')
        return true;
    field += strspn(field, " \t\r\n");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; ++i)
        if (strncmp(field, signs[i], strlen(signs[i])) == 0)
            return true;
    return false;
}

// Writes a field of a CSV file (RFC 4180) in a form that no spreadsheet takes for a formula.
void write_csv(FILE *to, const char *field)
{
    fputc('"', to);
    if (is_formula(field))
        fputc('\'', to);
    for (; *field; ++field) {
        if (*field == '"')
            fputc('"', to);
        fputc(*field, to);
    }
    fputc('"', to);
}

bool write_text(const char *path, const char *words)
{
    char why[4352];
    return file_write(path, words, strlen(words), why, sizeof why);
}

void hash_bytes(SHA2_CTX *hash, const void *bytes, size_t size)
{
    SHA256Update(hash, (const uint8_t *)&size, sizeof size);
    SHA256Update(hash, bytes, size);
}

struct source source_of(const char *path)
{
    struct source source;

    source.text = read_file(path, &source.bytes);
    return source;
}
