#!/usr/bin/env python3
"""Times the library `transformers` on chapter 23's file: a token behind 128 and 2,000, and a prompt of 2,000 tokens.

  code/model/transformers_speed.py build/smollm2.gguf OUT.json

It needs a GPU, PyTorch, and the packages `transformers` and `gguf`; the weights become half as they are read. A step is
compiled (torch.compile, mode "reduce-overhead": one CUDA graph), its cache is static, and its token is the likeliest
one, so that the host never waits. OUT.json gets µs a step of one sequence, `eager` and `compiled`, and for a prompt of
2,000 tokens µs until its next token is known: medians.

Exit status: 0 done, 1 logits of compiled and eager steps differ, 2 bad usage, 3 something is missing.
"""
import datetime
import json
import os
import statistics
import sys
import time

CONTEXTS, PROMPT, BATCHES = (128, 2000), 2000, (1,)
STEPS, SAMPLES, CONTEXT_MOST = 32, 9, 2560
LOGITS_APART = 0.15  # of their norm; in half, 0.06 and 0.10 were seen behind 128 and 2,000 tokens


def fail(status, message):
    print(f"transformers_speed: {message}", file=sys.stderr)
    sys.exit(status)


if len(sys.argv) != 3 or sys.argv[1] == "--help":
    print(__doc__.strip())
    sys.exit(0 if sys.argv[1:] == ["--help"] else 2)
if not os.path.isfile(sys.argv[1]) or not sys.argv[2].endswith(".json"):
    fail(2, f"the arguments are the model's file and the record, OUT.json, not {' '.join(sys.argv[1:])}")
try:
    import gguf  # noqa: F401, transformers reads the file with it
    import torch
    import transformers
except ImportError as error:
    fail(3, f"{error}: PyTorch, transformers and gguf are needed")
if not torch.cuda.is_available():
    fail(3, "no GPU here")


def timed(call, samples=SAMPLES):
    """µs until the GPU has done all that the call asks of it: the median."""
    took = []
    for _ in range(samples):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        took.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(took)


class Speaker:
    """Sequences of one length, each of which goes on by one token in a step."""

    def __init__(self, model, batch):
        self.model, self.batch = model, batch
        self.cache = transformers.StaticCache(config=model.config, max_batch_size=batch, max_cache_len=CONTEXT_MOST,
                                              device="cuda", dtype=torch.half)

    def forward(self, tokens, first):
        """Logits behind `tokens` [batch][n], which begin at position `first`, a tensor on the GPU."""
        places = first + torch.arange(tokens.shape[1], device="cuda")
        return self.model(tokens, past_key_values=self.cache, cache_position=places, position_ids=places[None],
                          use_cache=True, logits_to_keep=1).logits[:, -1]

    def begin(self, context):
        torch.manual_seed(0)
        self.cache.reset()
        tokens = torch.randint(self.model.config.vocab_size, (self.batch, context), device="cuda")
        return self.forward(tokens, torch.zeros((), dtype=torch.long, device="cuda")).argmax(-1, keepdim=True)

    def speak(self, step, context, token):
        place = torch.full((), context, dtype=torch.long, device="cuda")
        said = []
        for _ in range(STEPS):
            token = step(token, place).argmax(-1, keepdim=True).clone()
            said.append(token)
            place += 1
        return torch.cat(said, 1)


@torch.no_grad()
def main():
    path = os.path.abspath(sys.argv[1])
    model = transformers.AutoModelForCausalLM.from_pretrained(
        os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.half, attn_implementation="sdpa")
    model = model.cuda().eval()
    record = {"record": 1, "dtype": str(next(model.parameters()).dtype), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
              "device": {"name": torch.cuda.get_device_name()}, "runtime": "gpu", "torch": torch.__version__,
              "transformers": transformers.__version__, "steps": STEPS, "samples": SAMPLES, "batches": {}}
    for batch in BATCHES:
        torch._dynamo.reset()
        speaker = Speaker(model, batch)
        compiled = torch.compile(speaker.forward, mode="reduce-overhead", fullgraph=True, dynamic=False)
        of = record["batches"][str(batch)] = {}
        for context in CONTEXTS:
            token, place = speaker.begin(context), torch.full((), context, dtype=torch.long, device="cuda")
            wanted = speaker.forward(token, place).clone()
            for _ in range(3):
                speaker.speak(compiled, context, token)
            apart = ((compiled(token, place) - wanted).norm() / wanted.norm()).item()
            if not apart < LOGITS_APART:
                fail(1, f"logits of a compiled step behind {context} differ by {apart:.1%} from an eager step's")
            of[str(context)] = {
                "logits_apart": apart,
                "eager_us": timed(lambda: speaker.speak(speaker.forward, context, token), 1) / STEPS,
                "compiled_us": timed(lambda: speaker.speak(compiled, context, token)) / STEPS}
            print(batch, context, of[str(context)], flush=True)
        if batch == 1:
            record["prompt_us"] = timed(lambda: speaker.begin(PROMPT))
            print("prompt", record["prompt_us"], flush=True)
    with open(sys.argv[2] + ".new", "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.write("\n")
    os.replace(sys.argv[2] + ".new", sys.argv[2])


main()
