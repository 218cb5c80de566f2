"""What the operators call: the libraries of the C side. An error becomes an exception that begins with the package's
name."""
import ctypes
import functools
import pathlib

import torch

from .stages import STAGES

HEAD_DIM = 64  # the kernels' head dimension; a cache can have 128, too
RESULTS = {"launch_quantise": ctypes.c_char_p, "launch_attention": ctypes.c_char_p, "launch_decode": ctypes.c_char_p,
           "decode_scratch": ctypes.c_size_t, "launch_prompt": ctypes.c_char_p, "prompt_scratch": ctypes.c_size_t,
           "attend_on_cpu": ctypes.c_bool, "decode_on_cpu": ctypes.c_bool}


def _require(condition, message):
    if not condition:
        raise ValueError("attention_in_stages: " + message())


def _listed(names):
    return ", ".join(names)


@functools.cache
def _library(name):
    """Loads the library `name`: cpu, quantise, or the name of a program."""
    path = pathlib.Path(__file__).parent / f"{name}.so"
    if not path.is_file():
        raise RuntimeError(f"attention_in_stages: there is no {path.name} here: it was installed without CUDA's "
                           "compiler; install it again where code/tools/find-nvcc finds one")
    library = ctypes.CDLL(str(path))
    for function, result in RESULTS.items():
        if hasattr(library, function):
            getattr(library, function).restype = result
    return library


def _pointer(tensor):
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _stream(tensor):
    """The device and its current stream, as the last two arguments of a launch."""
    return tensor.device.index, ctypes.c_void_p(torch.cuda.current_stream(tensor.device).cuda_stream)


def _launched(said):
    if said:
        raise RuntimeError("attention_in_stages: " + said.decode())


@functools.cache
def _program(stage, device):
    """The library of the stage's preferred program for this GPU: Hopper's program only on a Hopper."""
    capability = torch.cuda.get_device_capability(device)
    for i, name in enumerate(STAGES[stage].programs):
        if i >= STAGES[stage].hopper or capability[0] == 9:
            return _library(name)
    others = _listed(n for n, s in STAGES.items()
                     if not s.cache and s.hopper < len(s.programs))
    raise RuntimeError(f"attention_in_stages: stage {stage} is for Hopper alone, compute capability 9.0, and this "
                       f"GPU has {capability[0]}.{capability[1]}: stages {others} run here")
