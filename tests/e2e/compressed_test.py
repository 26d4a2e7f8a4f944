"""Products of one row with weights that the last cache does not hold, in 28 bits a weight."""
import sys
from pathlib import Path

import numpy as np
import pytest
from tool import ROOT, within

pytest.importorskip('onnx', reason='the models are written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402

RANDOM = np.random.default_rng(28)
WIDE = 'avx512f' in Path('/proc/cpuinfo').read_text()
SMALL_CACHE = 'cpu:x86-64-v4 l3=1048576'  # which the weights below are more than


def random(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def layers(weft, rows=1, kind=np.float32):
    """A chain of products and what it gives for an input: weights as they are, transposed, and with an odd number of columns."""
    g = Builder('layers', opset=18)
    x = random(rows, 384)
    weights = [random(384, 512) / 20, random(333, 512) / 20, random(333, 600) / 20]
    biases = [random(512), random(333)]
    weights[0][7, ::3] *= 2.0 ** -40
    weights = [w.astype(kind).astype(np.float32) for w in weights]
    y = g.Relu(g.Gemm(g.input('x', list(x.shape)), g.weight(weights[0], 'w0'), g.weight(biases[0], 'b0')))
    y = g.Tanh(g.Gemm(y, g.weight(weights[1], 'w1'), g.weight(biases[1], 'b1'), transB=1))
    g.output('y', g.MatMul(y, g.weight(weights[2], 'w2')), [])
    path = weft.folder / 'layers.onnx'
    g.save(str(path))
    z = np.maximum(x.astype(np.float64) @ weights[0] + biases[0], 0)
    z = np.tanh(z @ weights[1].T.astype(np.float64) + biases[1]) @ weights[2]
    return path, {'x': x}, z.astype(np.float32)


def alternatives(weft, path, *options):
    weft('opt', '--from', 'graph', '--to', 'groups', path, '--force', 'own', '--budget', '0', *options, '-o', 'text')
    return (weft.folder / 'text').read_text().count(': compressed')


def test_where_no_cache_holds_the_weights(weft):
    path, _, _ = layers(weft)
    assert alternatives(weft, path, '--target', SMALL_CACHE) == 3
    assert alternatives(weft, path, '--target', 'cpu:x86-64-v4 l3=33554432') == 0
    assert alternatives(weft, path, '--target', 'cpu:x86-64-v3 l3=1048576') == 0
    path, _, _ = layers(weft, rows=8)
    assert alternatives(weft, path, '--target', SMALL_CACHE) == 0


@pytest.mark.skipif(not WIDE, reason='needs a processor with AVX-512')
@pytest.mark.parametrize('threads', [1, 2, 3])
@pytest.mark.parametrize('rows', [1, 2, 3, 4])
def test_the_same_numbers(weft, rows, threads):
    path, inputs, expected = layers(weft, rows)
    options = '--target', SMALL_CACHE, '--force', 'own', '--budget', '0', '--threads', threads
    assert within(weft.run(path, inputs, *options)['y'], expected, 1e-5)
    weft('build', path, *options, '-o', 'layers.plan')
    assert within(weft.run('layers.plan', inputs)['y'], expected, 1e-5)


@pytest.mark.skipif(not WIDE, reason='needs a processor with AVX-512')
@pytest.mark.parametrize('kind', ['float16', 'bfloat16'])
def test_weights_that_were_of_sixteen_bits(weft, kind):
    if kind == 'bfloat16':
        kind = pytest.importorskip('ml_dtypes', reason='numpy has no bfloat16').bfloat16
    path, inputs, expected = layers(weft, kind=kind)
    options = '--target', SMALL_CACHE, '--force', 'own', '--budget', '0'
    assert alternatives(weft, path, '--target', SMALL_CACHE) == 3
    assert within(weft.run(path, inputs, *options)['y'], expected, 1e-5)


@pytest.mark.skipif(not WIDE, reason='needs a processor with AVX-512')
def test_measured(weft):
    path, inputs, expected = layers(weft)
    assert within(weft.run(path, inputs, '--target', SMALL_CACHE, '--budget', '2s')['y'], expected, 1e-5)
