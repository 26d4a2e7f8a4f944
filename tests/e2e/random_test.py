"""Random numbers: with a seed those of the reference evaluator, without one those of the node's place."""
import numpy as np
import pytest
from numpy.random import RandomState

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

FLOATS = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16]


def info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model_of(nodes, outputs, arrays, opset=22, shapes=None):
    inputs = [info(n, a) for n, a in arrays.items()]
    if shapes:
        inputs = [helper.make_tensor_value_info(n, i.type.tensor_type.elem_type, shapes[n]) for n, i in zip(arrays, inputs)]
    graph = helper.make_graph(nodes, 'g', inputs, [onnx.ValueInfoProto(name=o) for o in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', opset)], ir_version=10)


def run(weft, nodes, outputs, arrays=None, *options, **how):
    model = model_of(nodes, outputs, arrays or {}, **how)
    onnx.save(model, weft.folder / 'model.onnx')
    return weft.run('model.onnx', arrays or {}, *options), model


def exactly(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert np.array_equal(found, expected), np.abs(found - expected).max()


def test_what_a_seed_gives_is_what_the_evaluator_draws(weft):
    arrays = {'like': np.zeros((4, 25), np.float32), 'p': RandomState(9).uniform(1e-3, 1, (30, 7)).astype(np.float32)}
    nodes, outputs = [], []
    for k, (dtype, seed) in enumerate((d, s) for d in FLOATS for s in (0.0, 1.0, 77.9, 1e9, float(2**32 - 256))):
        for op, attributes in (('RandomNormal', {'mean': 0.3, 'scale': 1.7, 'shape': [3, 1 + k]}),
                               ('RandomNormal', {'shape': [2, 0, 3]}),
                               ('RandomUniform', {'low': -0.7, 'high': 2.1, 'shape': [1 + k, 2, 3]}),
                               ('RandomNormalLike', {'mean': -2.0}), ('RandomUniformLike', {}), ('Bernoulli', {})):
            inputs = ['like'] if op.endswith('Like') else ['p'] if op == 'Bernoulli' else []
            drawn, y = f'{op}{k}_{len(nodes)}', f'y{len(nodes)}'
            nodes.append(helper.make_node(op, inputs, [drawn], dtype=dtype, seed=seed, **attributes))
            nodes.append(helper.make_node('Cast', [drawn], [y], to=TensorProto.DOUBLE))
            outputs.append(y)
    found, model = run(weft, nodes, outputs, arrays)
    for name, expected in zip(outputs, ReferenceEvaluator(model).run(None, arrays)):
        exactly(found[name], expected)


@pytest.mark.parametrize('seed, key', [(-1.0, [2**32 - 1, 2**32 - 1]), (2.0**40, [0, 256]), (float('inf'), [2**32 - 1, 2**31 - 1])])
def test_seeds_that_numpy_refuses_are_keys_of_two_words(weft, seed, key):
    found, _ = run(weft, [helper.make_node('RandomUniform', [], ['y'], shape=[700], dtype=TensorProto.DOUBLE, seed=seed)], ['y'])
    exactly(found['y'], RandomState(key).rand(700))


def test_nodes_without_a_seed_draw_by_their_place(weft):
    like = {'x': np.zeros((5, 300), np.float64)}
    nodes = [helper.make_node('RandomNormalLike', ['x'], ['a']), helper.make_node('RandomUniformLike', ['x'], ['b']),
             helper.make_node('RandomNormalLike', ['x'], ['c'], seed=float('nan')),
             helper.make_node('Sub', ['c', 'a'], ['d'])]
    found, _ = run(weft, nodes, ['a', 'b', 'c', 'd'], like, '--threads', '1')
    exactly(found['a'], RandomState([0]).randn(5, 300))
    exactly(found['b'], RandomState([1]).rand(5, 300))
    exactly(found['c'], RandomState([2]).randn(5, 300))
    assert np.count_nonzero(found['d']) == found['d'].size
    again, _ = run(weft, nodes, ['a', 'b', 'c', 'd'], like, '--threads', '2')
    for name in 'abcd':
        exactly(again[name], found[name])


def loop_of(body_nodes, result):
    body = helper.make_graph(
        body_nodes + [helper.make_node('Identity', ['go'], ['on'])], 'body',
        [helper.make_tensor_value_info('i', TensorProto.INT64, []), helper.make_tensor_value_info('go', TensorProto.BOOL, [])],
        [helper.make_tensor_value_info('on', TensorProto.BOOL, []), onnx.ValueInfoProto(name=result)])
    return helper.make_node('Loop', ['trips', ''], ['y'], body=body)


@pytest.mark.parametrize('constant', [True, False], ids=['copied', 'run'])
def test_trips_of_a_loop_differ(weft, constant):
    branch = [helper.make_graph([helper.make_node(op, [], [op.lower()], shape=[50], dtype=TensorProto.DOUBLE)], op, [],
                                [onnx.ValueInfoProto(name=op.lower())]) for op in ('RandomNormal', 'RandomUniform')]
    body = [helper.make_node('RandomUniform', [], ['u'], shape=[50], dtype=TensorProto.DOUBLE),
            helper.make_node('RandomUniform', [], ['same'], shape=[50], dtype=TensorProto.DOUBLE, seed=3.0),
            helper.make_node('Less', ['i', 'two'], ['early']),
            helper.make_node('If', ['early'], ['v'], then_branch=branch[0], else_branch=branch[1]),
            helper.make_node('Concat', ['u', 'same', 'v'], ['row'], axis=0)]
    nodes = [helper.make_node('Constant', [], ['two'], value_int=2)]
    arrays = {} if constant else {'trips': np.asarray(4)}
    if constant:
        nodes.append(helper.make_node('Constant', [], ['trips'], value_int=4))
    found, _ = run(weft, [*nodes, loop_of(body, 'row')], ['y'], arrays)
    for i in range(4):
        v = RandomState([3, i]).randn(50) if i < 2 else RandomState([2, i]).rand(50)  # else_branch is first
        exactly(found['y'][i], np.concatenate([RandomState([0, i]).rand(50), RandomState(3).rand(50), v]))


@pytest.mark.parametrize('dtype', [np.int32, np.int64])
def test_multinomial_chooses_as_numpy_does(weft, dtype):
    x = RandomState(5).randn(6, 11).astype(np.float32)
    x[2, 3:] = -np.inf
    node = helper.make_node('Multinomial', ['x'], ['y'], sample_size=400, seed=8.0, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    found, _ = run(weft, [node], ['y'], {'x': x})
    state, expected = RandomState(8), []
    for row in x.astype(np.float64):
        p = np.exp(row - row.max())
        expected.append(state.choice(11, 400, p=p / p.sum()))
    exactly(found['y'], np.asarray(expected, dtype))


@pytest.mark.parametrize('dtype', [np.float32, np.float64, np.float16])
@pytest.mark.parametrize('training', ['constant', True, False])
def test_dropout_in_training(weft, training, dtype):
    x = RandomState(1).randn(7, 31).astype(dtype)
    x[0, :9] = np.inf, -np.inf, np.nan, 0, -0.0, 1, np.inf, np.inf, np.inf
    arrays, nodes = {'x': x, 'r': np.asarray(0.3, np.float32)}, []
    if training == 'constant':
        nodes.append(helper.make_node('Constant', [], ['t'], value=helper.make_tensor('t', TensorProto.BOOL, [], [True])))
    else:
        arrays['t'] = np.asarray(training)
    found, _ = run(weft, [*nodes, helper.make_node('Dropout', ['x', 'r', 't'], ['y', 'mask'], seed=12)], ['y', 'mask'], arrays)
    kept = (RandomState(12).rand(7, 31) >= arrays['r']) | (training is False)
    exactly(found['mask'], kept)
    with np.errstate(invalid='ignore'):
        scale = np.float32(1) if training is False else np.float32(1) / (np.float32(1) - arrays['r'])
        expected = kept.astype(dtype) * x * scale.astype(dtype)
    np.testing.assert_array_equal(found['y'], expected)


def test_extents_that_are_open(weft):
    nodes = [helper.make_node('RandomNormalLike', ['x'], ['n'], seed=4.0), helper.make_node('Add', ['x', 'n'], ['y'])]
    for shape in ((1, 3), (5, 8), (2, 0)):
        x = np.ones(shape, np.float32)
        found, _ = run(weft, nodes, ['y'], {'x': x}, shapes={'x': ['n', 'm']})
        exactly(found['y'], x + RandomState(4).randn(*shape).astype(np.float32))


def looks_uniform(u):
    """Pearson's test over 64 cells, and Ljung and Box's of ten lags; each passes 999 of 1000 true samples."""
    counts = np.bincount((u * 64).astype(int), minlength=64)
    chi = ((counts - u.size / 64) ** 2).sum() / (u.size / 64)
    z = u - u.mean()
    lags = np.array([(z[k:] * z[:-k]).sum() for k in range(1, 11)]) / (z * z).sum()
    box = u.size * (u.size + 2) * (lags**2 / (u.size - np.arange(1, 11))).sum()
    return 31 < chi < 104 and box < 29.6


def test_numbers_look_random(weft):
    count, streams = 20000, 5
    nodes = [helper.make_node(op, [], [f'{op}{k}'], shape=[count], dtype=TensorProto.DOUBLE)
             for k in range(streams) for op in ('RandomUniform', 'RandomNormal')]
    found, _ = run(weft, nodes, [n.output[0] for n in nodes])
    for k in range(streams):
        assert looks_uniform(found[f'RandomUniform{k}'])
        normal = found[f'RandomNormal{k}']  # moments within four standard deviations
        assert abs(normal.mean()) < 0.028 and abs(normal.std() - 1) < 0.02
        assert abs((normal**3).mean()) < 0.11 and abs((normal**4).mean() - 3) < 0.28
    columns = np.stack([found[n.output[0]] for n in nodes])
    correlation = np.corrcoef(columns) - np.eye(len(nodes))
    assert np.abs(correlation).max() < 0.03
    # The test itself tells what is not random.
    u = found['RandomUniform0']
    assert not looks_uniform(np.sort(u)) and not looks_uniform(u**1.1) and not looks_uniform(np.repeat(u[::2], 2))


@pytest.mark.parametrize('op, inputs, attributes, words', [
    ('RandomUniform', [], {'shape': [2], 'dtype': TensorProto.INT32}, ['expected a float']),
    ('RandomUniform', [], {'shape': [-2]}, ['"shape" has -2']),
    ('RandomNormal', [], {'shape': [2], 'dtype': 4711}, ['"dtype" is 4711']),
    ('RandomNormalLike', ['i'], {}, ['expected a float']),
    ('Multinomial', ['x'], {'sample_size': 0}, ['"sample_size" is 0']),
    ('Multinomial', ['x'], {'dtype': TensorProto.FLOAT}, ['no type of indices']),
])
def test_what_makes_no_sense_is_refused_by_name(weft, op, inputs, attributes, words):
    arrays = {'x': np.zeros((2, 3), np.float32), 'i': np.zeros((2,), np.int32)}
    node = helper.make_node(op, inputs, ['y'], name='it', **attributes)
    onnx.save(model_of([node], ['y'], {n: arrays[n] for n in inputs}), weft.folder / 'model.onnx')
    weft('check', 'model.onnx', code=3)
    for word in ['"it"', *words]:
        assert word in weft.said, weft.said
