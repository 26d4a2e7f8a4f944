"""What is found out before a network runs is what a run would find: foldings, patterns and sizes at their limits."""
import numpy as np
import pytest

onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
from control_test import agree, graph, node, saved  # noqa: E402
from onnx import TensorProto as T  # noqa: E402

F, I32, I64, U32, U64, F64 = np.float32, np.int32, np.int64, np.uint32, np.uint64, np.float64
X = np.random.default_rng(5).standard_normal((2, 3)).astype(F)
SIGN = [node('Div', ['one', 'n'], ['d']), node('Greater', ['d', 'zero'], ['y'])]
ZERO = {'zero': F(0), 'one': F(1)}

# name -> nodes that make y of constants, the constants, what y is
CONSTANTS = {
    'u64_less': ([node('Less', ['a', 'b'], ['y'])], {'a': U64(2**63 + 6), 'b': U64(1)}, False),
    'u64_divided': ([node('Div', ['a', 'b'], ['y'])], {'a': U64(2**63 + 6), 'b': U64(2)}, U64(2**62 + 3)),
    'u64_rest': ([node('Mod', ['a', 'b'], ['y'])], {'a': U64(2**63 + 6), 'b': U64(7)}, U64((2**63 + 6) % 7)),
    'u64_wraps': ([node('Sub', ['a', 'b'], ['n']), node('Greater', ['n', 'z'], ['y'])], {'a': U64(3), 'b': U64(5), 'z': U64(0)}, True),
    'u64_as_float': ([node('Cast', ['a'], ['n'], to=T.FLOAT), node('Less', ['n', 'z'], ['y'])], {'a': U64(2**63), 'z': F(0)}, False),
    'minus_zero': ([node('Neg', ['zero'], ['n']), *SIGN], ZERO, False),
    'zero_times_minus_one': ([node('Mul', ['zero', 'k'], ['n']), *SIGN], ZERO | {'k': F(-1)}, False),
    'zero_of_integers': ([node('Neg', ['a'], ['i']), node('Cast', ['i'], ['n'], to=T.FLOAT), *SIGN], ZERO | {'a': I64(0)}, True),
    'f64_holds_53_bits': ([node('Cast', ['a'], ['n'], to=T.DOUBLE), node('Cast', ['n'], ['y'], to=T.INT64)], {'a': I64(2**53 + 1)}, I64(2**53)),
    'f64_sum_is_rounded': ([node('Add', ['a', 'b'], ['n']), node('Equal', ['n', 'a'], ['y'])], {'a': F64(2**53), 'b': F64(1)}, True),
    'f32_of_i64_is_rounded_once': ([node('Cast', ['a'], ['n'], to=T.FLOAT), node('Greater', ['n', 'b'], ['y'])],
                                   {'a': I64(2**60 + 2**36 + 1), 'b': F(2.**60)}, True),
    'f16_of_f64_is_rounded_once': ([node('Cast', ['a'], ['n'], to=T.FLOAT16), node('Cast', ['n'], ['m'], to=T.FLOAT), node('Greater', ['m', 'one'], ['y'])],
                                   {'a': F64(1 + 2**-11 + 2**-40), 'one': F(1)}, True),
    'abs_beyond_f64': ([node('Abs', ['a'], ['n']), node('Equal', ['n', 'b'], ['y'])], {'a': I64(-2**53 - 1), 'b': I64(2**53)}, False),
    'abs_wraps': ([node('Abs', ['a'], ['n']), node('Greater', ['n', 'b'], ['y'])], {'a': I64(-2**63), 'b': I64(0)}, False),
    'i32_sum_wraps': ([node('ReduceSum', ['a'], ['n'], keepdims=0), node('Greater', ['n', 'b'], ['y'])], {'a': I32([2**31 - 1, 1]), 'b': I32(0)}, False),
    'u32_sum_wraps': ([node('ReduceSum', ['a'], ['n'], keepdims=0), node('Div', ['n', 'b'], ['y'])], {'a': U32([2**32 - 1, 5]), 'b': U32(2)}, U32(2)),
    'range_beyond_f64': ([node('Range', ['a', 'b', 'c'], ['y'])], {'a': I64(2**63 - 3), 'b': I64(2**63 - 1), 'c': I64(1)}, I64([2**63 - 3, 2**63 - 2])),
    'range_over_all': ([node('Range', ['a', 'b', 'c'], ['y'])], {'a': I64(2**63 - 1), 'b': I64(-2**63), 'c': I64(-2**62)},
                       I64([2**63 - 1, 2**62 - 1, -1, -2**62 - 1])),
}


