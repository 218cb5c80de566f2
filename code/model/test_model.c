// Tests a model's file, its tokens and the reference on the small model that build/tiny-model writes: what is read from
// the file, what the reference computes, and that a damaged file is refused in one line.
#include "model.h"

#include "host/host.h"
#include "workbench/workbench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// Texts of reports are never freed (code/host/host.h).
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

// The small model's tokens: 3 special ones, 255 bytes (all but 0x7f), merges.
enum { FIRST_BYTE = 3, FIRST_MERGE = FIRST_BYTE + 255 };

static char *folder, *tiny_path, *damaged_path;
static char *tiny;
static size_t tiny_bytes;
static struct model *model;

static int set_up(void **state)
{
    (void)state;
    char place[] = "/tmp/model.XXXXXX";
    speaker = "test";
    folder = text("%s", mkdtemp(place));
    tiny_path = text("%s/tiny.gguf", folder);
    damaged_path = text("%s/damaged.gguf", folder);
    // This program is build/tests/code/model/test_model.
    char *tool = text("%s/../../../tiny-model", own_folder());
    char *const command[] = {tool, tiny_path, NULL};
    if (run(command, NULL, 60, true).status != 0)
        return 1;
    tiny = read_file(tiny_path, &tiny_bytes);
    model = model_open(tiny_path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    model_close(model);
    unlink(tiny_path);
    unlink(damaged_path);
    return rmdir(folder);
}

// ---- Tokens -------------------------------------------------------------------------------------

// Asserts that a text has these tokens; -1 ends them.
static void expect_tokens(const char *words, const int *expected)
{
    size_t count, i;
    int *got = tokens_of(model->tokens, words, strlen(words), &count);
    assert_non_null(got);
    for (i = 0; expected[i] >= 0; ++i)
        if (i >= count || got[i] != expected[i])
            fail_msg("\"%s\": token %zu is %d, not %d", words, i, i < count ? got[i] : -1,
                     expected[i]);
    assert_int_equal(count, i);
    free(got);
}
#define EXPECT(words, ...) expect_tokens(words, (const int[]){__VA_ARGS__, -1})

static int of_byte(int byte)
{
    return FIRST_BYTE + byte - (byte > 0x7f);
}

static void known_texts_have_known_tokens(void **state)
{
    (void)state;
    expect_tokens("", (const int[]){-1});
    // Merges in their order: " t", " th", " the", " i", " is", "Wh", "Why", " s", ...
    EXPECT(" the", FIRST_MERGE + 2);
    EXPECT(" this", FIRST_MERGE + 1, of_byte('i'), of_byte('s'));
    EXPECT("the", of_byte('t'), of_byte('h'), of_byte('e'));
    EXPECT("Why is", FIRST_MERGE + 6, FIRST_MERGE + 4);
    // The pair with the lowest rank is joined first: " is" after " t" would leave " ti".
    EXPECT(" tis", FIRST_MERGE, of_byte('i'), of_byte('s'));
    // The pattern's words: each digit is one, and of several spaces the last belongs to the next word.
    EXPECT("12", of_byte('1'), of_byte('2'));
    EXPECT(" 1", of_byte(' '), of_byte('1'));
    EXPECT("  the", of_byte(' '), FIRST_MERGE + 2);
    EXPECT("the is!", of_byte('t'), of_byte('h'), of_byte('e'), FIRST_MERGE + 4, of_byte('!'));
    EXPECT("\n the", of_byte('\n'), FIRST_MERGE + 2);
    EXPECT("\xc3\xa9", of_byte(0xc3), of_byte(0xa9));
    EXPECT("a\x7f", of_byte('a'), 0); // 0x7f has no token: token 0 stands for it
    // Names of special tokens are text like any other.
    EXPECT("<|im_end|>", of_byte('<'), of_byte('|'), of_byte('i'), of_byte('m'), of_byte('_'),
           of_byte('e'), of_byte('n'), of_byte('d'), of_byte('|'), of_byte('>'));
}

// Random texts of letters, digits, marks and spaces; each such character has one to four bytes.
static void texts_come_back_from_their_tokens(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "the",      " sky",    " ",        "  ",           "\n",
        "\t",       "7",       "42",       "'s",           "'re",
        ".",        "?!",      "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80",
        "\xc2\xa0", "\xd9\xa3"};
    uint32_t random = 12345;
    size_t all = 0;
    for (int i = 0; i < 1000; ++i) {
        char words[256] = "";
        for (int left = 1 + i % 30; left; --left) {
            random = random * 1664525 + 1013904223;
            strcat(words, parts[(random >> 16) % (sizeof parts / sizeof *parts)]);
        }
        size_t count, at = 0;
        int *got = tokens_of(model->tokens, words, strlen(words), &count);
        assert_non_null(got);
        for (size_t k = 0; k < count; ++k) {
            const struct span part = token_bytes(model->tokens, got[k]);
            assert_true(at + part.bytes <= strlen(words));
            assert_memory_equal(words + at, part.at, part.bytes);
            at += part.bytes;
        }
        assert_int_equal(at, strlen(words));
        all += count;
        free(got);
    }
    assert_true(all > 10000);
}

static void a_text_that_is_not_utf8_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        size_t bytes, at;
    } cases[] = {{"\xff", 1, 0}, {"the \xc3", 5, 4}, {"ab\xed\xa0\x80", 5, 2}, {"12\x80", 3, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        size_t where = 99;
        assert_null(tokens_of(model->tokens, cases[i].words, cases[i].bytes, &where));
        assert_int_equal(where, cases[i].at);
    }
}

// The text of some tokens, with special tokens written as their names in the file.
static char *spelled(const int *tokens, size_t count)
{
    static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    char *all = text("%s", "");
    for (size_t i = 0; i < count; ++i) {
        const struct span part = token_bytes(model->tokens, tokens[i]);
        all = tokens[i] < FIRST_BYTE ? text("%s%s", all, special[tokens[i]])
                                     : text("%s%.*s", all, (int)part.bytes, part.at);
    }
    return all;
}

