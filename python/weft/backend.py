"""weft as a backend of ONNX (onnx.backend.base): `from weft.backend import WeftBackend`.

    outputs = WeftBackend.run_model(onnx.load('digits.onnx'), [image])

Arrays of types that NumPy lacks (bfloat16, float8, 4 bits) are ml_dtypes', in and out; of strings, arrays of str. Shapes come with the inputs: a plan
is built for each new set of them, and for each new value of the inputs that decide shapes (weft.shape_inputs).
Needs the packages onnx and ml_dtypes.
"""
import collections
import shutil
import tempfile
import weakref
from pathlib import Path

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

import weft
from weft._types import CODES, ML_DTYPES, loaded, stored

__all__ = ['WeftBackend', 'WeftRep', 'is_compatible', 'prepare', 'run_model', 'run_node', 'supports_device']


class WeftRep(BackendRep):
    """A model that is ready to run; `options` are those of weft.build."""

    def __init__(self, model, **options):
        folder = tempfile.mkdtemp(prefix='weft-')
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._path = Path(folder) / 'model.onnx'
        self._path.write_bytes(model.SerializeToString())
        self._options = options
        defaults = {i.name for i in model.graph.initializer}
        self._types = {v.name: v.type for v in [*model.graph.input, *model.graph.output]}
        self.input_names = [i.name for i in model.graph.input if i.name not in defaults]
        self.output_names = [o.name for o in model.graph.output]
        # Of a map weft gives the values, whose keys only the model knows.
        self._keys = {n.output[0]: [k for a in n.attribute for k in (a.ints or [s.decode() for s in a.strings])]
                      for n in model.graph.node if n.op_type == 'ZipMap' and n.domain == 'ai.onnx.ml'}
        self._plans = {}  # by shapes and fixed values
        self._fixed = {}  # by shapes: names of the inputs that are fixed in a plan

    def run(self, inputs, **kwargs):
        """Arrays in the order of input_names, or by name; a list for a sequence, None for an optional without an
        element; out of a ZipMap comes a list of dictionaries. Gives a named tuple in the order of the model's outputs.
        Raises weft.Error for what weft can't build or run."""
        plan, free = self._ready(inputs)
        outputs = plan.run(free)
        left = collections.deque(plan.outputs)
        return namedtupledict('Outputs', self.output_names)(*[self._output(n, left, outputs) for n in self.output_names])

    def plan(self, inputs):
        """The weft.Plan that a run on such inputs takes."""
        return self._ready(inputs)[0]

    def _output(self, name, left, outputs):
        """The next of the plan's outputs that are left: all the parts of a sequence, which are numbered."""
        def tensor(element):
            t = left.popleft()
            return loaded(outputs[t.name], element if element in CODES else t.element)  # of codes a plan has the bytes

        if name in self._keys:
            return [dict(zip(self._keys[name], row.tolist())) for row in tensor('')]
        kind, element = _kind(self._types.get(name))
        if kind == 'sequence':
            found = []
            while left and left[0].name == f'{name}[{len(found)}]':
                found.append(tensor(element))
            return found
        is_absent = kind == 'optional' and (not left or left[0].name != name)
        return None if is_absent else tensor(element)

    def _tensors(self, inputs):
        """(arrays by name, forms of inputs that are no tensors)."""
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, dict):
            if len(inputs) != len(self.input_names):
                raise weft.Error(2, f'found {len(inputs)} inputs, expected {self.input_names}')
            inputs = dict(zip(self.input_names, inputs))
        arrays, forms = {}, {}
        for name, value in inputs.items():
            kind, element = _kind(self._types.get(name))
            if kind == 'tensor':
                arrays[name] = value
            else:
                forms[name] = value
                parts = {f'{name}[{i}]': v for i, v in enumerate(value)} if isinstance(value, (list, tuple)) else {name: value}
                arrays |= {} if value is None else parts
        for name, value in arrays.items():
            if not isinstance(value, (np.ndarray, np.generic)):
                raise weft.Error(4, f'found a {type(value).__name__}, expected a tensor', f'input "{name}"')
        return {name: np.asarray(value) for name, value in arrays.items()}, forms

    def _ready(self, inputs):
        arrays, forms = self._tensors(inputs)
        shapes = {name: array.shape for name, array in arrays.items()}
        by_shapes = (tuple(sorted(shapes.items())), tuple(sorted((n, v is None) for n, v in forms.items())))
        if by_shapes not in self._fixed:
            self._fixed[by_shapes] = weft.shape_inputs(self._path, shapes=shapes, forms=forms)
        fixed = self._fixed[by_shapes]
        key = (by_shapes, *(arrays[name].tobytes() for name in fixed))
        if key not in self._plans:
            values = {name: arrays[name] for name in fixed}
            self._plans[key] = weft.build(self._path, shapes=shapes, forms=forms, values=values, **self._options)
        return self._plans[key], {name: self._bits(name, array) for name, array in arrays.items() if name not in fixed}

    def _bits(self, name, array):
        element = _kind(self._types.get(name))[1]
        return stored(array, element) if element in CODES else array


