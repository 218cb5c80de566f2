#!/usr/bin/env python3
"""Compares build/ask with other programs on the same file: its tokens with those of `tokenizers`, its logits with
numpy's on weights that `gguf` dequantises. For maintainers: make test does not run it, and nothing else needs these
packages.

    python3 -m venv /tmp/others && /tmp/others/bin/pip install tokenizers gguf numpy
    /tmp/others/bin/python code/model/compare.py FILE [TOKENS]

TOKENS: numbers of tokens, "1 42 7"; the logits that follow them are compared. Prints how many of 10,000 lines get
different tokens, and by how much logits differ. Exit status 1: a line differs, or a logit by more than 1e-6.
"""
import glob
import random
import subprocess
import sys

import gguf
import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

HEAD = 64
LETTERS = ["a", "Ä", "é", "ß", "中", "文", "٣", "½", "Ⅷ", "  ", " ", "\t", "’", "'s", "'re", "1", "23", "!", "?", "€",
           "😀", "\u00a0", "\u3000", "न", "ि", "ł", "x", "The ", ".", ",", "\u2028", "ǅ", "_", "\r"]


def lines():
    """7000 lines of the book, and 3000 drawn lines of letters that tokenizers get wrong."""
    random.seed(1)
    book = []
    for path in sorted(glob.glob("chapters/*.md") + glob.glob("code/*.cu")):
        with open(path, encoding="utf8") as file:
            book += [line for line in file.read().split("\n") if line]
    random.shuffle(book)
    return book[:7000] + ["".join(random.choice(LETTERS) for _ in range(random.randrange(1, 40))) for _ in range(3000)]


def ask(path, *options, given=""):
    run = subprocess.run(["build/ask", path, *options], input=given.encode(), capture_output=True, check=True)
    return run.stdout.decode().split("\n")[:-1]


def other_tokens(reader, path):
    field = {name: reader.fields["tokenizer.ggml." + name].contents() for name in ("tokens", "merges")}
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(field["tokens"])},
                                     merges=[tuple(m.split(" ")) for m in field["merges"]]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    texts = lines()
    ours = ask(path, "--tokens", given="\n".join(texts) + "\n")
    theirs = [" ".join(map(str, tokenizer.encode(text, add_special_tokens=False).ids)) for text in texts]
    wrong = [text for text, a, b in zip(texts, ours, theirs) if a != b]
    print(f"{len(texts)} lines, {len(ours)} answers, {len(wrong)} with other tokens", *map(repr, wrong[:5]))
    return len(ours) != len(texts) or wrong


class Model:
    def __init__(self, reader):
        self.weights = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
                        for t in reader.tensors}
        value = {name: reader.fields["llama." + name].contents() for name in
                 ("block_count", "attention.head_count", "attention.head_count_kv", "rope.freq_base",
                  "attention.layer_norm_rms_epsilon")}
        self.layers, self.heads, self.key_heads, self.base, self.epsilon = value.values()

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * self.weights[name]

    def turned(self, x):
        angle = np.arange(len(x))[:, None] * self.base ** (-np.arange(0, HEAD, 2) / HEAD)
        turn = np.exp(1j * angle)[:, None] * (x[..., 0::2] + 1j * x[..., 1::2])
        return np.stack([turn.real, turn.imag], -1).reshape(x.shape)

    def logits(self, tokens):
        count = len(tokens)
        x = self.weights["token_embd.weight"][tokens].astype(np.float64)
        unseen = np.triu(np.full((count, count), -np.inf), 1)
        for layer in range(self.layers):
            def product(h, name, at=layer):
                return h @ self.weights[f"blk.{at}.{name}.weight"].T

            h = self.norm(x, f"blk.{layer}.attn_norm.weight")
            q = self.turned(product(h, "attn_q").reshape(count, self.heads, HEAD))
            k = self.turned(product(h, "attn_k").reshape(count, self.key_heads, HEAD))
            v = product(h, "attn_v").reshape(count, self.key_heads, HEAD)
            k, v = (np.repeat(t, self.heads // self.key_heads, 1) for t in (k, v))
            scores = np.einsum("qhd,khd->hqk", q, k) / HEAD**0.5 + unseen
            p = np.exp(scores - scores.max(-1, keepdims=True))
            out = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v)
            x = x + product(out.reshape(count, -1), "attn_output")
            h = self.norm(x, f"blk.{layer}.ffn_norm.weight")
            gate = product(h, "ffn_gate")
            x = x + product(gate / (1 + np.exp(-gate)) * product(h, "ffn_up"), "ffn_down")
        return self.norm(x, "output_norm.weight") @ self.weights["token_embd.weight"].T


def other_logits(reader, path, words):
    ours = np.array([float(line) for line in ask(path, "--logits", words)])
    theirs = Model(reader).logits([int(word) for word in words.split()])[-1]
    apart = np.abs(ours - theirs)
    print(f"{len(ours)} logits: from {ours.min():.3f} to {ours.max():.3f}, token {ours.argmax()} and "
          f"{theirs.argmax()}; apart by {apart.max():.1e}, {apart.mean():.1e} on average")
    return apart.max() > 1e-6


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: compare.py FILE [TOKENS]")
    reader = gguf.GGUFReader(sys.argv[1])
    wrong = [other_tokens(reader, sys.argv[1]),
             other_logits(reader, sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "1 42 7 260 100 42 42 280")]
    sys.exit(any(wrong))


main()
