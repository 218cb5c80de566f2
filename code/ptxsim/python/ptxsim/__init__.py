"""Runs GPU kernels without a GPU: PTX, or Triton's kernels, on numpy arrays, with every access checked.

    import numpy, ptxsim

    x, y = numpy.ones(1000, numpy.float32), numpy.zeros(1000, numpy.float32)
    ptxsim.load("scale.ptx")["scale"][4, 256](y, x, 2.5, 1000)

`load` takes PTX, as written by `nvcc -ptx -lineinfo`; `ptxsim.triton.run` takes a function with `@triton.jit`. Races,
accesses out of bounds, reads of memory never written, and deadlocks raise `Fault`, whose reports name the source line.
"""
from .kernels import CHECKS, Fault, FaultWarning, Kernel, Launch, Module, PTXError, Report, load, unwritten

__all__ = ["CHECKS", "Fault", "FaultWarning", "Kernel", "Launch", "Module", "PTXError", "Report", "load", "unwritten"]
