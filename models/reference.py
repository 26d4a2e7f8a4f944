"""Runs a model in onnxruntime, with its optimizations off, on seeded inputs; writes what went in and what came out.

    python models/reference.py MODEL.onnx --dim batch=2 --seed 1 --save-inputs x.npz -o y.npz

Arrays are named as the graph's inputs and outputs, whatever characters those names have. Dimensions come from --shape
(x=1x3x32x32, by input) and --dim (batch=2, by symbol); one that neither names is 1. Floats are drawn from a normal
distribution; integers stay legal for the Gathers that they reach; masks are ones with a few zeros at their ends. With
--inputs F.npz the arrays found there are used, and only the others are drawn.

As a library: make_inputs, run, save_npz.
"""

import argparse
import io
import sys
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper

# Through these the values of an input reach other nodes unchanged, from the operand at this position.
MOVERS = {"Cast": 0, "Concat": None, "Expand": 0, "Flatten": 0, "Gather": 0, "Identity": 0, "Reshape": 0, "Slice": 0,
          "Split": 0, "Squeeze": 0, "Transpose": 0, "Unsqueeze": 0}


def save_npz(path, arrays):
    """Like numpy.savez, but any name will do ("file" and "/a/b.0" too), and the same arrays give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(name + ".npy"), member.getvalue())


def graph_inputs(graph):
    """The inputs that a caller gives: in old files initializers are listed among them."""
    weights = {t.name for t in graph.initializer}
    return [v for v in graph.input if v.name not in weights]


def index_limit(graph, name):
    """The least extent of a table that the values of input `name` index by a Gather; None where there is no such table."""
    dims = {t.name: list(t.dims) for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            dims[node.output[0]] = list(node.attribute[0].t.dims)
    limits, reached, work = [], {name}, [name]
    while work:
        value = work.pop()
        for node in graph.node:
            for position, operand in enumerate(node.input):
                if operand != value:
                    continue
                if node.op_type == "Gather" and position == 1 and node.input[0] in dims:
                    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
                    limits.append(dims[node.input[0]][axis])
                if node.op_type in MOVERS and MOVERS[node.op_type] in (None, position):
                    new = [v for v in node.output if v not in reached]
                    reached.update(new)
                    work += new
    return min(limits, default=None)


def shape_of(value, shapes, dims):
    """The extents of an input: what --shape says, else --dim by symbol, else 1."""
    if value.name in shapes:
        return shapes[value.name]
    extents = []
    for dim in value.type.tensor_type.shape.dim:
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            extents.append(dim.dim_value)
        else:
            extents.append(dims.get(dim.dim_param, 1))
    return extents


def make_inputs(model, shapes={}, dims={}, seed=0):
    """Seeded arrays for every input of a ModelProto."""
    rng = np.random.Generator(np.random.PCG64(seed))
    arrays = {}
    for value in graph_inputs(model.graph):
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = shape_of(value, shapes, dims)
        if "mask" in value.name and dtype.kind in "iufb":
            arrays[value.name] = mask(rng, shape).astype(dtype)
        elif dtype.kind in "iu":
            arrays[value.name] = rng.integers(0, index_limit(model.graph, value.name) or 2, shape).astype(dtype)
        elif dtype.kind == "b":
            arrays[value.name] = rng.integers(0, 2, shape).astype(bool)
        else:
            arrays[value.name] = np.asarray(rng.standard_normal(shape)).astype(dtype)
    return arrays


def mask(rng, shape):
    """Ones, with zeros at the end of each row: at most half of it, and none in the first row."""
    length = shape[-1] if shape else 1
    kept = length - rng.integers(0, length // 2 + 1, shape[:-1])
    if kept.ndim and kept.size:
        kept.flat[0] = length
    return (np.arange(length) < kept[..., None]).reshape(shape)


def run(model, inputs, names=None):
    """Runs a file or the bytes of a model; returns its outputs by name."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # warnings are about files, and files are as they are
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = names or [v.name for v in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def binding(text):
    """x=1x3 -> ("x", [1, 3]); the name may itself hold '='."""
    name, _, extents = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"expected NAME=EXTENTS, found {text}")
    return name, [int(e) for e in extents.split("x")] if extents else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--shape", type=binding, action="append", default=[], metavar="x=1x3x32x32")
    parser.add_argument("--dim", type=binding, action="append", default=[], metavar="batch=2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", metavar="F.npz", help="arrays to use instead of drawn ones")
    parser.add_argument("--save-inputs", metavar="F.npz")
    parser.add_argument("-o", "--output", metavar="F.npz")
    args = parser.parse_args()

    model = onnx.load(args.model, load_external_data=False)
    inputs = make_inputs(model, dict(args.shape), {name: extents[0] for name, extents in args.dim}, args.seed)
    if args.inputs:
        with np.load(args.inputs) as given:
            inputs.update({name: given[name] for name in inputs if name in given.files})
    outputs = run(args.model, inputs)
    for name, array in outputs.items():
        if not isinstance(array, np.ndarray):
            sys.exit(f"reference: output {name} is no tensor")
        print(f"{name}: {array.dtype} {list(array.shape)}", file=sys.stderr)
    if args.save_inputs:
        save_npz(args.save_inputs, inputs)
    if args.output:
        save_npz(args.output, outputs)


if __name__ == "__main__":
    main()
