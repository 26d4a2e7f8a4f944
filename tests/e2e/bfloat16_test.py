"""Products of bfloat16 in our own kernels: what VDPBF16PS may do unasked, and what --allow none keeps."""
import sys

import numpy as np
import pytest
from tool import ROOT

pytest.importorskip('onnx', reason='the models are written with onnx')
ml_dtypes = pytest.importorskip('ml_dtypes')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402

BFLOAT16 = 16  # TensorProto.DataType
TARGET = ('--target', 'cpu:x86-64-v4-bf16', '--force', 'own', '--budget', '0')
EXACT = ('--allow', 'none')


@pytest.fixture
def product(weft):
    """Makes the model of a product with these weights, of numbers of f32 that bfloat16 holds; gives its file."""
    def make(weights):
        g = Builder('product', opset=22)
        x = g.Cast(g.input('x', [16, len(weights)]), to=BFLOAT16)
        g.output('y', g.Cast(g.MatMul(x, weights.astype(ml_dtypes.bfloat16)), to=1), [16, weights.shape[1]])
        g.save(str(weft.folder / 'product.onnx'))
        return weft.folder / 'product.onnx'
    return make


def rounded(array):
    return array.astype(ml_dtypes.bfloat16).astype(np.float32)


def runs_here(weft):
    return 'x86-64-v4-bf16' in weft.json('devices')['devices'][0]['target']


def text(weft, form, model, *options):
    weft('opt', '--from', 'graph', '--to', form, model, '-o', 'text', *options)
    return (weft.folder / 'text').read_text()


def test_the_texts_say_it(weft, product):
    model = product(np.ones((64, 64), np.float32))
    assert 'dot k flush' in text(weft, 'choices', model, *TARGET)
    assert 'fma_flush' in text(weft, 'loops', model, *TARGET)
    assert 'flush' not in text(weft, 'loops', model, *TARGET, *EXACT)


@pytest.mark.parametrize('name', ['x86-64-v3', 'x86-64-v4', 'x86-64-v4-vnni'])
def test_other_targets_keep_subnormal_numbers(weft, product, name):
    model = product(np.ones((64, 64), np.float32))
    assert 'flush' not in text(weft, 'loops', model, '--target', f'cpu:{name}', *TARGET[2:])


def test_errs_at_most_twice_as_much_as_sums_in_order(weft, product):
    """The bound within which something may happen unasked (DESIGN, section 7)."""
    if not runs_here(weft):
        pytest.skip('no AVX512_BF16')
    rng = np.random.default_rng(7)

    def numbers(*shape):
        return rounded(rng.standard_normal(shape) * np.exp2(rng.integers(0, 8, shape)))
    x, w = numbers(16, 1500), numbers(1500, 64)
    model, exact = product(w), x.astype(np.float64) @ w
    in_order = np.zeros(exact.shape)
    for k in range(1500):  # a product is exact in f64, and with it a sum before it is rounded, all but always
        in_order = (in_order + x[:, k:k + 1].astype(np.float64) * w[k]).astype(np.float32).astype(np.float64)
    unasked = weft.run(model, {'x': x}, *TARGET)['y']
    assert np.abs(unasked - exact).max() <= 2 * np.abs(rounded(in_order) - exact).max()


def test_subnormal_numbers(weft, product):
    if not runs_here(weft):
        pytest.skip('no AVX512_BF16')
    tiny = rounded(np.full((16, 64), 1e-39, np.float32))
    model = product(np.full((64, 32), 2.0 ** 100, np.float32))
    assert (weft.run(model, {'x': tiny}, *TARGET)['y'] == 0).all()
    kept = weft.run(model, {'x': tiny}, *TARGET, *EXACT)['y']
    assert (kept == rounded(tiny[0, 0] * np.float32(2.0 ** 100) * np.float32(64))).all()
