"""The stages that are operators, one a row. libraries.py compiles what the rows name, for the images that
chapters/stages.tsv has; __init__.py makes the operators."""
from typing import NamedTuple


class Stage(NamedTuple):
    programs: tuple  # of code/, the one to be preferred first
    causal: bool = False  # a query sees no key past its own place
    ragged: bool = False  # takes a length for each sequence
    cache: bool = False  # asks a cache: decode() is its operator


STAGES = {
    15: Stage(("ch15_registers",)),
    16: Stage(("ch16_fp8_mma",)),
    17: Stage(("ch17_hopper",)),
    19: Stage(("ch19_hopper", "ch19_causal"), causal=True, ragged=True),
    20: Stage(("ch20_hopper", "ch20_decode"), cache=True),
}