static void a_question_is_put_as_the_template_says(void **state)
{
    (void)state;
    size_t count;
    int *got = chat_question(&model->chat, model->tokens, true, "Why is <|im_end|> blue?", &count);
    assert_string_equal(
        spelled(got, count),
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nWhy is <|im_end|> blue?<|im_end|>\n<|im_start|>assistant\n");
    int special = 0;
    for (size_t i = 0; i < count; ++i)
        special += got[i] < FIRST_BYTE;
    assert_int_equal(special, 5); // special tokens of the template: what the user types makes none
    free(got);
    got = chat_question(&model->chat, model->tokens, false, " a", &count);
    assert_string_equal(spelled(got, count),
                        "\n<|im_start|>user\n a<|im_end|>\n<|im_start|>assistant\n");
    // " a" is one token, also after the line feed before it.
    assert_int_equal(got[6], FIRST_MERGE + 17);
    free(got);
    assert_null(chat_question(&model->chat, model->tokens, true, "a\xff", &count));
    assert_int_equal(count, 1);
}

// ---- Numbers ------------------------------------------------------------------------------------

static void blocks_are_read_as_computed_by_hand(void **state)
{
    (void)state;
    float to[2 * QUANT_BLOCK];
    // Q8_0: two blocks. d = 0.5 (0x3800) and -2 (0xc000); q = -128, -1, 0, 127, 5, ..., 5.
    uint8_t q8[2 * Q8_0_BYTES];
    memset(q8, 5, sizeof q8);
    memcpy(q8, "\x00\x38\x80\xff\x00\x7f", 6);
    memcpy(q8 + Q8_0_BYTES, "\x00\xc0\x03", 3);
    const struct tensor eight = {QUANT_Q8_0, 1, 2 * QUANT_BLOCK, q8, sizeof q8};
    tensor_row(&eight, 0, to);
    const float first[] = {-64, -0.5F, 0, 63.5F, 2.5F};
    assert_memory_equal(to, first, sizeof first);
    assert_true(to[31] == 2.5F && to[32] == -6 && to[33] == -10 && to[63] == -10);
    // Q4_1: d = 0.25 (0x3400), m = -2 (0xc000); byte i has number i in its low half and number 16 + i in its high half.
    uint8_t q4[2 * 2 * Q4_1_BYTES] = {0};
    uint8_t *row = q4 + 2 * Q4_1_BYTES; // the second of two rows
    memcpy(row, "\x00\x34\x00\xc0\xf0\x1e", 6);
    memcpy(row + Q4_1_BYTES, "\x00\x3c\x00\x00\x21", 5); // d = 1, m = 0
    const struct tensor four = {QUANT_Q4_1, 2, 2 * QUANT_BLOCK, q4, 2 * Q4_1_BYTES};
    tensor_row(&four, 1, to);
    assert_true(to[0] == -2 && to[16] == 1.75F);    // 0, 15
    assert_true(to[1] == 1.5F && to[17] == -1.75F); // 14, 1
    assert_true(to[2] == -2 && to[31] == -2);
    assert_true(to[32] == 1 && to[48] == 2 && to[33] == 0);
    tensor_row(&four, 0, to);
    assert_true(to[0] == 0 && to[63] == 0);
    // The smallest half, 2^-24, does not become zero.
    memcpy(q8, "\x01\x00\x01", 3);
    tensor_row(&eight, 0, to);
    assert_true(to[0] == ldexpf(1, -24));
}

static void a_number_that_is_not_finite_is_seen_in_each_format(void **state)
{
    (void)state;
    uint8_t q8[2 * Q8_0_BYTES] = {0}, q4[2 * Q4_1_BYTES] = {0};
    float floats[] = {1, 2};
    const struct tensor eight = {QUANT_Q8_0, 2, QUANT_BLOCK, q8, Q8_0_BYTES},
                        four = {QUANT_Q4_1, 2, QUANT_BLOCK, q4, Q4_1_BYTES},
                        single = {QUANT_F32, 1, 2, (const uint8_t *)floats, sizeof floats};
    // Every bit pattern of a quantised number is finite, but not every bit pattern of a scale.
    memset(q8 + 2, 0xff, QUANT_BLOCK);
    memset(q4 + 4, 0xff, QUANT_BLOCK / 2);
    assert_true(tensor_is_finite(&eight) && tensor_is_finite(&four) && tensor_is_finite(&single));
    q8[Q8_0_BYTES + 1] = 0x7c; // infinite: the scale of the second block
    assert_false(tensor_is_finite(&eight));
    q4[Q4_1_BYTES + 3] = 0xfe; // NaN: the offset m of the second block
    assert_false(tensor_is_finite(&four));
    floats[1] = -INFINITY;
    assert_false(tensor_is_finite(&single));
}

static void the_small_model_is_what_was_written(void **state)
{
    (void)state;
    assert_int_equal(model->layers, 2);
    assert_int_equal(model->width, 384);
    assert_int_equal(model->heads, 6);
    assert_int_equal(model->key_heads, 2);
    assert_int_equal(model->inner, 512);
    assert_int_equal(model->words, tokens_count(model->tokens));
    assert_int_equal(model->chat.end, 2);
    assert_int_equal(model->embedding.type, QUANT_Q8_0);
    assert_int_equal(model->layer[1].down.type, QUANT_Q4_1);
    // A row of random weights has about the norm that it was made with: that of 384 numbers of size 1, or of 512
    // numbers of size 1 / sqrt(512).
    float row[512];
    double embedding = 0, down = 0;
    tensor_row(&model->embedding, 7, row);
    for (int i = 0; i < 384; ++i)
        embedding += row[i] * row[i] / 384;
    tensor_row(&model->layer[1].down, 383, row);
    for (int i = 0; i < 512; ++i)
        down += row[i] * row[i];
    assert_true(embedding > 0.7 && embedding < 1.5);
    assert_true(down > 0.7 && down < 1.5);
}

// ---- The reference ------------------------------------------------------------------------------

enum { EIGHT = 8 };
static const int eight[EIGHT] = {1, 42, 7, 260, 100, 42, 42, 280};

// The logits after each of eight tokens, which are run in pieces of `piece` tokens.
static double *logits_of_eight(int piece, enum kept kept)
{
    double *logits = need(malloc(EIGHT * (size_t)model->words * sizeof *logits));
    struct reference *r = reference_open(model, EIGHT, kept);
    for (int i = 0; i < EIGHT; i += piece)
        reference_run(r, eight + i, piece, 0, logits + (size_t)i * (size_t)model->words);
    reference_close(r);
    return logits;
}

// Compares the logits with those that code/model/compare.py computed with numpy; its weights were dequantised by
// another reader of GGUF.
static void logits_are_those_of_another_program(void **state)
{
    (void)state;
    static const struct {
        int likeliest;
        double logits[4], most; // logits of tokens 0, 1, 100 and the last; the largest logit
    } expected[EIGHT] = {
        {106, {0.864087, -26.111519, 13.931191, 9.223378}, 54.944654},
        {193, {0.720065, 27.865191, 40.945026, -2.199534}, 76.641660},
        {100, {-8.761170, 4.586642, 58.252052, 3.751731}, 58.252052},
        {170, {-10.478891, -3.960970, -16.417827, 3.374381}, 50.214574},
        {82, {-26.965624, -18.506965, 24.078771, 20.452624}, 63.032579},
        {193, {-27.672924, 29.099053, 22.453963, 23.929780}, 67.701920},
        {193, {-21.162423, 25.751140, 29.154313, 15.169823}, 71.617098},
        {78, {-21.923594, -28.512628, 21.123214, 26.869245}, 48.868353},
    };
    double *logits = logits_of_eight(EIGHT, KEPT_EXACT);
    for (int i = 0; i < EIGHT; ++i) {
        const double *at = logits + i * model->words;
        const int tokens[4] = {0, 1, 100, model->words - 1};
        assert_int_equal(likeliest(at, model->words), expected[i].likeliest);
        assert_true(fabs(at[expected[i].likeliest] - expected[i].most) < 2e-6);
        for (int k = 0; k < 4; ++k)
            assert_true(fabs(at[tokens[k]] - expected[i].logits[k]) < 2e-6);
    }
    free(logits);
}

// Compares the logits with those that compare.py's model computed when numpy and ml_dtypes rounded its keys and values
// to half and then to E4M3, which compare.py itself does not do.
static void a_rounded_cache_is_that_of_another_program(void **state)
{
    (void)state;
    static const double expected[4] = {-21.977086, -28.315233, 20.436842, 27.368391};
    double *logits = logits_of_eight(EIGHT, KEPT_E4M3), *pieces = logits_of_eight(1, KEPT_E4M3);
    const double *at = logits + 7 * model->words;
    const int tokens[4] = {0, 1, 100, model->words - 1};
    assert_int_equal(likeliest(at, model->words), 78);
    assert_true(fabs(at[78] - 49.273866) < 2e-6);
    for (int k = 0; k < 4; ++k)
        assert_true(fabs(at[tokens[k]] - expected[k]) < 2e-6);
    assert_memory_equal(logits, pieces, EIGHT * (size_t)model->words * sizeof *logits);
    free(logits);
    free(pieces);
}

static void keys_and_values_are_kept(void **state)
{
    (void)state;
    double *whole = logits_of_eight(EIGHT, KEPT_EXACT), *halves = logits_of_eight(4, KEPT_EXACT),
           *single = logits_of_eight(1, KEPT_EXACT);
    const size_t bytes = EIGHT * (size_t)model->words * sizeof *whole;
    // However the tokens are cut into pieces, the same sums are made in the same order.
    assert_memory_equal(whole, halves, bytes);
    assert_memory_equal(whole, single, bytes);
    // Tokens that were cut off have no effect any more; `from` leaves out the logits of earlier tokens.
    struct reference *r = reference_open(model, EIGHT, KEPT_EXACT);
    const int others[] = {5, 6, 8};
    reference_run(r, eight, 5, 5, NULL);
    reference_run(r, others, 3, 3, NULL);
    reference_cut(r, 5);
    reference_run(r, eight + 5, 3, 2, single);
    assert_memory_equal(single, whole + 7 * model->words, (size_t)model->words * sizeof *whole);
    reference_close(r);
    free(whole);
    free(halves);
    free(single);
}

static void of_equal_logits_the_first_is_the_likeliest(void **state)
{
    (void)state;
    assert_int_equal(likeliest((const double[]){-2, -1, -1, -3}, 4), 1);
    assert_int_equal(likeliest((const double[]){-INFINITY, -1e300}, 2), 1);
    assert_int_equal(likeliest((const double[]){7}, 1), 0);
}

// Runs build/ask with up to three arguments.
static struct output asked(const char *first, const char *second, const char *third)
{
    char *tool = text("%s/../../../ask", own_folder());
    return run((char *const[]){tool, tiny_path, (char *)(uintptr_t)first, (char *)(uintptr_t)second,
                               (char *)(uintptr_t)third, NULL},
               NULL, 60, false);
}

// The known answers of Random123, the library of the generator's authors (kat_vectors).
static void random_bits_are_the_generators_known_ones(void **state)
{
    (void)state;
    assert_int_equal(philox(0, 0), UINT64_C(0x6cd10df2ff1dae59));
}

// Tests four tokens whose probabilities are a half, a quarter and two eighths, with top_p at sums of these and just
// above.
static void a_set_reaches_its_probability_and_has_equals_whole(void **state)
{
    (void)state;
    enum { FOUR = 4 };
    const double logits[FOUR] = {log(1), log(4), log(2), log(1)};
    const struct {
        double top_p;
        int count;
    } cases[] = {{0.01, 1}, {0.5, 1}, {0.501, 2}, {0.75, 2}, {0.751, 4}, {0.99, 4}, {1, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        struct lottery l = lottery_of(logits, FOUR, 1, cases[i].top_p);
        assert_int_equal(l.count, cases[i].count);
        for (int token = 0; token < FOUR; ++token)
            assert_int_equal(l.weights[token] > 0, cases[i].count == FOUR || token == 1 ||
                                                       (token == 2 && cases[i].count == 2));
        free(l.weights);
    }
    // At temperature 100 the weights are nearly equal.
    struct lottery flat = lottery_of(logits, FOUR, 100, 1);
    assert_true(fabs(flat.weights[0] / flat.kept - 0.25) < 0.01);
    free(flat.weights);
}

// The same four tokens as before. In the order of their numbers they have these eighths of the sum: 0; 1 to 4; 5, 6; 7.
static void random_bits_draw_each_token_for_its_part(void **state)
{
    (void)state;
    enum { FOUR = 4, EIGHTHS = 8 };
    const double logits[FOUR] = {log(1), log(4), log(2), log(1)};
    const int drawn[EIGHTHS] = {0, 1, 1, 1, 1, 2, 2, 3};
    struct lottery l = lottery_of(logits, FOUR, 1, 1);
    for (int i = 0; i < EIGHTHS; ++i) {
        const uint64_t random = (uint64_t)i << 61 | UINT64_C(1) << 60; // the middle of an eighth
        assert_int_equal(lottery_draw(&l, random), drawn[i]);
        for (int token = 0; token < FOUR; ++token)
            assert_int_equal(lottery_fits(&l, random, token, 1e-6), token == drawn[i]);
    }
    // At the border between the parts of tokens 0 and 1, either fits.
    assert_true(lottery_fits(&l, UINT64_C(1) << 61, 0, 1e-6));
    assert_true(lottery_fits(&l, UINT64_C(1) << 61, 1, 1e-6));
    free(l.weights);
    const struct sampling greedy = {0, 1, 0}, cold = {0.01, 1, 7};
    assert_int_equal(sampled(logits, FOUR, &greedy, 3), 1);
    assert_int_equal(sampled(logits, FOUR, &cold, 3), 1);
}

static void the_program_answers(void **state)
{
    (void)state;
    struct output ended = asked("the", "--most", "3");
    assert_int_equal(ended.status, 0);
    assert_string_equal(ended.err, "");
    // The functions of model.h generate the same three tokens.
    size_t count, length = 0;
    char answer[64];
    int *tokens = chat_question(&model->chat, model->tokens, true, "the", &count);
    double *logits = need(malloc((size_t)model->words * sizeof *logits));
    struct reference *r = reference_open(model, (int)count + 3, KEPT_EXACT);
    reference_run(r, tokens, (int)count, (int)count - 1, logits);
    for (int i = 0; i < 3; ++i) {
        const int token = likeliest(logits, model->words);
        const struct span bytes = token_bytes(model->tokens, token);
        memcpy(answer + length, bytes.at, bytes.bytes);
        length += bytes.bytes;
        reference_run(r, &token, 1, 0, logits);
    }
    assert_true(length > 0);
    answer[length++] = '\n';
    assert_memory_equal(ended.out, answer, length);
    assert_int_equal(strlen(ended.out), length);
    reference_close(r);
    // An answer ends at the end of the context.
    ended = asked("the", NULL, NULL);
    assert_int_equal(ended.status, 0);
    assert_int_equal(strlen(ended.out) > 10, true);
    // The logits that follow the eight tokens.
    ended = asked("--logits", "1 42 7 260 100 42 42 280", NULL);
    assert_int_equal(ended.status, 0);
    double *all = logits_of_eight(EIGHT, KEPT_EXACT);
    char *line = strtok(ended.out, "\n");
    for (int i = 0; i < model->words; ++i, line = strtok(NULL, "\n")) {
        assert_non_null(line);
        assert_true(fabs(atof(line) - all[7 * model->words + i]) < 1e-6);
    }
    assert_null(line);
}

// What build/ask prints with an option, for a text on its standard input; *status receives its exit status.
static char *said_of(const char *input, const char *option, int *status)
{
    FILE *pipe = popen(text("printf '%s' | \"%s/../../../ask\" \"%s\" %s 2>&1", input, own_folder(),
                            tiny_path, option),
                       "r");
    assert_non_null(pipe);
    char *all = read_stream(pipe, NULL);
    *status = WEXITSTATUS(pclose(pipe));
    return all;
}

static void the_program_prints_tokens(void **state)
{
    (void)state;
    int status;
    assert_string_equal(said_of(" the is\\n\\n12", "--tokens", &status), "260 262\n\n52 53\n");
    assert_int_equal(status, 0);
    assert_string_equal(said_of("a\\nb\\377\\n", "--tokens", &status),
                        "100\nask: line 2 of the input is no UTF-8 at byte 1\n");
    assert_int_equal(status, 2);
}

// Checks layer 0's queries of a token at position 0. There RoPE rotates nothing: they are the weights times the
// normalised embedding.
static void check_queries_of_the_first(int token, const double *head, int number)
{
    float x[1024], weight[1024], row[1024];
    double squares = 0;
    assert_true(model->width <= 1024);
    tensor_row(&model->embedding, token, x);
    tensor_row(&model->layer[0].attention_norm, 0, weight);
    for (int c = 0; c < model->width; ++c)
        squares += (double)x[c] * x[c];
    for (int d = 0; d < HEAD_COLUMNS; ++d) {
        double sum = 0;
        tensor_row(&model->layer[0].query, number * HEAD_COLUMNS + d, row);
        for (int c = 0; c < model->width; ++c)
            sum += (double)row[c] * x[c] * weight[c];
        sum /= sqrt(squares / model->width + model->epsilon);
        assert_true(fabs(head[d] - sum) < 1e-9);
    }
}

static void the_program_writes_queries_keys_and_values(void **state)
{
    (void)state;
    const int two[] = {260, 262};
    const char *layers = text("%s/layers", folder);
    int status;
    assert_string_equal(said_of(" the is", text("--tensors \"%s\"", layers), &status), "");
    assert_int_equal(status, 0);
    struct reference *r = reference_open(model, 2, KEPT_EXACT);
    reference_keep_queries(r);
    reference_run(r, two, 2, 2, NULL);
    for (int l = 0; l < model->layers; ++l) {
        const char *path = text("%s/%d.half", layers, l);
        FILE *file = fopen(path, "rb");
        int heads, key_heads, tokens, columns;
        assert_non_null(file);
        assert_int_equal(fscanf(file, "tensors %d %d %d %d", &heads, &key_heads, &tokens, &columns),
                         4);
        assert_int_equal(fgetc(file), '\n');
        assert_int_equal(heads, model->heads);
        assert_int_equal(key_heads, model->key_heads);
        assert_int_equal(tokens, 2);
        assert_int_equal(columns, HEAD_COLUMNS);
        for (enum of_head of = OF_QUERIES; of <= OF_VALUES; ++of)
            for (int h = 0; h < (of == OF_QUERIES ? heads : key_heads); ++h) {
                int stride;
                const double *x = reference_head(r, l, of, h, &stride);
                if (l == 0 && of == OF_QUERIES)
                    check_queries_of_the_first(two[0], x, h);
                for (int t = 0; t < 2; ++t)
                    for (int d = 0; d < HEAD_COLUMNS; ++d) {
                        uint16_t half;
                        assert_int_equal(fread(&half, sizeof half, 1, file), 1);
                        assert_int_equal(half, half_from_float((float)x[t * stride + d]));
                    }
            }
        assert_int_equal(fgetc(file), EOF);
        fclose(file);
        unlink(path);
    }
    reference_close(r);
    assert_string_equal(said_of("", text("--tensors \"%s\"", layers), &status),
                        "ask: the text has 0 tokens; the model reads 1 to 160\n");
    assert_int_equal(status, 2);
    rmdir(layers);
    assert_string_equal(said_of("a", "--tensors /dev/null/x", &status),
                        "ask: cannot make /dev/null/x: Not a directory\n");
    assert_int_equal(status, 3);
}

// The sum of -log p over the tokens [from + 1, to); together with the token `from` they are one piece of --perplexity.
static double surprise_of(const int *tokens, int from, int to)
{
    const size_t words = (size_t)model->words;
    double *logits = need(malloc((size_t)(to - from) * words * sizeof *logits)), all = 0;
    struct reference *r = reference_open(model, to - from, KEPT_EXACT);
    reference_run(r, tokens + from, to - from, 0, logits);
    for (int i = from; i + 1 < to; ++i) {
        const double *at = logits + (size_t)(i - from) * words;
        double sum = 0;
        for (size_t k = 0; k < words; ++k)
            sum += exp(at[k] - at[tokens[i + 1]]); // after the loop: 1 / p of the next token
        all += log(sum);
    }
    reference_close(r);
    free(logits);
    return all;
}

static void the_program_tells_perplexity_in_pieces_of_the_context(void **state)
{
    (void)state;
    char words[700] = "";
    for (int i = 0; i < 40; ++i) // each of the two texts has five tokens or six
        strcat(words, i % 3 ? " the xyz" : "Why is 12!");
    size_t count;
    int status, *tokens = tokens_of(model->tokens, words, strlen(words), &count);
    assert_true(count > 160 && count < 320); // two pieces of --perplexity
    const double mean =
        (surprise_of(tokens, 0, 160) + surprise_of(tokens, 160, (int)count)) / (double)(count - 2);
    char *said = said_of(words, "--perplexity", &status);
    assert_int_equal(status, 0);
    assert_string_equal(said, text("%.6g, of %zu tokens foretold\n", exp(mean), count - 2));
    // A token after a whole piece is a piece of its own, and adds nothing to the perplexity.
    words[0] = '\0';
    for (int i = 0; i < 161; ++i)
        strcat(words, "1");
    said = said_of(words, "--perplexity", &status);
    assert_non_null(strstr(said, ", of 159 tokens foretold\n"));
    assert_string_equal(said_of(" the", "--perplexity", &status),
                        "ask: the text has 1 tokens; a second one is the first to be foretold\n");
    assert_int_equal(status, 2);
    assert_string_equal(said_of("a\\377", "--perplexity", &status),
                        "ask: the text is no UTF-8 at byte 1\n");
    assert_string_equal(said_of("ab", "--perplexity --cache e5m2", &status),
                        "ask: --cache: \"e5m2\" is neither exact nor e4m3\n");
    assert_int_equal(status, 2);
}

static void the_program_says_what_it_cannot_do(void **state)
{
    (void)state;
    static const char usage[] =
        "ask: usage: ask FILE QUESTION [--most N] [--numbers] | FILE --tokens | --perplexity | "
        "--logits TOKENS | --drawn PLACE | --tensors FOLDER; --cache exact|e4m3, --temperature T, "
        "--top-p P, --seed S\n";
    char *long_question = need(calloc(1, 201));
    memset(long_question, 'x', 200);
    const struct {
        const char *options[3], *said;
    } cases[] = {
        {{"a\xff"}, "ask: the question is no UTF-8 at byte 1\n"},
        {{long_question},
         "ask: the question has 286 tokens with the template; the model reads 160\n"},
        {{"--logits", "1 282"}, "ask: a token: \"282\" is no whole number from 0 to 281\n"},
        {{"--logits", " "}, "ask: 0 tokens; the model reads 1 to 160\n"},
        {{"--logits", "1", "--tokens"}, usage},
        {{NULL}, usage},
        {{"a", "--temperature", "0.001"},
         "ask: --temperature, if it is not 0: \"0.001\" is no number from 0.01 to 100\n"},
        {{"a", "--temperature", "nan"},
         "ask: --temperature, if it is not 0: \"nan\" is no number from 0.01 to 100\n"},
        {{"a", "--top-p", "0.5"},
         "ask: --top-p and --seed want a --temperature: without one the likeliest token is "
         "chosen\n"},
        {{"--drawn", "1"}, "ask: --drawn wants a --temperature\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const struct output ended =
            asked(cases[i].options[0], cases[i].options[1], cases[i].options[2]);
        assert_int_equal(ended.status, 2);
        assert_string_equal(ended.err, cases[i].said);
        assert_string_equal(ended.out, "");
    }
}

// ---- Damage -------------------------------------------------------------------------------------

// fail() is linked as __wrap_fail (mk/tests.mk): when a test awaits a failure, it returns to the test and does not end
// the program. Otherwise each damaged file would need a process of its own, which is slow with sanitizers.
static bool awaited;
static jmp_buf back;
static int fail_status;
static char said[4096];

void __real_fail(int status, const char *format, ...) __attribute__((noreturn));
void __wrap_fail(int status, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
void __wrap_fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    if (!awaited)
        __real_fail(status, "%s", said);
    fail_status = status;
    longjmp(back, 1);
}

// Opens a file as a model. Returns 0, or the status with which the program would have ended; said[] is then its
// message.
static int opened(const char *path)
{
    awaited = true;
    fail_status = 0;
    if (setjmp(back) == 0)
        model_close(model_open(path));
    awaited = false;
    return fail_status;
}

static void write_damaged(const char *bytes, size_t count)
{
    FILE *file = fopen(damaged_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

// Whether the damaged file is refused in one line that has these words and the file's name. If not, prints what
// happened.
static bool refused(const char *what, const char *words)
{
    const int status = opened(damaged_path);
    const bool right = status == EXIT_USAGE && !strchr(said, '\n') && strstr(said, words) &&
                       strstr(said, damaged_path);
    if (!right)
        print_error("%s: status %d, and not one line with \"%s\" and the file's name: %s\n", what,
                    status, words, said);
    return right;
}

// The offset in the file that is `skip` bytes after the end of the first occurrence of a text.
static size_t place_of(const char *of, size_t skip)
{
    const char *at = memmem(tiny, tiny_bytes, of, strlen(of));
    if (!at)
        fail_msg("no \"%s\" in the small model", of);
    return (size_t)(at - tiny) + strlen(of) + skip;
}

#define BYTES_OF(bytes) bytes, sizeof(bytes) - 1
// A damage: bytes that are written `skip` bytes after the end of a text, and words that the message must have then.
static const struct {
    const char *behind;
    size_t skip;
    const char *bytes;
    size_t count;
    const char *words;
} damages[] = {
    {"", 0, BYTES_OF("GGUX"), "no GGUF: it does not begin"},
    {"GGUF", 0, BYTES_OF("\2\0\0\0"), "GGUF of version 2; 3 is read"},
    {"GGUF", 0, BYTES_OF("\0\0\0\3"), "GGUF of version 50331648"}, // a version number in big endian
    {"GGUF", 4, BYTES_OF("\xff\xff\xff\xff\xff\xff\xff\xff"), "the number of tensors"},
    {"GGUF", 4, BYTES_OF("\x15\0"), "tensor 21 of 21"},
    // One tensor too few: data begin too early.
    {"GGUF", 4, BYTES_OF("\x13\0"), "\"token_embd.weight\""},
    {"GGUF", 12, BYTES_OF("\xff\xff\xff\xff"), "the number of values"},
    {"GGUF", 12, BYTES_OF("\x17\0\0\0"), "tensor 1 of 20"}, // a tensor's name is read as a value's
    {"GGUF", 12, BYTES_OF("\0\0\0\0"), "tensor 1 of 20"},
    {"GGUF", 20, BYTES_OF("\xff\xff\xff\xff\xff\xff\xff\xff"),
     "value 1 of 22: 18446744073709551615 bytes are wanted"},
    {"GGUF", 20, BYTES_OF("\0"), "a name of 0 bytes"},
    {"general.architectur", 0, BYTES_OF("\n"), "other than visible ASCII"},
    {"general.architecture", 0, BYTES_OF("\15"), "a value of type 13"},
    {"general.architecture", 4, BYTES_OF("\xff\xff\xff\xff\xff"), "bytes are wanted"},
    {"general.architecture", 12, BYTES_OF("mamba"),
     "\"general.architecture\" is \"mamba\"; only \"llama\""},
    {"general.languages", 4, BYTES_OF("\11"), "an array of arrays"},
    {"general.languages", 8, BYTES_OF("\0\0\0\0\0\0\0\1"), "bytes are wanted"},
    {"llama.block_coun", 0, BYTES_OF("T"), "no \"llama.block_count\" in it"},
    {"llama.block_count", 0, BYTES_OF("\6"),
     "\"llama.block_count\" is no whole number from 1 to 1024"},
    {"llama.block_count", 4, BYTES_OF("\0"),
     "\"llama.block_count\" is no whole number from 1 to 1024"},
    {"llama.block_count", 4, BYTES_OF("\1"), "20 tensors; a model of 1 layers is read with 11"},
    {"llama.block_count", 4, BYTES_OF("\3"), "no tensor \"blk.2.attn_norm.weight\""},
    {"llama.embedding_length", 4, BYTES_OF("\x40\0"), "width 64, 6 heads, 2 of keys"},
    {"llama.embedding_length", 4, BYTES_OF("\x81\1"), "width 385"},
    {"llama.feed_forward_length", 4, BYTES_OF("\0\4"),
     "\"blk.0.ffn_gate.weight\" is [512][384], not [1024][384]"},
    {"llama.attention.head_count", 4, BYTES_OF("\3\0"), "width 384, 3 heads"},
    {"llama.attention.head_count_kv", 4, BYTES_OF("\4"), "width 384, 6 heads, 4 of keys"},
    {"llama.attention.head_count_kv", 4, BYTES_OF("\7"), "is no whole number from 1 to 6"},
    {"llama.attention.head_count_kv", 4, BYTES_OF("\3"),
     "\"blk.0.attn_k.weight\" is [128][384], not [192][384]"},
    {"llama.context_length", 4, BYTES_OF("\xff\xff\xff\xff"),
     "is no whole number from 1 to 1048576"},
    {"llama.rope.freq_base", 4, BYTES_OF("\0\0\xc0\x7f"),
     "\"llama.rope.freq_base\" is no number from 1 to 1e+12"},
    {"llama.attention.layer_norm_rms_epsilon", 4, BYTES_OF("\0\0\0\0"), "is no number from 1e-12"},
    {"llama.rope.dimension_count", 4, BYTES_OF("\x20"), "is no whole number from 64 to 64"},
    {"tokenizer.ggml.model", 12, BYTES_OF("bert"),
     "\"tokenizer.ggml.model\" is \"bert\"; only \"gpt2\" is read"},
    {"tokenizer.ggml.pre", 12, BYTES_OF("qwen22"),
     "\"tokenizer.ggml.pre\" is \"qwen22\"; only \"smollm\""},
    {"tokenizer.ggml.tokens", 0, BYTES_OF("\10"), "bytes are wanted"}, // an array becomes a text
    {"tokenizer.ggml.tokens", 8, BYTES_OF("\1\0"), "value 18 of 22"},
    {"tokenizer.ggml.token_type", 4, BYTES_OF("\4"),
     "\"tokenizer.ggml.token_type\" is no array of int32"},
    {"tokenizer.ggml.unknown_token_id", 4, BYTES_OF("\0\0\0\1"),
     "\"tokenizer.ggml.unknown_token_id\" is no whole"},
    {"tokenizer.ggml.eos_token_id", 4, BYTES_OF("\1"), "answers do not end with \"<|im_end|>\""},
    {"<|im_end|", 0, BYTES_OF("X"), "no special token \"<|im_end|>\""},
    {"<|im_", 0, BYTES_OF("START"), "no special token \"<|im_start|>\""},
    {"tokenizer.ggml.merges", 0, BYTES_OF("\11\0\0\0\5"), "value 19 of 22"},
    {"\xc4\xa0 ", 0, BYTES_OF("q"), "merge 0 makes no token"},
    {"tokenizer.chat_template", 12, BYTES_OF("{%  "), "its chat template is not SmolLM2's"},
    {"token_embd.weight", 0, BYTES_OF("\5"), "5 dimensions; 1 to 4 are read"},
    {"token_embd.weight", 0, BYTES_OF("\0"), "0 dimensions"},
    {"token_embd.weight", 4, BYTES_OF("\0\0"), "a tensor with no column"},
    {"token_embd.weight", 4, BYTES_OF("\x81"),
     "\"token_embd.weight\" has rows of 385 numbers of type 8"},
    {"token_embd.weight", 12, BYTES_OF("\0\0\0\0\0\0\0\1"),
     "a tensor with no row, or with more than 2^31"},
    {"token_embd.weight", 12, BYTES_OF("\xff\xff\xff\x7f"), "bytes are wanted"},
    {"token_embd.weight", 20, BYTES_OF("\2"), "of type 2; read are F32 (0)"},
    {"token_embd.weight", 20, BYTES_OF("\3"), "the data of \"blk.0.attn_norm.weight\""},
    {"token_embd.weight", 24, BYTES_OF("\x20"), "they begin at 32 of all data, not at 0"},
    {"blk.0.attn_norm.weight", 16, BYTES_OF("\0\0\0\0"),
     "they begin at 0 of all data"}, // two tensors at one place
    {"blk.1.attn_", 0, BYTES_OF("k"), "no tensor"},
    {"blk.", 0, BYTES_OF("1"), "a tensor of this name is there already"},
};

static void damage_is_told_in_one_line(void **state)
{
    (void)state;
    char *copy = need(malloc(tiny_bytes));
    int wrong = 0;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; ++i) {
        memcpy(copy, tiny, tiny_bytes);
        memcpy(copy + place_of(damages[i].behind, damages[i].skip), damages[i].bytes,
               damages[i].count);
        write_damaged(copy, tiny_bytes);
        char *what = text("row %zu, behind \"%s\"", i, damages[i].behind);
        wrong += !refused(what, damages[i].words);
    }
    assert_int_equal(wrong, 0);
    free(copy);
}

// The offset of a tensor's data in the file. The data of output_norm are the last.
static size_t in_file(const struct tensor *tensor)
{
    return tiny_bytes - model->output_norm.row_bytes -
           (size_t)(model->output_norm.data - tensor->data);
}

// Damages at places that have no text of their own before them.
static void damage_to_tokens_and_weights_is_told(void **state)
{
    (void)state;
    const size_t types = place_of("tokenizer.ggml.token_type", 16);
    const size_t first_byte = place_of("<|im_end|>", 8); // the name of token 3: two bytes
    const struct {
        const char *what;
        size_t at;
        const char *bytes;
        size_t count;
        const char *words;
    } places[] = {
        {"types are one fewer", types - 8, BYTES_OF("\x10\1"), "value"},
        {"a special token becomes text", types + 4, BYTES_OF("\1"),
         "no special token \"<|im_start|>\""},
        {"a letter that no byte has", first_byte, BYTES_OF("\xd0\x90"),
         "token 3 has a letter that stands for no byte"},
        {"half a letter", first_byte + 1, BYTES_OF("a"),
         "token 3 has a letter that stands for no byte"},
        {"two tokens of one name", first_byte, BYTES_OF("\xc4\x81"),
         "token 4 is the same as token 3"},
        {"a token with a byte 0", first_byte, BYTES_OF("\0a"), "token 3 has"},
        {"a merge without a space", place_of("\xc4\xa0 t", 0) - 2, BYTES_OF("x"),
         "merge 0 makes no token"},
        {"a scale of the embedding", in_file(&model->embedding), BYTES_OF("\0\x7c"),
         "\"token_embd.weight\" has a scale that is infinite or NaN"},
        {"an offset, the last of a matrix",
         in_file(&model->layer[1].value) + model->layer[1].value.row_bytes * 128 - Q4_1_BYTES + 2,
         BYTES_OF("\1\xfc"), "\"blk.1.attn_v.weight\" has a scale that is infinite or NaN"},
        {"a weight of a norm", in_file(&model->output_norm) + 4 * 383, BYTES_OF("\0\0\xc0\xff"),
         "\"output_norm.weight\" has a number that is infinite or NaN"},
    };
    char *copy = need(malloc(tiny_bytes));
    int wrong = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
        memcpy(copy, tiny, tiny_bytes);
        memcpy(copy + places[i].at, places[i].bytes, places[i].count);
        write_damaged(copy, tiny_bytes);
        wrong += !refused(places[i].what, places[i].words);
    }
    assert_int_equal(wrong, 0);
    free(copy);
}

static void a_file_that_ends_early_is_refused_wherever_it_ends(void **state)
{
    (void)state;
    const size_t data = in_file(&model->embedding);
    int wrong = 0, cuts = 0;
    // Cuts the file at every 41st byte before the data and at every 40,009th of the data: primes, so that all kinds of
    // places are met.
    for (size_t at = 1; at < tiny_bytes; at += at < data ? 41 : 40009, ++cuts) {
        write_damaged(tiny, at);
        wrong += !refused(text("cut at %zu", at), "");
    }
    write_damaged(tiny, tiny_bytes - 1);
    wrong += !refused("the last byte is missing",
                      "the data of \"output_norm.weight\": 1536 bytes are wanted, and 1535 are");
    write_damaged(tiny, 0);
    wrong += !refused("empty", "empty; a model in GGUF is wanted");
    assert_int_equal(wrong, 0);
    assert_true(cuts > 100);
}

static void bits_that_flip_are_refused_or_change_what_is_read(void **state)
{
    (void)state;
    const size_t data = in_file(&model->embedding);
    char *copy = need(malloc(tiny_bytes));
    int refusals = 0, wrong = 0;
    memcpy(copy, tiny, tiny_bytes);
    for (size_t i = 0; i < 150; ++i) {
        const size_t at = i * 7919 % data; // 7919 is prime: places all over what precedes the data
        const char bit = (char)(1 << i % 8);
        copy[at] ^= bit;
        write_damaged(copy, tiny_bytes);
        const int status = opened(damaged_path);
        wrong += status != 0 && !refused(text("bit %zu of byte %zu", i % 8, at), "");
        refusals += status != 0;
        copy[at] ^= bit;
    }
    free(copy);
    assert_int_equal(wrong, 0);
    assert_true(refusals > 50);
}

static void a_program_ends_in_one_line(void **state)
{
    (void)state;
    const struct {
        char *path, *words;
    } cases[] = {{folder, "not a regular file"},
                 {"/no/such/model", "No such file or directory"},
                 {damaged_path, "no GGUF: it does not begin with these four letters"}};
    write_damaged("GGU?", 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        int ends[2], status;
        char line[4096];
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], STDERR_FILENO);
            model_open(cases[i].path);
            _exit(0);
        }
        close(ends[1]);
        size_t length = 0;
        for (ssize_t more; (more = read(ends[0], line + length, sizeof line - 1 - length)) > 0;)
            length += (size_t)more;
        line[length] = '\0';
        close(ends[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 2);
        assert_string_equal(line, text("test: %s: %s\n", cases[i].path, cases[i].words));
    }
}

static void the_tool_leaves_nothing_half_written(void **state)
{
    (void)state;
    char *tool = text("%s/../../../tiny-model", own_folder()), *inside = text("%s/in", folder);
    // If a folder has the name already, writing fails, and the temporary file beside it is removed.
    assert_int_equal(mkdir(inside, 0700), 0);
    struct output ended = run((char *const[]){tool, inside, NULL}, NULL, 60, false);
    assert_int_equal(ended.status, 3);
    assert_string_equal(ended.err,
                        text("tiny-model: %s cannot be written: Is a directory\n", inside));
    assert_int_equal(rmdir(inside), 0);
    ended = run((char *const[]){tool, "/no/such/file", NULL}, NULL, 60, false);
    assert_int_equal(ended.status, 2);
    assert_string_equal(ended.err,
                        "tiny-model: /no/such/file cannot be written: No such file or directory\n");
    ended = run((char *const[]){tool, NULL}, NULL, 60, false);
    assert_int_equal(ended.status, 2);
    assert_string_equal(
        ended.err, "tiny-model: usage: tiny-model FILE [--seed N] [--context N] [--words N]\n");
    // tear_down() would fail to remove the folder if any file were left in it.
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts_have_known_tokens),
        cmocka_unit_test(texts_come_back_from_their_tokens),
        cmocka_unit_test(a_text_that_is_not_utf8_is_refused_with_its_place),
        cmocka_unit_test(a_question_is_put_as_the_template_says),
        cmocka_unit_test(blocks_are_read_as_computed_by_hand),
        cmocka_unit_test(a_number_that_is_not_finite_is_seen_in_each_format),
        cmocka_unit_test(the_small_model_is_what_was_written),
        cmocka_unit_test(logits_are_those_of_another_program),
        cmocka_unit_test(a_rounded_cache_is_that_of_another_program),
        cmocka_unit_test(keys_and_values_are_kept),
        cmocka_unit_test(of_equal_logits_the_first_is_the_likeliest),
        cmocka_unit_test(random_bits_are_the_generators_known_ones),
        cmocka_unit_test(a_set_reaches_its_probability_and_has_equals_whole),
        cmocka_unit_test(random_bits_draw_each_token_for_its_part),
        cmocka_unit_test(the_program_answers),
        cmocka_unit_test(the_program_prints_tokens),
        cmocka_unit_test(the_program_writes_queries_keys_and_values),
        cmocka_unit_test(the_program_tells_perplexity_in_pieces_of_the_context),
        cmocka_unit_test(the_program_says_what_it_cannot_do),
        cmocka_unit_test(damage_is_told_in_one_line),
        cmocka_unit_test(damage_to_tokens_and_weights_is_told),
        cmocka_unit_test(a_file_that_ends_early_is_refused_wherever_it_ends),
        cmocka_unit_test(bits_that_flip_are_refused_or_change_what_is_read),
        cmocka_unit_test(a_program_ends_in_one_line),
        cmocka_unit_test(the_tool_leaves_nothing_half_written),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
