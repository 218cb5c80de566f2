// model.h: the file of a language model, its tokens and its weights, for the program that runs one.
//
//   gguf.c        the file: values by keys, and tensors
//   tokens.c      text to tokens and back
//   chat.c        what a model is given to answer: the chat template
//   model.c       a model of the architecture "llama": its numbers, and its weights by what they are for
//   reference.c   the model in double precision on the CPU
//   sample.c      a token drawn by chance, in double precision
//   tiny.c        a small random model
//   lab.c         what lab 23 asks of a program, and whether it answers right
//   ask.c         a program: puts a question to the reference
//   tiny-model.c  a program: writes a small random model, for tests
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
// A file that is not as it should be ends the program with one line on stderr and EXIT_USAGE (code/host/host.h).
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- The file (gguf.c) --------------------------------------------------------------------------

// GGUF, version 3 (ggml, docs/gguf.md), little endian: a header, values by keys, a table of tensors, and their data.
// It is mapped into memory until gguf_close(): the texts, int32s and tensors that are returned point into it.
struct gguf;
struct gguf *gguf_open(const char *path);
void gguf_close(struct gguf *file);
const char *gguf_path(const struct gguf *file);

struct span { // bytes, such as a text, without a NUL after them
    const char *at;
    size_t bytes;
};

// The value of a key: a whole number in [least, most], a real number in [least, most], a text. Each ends the program if
// there is no such value.
int64_t gguf_whole(const struct gguf *file, const char *key, int64_t least, int64_t most);
double gguf_real(const struct gguf *file, const char *key, double least, double most);
struct span gguf_text(const struct gguf *file, const char *key);
// Ends the program unless the value of a key is this text.
void gguf_expect(const struct gguf *file, const char *key, const char *wanted);
// The array of a key, with *count elements: texts, in an array that the caller frees; int32_t, which may be unaligned.
// Each ends the program if there is no such array.
struct span *gguf_texts(const struct gguf *file, const char *key, size_t *count);
const uint8_t *gguf_int32s(const struct gguf *file, const char *key, size_t *count);

// How a tensor's numbers are stored; the constants are ggml's. F32: floats. Q8_0 and Q4_1: blocks of 32 numbers. In
// Q8_0 a number is d * q, with the block's scale d in half and q a signed byte. In Q4_1 a number is d * q + m, with the
// block's d and m in half and q of 4 bits.
enum quantisation { QUANT_F32 = 0, QUANT_Q4_1 = 3, QUANT_Q8_0 = 8 };
// Bytes of a block. Q4_1: d, m, then 16 bytes, byte i with number i in its low half and number 16 + i in its high half.
// Q8_0: d, then the numbers.
enum { QUANT_BLOCK = 32, Q4_1_BYTES = 2 + 2 + QUANT_BLOCK / 2, Q8_0_BYTES = 2 + QUANT_BLOCK };

struct tensor {
    enum quantisation type;
    int rows, columns; // a vector has one row
    const uint8_t *data;
    size_t row_bytes;
};

// The tensor of this name. Ends the program unless it is there with the shape [rows][columns]; a row's columns follow
// one another in memory.
struct tensor gguf_tensor(const struct gguf *file, const char *name, int rows, int columns);
size_t gguf_tensors(const struct gguf *file); // how many tensors the file has

// Dequantises a row to floats.
void tensor_row(const struct tensor *tensor, int row, float *to);
// Whether no number of the tensor is infinite or NaN.
bool tensor_is_finite(const struct tensor *tensor);

// ---- Tokens (tokens.c) --------------------------------------------------------------------------

// Byte-level byte-pair encoding as in GPT-2 (Radford et al. 2019), with the file's tokens and merges, and each digit a
// word of its own ("smollm"). Texts are UTF-8.
struct tokens;
struct tokens *tokens_open(const struct gguf *file);
void tokens_close(struct tokens *tokens);
int tokens_count(const struct tokens *tokens);

// The number of a token by its name in the file, such as "<|im_start|>"; -1: there is none.
int tokens_named(const struct tokens *tokens, const char *name);

// The tokens of a text, *count of them, for the caller to free. Names of special tokens in it are ordinary text. NULL:
// the text is not UTF-8 at byte *count.
int *tokens_of(const struct tokens *tokens, const char *text, size_t bytes, size_t *count);

// The tokens of what is left of a stream, for the caller to free. Ends the program if it cannot be read, or is not
// UTF-8.
int *tokens_of_stream(const struct tokens *tokens, FILE *stream, size_t *count);

// Like tokens_of_stream, for a text whose perplexity is asked for: also ends the program if there are fewer than two
// tokens. Each token is foretold from the tokens before it in its piece; the first of a piece is not foretold.
int *tokens_to_foretell(const struct tokens *tokens, FILE *stream, size_t *count);
enum { PERPLEXITY_PIECE = 512 }; // tokens
#define PERPLEXITY_LINE "%.6g, of %zu tokens foretold\n"

// The bytes of a token; empty for a special one.
struct span token_bytes(const struct tokens *tokens, int token);

// The letters that stand for bytes in names of tokens, in UTF-8, each with a NUL after it.
enum { BYTES = 256 };
void byte_letters(char letters[BYTES][3]);

// ---- Chat (chat.c) ------------------------------------------------------------------------------

// The chat template that chat.c follows; a file with another one is refused.
extern const char CHAT_TEMPLATE[];

struct chat { // numbers of the special tokens
    int start, end;
};
struct chat chat_open(const struct gguf *file, const struct tokens *tokens);

