// arena.c: memory that is freed all at once, arrays and texts that grow.
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_chunk {
    struct arena_chunk *next;
    max_align_t data[];
};

void *checked_alloc(void *memory)
{
    if (!memory) {
        fprintf(stderr, "ptxsim: out of memory\n");
        abort();
    }
    return memory;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if ((size_t)(arena->end - arena->at) < bytes) {
        size_t size = bytes > 65536 ? bytes : 65536;
        struct arena_chunk *chunk = checked_alloc(calloc(1, sizeof *chunk + size));
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->at = (char *)chunk->data;
        arena->end = arena->at + size;
    }
    void *memory = arena->at;
    arena->at += bytes;
    return memory;
}

char *arena_text(struct arena *arena, const char *text, size_t length)
{
    char *copy = arena_alloc(arena, length + 1);
    memcpy(copy, text, length);
    return copy;
}

void arena_free(struct arena *arena)
{
    for (struct arena_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    *arena = (struct arena){0};
}

void *array_grow(void *array, size_t count, size_t *capacity, size_t element)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity ? 2 * *capacity : 16;
    return checked_alloc(realloc(array, *capacity * element));
}

void text_add(struct text *text, const char *from, size_t size)
{
    if (text->size + size > text->capacity) {
        text->capacity = 2 * (text->size + size);
        text->data = realloc(text->data, text->capacity);
        if (!text->data) {
            fprintf(stderr, "ptxsim: out of memory\n");
            abort();
        }
    }
    memcpy(text->data + text->size, from, size);
    text->size += size;
}

// The length in bytes of the UTF-8 character at `c`; 0 if the bytes there are not valid UTF-8, as
// in a text that is cut or has another encoding.
static int character(const unsigned char *c)
{
    int bytes = *c < 0x80 ? 1 : *c < 0xc2 ? 0 : *c < 0xe0 ? 2 : *c < 0xf0 ? 3 : *c < 0xf5 ? 4 : 0;
    for (int i = 1; i < bytes; ++i)
        if (c[i] >> 6 != 2)
            return 0;
    bool too_long = (*c == 0xe0 && c[1] < 0xa0) || (*c == 0xf0 && c[1] < 0x90);
    bool no_character = (*c == 0xed && c[1] > 0x9f) || (*c == 0xf4 && c[1] > 0x8f);
    return too_long || no_character ? 0 : bytes;
}

void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (int bytes = 1; *text; text += bytes ? bytes : 1) {
        unsigned char c = (unsigned char)*text;
        bytes = character((const unsigned char *)text);
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < ' ')
            fprintf(file, "\\u%04x", c);
        else if (bytes)
            fwrite(text, 1, (size_t)bytes, file);
        else
            fputs("\\ufffd", file);
    }
    fputc('"', file);
}
