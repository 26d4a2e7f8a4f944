"""Fourier transforms are products with a table, which is made when the plan is built."""
import sys

import numpy as np
import pytest
from tool import ROOT

pytest.importorskip('onnx', reason='the models are written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402


def transform(weft, shape, axis, length=None, **attributes):
    g = Builder('transform', opset=20)
    given = '' if length is None else np.array(length, np.int64)
    g.output('y', g.DFT(g.input('x', list(shape)), given, np.array(axis, np.int64), **attributes), [])
    g.save(str(weft.folder / 'transform.onnx'))
    return weft.folder / 'transform.onnx'


def parts(numbers):
    return np.stack([numbers.real, numbers.imag], -1)


@pytest.mark.parametrize('axis, length, inverse', [(1, None, 0), (2, None, 0), (1, None, 1), (2, 25, 0), (1, 7, 1)])
def test_complex_ones(weft, axis, length, inverse):
    x = np.random.default_rng(1).standard_normal((2, 12, 20, 2)).astype(np.float32)
    numbers = x[..., 0] + 1j * x[..., 1]
    expected = parts((np.fft.ifft if inverse else np.fft.fft)(numbers, n=length, axis=axis))
    y = weft.run(transform(weft, x.shape, axis, length, inverse=inverse), {'x': x}, '--budget', '0')['y']
    assert np.abs(y - expected).max() < 1e-6 * np.abs(expected).max()


def test_real_ones(weft):
    x = np.random.default_rng(2).standard_normal((3, 50, 1)).astype(np.float32)
    y = weft.run(transform(weft, x.shape, 1, onesided=1), {'x': x}, '--budget', '0')['y']
    expected = parts(np.fft.rfft(x[..., 0], axis=1))
    assert np.abs(y - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize('size, made', [(64, False), (2000, True)])
def test_where_the_table_is_made(weft, size, made):
    """Beforehand, unless it is too large for a plan."""
    model = transform(weft, (1, size, 1), 1)
    weft('opt', '--from', 'graph', '--to', 'tc', model, '-o', 'text')
    assert ('cos(' in (weft.folder / 'text').read_text()) == made
