"""What ONNX and NumPy say of integers that overflow or divide, of NaN, infinities and signed zeros: by own kernels and by
the library and native calls."""
import itertools

import numpy as np
import pytest

onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
weft_package = pytest.importorskip('weft', reason='the Python package is not built')
import onnx.reference  # noqa: E402
from onnx import helper  # noqa: E402
from tolerances import tolerances  # noqa: E402

ARMS = ['own', 'calls']
WHOLE = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
TOLERANCE = tolerances('function')
INF, NAN = np.inf, np.nan
SPECIAL = [NAN, INF, -INF, 0., -0., 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38, 1, -1, .5, -.5, 1.5, 2.5, -2.5, 100, -100, 20, -20, 3, -7, .25]
node = helper.make_node
pytestmark = pytest.mark.filterwarnings('ignore::RuntimeWarning')


def network(path, cases):
    """Writes one network of all the cases, each (operator, operands, expected, attributes); gives its inputs and outputs."""
    nodes, given, expected = [], {}, {}
    for i, (op, operands, result, attributes) in enumerate(cases):
        names = [f'x{i}_{k}' for k in range(len(operands))]
        nodes.append(node(op, names, [f'y{i}'], **attributes))
        given |= dict(zip(names, map(np.asarray, operands)))
        expected[f'y{i}'] = np.asarray(result)
    info = lambda n, a: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
    graph = helper.make_graph(nodes, 'g', [info(*x) for x in given.items()], [info(*y) for y in expected.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=10), path)
    return given, expected


def agree(tmp_path, arm, cases, monkeypatch, zeros=()):
    """Bit for bit where there are integers; the sign of zero where an operator of `zeros` gives it."""
    if arm == 'calls':
        monkeypatch.setenv('WEFT_ONEDNN', 'none')  # it loses NaN, as docs/debugging.md says
    given, expected = network(tmp_path / 'm.onnx', cases)
    found = weft_package.build(tmp_path / 'm.onnx', force=arm, cache_dir=tmp_path / 'cache').run(given)
    for (op, operands, _, _), (name, want) in zip(cases, expected.items()):
        have = np.asarray(found[name])
        assert have.dtype == want.dtype and have.shape == want.shape
        if want.dtype.kind != 'f':
            np.testing.assert_array_equal(have, want, f'{op} of {operands}')
            continue
        relative, absolute = TOLERANCE[want.dtype]
        np.testing.assert_allclose(have, want, relative, absolute, err_msg=f'{op} of {operands}')
        if op in zeros:
            nothing = want == 0
            np.testing.assert_array_equal(np.signbit(have[nothing]), np.signbit(want[nothing]), f'zeros of {op}')


def corners(dtype):
    """Every pair of the numbers near a type's ends and near zero, as Python integers too."""
    limits = np.iinfo(dtype)
    numbers = {limits.min, limits.min + 1, 0, 1, 2, 3, 7, limits.max, limits.max - 1} | ({-1, -2, -7} if limits.min else set())
    pairs = list(itertools.product(sorted(numbers), repeat=2))
    return sorted(numbers), pairs


@pytest.mark.parametrize('arm', ARMS)
@pytest.mark.parametrize('dtype', WHOLE)
def test_integers_wrap_and_divide_towards_zero(tmp_path, monkeypatch, arm, dtype):
    limits = np.iinfo(dtype)
    wrapped = lambda numbers: np.array([(n - limits.min) % 2 ** limits.bits + limits.min for n in numbers], dtype)
    typed = lambda numbers: np.array(numbers, dtype)
    numbers, pairs = corners(dtype)
    a, b = (typed(side) for side in zip(*pairs))
    divisible = [(x, y) for x, y in pairs if y]
    c, d = (typed(side) for side in zip(*divisible))
    towards_zero = lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    cases = [('Add', (a, b), wrapped(x + y for x, y in pairs), {}), ('Sub', (a, b), wrapped(x - y for x, y in pairs), {}),
             ('Mul', (a, b), wrapped(x * y for x, y in pairs), {}), ('Less', (a, b), a < b, {}),
             ('Div', (c, d), wrapped(towards_zero(x, y) for x, y in divisible), {}),
             ('Mod', (c, d), wrapped(x % y for x, y in divisible), {}),
             ('Mod', (c, d), wrapped(x - y * towards_zero(x, y) for x, y in divisible), dict(fmod=1)),
             ('Abs', (typed(numbers),), wrapped(map(abs, numbers)), {}), ('Sign', (typed(numbers),), np.sign(typed(numbers)), {}),
             ('BitwiseNot', (typed(numbers),), ~typed(numbers), {}), ('BitwiseXor', (a, b), a ^ b, {})]
    for to in (np.int8, np.uint8, np.int32, np.int64, np.float32, np.float16, np.bool_):
        cases.append(('Cast', (typed(numbers),), typed(numbers).astype(to), dict(to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))))
    if limits.min:
        cases.append(('Neg', (typed(numbers),), wrapped(-n for n in numbers), {}))
    else:
        by = np.resize(typed([0, 1, limits.bits - 1]), len(numbers))
        cases += [('BitShift', (typed(numbers), by), typed(numbers) << by, dict(direction='LEFT')),
                  ('BitShift', (typed(numbers), by), typed(numbers) >> by, dict(direction='RIGHT'))]
    if limits.bits >= 32:
        cases += [('ReduceSum', (typed(numbers),), wrapped([sum(numbers)]), {}),
                  ('CumSum', (typed(numbers), np.array(0)), wrapped(itertools.accumulate(numbers)), {})]
    agree(tmp_path, arm, cases, monkeypatch)


