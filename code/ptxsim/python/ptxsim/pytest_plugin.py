"""A pytest fixture for Triton's kernels: `kernels` runs them on a GPU if PyTorch finds one, otherwise in the simulator.

    def test_scale(kernels):
        x, out = numpy.ones(1000, numpy.float32), numpy.zeros(1000, numpy.float32)
        kernels.run(scale, (4,), out, x, 2.5, 1000, BLOCK=256)
        assert (out == 2.5).all()

On both, the arguments are those of `ptxsim.triton.run`, including numpy arrays; settings of the simulator (arch, check, …) have
no effect on a GPU. `kernels.name` is "ptxsim sm_90" or the GPU's name; `kernels.simulated` is true in the simulator. `pytest
--ptxsim simulator` always takes the simulator; `--ptxsim gpu` fails without a GPU; `--ptxsim-arch 80` sets the simulated
compute capability.
"""
import dataclasses

import pytest

SETTINGS = ("arch", "check", "faults", "schedule", "threads", "budget")


class Simulator:
    simulated = True

    def __init__(self, arch):
        self.arch, self.name = arch, f"ptxsim sm_{arch}"

    def run(self, kernel, grid, *args, **kwargs):
        from . import triton
        return triton.run(kernel, grid, *args, **{"arch": self.arch, **kwargs})


class GPU:
    simulated = False

    def __init__(self, torch):
        self.torch, self.name = torch, torch.cuda.get_device_name()

    def _copy(self, array, is_unwritten, copies):
        """The array's bits on the GPU as integers, since some types of numpy are missing in torch."""
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise TypeError(f"an array of shape {array.shape} with strides {array.strides}: on a GPU, give a copy without gaps")
        start = array.__array_interface__["data"][0]
        for other, tensor in copies:
            at = other.__array_interface__["data"][0]
            if at == start and other.shape == array.shape and other.strides == array.strides:
                return tensor
            if at < start + array.nbytes and start < at + other.nbytes:
                raise TypeError(f"arrays of shapes {other.shape} and {array.shape} that share memory: on a GPU, give copies")
        tensor = self.torch.from_numpy(array.view(f"i{array.itemsize}")).to("cuda")
        if is_unwritten:
            tensor.fill_(-1)
        copies.append((array, tensor))
        return tensor

    def _argument(self, value, copies):
        from . import triton
        from .kernels import array_of, unwritten
        if isinstance(value, tuple):
            converted = [self._argument(v, copies) for v in value]
            return type(value)(*converted) if hasattr(value, "_fields") else tuple(converted)
        if type(value).__name__ == "TensorDescriptor":
            return dataclasses.replace(value, base=self._argument(value.base, copies))
        array, dtype = (value.array, value.dtype) if isinstance(value, triton._Tensor) else (value, None)
        plain = array_of(array)
        if plain is None:
            return value
        tensor = self._copy(plain, isinstance(array, unwritten), copies)
        return tensor.view(getattr(self.torch, dtype or plain.dtype.name))

    def run(self, kernel, grid, *args, **kwargs):
        copies = []
        args = [self._argument(a, copies) for a in args]
        kwargs = {name: self._argument(a, copies) for name, a in kwargs.items() if name not in SETTINGS}
        kernel[grid](*args, **kwargs)
        self.torch.cuda.synchronize()
        for array, tensor in copies:
            if array.flags.writeable:
                array.view(f"i{array.itemsize}")[...] = tensor.cpu().numpy()


def pytest_addoption(parser):
    group = parser.getgroup("ptxsim", "the fixture `kernels`")
    group.addoption("--ptxsim", choices=("auto", "simulator", "gpu"), default="auto",
                    help="where kernels run: auto (default) is the GPU that PyTorch finds, else the simulator")
    group.addoption("--ptxsim-arch", type=int, default=90, choices=(80, 86, 87, 89, 90),
                    help="compute capability of the simulator (default: 90)")


@pytest.fixture(scope="session")
def kernels(request):
    """Runs kernels of Triton on numpy arrays: `kernels.run(kernel, grid, *args, **kwargs)`, on a GPU or in the simulator."""
    where = request.config.getoption("--ptxsim")
    if where != "simulator":
        try:
            import torch
            why = None if torch.cuda.is_available() else "PyTorch finds no GPU"
        except ImportError as error:
            why = "PyTorch is not installed" if error.name == "torch" else f"PyTorch cannot be loaded: {error}"
        except OSError as error:  # a library that PyTorch needs cannot be loaded
            why = f"PyTorch cannot be loaded: {error}"
        if not why:
            return GPU(torch)
        if where == "gpu":
            pytest.fail(f"--ptxsim gpu: {why}".splitlines()[0], pytrace=False)
    return Simulator(request.config.getoption("--ptxsim-arch"))
