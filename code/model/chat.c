// chat.c: the chat template, which puts a question to the model: the file has it in Jinja, here it is written in C.
#include "model.h"

#include "host/host.h"

#include <stdlib.h>
#include <string.h>

#define WHO "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

const char CHAT_TEMPLATE[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\n" WHO "<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% "
    "endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static int special(const struct gguf *file, const struct tokens *tokens, const char *name)
{
    const int token = tokens_named(tokens, name);
    if (token < 0 || token_bytes(tokens, token).bytes > 0)
        fail(EXIT_USAGE, "%s: no special token \"%s\" in it", gguf_path(file), name);
    return token;
}

struct chat chat_open(const struct gguf *file, const struct tokens *tokens)
{
    const struct span got = gguf_text(file, "tokenizer.chat_template");
    if (got.bytes != strlen(CHAT_TEMPLATE) || memcmp(got.at, CHAT_TEMPLATE, got.bytes) != 0)
        fail(EXIT_USAGE,
             "%s: its chat template is not SmolLM2's, which is the only one that is written here",
             gguf_path(file));
    const struct chat chat = {special(file, tokens, "<|im_start|>"),
                              special(file, tokens, "<|im_end|>")};
    if (gguf_whole(file, "tokenizer.ggml.eos_token_id", 0, tokens_count(tokens) - 1) != chat.end)
        fail(EXIT_USAGE, "%s: answers do not end with \"<|im_end|>\"", gguf_path(file));
    return chat;
}

// A list of tokens that grows.
struct sequence {
    int *at;
    size_t count;
};

static void add(struct sequence *to, const int *tokens, size_t count)
{
    to->at = need(realloc(to->at, (to->count + count + 1) * sizeof *to->at));
    memcpy(to->at + to->count, tokens, count * sizeof *tokens);
    to->count += count;
}

// Appends the tokens of a text. False: it is not UTF-8 at the byte *wrong.
static bool add_text(struct sequence *to, const struct tokens *tokens, const char *text,
                     size_t *wrong)
{
    size_t count;
    int *more = tokens_of(tokens, text, strlen(text), &count);
    if (!more) {
        *wrong = count;
        return false;
    }
    add(to, more, count);
    free(more);
    return true;
}

// Appends a message: "ROLE\nCONTENT" between the special tokens `start` and `end`, and a line feed after them.
static bool add_message(struct sequence *to, const struct chat *chat, const struct tokens *tokens,
                        const char *role, const char *content, size_t *wrong)
{
    char *message = text("%s\n%s", role, content);
    add(to, &chat->start, 1);
    const bool added = add_text(to, tokens, message, wrong);
    if (!added)
        *wrong -= strlen(role) + 1;
    free(message);
    add(to, &chat->end, 1);
    return added && add_text(to, tokens, "\n", wrong);
}

int *chat_question(const struct chat *chat, const struct tokens *tokens, bool first,
                   const char *question, size_t *count)
{
    struct sequence all = {NULL, 0};
    size_t never;

    if (first)
        add_message(&all, chat, tokens, "system", WHO, &never);
    else
        add_text(&all, tokens, "\n", &never); // ends the answer before this question
    if (!add_message(&all, chat, tokens, "user", question, count)) {
        free(all.at);
        return NULL;
    }
    add(&all, &chat->start, 1);
    add_text(&all, tokens, "assistant\n", &never);
    *count = all.count;
    return all.at;
}
