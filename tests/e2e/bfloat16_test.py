"""Products of bfloat16 in our own kernels: what VDPBF16PS and TDPBF16PS may do unasked, and what --allow none keeps; and
products of float32 that --allow bf16 makes such ones."""
import sys

import numpy as np
import pytest
from tool import ROOT

pytest.importorskip('onnx', reason='the models are written with onnx')
ml_dtypes = pytest.importorskip('ml_dtypes')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402

BFLOAT16 = 16  # TensorProto.DataType
ISAS = ('x86-64-v4-bf16', 'x86-64-v4-amx')
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


@pytest.fixture(params=ISAS)
def here(weft, request):
    """Options of a target, if it runs here."""
    widest = weft.json('devices')['devices'][0]['target']
    if not any(isa in widest for isa in ISAS[ISAS.index(request.param):]):
        pytest.skip(f'no {request.param}')
    return ('--target', f'cpu:{request.param}', *TARGET[2:])


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


def test_errs_at_most_twice_as_much_as_sums_in_order(weft, product, here):
    """The bound within which something may happen unasked (DESIGN, section 7)."""
    rng = np.random.default_rng(7)

    def numbers(*shape):
        return rounded(rng.standard_normal(shape) * np.exp2(rng.integers(0, 8, shape)))
    x, w = numbers(16, 1500), numbers(1500, 64)
    model, exact = product(w), x.astype(np.float64) @ w
    in_order = np.zeros(exact.shape)
    for k in range(1500):  # a product is exact in f64, and with it a sum before it is rounded, all but always
        in_order = (in_order + x[:, k:k + 1].astype(np.float64) * w[k]).astype(np.float32).astype(np.float64)
    unasked = weft.run(model, {'x': x}, *here)['y']
    assert np.abs(unasked - exact).max() <= 2 * np.abs(rounded(in_order) - exact).max()


def test_subnormal_numbers(weft, product, here):
    tiny = rounded(np.full((16, 64), 1e-39, np.float32))
    model = product(np.full((64, 32), 2.0 ** 100, np.float32))
    assert (weft.run(model, {'x': tiny}, *here)['y'] == 0).all()
    kept = weft.run(model, {'x': tiny}, *here, *EXACT)['y']
    assert (kept == rounded(tiny[0, 0] * np.float32(2.0 ** 100) * np.float32(64))).all()


@pytest.fixture
def network(weft):
    """A convolution and products of float32, of constants and not; gives its file and an input."""
    rng = np.random.default_rng(3)
    g = Builder('network', opset=17)
    x = g.input('x', ['n', 24, 9, 9])
    filters = rng.standard_normal((32, 24, 3, 3)).astype(np.float32) / 15
    y = g.Relu(g.Conv(x, filters, rng.standard_normal(32).astype(np.float32), pads=[1, 1, 1, 1]))
    rows = g.Transpose(g.Reshape(y, np.array([0, 32, 81])), perm=[0, 2, 1])
    mixed = g.MatMul(rows, rng.standard_normal((32, 48)).astype(np.float32) / 6)
    scores = g.Softmax(g.MatMul(mixed, g.Transpose(mixed, perm=[0, 2, 1])), axis=-1)
    g.output('y', g.MatMul(scores, mixed), ['n', 81, 48])
    g.save(str(weft.folder / 'network.onnx'))
    return weft.folder / 'network.onnx', rng.standard_normal((2, 24, 9, 9)).astype(np.float32)


ALLOWED = ('--allow', 'bf16')


def test_float32_is_multiplied_as_bfloat16_if_that_is_allowed(weft, network, here):
    model, x = network
    exact = weft.run(model, {'x': x}, *here)['y']
    scale = np.abs(exact).max()
    for form in (here, here[:2] + here[4:]):  # own kernels only, and with the library's
        narrow = weft.run(model, {'x': x}, *form, *ALLOWED)['y']
        assert narrow.dtype == np.float32
        assert 1e-4 * scale < np.abs(narrow - exact).max() < 2e-2 * scale
    calls = weft.run(model, {'x': x}, *here[:2], '--force', 'calls', '--budget', '0', *ALLOWED, env={'WEFT_ONEDNN': 'none'})['y']
    assert 1e-4 * scale < np.abs(calls - exact).max() < 2e-2 * scale
    kept = weft.run(model, {'x': x}, *here, *EXACT)['y']
    assert np.abs(kept - exact).max() < 1e-5 * scale


def test_the_flag_changes_nothing_where_no_instruction_does_it(weft, network):
    model, _ = network
    on = ('--dim', 'n=2')
    for name in ('x86-64-v3', 'x86-64-v4-vnni'):
        target = ('--target', f'cpu:{name}', *TARGET[2:], *on)
        assert text(weft, 'loops', model, *target, *ALLOWED) == text(weft, 'loops', model, *target)
    for isa in ISAS:
        target = ('--target', f'cpu:{isa}', *TARGET[2:], *on)
        assert 'fma_flush' in text(weft, 'loops', model, *target, *ALLOWED)
        assert 'flush' not in text(weft, 'loops', model, *target)


def test_a_measured_plan_of_it_keeps_what_was_allowed(weft, network, here):
    """From a file, for other sizes than it was measured for, and again from the cache without a word."""
    model, x = network
    inputs = {n: np.resize(x, (n, *x.shape[1:])) for n in (2, 3)}
    exact = {n: weft.run(model, {'x': a}, *here)['y'] for n, a in inputs.items()}
    for sizes in ('x=1..3@2x24x9x9', None):
        for _ in range(2):
            weft('build', model, '--target', here[1], '--budget', '2s', *ALLOWED, '-o', 'network.weft', '--cache-dir', 'cache',
                 *(['--shape', sizes] if sizes else []))
            assert 'warning' not in weft.said
        for n, a in inputs.items():
            off = np.abs(weft.run('network.weft', {'x': a})['y'] - exact[n]).max() / np.abs(exact[n]).max()
            assert 1e-4 < off < 2e-2


def test_its_texts_are_read_again(weft, network):
    model, _ = network
    options = ('--dim', 'n=2', '--target', 'cpu:x86-64-v4-amx', *TARGET[2:])
    for form in ('tc', 'groups', 'loops'):
        weft('opt', '--from', 'graph', '--to', form, model, '-o', 'text', *options, *ALLOWED)
        weft('opt', '--from', form, '--to', 'plan', 'text', '-o', 'plan', '--force', 'own', '--budget', '0')
