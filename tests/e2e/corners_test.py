"""Corners of operators of ai.onnx that the onnx package's suite leaves out, against its reference evaluator."""
import ml_dtypes
import numpy as np
import pytest

onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
weft = pytest.importorskip('weft', reason='the Python package is not built')
from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from weft.backend import WeftRep  # noqa: E402


def model_of(op, version, operands, constants=(), kind=1, **attributes):
    """One node whose operands are inputs, but for those that are named as constants; its result is of a kind of onnx's."""
    given = {f'x{i}': np.asarray(a) for i, a in enumerate(operands)}
    fixed = [f'x{i}' for i in constants]
    tensors = [numpy_helper.from_array(given[n], n) for n in fixed]
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in given.items() if n not in fixed]
    graph = helper.make_graph([helper.make_node(op, list(given), ['y'], **attributes)], 'g', infos,
                              [helper.make_tensor_value_info('y', kind, None)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', version)], ir_version=11)
    return model, {n: a for n, a in given.items() if n not in fixed}


def agree(expected, *node, **options):
    """What the evaluator gives, or `expected`, unless that is None."""
    model, given = model_of(*node, **options)
    found = np.asarray(WeftRep(model).run(given)[0])
    expected = ReferenceEvaluator(model).run(None, given)[0] if expected is None else expected
    assert found.dtype == expected.dtype
    if found.dtype.kind in 'iu':
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('constants', [[1], []])
@pytest.mark.parametrize('align', [0, 1])
def test_grids_of_one_image_and_of_one_line(align, constants):
    flat, solid = np.random.default_rng(0).standard_normal((3, 2, 3)), np.random.default_rng(1).standard_normal((3, 3, 4))
    for size in ([1, 1, 2, 3], [1, 2, 1, 1], [2, 1, 1, 3], [3, 1, 4, 1], [1, 1, 2, 3, 2], [2, 1, 3, 1, 1], [1, 1, 1, 1, 1]):
        extents, theta = size[2:], (flat if len(size) == 4 else solid)[:size[0]].astype(np.float32)
        # The evaluator divides by 0 where an extent of 1 is aligned; there is one place then, -1.
        axes = [np.linspace(-1, 1, n) if align else (2 * np.arange(n) + 1) / n - 1 for n in extents]
        places = np.stack([*np.meshgrid(*axes, indexing='ij')[::-1], np.ones(extents)], -1)
        expected = np.einsum('nij,...j->n...i', theta, places).astype(np.float32)
        agree(expected, 'AffineGrid', 20, [theta, np.array(size)], constants=constants, align_corners=align)


F16, BF16, F32 = (helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in (np.float16, ml_dtypes.bfloat16, np.float32))
E8M0 = ml_dtypes.float8_e8m0fnu


@pytest.mark.parametrize('constants', [[0, 1], []])
@pytest.mark.parametrize('to', [F16, BF16, F32])
@pytest.mark.parametrize('scale', [np.float16, ml_dtypes.bfloat16, np.float32])
def test_the_type_of_dequantized_numbers(scale, to, constants):
    """Of the attribute, with products in float32 whatever the scale is."""
    large = np.array([[70000, -65535, 3]], np.int32), np.array(0.1, scale)
    shifted = np.array([[65535, 40001, 7]], np.uint16), np.array([0.01, 0.02, 3], scale), np.array([9, 0, 300], np.uint16)
    for operands in (large, shifted):
        agree(None, 'DequantizeLinear', 23, operands, constants, to, output_dtype=to)
    if np.dtype(scale) == helper.tensor_dtype_to_np_dtype(to):
        agree(None, 'DequantizeLinear', 23, large, constants, to)


@pytest.mark.parametrize('constants', [[0, 1], []])
@pytest.mark.parametrize('to', [F16, BF16, F32])
@pytest.mark.parametrize('kind', [ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.int8])
def test_scales_that_are_powers_of_two(kind, to, constants):
    x = np.array([[0, 1, 2, 3], [2, 3, -4, 6]], np.float32).astype(kind)
    scale = np.array([[2, 0.5], [2.0**-100, 4]], np.float32).astype(E8M0)
    agree(None, 'DequantizeLinear', 24, [x, scale], constants, to, axis=1, block_size=2, output_dtype=to)


def test_scales_that_are_powers_of_two_give_no_type():
    x, scale = np.array([1, 2], np.int8), np.array(2).astype(E8M0)
    model, given = model_of('DequantizeLinear', 24, [x, scale])
    with pytest.raises(weft.Error, match='expected a float by attribute "output_dtype"'):
        WeftRep(model).run(given)


@pytest.mark.parametrize('extents', [[2, 3], [1, 3], [2, 1], [1, 1], [4, 2, 3], [1], []])
def test_expands_to_what_the_run_says(extents):
    agree(None, 'Expand', 13, [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(extents, np.int64)])


@pytest.mark.parametrize('extents', [[5, 3], [2, 4], [0, 3], [3, 5, 3]])
def test_a_shape_that_does_not_fit_is_an_error(extents):
    with pytest.raises(weft.Error, match='do not broadcast'):
        agree(None, 'Expand', 13, [np.ones((2, 3), np.float32), np.array(extents, np.int64)])


@pytest.mark.parametrize('exponent', [np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize('base', [np.int32, np.int64])
def test_powers_of_integers_are_exact_and_wrap(base, exponent):
    numbers = np.array([0, 1, 2, 3, 7, 10, 99, -1, -2, -3, -99], base)
    powers = np.array([0, 1, 4, 13, 39, 41, 63, 64, 127], exponent)
    exact = np.array([[int(b)**int(p) % 2**64 for p in powers] for b in numbers], np.uint64).astype(base)
    agree(exact, 'Pow', 15, [numbers[:, None], powers[None]])
    if np.issubdtype(exponent, np.signedinteger):
        negative = np.array([-1, -2, -63], exponent)  # 1 / x^n towards zero
        inverse = np.array([[{1: 1, -1: (-1)**int(-p)}.get(int(b), 0) for p in negative] for b in numbers]).astype(base)
        agree(inverse, 'Pow', 15, [numbers[:, None], negative[None]])


@pytest.mark.parametrize('extents', [[0, 1 << 33], [1 << 33, 0], [0, 1 << 62], [2, 3]])
def test_extents_that_a_run_decides_may_be_large_where_others_are_0(extents):
    """Of an empty tensor; its shape is asked for behind the place where the run decides it."""
    nodes = [helper.make_node('Cast', ['x'], ['e'], to=7), helper.make_node('ConstantOfShape', ['e'], ['z']),
             helper.make_node('Shape', ['z'], ['shape']), helper.make_node('Size', ['z'], ['size'])]
    graph = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info('x', 11, [2])],
                              [helper.make_tensor_value_info('shape', 7, [2]), helper.make_tensor_value_info('size', 7, [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 21)], ir_version=10)
    shape, size = WeftRep(model).run({'x': np.array(extents, np.float64)})
    assert shape.tolist() == extents and size == np.prod(extents)


def one_hot(indices, depth):
    """As the standard's text has it: indices become int64, and those outside of [-depth, depth) have no place."""
    whole = np.array([int(i) for i in indices.astype(np.float64) if np.isfinite(i)], object)
    return np.array([[float(i in (j, j - depth)) for j in range(depth)] for i in whole], np.float32)


@pytest.mark.parametrize('force', ['own', 'calls'])
@pytest.mark.parametrize('depth', [0, 1, 4, 300])
@pytest.mark.parametrize('kind', [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64,
                                  np.uint64])
def test_one_hot_of_any_type(kind, depth, force):
    info = np.finfo(np.float16) if np.dtype(kind).kind == 'f' else np.iinfo(kind)
    near = [0, 1, 3, 4, 100, 127, 255, 299, 300, -1, -2, -4, -5, -127, -300, -301]
    numbers = [*(n for n in near if info.min <= n <= info.max), info.min, info.max]
    if np.dtype(kind).kind == 'f':
        numbers = [*near, 1.5, 2.9, -0.5, -1.5, -3.9, 3.99, -4.9]
    x = np.array(numbers, kind)
    model, given = model_of('OneHot', 11, [x, np.array(depth), np.array([0, 1], np.float32)], constants=[1, 2])
    np.testing.assert_array_equal(WeftRep(model, force=force).run(given)[0], one_hot(x, depth).reshape(len(x), depth))


@pytest.mark.parametrize('direction', ['forward', 'reverse', 'bidirectional'])
@pytest.mark.parametrize('op, gates', [('RNN', 1), ('GRU', 3), ('LSTM', 4)])
@pytest.mark.parametrize('layout', [0, 1])
def test_recurrences_of_no_steps_keep_their_states(op, gates, direction, layout):
    """The evaluator can't; without a step, the last state is the first."""
    count, (batch, size, hidden), random = 1 + (direction == 'bidirectional'), (2, 3, 4), np.random.default_rng(0)
    numbers = lambda *s: random.standard_normal(s).astype(np.float32)
    turned = lambda a: a.swapaxes(0, 1) if layout else a
    states = {n: turned(numbers(count, batch, hidden)) for n in ('h', 'c')[:1 + (op == 'LSTM')]}
    given = {'x': turned(numbers(0, batch, size)), 'w': numbers(count, gates * hidden, size), 'r': numbers(count, gates * hidden, hidden)}
    for starts in ({}, states):
        node = helper.make_node(op, [*given, '', '', *starts], ['y', *(f'{n}_last' for n in states)], direction=direction,
                                hidden_size=hidden, layout=layout)
        infos = [helper.make_tensor_value_info(n, 1, a.shape) for n, a in (given | starts).items()]
        graph = helper.make_graph([node], 'g', infos, [helper.make_tensor_value_info(n, 1, None) for n in node.output])
        y, *last = WeftRep(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 14)], ir_version=8)).run(given | starts)
        assert y.shape == ((batch, 0, count, hidden) if layout else (0, count, batch, hidden))
        for found, start in zip(last, states.values()):
            np.testing.assert_array_equal(found, start if starts else np.zeros_like(start))


