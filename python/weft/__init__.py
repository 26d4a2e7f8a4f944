"""weft: from an ONNX network to a plan of fused kernels and library calls, and running it.

    plan = weft.build('digits.onnx')
    probabilities = plan.run({'image': image})['probabilities']
    plan.save('digits.plan')

and from a comprehension to a function on arrays:

    matmul = weft.comprehension('def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }')
    c = matmul(a, b)
"""
import os
from typing import NamedTuple

import numpy as np

__all__ = ['Comprehension', 'Error', 'Parameter', 'Plan', 'Step', 'Tensor', 'TunedKernel', 'build', 'comprehension', 'load',
           'shape_inputs', 'tc', '__version__']


class Error(Exception):
    """What the command line would have said: `code` is its exit code; `where` and `hint` may be empty."""

    def __init__(self, code, what, where='', hint='', message=''):
        super().__init__(message or what)
        self.code, self.what, self.where, self.hint = code, what, where, hint

    def __reduce__(self):
        return Error, (self.code, self.what, self.where, self.hint, str(self))


from . import _weft, tc  # noqa: E402: they raise Error
from ._comprehension import Comprehension, Parameter, TunedKernel, comprehension  # noqa: E402
from ._types import NUMPY, STRINGS, packed, stored, tagged, unpacked  # noqa: E402

__version__ = _weft.version


class Tensor(NamedTuple):
    """An input or output of a plan; `element` is weft's name of its type: 'bf16' where NumPy has only the bits. `shape` is
    None where it depends on data, or on what a run is given."""
    name: str
    dtype: np.dtype
    shape: tuple
    element: str


class Step(NamedTuple):
    """What a plan does at once: `kind` is 'own', 'vendor', 'native', 'view' or 'plan'; `call` is the operator of a
    library or native step; `reason` says why a native step is no kernel of weft's own (a plan file does not hold it)."""
    kind: str
    name: str
    call: str
    nodes: list
    reason: str


_NO_PLACE = np.empty((), np.uint8)  # for an output of strings, which a run makes


class Plan:
    """A network that is ready to run. Runs of one plan take turns; others go on meanwhile."""

    def __init__(self, loaded):
        self._loaded = loaded
        self._specializations = [tuple([Tensor(name, np.dtype(NUMPY[element]), shape, element) for name, element, shape in
                                        loaded.describe(i, is_input)] for is_input in (True, False))
                                 for i in range(loaded.specializations)]
        self._by_shapes = {tuple(t.shape for t in ins): i for i, (ins, _) in reversed(list(enumerate(self._specializations)))}

    @property
    def name(self):
        return self._loaded.name

    @property
    def target(self):
        return self._loaded.target

    @property
    def threads(self):
        return self._loaded.threads

    @property
    def inputs(self):
        """Of the first specialization, in the network's order."""
        return list(self._specializations[0][0]) if self._specializations else []

    @property
    def outputs(self):
        return list(self._specializations[0][1]) if self._specializations else []

    @property
    def steps(self):
        """Of the first specialization, in the order in which they run."""
        return [Step(*step) for step in self._loaded.steps(0)] if self._specializations else []

    @property
    def specializations(self):
        """(inputs, outputs) for each set of shapes that the plan was built for."""
        return [(list(ins), list(outs)) for ins, outs in self._specializations]

    def run(self, inputs):
        """Runs on a dict by name, or a list in order; gives a dict of outputs by name. Arrays that are
        C-contiguous and of the right type are read where they are; nothing is ever cast. bfloat16 and
        integers of 4 bits may come as those of ml_dtypes. Of other types that NumPy lacks a plan has a byte for each
        element and does not know what they are: give `array.view(numpy.uint8)`, or `array.astype(numpy.int8)` of int2.
        Strings come as arrays of str, or of bytes of UTF-8, of any of NumPy's types for them, and go as arrays of the
        type object that hold str."""
        arrays = self._arrays(inputs)
        shapes = tuple(a.shape for a in arrays)
        index = self._by_shapes.get(shapes)
        if index is None:
            index = self._loaded.select([list(s) for s in shapes])  # raises, and lists what there is
        expected, described = self._specializations[index]
        arrays = [stored(array, tensor.element) for tensor, array in zip(expected, arrays)]
        for i, (tensor, array) in enumerate(zip(expected, arrays)):
            where = f'input "{tensor.name}"'
            if tensor.element == 'string' and array.dtype.kind in STRINGS:
                arrays[i] = packed(array, where)
            elif array.dtype != tensor.dtype:
                wanted = 'strings' if tensor.element == 'string' else tensor.dtype
                raise Error(2, f'found {array.dtype}, expected {wanted}', where)
        outputs = [np.empty(t.shape or (), t.dtype) if t.element != 'string' else _NO_PLACE for t in described]
        for i, made in enumerate(self._loaded.run(index, arrays, outputs)):
            if made is not None and described[i].element == 'string':
                outputs[i] = unpacked(*made)
            elif made is not None:
                outputs[i] = made[1].view(described[i].dtype).reshape(made[0])
        return {t.name: a for t, a in zip(described, outputs)}

    def _arrays(self, inputs):
        names = [t.name for t in self.inputs]
        if isinstance(inputs, dict):
            unknown, missing = [n for n in inputs if n not in names], [n for n in names if n not in inputs]
            if unknown or missing:
                raise Error(2, f'found inputs {sorted(map(str, inputs))}, expected {names}')
            inputs = [inputs[n] for n in names]
        elif len(inputs) != len(names):
            raise Error(2, f'found {len(inputs)} inputs, expected {names}')
        # Not ascontiguousarray, which would make a vector of a scalar.
        return [np.require(a, dtype=np.asarray(a).dtype.newbyteorder('='), requirements='C') for a in inputs]

    def save(self, path):
        """Writes the plan file, whole or not at all."""
        self._loaded.save(os.fspath(path))

    def cancel(self):
        """Ends the run that is going on in another thread, or else the next one: it raises Error with code 130."""
        self._loaded.cancel()

    def __str__(self):
        return self._loaded.text()

    def __repr__(self):
        return f'<weft.Plan {self.name!r} for {self.target}>'


