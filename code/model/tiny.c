// tiny.c: a model of two layers with random weights, in the same format as the real one, for tests and for the lab.
// It has all parts that the real model has: groups of three query heads, matrices in Q4_1, an embedding in Q8_0,
// merges, special tokens, and a byte without a token. Most of their sizes differ, so that exchanged sizes are noticed.
#include "model.h"

#include "host/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 2, HEADS = 6, KEY_HEADS = 2, WIDTH = HEADS * HEAD_COLUMNS, INNER = 512 };
enum {
    KEYS = KEY_HEADS * HEAD_COLUMNS,
    ALIGNED = 32,
    VERSION = 3,
    VECTOR = 0,
    TENSORS = 2 + 9 * LAYERS
};
// Types of values, and of tokens (ggml, docs/gguf.md).
enum {
    UINT32 = 4,
    INT32 = 5,
    FLOAT32 = 6,
    BOOL = 7,
    STRING = 8,
    ARRAY = 9,
    NORMAL = 1,
    CONTROL = 3
};

static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
// The merges make each of these words from its beginning, one letter more at a time.
static const char *const words[] = {" the", " is", "Why", " sky", " blue", "ing",
                                    "er",   " a",  " of", "you",  "ass"};
enum { SPECIALS = sizeof special / sizeof *special, WORDS = sizeof words / sizeof *words };
enum { MISSING = 0x7f, MERGES_MOST = 64 }; // MISSING: the byte without a token

// ---- Bytes --------------------------------------------------------------------------------------

struct bytes {
    char *at;
    size_t count, room;
};

static void put(struct bytes *to, const void *from, size_t count)
{
    if (to->count + count > to->room) {
        to->room = 2 * (to->count + count);
        to->at = need(realloc(to->at, to->room));
    }
    memcpy(to->at + to->count, from, count);
    to->count += count;
}

static void put_number(struct bytes *to, uint64_t value, size_t bytes)
{
    put(to, &value, bytes); // the file and this machine are both little endian
}

static void put_text(struct bytes *to, const char *words_)
{
    put_number(to, strlen(words_), 8);
    put(to, words_, strlen(words_));
}

static void pad(struct bytes *to)
{
    static const char zeros[ALIGNED];
    put(to, zeros, (ALIGNED - to->count % ALIGNED) % ALIGNED);
}

static int values; // how many values were put

static void put_key(struct bytes *to, const char *key, int type)
{
    put_text(to, key);
    put_number(to, (uint64_t)type, 4);
    ++values;
}

static void put_whole(struct bytes *to, const char *key, int value)
{
    put_key(to, key, UINT32);
    put_number(to, (uint64_t)value, 4);
}

static void put_real(struct bytes *to, const char *key, float value)
{
    put_key(to, key, FLOAT32);
    put(to, &value, sizeof value);
}

static void put_string(struct bytes *to, const char *key, const char *value)
{
    put_key(to, key, STRING);
    put_text(to, value);
}

static void put_array(struct bytes *to, const char *key, int of, size_t count)
{
    put_key(to, key, ARRAY);
    put_number(to, (uint64_t)of, 4);
    put_number(to, count, 8);
}

// ---- Tokens -------------------------------------------------------------------------------------

static char *names[TINY_WORDS_MOST], *merges[MERGES_MOST];
static size_t name_count, merge_count;

static void add_merge(const char *first, const char *second)
{
    char *made = text("%s%s", first, second);
    for (size_t i = 0; i < name_count; ++i)
        if (!strcmp(names[i], made))
            return;
    names[name_count++] = made;
    merges[merge_count++] = text("%s %s", first, second);
}

static void make_tokens(int least)
{
    static char letters[BYTES][3];
    byte_letters(letters);
    for (int i = 0; i < SPECIALS; ++i)
        names[name_count++] = text("%s", special[i]);
    for (int b = 0; b < BYTES; ++b)
        if (b != MISSING)
            names[name_count++] = letters[b];
    for (int w = 0; w < WORDS; ++w) {
        char *made = letters[(unsigned char)words[w][0]];
        for (const char *at = words[w] + 1; *at; ++at) {
            add_merge(made, letters[(unsigned char)*at]);
            made = text("%s%s", made, letters[(unsigned char)*at]);
        }
    }
    while (name_count < (size_t)least) {
        names[name_count] = text("unused%zu", name_count);
        ++name_count;
    }
}

static void put_tokens(struct bytes *to)
{
    put_string(to, "tokenizer.ggml.model", "gpt2");
    put_string(to, "tokenizer.ggml.pre", "smollm");
    put_array(to, "tokenizer.ggml.tokens", STRING, name_count);
    for (size_t i = 0; i < name_count; ++i)
        put_text(to, names[i]);
    put_array(to, "tokenizer.ggml.token_type", INT32, name_count);
    for (size_t i = 0; i < name_count; ++i)
        put_number(to, i < SPECIALS ? CONTROL : NORMAL, 4);
    put_array(to, "tokenizer.ggml.merges", STRING, merge_count);
    for (size_t i = 0; i < merge_count; ++i)
        put_text(to, merges[i]);
    put_whole(to, "tokenizer.ggml.bos_token_id", 1);
    put_whole(to, "tokenizer.ggml.eos_token_id", 2);
    put_whole(to, "tokenizer.ggml.unknown_token_id", 0);
    put_string(to, "tokenizer.chat_template", CHAT_TEMPLATE);
}

