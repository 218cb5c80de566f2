// model.c: a model of the architecture "llama" whose logits are products with its embedding, and whose heads have 64
// columns.
#include "model.h"

#include "host/host.h"

#include <stdlib.h>

// Limits that no model of this architecture comes near.
enum { LAYERS_MOST = 1024, WIDTH_MOST = 1 << 16, CONTEXT_MOST = 1 << 20 };
enum { TENSORS = 2, TENSORS_OF_LAYER = 9 };

static struct tensor vector(const struct gguf *file, const char *name, int columns)
{
    const struct tensor t = gguf_tensor(file, name, 1, columns);
    if (t.type != QUANT_F32)
        fail(EXIT_USAGE, "%s: \"%s\" is quantised; a vector is read as floats", gguf_path(file),
             name);
    if (!tensor_is_finite(&t))
        fail(EXIT_USAGE, "%s: \"%s\" has a number that is infinite or NaN", gguf_path(file), name);
    return t;
}

static struct tensor matrix(const struct gguf *file, const char *name, int rows, int columns)
{
    const struct tensor t = gguf_tensor(file, name, rows, columns);
    if (t.type == QUANT_F32)
        fail(EXIT_USAGE, "%s: \"%s\" is in floats; a matrix is read in Q4_1 or Q8_0",
             gguf_path(file), name);
    if (!tensor_is_finite(&t))
        fail(EXIT_USAGE, "%s: \"%s\" has a scale that is infinite or NaN", gguf_path(file), name);
    return t;
}

static void read_layer(const struct model *m, int number, struct layer *layer)
{
    const int queries = m->heads * HEAD_COLUMNS, keys = m->key_heads * HEAD_COLUMNS;
    const struct {
        struct tensor *to;
        const char *name;
        int rows, columns; // rows 0: a vector
    } parts[TENSORS_OF_LAYER] = {
        {&layer->attention_norm, "attn_norm", 0, m->width},
        {&layer->query, "attn_q", queries, m->width},
        {&layer->key, "attn_k", keys, m->width},
        {&layer->value, "attn_v", keys, m->width},
        {&layer->output, "attn_output", m->width, queries},
        {&layer->mlp_norm, "ffn_norm", 0, m->width},
        {&layer->gate, "ffn_gate", m->inner, m->width},
        {&layer->up, "ffn_up", m->inner, m->width},
        {&layer->down, "ffn_down", m->width, m->inner},
    };
    for (int i = 0; i < TENSORS_OF_LAYER; ++i) {
        char *name = text("blk.%d.%s.weight", number, parts[i].name);
        *parts[i].to = parts[i].rows ? matrix(m->file, name, parts[i].rows, parts[i].columns)
                                     : vector(m->file, name, parts[i].columns);
        free(name);
    }
}

static void read_numbers(struct model *m)
{
    const struct gguf *file = m->file;
    gguf_expect(file, "general.architecture", "llama");
    m->layers = (int)gguf_whole(file, "llama.block_count", 1, LAYERS_MOST);
    m->width = (int)gguf_whole(file, "llama.embedding_length", HEAD_COLUMNS, WIDTH_MOST);
    m->inner = (int)gguf_whole(file, "llama.feed_forward_length", QUANT_BLOCK, WIDTH_MOST);
    m->heads = (int)gguf_whole(file, "llama.attention.head_count", 1, WIDTH_MOST / HEAD_COLUMNS);
    m->key_heads = (int)gguf_whole(file, "llama.attention.head_count_kv", 1, m->heads);
    m->context = (int)gguf_whole(file, "llama.context_length", 1, CONTEXT_MOST);
    m->rope_base = gguf_real(file, "llama.rope.freq_base", 1, 1e12);
    m->epsilon = gguf_real(file, "llama.attention.layer_norm_rms_epsilon", 1e-12, 1e-2);
    gguf_whole(file, "llama.rope.dimension_count", HEAD_COLUMNS, HEAD_COLUMNS);
    if (m->width != m->heads * HEAD_COLUMNS || m->heads % m->key_heads != 0)
        fail(EXIT_USAGE,
             "%s: width %d, %d heads, %d of keys; read are heads of %d columns in groups of one "
             "size",
             gguf_path(file), m->width, m->heads, m->key_heads, HEAD_COLUMNS);
}

struct model *model_open(const char *path)
{
    struct model *m = need(calloc(1, sizeof *m));

    m->file = gguf_open(path);
    read_numbers(m);
    m->tokens = tokens_open(m->file);
    m->words = tokens_count(m->tokens);
    m->chat = chat_open(m->file, m->tokens);
    m->embedding = matrix(m->file, "token_embd.weight", m->words, m->width);
    m->output_norm = vector(m->file, "output_norm.weight", m->width);
    m->layer = need(calloc((size_t)m->layers, sizeof *m->layer));
    for (int i = 0; i < m->layers; ++i)
        read_layer(m, i, &m->layer[i]);
    // A tensor too many may be a bias, or separate weights for the logits: this program would ignore it.
    const size_t known = TENSORS + (size_t)m->layers * TENSORS_OF_LAYER,
                 there = gguf_tensors(m->file);
    if (there != known)
        fail(EXIT_USAGE, "%s: %zu tensors; a model of %d layers is read with %zu", path, there,
             m->layers, known);
    return m;
}

void model_close(struct model *m)
{
    tokens_close(m->tokens);
    gguf_close(m->file);
    free(m->layer);
    free(m);
}
