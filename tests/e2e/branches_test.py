"""Sums of convolutions of one value: one convolution where that is no more work, and the same numbers."""
import sys

import numpy as np
import pytest
from tool import ROOT

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

RANDOM = np.random.default_rng(11)


def random(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def conv(g, x, features, kernel, channels=6, group=1, bias=True, **attributes):
    weights = [random(features, channels // group, *kernel)] + ([random(features)] if bias else [])
    return g.Conv(x, *weights, kernel_shape=list(kernel), group=group, **attributes)


def norm(g, x, channels=6):
    return g.BatchNormalization(x, random(channels), random(channels), random(channels), np.abs(random(channels)) + np.float32(0.5))


# name -> y of the builder and x [2, 6, 9, 10], how many convolutions and normalizations are left
SUMS = {
    'three_and_one': (lambda g, x: g.Add(conv(g, x, 8, (3, 3), pads=[1] * 4), conv(g, x, 8, (1, 1), bias=False)), 1),
    'one_and_three': (lambda g, x: g.Add(conv(g, x, 8, (1, 1), bias=False), conv(g, x, 8, (3, 3), pads=[1] * 4, bias=False)), 1),
    'less': (lambda g, x: g.Sub(conv(g, x, 8, (1, 1)), conv(g, x, 8, (3, 3), pads=[1] * 4)), 1),
    'with_itself': (lambda g, x: g.Add(norm(g, x), g.Add(conv(g, x, 6, (3, 3), pads=[1] * 4), conv(g, x, 6, (1, 1)))), 1),
    'groups': (lambda g, x: g.Add(conv(g, x, 6, (3, 3), group=3, pads=[1] * 4), norm(g, x)), 1),
    'depthwise': (lambda g, x: g.Sub(g.Add(conv(g, x, 6, (5, 3), group=6, pads=[2, 1, 2, 1]), conv(g, x, 6, (1, 3), group=6, pads=[0, 1, 0, 1])), norm(g, x)), 1),
    'strides': (lambda g, x: g.Add(conv(g, x, 4, (3, 3), pads=[1] * 4, strides=[2, 2]), conv(g, x, 4, (1, 1), strides=[2, 2])), 1),
    'shifted': (lambda g, x: g.Add(conv(g, x, 4, (3, 4), pads=[2, 0, 0, 3]), conv(g, x, 4, (3, 2), pads=[1, 0, 1, 1])), 2),
    'behind_each_other': (lambda g, x: g.Add(conv(g, x, 4, (2, 3), pads=[2, 1, 0, 1]), conv(g, x, 4, (2, 3), pads=[1, 1, 1, 1])), 1),
    'dilated': (lambda g, x: g.Add(conv(g, x, 4, (3, 3), pads=[2] * 4, dilations=[2, 2]), conv(g, x, 4, (1, 1))), 1),
    'dilated_between': (lambda g, x: g.Add(conv(g, x, 4, (3, 3), pads=[2] * 4, dilations=[2, 2]), conv(g, x, 4, (3, 3), pads=[1] * 4)), 2),
    'a_cross': (lambda g, x: g.Add(conv(g, x, 4, (1, 5), pads=[0, 2, 0, 2]), conv(g, x, 4, (5, 1), pads=[2, 0, 2, 0])), 2),
    'other_strides': (lambda g, x: g.Add(conv(g, x, 4, (3, 3), strides=[2, 1], pads=[1, 1, 1, 1]), conv(g, x, 4, (5, 3), strides=[2, 1], pads=[2, 1, 2, 1])), 1),
    'other_groups': (lambda g, x: g.Add(conv(g, x, 6, (3, 3), group=2, pads=[1] * 4), conv(g, x, 6, (1, 1))), 2),
    'wider': (lambda g, x: g.Add(conv(g, x, 8, (1, 1)), conv(g, g.Relu(x), 8, (1, 1))), 2),
    'read_twice': (lambda g, x: (lambda c: g.Mul(g.Add(c, conv(g, x, 6, (3, 3), pads=[1] * 4)), c))(conv(g, x, 6, (1, 1))), 2),
    'norm_read_twice': (lambda g, x: (lambda n: g.Mul(g.Sub(g.Add(conv(g, x, 6, (3, 3), pads=[1] * 4), n), n), g.Relu(x)))(norm(g, x)), 1),
    'twice_the_same': (lambda g, x: (lambda c: g.Add(c, c))(conv(g, x, 6, (1, 1))), 1),
    'broadcast': (lambda g, x: g.Add(conv(g, x, 4, (9, 10)), conv(g, x, 4, (1, 1))), 2),
}


@pytest.mark.parametrize('name', SUMS)
def test_sums(weft, name):
    build, left = SUMS[name]
    g = Builder('branches', opset=18)
    g.output('y', build(g, g.input('x', [2, 6, 9, 10])), [])
    path = weft.folder / 'branches.onnx'
    g.save(str(path))
    x = random(2, 6, 9, 10)
    expected = ReferenceEvaluator(str(path)).run(None, {'x': x})[0]
    y = weft.run(path, {'x': x}, '--budget', '0')['y']
    assert y.shape == expected.shape and np.abs(y - expected).max() < 1e-5 * np.abs(expected).max()
    weft('opt', '--from', 'graph', '--to', 'tc', path, '-o', 'text')
    text = (weft.folder / 'text').read_text()
    assert text.count(' = Conv(') + text.count(' = BatchNormalization(') == left


def test_sums_beyond_the_type(weft):
    """Each result is finite; the sum of the weights is none."""
    g = Builder('branches', opset=18)
    x = g.input('x', [1, 1, 4, 4])
    huge = np.full((1, 1, 1, 1), 3e38, np.float32)
    g.output('y', g.Add(g.Conv(x, huge, kernel_shape=[1, 1]), g.Conv(x, huge, kernel_shape=[1, 1])), [])
    path = weft.folder / 'branches.onnx'
    g.save(str(path))
    x = np.full((1, 1, 4, 4), 0.25, np.float32)
    assert np.allclose(weft.run(path, {'x': x}, '--budget', '0')['y'], 1.5e38)


@pytest.mark.parametrize('behind', [norm, lambda g, x: g.Relu(x)])
def test_what_goes_in_front_of_a_reshape_leaves_its_error(weft, behind):
    """An axis of one element, as the plan's ranges allow, that has two when it is run."""
    g = Builder('rows', opset=18)
    product = g.MatMul(g.input('x', ['batch', 'rows', 5]), random(5, 6))
    g.output('y', behind(g, g.Squeeze(product, np.array([0]))), [])
    path = weft.folder / 'rows.onnx'
    g.save(str(path))
    weft('build', path, '--budget', '0', '-o', 'rows.plan')
    np.savez(weft.folder / 'one.npz', x=random(1, 4, 5))
    np.savez(weft.folder / 'two.npz', x=random(2, 4, 5))
    weft('run', 'rows.plan', '--inputs', 'one.npz', '-o', 'y.npz')
    weft('run', 'rows.plan', '--inputs', 'two.npz', '-o', 'y.npz', code=3)