@pytest.mark.parametrize('name', CONSTANTS)
def test_constants(weft, name):
    nodes, constants, expected = CONSTANTS[name]
    expected = np.asarray(expected)
    model = saved(weft, nodes, [], [('y', onnx.helper.np_dtype_to_tensor_dtype(expected.dtype), None)], constants)
    agree(weft, model, {}, [expected])


CLIPPED = [node('Add', ['x', 'b'], ['a']), node('Clip', ['a', 'low', 'high'], ['c'])]
FIVE = I32([-5, -2, 1, 2, 9])
NARROW = {'w': np.full((2, 3), 1e-30, F), 'k': F(1e-15)}
WIDE = {'w': np.full((2, 3), 1e30, F), 'k': F(1e15)}

# name -> nodes that make y of x, the constants, x, y
PATTERNS = {
    'hard_sigmoid_of_integers': ([*CLIPPED, node('Div', ['c', 'high'], ['y'])], {'b': I32(3), 'low': I32(0), 'high': I32(6)}, FIVE, np.clip(FIVE + 3, 0, 6) // 6),
    'hard_swish_of_integers': ([*CLIPPED, node('Mul', ['x', 'c'], ['p']), node('Div', ['p', 'high'], ['y'])],
                               {'b': I32(3), 'low': I32(0), 'high': I32(6)}, FIVE, np.trunc(FIVE * np.clip(FIVE + 3, 0, 6) / 6).astype(I32)),
    'clip_whose_bounds_cross': ([*CLIPPED, node('Mul', ['c', 'k'], ['y'])], {'b': F(3), 'low': F(0), 'high': F(-5), 'k': F(-.2)}, FIVE.astype(F), np.ones(5, F)),
    'hard_sigmoid_beyond_f32': ([node('Mul', ['x', 'm'], ['s']), node('Add', ['s', 'b'], ['a']), *CLIPPED[1:], node('Mul', ['c', 'k'], ['y'])],
                                {'m': F(3e38), 'b': F(3e38), 'low': F(0), 'high': F(1e-3), 'k': F(1e3)}, F([-6, -1, 1]), F([0, 0, 1])),
    'norm_of_integers': ([node('ReduceMean', ['x', 'axis'], ['mean']), node('Sub', ['x', 'mean'], ['d']), node('Mul', ['d', 'd'], ['q']),
                          node('ReduceMean', ['q', 'axis'], ['v']), node('Add', ['v', 'e'], ['s']), node('Pow', ['s', 'half'], ['r']), node('Div', ['d', 'r'], ['y'])],
                         {'axis': I64([-1]), 'e': I32(1), 'half': F(.5)}, I32([[4, 8, -12, 40]]), I32([[0, 0, -1, 1]])),
    'factor_below_the_normal_numbers': ([node('Gemm', ['x', 'w'], ['a'], transB=1), node('Mul', ['a', 'k'], ['y'])], NARROW, np.full((1, 3), 1e30, F), np.full((1, 2), 3e-15, F)),
    'factor_beyond_f32': ([node('Gemm', ['x', 'w'], ['a'], transB=1), node('Mul', ['a', 'k'], ['y'])], WIDE, np.full((1, 3), 1e-30, F), np.full((1, 2), 3e15, F)),
    'bias_that_counts_for_nothing': ([node('Gemm', ['x', 'w', 'b'], ['a'], beta=0.), node('Mul', ['a', 'k'], ['y'])],
                                     {'w': X.T.copy(), 'b': F([np.nan, np.inf]), 'k': F([2, 3])}, X, X @ X.T * F([2, 3])),
    'zero_point_of_rank_2': ([node('DequantizeLinear', ['x', 's', 'z'], ['a'], axis=1, block_size=4), node('DequantizeLinear', ['w', 't'], ['b'], axis=1),
                              node('MatMul', ['a', 'b'], ['y'])],
                             {'s': np.full((1, 1), .5, F), 'z': np.full((1, 1), 3, np.uint8), 'w': np.int8([[1, -2], [3, 4], [-5, 6], [7, 8]]), 't': F([1, 2])},
                             np.uint8([[1, 2, 3, 200]]), F([[687, 1576]])),
    'list_of_nothing': ([node('SplitToSequence', ['x'], ['s']), node('SequenceLength', ['s'], ['y'])], {}, np.zeros((0, 3), F), I64(0)),
    'last_element_erased': ([node('SequenceConstruct', ['x'], ['s']), node('SequenceErase', ['s'], ['e']), node('SequenceInsert', ['e', 'x'], ['i']),
                             node('SequenceAt', ['i', 'zero'], ['y'])], {'zero': I64(0)}, I64([7, 8]), I64([7, 8])),
}


@pytest.mark.parametrize('name', PATTERNS)
def test_patterns(weft, name):
    nodes, constants, x, expected = PATTERNS[name]
    typed = lambda n, v, open_: (n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), None if open_ else v.shape)
    model = saved(weft, nodes, [typed('x', x, False)], [typed('y', np.asarray(expected), True)], constants)
    agree(weft, model, {'x': x}, [expected])