@pytest.mark.parametrize('extents', [[2, 0, 3], [0, 0, 3, 4], [2, 0, 0]])
@pytest.mark.parametrize('op, attributes', [('InstanceNormalization', {}), ('GroupNormalization', {'num_groups': 2})])
def test_normalizes_no_channels(op, attributes, extents):
    x, none = np.zeros(extents, np.float32), np.zeros(0, np.float32)
    agree(x, op, 21, [x, none, none], **attributes)


@pytest.mark.parametrize('force', ['own', 'calls'])
@pytest.mark.parametrize('op, given, least, axis', [
    ('Gather', [[0, 7]], 0, 0), ('Gather', [[0, 7]], 1, 1), ('GatherElements', [[[0, 7]]], 0, 0), ('GatherND', [[[7, 0]]], 0, None),
    ('ScatterElements', [[[7]], np.ones((1, 1), np.float32)], 0, 0), ('ScatterND', [[[7]], np.ones((1, 4), np.float32)], 0, None)])
@pytest.mark.parametrize('wrong', [-100, -5, 4, 100])
def test_an_error_names_the_index_that_was_given(wrong, op, given, least, axis, force):
    index, *rest = given
    operands = [np.zeros((3, 4), np.float32), np.where(np.array(index) == 7, wrong, index), *rest]
    model, given = model_of(op, 18, operands, **({} if axis is None else {'axis': axis}))
    with pytest.raises(weft.Error, match=rf'(index|found|holds) {wrong}\b'):
        WeftRep(model, force=force).run(given)


