"""Tensors of strings by the command line: .npz of NumPy's unicode type, plans in files, errors."""
import numpy as np
import pytest

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
from onnx import TensorProto, helper  # noqa: E402

WORDS = np.array([['red', 'Gr\u00fcn', ''], ['blue', 'red', '\u65e5\u672c']])


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*o) for o in outputs], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 20)], ir_version=11)


def test_the_command_line(weft):
    it = model([helper.make_node('StringConcat', ['x', 'c'], ['y'])], [('x', TensorProto.STRING, [2, 3])],
               [('y', TensorProto.STRING, [2, 3])], [helper.make_tensor('c', TensorProto.STRING, [1], ['\u2026'.encode()])])
    onnx.save(it, weft.folder / 'm.onnx')
    for order, array in (('C', WORDS), ('F', np.asfortranarray(WORDS)), ('>', WORDS.astype('>U9'))):
        assert weft.run('m.onnx', {'x': array})['y'].tolist() == np.char.add(WORDS, '\u2026').tolist(), order
    weft('build', 'm.onnx', '-o', 'm.plan', '--budget', '0')
    assert weft.run('m.plan', {'x': WORDS})['y'].tolist() == np.char.add(WORDS, '\u2026').tolist()
    assert 'string[2, 3]' in weft('inspect', 'm.plan')
    weft('run', 'm.onnx')  # on words that it makes itself
    np.savez(weft.folder / 'pickled.npz', x=WORDS.astype(object))
    weft('run', 'm.onnx', '--inputs', 'pickled.npz', code=3)
    assert 'is not taken' in weft.said


def test_what_is_refused(weft):
    it = model([helper.make_node('RegexFullMatch', ['x'], ['y'], name='it', pattern='(')], [('x', TensorProto.STRING, [2])],
               [('y', TensorProto.BOOL, [2])])
    onnx.save(it, weft.folder / 'm.onnx')
    weft('build', 'm.onnx', '-o', 'm.plan', '--budget', '0', code=4)
    assert 'no regular expression' in weft.said and '"it"' in weft.said
    it = model([helper.make_node('StringNormalizer', ['x'], ['y'], name='it', locale='tr_TR')], [('x', TensorProto.STRING, [2])],
               [('y', TensorProto.STRING, None)])
    onnx.save(it, weft.folder / 'm.onnx')
    weft('check', 'm.onnx', code=4)
    assert 'tr_TR' in weft.said and '"it"' in weft.said


def test_the_reference_stacks_rows_of_strings(weft):
    body = helper.make_graph(
        [helper.make_node('Identity', ['go_on'], ['goes_on']), helper.make_node('StringConcat', ['x', 'c'], ['row'])], 'body',
        [helper.make_tensor_value_info('i', TensorProto.INT64, []), helper.make_tensor_value_info('go_on', TensorProto.BOOL, [])],
        [helper.make_tensor_value_info('goes_on', TensorProto.BOOL, []),
         helper.make_tensor_value_info('row', TensorProto.STRING, [2, 3])])
    it = model([helper.make_node('Loop', ['n', ''], ['rows'], body=body), helper.make_node('Equal', ['rows', 'red'], ['same']),
                helper.make_node('Cast', ['same'], ['y'], to=TensorProto.FLOAT)],
               [('x', TensorProto.STRING, [2, 3]), ('n', TensorProto.INT64, [])], [('y', TensorProto.FLOAT, None)],
               [helper.make_tensor('c', TensorProto.STRING, [1], [b'!']), helper.make_tensor('red', TensorProto.STRING, [1], [b'red!'])])
    onnx.save(it, weft.folder / 'm.onnx')
    inputs = {'x': WORDS, 'n': np.int64(3)}
    assert weft.run('m.onnx', inputs)['y'].tolist() == [(WORDS == 'red').astype(np.float32).tolist()] * 3
    accuracy = weft.json('compare', 'm.onnx', '--inputs', 'inputs.npz', '--against', 'reference', '--runs', '1')['accuracy']
    assert [a['max_abs'] for a in accuracy.values()] == [0]
