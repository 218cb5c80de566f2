"""The stages that are operators, a row each. libraries.py compiles the programs that the rows name, for the
architectures in chapters/stages.tsv; __init__.py makes the operators."""
from typing import NamedTuple


class Stage(NamedTuple):
    programs: tuple  # names of programs in code/, the preferred one first
    hopper: int = 0  # how many of the programs, counted from the first, run only on compute capability 9.0
    causal: bool = False  # whether queries see no key past their own position
    ragged: bool = False  # whether the programs take a length for each sequence
    cache: bool = False  # whether the programs attend over a cache, by the operator decode() or prompt()


STAGES = {
    "registers": Stage(("ch15_registers",)),
    "short": Stage(("ch15_short",)),
    "fp8_mma": Stage(("ch16_fp8_mma",)),
    "hopper_half": Stage(("ch17_hopper_half",), hopper=1),
    "hopper": Stage(("ch18_room",), hopper=1),
    "causal": Stage(("ch20_room", "ch20_causal"), hopper=1, causal=True, ragged=True),
    "causal_half": Stage(("ch20_half",), hopper=1, causal=True),
    "decode": Stage(("ch21_hopper", "ch21_decode"), hopper=1, cache=True),
    "prompt": Stage(("ch22_hopper", "ch22_prompt"), hopper=1, causal=True, cache=True),
}
# For each format of P, without a causal mask and with one, the fastest stage that is as accurate: (on compute
# capability 9.0, elsewhere).
FASTEST = {
    ("half", False): ("hopper_half", "short"), ("e4m3", False): ("hopper", "short"),
    ("half", True): ("causal_half", "causal"), ("e4m3", True): ("causal", "causal"),
}
# Numbers of chapters, which stage= took before stages had names.
OLD_NUMBERS = {15: "registers", 16: "fp8_mma", 17: "hopper", 19: "causal"}