@pytest.mark.parametrize('before, after', [(0, 1), (1, 0)])
def test_wide_windows_beside_an_axis_of_pads_alone(before, after):
    """Along which a window is one element, and some of them lie outside."""
    x = np.random.default_rng(3).standard_normal((1, 2, 3, 9, 9)).astype(np.float32)
    padded = np.pad(x, [(0, 0), (0, 0), (before, after), (2, 2), (2, 2)], constant_values=-np.inf)
    expected = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(3, 4)).max((-1, -2))
    agree(expected, 'MaxPool', 22, [x], kernel_shape=[1, 5, 5], pads=[before, 2, 2, after, 2, 2])


@pytest.mark.parametrize('mode', ['SAME_UPPER', 'SAME_LOWER'])
@pytest.mark.parametrize('kernel, stride, dilation, more', [(1, 2, 1, 0), (1, 3, 1, 0), (2, 3, 1, 0), (1, 4, 1, 0), (1, 3, 1, 1), (2, 4, 2, 0),
                                                           (3, 2, 1, 0), (4, 3, 1, 0)])
@pytest.mark.parametrize('force', ['own', 'calls'])
def test_transposed_windows_that_leave_gaps(mode, kernel, stride, dilation, more, force):
    """Pads of less than nothing are shared out too."""
    random = np.random.default_rng(kernel)
    x, w = random.integers(-3, 4, (1, 2, 4, 5)).astype(np.float32), random.integers(1, 4, (2, 3, kernel, kernel)).astype(np.float32)
    model, given = model_of('ConvTranspose', 22, [x, w], auto_pad=mode, strides=[stride] * 2, dilations=[dilation] * 2, output_padding=[more] * 2)
    np.testing.assert_array_equal(WeftRep(model, force=force).run(given)[0], ReferenceEvaluator(model).run(None, given)[0])