def places(name, of):
    return graph(name, [node('NonZero', [of], [name])], [], [(name, T.INT64, None)])


@pytest.mark.parametrize('first', [node('NonZero', ['x'], ['a']), node('If', ['c'], ['a'], then_branch=places('p', 'x'), else_branch=places('q', 'w'))])
def test_sizes_inside_are_not_those_around(weft, first):
    """NonZero in a branch and around it, or in two branches, find as many as their data say."""
    model = saved(weft, [
        first, node('If', ['c'], ['b'], then_branch=places('r', 'w'), else_branch=places('s', 'x')),
        node('Shape', ['a'], ['extents']), node('Expand', ['b', 'extents'], ['y']),
        node('Size', ['a'], ['m']), node('Size', ['b'], ['n']), node('Equal', ['m', 'n'], ['same'])],
        [('x', T.FLOAT, [4]), ('w', T.FLOAT, [4]), ('c', T.BOOL, [])], [('y', T.INT64, None), ('same', T.BOOL, None)])
    agree(weft, model, {'x': F([1, 1, 0, 1]), 'w': F([0, 0, 1, 0]), 'c': np.array(True)}, [I64([[2, 2, 2]]), np.array(False)])


def test_an_optional_of_a_list_that_a_run_decides(weft):
    model = saved(weft, [node('SplitToSequence', ['x', 'parts'], ['s'], axis=0), node('Optional', ['s'], ['o']), node('OptionalHasElement', ['o'], ['y'])],
                  [('x', T.FLOAT, [4]), ('parts', T.INT64, [])], [('y', T.BOOL, None)])
    agree(weft, model, {'x': X.ravel()[:4], 'parts': I64(2)}, [np.array(True)])


def test_a_body_may_give_one_value_twice(weft):
    body = graph('body', [node('Add', ['s', 'x'], ['t'])], [('i', T.INT64, []), ('on', T.BOOL, []), ('s', T.FLOAT, [3])],
                 [('on', T.BOOL, []), ('t', T.FLOAT, [3]), ('t', T.FLOAT, [3])])
    model = saved(weft, [node('Loop', ['m', '', 'x'], ['y', 'rows'], body=body)], [('x', T.FLOAT, [3]), ('m', T.INT64, [])],
                  [('y', T.FLOAT, [3]), ('rows', T.FLOAT, None)])
    agree(weft, model, {'x': X[0], 'm': I64(3)}, [4 * X[0], np.stack([2 * X[0], 3 * X[0], 4 * X[0]])])


def test_an_axis_that_is_no_1_is_not_squeezed(weft):
    saved(weft, [node('Squeeze', ['x', 'axis'], ['a']), node('Unsqueeze', ['a', 'axis'], ['b']), node('Add', ['b', 'w'], ['y'])],
          [('x', T.FLOAT, ['n', 'm']), ('w', T.FLOAT, ['m'])], [('y', T.FLOAT, None)], {'axis': I64([0])})
    weft('build', 'm.onnx', '-o', 'm.plan', '--budget', '0')
    np.savez(weft.folder / 'in.npz', x=X[:1, :1].repeat(3, 0), w=X[0, :1])
    weft('run', 'm.plan', '--inputs', 'in.npz', '-o', 'out.npz', code=3)


def refused_at(weft, **given):
    weft('build', 'm.onnx', '-o', 'm.plan', '--budget', '0')
    np.savez(weft.folder / 'in.npz', **given)
    weft('run', 'm.plan', '--inputs', 'in.npz', '-o', 'out.npz', code=3)


def test_shapes_that_do_not_fit_are_not_composed_away(weft):
    saved(weft, [node('Reshape', ['x', 'flat'], ['a']), node('Reshape', ['a', 'k'], ['y'])],
          [('x', T.FLOAT, ['n']), ('k', T.INT64, [1])], [('y', T.FLOAT, None)], {'flat': I64([-1])})
    refused_at(weft, x=X.ravel(), k=I64([5]))
    saved(weft, [node('Reshape', ['x', 'rows'], ['a']), node('Reshape', ['a', 'flat'], ['y'])],
          [('x', T.FLOAT, ['n'])], [('y', T.FLOAT, None)], {'rows': I64([-1, 4]), 'flat': I64([-1])})
    refused_at(weft, x=X.ravel())


