"""A GPU's kernels without a GPU: PTX, or a kernel of Triton, on numpy arrays, with every access checked.

    import numpy, ptxsim

    x, y = numpy.ones(1000, numpy.float32), numpy.zeros(1000, numpy.float32)
    ptxsim.load("scale.ptx")["scale"][4, 256](y, x, 2.5, 1000)

`load` takes PTX, what `nvcc -ptx -lineinfo` writes; `ptxsim.triton.run` a function with `@triton.jit`. Races, accesses out
of bounds, reads of what nothing has written and deadlocks raise `Fault`, whose reports name the source's line.
"""
from .kernels import CHECKS, Fault, FaultWarning, Kernel, Launch, Module, PTXError, Report, load, unwritten

__all__ = ["CHECKS", "Fault", "FaultWarning", "Kernel", "Launch", "Module", "PTXError", "Report", "load", "unwritten"]