static void put_numbers(struct bytes *to, int context)
{
    put_string(to, "general.architecture", "llama");
    put_string(to, "general.name", "tiny");
    put_array(to, "general.languages", STRING, 1);
    put_text(to, "en");
    put_whole(to, "llama.block_count", LAYERS);
    put_whole(to, "llama.context_length", (uint64_t)context);
    put_whole(to, "llama.embedding_length", WIDTH);
    put_whole(to, "llama.feed_forward_length", INNER);
    put_whole(to, "llama.attention.head_count", HEADS);
    put_whole(to, "llama.attention.head_count_kv", KEY_HEADS);
    put_real(to, "llama.rope.freq_base", 100000);
    put_real(to, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    put_whole(to, "llama.rope.dimension_count", HEAD_COLUMNS);
    put_key(to, "tokenizer.ggml.add_bos_token", BOOL);
    put_number(to, 0, 1);
}

// ---- Weights ------------------------------------------------------------------------------------

static uint64_t state;

static uint32_t random_word(void) // xorshift64*, Vigna 2014
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)(state * 2685821657736338717 >> 32);
}

static double between(double least, double most)
{
    return least + (most - least) * random_word() / 4294967296.0;
}

static void put_half(struct bytes *to, double value)
{
    const _Float16 half = (_Float16)value;
    put(to, &half, sizeof half);
}

// Appends a block of random numbers with about the standard deviation `size` and a mean near zero; blocks' scales
// differ by a factor of up to three.
static void put_block(struct bytes *to, int type, double size)
{
    // Standard deviations of numbers 0 to 15 and -127 to 127.
    const double q4_deviation = 4.61, q8_deviation = 73.6;
    const double scale = size * between(0.5, 1.5);
    if (type == QUANT_Q8_0) {
        put_half(to, scale / q8_deviation);
        for (int i = 0; i < QUANT_BLOCK; ++i)
            put_number(to, (uint8_t)(random_word() % 255 - 127), 1);
    } else {
        put_half(to, scale / q4_deviation);
        put_half(to, scale * between(-8, -7) / q4_deviation);
        for (int i = 0; i < QUANT_BLOCK / 2; ++i)
            put_number(to, random_word() & 255, 1);
    }
}

static struct bytes table, data;

static void add_tensor(const char *name, int type, int rows, int columns)
{
    put_text(&table, name);
    put_number(&table, rows == VECTOR ? 1 : 2, 4);
    put_number(&table, (uint64_t)columns, 8);
    if (rows != VECTOR)
        put_number(&table, (uint64_t)rows, 8);
    put_number(&table, (uint64_t)type, 4);
    put_number(&table, data.count, 8);
    if (rows == VECTOR)
        // Weights of either sign. With positive weights, the likeliest token after a token would be the same token
        // again, because the vector that gives the logits contains its embedding.
        for (int i = 0; i < columns; ++i) {
            const float weight = (float)(between(0.5, 1.5) * (random_word() % 2 ? 1 : -1));
            put(&data, &weight, sizeof weight);
        }
    else
        for (int i = 0; i < rows * columns / QUANT_BLOCK; ++i)
            put_block(&data, type, type == QUANT_Q8_0 ? 1 : 1 / sqrt(columns));
    pad(&data);
}

static void add_layer(int number)
{
    const struct {
        const char *name;
        int rows, columns;
    } parts[] = {
        {"attn_norm", VECTOR, WIDTH},  {"ffn_down", WIDTH, INNER},  {"ffn_gate", INNER, WIDTH},
        {"ffn_up", INNER, WIDTH},      {"ffn_norm", VECTOR, WIDTH}, {"attn_k", KEYS, WIDTH},
        {"attn_output", WIDTH, WIDTH}, {"attn_q", WIDTH, WIDTH},    {"attn_v", KEYS, WIDTH}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
        add_tensor(text("blk.%d.%s.weight", number, parts[i].name),
                   parts[i].rows == VECTOR ? QUANT_F32 : QUANT_Q4_1, parts[i].rows,
                   parts[i].columns);
}

// Writes a file by way of a temporary one beside it, so that nobody ever sees half of it.
static void write_whole(const struct bytes *from, const char *path)
{
    char *beside = text("%s.%d", path, (int)getpid());
    FILE *file = fopen(beside, "wb");
    if (!file)
        fail(EXIT_USAGE, "%s cannot be written: %m", path);
    const bool written = fwrite(from->at, 1, from->count, file) == from->count;
    if (fclose(file) != 0 || !written || rename(beside, path) != 0) {
        unlink(beside);
        fail(EXIT_MACHINE, "%s cannot be written: %m", path);
    }
}

void tiny_write(const char *path, int seed, int context, int least)
{
    struct bytes file = {0}, said = {0};

    state = 0x9e3779b97f4a7c15 * (uint64_t)seed;
    name_count = merge_count = 0;
    values = 0;
    table.count = data.count = 0;
    make_tokens(least);
    put_numbers(&said, context);
    put_tokens(&said);
    add_tensor("token_embd.weight", QUANT_Q8_0, (int)name_count, WIDTH);
    for (int i = 0; i < LAYERS; ++i)
        add_layer(i);
    add_tensor("output_norm.weight", QUANT_F32, VECTOR, WIDTH);
    put(&file, "GGUF", 4);
    put_number(&file, VERSION, 4);
    put_number(&file, TENSORS, 8);
    put_number(&file, (uint64_t)values, 8);
    put(&file, said.at, said.count);
    put(&file, table.at, table.count);
    pad(&file);
    put(&file, data.at, data.count);
    write_whole(&file, path);
    free(said.at);
    free(file.at);
}
