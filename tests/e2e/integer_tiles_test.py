"""Convolutions of bytes, which are exact: by Winograd's tiles of integers where a processor multiplies pairs of 16 bits, and
with weights that have no sign."""
import sys

import numpy as np
import pytest
from tool import ROOT

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
import onnx.reference  # noqa: E402
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402

RANDOM = np.random.default_rng(16)
PAIRS, QUADS = 'cpu:x86-64-v3', 'cpu:x86-64-v4-vnni'


def integers(kind, *shape):
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max, shape, kind, endpoint=True)


def in_doubles(x, weights, attributes):
    """The reference's convolution, whose sums are whole numbers that doubles hold."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node('Conv', ['x', 'w'], ['y'], **attributes)], 'wide', [value('x', onnx.TensorProto.DOUBLE, x.shape)],
        [value('y', onnx.TensorProto.DOUBLE, None)], [onnx.numpy_helper.from_array(weights, 'w')])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid('', 18)], ir_version=8)
    return onnx.reference.ReferenceEvaluator(model).run(None, {'x': x})[0]


def convolution(weft, channels=64, outs=80, places=(13, 20), taps=(3, 3), kind=np.int8, zero=0, **attributes):
    """A model of one convolution, and what it is for random images and the largest."""
    x = integers(np.uint8, 2, channels, *places)
    x[1] = 255 * (x[1] > 127)
    weights = integers(kind, outs, channels, *taps)
    weights[0], weights[1] = np.iinfo(kind).min, np.iinfo(kind).max
    expected = in_doubles(x.astype(np.float64) - 117, weights.astype(np.float64) - zero, attributes)
    g = Builder('tiles', opset=18)
    name = g.input('x', list(x.shape), 'uint8')
    y = g.ConvInteger(name, weights, np.array(117, np.uint8), np.array(zero, kind), **attributes)
    g.output('y', y, list(expected.shape), 'int32')
    path = weft.folder / 'tiles.onnx'
    g.save(str(path))
    return path, x, expected


def has_tiles(weft, path, target, *options):
    weft('opt', '--from', 'graph', '--to', 'groups', path, '--target', target, '--force', 'own', '--budget', '0', *options, '-o', 'text')
    return 'y: winograd' in (weft.folder / 'text').read_text()


def test_where_bytes_are_multiplied_in_pairs(weft):
    path, _, _ = convolution(weft, pads=[1, 1, 1, 1])
    assert has_tiles(weft, path, PAIRS) and has_tiles(weft, path, PAIRS, '--allow', 'none')
    assert not has_tiles(weft, path, QUADS) and not has_tiles(weft, path, QUADS, '--allow', 'winograd')


@pytest.mark.parametrize('threads', [1, 2, 3])
@pytest.mark.parametrize('shape', [
    {'pads': [1, 1, 1, 1]}, {}, {'pads': [0, 1, 2, 0], 'channels': 61, 'outs': 67}, {'places': (7, 7), 'channels': 256, 'outs': 64},
    {'kind': np.uint8, 'zero': 131, 'pads': [1, 1, 1, 1]}, {'taps': (1, 3), 'channels': 128, 'outs': 128}, {'places': (8, 11), 'pads': [2, 2, 2, 2], 'channels': 128, 'outs': 128},
    {'places': (200,), 'taps': (3,), 'pads': [1, 1], 'channels': 128, 'outs': 64},
    {'places': (5, 8, 9), 'taps': (3, 3, 3), 'pads': [1, 1, 1, 1, 0, 1], 'channels': 24, 'outs': 32}])
def test_the_same_numbers(weft, shape, threads):
    path, x, expected = convolution(weft, **shape)
    assert has_tiles(weft, path, PAIRS, '--threads', threads)
    found = weft.run(path, {'x': x}, '--target', PAIRS, '--force', 'own', '--budget', '0', '--threads', threads)['y']
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('zero', [0, 128, 131, 255])
@pytest.mark.parametrize('shape', [{'taps': (1, 1)}, {'strides': [2, 2], 'pads': [1, 1, 1, 1]}, {'channels': 3, 'taps': (5, 5)}])
def test_weights_without_a_sign(weft, shape, zero):
    path, x, expected = convolution(weft, kind=np.uint8, zero=zero, **shape)
    for target in PAIRS, 'cpu:native':
        found = weft.run(path, {'x': x}, '--target', target, '--force', 'own', '--budget', '0')['y']
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('attributes', [{'strides': [2, 2]}, {'dilations': [2, 2]}, {'strides': [1, 2]}])
def test_a_filter_of_two_convolutions(weft, attributes):
    weights, x = integers(np.int8, 64, 64, 3, 3), integers(np.uint8, 1, 64, 14, 14)
    g = Builder('two', opset=18)
    name, filters = g.input('x', list(x.shape), 'uint8'), g.weight(weights, 'w')
    expected = {}
    for output, own in ('y', {}), ('z', attributes):
        own = {'pads': [1, 1, 1, 1], **own}
        expected[output] = in_doubles(x.astype(np.float64), weights.astype(np.float64), own)
        g.output(output, g.ConvInteger(name, filters, **own), list(expected[output].shape), 'int32')
    path = weft.folder / 'two.onnx'
    g.save(str(path))
    assert has_tiles(weft, path, PAIRS)
    found = weft.run(path, {'x': x}, '--target', PAIRS, '--force', 'own', '--budget', '0')
    for output in expected:
        np.testing.assert_array_equal(found[output], expected[output])
