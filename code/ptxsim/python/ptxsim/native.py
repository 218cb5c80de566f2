"""Finds the simulator's command and libraries."""

import os
import pathlib


def folder() -> pathlib.Path:
    """The folder of ptxsim, libcudart.so.13 and libcuda.so.1: $PTXSIM_NATIVE, this package's, or a checkout's."""
    chosen = os.environ.get("PTXSIM_NATIVE")
    package = pathlib.Path(__file__).resolve().parent
    for place in [pathlib.Path(chosen)] if chosen else [package / "native", package.parents[3] / "build" / "ptxsim"]:
        if (place / "libcudart.so.13").is_file():
            return place
    if chosen:
        raise RuntimeError(f"PTXSIM_NATIVE is {chosen}, which holds no libcudart.so.13")
    raise RuntimeError("the simulator's libraries are not there: pip install it, or make build/ptxsim/libcudart.so.13")
