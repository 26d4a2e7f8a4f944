"""Habits of exporters in small graphs, at several shapes, by the tool that runs whole networks."""
import json
import sys

import numpy as np
import pytest
from tool import ROOT

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
sys.path[:0] = [str(ROOT / 'models'), str(ROOT / 'tools')]
real_networks = pytest.importorskip('real_networks', reason='onnxruntime is not installed', exc_type=ImportError)
from builder import Builder, i64  # noqa: E402
from exports import describe, floats, indices, value  # noqa: E402

IMAGES = [{'N': 2, 'h': 8, 'w': 12}, {'N': 1, 'h': 16, 'w': 4}, {'N': 3, 'h': 4, 'w': 20}]


def joined_names(g):
    """tf2onnx names what it fuses by all of the parts, and leaves transposes around it."""
    x = g.input('input:0', ['unk__1', None, None, 3])
    with g.scope(';'.join(f'model/block_{i}/FusedBatchNormV3' for i in range(12))):
        y = g.Transpose(x, perm=[0, 3, 1, 2])
        for _ in range(2):
            y = g.Relu(g.Conv(y, g.he([3, 3, 3, 3]), pads=[1, 1, 1, 1]))
        y = g.Transpose(y, perm=[0, 2, 3, 1])
    g.output('Identity:0', y)
    return {'input:0': floats('N', 'h', 'w', 3)}, IMAGES


def alike(g):
    """Steps of a recurrence of Keras: copies of a body, alike in the beginnings of their long names, take one kernel."""
    x, name = g.input('x', ['N', 24]), 'functional_1/bidirectional_1/backward_gru_1/while/gru_cell_1/'
    weights, bias, go = g.weight(g.he([24, 24])), g.weight(g.normal([24], 1)), g.weight(np.array(True))
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make('MatMul', ['h', weights], [f'{name}MatMul:0'], f'{name}MatMul'),
             make('Add', [f'{name}MatMul:0', bias], [f'{name}BiasAdd:0'], f'{name}BiasAdd'),
             make('Tanh', [f'{name}BiasAdd:0'], [f'{name}Tanh:0'], f'{name}Tanh'), make('Identity', ['go'], ['on'])]
    body = onnx.helper.make_graph(nodes, 'body', [info('t', 7, []), info('go', 9, []), info('h', 1, None)],
                                  [info('on', 9, []), info(f'{name}Tanh:0', 1, None)])
    g.output('y', g.Loop(np.array(4, np.int64), go, x, body=body))
    return {'x': floats('N', 24)}, [{'N': 2}, {'N': 1}, {'N': 5}]


def spectra(g):
    """Signals without an axis of parts."""
    x = g.input('waves', ['batch', 'samples'])
    frames = g.STFT(x, np.array(5, np.int64), np.hanning(16).astype(np.float32))
    g.output('power', g.ReduceSumSquare(frames, axes=[-1], keepdims=0))
    return {'waves': floats('N', 'S')}, [{'N': 2, 'S': 40}, {'N': 1, 'S': 16}, {'N': 3, 'S': 63}]


def lying_names(g):
    """Both extents are called '?', and so is a third; an output claims a rank that it does not have."""
    x, y = g.input('x', ['?', '?']), g.input('y', ['?', -1])
    g.output('z', g.Add(g.MatMul(x, y), np.ones([1, 1, 1], np.float32)), ['?', '?', '?'])
    return {'x': floats('a', 'b'), 'y': floats('b', 'c')}, [{'a': 3, 'b': 4, 'c': 5}, {'a': 1, 'b': 7, 'c': 2}, {'a': 6, 'b': 1, 'c': 6}]


def windows(g):
    """A Swin's partition: every extent is cut out of a Shape, divided, and put together again."""
    x = g.input('x', ['N', 'h', 'w', 6])

    def extent(axis, divisor=1):
        e = g.Gather(g.Shape(x), np.array(axis, np.int64), axis=0)
        return g.Unsqueeze(g.Cast(g.Cast(g.Div(e, np.array(divisor, np.int64)), to=7), to=7) if divisor > 1 else e, i64(0))
    y = g.Concat(g.Slice(x, i64(2), i64(2**63 - 1), i64(1)), g.Slice(x, i64(0), i64(2), i64(1)), axis=1)
    parts = g.Reshape(y, g.Concat(extent(0), extent(1, 4), i64(4), extent(2, 4), i64(4), i64(6), axis=0))
    rows = g.Reshape(g.Transpose(parts, perm=[0, 1, 3, 2, 4, 5]), i64(-1, 16, 6))
    rows = g.MatMul(g.Softmax(g.MatMul(rows, g.Transpose(rows, perm=[0, 2, 1])), axis=-1), rows)
    back = g.Reshape(rows, g.Concat(extent(0), extent(1, 4), extent(2, 4), i64(4, 4, 6), axis=0))
    g.output('y', g.Reshape(g.Transpose(back, perm=[0, 1, 3, 2, 4, 5]), g.Concat(extent(0), extent(1), extent(2), i64(-1), axis=0)))
    return {'x': floats('N', 'h', 'w', 6)}, IMAGES