@pytest.mark.parametrize('op', ['Conv', 'ConvTranspose'])
def test_kernels_that_only_a_run_knows(weft, op):
    model = saved(weft, [node(op, ['x', 'w'], ['y'])], [('x', T.FLOAT, [1, 2, 9]), ('w', T.FLOAT, [2, 2, 'k'])], [('y', T.FLOAT, None)])
    weft('build', 'm.onnx', '-o', 'm.plan', '--budget', '0')
    for k in (3, 1, 5):
        agree(weft, model, {'x': np.resize(X, (1, 2, 9)), 'w': np.resize(X * X, (2, 2, k))}, plan='m.plan')


ROW, FILTER = np.resize(X, (1, 2, 9)), np.resize(X * X, (3, 2, 3))
# name -> nodes that make y of a row of 9, the constants
BORDERS = {
    'zeros_of_a_pad': ([node('Pad', ['x', 'p', 'z'], ['c']), node('Conv', ['c', 'w'], ['y'], pads=[0, 1])], {'p': I64([0, 0, 2, 0, 0, 0]), 'z': F(0)}),
    'zeros_along_an_axis': ([node('Pad', ['x', 'p', '', 'a'], ['c']), node('Conv', ['c', 'w'], ['y'], strides=[2], auto_pad='VALID')],
                            {'p': I64([1, 2]), 'a': I64([-1])}),
    'rows_cut_off': ([node('Conv', ['x', 'w'], ['c'], pads=[4, 4], dilations=[2]), node('Slice', ['c', 's', 'e', 'a'], ['y'])],
                     {'s': I64([1]), 'e': I64([-4]), 'a': I64([2])}),
    'taps_beyond_the_row': ([node('Conv', ['x', 'w'], ['y'], pads=[10, 9], dilations=[9])], {}),
    'taps_beyond_one_end': ([node('Conv', ['x', 'w'], ['y'], pads=[5, 0], dilations=[5], strides=[7])], {}),
    'rows_counted_from_the_end': ([node('Conv', ['x', 'w'], ['c'], pads=[2, 2]), node('Slice', ['c', 's', 'e', 'a'], ['y'])],
                                  {'s': I64([-10]), 'e': I64([100]), 'a': I64([-1])}),
}


@pytest.mark.parametrize('length', [9, 't'])
@pytest.mark.parametrize('name', BORDERS)
def test_borders_of_convolutions(weft, name, length):
    nodes, constants = BORDERS[name]
    model = saved(weft, nodes, [('x', T.FLOAT, [1, 2, length])], [('y', T.FLOAT, None)], constants | {'w': FILTER})
    agree(weft, model, {'x': ROW})


def test_a_bias_that_may_be_one_number(weft):
    model = saved(weft, [node('NonZero', ['c'], ['places']), node('Squeeze', ['places', 'axis'], ['p']), node('Gather', ['c', 'p'], ['b']),
                         node('Gemm', ['x', 'w', 'b'], ['y'])],
                  [('x', T.FLOAT, [2, 3]), ('c', T.FLOAT, [1])], [('y', T.FLOAT, None)], {'axis': I64([0]), 'w': X.T.copy()})
    agree(weft, model, {'x': X, 'c': F([4])})


def test_no_axes_at_run_time_are_all_axes(weft):
    model = saved(weft, [node('ReduceSum', ['x', 'axes'], ['s'], keepdims=0), node('Shape', ['s'], ['y'])],
                  [('x', T.FLOAT, [2, 3]), ('axes', T.INT64, [0])], [('y', T.INT64, None)])
    agree(weft, model, {'x': X, 'axes': I64([])})


# name -> node of x and constants, the constants, x, y
ALONE = {
    'large_integers_in_one_hot': (node('OneHot', ['x', 'depth', 'values'], ['y']), {'depth': I64(2), 'values': I64([2**53 + 1, 2**63 - 1])},
                                  I64([1]), I64([[2**53 + 1, 2**63 - 1]])),
    'mean_of_large_integers': (node('ReduceMean', ['x'], ['y'], keepdims=0), {}, I32([2**31 - 1, 2**31 - 1]), I32(2**31 - 1)),
    'length_of_large_integers': (node('ReduceL2', ['x'], ['y'], keepdims=0), {}, I32([100000, 1]), I32(100000)),
    'odd_powers_of_minus_one': (node('Pow', ['x', 'e'], ['y']), {'e': I64([2**24 + 1, 2**24])}, F([-1, -1]), F([-1, 1])),
}


@pytest.mark.parametrize('name', ALONE)
@pytest.mark.parametrize('force', ['own', 'calls'])
def test_numbers_that_floats_do_not_hold(weft, name, force):
    one, constants, x, expected = ALONE[name]
    typed = lambda n, v: (n, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype), np.asarray(v).shape)
    saved(weft, [one], [typed('x', x)], [typed('y', expected)], constants)
    found = weft.run('m.onnx', {'x': x}, '--budget', '0', '--force', force)
    assert np.array_equal(found['y'], expected)