@pytest.mark.parametrize('rows', [1, 4])
@pytest.mark.parametrize('kind, zero, low, high', [
    (np.int8, -128, -128, -126), (np.int8, 127, 120, 127), (np.int8, -128, -128, 127), (np.uint8, 0, 0, 3), (np.uint8, 255, 250, 255),
    (np.uint8, 128, 0, 255), (ml_dtypes.uint4, 0, 0, 2), (ml_dtypes.int4, -8, -8, -7), (ml_dtypes.uint4, 15, 0, 15)])
def test_products_with_weights_far_from_0(kind, zero, low, high, rows):
    """Of integers less a zero point: rounded no more than the products that the text has."""
    random, k = np.random.default_rng(rows), 256
    x, w = random.standard_normal((rows, k)).astype(np.float32), random.integers(low, high + 1, (k, 64)).astype(kind)
    scale, zeros = random.uniform(0.01, 0.02, 64).astype(np.float32), np.full(64, zero).astype(kind)
    nodes = [helper.make_node('DequantizeLinear', ['w', 's', 'z'], ['d'], axis=1), helper.make_node('MatMul', ['x', 'd'], ['y'])]
    constants = [numpy_helper.from_array(a, n) for n, a in {'w': w, 's': scale, 'z': zeros}.items()]
    graph = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info('x', 1, x.shape)], [helper.make_tensor_value_info('y', 1, None)], constants)
    found = WeftRep(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 21)], ir_version=10)).run({'x': x})[0]
    dequantized = (w.astype(np.float64) - zero) * scale
    exact, direct = x.astype(np.float64) @ dequantized, np.zeros((rows, 64), np.float32)
    for i in range(k):  # one after the other
        direct += x[:, i:i + 1] * dequantized[i].astype(np.float32)
    error = lambda y: np.sqrt(np.square(y - exact).mean())
    assert error(found) <= 2 * error(direct)


