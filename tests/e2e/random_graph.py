"""Random networks as onnx models, with inputs and with what onnx's reference evaluator says comes out.

A graph grows node by node, and each node is evaluated when it is added. Every value has two copies more that carry
rounding errors a few times larger than an implementation may make. Where the copies part, because something nearly
cancels or a step function stands near its step, the value says nothing about an implementation: a node is taken back
when that happens to integers, an output is not chosen when it happens to floats. What remains has one right answer.
"""
import random
from dataclasses import replace

import numpy as np
import onnx
import random_control
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from random_value import Reject, Value
from tolerances import operators, tolerances

MOST_ELEMENTS, LARGEST = 4096, 1e4
# Spacing of the noise, the part of an output's scale that it may move the output by, and the tolerance for weft.
NOISE = {np.dtype(np.float16): 2e-3, np.dtype(np.float32): 5e-7, np.dtype(np.float64): 5e-16}
UNSTABLE = {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 5e-6, np.dtype(np.float64): 1e-14}
TOLERANCE = {dtype: relative for dtype, (relative, _) in tolerances('network').items()}
EXACT = operators('exact')
# Steps: a float operand is moved by this part of its scale, and nothing may happen.
STEPS = set('''ArgMax ArgMin Ceil Equal Floor Greater GreaterOrEqual Hardmax IsInf IsNaN Less LessOrEqual Mod Not QuantizeLinear
    Round Shrink Sign ThresholdedRelu TopK DynamicQuantizeLinear NonZero Unique NonMaxSuppression'''.split())
# Sums: what each part is rounded by is left where they cancel, however exact the operands.
SUMS = set('''AveragePool Conv ConvTranspose CumSum Einsum Gemm GlobalAveragePool InstanceNormalization
    LayerNormalization MatMul ReduceMean ReduceSum'''.split())
SINGLE = {'Erf', 'Gelu', 'HardSwish'}  # of these the evaluator has no more than float32
STEP_MARGIN = {np.dtype(np.float16): 3e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}


def scale_of(array):
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return finite.max() if finite.size else 0.0


def rounded(value, seed):
    """With copies whose elements are off by a rounding each."""
    if value is None or value.kind != 'f':
        return value
    by = np.finfo(value.array.dtype).eps / 2 * np.random.default_rng(seed).uniform(-1, 1, value.array.shape)
    return replace(value, noisy=((value.array * (1 + by)).astype(value.array.dtype),) * 2)


def spread(value):
    """How far the copies are from the value: where it nearly cancels, more than its scale says."""
    return max(scale_of(np.subtract(copy, value.array, dtype=np.float64)) for copy in value.noisy)


