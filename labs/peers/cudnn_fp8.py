"""cuDNN's attention of E4M3, through its Python front end (nvidia-cudnn-frontend).

A contestant of labs/tools/scoreboard (labs/tools/pytorch --help says what one is). cuDNN takes one
scale a tensor, so its inputs are quantised anew with one scale for all heads; and on a Hopper its
output is E4M3, too, with a scale of its own, here V's.
"""
import cudnn
import torch

TITLE = "cuDNN, FP8"
ROUNDS_P = True
SCALES = "tensor"
HEAD_DIM = 64
P_SCALE = 256.0  # P is at most 1; 256 P is rounded to E4M3

plans = {}  # plans by shape and by the address of the scales


def one(value):
    return torch.full((1, 1, 1, 1), value, dtype=torch.float32, device="cuda")


class Plan:
    def __init__(self, q, k, v, scales, kept):
        self.kept = kept  # keeps the tensor whose address is the key, so that no other tensor gets
                          # that address
        self.handle = cudnn.create_handle()
        fp8, fp32 = cudnn.data_type.FP8_E4M3, cudnn.data_type.FLOAT
        graph = cudnn.pygraph(io_data_type=fp8, intermediate_data_type=fp32, compute_data_type=fp32,
                              handle=self.handle)
        shape, strides = list(q.shape), list(q.stride())
        self.data = {name: graph.tensor(name=name, dim=shape, stride=strides, data_type=fp8)
                     for name in ("q", "k", "v")}
        scalars = {"descale_q": scales[0], "descale_k": scales[1], "descale_v": scales[2],
                   "descale_s": one(1 / P_SCALE), "scale_s": one(P_SCALE)}
        # The output is an average of V's values: with V's own scale none is too large.
        scalars["scale_o"] = 1 / scales[2]
        self.out_scale = float(scales[2])
        self.scalars = {name: graph.tensor(name=name, dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], data_type=fp32)
                        for name in scalars}
        self.values = {self.scalars[name]: value for name, value in scalars.items()}
        out, _, amax_s, amax_o = graph.sdpa_fp8(**self.data, **self.scalars, is_inference=True,
                                                attn_scale=HEAD_DIM**-0.5, name="attention")
        out.set_output(True).set_dim(shape).set_stride(strides).set_data_type(fp8)
        self.out, self.unused = out, {}
        for amax in (amax_s, amax_o):
            amax.set_output(True).set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1]).set_data_type(fp32)
            self.unused[amax] = one(0.0)
        graph.build([cudnn.heur_mode.A])
        self.graph = graph
        self.workspace = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device="cuda")

    def run(self, q, k, v):
        cudnn.set_stream(self.handle, torch.cuda.current_stream().cuda_stream)
        out = torch.empty_like(q)
        self.graph.execute({self.data["q"]: q, self.data["k"]: k, self.data["v"]: v, self.out: out,
                            **self.values, **self.unused}, self.workspace, handle=self.handle)
        return out


def attention(q, k, v, q_scales, k_scales, v_scales):
    key = (tuple(q.shape), q_scales.data_ptr())  # a set of inputs is known by the address of its
                                                 # scales
    if key not in plans:
        scales = [s[:1].reshape(1, 1, 1, 1).clone() for s in (q_scales, k_scales, v_scales)]
        plans[key] = Plan(q, k, v, scales, q_scales)
    return plans[key].run(q, k, v), plans[key].out_scale


def note():
    return f"cuDNN {cudnn.backend_version_string()}, front end {cudnn.__version__}, output in E4M3"
