"""Where the compiled files of the package are."""
import os
import pathlib


def folder():
    """The folder of the libraries: $PTXSIM_NATIVE, the package's own, or build/ptxsim of the checkout."""
    here = pathlib.Path(__file__).resolve().parent
    if os.environ.get("PTXSIM_NATIVE"):
        return pathlib.Path(os.environ["PTXSIM_NATIVE"])
    if (here / "native" / "libcudart.so.13").exists():
        return here / "native"
    return here.parents[3] / "build" / "ptxsim"