@pytest.mark.parametrize('order', [0, 1])
@pytest.mark.parametrize('force', ['own', 'calls'])
@pytest.mark.parametrize('kind, least', [(np.uint8, 0), (np.int8, -128), (np.float32, -np.inf)])
def test_places_of_the_largest_lie_inside(kind, least, force, order):
    """Of windows of the least number alone, too: the first of the window that is no pad."""
    x = np.full((1, 2, 5, 6), least, kind)
    kernel, strides, dilations, pads = (3, 2), (2, 1), (2, 1), (3, 1, 1, 0)
    node = helper.make_node('MaxPool', ['x'], ['y', 'at'], kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, storage_order=order)
    graph = helper.make_graph([node], 'g', [helper.make_tensor_value_info('x', helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
                              [helper.make_tensor_value_info('y', helper.np_dtype_to_tensor_dtype(x.dtype), None), helper.make_tensor_value_info('at', 7, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 12)], ir_version=8)
    y, at = WeftRep(model, force=force).run({'x': x})
    first = lambda k, axis: next(p for p in range(k * strides[axis] - pads[axis], 99, dilations[axis]) if p >= 0)
    right = np.array([[[c * 30 + (first(i, 0) * 6 + first(j, 1) if order == 0 else first(j, 1) * 5 + first(i, 0)) for j in range(y.shape[3])]
                       for i in range(y.shape[2])] for c in range(2)])
    assert (y == np.array(least, kind)).all()
    np.testing.assert_array_equal(at[0], right)


@pytest.mark.parametrize('version', [11, 13, 18])
def test_parts_of_a_split_that_nobody_names_count(version):
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    count = {'num_outputs': 3} if version >= 18 else {}
    for named in (['a', 'b', ''], ['a', '', ''], ['', 'b', '']):
        graph = helper.make_graph([helper.make_node('Split', ['x'], named, axis=1, **count)], 'g',
                                  [helper.make_tensor_value_info('x', 1, x.shape)],
                                  [helper.make_tensor_value_info(n, 1, None) for n in named if n])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', version)], ir_version=8)
        expected = [x[:, 2 * i:2 * i + 2] for i, n in enumerate(named) if n]
        for found, part in zip(WeftRep(model).run({'x': x}), expected, strict=True):
            np.testing.assert_array_equal(found, part)


@pytest.mark.parametrize('version, alpha, gamma', [(5, 1.6732, 1.0507), (6, 1.67326319217681884765625, 1.05070102214813232421875)])
def test_selu_as_its_version_has_it(version, alpha, gamma):
    x = -np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(WeftRep(model_of('Selu', version, [x])[0]).run({'x0': x})[0], gamma * alpha * np.expm1(x), rtol=2e-6)


@pytest.mark.parametrize('clips', [True, False])
def test_operands_that_a_call_leaves_out_are_absent_in_subgraphs_too(clips):
    info = helper.make_tensor_value_info
    branches = [helper.make_graph([helper.make_node(op, operands, ['r'])], op, [], [info('r', 1, None)])
                for op, operands in (('Clip', ['a', 'low', 'high']), ('Neg', ['a']))]
    function = helper.make_function('own', 'Clipped', ['a', 'low', 'high', 'on'], ['y'], [
        helper.make_node('If', ['on'], ['y'], then_branch=branches[0], else_branch=branches[1])], [helper.make_opsetid('', 13)])
    graph = helper.make_graph([helper.make_node('Clipped', ['x', '', 'high', 'on'], ['y'], domain='own')], 'g',
                              [info('x', 1, [6]), info('on', 9, [])], [info('y', 1, None)],
                              [helper.make_tensor('high', 1, [], [3.5])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 13), helper.make_opsetid('own', 1)],
                              ir_version=8, functions=[function])
    x = np.arange(6, dtype=np.float32)
    found = WeftRep(model).run({'x': x, 'on': np.bool_(clips)})[0]
    np.testing.assert_array_equal(found, np.minimum(x, 3.5) if clips else -x)


@pytest.mark.parametrize('constants', [[], [1, 2, 3]])
@pytest.mark.parametrize('rows, columns', [((2, 3, 1), (2, 1, 5)), ((1, 3, 1), (2, 1, 1)), ((2, 1, 1), (1, 1, 5)), ((3,), (5,))])
@pytest.mark.parametrize('kind', [np.uint8, np.int8])
def test_zero_points_of_each_matrix_of_a_batch(kind, rows, columns, constants):
    r = np.random.default_rng(0)
    whole = lambda kind, *shape: r.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
    a, b, zero_a, zero_b = whole(kind, 2, 3, 8), whole(np.int8, 2, 8, 5), whole(kind, *rows), whole(np.int8, *columns)
    by_row = zero_a[:, None] if zero_a.ndim == 1 else zero_a
    exact = (a.astype(np.int32) - by_row) @ (b.astype(np.int32) - zero_b)
    agree(exact, 'MatMulInteger', 10, [a, b, zero_a, zero_b], constants, 6)
    scale_a, scale_b, scale = (r.uniform(0.01, 0.02, s).astype(np.float32) for s in (rows, columns, ()))
    by_row = scale_a[:, None] if scale_a.ndim == 1 else scale_a
    y = np.clip(np.rint(exact.astype(np.float32) * (by_row * scale_b / scale)) + 3, -128, 127).astype(np.int8)
    model, given = model_of('QLinearMatMul', 21, [a, scale_a, zero_a, b, scale_b, zero_b, scale, np.int8(3)],
                            [c + (2 if c > 1 else 1) for c in constants], 3)
    assert abs(WeftRep(model).run(given)[0].astype(int) - y).max() <= 1  # halves may be rounded the other way


@pytest.mark.parametrize('constants', [[], [2, 3]])
@pytest.mark.parametrize('rows, columns, at', [
    ((2, 3, 8), (), 2), ((9,), (), 2), ((3, 3, 1), (), 2), ((3, 1), (), 2), ((0,), (), 2), ((), (2, 8, 1), 3), ((), (4,), 3)])
def test_zero_points_of_other_lines_are_refused(rows, columns, at, constants):
    operands = [np.ones(s, np.uint8) for s in ((2, 3, 8), (2, 8, 5), rows, columns)]
    with pytest.raises(weft.Error, match=f'input {at}: found .*, expected one number or'):
        agree(None, 'MatMulInteger', 10, operands, constants, 6)


def test_numbers_of_nothing_have_no_range():
    x = np.zeros((0, 3), np.float32)
    graph = helper.make_graph([helper.make_node('DynamicQuantizeLinear', ['x'], ['y', 'scale', 'zero'])], 'g',
                              [helper.make_tensor_value_info('x', 1, x.shape)],
                              [helper.make_tensor_value_info(n, t, None) for n, t in (('y', 2), ('scale', 1), ('zero', 2))])
    y, scale, _ = WeftRep(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 11)], ir_version=8)).run({'x': x})
    assert y.shape == (0, 3) and scale == 0


