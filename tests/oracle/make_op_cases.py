"""Cases for operators: single-node graphs with inputs and the outputs that ONNX says they have.

    python make_op_cases.py FILE

writes every single-node case of the onnx package's own backend suite that concerns tensors of the types
that weft has, and the seeded cases of op_cases.py, whose outputs come from onnx's reference evaluator (or
onnxruntime, where that one has no answer or a wrong one). FILE is a sequence of records, each a line of
text and, where the line ends in a count, that many bytes:

    case NAME OPERATOR
    graph BYTES         the text form of the graph
    input NAME BYTES    raw elements, in the order of the graph's inputs
    output NAME BYTES
    skipped NAME REASON
"""
import sys
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test.case.node import collect_testcases

import op_cases

DTYPES = {np.dtype(t): name for t, name in [
    (np.bool_, 'bool'), (np.uint8, 'u8'), (np.int8, 'i8'), (np.uint16, 'u16'), (np.int16, 'i16'), (np.uint32, 'u32'),
    (np.int32, 'i32'), (np.uint64, 'u64'), (np.int64, 'i64'), (np.float16, 'f16'), (np.float32, 'f32'),
    (np.float64, 'f64')]}
import ml_dtypes  # noqa: E402  (numpy has no bfloat16 of its own)
DTYPES[np.dtype(ml_dtypes.bfloat16)] = 'bf16'
DTYPES |= {np.dtype(ml_dtypes.int4): 'i4', np.dtype(ml_dtypes.uint4): 'u4'}

# Operands that say what to do rather than what with: constants in every real network.
CONSTANT_INPUTS = {
    'Reshape': [1], 'Squeeze': [1], 'Unsqueeze': [1], 'Slice': [1, 2, 3, 4], 'Pad': [1, 2, 3], 'Expand': [1],
    'Tile': [1], 'Resize': [1, 2, 3], 'CumSum': [1], 'CumProd': [1], 'OneHot': [1], 'Trilu': [1], 'Range': [0, 1, 2],
    'ConstantOfShape': [0], 'CenterCropPad': [1], 'Dropout': [1, 2], 'Col2Im': [1, 2], 'DFT': [1, 2], 'STFT': [1, 3],
    'MelWeightMatrix': [0, 1, 2, 3, 4], 'Split': [1], **{f'Reduce{kind}': [1] for kind in (
        'L1', 'L2', 'LogSum', 'LogSumExp', 'Max', 'Mean', 'Min', 'Prod', 'Sum', 'SumSquare')}}


class Skip(Exception):
    """Why a case is left out."""


def quote(name):
    return '"' + name.replace('\\', '\\\\').replace('"', '\\"') + '"'


def type_of(array):
    if not isinstance(array, np.ndarray) or array.dtype not in DTYPES:
        raise Skip(f'the element type {getattr(array, "dtype", type(array).__name__)}')
    return f'{DTYPES[array.dtype]}[{", ".join(map(str, array.shape))}]'


def number(value):
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, (int, np.integer)) or DTYPES.get(getattr(value, 'dtype', None)) in ('i4', 'u4'):
        return str(int(value))
    text = repr(float(value))
    return text if any(c in text for c in '.enif') else text + '.0'


def raw(array):
    """Elements as they lie in a tensor: those of four bits two in a byte, which numpy has in a byte each."""
    if DTYPES[array.dtype] not in ('i4', 'u4'):
        return np.ascontiguousarray(array).tobytes()
    halves = np.append(array.astype(np.int8).flatten() & 15, [0] * (array.size % 2)).astype(np.uint8)
    return (halves[::2] | halves[1::2] << 4).tobytes()


def const(array):
    return f'const({", ".join(number(v) for v in array.flatten())})'


def attribute(a):
    value = onnx.helper.get_attribute_value(a)
    if a.type == onnx.AttributeProto.STRING:
        return quote(value.decode())
    if a.type in (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT):
        return number(value)
    if a.type == onnx.AttributeProto.INTS or (a.type == onnx.AttributeProto.FLOATS and value):
        return f'[{", ".join(map(number, value))}]'
    if a.type == onnx.AttributeProto.TENSOR:
        array = onnx.numpy_helper.to_array(value)
        return f'{type_of(array)} {const(array)}'
    raise Skip(f'the attribute {a.name}')


def graph_text(name, node, inputs, outputs):
    """inputs and outputs: arrays by value name. Returns the text and the names that are graph inputs."""
    fixed = {node.input[i] for i in CONSTANT_INPUTS.get(node.op_type, []) if i < len(node.input)}
    fixed |= {n for i, n in enumerate(node.input) if i in op_cases.FOLDED.get(name, [])}
    fixed -= {''}
    free = [n for n in dict.fromkeys(node.input) if n and n not in fixed]
    header = ', '.join(f'{quote(n)}: {type_of(inputs[n])}' for n in free)
    lines = [f'graph {quote(name)} ({header}) -> ({", ".join(quote(n) for n in node.output if n)}) {{']
    lines += [f'  {quote(n)}: {type_of(inputs[n])} = {const(inputs[n])}' for n in sorted(fixed)]
    left = ', '.join(f'{quote(n)}: {type_of(outputs[n])}' if n else '_' for n in node.output)
    operands = ', '.join(quote(n) if n else '_' for n in node.input)
    attributes = ', '.join([f'name = {quote("/" + name)}'] + [f'{a.name} = {attribute(a)}' for a in node.attribute])
    lines += [f'  {left} = {node.op_type}({operands}) {{{attributes}}}', '}', '']
    return '\n'.join(lines), free


class Writer:
    def __init__(self, file):
        self.file = file

    def record(self, line, data=None):
        self.file.write((line if data is None else f'{line} {len(data)}').encode() + b'\n' + (data or b''))

    def case(self, name, node, inputs, outputs):
        try:
            if node.domain not in ('', 'ai.onnx'):
                raise Skip(f'the domain {node.domain}')
            text, free = graph_text(name, node, inputs, outputs)
        except Skip as reason:
            return self.record(f'skipped {name} {reason}')
        self.record(f'case {name} {node.op_type}')
        self.record('graph', text.encode())
        for n in free:
            self.record(f'input {n.replace(" ", "_")}', raw(inputs[n]))
        for n in node.output:
            if n:
                self.record(f'output {n.replace(" ", "_")}', raw(outputs[n]))


def backend_cases(writer):
    for case in collect_testcases(''):
        graph = case.model.graph
        opset = max([o.version for o in case.model.opset_import if o.domain in ('', 'ai.onnx')] or [0])
        if len(graph.node) != 1:
            writer.record(f'skipped {case.name} {len(graph.node)} nodes')
        elif case.name in op_cases.NOT_THE_NEWEST_FORM:
            writer.record(f'skipped {case.name} written for opset {opset}')
        else:
            inputs, outputs = case.data_sets[0]
            writer.case(case.name, graph.node[0], dict(zip((i.name for i in graph.input), map(as_array, inputs))),
                        dict(zip((o.name for o in graph.output), map(as_array, outputs))))


def as_array(value):
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, (np.generic, int, float)) else value


def main():
    warnings.simplefilter('ignore')  # infinities and empty reductions are among the cases
    with open(sys.argv[1], 'wb') as file:
        writer = Writer(file)
        backend_cases(writer)
        for name, node, inputs, outputs in op_cases.seeded():
            writer.case(name, node, inputs, outputs)


if __name__ == '__main__':
    main()