@pytest.mark.parametrize('arm', ARMS)
@pytest.mark.parametrize('dtype', TOLERANCE, ids=str)
def test_nan_infinity_and_zeros_pass_as_numpy_says(tmp_path, monkeypatch, arm, dtype):
    x = np.array(SPECIAL).astype(dtype)
    a, b = (side.ravel() for side in np.meshgrid(x, x))
    one = {'Abs': np.abs, 'Neg': np.negative, 'Sqrt': np.sqrt, 'Exp': np.exp, 'Log': np.log, 'Tanh': np.tanh, 'Floor': np.floor,
           'Ceil': np.ceil, 'Round': np.round, 'Sign': np.sign, 'Reciprocal': np.reciprocal, 'Atan': np.arctan, 'Sinh': np.sinh,
           'Relu': lambda v: np.maximum(v, 0), 'Sigmoid': lambda v: 1 / (1 + np.exp(-v.astype(np.float64))), 'IsNaN': np.isnan,
           'IsInf': np.isinf}
    two = {'Add': np.add, 'Sub': np.subtract, 'Mul': np.multiply, 'Div': np.divide, 'Pow': np.power, 'Max': np.maximum,
           'Min': np.minimum, 'Equal': np.equal, 'Less': np.less, 'GreaterOrEqual': np.greater_equal}
    typed = lambda result: result if result.dtype == bool else result.astype(dtype)
    cases = [(op, (x,), typed(f(x)), {}) for op, f in one.items()]
    cases += [(op, (a, b), typed(f(a, b)), {}) for op, f in two.items()]
    agree(tmp_path, arm, cases, monkeypatch,
          zeros={'Abs', 'Neg', 'Sqrt', 'Tanh', 'Floor', 'Ceil', 'Round', 'Reciprocal', 'Atan', 'Add', 'Sub', 'Mul', 'Div'})


@pytest.mark.parametrize('arm', ARMS)
def test_reductions_of_nan_and_infinity(tmp_path, monkeypatch, arm):
    x = np.float32([[1, NAN, 3, NAN], [NAN, 1, 2, 3], [INF, -INF, 1, 0], [-INF] * 4, [INF, INF, 1, 2], [5, 4, 3, NAN]])
    axis, flat = np.array([1]), dict(keepdims=0)
    top = x.max(1, keepdims=True)
    powers = np.exp(x - top)
    base = np.where(np.isfinite(top), top, 0)
    cases = [('ReduceMax', (x, axis), x.max(1), flat), ('ReduceMin', (x, axis), x.min(1), flat),
             ('ReduceSum', (x, axis), x.sum(1), flat), ('ReduceMean', (x, axis), x.mean(1), flat),
             ('ReduceProd', (x, axis), x.prod(1), flat), ('ReduceL1', (x, axis), np.abs(x).sum(1), flat),
             ('ReduceLogSumExp', (x, axis), (np.log(np.exp(x - base).sum(1, keepdims=True)) + base)[:, 0], flat),
             ('ArgMax', (x,), x.argmax(1), dict(axis=1, keepdims=0)), ('ArgMin', (x,), x.argmin(1), dict(axis=1, keepdims=0)),
             ('Softmax', (x,), powers / powers.sum(1, keepdims=True), dict(axis=1)), ('CumSum', (x, np.array(1)), x.cumsum(1), {}),
             ('Clip', (x, np.float32(5), np.float32(2)), np.minimum(np.maximum(x, np.float32(5)), np.float32(2)), {})]
    agree(tmp_path, arm, cases, monkeypatch)


