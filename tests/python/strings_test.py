"""Tensors of strings: operators against the onnx package's reference evaluator, and arrays in and out."""
import numpy as np
import pytest

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
pytest.importorskip('ml_dtypes', reason='weft.backend wants it')
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

WORDS = np.array([['red', 'Gr\u00fcn', ''], ['blue', 'red', '\u65e5\u672c']])


def model(nodes, inputs, outputs, initializers=(), **opsets):
    graph = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*o) for o in outputs], list(initializers))
    imports = [helper.make_opsetid(d.replace('_', '.'), v) for d, v in opsets.items()]
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 20), *imports], ir_version=11)


def movers():
    """(operator, inputs beside x, attributes)."""
    yield 'Gather', [np.array([1, 0, -1])], {'axis': 1}
    yield 'Transpose', [], {'perm': [1, 0]}
    yield 'Reshape', [np.array([3, 2])], {}
    yield 'Expand', [np.array([2, 2, 3])], {}
    yield 'Tile', [np.array([1, 2])], {}
    yield 'Slice', [np.array([0]), np.array([2]), np.array([1])], {}
    yield 'Concat', [np.array([['x', 'y', 'z']], dtype=object)], {'axis': 0}
    yield 'Where', [np.array([['-']], dtype=object)], {}
    yield 'Equal', [np.array(['red', 'red', ''], dtype=object)], {}
    yield 'StringConcat', [np.array([['!'], ['?']], dtype=object)], {}
    yield 'RegexFullMatch', [], {'pattern': 'r.*|[a-f]lue'}
    yield 'Identity', [], {}
    yield 'Shape', [], {}


@pytest.mark.parametrize('op, others, attributes', list(movers()), ids=lambda v: v if isinstance(v, str) else '')
@pytest.mark.parametrize('constant', [False, True])
def test_operators(weft, cache, op, others, attributes, constant):
    from weft.backend import WeftRep
    names = ['x', *(f'c{i}' for i in range(len(others)))]
    if op == 'Where':
        names, others = ['c1', 'x', 'c0'], [*others, np.array([[True], [False]])]
    kept = [numpy_helper.from_array(array, f'c{i}') for i, array in enumerate(others)]
    given = [helper.make_tensor_value_info(k.name, k.data_type, list(k.dims)) for k in kept]
    nodes = [helper.make_node(op, names, ['y'], **attributes)]
    fixed = constant or op in ('Reshape', 'Expand', 'Tile', 'Slice')
    graph = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info('x', TensorProto.STRING, [2, 3]), *([] if fixed else given)],
                              [onnx.ValueInfoProto(name='y')], kept if fixed else [])
    it = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 20)], ir_version=11)
    inputs = {'x': WORDS.astype(object)} | ({} if fixed else dict(zip((k.name for k in kept), others)))
    expected, = ReferenceEvaluator(it).run(None, inputs)
    found, = WeftRep(it, cache_dir=cache).run(inputs)
    assert found.shape == expected.shape and found.tolist() == expected.tolist()


@pytest.mark.parametrize('array', [WORDS, WORDS.astype(object), np.char.encode(WORDS, 'utf-8')], ids=['U', 'O', 'S'])
def test_arrays_of_python(weft, cache, tmp_path, array):
    it = model([helper.make_node('Identity', ['x'], ['y'])], [('x', TensorProto.STRING, ['n', 3])], [('y', TensorProto.STRING, ['n', 3])])
    onnx.save(it, tmp_path / 'm.onnx')
    plan = weft.build(tmp_path / 'm.onnx', shapes={'x': array.shape}, cache_dir=cache)
    plan.save(tmp_path / 'm.plan')
    for each in (plan, weft.load(tmp_path / 'm.plan', cache_dir=cache)):
        assert each.inputs[0].element == 'string' and each.run([array])['y'].tolist() == WORDS.tolist()
    with pytest.raises(weft.Error, match='an element of int'):
        plan.run([np.full((2, 3), 7, dtype=object)])
    with pytest.raises(weft.Error, match='expected'):
        plan.run([np.zeros((2, 3), np.float32)])
    with pytest.raises(weft.Error, match='found inputs'):
        plan.run([array[:1]])