@pytest.mark.parametrize('constants', [[1], []])
@pytest.mark.parametrize('indices', [[5, 0, 3, 3], [5, -1, 0, -6], [[2], [0]], [-6, -6]])
def test_looks_up_what_is_known_and_what_is_not(indices, constants):
    """Constant indices of which none counts from the end, some do, all do; and those of a run."""
    x, at = np.random.default_rng(0).standard_normal((3, 6, 4)).astype(np.float32), np.array(indices)
    agree(None, 'Gather', 13, [x, at], constants=constants, axis=1)
    agree(None, 'GatherElements', 13, [x, np.broadcast_to(at.reshape(1, -1, 1), (3, at.size, 4)).copy()],
          constants=constants, axis=1)
    agree(np.stack([x[:, i] for i in at.reshape(-1)], 1), 'GatherND', 13,
          [x, np.broadcast_to(at.reshape(1, -1, 1), (3, at.size, 1)).copy()], constants=constants, batch_dims=1)


@pytest.mark.parametrize('wrong', [6, -7])
def test_a_constant_index_outside_is_an_error(wrong):
    x = np.zeros((3, 6, 4), np.float32)
    model, given = model_of('Gather', 13, [x, np.array([0, wrong, 3])], constants=[1], axis=1)
    with pytest.raises(weft.Error, match=rf'(index|found|holds) {wrong}\b'):
        WeftRep(model).run(given)
