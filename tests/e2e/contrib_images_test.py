"""Crops, transposed convolutions, inverses and scores of tokens of com.microsoft: against onnxruntime where it has them,
and against NumPy."""
import numpy as np
import pytest
from contrib_test import agree, by_hand, model_of, onnx, rand, whole
from tool import within


def found(weft, op, inputs, outputs=(np.float32,), fixed=(), **attributes):
    model, arrays = model_of(op, inputs, outputs, fixed, attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    return weft.run('model.onnx', arrays)['y0']


@pytest.mark.parametrize('fixed', [(), (2,)])
@pytest.mark.parametrize('bias', [None, rand(4)])
def test_transposed_convolutions_whose_pads_are_an_input(weft, bias, fixed):
    x, w, pads = rand(2, 4, 5, 6), rand(4, 2, 3, 3), np.int64([1, 0, 0, 2])
    options = {'strides': [2, 1], 'group': 2, 'output_padding': [1, 0], 'kernel_shape': [3, 3]}
    agree(weft, 'ConvTransposeWithDynamicPads', [x, w, pads, bias], fixed=fixed, **options)


def test_transposed_convolutions_without_pads(weft):
    x, w = rand(1, 2, 7), rand(2, 3, 3)
    without = found(weft, 'ConvTransposeWithDynamicPads', [x, w], dilations=[2])
    assert np.array_equal(without, found(weft, 'ConvTransposeWithDynamicPads', [x, w, np.int64([0, 0])], dilations=[2]))
    agree(weft, 'ConvTransposeWithDynamicPads', [rand(1, 2, 7), rand(2, 3, 3), np.int64([1, 1])], dilations=[2], strides=[2])


def crops(x, boxes, images, size, outside):
    """Bilinear ones, in float64."""
    y = np.full((len(boxes), x.shape[1], *size), outside)
    for r, (box, image) in enumerate(zip(np.float64(boxes), images)):
        places = [np.linspace(box[a], box[a + 2], n) * (e - 1) if n > 1 else [(box[a] + box[a + 2]) / 2 * (e - 1)]
                  for a, (n, e) in enumerate(zip(size, x.shape[2:]))]
        for i, p in enumerate(places[0]):
            for j, q in enumerate(places[1]):
                if 0 <= p <= x.shape[2] - 1 and 0 <= q <= x.shape[3] - 1:
                    a, b = int(p), int(q)
                    c, d = min(a + 1, x.shape[2] - 1), min(b + 1, x.shape[3] - 1)
                    rows = [x[image, :, k, b] + (x[image, :, k, d] - x[image, :, k, b]) * (q - b) for k in (a, c)]
                    y[r, :, i, j] = rows[0] + (rows[1] - rows[0]) * (p - a)
    return y


BOXES = np.float32([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [0.9, 0.8, 0.1, 0.3], [-0.3, 0.2, 1.2, 1.1], [0.5, 0.5, 0.5, 0.5]])


@pytest.mark.parametrize('size', [(3, 4), (1, 5), (6, 1), (1, 1)])
def test_crops(weft, size):
    x, images = rand(3, 2, 6, 7), np.int32([0, 2, 1, 1, 2])
    operands = [x, BOXES, images, np.int32(size)]
    expected = crops(x, BOXES, images, size, -2.0).astype(np.float32)
    assert within(found(weft, 'CropAndResize', operands, fixed=(3,), extrapolation_value=-2.0), expected, 1e-5)
    agree(weft, 'CropAndResize', operands, fixed=(3,), extrapolation_value=-2.0)
    agree(weft, 'CropAndResize', operands, fixed=(3,), mode='nearest')


def test_crops_of_halves_find_their_pixels(weft):
    x = (np.arange(5000) % 7).astype(np.float16).reshape(1, 1, 1, 5000)
    box, size = np.float16([[0, 0.5, 0, 0.625]]), np.int32([1, 5])
    places = np.linspace(0.5, 0.625, 5) * 4999
    given = found(weft, 'CropAndResize', [x, box, np.int32([0]), size], [np.float16], fixed=(3,))
    assert within(given, np.interp(places, range(5000), x[0, 0, 0]).astype(np.float16)[None, None, None], 2e-3)


def test_crops_of_a_single_pixel(weft):
    agree(weft, 'CropAndResize', [rand(1, 2, 1, 1), BOXES, np.zeros(5, np.int32), np.int32([2, 2])], fixed=(3,))


@pytest.mark.parametrize('shape', [(1, 1), (3, 3), (2, 4, 4), (2, 3, 7, 7), (40, 40)])
@pytest.mark.parametrize('dtype', [np.float32, np.float64, np.float16])
def test_inverses(weft, shape, dtype):
    x = rand(*shape, low=-3, high=3)
    if shape[-1] > 1:
        x[..., 0, 0] = 0  # where no pivot is
    x = x.astype(dtype)
    expected = np.linalg.inv(x.astype(np.float64))
    given = found(weft, 'Inverse', [x], [dtype])
    assert within(given, expected.astype(dtype), {np.float32: 1e-4, np.float64: 1e-11, np.float16: 2e-3}[dtype])
    if dtype != np.float16:
        model, arrays = model_of('Inverse', [x], [dtype], (), {})
        peer = __import__('onnxruntime').InferenceSession(model.SerializeToString(), providers=['CPUExecutionProvider'])
        assert within(given, peer.run(None, arrays)[0], 1e-4 if dtype == np.float32 else 1e-11)


def test_a_matrix_without_inverse(weft):
    assert not np.isfinite(found(weft, 'Inverse', [np.float32([[1, 2], [2, 4]])])).any()


@pytest.mark.parametrize('size, length', [(1, 4), (2, 6), (3, 9), (3, 3), (3, 2), (4, 1), (2, 2)])
def test_sequences_that_are_not_repeated(weft, size, length):
    ids, scores = whole(3, length, low=0, high=3, dtype=np.int64), rand(3, 5)
    expected = scores.copy()
    for row, line in enumerate(ids.tolist()):
        for i in range(length - size + 1):
            if line[i:i + size - 1] == line[length - size + 1:]:
                expected[row, line[i + size - 1]] = -np.inf
    given = found(weft, 'NGramRepeatBlock', [ids, scores], ngram_size=size)
    assert np.array_equal(given, expected)
    model, arrays = model_of('NGramRepeatBlock', [ids, scores], [np.float32], (), {'ngram_size': size})
    peer = __import__('onnxruntime').InferenceSession(model.SerializeToString(), providers=['CPUExecutionProvider'])
    assert np.array_equal(given, peer.run(None, arrays)[0])


@pytest.mark.parametrize('attributes', [{}, {'isnan_only': 1}, {'isinf_only': 1}])
def test_whether_all_is_finite(weft, attributes):
    x = rand(2, 3)
    for odd in (0, np.inf, -np.inf, np.nan):
        y = rand(4)
        y[2] = odd
        bad = np.isnan(odd) and 'isinf_only' not in attributes or np.isinf(odd) and 'isnan_only' not in attributes
        given = found(weft, 'IsAllFinite', [x, y], [np.bool_], **attributes)
        assert given.shape == () and bool(given) == (not bad)


def test_rows_of_a_table(weft):
    table, rows = rand(9, 4), np.int64([[1, 8], [0, 1]])
    assert np.array_equal(found(weft, 'TorchEmbedding', [table, rows, np.int64(1), np.bool_(True)]), table[rows])
    assert np.array_equal(found(weft, 'TorchEmbedding', [table, rows]), table[rows])


@pytest.mark.parametrize('activation, attributes, of', [
    ('Relu', {}, lambda v: np.maximum(v, 0)), ('Tanh', {}, np.tanh),
    ('LeakyRelu', {'activation_alpha': 0.2}, lambda v: np.where(v < 0, 0.2 * v, v)),
    ('HardSigmoid', {'activation_beta': 0.3}, lambda v: np.clip(0.2 * v + 0.3, 0, 1)),
    ('Selu', {'activation_alpha': 1.5, 'activation_gamma': 2.0}, lambda v: 2 * np.where(v > 0, v, 1.5 * np.expm1(v))),
    ('Softmax', {'activation_axis': -1}, lambda v: np.exp(v) / np.exp(v).sum(-1, keepdims=True)),
    ('Softmax', {'activation_axis': 2}, lambda v: np.exp(v) / np.exp(v).sum(-1, keepdims=True))])
def test_products_with_an_activation(weft, activation, attributes, of):
    x, y = rand(2, 3, 4), rand(2, 5, 4)
    by_hand(weft, 'FusedMatMulActivation', [x, y], [of(0.5 * np.float64(x) @ np.float64(y).swapaxes(1, 2))], alpha=0.5, transB=1,
            activation=activation, **attributes)


@pytest.mark.parametrize('op, operands, attributes, says', [
    ('ConvTransposeWithDynamicPads', [rand(1, 2, 7), rand(2, 3, 3), np.int64([1, 1])], {'auto_pad': 'SAME_UPPER'}, 'pads beside auto_pad'),
    ('ConvTransposeWithDynamicPads', [rand(1, 2, 7), rand(2, 3, 3), np.int32([1, 1])], {}, 'input 2 (Pads) is i32'),
    ('CropAndResize', [rand(1, 2, 3, 3), BOXES, np.zeros(5, np.int32), np.int32([2, 2])], {}, 'not constant'),
    ('CropAndResize', [rand(1, 2, 3, 3), BOXES, np.zeros(5, np.int32), np.int32([2, 2])], {'mode': 'cubic'}, 'mode is "cubic"'),
    ('CropAndResize', [rand(1, 2, 3), BOXES, np.zeros(5, np.int32), np.int32([2, 2])], {}, 'input 0 is of rank 3'),
    ('Inverse', [rand(3, 4)], {}, 'not square'), ('Inverse', [rand(3)], {}, 'not square'),
    ('Inverse', [np.int32([[1]])], {}, 'input 0 (X) is i32'),
    ('NGramRepeatBlock', [np.int64([[1]]), rand(1, 3)], {'ngram_size': 0}, 'ngram_size is 0'),
    ('NGramRepeatBlock', [np.int64([1]), rand(1, 3)], {'ngram_size': 1}, 'input 0 is of rank 1'),
    ('IsAllFinite', [rand(3)], {'isnan_only': 1, 'isinf_only': 1}, 'exclude each other'),
    ('IsAllFinite', [np.int32([3])], {}, 'input 0 (input) is i32'),
    ('TorchEmbedding', [rand(3), np.int64([1])], {}, 'a table of rank 1'),
    ('FusedMatMulActivation', [rand(3, 3), rand(3, 3)], {'activation': 'ScaledTanh'}, 'the activation "ScaledTanh"'),
    ('FusedMatMulActivation', [rand(3, 3), rand(3, 3)], {'activation': 'Softmax', 'activation_axis': 0}, 'another axis than the last'),
    ('FusedMatMulActivation', [rand(3, 3), rand(3, 3)], {'activation': 'Relu', 'activation_alpha': 1.0}, '"alpha"')])
def test_what_is_refused(weft, op, operands, attributes, says):
    model, _ = model_of(op, operands, [np.float32], (), attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    told = weft('check', 'model.onnx', code=(3, 4)) + weft.said
    assert says in told and '"it"' in told, told
