#!/usr/bin/env python3
"""Models that fuzzing starts from, written to seeds/import_onnx: what tests/fuzz/models.cpp does not make.

Old forms of operators, functions that call each other, tensors in every way to store them, types that are no tensors.
"""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEEDS = Path(__file__).parent / 'seeds/import_onnx'
F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def info(name, shape=(2, 3), dtype=F32):
    return helper.make_tensor_value_info(name, dtype, shape)


def write(name, nodes, inputs, outputs, opset, initializers=(), functions=(), domains=(), **rest):
    graph = helper.make_graph(nodes, 'g', inputs, outputs, list(initializers), **rest)
    imports = [helper.make_opsetid('', opset), *(helper.make_opsetid(d, v) for d, v in domains)]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)
    (SEEDS / f'{name}.onnx').write_bytes(model.SerializeToString())


def old_forms():
    picture = info('x', (1, 2, 4, 4))
    scale = [numpy_helper.from_array(np.ones(2, np.float32), n) for n in ('s', 'b', 'm', 'v')]
    write('opset_1', [helper.make_node('Add', ['x', 'w'], ['t'], axis=0, broadcast=1, consumed_inputs=[0, 0]),
                      helper.make_node('Slice', ['t'], ['u'], axes=[0], starts=[0], ends=[-1]),
                      helper.make_node('Cast', ['u'], ['y'], to='INT64')], [info('x')], [info('y', None, I64)], 1,
          [numpy_helper.from_array(np.ones(2, np.float32), 'w')])
    write('opset_6', [helper.make_node('BatchNormalization', ['x', *'sbmv'], ['n'], is_test=1),
                      helper.make_node('Reshape', ['n', 'to'], ['r']), helper.make_node('Dropout', ['r'], ['y'], is_test=1, ratio=0.5)],
          [picture], [info('y', None)], 6, [*scale, numpy_helper.from_array(np.array([0, -1]), 'to')])
    write('opset_8', [helper.make_node('Upsample', ['x'], ['u'], scales=[1.0, 1.0, 2.0, 2.0], mode='nearest'),
                      helper.make_node('Pad', ['u'], ['p'], pads=[0, 0, 1, 1, 0, 0, 1, 1], mode='edge'),
                      helper.make_node('TopK', ['p'], ['y', 'at'], k=2, axis=-1)], [picture], [info('y', None), info('at', None, I64)], 8)
    write('opset_10', [helper.make_node('Squeeze', ['x'], ['q'], axes=[0]), helper.make_node('Clip', ['q'], ['c'], min=0.0),
                       helper.make_node('ReduceSum', ['c'], ['r'], axes=[1], keepdims=0), helper.make_node('Softmax', ['r'], ['y'], axis=0)],
          [picture], [info('y', None)], 10)


def functions():
    inner = helper.make_function('own', 'Twice', ['a'], ['b'], [helper.make_node('Constant', [], ['two'], value_float=2.0),
                                                                 helper.make_node('Mul', ['a', 'two'], ['b'])], [helper.make_opsetid('', 17)])
    scaled = helper.make_node('LeakyRelu', ['a'], ['t'])
    scaled.attribute.append(onnx.AttributeProto(name='alpha', type=onnx.AttributeProto.FLOAT, ref_attr_name='slope'))
    outer = helper.make_function('own', 'Act', ['a', 'c'], ['b'], [scaled, helper.make_node('Twice', ['t'], ['b'], domain='own')],
                                 [helper.make_opsetid('', 17), helper.make_opsetid('own', 1)], ['slope'])
    write('functions', [helper.make_node('Act', ['x', ''], ['y'], domain='own', slope=0.5)], [info('x')], [info('y')], 17,
          functions=[inner, outer], domains=[('own', 1)])


