// model.h: the file of a language model, its tokens and its weights, for the program that runs one.
//
//   gguf.c        the file: values by keys, and tensors
//   tokens.c      text to tokens and back
//   chat.c        what a model is given to answer: the chat template
//   model.c       a model of the architecture "llama": its numbers, and its weights by what they are for
//   reference.c   the same in double precision on the CPU
//   ask.c         a program: puts a question to the reference
//   tiny-model.c  a program: writes a small random model, for tests
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
// A file that is not as it should be ends the program in one line, EXIT_USAGE (code/host/host.h).
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- The file (gguf.c) --------------------------------------------------------------------------

// GGUF, version 3 (ggml, docs/gguf.md), little endian: a header, values by keys, a table of tensors, and their data.
// It is mapped, and stays where it is: what is handed out points into it.
struct gguf;
struct gguf *gguf_open(const char *path);
void gguf_close(struct gguf *file);
const char *gguf_path(const struct gguf *file);

struct span { // of bytes; a text without a NUL behind it
    const char *at;
    size_t bytes;
};

// The value of a key, which has to be there: a whole number in [least, most], a real one in [least, most], a text.
int64_t gguf_whole(const struct gguf *file, const char *key, int64_t least, int64_t most);
double gguf_real(const struct gguf *file, const char *key, double least, double most);
struct span gguf_text(const struct gguf *file, const char *key);
// A text that has to be this one.
void gguf_expect(const struct gguf *file, const char *key, const char *wanted);
// Arrays: of texts, which are the caller's to free; of int32_t, which lie at any address.
struct span *gguf_texts(const struct gguf *file, const char *key, size_t *count);
const uint8_t *gguf_int32s(const struct gguf *file, const char *key, size_t *count);

// How the numbers of a tensor are written, with ggml's numbers: floats; blocks of 32, each with a scale d in half, as
// d * q, q of 8 bits with a sign; and with an offset m as well, as d * q + m, q of 4 bits.
enum quantisation { QUANT_F32 = 0, QUANT_Q4_1 = 3, QUANT_Q8_0 = 8 };
// Bytes of a block: Q4_1 has d, m, and in byte i numbers i (low) and 16 + i; Q8_0 has d and the numbers.
enum { QUANT_BLOCK = 32, Q4_1_BYTES = 2 + 2 + QUANT_BLOCK / 2, Q8_0_BYTES = 2 + QUANT_BLOCK };

struct tensor {
    enum quantisation type;
    int rows, columns; // a vector is one row
    const uint8_t *data;
    size_t row_bytes;
};

// A tensor that has to be there, with this shape: [rows][columns], columns the ones that follow each other in memory.
struct tensor gguf_tensor(const struct gguf *file, const char *name, int rows, int columns);
size_t gguf_tensors(const struct gguf *file); // how many there are

// Numbers of a row, in float.
void tensor_row(const struct tensor *tensor, int row, float *to);
// Whether no number is infinite or NaN.
bool tensor_is_finite(const struct tensor *tensor);

// ---- Tokens (tokens.c) --------------------------------------------------------------------------

// Byte-level BPE as GPT-2 has it (Radford et al. 2019), of the file's tokens and merges; each digit is a word of its
// own ("smollm"). Texts are UTF-8.
struct tokens;
struct tokens *tokens_open(const struct gguf *file);
void tokens_close(struct tokens *tokens);
int tokens_count(const struct tokens *tokens);

// The number of a token by its name in the file, such as "<|im_start|>"; -1: there is none.
int tokens_named(const struct tokens *tokens, const char *name);

// The tokens of a text, in which no name of a special token has a meaning: new, *count of them. NULL: it is no UTF-8,
// and *count is where.
int *tokens_of(const struct tokens *tokens, const char *text, size_t bytes, size_t *count);

// The bytes of a token; empty for a special one.
struct span token_bytes(const struct tokens *tokens, int token);

// The letter that a byte has in names of tokens, in UTF-8 with a NUL behind.
enum { BYTES = 256 };
void byte_letters(char letters[BYTES][3]);

// ---- Chat (chat.c) ------------------------------------------------------------------------------

// The chat template that is written in C here; a file with another one is refused.
extern const char CHAT_TEMPLATE[];

struct chat { // numbers of the special tokens
    int start, end;
};
struct chat chat_open(const struct gguf *file, const struct tokens *tokens);

// The tokens with which a question is put to the model: new, *count of them. The first question of a talk stands behind
// the words about who the model is; another one behind an answer, which ended with the token `end`. NULL: the text is
// no UTF-8, and *count is where.
int *chat_question(const struct chat *chat, const struct tokens *tokens, bool first,
                   const char *question, size_t *count);

// ---- The model (model.c) ------------------------------------------------------------------------

enum { HEAD_COLUMNS = 64 }; // of a query, a key, a value of one head

struct layer {                    // [rows][columns] of its weights:
    struct tensor attention_norm; // [width]
    struct tensor query, key, value,
        output; // [heads * 64][width], twice [key_heads * 64][width], [width][heads * 64]
    struct tensor mlp_norm;       // [width]
    struct tensor gate, up, down; // twice [inner][width], [width][inner]
};

struct model {
    struct gguf *file;
    struct tokens *tokens;
    struct chat chat;
    int layers, width, heads, key_heads, inner, words, context; // words: tokens that there are
    double rope_base, epsilon;                                  // epsilon: of the norms
    struct tensor embedding; // [words][width]; the logits' weights, too
    struct tensor output_norm;
    struct layer *layer;
};

// Opens a file with all that is needed of it. Vectors are floats, matrices Q4_1 or Q8_0, and all numbers finite.
struct model *model_open(const char *path);
void model_close(struct model *model);

// ---- The reference (reference.c) ----------------------------------------------------------------

// Runs a model in double precision, one sequence, on the dequantised weights, and keeps the keys and values of at most
// `room` tokens: as they are, or rounded as chapter 21's cache rounds them.
struct reference;
enum kept { KEPT_EXACT, KEPT_E4M3 };
struct reference *reference_open(const struct model *model, int room, enum kept kept);
void reference_close(struct reference *reference);

// The next tokens of the sequence. logits: [count - from][words], what comes after each from number `from` on.
void reference_run(struct reference *reference, const int *tokens, int count, int from,
                   double *logits);
// Before the first token: queries are kept as keys and values are.
void reference_keep_queries(struct reference *reference);
// What one head of a layer has of the first token, [64]; that of the next one is *stride numbers on. Queries and keys are
// turned by their places.
enum of_head { OF_QUERIES, OF_KEYS, OF_VALUES };
const double *reference_head(const struct reference *reference, int layer, enum of_head of,
                             int head, int *stride);
// Forgets all tokens but the first `length`.
void reference_cut(struct reference *reference, int length);

// The token with the largest logit; of equals, the first.
int likeliest(const double *logits, int words);

#ifdef __cplusplus
}
#endif
#endif
