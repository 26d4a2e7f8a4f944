"""What attention knows of positions in operators of com.microsoft: against onnxruntime where it has them, and against
NumPy."""
import numpy as np
import pytest
from contrib_test import agree, by_hand, model_of, onnx, rand
from tool import within


def buckets(queries, keys, count, most, both):
    """The bucket of each query and key, as T5 has them in float32."""
    ahead = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    used = count // 2 if both else count
    distance, exact = np.abs(ahead), used // 2
    with np.errstate(divide='ignore'):
        more = np.log(distance.astype(np.float32) / np.float32(exact)) / np.log(np.float32(most) / np.float32(exact))
    large = np.minimum(exact + (np.maximum(more, 0) * (used - exact)).astype(int), used - 1)
    return np.where(distance < exact, distance, large) + (used * (ahead > 0) if both else 0)


@pytest.mark.parametrize('both', [0, 1])
@pytest.mark.parametrize('queries, keys, count, most', [(9, 9, 8, 12), (150, 150, 32, 128), (3, 7, 4, 3), (1, 1, 32, 128)])
def test_biases_by_distance(weft, queries, keys, count, most, both):
    table, lengths = rand(count, 3), [np.int64(queries), np.int64([keys])]
    expected = table.reshape(3, count)[:, buckets(queries, keys, count, most, both)][None]
    attributes = {'max_distance': most, 'is_bidirectional': both}
    model, arrays = model_of('RelativePositionBias', [table, *lengths], [np.float32], (1, 2), attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    assert np.array_equal(weft.run('model.onnx', arrays)['y0'], expected)


@pytest.mark.parametrize('batch, length, heads, size, inner', [(2, 5, 3, 4, 8), (1, 1, 2, 6, 2)])
def test_gated_biases(weft, batch, length, heads, size, inner):
    x, shift, rel = rand(batch, length, heads * size), rand(heads * size), rand(1, heads, length, length)
    weight, bias, eco = rand(size, inner), rand(inner, seed=1), rand(1, heads, 1, 1)
    queries = (x + shift).astype(np.float64).reshape(batch, length, heads, size).transpose(0, 2, 1, 3)
    u, r = np.split(1 / (1 + np.exp(-(queries @ weight + bias).reshape(batch, heads, length, 2, -1).sum(-1))), 2, -1)
    by_hand(weft, 'GatedRelativePositionBias', [x, shift, rel, weight, bias, eco], [(u * (r * eco - 1) + 2) * rel], num_heads=heads)


@pytest.mark.parametrize('shape, bias, axis, inner', [
    ((2, 3, 4, 5), (2, 1, 1, 5), 3, 1), ((2, 3, 4, 5), (1, 1, 4, 5), 2, 0), ((2, 3, 4, 5), (4, 5), -1, 0), ((3, 4), (1, 4), 1, 1),
    ((2, 3, 4), (2, 3, 4), -3, 0), ((2, 3, 4, 5), (2, 1, 4, 5), 2, 1)])
def test_softmax_of_a_sum(weft, shape, bias, axis, inner):
    x, b = rand(*shape, high=4), rand(*bias, seed=1)
    odds = np.exp(np.float64(x) + b)
    axes = tuple(range(axis % x.ndim, x.ndim))
    options = {} if axis == 1 else {'axis': axis}  # the default
    by_hand(weft, 'BiasSoftmax', [x, b], [odds / odds.sum(axes, keepdims=True)], is_inner_broadcast=inner, **options)


@pytest.mark.parametrize('interleaved', [0, 1])
@pytest.mark.parametrize('layout, sections', [(0, [2, 1, 1]), (1, [2, 1, 1]), (0, [4, 0, 0]), (1, [0, 2, 2])])
def test_rotations_by_three_positions(weft, layout, sections, interleaved):
    tables = [rand(9, 4, seed=1), rand(9, 4, seed=2)]
    places = np.random.default_rng(3).integers(0, 9, (3, 2, 5))
    options = {'mrope_section': sections, 'mrope_layout': layout, 'interleaved': interleaved}
    agree(weft, 'MRotaryEmbedding', [rand(2, 5, 24), places, *tables], num_heads=3, **options)
    agree(weft, 'MRotaryEmbedding', [rand(2, 3, 5, 8), places, *tables], **options)
    agree(weft, 'MRotaryEmbedding', [rand(2, 5, 36), places, *tables], num_heads=3, rotary_embedding_dim=8, **options)


def test_a_rotation_by_sections(weft):
    """Two angles in time, one in height, one in width; the halves of each head are the parts."""
    x, cosine, sine = rand(1, 2, 8), rand(5, 4, seed=1), rand(5, 4, seed=2)
    places = np.int64([[[0, 1]], [[2, 3]], [[4, 0]]])
    at = places[[0, 0, 1, 2], 0].T  # [step, angle]
    c, s = (np.take_along_axis(t, at, 0) for t in (cosine, sine))
    left, right = x[0, :, :4], x[0, :, 4:]
    by_hand(weft, 'MRotaryEmbedding', [x, places, cosine, sine], [np.concatenate([left * c - right * s, right * c + left * s], -1)[None]],
            mrope_section=[2, 1, 1])


def test_rotations_of_gemma(weft):
    emb, (q, turned_q, k, turned_k) = rand(2, 5, 8, high=9), (rand(2, 3, 5, 8, seed=s).astype(np.float16) for s in range(4))
    model, arrays = model_of('GemmaRotaryEmbedding', [emb, q, turned_q, k, turned_k], [np.float16] * 2, (), {})
    onnx.save(model, weft.folder / 'model.onnx')
    found = weft.run('model.onnx', arrays, '--force', 'own', '--strict')
    sine, cosine = (g(emb).astype(np.float16)[:, None] for g in (np.sin, np.cos))
    assert within(found['y0'], q * cosine + turned_q * sine, 2e-3) and within(found['y1'], k * cosine + turned_k * sine, 2e-3)


ANGLES = [rand(1, 2, 8), np.zeros((3, 1, 2), np.int64), rand(5, 4), rand(5, 4)]


@pytest.mark.parametrize('op, operands, attributes, says', [
    ('RelativePositionBias', [rand(8, 2), np.int64(3), np.int64(3)], {'max_distance': 4}, 'max_distance is 4 for 8 buckets'),
    ('RelativePositionBias', [rand(8, 2), np.int64(3), np.int64(3)], {}, '"max_distance" is absent'),
    ('RelativePositionBias', [rand(8, 2), np.int32(3), np.int64(3)], {'max_distance': 9}, 'input 1 (query_length) is i32'),
    ('GatedRelativePositionBias', [rand(4, 8)] + [rand(8)] * 5, {'num_heads': 2}, 'another rank than 3'),
    ('GatedRelativePositionBias', [rand(1, 4, 8)] + [rand(8)] * 5 + [np.int32([[0]])], {'num_heads': 2}, 'without their padding'),
    ('BiasSoftmax', [rand(2, 3), rand(3)], {'is_inner_broadcast': 1}, 'a bias of rank 1 for data of rank 2'),
    ('BiasSoftmax', [rand(2, 3), rand(2, 3)], {'is_inner_broadcast': 0, 'axis': 2}, 'axis is 2'),
    ('MRotaryEmbedding', ANGLES, {'mrope_section': [2, 1, 2]}, 'three counts of 4 angles'),
    ('MRotaryEmbedding', ANGLES, {'mrope_section': [2, 1, 1], 'mrope_layout': 2}, 'mrope_layout is 2'),
    ('MRotaryEmbedding', ANGLES, {'mrope_section': [2, 1, 1], 'scale': 2.0}, 'scales are not supported'),
    ('MRotaryEmbedding', [ANGLES[0], ANGLES[1][0], *ANGLES[2:]], {'mrope_section': [2, 1, 1]}, 'positions of rank 2'),
    ('GemmaRotaryEmbedding', [rand(1, 2, 4)] + [rand(1, 1, 2, 4)] * 4, {}, 'input 1 (q) is f32, expected f16')])
def test_positions_that_are_refused(weft, op, operands, attributes, says):
    model, _ = model_of(op, operands, [np.float32], (), attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    told = weft('check', 'model.onnx', code=(3, 4)) + weft.said
    assert says in told and '"it"' in told, told
