"""A small face over onnx.helper, shared by every script here that makes a model.

A Builder collects nodes, weights, inputs and outputs, and turns them into a ModelProto whose bytes depend on nothing but
the calls made: weights come from one seeded generator, names from scopes and counters, and serialization is deterministic.

    g = Builder("net", seed=1, opset=17)
    x = g.input("x", [("batch"), 3, 8, 8])
    with g.scope("stem"):
        y = g.Relu(g.Conv(x, g.he([16, 3, 3, 3]), pads=[1, 1, 1, 1]))   # nodes /stem/Conv, /stem/Relu
    g.output("y", y, ["batch", 16, 8, 8])
    g.save("net.onnx")

`g.Op(inputs..., attributes...)` adds a node for any operator. An input is the name of a value, a numpy array (which becomes
an initializer, or a Constant node if the Builder was made with constants="nodes"), or None for an absent optional input.
"""

import contextlib
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The IR version that came with an opset; what an exporter of that time would have written.
IR_OF_OPSET = {7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10}

DTYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "bool": TensorProto.BOOL, "uint8": TensorProto.UINT8,
          "bfloat16": TensorProto.BFLOAT16}


def i64(*values):
    """A rank-1 int64 tensor: the usual operand of Reshape, Slice, Unsqueeze and their like."""
    return np.array(values, np.int64)


def f32(value):
    """A float32 scalar tensor of rank 0."""
    return np.array(value, np.float32)


class Builder:
    def __init__(self, name, seed=0, opset=17, ir=None, constants="initializers"):
        self.name, self.opset, self.ir = name, opset, ir or IR_OF_OPSET[opset]
        self.constants = constants
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self.metadata = {}
        self._scopes, self._used = [], set()

    # ---- values ----
    def input(self, name, shape, dtype="float32"):
        self.inputs.append(helper.make_tensor_value_info(name, DTYPES[dtype], shape))
        self._used.add(name)
        return name

    def output(self, name, value, shape=None, dtype="float32"):
        """Makes `value` an output called `name`, by renaming where it is made."""
        self._rename(value, name)
        self.outputs.append(helper.make_tensor_value_info(name, DTYPES[dtype], shape))
        return name

    def weight(self, array, name=None):
        """Adds an initializer; `name` is kept as it is (torch style: layer1.0.conv1.weight)."""
        name = self._fresh(name or self._path("weight", ".").lstrip("."))
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def normal(self, shape, std, mean=0.0):
        return (self.rng.standard_normal(shape, dtype=np.float32) * np.float32(std) + np.float32(mean)).astype(np.float32)

    def uniform(self, shape, low, high):
        return (self.rng.random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)).astype(np.float32)

    def he(self, shape, gain=2.0):
        """A weight [out, in, ...] that keeps the variance of what flows through a Relu; gain=1 without the Relu."""
        return self.normal(shape, np.sqrt(gain / np.prod(shape[1:])))

    # ---- nodes ----
    @contextlib.contextmanager
    def scope(self, name):
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def __getattr__(self, op):
        if not op[:1].isupper():
            raise AttributeError(op)
        return lambda *inputs, **attributes: self.op(op, *inputs, **attributes)

    def op(self, op, *inputs, outputs=1, domain="", **attributes):
        """Adds a node; returns its output's name, or a list of names where `outputs` is more than one."""
        inputs = [self._operand(x) for x in inputs]
        path = self._fresh(self._path(op, "/"))
        results = [self._fresh(f"{path}_output_{i}") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, results, name=path, domain=domain, **attributes))
        return results[0] if outputs == 1 else results

    def constant(self, array):
        return self.Constant(value=numpy_helper.from_array(np.asarray(array, order="C")))

    # ---- the model ----
    def model(self):
        inputs = list(self.inputs)
        if self.ir < 4:  # before IR 4 every initializer had to be listed as an input too
            inputs += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in self.initializers]
        graph = helper.make_graph(self.nodes, self.name, inputs, self.outputs, self.initializers)
        foreign = sorted({node.domain for node in self.nodes} - {""})
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in foreign)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=self.ir,
                                  producer_name="weft-models")
        helper.set_model_props(model, self.metadata)
        return model

    def save(self, path, external=False):
        """Checks the model and writes it; with external=True the weights go to a file beside it, PATH.data."""
        model = self.model()
        onnx.checker.check_model(model)
        if external:
            _write_external(model, path)
        write_bytes(path, model.SerializeToString(deterministic=True))

    # ---- inside ----
    def _operand(self, x):
        if x is None:
            return ""
        if isinstance(x, str):
            return x
        if self.constants == "nodes":
            return self.constant(x)
        return self.weight(x)

    def _path(self, leaf, separator):
        return separator + separator.join(self._scopes + [leaf])

    def _fresh(self, name):
        unique, count = name, 0
        while unique in self._used:
            count += 1
            unique = f"{name}_{count}"
        self._used.add(unique)
        return unique

    def _rename(self, old, new):
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    if name == old:
                        names[i] = new


def _write_external(model, path):
    """Moves every weight of a kilobyte or more to PATH.data, at offsets that are multiples of 64 bytes."""
    data = bytearray()
    for tensor in model.graph.initializer:
        raw = tensor.raw_data
        if len(raw) < 1024:
            continue
        data += b"\0" * (-len(data) % 64)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", os.path.basename(path) + ".data"), ("offset", len(data)), ("length", len(raw))):
            tensor.external_data.add(key=key, value=str(value))
        data += raw
    write_bytes(path + ".data", data)


def write_bytes(path, data):
    """Writes a file so that no half of it is ever seen under its name."""
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)