def storage():
    dense = [helper.make_tensor(f't{d}', d, [2], [0, 1]) for d in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 17, 21, 22, 23)]
    outside = TensorProto(name='far', data_type=F32, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in dict(location='w.bin', offset='4096', length='24').items():
        outside.external_data.add(key=key, value=value)
    sparse = helper.make_sparse_tensor(helper.make_tensor('few', F32, [1], [5.0]), helper.make_tensor('at', I64, [1], [4]), [2, 3])
    read = [helper.make_node('Shape', [t.name], ['s' + t.name]) for t in dense]
    write('storage', [*read, helper.make_node('Concat', ['s' + t.name for t in dense], ['y'], axis=0)], [], [info('y', None, I64)],
          23, dense)
    write('sparse', [helper.make_node('Add', ['x', 'few'], ['y'])], [info('x')], [info('y')], 17, sparse_initializer=[sparse])
    write('external', [helper.make_node('Add', ['x', 'far'], ['y'])], [info('x')], [info('y')], 17, [outside])


def control():
    body = helper.make_graph([helper.make_node('Identity', ['go'], ['on']), helper.make_node('Add', ['s', 'x'], ['t']),
                              helper.make_node('SequenceInsert', ['q', 't'], ['r'])], 'body',
                             [info('i', (), I64), info('go', (), TensorProto.BOOL), info('s', None), helper.make_tensor_sequence_value_info('q', F32, None)],
                             [info('on', (), TensorProto.BOOL), info('t', None), helper.make_tensor_sequence_value_info('r', F32, None)])
    write('loop_of_sequences', [helper.make_node('SequenceEmpty', [], ['none'], dtype=F32),
                                helper.make_node('Loop', ['n', '', 'x', 'none'], ['y', 'all'], body=body),
                                helper.make_node('ConcatFromSequence', ['all'], ['z'], axis=0, new_axis=1)],
          [info('n', (), I64), info('x', ('rows', 3))], [info('y', None), info('z', None)], 17)
    step = helper.make_graph([helper.make_node('Add', ['r', 'e'], ['t']), helper.make_node('Identity', ['t'], ['o'])], 'step',
                             [info('r', (3,)), info('e', (3,))], [info('t', (3,)), info('o', (3,))])
    write('scan_8', [helper.make_node('Scan', ['', 's', 'x'], ['y', 'z'], body=step, num_scan_inputs=1)],
          [info('s', (1, 3)), info('x', (1, 4, 3))], [info('y', None), info('z', None)], 8)
    branch = lambda op, name: helper.make_graph([helper.make_node(op, ['x'], [name])], name, [], [info(name, None)])
    write('branches', [helper.make_node('Greater', ['x', 'zero'], ['g']), helper.make_node('Cast', ['g'], ['i'], to=I64),
                       helper.make_node('ReduceMax', ['i'], ['any'], keepdims=0),
                       helper.make_node('Cast', ['any'], ['c'], to=TensorProto.BOOL),
                       helper.make_node('If', ['c'], ['y'], then_branch=branch('NonZero', 'a'), else_branch=branch('Shape', 'b'))],
          [info('x', ('n', 'm'))], [info('y', None, I64)], 17, [numpy_helper.from_array(np.zeros((), np.float32), 'zero')])


def mazes():
    """Shapes computed from shapes, as exporters write them."""
    constant = lambda name, *values: numpy_helper.from_array(np.array(values), name)
    write('maze', [helper.make_node('Shape', ['x'], ['s']), helper.make_node('Gather', ['s', 'zero'], ['n'], axis=0),
                   helper.make_node('Mul', ['n', 'two'], ['d']), helper.make_node('Div', ['d', 'three'], ['q']),
                   helper.make_node('Concat', ['zero', 'less', 'three'], ['to'], axis=0), helper.make_node('Reshape', ['x', 'to'], ['r']),
                   helper.make_node('Slice', ['r', 'zero', 'q', 'zero'], ['y'])],
          [info('x', ('batch', 4, 3))], [info('y', None)], 17,
          [constant('zero', 0), constant('two', 2), constant('three', 3), constant('less', -1)])


def integers():
    """Where what a rewrite does is seen to the last bit."""
    constant = lambda name, values, dtype=np.int64: numpy_helper.from_array(np.array(values, dtype), name)
    write('integers', [helper.make_node('Mul', ['x', 'two'], ['a']), helper.make_node('Add', ['a', 'row'], ['b']),
                       helper.make_node('Transpose', ['b'], ['c'], perm=[1, 0]), helper.make_node('Reshape', ['c', 'flat'], ['d']),
                       helper.make_node('Gather', ['d', 'at'], ['e']), helper.make_node('Less', ['e', 'two'], ['f']),
                       helper.make_node('Where', ['f', 'e', 'two'], ['g']), helper.make_node('Concat', ['g', 'g'], ['h'], axis=0),
                       helper.make_node('ReduceMax', ['b'], ['i'], axes=[1], keepdims=0), helper.make_node('Mod', ['b', 'two'], ['j'])],
          [info('x', (2, 3), I64)], [info('h', None, I64), info('i', None, I64), info('j', None, I64)], 17,
          [constant('two', 2), constant('row', [1, -2, 3]), constant('flat', [-1]), constant('at', [0, -1, 4])])


def main():
    SEEDS.mkdir(parents=True, exist_ok=True)
    for family in (old_forms, functions, storage, control, mazes, integers):
        family()


if __name__ == '__main__':
    main()