@pytest.mark.parametrize('extents', [(6, 11), (2, 3)])
def test_doubles_are_resized_by_doubles(tmp_path, extents):
    """Weights that are no dyadic fractions have the type of what they weigh."""
    x = np.random.default_rng(0).standard_normal((1, 1, 4, 5))
    resize = node('Resize', ['x', '', '', 's'], ['y'], mode='linear', coordinate_transformation_mode='align_corners')
    info = helper.make_tensor_value_info
    graph = helper.make_graph([resize], 'g', [info('x', onnx.TensorProto.DOUBLE, x.shape)],
                              [info('y', onnx.TensorProto.DOUBLE, (1, 1, *extents))],
                              [onnx.numpy_helper.from_array(np.array([1, 1, *extents]), 's')])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=10)
    onnx.save(model, tmp_path / 'm.onnx')
    want, = onnx.reference.ReferenceEvaluator(model).run(None, {'x': x})
    found = weft_package.build(tmp_path / 'm.onnx', cache_dir=tmp_path / 'cache').run({'x': x})['y']
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize('x, w', [((48, 2048), (2048, 96)), ((1, 2048), (2048, 96)), ((2, 3, 1536), (1536, 5)),
                                  ((1, 1024, 7, 7), (64, 1024, 1, 1)), ((1, 64, 9, 9), (32, 64, 5, 5)), ((1, 1200, 30), (8, 1200, 1))])
def test_long_sums_are_sums_of_blocks(tmp_path, x, w):
    """They err at most two thirds as much as a sum in order does, root mean square."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape, np.float32) for shape in (x, w))
    if len(w) == 2:
        rows, columns = a.reshape(-1, w[0]).astype(np.float64), b
    else:
        places = np.lib.stride_tricks.sliding_window_view(a[0], w[2:], tuple(range(1, len(w) - 1)))  # [C, out.., taps..]
        rows = np.moveaxis(places, 0, len(w) - 2).reshape(-1, b[0].size).astype(np.float64)
        columns = b.reshape(w[0], -1).T
    exact, in_order = rows @ columns, np.zeros((len(rows), columns.shape[1]))
    for k in range(rows.shape[1]):
        in_order = (in_order + rows[:, k:k + 1] * columns[k]).astype(np.float32).astype(np.float64)
    shape = (*x[:-1], w[1]) if len(w) == 2 else (1, w[0], *places.shape[1:len(w) - 1])
    result, in_order = ((y if len(w) == 2 else y.T).reshape(shape) for y in (exact, in_order))
    op = 'MatMul' if len(w) == 2 else 'Conv'
    given, _ = network(tmp_path / 'm.onnx', [(op, [a, b], result.astype(np.float32), {})])
    found = weft_package.build(tmp_path / 'm.onnx', force='own', cache_dir=tmp_path / 'cache').run(given)['y0']
    error = [np.sqrt(np.mean((np.asarray(y) - result) ** 2)) for y in (found, in_order)]
    assert error[0] <= 2 / 3 * error[1], error


@pytest.mark.parametrize('op', ['ReduceSum', 'ReduceMean', 'ReduceSumSquare', 'ReduceL2'])
@pytest.mark.parametrize('shape, axes', [((540000, 4), (0,)), ((540000, 1), (0,)), ((3, 180000, 5), (1,)), ((600, 700, 17), (0, 1)), ((600, 1100, 17), (0, 1)),
                                         ((40, 3, 1000, 8), (0, 2)), ((20000, 300), (0,))])
def test_long_sums_of_columns_are_sums_of_shorter_ones(tmp_path, op, shape, axes):
    """Each column is added up term by term: hundreds of thousands of positive ones lost four digits."""
    x = 1 + np.random.default_rng(7).random(shape, np.float32)
    given, _ = network(tmp_path / 'm.onnx', [(op, [x, np.array(axes)], np.zeros(tuple(1 if i in axes else n for i, n in enumerate(shape)),
                                                                               np.float32), {})])
    found = weft_package.build(tmp_path / 'm.onnx', force='own', cache_dir=tmp_path / 'cache').run(given)['y0']
    terms = x.astype(np.float64) ** (2 if op in ('ReduceSumSquare', 'ReduceL2') else 1)
    want = (np.mean if op == 'ReduceMean' else np.sum)(terms, axis=axes, keepdims=True)
    np.testing.assert_allclose(found, np.sqrt(want) if op == 'ReduceL2' else want, rtol=4e-6)
