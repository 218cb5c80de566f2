"""A fixture of pytest for kernels of Triton: `kernels` runs them on the GPU where PyTorch finds one, and in the simulator elsewhere.

    def test_scale(kernels):
        x, out = numpy.ones(1000, numpy.float32), numpy.zeros(1000, numpy.float32)
        kernels.run(scale, (4,), out, x, 2.5, 1000, BLOCK=256)
        assert (out == 2.5).all()

Arguments are those of `ptxsim.triton.run`, numpy arrays among them, on both; the settings of the simulator (arch, check, …)
mean nothing on a GPU. `kernels.name` says what it is, "ptxsim sm_90" or the GPU's name, `kernels.simulated` whether it
is the simulator. `pytest --ptxsim simulator` takes it in any case, `--ptxsim gpu` fails without a GPU; `--ptxsim-arch 80` is what the
simulator is.
"""
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

    def _bits(self, array):
        """An array as torch takes it: of types that numpy does not have, the bits."""
        return array if array.dtype.kind in "biuf" else array.view(f"i{array.itemsize}")

    def _tensor(self, value, tensors):
        from . import triton
        from .kernels import array_of, unwritten
        if isinstance(value, tuple):
            return tuple(self._tensor(v, tensors) for v in value)
        if type(value).__name__ == "TensorDescriptor":
            base = self._tensor(value.base, tensors)
            return type(value)(base, value.shape, value.strides, value.block_shape, value.padding)
        array, dtype = (value.array, value.dtype) if isinstance(value, triton._Tensor) else (value, None)
        array, is_unwritten = array_of(array), isinstance(array, unwritten)
        if array is None:
            return value
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise TypeError(f"an array of shape {array.shape} with strides {array.strides}: on a GPU, give a copy without gaps")
        address = array.__array_interface__["data"][0]
        if address not in tensors:
            tensor = self.torch.from_numpy(self._bits(array)).to("cuda")
            tensors[address] = array, tensor.fill_(-1) if is_unwritten and tensor.dtype != self.torch.bool else tensor
        tensor = tensors[address][1]
        name = dtype or array.dtype.name
        return tensor if name == str(tensor.dtype).split(".")[-1] else tensor.view(getattr(self.torch, name))

    def run(self, kernel, grid, *args, **kwargs):
        tensors = {}
        args = [self._tensor(a, tensors) for a in args]
        kwargs = {name: self._tensor(a, tensors) for name, a in kwargs.items() if name not in SETTINGS}
        kernel[grid](*args, **kwargs)
        self.torch.cuda.synchronize()
        for array, tensor in tensors.values():
            if array.flags.writeable:
                self._bits(array)[...] = tensor.cpu().numpy()


def pytest_addoption(parser):
    group = parser.getgroup("ptxsim", "the fixture `kernels`")
    group.addoption("--ptxsim", choices=("auto", "simulator", "gpu"), default="auto",
                    help="where kernels run: auto (default) is the GPU that PyTorch finds, else the simulator")
    group.addoption("--ptxsim-arch", type=int, default=90, metavar="CC",
                    help="compute capability of the simulator, 90 (default) or 80")


@pytest.fixture(scope="session")
def kernels(request):
    """Runs kernels of Triton on numpy arrays: `kernels.run(kernel, grid, *args, **kwargs)`, on a GPU or in the simulator."""
    where = request.config.getoption("--ptxsim")
    torch = None
    if where != "simulator":
        try:
            import torch
        except ImportError:
            pass
    if torch and torch.cuda.is_available():
        return GPU(torch)
    if where == "gpu":
        pytest.fail("--ptxsim gpu: " + ("PyTorch finds no GPU" if torch else "PyTorch is not installed"), pytrace=False)
    return Simulator(request.config.getoption("--ptxsim-arch"))