def differs(found, expected, part):
    """Whether the two are further apart than a part of the scale, or NaN or infinity stand elsewhere."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return True
    if expected.dtype.kind != 'f':
        return not np.array_equal(found, expected)
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True) or not np.isfinite(found[finite]).all():
        return True
    error = np.abs(found[finite].astype(np.float64) - expected[finite])
    return bool(error.size) and error.max() > part * scale_of(expected)


def attribute(node, name, otherwise):
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), otherwise)


def undefined(node, operands, results):
    """Whether the evaluator says more than ONNX does."""
    first, op = operands[0].array if operands else None, node.op_type
    if op in ('Cast', 'CastLike', 'QuantizeLinear', 'DynamicQuantizeLinear'):  # what integer a NaN or an infinity is
        return results[0].dtype.kind in 'iu' and not np.isfinite(first).all()
    if op in ('Conv', 'MaxPool', 'AveragePool') and any(
            e and not made for e, made in zip(first.shape[2:], results[0].shape[2:])):  # a window of nothing
        return True
    if op in ('MaxPool', 'AveragePool') and 0 in first.shape[2:] and results[0].size:  # windows of padding alone
        return True
    if op == 'InstanceNormalization':  # vectors of other channels, which it broadcasts
        return any(v.shape != first.shape[1:2] for v in operands[1:])
    if op == 'DepthToSpace':  # channels that do not divide, where there is nothing to move
        return first.shape[1] % helper.get_node_attr_value(node, 'blocksize') ** 2 != 0
    if op == 'SpaceToDepth':
        return any(e % helper.get_node_attr_value(node, 'blocksize') for e in first.shape[2:])
    if op == 'Einsum':  # extents of one letter that differ: it broadcasts those of 1
        sides = helper.get_node_attr_value(node, 'equation').decode().split('->')[0].split(',')
        extents = {(letter, e) for side, v in zip(sides, operands) for letter, e in zip(side, v.shape)}
        return len(extents) > len({letter for letter, _ in extents})
    if op in ('Gather', 'GatherElements'):  # places that are none: it wraps them around, or has nothing to move
        places, extent = operands[1].array, first.shape[attribute(node, 'axis', 0)]
        return bool(np.any((places < -extent) | (places >= extent)))
    if op == 'TopK':  # more than there are, of nothing
        return operands[1].array.item() > first.shape[attribute(node, 'axis', -1)]
    if op == 'PRelu':  # it multiplies a zero by its slope, and looks for an axis that a slope fits
        slope = operands[1].array
        return (first == 0).any() and not np.isfinite(slope).all() or np.broadcast(first, slope).shape != first.shape
    if op == 'ReduceProd' and first.dtype.kind == 'f':  # some order of products overflows, another underflows
        exponents = np.log2(np.abs(first[(first != 0) & np.isfinite(first)]).astype(np.float64))
        most = np.finfo(first.dtype).maxexp - 2
        return max(exponents[exponents > 0].sum(), -exponents[exponents < 0].sum()) > most
    if op in ('MatMul', 'Gemm', 'Conv', 'ConvTranspose') and first.dtype.kind == 'f':  # a BLAS may skip zeros, NaN or not
        second = operands[1].array
        return any((a == 0).any() and not np.isfinite(b).all() for a, b in ((first, second), (second, first)))
    if op in ('AveragePool', 'ReduceLogSumExp'):  # it leaves NaN, or infinities, out
        return not np.isfinite(first).all()
    if op == 'Resize':  # it adds neighbours that count for nothing, and zero times infinity is NaN
        return not np.isfinite(first).all()
    if op == 'Split':  # sizes that do not add up
        extent = first.shape[helper.get_node_attr_value(node, 'axis')]
        return extent % len(results) != 0 if len(operands) == 1 else operands[1].array.sum() != extent
    if op == 'ScatterND':  # updates that are broadcast
        return operands[2].shape != operands[1].shape[:-1] + first.shape[operands[1].shape[-1]:]
    if op == 'ScatterElements':  # updates that have no place, or places that have no update
        return operands[2].shape != operands[1].shape
    if op == 'NonMaxSuppression':  # scores of other boxes
        return first.shape[:2] != operands[1].shape[::2]
    return False


class Graph:
    """A network that grows; `random` decides everything about it."""

    def __init__(self, seed):
        self.seed = seed
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.opset = self.random.randrange(13, 21)
        self.dtype = np.dtype(self.random.choices(['f4', 'f8', 'f2'], [18, 1, 1])[0])
        self.special = self.random.random() < 0.06  # NaN and infinities among the inputs
        self.nodes, self.inputs, self.initializers, self.values, self.made = [], [], [], [], 0
        self.known, self.depth = {}, 0  # every value by its name; how many bodies of control flow are open
        self.families, self.own_word = {}, False  # what it grows from; whether onnx's evaluator can't say what comes out

    def chance(self, probability):
        return self.random.random() < probability

    def name(self, stem):
        self.made += 1
        return f'{stem}{self.made}'

    def add(self, stem, array):
        value = self.call(self.name(stem), array)
        self.values.append(value)
        return value

    def call(self, name, array):
        """A value that nothing has rounded."""
        self.known[name] = Value(name, array, (array, array))
        return self.known[name]

    def constant(self, array, dtype=None):
        """An initializer, now and then the node that says the same; it is no candidate for other operands."""
        array = np.asarray(array, dtype)
        value = self.call(self.name('c'), array)
        if self.chance(0.15):
            self.nodes.append(helper.make_node('Constant', [], [value.name], value=numpy_helper.from_array(array)))
        else:
            self.initializers.append(numpy_helper.from_array(array, value.name))
        return value

    def numbers(self, shape, dtype=None):
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        if dtype.kind == 'b':
            return self.numpy.random(shape) < 0.5
        if dtype.kind in 'iu':
            return self.numpy.integers(0 if dtype.kind == 'u' else -6, 12, shape).astype(dtype)
        array = np.asarray(self.numpy.uniform(-2, 2, shape))
        if self.chance(0.1):
            array = np.round(array * 2) / 2  # ties, zeros and negative zeros
        return array.astype(dtype)

    def input(self, shape, dtype=None):
        if self.depth:
            raise Reject
        return self.start(self.special_numbers(shape, dtype))

    def start(self, array):
        value = self.add('x', array)
        self.inputs.append(value)
        return value

    def special_numbers(self, shape, dtype):
        array = self.numbers(shape, dtype)
        if self.special and array.dtype.kind == 'f' and array.size:
            flat = array.reshape(-1)
            for _ in range(self.random.randrange(1, 4)):
                flat[self.random.randrange(flat.size)] = self.random.choice([np.nan, np.inf, -np.inf, -0.0])
        return array

    def fresh(self, shape, dtype=None):
        """Something new of this shape: an input while there are few, else constant."""
        if not self.depth and len(self.inputs) < 4 and self.chance(0.3):
            return self.input(shape, dtype)
        return self.constant(self.numbers(shape, dtype))

    def pick(self, kinds='f', ranks=range(9), where=lambda v: True):
        """One of the values, the newest most likely."""
        fit = [v for v in self.values if v.kind in kinds and v.rank in ranks and where(v)]
        if not fit:
            raise Reject
        return fit[-1 - min(int(self.random.expovariate(0.4)), len(fit) - 1)]

    def evaluate(self, node, operands, copy=None):
        """What a node makes of its operands, or of a noisy copy of them."""
        given = {v.name: v.array if copy is None else v.noisy[copy] for v in operands if v is not None}
        typed = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                 for n, a in given.items()]
        proto = helper.make_graph([node], 'one', typed, [onnx.ValueInfoProto(name=n) for n in node.output if n])
        model = helper.make_model(proto, opset_imports=[helper.make_opsetid('', self.opset)], ir_version=8)
        results = [np.asarray(r) for r in ReferenceEvaluator(model).run(None, given)]
        for r, said in zip(results, onnx.shape_inference.infer_shapes(model, True, True).graph.output):
            kind, dims = said.type.tensor_type.elem_type, said.type.tensor_type.shape.dim
            right = kind and helper.tensor_dtype_to_np_dtype(kind) == r.dtype
            if not right or (said.type.tensor_type.HasField('shape') and len(dims) != r.ndim) or any(
                    d.HasField('dim_value') and d.dim_value != e for d, e in zip(dims, r.shape)):
                raise Reject  # the evaluator's mistake
        return results

    def stands(self, node, operands, results):
        """Whether a node that has steps stays on one side of them when its operands move: all up, all down, each pair of
        elements apart both ways, and to where a small one is none: true turns to false."""
        n_elements = sum(v.array.size for v in operands if v is not None)
        bits = [(bit, sign) for bit in range(n_elements.bit_length()) for sign in (1, -1)]  # places differ in one at least
        for bit, sign in [(None, 1), (None, -1), (None, 0), *bits]:
            moved, place = [], 0
            for v in operands:
                if v is None or v.exact or v.kind != 'f':
                    moved.append(v)
                    continue
                by = max(STEP_MARGIN[v.array.dtype] * max(scale_of(v.array), 1e-3), 4 * spread(v))
                if sign == 0:
                    array = np.where(np.abs(v.array) <= by, 0, v.array)
                elif bit is None:
                    array = v.array + by * sign
                else:
                    places = place + np.arange(v.array.size).reshape(v.shape)
                    array = v.array + by * sign * np.where(places >> bit & 1, 1.0, -1.0)
                place += v.array.size
                moved.append(Value(v.name, v.array, (array.astype(v.array.dtype),), False))
            for found, expected in zip(self.evaluate(node, moved, 0), results):
                if differs(found, expected, 1e-2 if expected.dtype.kind == 'f' else 0):
                    return False
        return True

    def emit(self, op, *operands, n=1, **attributes):
        """Adds a node and gives its value, or a list of values; arrays and lists of integers become constants."""
        if op in SINGLE and operands[0].array.dtype == np.float64:
            raise Reject
        operands = [v if v is None or isinstance(v, Value) else self.constant(v, np.int64 if isinstance(v, list) else None)
                    for v in operands]
        names = [self.name('v') for _ in range(n)]
        node = helper.make_node(op, ['' if v is None else v.name for v in operands], names, **attributes)
        values = random_control.apply(self, node, self.known) if op in random_control.OPERATORS else self.step(node, operands)
        self.nodes.append(node)
        self.values += values
        self.known |= {v.name: v for v in values}
        return values[0] if n == 1 else values

    def step(self, node, operands):
        """The values that one node gives."""
        op = node.op_type
        results = self.evaluate(node, operands)
        for r in results:
            large = r.dtype.kind == 'f' and not self.special and not scale_of(r) * (16 if r.itemsize == 2 else 1) <= LARGEST
            if r.size > MOST_ELEMENTS or r.ndim > 6 or large or (not self.special and not np.isfinite(r).all()):
                raise Reject
        if undefined(node, operands, results):
            raise Reject
        exact = all(v is None or v.exact for v in operands)
        if exact and op in SUMS:
            noisy = [self.evaluate(node, [rounded(v, seed) for v in operands], 0) for seed in (0, 1)]
        else:
            noisy = [results] * 2 if exact else [self.evaluate(node, operands, copy) for copy in (0, 1)]
        # A cast from floats is a step where it ends in integers.
        steps = op in STEPS or (op in ('Cast', 'CastLike') and results[0].dtype.kind != 'f')
        if steps and not exact and not self.stands(node, operands, results):
            raise Reject
        values = []
        for name, r, *copies in zip(node.output, results, *noisy):
            if r.dtype.kind != 'f':
                if not all(np.array_equal(r, copy) for copy in copies):
                    raise Reject
            elif op == 'Gelu':  # x * (1 + erf(x / sqrt(2))) / 2 is rounded at the size of x, however small it is
                x = operands[0].array
                copies = [np.asarray(copy + x * self.noise(r)).astype(r.dtype) for copy in copies]
            elif op not in EXACT:
                copies = [np.asarray(copy * (1 + self.noise(r))).astype(r.dtype) for copy in copies]
            values.append(Value(name, r, tuple(copies), r.dtype.kind != 'f' or (exact and op in EXACT)))
        return values

    def grow(self, n_nodes):
        """Calls families at random until there are as many nodes more; what one can't finish is taken back."""
        tries, end = 0, len(self.nodes) + n_nodes
        while len(self.nodes) < end and tries < 8 * n_nodes:
            tries += 1
            before = [len(x) for x in (self.nodes, self.inputs, self.initializers, self.values)]
            try:
                self.random.choices(list(self.families), list(self.families.values()))[0](self)
            except Exception:  # the evaluator raises whatever numpy does with operands that an operator does not take
                for x, length in zip((self.nodes, self.inputs, self.initializers, self.values), before):
                    del x[length:]

    def noise(self, array):
        """By which part its elements may be off: none by nearly nothing, or one element alone would seem stable by luck."""
        drawn = self.numpy.uniform(-1, 1, array.shape)
        return NOISE[array.dtype] * (drawn + np.sign(drawn)) / 2

    def stable(self, value):
        if value.kind == 'f' and scale_of(value.array) and scale_of(value.array) < 1e-5:
            return False
        return not any(differs(copy, value.array, UNSTABLE.get(value.array.dtype, 0)) for copy in value.noisy)

    def outputs(self):
        """All ends, and some values in the middle."""
        used = {n for node in self.nodes for n in node.input}
        made = {n for node in self.nodes if node.op_type != 'Constant' for n in node.output}
        found = [v for v in self.values if v.name in made and (v.name not in used or self.chance(0.15)) and self.stable(v)]
        self.random.shuffle(found)
        return found

    def model(self):
        """A model, its inputs and its expected outputs, by name."""
        outputs = self.outputs()
        if not outputs:
            raise Reject
        if self.chance(0.2):
            self.constant(self.numbers((3, 2)))  # nobody uses it
        info = lambda v, open_: helper.make_tensor_value_info(
            v.name, helper.np_dtype_to_tensor_dtype(v.array.dtype), [None] * v.rank if open_ else v.shape)
        inputs = [info(v, False) for v in self.inputs]
        if self.chance(0.15):  # the first extent of an input is known only when it is bound
            for i in inputs:
                if i.type.tensor_type.shape.dim:
                    i.type.tensor_type.shape.dim[0].dim_param = f'n_{i.name}'
        graph = helper.make_graph(self.nodes, f'random {self.seed}', inputs, [info(v, self.chance(0.1)) for v in outputs],
                                  self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', self.opset)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        given = {v.name: v.array for v in self.inputs}
        expected = {v.name: v.array for v in outputs}
        if not self.own_word:
            found = dict(zip(expected, map(np.asarray, ReferenceEvaluator(model).run(None, given))))
            for name, array in expected.items():
                assert not differs(found[name], array, 0), f'the evaluator contradicts itself on {name}'
        return model, given, expected