// The tokens by which a question is put to the model, *count of them, for the caller to free. first: the question is
// the first of a talk, and follows the system message; any other follows an answer, which ended with the token `end`.
// NULL: the question is not UTF-8 at byte *count.
int *chat_question(const struct chat *chat, const struct tokens *tokens, bool first,
                   const char *question, size_t *count);

// ---- The model (model.c) ------------------------------------------------------------------------

enum { HEAD_COLUMNS = 64 }; // the columns of a query, a key or a value of one head

struct layer {                    // the weights of a layer, with their shapes [rows][columns]
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
    int layers, width, heads, key_heads, inner, words, context; // words: how many tokens exist
    double rope_base, epsilon; // epsilon: added under the root of each norm
    struct tensor embedding;   // [words][width]; its rows are the weights of the logits, too
    struct tensor output_norm;
    struct layer *layer;
};

// Opens a file as a model. Ends the program unless vectors are floats, matrices Q4_1 or Q8_0, and all numbers finite.
struct model *model_open(const char *path);
void model_close(struct model *model);

// ---- The reference (reference.c) ----------------------------------------------------------------

// Runs a model on one sequence, in double precision and with dequantised weights. It keeps the keys and values of at
// most `room` tokens, either as they are or rounded as chapter 21's cache rounds them.
struct reference;
enum kept { KEPT_EXACT, KEPT_E4M3 };
struct reference *reference_open(const struct model *model, int room, enum kept kept);
void reference_close(struct reference *reference);

// Runs the next `count` tokens of the sequence. logits: [count - from][words], those that follow each of these tokens
// whose index is at least `from`; NULL if `from` is `count`.
void reference_run(struct reference *reference, const int *tokens, int count, int from,
                   double *logits);
// To be called before the first token: queries are then kept as well as keys and values.
void reference_keep_queries(struct reference *reference);
// The query, key or value [64] of the first token in one head of a layer; each next token's is *stride doubles further
// on. Queries and keys are rotated by their positions (RoPE).
enum of_head { OF_QUERIES, OF_KEYS, OF_VALUES };
const double *reference_head(const struct reference *reference, int layer, enum of_head of,
                             int head, int *stride);
// Forgets all tokens but the first `length`.
void reference_cut(struct reference *reference, int length);

// The token with the largest logit; of equals, the first.
int likeliest(const double *logits, int words);

// ---- Chance (sample.c) --------------------------------------------------------------------------

struct sampling {
    double temperature, top_p; // temperature 0: the likeliest token is chosen
    uint32_t seed;
};

// Reads what the user has typed. NULL, or a seed below 0: the user has not given it. Ends the program with one line if
// a number is out of its range, or if top_p or a seed stands without a temperature.
struct sampling sampling_read(const char *temperature, const char *top_p, int seed);

// Philox2x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): 64 random bits of a counter and a key.
uint64_t philox(uint32_t counter, uint32_t key);

// The weights by which a token is drawn: exp((logit - largest) / temperature) for each token of the smallest set of
// likeliest tokens whose probabilities sum up to top_p or more, and 0 for all other tokens. A token that is as likely as
// the least likely one of the set is in it, too.
struct lottery {
    double *weights;  // [words]; for the caller to free
    int words, count; // count: tokens of the set
    double kept;      // sum of the weights
};
struct lottery lottery_of(const double *logits, int words, double temperature, double top_p);
// The token that random bits draw: the weights are laid out one after the other, and `random` / 2^64 of their sum lies
// in this token's part.
int lottery_draw(const struct lottery *lottery, uint64_t random);
// Whether a token may be drawn by these bits, if the sum of the weights before it may be wrong by `slack` times the sum
// of all.
bool lottery_fits(const struct lottery *lottery, uint64_t random, int token, double slack);
// Chooses the token for a position of the text, as temperature, top_p and seed say.
int sampled(const double *logits, int words, const struct sampling *sampling, int place);

// ---- A small model (tiny.c) ---------------------------------------------------------------------

// Writes a random model of two layers. It reads texts of up to `context` tokens; 282 different tokens exist, or `least`
// if that is more.
enum { TINY_WORDS_MOST = 1 << 16 };
void tiny_write(const char *path, int seed, int context, int least);

// ---- The lab (lab.c) ----------------------------------------------------------------------------

// A program that runs a model on a device, with the functions that the lab calls.
struct speaking {
    const char *name, *source_hash, *git_commit;
    // Makes a run of the model, with an empty cache; the result is `of` for next() and draw().
    void *(*open)(const struct model *model);
    // Reads the next `count` tokens of the text, and gives the logits after the last one. answers: whether to read them
    // in the way in which tokens of an answer are read; `count` is then 1.
    void (*next)(void *of, const int *tokens, int count, bool answers, float *logits);
    // Draws `count` tokens, all by the last logits, with the random numbers of positions that follow one another: the
    // first is the second position after the tokens that were read.
    void (*draw)(void *of, const struct sampling *sampling, int *tokens, int count);
};
// Whether the lab runs the program: it then gives --shapes, as to the programs of other chapters.
bool lab_asks(int argc, char **argv);
// Runs the program on small random models, a model for each seed, and compares it with the reference; the shape
// 1x2xNq3p64 says that the model's cache has N tokens. Returns the exit status: 0, or 1 if an output was wrong.
int lab_answer(int argc, char **argv, const struct speaking *program);

#ifdef __cplusplus
}
#endif
#endif
