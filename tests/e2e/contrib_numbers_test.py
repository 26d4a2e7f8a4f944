"""Operators of com.microsoft on integers, complex numbers and signals: against onnxruntime where it has them, and against
NumPy."""
import numpy as np
import pytest
from contrib_test import agree, model_of, onnx, rand, whole
from tool import within


def found(weft, op, inputs, outputs=(np.float32,), fixed=(), options=('--force', 'own', '--strict'), **attributes):
    model, arrays = model_of(op, inputs, outputs, fixed, attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    return weft.run('model.onnx', arrays, *options)['y0']


@pytest.mark.parametrize('a, b', [(np.int16, np.int16), (np.uint16, np.int16), (np.uint16, np.uint16)])
def test_products_of_16_bits(weft, a, b):
    x, y = (whole(*shape, low=0 if t == np.uint16 else -3000, high=3000, dtype=t) for shape, t in (((2, 3, 5), a), ((5, 4), b)))
    if a == b == np.int16:
        agree(weft, 'MatMulInteger16', [x, y], [np.int32])
    assert np.array_equal(found(weft, 'MatMulInteger16', [x, y], [np.int32]), x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.parametrize('dtype', [np.int8, np.uint8])
def test_products_of_bytes(weft, dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
    x, y = whole(2, 3, 4, low=low, high=high, dtype=dtype), whole(3, 1, low=low, high=high, dtype=dtype, seed=1)
    for a, b in ((None, None), (dtype(7), None), (None, dtype(100)), (dtype(7), dtype(high - 1))):
        expected = (x.astype(np.int32) - int(a or 0)) * (y.astype(np.int32) - int(b or 0))
        assert np.array_equal(found(weft, 'MulInteger', [x, a, y, b], [np.int32]), expected)


@pytest.mark.parametrize('dtype, sums', [(np.int8, np.int32), (np.uint8, np.uint32)])
@pytest.mark.parametrize('axes, keep', [([1], 1), ([0, -1], 0), ([0, 1, 2], 0)])
def test_reductions_of_bytes(weft, dtype, sums, axes, keep):
    x = whole(3, 4, 5, low=np.iinfo(dtype).min, high=np.iinfo(dtype).max + 1, dtype=dtype)
    along, options = tuple(axes), {'axes': axes, 'keepdims': keep}
    assert np.array_equal(found(weft, 'ReduceSumInteger', [x], [sums], **options), x.sum(along, sums, keepdims=bool(keep)))
    for zeros in ((dtype(3), dtype(5)), (None, None)):
        operands = [x, np.float32(0.1), zeros[0], np.float32(0.07), zeros[1]]
        real = ((x.astype(np.float64) - int(zeros[0] or 0)) * 0.1).mean(along, keepdims=bool(keep)) / 0.07 + int(zeros[1] or 0)
        given = found(weft, 'QLinearReduceMean', operands, [dtype], **options)
        assert given.dtype == dtype and np.abs(given - np.clip(real, np.iinfo(dtype).min, np.iinfo(dtype).max)).max() <= 0.5 + 1e-4


@pytest.mark.parametrize('shape', [(8,), (2, 6), (2, 3, 12)])
def test_fourier_transforms(weft, shape):
    x = rand(*shape)
    spectrum = np.fft.rfft(x.astype(np.float64))
    parts = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    assert within(found(weft, 'Rfft', [x], signal_ndim=1, onesided=1, normalized=0), parts, 1e-5)
    assert within(found(weft, 'Irfft', [parts], signal_ndim=1), x, 1e-5)


def test_products_of_complex_numbers(weft):
    for a, b in (((3, 4, 2), (3, 4, 2)), ((2, 1, 4, 2), (3, 1, 2)), ((2,), (5, 2))):
        x, y = rand(*a), rand(*b, seed=1)
        left, right = (v[..., 0] + 1j * v[..., 1] for v in (x, y))
        for op, z in (('ComplexMul', left * right), ('ComplexMulConj', left * right.conj())):
            assert within(found(weft, op, [x, y]), np.stack([z.real, z.imag], -1).astype(np.float32), 1e-6)


@pytest.mark.parametrize('shape, attributes', [((7,), {'size': 3}), ((2, 7, 3), {'size': 3, 'step': 2, 'dim': 1}),
                                               ((4, 5), {'size': 4, 'step': 9, 'dim': -2}), ((2, 3), {'size': 1})])
def test_windows_of_a_tensor(weft, shape, attributes):
    agree(weft, 'UnfoldTensor', [rand(*shape)], **attributes)
    x, dim = whole(*shape, low=-9, high=9, dtype=np.int64), attributes.get('dim', -1)
    windows = np.lib.stride_tricks.sliding_window_view(x, attributes['size'], dim)
    expected = windows.take(range(0, windows.shape[dim % x.ndim], attributes.get('step', 1)), dim % x.ndim)
    assert np.array_equal(found(weft, 'UnfoldTensor', [x], [np.int64], options=(), **attributes), expected)


@pytest.mark.parametrize('op, operands, attributes, says', [
    ('MatMulInteger16', [np.int16([[1]]), np.int8([[1]])], {}, 'input 1 (B) is i8'), ('MulInteger', [np.int8([1])], {}, 'found 1 input'),
    ('MulInteger', [np.int8([1]), None, np.uint8([1])], {}, 'input 2 (B) is u8, expected i8'),
    ('ReduceSumInteger', [np.int8([1])], {'keepdims': 1}, '"axes" is absent'),
    ('QLinearReduceMean', [np.int8([1]), np.float32(1), None, None], {'keepdims': 1, 'axes': [0]}, 'found 2 inputs'),
    ('QLinearReduceMean', [np.int8([1]), np.float32(1), None, np.float32(1)], {'keepdims': 1, 'axes': [3]}, '3'),
    ('Rfft', [rand(8)], {'onesided': 0}, 'not one-sided'), ('Rfft', [rand(8)], {'normalized': 1}, 'normalized'),
    ('Rfft', [rand(4, 8)], {'signal_ndim': 2}, 'signals of 2 axes'), ('Irfft', [rand(5, 2)], {}, '"signal_ndim" is absent'),
    ('Irfft', [rand(5)], {'signal_ndim': 1}, ''), ('ComplexMul', [rand(3), rand(3)], {}, 'another last extent than 2'),
    ('ComplexMul', [np.int32([1, 2])] * 2, {}, 'input 0 (A) is i32'), ('UnfoldTensor', [rand(3)], {'size': 4}, 'size is 4'),
    ('UnfoldTensor', [rand(3)], {'size': 0}, 'size is 0'), ('UnfoldTensor', [rand(3)], {'size': 1, 'step': 0}, 'step is 0'),
    ('UnfoldTensor', [rand(3)], {'size': 1, 'dim': 1}, 'dim is 1'), ('UnfoldTensor', [np.float32(1)], {'size': 1}, 'dim is -1')])
def test_numbers_that_are_refused(weft, op, operands, attributes, says):
    model, _ = model_of(op, operands, [np.float32], (), attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    told = weft('check', 'model.onnx', code=(3, 4)) + weft.said
    assert says in told and '"it"' in told, told