def build(path, *, target='cpu', threads=0, shapes=None, dims=None, forms=None, values=None, budget=0, force=None,
          specialize='now', cache_dir=None):
    """Builds a plan from an ONNX file.

    shapes: {'input': (1, 3, 224, 224)}; dims: {'batch': 8}; forms: of inputs that are no tensors, None for an absent
    optional, an array like the one of a present one, a list of such for a sequence, which becomes inputs 'name[0]',
    'name[1]', …, as sequences among the outputs do; values: arrays of inputs that become constants, such as
    those that shape_inputs names; budget: seconds to measure in, 0 estimates only; force: 'own', 'vendor', or 'calls' of
    a library and native kernels; threads: 0 takes what the machine allows.

    A network whose inputs keep symbolic extents runs at any: what a run needs for new ones is built then, and kept.
    specialize says what: kernels 'now', 'never' (calls need no compiler), or in the 'background' of calls."""
    values = [(name, *tagged(array)) for name, array in (values or {}).items()]
    for name, element, _ in values:
        if element == 'string':
            raise Error(4, 'strings can be no value that a plan is built for', f'input "{name}"')
    return Plan(_weft.build(os.fspath(path), target, threads, _shapes(shapes), dict(dims or {}), _forms(forms), values,
                            float(budget), force, None if cache_dir is None else os.fspath(cache_dir), specialize))


def shape_inputs(path, *, shapes=None, forms=None):
    """Names of the inputs of an ONNX file whose elements decide extents, such as the shape of a Reshape, once the
    inputs have these shapes. A plan is built for one value of each (`values` of build)."""
    return _weft.shape_inputs(os.fspath(path), _shapes(shapes), _forms(forms))


def _shapes(shapes):
    return [(name, [int(e) for e in shape]) for name, shape in (shapes or {}).items()]


def _forms(forms):
    def part(array):
        return tagged(array)[0], list(np.shape(array))
    return [(name, 'absent', []) if form is None else
            (name, 'sequence', [part(a) for a in form]) if isinstance(form, (list, tuple)) else
            (name, 'tensor', [part(form)]) for name, form in (forms or {}).items()]


def load(path, *, threads=0, specialize='now', cache_dir=None):
    """Loads a plan file; kernels that the cache lacks are compiled. specialize: as of build."""
    return Plan(_weft.load(os.fspath(path), threads, None if cache_dir is None else os.fspath(cache_dir), specialize))