def test_what_is_no_utf8_passes(weft, cache, tmp_path):
    it = model([helper.make_node('StringConcat', ['x', 'c'], ['y'])], [('x', TensorProto.STRING, [2])], [('y', TensorProto.STRING, [2])],
               [helper.make_tensor('c', TensorProto.STRING, [1], [b'\0\xff'])])
    onnx.save(it, tmp_path / 'm.onnx')
    plan = weft.build(tmp_path / 'm.onnx', cache_dir=cache)
    found = plan.run([np.array([b'a', 'b'], dtype=object)])['y']
    assert [s.encode('utf-8', 'surrogateescape') for s in found] == [b'a\0\xff', b'b\0\xff']


@pytest.mark.parametrize('op, attributes, numbers', [
    ('CategoryMapper', {'cats_strings': ['red', 'blue', ''], 'cats_int64s': [7, -2, 5]}, [7, -2, 5]),
    ('LabelEncoder', {'classes_strings': ['red', 'blue', '']}, [0, 1, 2])])
@pytest.mark.parametrize('default', [False, True])
def test_words_and_numbers(weft, cache, op, attributes, numbers, default):
    """The first forms, which the evaluator lacks: what an operand holds says which way."""
    from weft.backend import WeftRep
    words, none = ['red', 'blue', ''], {'default_int64': 9, 'default_string': '?'} if default else {}
    there, back = dict(zip(words, numbers)), dict(zip(numbers, words))

    def run(x, given, made, attribute):
        node = helper.make_node(op, ['x'], ['y'], domain='ai.onnx.ml', **attributes, **{n: v for n, v in none.items() if n == attribute})
        it = model([node], [('x', given, list(x.shape))], [('y', made, None)], ai_onnx_ml=1)
        return WeftRep(it, cache_dir=cache).run({'x': x})[0]

    missing = (9, '?') if default else (-1, '_Unused')
    found = run(WORDS.astype(object), TensorProto.STRING, TensorProto.INT64, 'default_int64')
    assert found.dtype == np.int64 and found.tolist() == [[there.get(w, missing[0]) for w in row] for row in WORDS]
    x = np.array([[*numbers, 3], [-1, 2**40, numbers[1], 8]])
    found = run(x, TensorProto.INT64, TensorProto.STRING, 'default_string')
    assert found.tolist() == [[back.get(n, missing[1]) for n in row] for row in x.tolist()]


def test_a_classifier_of_words(weft, cache):
    """What a run splits decides what follows; labels go by words."""
    from weft.backend import WeftRep
    it = model([helper.make_node('StringSplit', ['x'], ['parts', 'count'], delimiter=' '),
                helper.make_node('LabelEncoder', ['parts'], ['codes'], domain='ai.onnx.ml', keys_strings=['red', 'blue'],
                                 values_int64s=[1, 2], default_int64=0),
                helper.make_node('LabelEncoder', ['codes'], ['y'], domain='ai.onnx.ml', keys_int64s=[1, 2],
                                 values_strings=['warm', 'cold'], default_string='?')],
               [('x', TensorProto.STRING, ['n'])], [('y', TensorProto.STRING, None), ('count', TensorProto.INT64, ['n'])], ai_onnx_ml=4)
    rep = WeftRep(it, cache_dir=cache)
    for words in (['red blue', 'green'], ['a b c']):
        y, count = rep.run([np.array(words, dtype=object)])
        most = max(w.count(' ') for w in words) + 1
        assert count.tolist() == [w.count(' ') + 1 for w in words] and y.shape == (len(words), most)
        assert y[0, 0] == ('warm' if words[0].startswith('red') else '?')
