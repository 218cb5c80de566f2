"""The shapes that have names, for the tools of this folder: batch, heads, sequence (code/workbench/shapes.def)."""
import pathlib
import re

_ROWS = (pathlib.Path(__file__).resolve().parents[2] / "code/workbench/shapes.def").read_text(encoding="utf-8")
SHAPES = {name: tuple(map(int, factors))
          for name, *factors in re.findall(r"^SHAPE\((\w+), (\d+), (\d+), (\d+)\)", _ROWS, re.MULTILINE)}