def squeezed(g):
    """torch's squeeze of an axis that may not be 1: a choice between branches of different rank, known by the shape."""
    x = g.input('x', ['N', 'h', 'w'])
    one = g.Equal(g.Gather(g.Shape(x), np.array(2, np.int64)), np.array(1, np.int64))
    info = onnx.helper.make_empty_tensor_value_info
    axes = g.weight(i64(2))

    def branch(op, *inputs):
        return onnx.helper.make_graph([onnx.helper.make_node(op, inputs, [f'{op}_out'])], op, [], [info(f'{op}_out')])
    g.output('y', g.Neg(g.If(one, then_branch=branch('Squeeze', x, axes), else_branch=branch('Identity', x))))
    return {'x': floats('N', 'h', 'w')}, [{'N': 2, 'h': 3, 'w': 4}, {'N': 2, 'h': 3, 'w': 1}, {'N': 1, 'h': 1, 'w': 1}]


def rate(g):
    """A half of the network chosen by a scalar input."""
    x, sr = g.input('x', [None, None]), g.input('sr', [], 'int64')
    info = onnx.helper.make_empty_tensor_value_info

    def branch(name, op):
        return onnx.helper.make_graph([onnx.helper.make_node(op, [x], [name])], name, [], [info(name)])
    known = g.Equal(sr, np.array(16000, np.int64))
    g.output('y', g.If(known, then_branch=branch('wide', 'Tanh'), else_branch=branch('narrow', 'ReduceMean')))
    return {'x': floats('N', 'S'), 'sr': value(16000, 'int64')}, [{'N': 1, 'S': 5}, {'N': 2, 'S': 3}, {'N': 4, 'S': 1}]


def positions(g):
    """Words and their places: Range over an extent, Expand to the words' shape, masks by Where."""
    ids = g.input('ids', ['batch', 'S'], 'int64')
    length = g.Gather(g.Shape(ids), np.array(1, np.int64))
    places = g.Expand(g.Unsqueeze(g.Range(np.array(0, np.int64), length, np.array(1, np.int64)), i64(0)), g.Shape(ids))
    y = g.Add(g.Gather(g.normal([9, 4], 1), ids), g.Gather(g.normal([32, 4], 1), places))
    later = g.Greater(g.Unsqueeze(places, i64(1)), g.Unsqueeze(places, i64(2)))
    scores = g.Where(later, np.array(-np.inf, np.float32), g.MatMul(y, g.Transpose(y, perm=[0, 2, 1])))
    g.output('y', g.MatMul(g.Softmax(scores, axis=-1), y))
    return {'ids': indices(9, 'N', 'S')}, [{'N': 2, 'S': 3}, {'N': 1, 'S': 1}, {'N': 3, 'S': 8}]


def write(make, folder):
    g = Builder(make.__name__, seed=1)
    inputs, sizes = make(g)
    path = folder / f'{make.__name__}.onnx'
    path.write_bytes(g.model().SerializeToString())
    describe(str(path), 'by hand', 'tests', inputs, [{n: i.shape(size) for n, i in inputs.items()} for size in sizes])
    return path


@pytest.fixture(autouse=True)
def package(binary, cache, monkeypatch):
    """The Python package of the build that is tested."""
    python = binary.parents[1] / 'python'
    if not list((python / 'weft').glob('_weft*.so')):
        pytest.skip('the Python package is not built')
    monkeypatch.syspath_prepend(str(python))


@pytest.mark.parametrize('make', [joined_names, alike, spectra, lying_names, windows, squeezed, rate, positions], ids=lambda m: m.__name__)
def test_habit(make, tmp_path):
    outcome = real_networks.run_network(write(make, tmp_path))
    assert outcome.passed and outcome.shapes == outcome.of_shapes == 3, outcome.reason
    assert outcome.error <= 1e-4


def test_what_fails_is_said(tmp_path):
    path = write(lying_names, tmp_path)
    said = json.loads(path.with_suffix('.json').read_text())
    said['shapes'][1]['y'] = [6, 2]
    path.with_suffix('.json').write_text(json.dumps(said))
    outcome = real_networks.run_network(path)
    assert not outcome.passed and outcome.shapes == 1 and outcome.reason.startswith('onnxruntime: ')
    text = real_networks.page({'a': outcome})
    assert '0 of 1 pass' in text and '| a | onnxruntime: ' in text


def test_distance():
    x = np.float32([1, -4, np.inf])
    assert real_networks.distance(x, x) == 0
    assert real_networks.distance(x + np.float32([0, 1, 0]), x) == 0.25
    assert real_networks.distance(np.float32([1, -4, 7]), x) == real_networks.distance(x.astype(np.float64), x) == float('inf')


def test_doubles_decide(tmp_path):
    """The evaluation that decides between two that have rounded has itself not rounded to float32."""
    g = Builder('doubles')
    x = g.input('x', [3])
    g.output('y', g.Sub(g.Add(x, g.constant(np.array(1e8, np.float32))), np.array(1e8, np.float32)))
    exact = real_networks.run_in_doubles(g.model(), {'x': np.float32([1, 2, 3])})
    assert exact['y'].dtype == np.float64 and np.array_equal(exact['y'], [1, 2, 3])


def test_kernels_that_are_alike_in_a_plan_of_two_shapes(weft, tmp_path):
    path = write(alike, tmp_path)
    weft('build', path, '--profile', 'x=2x24', '--profile', 'x=3x24', '--force', 'own', '--budget', '0', '-o', 'alike.plan')
    inputs = {'x': np.ones((3, 24), np.float32)}
    assert np.array_equal(weft.run('alike.plan', inputs)['y'][0], weft.run(path, inputs, '--shape', 'x=3x24', '--force', 'own')['y'][0])
