"""Convolutions of one tap behind resizes and in front of poolings: where there are fewer places, and the numbers are the same."""
import sys

import numpy as np
import pytest
from tool import ROOT, within

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

RANDOM = np.random.default_rng(17)


def random(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def conv(g, x, channels, features=24, bias=True, kernel=(1, 1), **attributes):
    weights = [random(features, channels, *kernel)] + ([random(features)] if bias else [])
    return g.Conv(x, *weights, kernel_shape=list(kernel), **attributes)


def scaled(g, x, *scales, **attributes):
    return g.Resize(x, None, np.array([1, 1, *scales], np.float32), **attributes)


def sized(g, x, *sizes, **attributes):
    return g.Resize(x, None, None, np.array(sizes, np.int64), **attributes)


def joined(g, *parts):
    return g.Concat(*parts, axis=1)


def corners(g, x):
    return sized(g, x, 2, 48, 9, 10, mode='linear', coordinate_transformation_mode='align_corners')


def twice(g, x, y):
    """Two that read the same parts, as on both ways through a stage with a shortcut."""
    both = joined(g, scaled(g, x, 2, 2), y)
    return g.Mul(conv(g, both, 80), conv(g, both, 80, bias=False))


# name -> y of the builder, x [2, 48, 5, 6] and y [2, 32, 10, 12]; convolutions and concatenations that are left, and the
# channels of each result of a resize
CASES = {
    'nearest': (lambda g, x, y: conv(g, joined(g, scaled(g, x, 2, 2), y), 80), 2, 0, [24]),
    'behind': (lambda g, x, y: conv(g, joined(g, y, scaled(g, x, 2, 2)), 80, bias=False), 2, 0, [24]),
    'between': (lambda g, x, y: conv(g, joined(g, y, scaled(g, x, 2, 2), g.Relu(y)), 112), 2, 1, [24]),
    'linear': (lambda g, x, y: conv(g, joined(g, y, sized(g, x, 2, 48, 10, 12, mode='linear')), 80), 2, 0, [24]),
    'cubic': (lambda g, x, y: conv(g, joined(g, y, scaled(g, x, 2, 2, mode='cubic', cubic_coeff_a=-0.5)), 80), 1, 1, [48]),
    'corners': (lambda g, x, y: conv(g, corners(g, x), 48), 1, 0, [24]),
    'alone': (lambda g, x, y: conv(g, scaled(g, x, 2, 1.5, nearest_mode='floor'), 48, bias=False), 1, 0, [24]),
    'all': (lambda g, x, y: conv(g, joined(g, scaled(g, x, 4, 4), scaled(g, y, 2, 2, mode='linear')), 80), 2, 0, [24, 24]),
    'some_axes': (lambda g, x, y: conv(g, joined(g, g.Resize(x, None, None, np.array([10, 12], np.int64), axes=[2, 3]), y), 80), 2, 0, [24]),
    'channels_named': (lambda g, x, y: conv(g, g.Resize(x, None, None, np.array([48, 9, 7], np.int64), axes=[1, 2, 3]), 48), 1, 0, [24]),
    'twice': (twice, 4, 0, [24, 24]),
    'many_results': (lambda g, x, y: conv(g, joined(g, y, scaled(g, x, 2, 2)), 80, features=97), 1, 1, [48]),
    'few_channels': (lambda g, x, y: conv(g, joined(g, scaled(g, conv(g, x, 48, 8), 2, 2), y), 40), 2, 1, [8]),
    'hardly_larger': (lambda g, x, y: conv(g, scaled(g, x, 1.25, 1.25, mode='linear'), 48), 1, 0, [48]),
    'smaller': (lambda g, x, y: conv(g, scaled(g, y, 0.5, 0.5, mode='linear'), 32), 1, 0, [32]),
    'three_taps': (lambda g, x, y: conv(g, scaled(g, x, 2, 2), 48, kernel=(3, 3), pads=[1] * 4), 1, 0, [48]),
    'strides': (lambda g, x, y: conv(g, scaled(g, x, 2, 2), 48, strides=[2, 2]), 1, 0, [48]),
    'padded': (lambda g, x, y: conv(g, scaled(g, x, 2, 2), 48, pads=[0, 1, 0, 1]), 1, 0, [48]),
    'groups': (lambda g, x, y: conv(g, scaled(g, x, 2, 2), 24, group=2), 1, 0, [48]),
    'read_twice': (lambda g, x, y: (lambda z: g.Add(conv(g, z, 48, 48), z))(scaled(g, x, 2, 2)), 1, 0, [48]),
    'rows': (lambda g, x, y: conv(g, g.Concat(scaled(g, x, 2, 2), scaled(g, x, 2, 2, mode='linear'), axis=2), 48), 1, 1, [48, 48]),
}


def text_of(weft, path):
    weft('opt', '--from', 'graph', '--to', 'tc', path, '-o', 'text')
    return (weft.folder / 'text').read_text()


@pytest.mark.parametrize('name', CASES)
def test_same_numbers(weft, name):
    build, convs, concats, channels = CASES[name]
    g = Builder('resizes', opset=18)
    g.output('z', build(g, g.input('x', [2, 48, 5, 6]), g.input('y', [2, 32, 10, 12])), [None] * 4)
    path = weft.folder / 'resizes.onnx'
    g.save(str(path))
    inputs = {'x': random(2, 48, 5, 6), 'y': random(2, 32, 10, 12)}
    expected = ReferenceEvaluator(str(path)).run(None, inputs)[0]
    for options in (('--force', 'own'), ()):
        assert within(weft.run(path, inputs, '--budget', '0', *options)['z'], expected)
    text = text_of(weft, path)
    resizes = [line for line in text.splitlines() if ' = Resize(' in line]
    assert (text.count(' = Conv('), text.count(' = Concat(')) == (convs, concats), text
    assert [int(line.split('[')[1].split(',')[1]) for line in resizes] == channels, resizes


@pytest.mark.parametrize('rank', [1, 3])
def test_lines_and_volumes(weft, rank):
    size = [9, 4, 6][:rank]
    g = Builder('resizes', opset=18)
    x = g.input('x', [1, 40, *size])
    g.output('z', conv(g, scaled(g, x, *[2] * rank, mode='linear'), 40, kernel=[1] * rank), [None] * (2 + rank))
    path = weft.folder / 'resizes.onnx'
    g.save(str(path))
    x = random(1, 40, *size)
    assert within(weft.run(path, {'x': x}, '--budget', '0')['z'], ReferenceEvaluator(str(path)).run(None, {'x': x})[0])


def test_open_extents(weft):
    """Scales say what an image of any size grows to; so do sizes of images of any number."""
    for scales in (True, False):
        g = Builder('resizes', opset=18)
        shape = ['n', 48, 'h', 'w'] if scales else ['n', 48, 5, 6]
        x = g.input('x', shape)
        large = scaled(g, x, 2, 2) if scales else g.Resize(x, None, None, np.array([10, 12], np.int64), axes=[2, 3], mode='linear')
        y = g.input('y', ['n', 32, 'h2', 'w2'] if scales else ['n', 32, 10, 12])
        g.output('z', conv(g, joined(g, large, y), 80), [None] * 4)
        path = weft.folder / 'resizes.onnx'
        g.save(str(path))
        assert text_of(weft, path).count(' = Conv(') == 2
        for n, h, w in ((2, 5, 6), (3, 5, 6)):
            inputs = {'x': random(n, 48, h, w), 'y': random(n, 32, 2 * h, 2 * w)}
            expected = ReferenceEvaluator(str(path)).run(None, inputs)[0]
            assert within(weft.run(path, inputs, '--budget', '0')['z'], expected)


def test_crops_stay(weft):
    """What lies outside of a crop is a number of its own, no matter what it is multiplied with."""
    g = Builder('resizes', opset=18)
    x = g.input('x', [1, 40, 6, 6])
    roi = np.array([0, 0, -0.5, 0, 1, 1, 1.5, 1], np.float32)
    large = g.Resize(x, roi, np.array([1, 1, 2, 2], np.float32), mode='linear', extrapolation_value=3.0,
                     coordinate_transformation_mode='tf_crop_and_resize')
    g.output('z', conv(g, large, 40), [None] * 4)
    path = weft.folder / 'resizes.onnx'
    g.save(str(path))
    x = random(1, 40, 6, 6)
    assert within(weft.run(path, {'x': x}, '--budget', '0')['z'], ReferenceEvaluator(str(path)).run(None, {'x': x})[0])


POOLS = {
    'halves': (48, 32, dict(kernel_shape=[2, 2], strides=[2, 2]), True),
    'of_overlaps': (32, 64, dict(kernel_shape=[3, 3], strides=[2, 1], auto_pad='VALID'), True),
    'of_many_channels': (192, 40, dict(kernel_shape=[2, 2], strides=[2, 2]), False),
    'of_few_channels': (48, 24, dict(kernel_shape=[2, 2], strides=[2, 2]), False),
    'of_zeros': (48, 40, dict(kernel_shape=[2, 2], strides=[2, 2], pads=[1] * 4, count_include_pad=1), False),
}


@pytest.mark.parametrize('name', POOLS)
def test_averages(weft, name):
    channels, features, attributes, moves = POOLS[name]
    g = Builder('pools', opset=18)
    x = g.input('x', [2, channels, 9, 10])
    g.output('z', g.Relu(g.AveragePool(conv(g, g.Relu(x), channels, features), **attributes)), [None] * 4)
    path = weft.folder / 'pools.onnx'
    g.save(str(path))
    inputs = {'x': random(2, channels, 9, 10)}
    assert within(weft.run(path, inputs, '--budget', '0')['z'], ReferenceEvaluator(str(path)).run(None, inputs)[0])
    text = text_of(weft, path)
    assert (text.index(' = AveragePool(') < text.index(' = Conv(')) == moves, text