_ML_ELEMENTS = {name: element for element, name in ML_DTYPES.items()}


def _kind(type_proto):
    """('tensor', 'sequence' or 'optional', weft's name of the element type where NumPy lacks it)."""
    if type_proto is None:
        return 'tensor', ''
    field = type_proto.WhichOneof('value') or 'tensor_type'
    if field != 'tensor_type':
        inner, element = _kind(getattr(type_proto, field).elem_type)
        return ('sequence' if 'sequence' in (field.removesuffix('_type'), inner) else field.removesuffix('_type')), element
    kind = type_proto.tensor_type.elem_type
    if kind in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        return 'tensor', ''
    return 'tensor', _ML_ELEMENTS.get(onnx.helper.tensor_dtype_to_np_dtype(kind).name, '')


class WeftBackend(Backend):
    """`options` of every call are those of weft.build: threads, force, cache_dir…"""

    @classmethod
    def is_compatible(cls, model, device='CPU', **options):
        """Whether weft can import the model, and the device is there."""
        if not cls.supports_device(device):
            return False
        with tempfile.TemporaryDirectory(prefix='weft-') as folder:
            path = Path(folder) / 'model.onnx'
            path.write_bytes(model.SerializeToString())
            try:
                weft.shape_inputs(path)
            except weft.Error:
                return False
        return True

    @classmethod
    def prepare(cls, model, device='CPU', **options):
        if not cls.supports_device(device):
            raise weft.Error(6, f'no device {device}')
        super().prepare(model, device)  # checks the model
        return WeftRep(model, **options)

    @classmethod
    def run_node(cls, node, inputs, device='CPU', outputs_info=None, opset_version=None, **options):
        """One node on arrays, in the order of its present inputs."""
        opset = onnx.defs.onnx_opset_version() if opset_version is None else opset_version
        super().run_node(node, inputs, device, outputs_info, opset_version=opset)  # checks the node
        names = [n for n in dict.fromkeys(node.input) if n]
        given = inputs if isinstance(inputs, dict) else dict(zip(names, inputs, strict=True))
        infos = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(given[n]).dtype),
                                                    np.shape(given[n])) for n in names]
        outputs = [onnx.ValueInfoProto(name=n) for n in node.output if n]
        graph = onnx.helper.make_graph([node], 'node', infos, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
        return WeftRep(onnx.shape_inference.infer_shapes(model), **options).run(given)

    @classmethod
    def supports_device(cls, device):
        """The processor; no plan has been run on another device yet."""
        return Device(device).type == DeviceType.CPU


is_compatible = WeftBackend.is_compatible
prepare = WeftBackend.prepare
run_model = WeftBackend.run_model
run_node = WeftBackend.run_node
supports_device = WeftBackend.supports_device
