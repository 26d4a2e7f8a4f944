"""Group normalization as exporters write it, by way of an instance normalization: one operator, and the same numbers."""
import sys

import numpy as np
import pytest
from tool import ROOT, within

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402

RANDOM = np.random.default_rng(23)


def random(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def normalized(x, groups, epsilon):
    rows = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    rows = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + epsilon)
    return rows.reshape(x.shape)


class Norm:
    """Adds the parts to a builder, and has what they are to compute."""

    def __init__(self, channels, groups, rank, epsilon=1e-3, inner=False):
        self.channels, self.groups, self.epsilon = channels, groups, epsilon
        self.scale, self.bias = (random(channels, *[1] * (rank - 2)) for _ in range(2))
        self.inner = [random(groups), random(groups)] if inner else [np.ones(groups, np.float32), np.zeros(groups, np.float32)]

    def add(self, g, x, shape):
        rows = g.Reshape(x, np.array([0, self.groups, -1], np.int64))
        y = g.Reshape(g.InstanceNormalization(rows, *self.inner, epsilon=self.epsilon), np.array(shape, np.int64) if shape else g.Shape(x))
        return g.Add(g.Mul(y, self.scale), self.bias)

    def __call__(self, x):
        spread = [np.repeat(v, self.channels // self.groups).reshape(self.scale.shape) for v in self.inner]
        y = normalized(x, self.groups, self.epsilon) * spread[0] + spread[1]
        return (y * self.scale + self.bias).astype(np.float32)


def text_of(weft, path):
    weft('opt', '--from', 'graph', '--to', 'tc', path, '-o', 'text')
    return (weft.folder / 'text').read_text()


@pytest.mark.parametrize('channels, groups, size, inner', [
    (6, 2, [5, 7], False), (40, 4, [9, 8], True), (32, 1, [6, 6], False), (64, 32, [4, 12], False), (96, 6, [70], False),
    (24, 8, [3, 4, 5], True), (48, 1, [1, 1], False), (80, 20, [33, 40], False)])
def test_parts(weft, channels, groups, size, inner):
    shape = [2, channels, *size]
    norm = Norm(channels, groups, len(shape), inner=inner)
    g = Builder('norm', opset=18)
    g.output('y', g.Relu(norm.add(g, g.input('x', shape), shape)), shape)
    path = weft.folder / 'norm.onnx'
    g.save(str(path))
    x = random(*shape) + np.float32(3)
    for options in ((), ('--force', 'own', '--threads', 2)):
        assert within(weft.run(path, {'x': x}, '--budget', '0', *options)['y'], np.maximum(norm(x), 0))
    text = text_of(weft, path)
    assert text.count(' = GroupNormalization(') == 1 and ' = InstanceNormalization(' not in text


@pytest.mark.parametrize('threads', [1, 2])
@pytest.mark.parametrize('channels, groups', [(64, 32), (40, 4), (64, 4), (128, 1), (32, 32)])
def test_between_convolutions(weft, channels, groups, threads):
    """Where channels lie side by side."""
    shape = [1, channels, 14, 18]
    norm = Norm(channels, groups, 4)
    weights = random(channels, channels, 1, 1) / np.float32(channels ** 0.5)
    g = Builder('norm', opset=18)
    x = g.Conv(g.input('x', shape), weights)
    g.output('y', g.Conv(g.Relu(norm.add(g, x, shape)), weights), shape)
    path = weft.folder / 'norm.onnx'
    g.save(str(path))
    x = random(*shape)
    matrix = weights[:, :, 0, 0].astype(np.float64)
    inner = np.maximum(norm(np.einsum('oc,nchw->nohw', matrix, x)), 0)
    expected = np.einsum('oc,nchw->nohw', matrix, inner).astype(np.float32)
    assert within(weft.run(path, {'x': x}, '--force', 'own', '--budget', '0', '--threads', threads)['y'], expected, 1e-5)


@pytest.mark.parametrize('channels, groups, size', [(4, 2, [300, 301]), (3, 3, [400, 410]), (18, 1, [96, 97]), (2, 2, [9, 200, 170]), (6, 1, [30001])])
@pytest.mark.parametrize('dtype', ['float32', 'float64', 'float16'])
def test_by_blocks(weft, channels, groups, size, dtype):
    """Of more than what lies near. The means of blocks are far apart, and from zero."""
    shape = [1, channels, *size]
    slopes = [np.linspace(0, 4, extent).reshape(-1, *[1] * (len(size) - 1 - i)) for i, extent in enumerate(size)]
    x = (random(*shape) + 30 + sum(slopes) + 3 * np.arange(channels).reshape(-1, *[1] * len(size))).astype(dtype)
    scale, bias = (random(channels).astype(dtype) for _ in range(2))
    helper, element = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x_info, y_info = (helper.make_tensor_value_info(name, element, shape) for name in 'xy')
    constants = [onnx.numpy_helper.from_array(v, name) for v, name in ((scale, 'scale'), (bias, 'bias'))]
    node = helper.make_node('InstanceNormalization' if channels == groups else 'GroupNormalization', ['x', 'scale', 'bias'], ['y'],
                            **({} if channels == groups else {'num_groups': groups}))
    graph = helper.make_graph([node], 'norm', [x_info], [y_info], constants)
    path = weft.folder / 'norm.onnx'
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 21)], ir_version=10), path)
    spread = [v.astype(np.float64).reshape(-1, *[1] * len(size)) for v in (scale, bias)]
    expected = (normalized(x, groups, 1e-5) * spread[0] + spread[1]).astype(dtype)
    tolerance = {'float64': 1e-12, 'float32': 2e-6, 'float16': 1e-3}[dtype]
    small = ('--force', 'own', '--budget', '0', '--target', 'cpu:x86-64-v3 l1=32768 l2=262144 l3=8388608')
    for threads in (1, 2):
        assert within(weft.run(path, {'x': x}, *small, '--threads', threads)['y'], expected, tolerance)
    weft('opt', '--from', 'graph', '--to', 'groups', path, *small, '-o', 'text')
    assert '{y: by_blocks}' in (weft.folder / 'text').read_text()


def test_open_extents(weft):
    norm = Norm(12, 3, 4)
    g = Builder('norm', opset=18)
    x = g.input('x', ['n', 12, 'h', 'w'])
    g.output('y', norm.add(g, x, None), ['n', 12, 'h', 'w'])
    path = weft.folder / 'norm.onnx'
    g.save(str(path))
    for shape in ((1, 12, 5, 6), (3, 12, 1, 9)):
        x = random(*shape)
        assert within(weft.run(path, {'x': x}, '--budget', '0')['y'], norm(x))


def test_what_others_read_stays(weft):
    """The normalized value, before its scale, is a result too."""
    norm = Norm(8, 2, 3)
    g = Builder('norm', opset=18)
    x = g.input('x', [2, 8, 11])
    rows = g.Reshape(x, np.array([0, 2, -1], np.int64))
    plain = g.Reshape(g.InstanceNormalization(rows, *norm.inner, epsilon=norm.epsilon), np.array([2, 8, 11], np.int64))
    g.output('y', g.Mul(plain, norm.scale), [2, 8, 11])
    g.output('z', g.Relu(plain), [2, 8, 11])
    path = weft.folder / 'norm.onnx'
    g.save(str(path))
    x = random(2, 8, 11)
    found = weft.run(path, {'x': x}, '--budget', '0')
    plain = normalized(x, 2, norm.epsilon)
    assert within(found['y'], (plain * norm.scale).astype(np.float32)) and within(found['z'], np.maximum(plain, 0).astype(np.float32))
