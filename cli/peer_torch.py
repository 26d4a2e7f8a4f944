"""An ONNX model as a function of torch, compiled: the peer `torch`, since torch reads no ONNX itself.

The nodes are walked once, with the inputs of the run. What depends on no input is computed at once (a shape is such a
thing: sizes are fixed); all else calls torch (torch_ops.py), and make_fx records the calls. torch.compile gets the
record, with the weights as parameters that it may fold and pack.
"""
import contextlib
import time

import numpy as np
import onnx
import torch
import torch._inductor.config as inductor
from onnx import helper, numpy_helper
from torch._inductor.fx_passes import binary_folding
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx

from torch_ops import OPS

FOLDED = ('Add', 'Sub', 'Mul', 'Div', 'BatchNormalization')
inference = torch.inference_mode()  # lasts as long as this object


class Node:
    """A node and its operands: tensors, arrays where they are known before the run, None where they are absent."""

    def __init__(self, proto, opset, operands, after_conv):
        self.proto, self.kind, self.opset, self.operands = proto, proto.op_type, opset, operands
        self.after_conv = after_conv  # an operand comes from a convolution, by way of what may be folded into it
        self.attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}

    def get(self, name, default=None):
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def known(self, i, default=None):
        """Operand i, which has to be known, as a number or a list of them."""
        if i >= len(self.operands) or self.operands[i] is None:
            return default
        self.refuse_if(isinstance(self.operands[i], torch.Tensor), f'has operand {i} computed from the inputs')
        return self.operands[i].tolist()

    def form(self, attribute, i):
        """What older opsets have as an attribute and newer ones as operand i."""
        return self.get(attribute) if attribute in self.attributes else self.known(i)

    def refuse_if(self, found, what):
        if found:
            raise NotImplementedError(f'torch has no call for one that {what}')


class Walk:
    """A model as a function: tensors in the order of `inputs` in, a list of tensors out."""

    def __init__(self, model, inputs, device='cpu'):
        self.device = device
        self.graph, self.inputs, self.parameters, self.of_conv = model.graph, inputs, {}, set()
        self.opset = next(o.version for o in model.opset_import if o.domain in ('', 'ai.onnx'))
        missing = {n.op_type for n in self.graph.node if n.domain not in ('', 'ai.onnx') or n.op_type not in OPS}
        if missing:
            raise NotImplementedError(f'no call of torch is known for {", ".join(sorted(missing))}')
        self.weights = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}

    def tensor(self, name, value):
        if isinstance(value, np.ndarray) and name not in self.parameters:
            with disable_proxy_modes_tracing():
                self.parameters[name] = torch.nn.Parameter(torch.from_numpy(np.array(value)).to(self.device), requires_grad=False)
        return self.parameters[name] if isinstance(value, np.ndarray) else value

    def step(self, proto, values):
        """Gives a node's results; arrays, and nothing recorded, if all its operands are known."""
        names = list(proto.input)
        while names and not names[-1]:
            names.pop()
        operands = [values[name] for name in names]
        traced = any(isinstance(v, torch.Tensor) for v in operands)
        node = Node(proto, self.opset, operands, not self.of_conv.isdisjoint(names))
        if node.kind == 'Conv' or node.after_conv and node.kind in FOLDED:
            self.of_conv.update(proto.output)
        with contextlib.nullcontext() if traced else disable_proxy_modes_tracing():
            try:
                results = OPS[node.kind](node, *map(self.tensor, names, operands))
                results = results if isinstance(results, (tuple, list)) else (results,)
                node.refuse_if(any(proto.output[len(results):]), f'has {len(proto.output)} results')
            except Exception as error:
                raise RuntimeError(f'{node.kind} "{proto.name}": {error}') from error
        return [r.cpu().numpy() if isinstance(r, torch.Tensor) and not traced else r for r in results]

    def __call__(self, *inputs):
        values = {'': None, **self.weights, **dict(zip(self.inputs, inputs))}
        for proto in self.graph.node:
            values.update(zip(proto.output, self.step(proto, values)))
        results = (self.tensor(o.name, values[o.name]) for o in self.graph.output)
        return [r.contiguous() for r in results]  # else a transposed result would be its operand, seen otherwise


def fold_nothing_into_transposed():
    """torch 2.15 folds what follows a convolution along its weight's first axis, which is another of a transposed one."""
    register, convolution = binary_folding.register_binary_folding_pattern, torch.ops.aten.convolution.default

    def register_checked(pattern, extra_check):
        return register(pattern, lambda match: extra_check(match) and not any(
            node.target is convolution and node.args[6] for node in match.nodes))
    binary_folding.register_binary_folding_pattern = register_checked


def wait_for_workers():
    """Ends when no thread of this process computes: those of OpenMP spin for some time after a run."""
    for _ in range(100):
        start = time.process_time()
        time.sleep(2e-3)
        if time.process_time() - start < 5e-4:
            return


def load(path, inputs, threads, device):
    """Gives (version, a function that runs once and gives the outputs by name, a function to wait for its threads)."""
    if device == 'cuda' and not torch.cuda.is_available():
        raise ImportError('torch sees no GPU')
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision('highest')
    inference.__enter__()  # for the rest of this process
    fold_nothing_into_transposed()
    inductor.freezing = inductor.max_autotune = True
    inductor.fx_graph_cache = inductor.autotune_local_cache = False  # what is faster is measured in this process
    torch.backends.cudnn.allow_tf32 = False
    inductor.triton.cudagraphs = device == 'cuda'
    inductor.cpp.threads, inductor.compile_threads = threads, 1
    model = onnx.load(path)
    names, tensors = [o.name for o in model.graph.output], [torch.from_numpy(value).to(device) for value in inputs.values()]
    record = make_fx(Walk(model, list(inputs), device))(*tensors)
    compiled = torch.compile(record, fullgraph=True, dynamic=False,
                             options={'guard_filter_fn': torch.compiler.skip_all_guards_unsafe})
    compiled(*tensors)

    def run():
        results = compiled(*tensors)
        if device == 'cuda':
            torch.cuda.synchronize()
        return dict(zip(names, results))
    return torch.__version__.split('+')[0], run, wait_for_workers
