"""weft.comprehension as Python sees it: arrays in and out, errors, and the builder of texts."""
import inspect
import threading

import ml_dtypes
import numpy as np
import pytest
from conftest import ROOT

MATMUL = 'def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }'
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)


@pytest.fixture(scope='module')
def open_(weft, cache):
    return lambda text, *entry, **options: weft.comprehension(text, *entry, **({'threads': 2, 'cache_dir': cache} | options))


@pytest.fixture(scope='module')
def matmul(open_):
    return open_(MATMUL)


def test_is_a_function(matmul):
    assert np.array_equal(matmul(A, B), A @ B)
    assert np.array_equal(matmul(B=B, A=A), A @ B)
    assert np.array_equal(matmul(A, B=B), A @ B)
    assert np.array_equal(matmul(A[:2], B), A[:2] @ B), 'other sizes'
    assert matmul.source == MATMUL and matmul.name == 'matmul'
    assert [(p.name, p.dtype, p.rank) for p in matmul.parameters] == [('A', np.float32, 2), ('B', np.float32, 2)]
    assert repr(matmul) == '<weft.Comprehension matmul(A, B)>'


def test_gives_a_tuple_of_several(open_):
    two = open_('def two(int32(N) x) -> (low, high) { low(i) = x(i) - 1  high(i) = x(i) + 1 }')
    low, high = two(np.array([1, 2], np.int32))
    assert low.tolist() == [0, 1] and high.tolist() == [2, 3]


@pytest.mark.parametrize('target', ['cpu', 'interpreter', 'cuda-emulated'])
def test_takes_any_strides(open_, target):
    f = open_(MATMUL, target=target)
    wide = np.zeros((6, 8), np.float32)
    wide[::2, ::2] = A
    read_only = A.copy()
    read_only.flags.writeable = False
    for a in (np.asfortranarray(A), A[::-1, ::-1].copy()[::-1, ::-1], wide[::2, ::2], A.astype('>f4'), read_only,
              np.lib.stride_tricks.as_strided(np.frombuffer(b'\0' + A.tobytes() + b'\0\0\0', np.uint8)[1:-3].view(np.float32), (3, 4), (16, 4))):
        assert np.array_equal(f(a, B), A @ B)
    row = np.broadcast_to(A[0], (3, 4))
    assert row.strides[0] == 0 and np.array_equal(f(row, B), row @ B)


class Exported:
    """An array of nobody's own, with DLPack and nothing else."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_takes_dlpack(matmul):
    assert np.array_equal(matmul(Exported(A), Exported(B.T.copy().T)), A @ B)
    out = np.empty((3, 5), np.float32)
    assert matmul(A, B, out=out) is out


def test_takes_numbers(open_):
    scale = open_('def scale(float a, int8 b, float(N) x, size S) -> (y) { y(i) = a * x(S * i) + b }')
    x = np.arange(6, dtype=np.float32)
    for a, b, s in ((2.0, 1, 2), (2, np.int8(1), np.int64(2)), (np.float32(2), np.array(1, np.int8), 2)):
        assert scale(a, b, x, s).tolist() == [1, 5, 9]


@pytest.mark.parametrize('kind, number, found', [
    ('bfloat16', 1.5, 0x3fc0), ('bfloat16', 2, 0x4000), ('bfloat16', -1.00390625, 0xbf80), ('bfloat16', 1.01171875, 0x3f82),
    ('bfloat16', 3.4e38, 0x7f80), ('bfloat16', float('nan'), 0x7fc0), ('bfloat16', float('-inf'), 0xff80),
    ('uint8', 255, 255), ('uint8', True, 1), ('int4', -8, -8), ('bool', True, True), ('double', 0.1, 0.1), ('float', 3, 3)])
def test_numbers_have_the_type_of_their_parameter(open_, kind, number, found):
    assert open_(f'def f({kind} a) -> (y) {{ y = a }}')(number) == found


@pytest.mark.parametrize('kind, number', [('int32', 2.7), ('int32', 2.0), ('int32', float('nan')), ('uint8', 300), ('uint8', -1), ('int4', 8),
                                          ('bool', 2), ('bool', 0.5), ('int64', 2**63)])
def test_numbers_that_a_type_does_not_hold(weft, open_, kind, number):
    with pytest.raises(weft.Error, match=f'found {number} for .a., expected a number of'):
        open_(f'def f({kind} a) -> (y) {{ y = a }}')(number)


def test_writes_where_it_is_told(matmul, open_):
    out = np.empty((3, 5), np.float32)
    assert matmul(A, B, out=out) is out and np.array_equal(out, A @ B)
    two = open_('def two(float(N) x) -> (low, high) { low(i) = x(i) - 1.0  high(i) = x(i) + 1.0 }')
    x, outs = A[0], (np.empty(4, np.float32), np.empty(4, np.float32))
    assert two(x, out=outs) is outs and np.array_equal(outs[1], x + 1)


def test_in_place(open_):
    """An output in the memory of an input: of one that is read whole for each element, too."""
    x = np.arange(40, dtype=np.float32)
    plus = open_('def plus(float(N) x) -> (y) { y(i) = x(i) + 1.0 }')
    plus(x, out=x)
    assert np.array_equal(x, np.arange(1, 41))
    back = open_('def back(float(N) x) -> (y) { y(i) = x(N - 1 - i) }')
    back(x, out=x)
    assert np.array_equal(x, np.arange(40, 0, -1))
    back(x[:30], out=x[5:35])
    assert np.array_equal(x[5:35], np.arange(11, 41))


def test_arrays_of_bfloat16(open_):
    f = open_('def twice(bfloat16(N) x) -> (y) { y(i) = bfloat16(x(i) * 2.0) }')
    x = np.array([1, -2.5, 7], ml_dtypes.bfloat16)
    for given in (x, x.view(np.uint16)):
        y = f(given)
        assert y.dtype == np.uint16 and np.array_equal(y.view(ml_dtypes.bfloat16), x * ml_dtypes.bfloat16(2))


def test_empty_and_rank_0(open_):
    total = open_('def total(float(N, M) x) -> (s) { s +=! x(i, j) }')
    assert total(np.ones((3, 4), np.float32)).shape == () and total(np.ones((3, 4), np.float32)) == 12
    assert total(np.ones((0, 4), np.float32)) == 0
    copy = open_('def copy(float(N, M) x) -> (y) { y(i, j) = x(i, j) }')
    for shape in ((0, 4), (4, 0), (0, 0)):
        assert copy(np.ones(shape, np.float32)).shape == shape
        assert copy(np.ones(shape, np.float32), out=np.empty(shape, np.float32)).shape == shape


def test_infers(matmul, open_):
    found = matmul.infer((3, 4), (4, 5))
    assert found == {'def': 'matmul', 'ranges': {'m': (0, 3), 'n': (0, 5), 'k': (0, 4)},
                     'outputs': {'C': (np.dtype(np.float32), (3, 5))}, 'preconditions': []}
    assert matmul.infer(A, B=B) == found
    look = open_('def look(float(E) t, int32(N) at, size S) -> (y) { y(i) = t(at(S * i)) }')
    assert look.infer((7,), (9,), S=3)['preconditions'] == ['0 <= subscript 0 of t < 7']
    assert look.infer((7,), (9,), S=3)['outputs']['y'][1] == (3,)


WRONG = [
    (lambda f: f(A), 2, "text.tc:1:39: the input 'B' is not given"),
    (lambda f: f(), 2, "text.tc:1:24: the input 'A' is not given"),
    (lambda f: f(A, B, B), 2, "text.tc:1:5: found 3 arguments, 'matmul' takes 2"),
    (lambda f: f(A, B, Z=B), 2, "text.tc:1:5: 'matmul' has no parameter 'Z'"),
    (lambda f: f(A, B, A=A), 2, "text.tc:1:24: the parameter 'A' is given twice"),
    (lambda f: f(A, B.astype(np.float64)), 2, "text.tc:1:39: found elements of f64 for 'B', expected f32"),
    (lambda f: f(A, B.astype(np.int32)), 2, "found elements of i32 for 'B', expected f32"),
    (lambda f: f(A, B > 0), 2, "found elements of bool for 'B', expected f32"),
    (lambda f: f(A, B[0]), 2, "text.tc:1:39: found rank 1 for 'B', expected 2"),
    (lambda f: f(A, [[1.0]]), 2, "text.tc:1:39: found list for 'B', expected an array of f32"),
    (lambda f: f(A, None), 2, "found NoneType for 'B'"),
    (lambda f: f(A, np.array([['a']])), 2, "found ndarray for 'B'"),
    (lambda f: f(A, A), 2, "text.tc:1:5: the size 'K' is 4 by extent 1 of 'A' and 3 by extent 0 of 'B'"),
    (lambda f: f(A, B, out=np.empty((3, 4), np.float32)), 2, "found f32[3, 4] for the output 'C', expected f32[3, 5]"),
    (lambda f: f(A, B, out=np.empty((3, 5))), 2, "found f64[3, 5] for the output 'C', expected f32[3, 5]"),
    (lambda f: f(A, B, out=np.empty((5, 3), np.float32).T), 2, "found f32[3, 5] with strides or out of line for the output 'C'"),
    (lambda f: f(A, B, out=()), 2, 'found 0 arrays for out, expected 1'),
    (lambda f: f(A, B, out=3), 2, 'found int for out'),
    (lambda f: f(A, B, out=np.broadcast_to(np.float32(0), (3, 5))), 2, 'found ndarray for out, expected arrays that can be written'),
    (lambda f: f.infer((3, 4)), (2, 3), "'N'"),
    (lambda f: f.infer((3, 4), 5), 2, "found int for 'B', expected a shape or an array"),
    (lambda f: f.infer((3, 4), (5, 6)), 2, "the size 'K' is 4"),
]


@pytest.mark.parametrize('call, code, says', WRONG, ids=range(len(WRONG)))
def test_wrong_calls(weft, open_, call, code, says):
    f = open_(MATMUL, file='text.tc')
    with pytest.raises(weft.Error) as error:
        call(f)
    assert says in str(error.value), str(error.value)
    assert error.value.code in (code if isinstance(code, tuple) else (code,))


def test_wrong_texts_and_options(weft, open_):
    for arguments, options, code, says in [
            (('def f(',), {}, 3, 'comprehension:1:7'), (('',), {}, 3, 'no def'), ((MATMUL, 'x'), {}, 2, "no def is called 'x'"),
            ((MATMUL + MATMUL.replace('matmul', 'other'),), {}, 2, 'matmul, other'), ((MATMUL,), {'target': 'abacus'}, 2, 'abacus'),
            ((MATMUL,), {'threads': -1}, 2, 'threads'), ((MATMUL,), {'choices': 'c: bundle'}, 3, 'choices:1:4')]:
        with pytest.raises(weft.Error) as error:
            open_(*arguments, **options)
        assert error.value.code == code and says in str(error.value), str(error.value)
    with pytest.raises(weft.Error, match="a choice is for 'nobody'"):
        open_(MATMUL, choices='nobody: cluster C')(A, B)


@pytest.mark.parametrize('target', ['cpu', 'interpreter', 'cuda-emulated'])
def test_an_index_out_of_range(weft, open_, target):
    """Behind a condition on data it counts where the condition holds, and nowhere else."""
    table = np.arange(8, dtype=np.float32)
    look = open_('def look(float(E) table, int32(N) at) -> (y) { y(i) = table(at(i)) }', target=target)
    shift = open_('def shift(float(N) x, int32(N) c) -> (y) { y(i) = c(i) > 0 ? x(i + c(i)) : 0.0 where i in 0:N }', target=target)
    ahead = open_('def ahead(float(N) x, int32(N) c) -> (y) { y(i) = c(i) > 0 ? x(i + 3) : 0.0 where i in 0:N }', target=target)
    for bad in (8, -1, 2**30):
        with pytest.raises(weft.Error, match=f'{bad}') as error:
            look(table, np.array([1, bad], np.int32))
        assert error.value.code == 3 and 'table' in str(error.value)
    c = np.array([1, 0, -100, 2, 0, 0, 1, -1], np.int32)
    assert shift(table, c).tolist() == [1, 0, 0, 5, 0, 0, 7, 0]
    near = np.where(np.arange(8) < 5, c, 0).astype(np.int32)
    assert ahead(table, near).tolist() == [3, 0, 0, 6, 0, 0, 0, 0]
    for f in (shift, ahead):
        with pytest.raises(weft.Error, match='x'):
            f(table, np.full(8, 3, np.int32))


def test_cuda_wants_a_device(weft, open_):
    f = open_(MATMUL, target='cuda')
    with pytest.raises(weft.Error, match='CUDA') as error:
        f(A, B)
    assert error.value.code in (4, 6)


def test_is_tuned(weft, open_):
    f = open_('def f(float(M, K) a, float(K, N) b) -> (y) { c(m, n) +=! a(m, k) * b(k, n)  y(m) max=! c(m, n) }')
    a, b = np.random.default_rng(1).uniform(-1, 1, (2, 64, 64)).astype(np.float32)
    before = f(a, b)
    kernels = f.tune(a, b, budget=0.1)
    assert kernels and all(k.trials >= 1 and 0 < k.best_us <= k.start_us for k in kernels)
    assert np.allclose(f(a, b), before, atol=1e-5)
    forced = open_(f.source, choices=''.join(k.choice for k in kernels))
    assert np.array_equal(forced(a, b), f(a, b))
    with pytest.raises(weft.Error) as error:
        open_(MATMUL, target='interpreter').tune(A, B)
    assert error.value.code == 4


def test_threads_may_share_one(matmul):
    wrong = []

    def work(n):
        for k in range(20):
            a = np.full((n + 1, 4), k, np.float32)
            if not np.array_equal(matmul(a, B), a @ B):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_outputs_outlive_what_made_them(open_):
    y = open_('def f(float(N) x) -> (y) { y(i) = x(i) }')(np.arange(5, dtype=np.float32))
    view = y[1:]
    del y
    assert view.tolist() == [1, 2, 3, 4]


# The builder.

def test_a_def_prints_as_text(weft):
    tc = weft.tc
    f = tc.Def('fc_relu')
    B_, K, N = tc.sizes('B K N')
    x, w, b = f.input('x', 'float', B_, K), f.input('w', 'float', K, N), f.input('b', 'float', N)
    i, n, k = tc.indices('i n k')
    y = f.output('y')
    y[i, n] = tc.sum(x[i, k] * w[k, n])
    y[i, n] = tc.max(y[i, n] + b[n], 0.0)
    assert str(f) == '''def fc_relu(float(B, K) x, float(K, N) w, float(N) b) -> (y) {
  y(i, n) +=! x(i, k) * w(k, n)
  y(i, n) = max(y(i, n) + b(n), 0.0)
}
'''
    bias = np.full(5, -50, np.float32)
    assert np.array_equal(f.open()(A, B, bias), np.maximum(A @ B + bias, 0))


EXPRESSIONS = [  # Python, text, value at i = 7
    (lambda i, tc: (i + 1) * 2 - i % 3, '(i + 1) * 2 - i % 3', 15),
    (lambda i, tc: i - (i - 1), 'i - (i - 1)', 1),
    (lambda i, tc: 100 / (i / 2), '100 / (i / 2)', 33),
    (lambda i, tc: -(i - 9) // 2, '-(i - 9) / 2', 1),
    (lambda i, tc: 0 - -i, '0 - -i', 7),
    (lambda i, tc: i * -2, 'i * -2', -14),
    (lambda i, tc: tc.select((i > 3) & ~(i == 5) | (i != i), i, -1), 'i > 3 && !(i == 5) || i != i ? i : -1', 7),
    (lambda i, tc: tc.select(i < 3, 1, tc.select(i <= 7, 2, 3)) + 1, '(i < 3 ? 1 : i <= 7 ? 2 : 3) + 1', 3),
    (lambda i, tc: tc.select(tc.select(i >= 3, i > 8, i > 9), 1, 0), '(i >= 3 ? i > 8 : i > 9) ? 1 : 0', 0),
    (lambda i, tc: tc.min(i, 4) + tc.trunc_div(-i, 2), 'min(i, 4) + trunc_div(-i, 2)', 1),
    (lambda i, tc: (i.astype('float') * 0.5).astype('int32'), 'int32(float(i) * 0.5)', 3),
    (lambda i, tc: sum(i * k for k in range(3)), 'i * 0 + i * 1 + i * 2', 21),
    (lambda i, tc: tc.cast('int32', tc.cast('float', i) * 1e-20 * 1e20 + np.float32(0.1)), 'int32(float(i) * 1.e-20 * 1.e+20 + 0.1)', 7),
    (lambda i, tc: tc.cast('int32', tc.max(-float('inf'), tc.cast('float', i))), 'int32(max(-infinity(), float(i)))', 7),
]


@pytest.mark.parametrize('make, text, value', EXPRESSIONS, ids=[e[1] for e in EXPRESSIONS])
def test_expressions_print_as_they_are(weft, cache, make, text, value):
    f = weft.tc.Def('f')
    y, (i,) = f.output('y'), weft.tc.indices('i')
    e = make(i, weft.tc)
    assert str(e) == text
    y[i] = e.where((i, 0, 8))
    assert f.open(target='interpreter', cache_dir=cache)()[7] == value


RANGED = [  # of x(k) where k in 0:3, which is 0 + 1 + 2 unless said otherwise
    (lambda e, tc, k: e * 1.0, 3), (lambda e, tc, k: 1.0 + e, 6), (lambda e, tc, k: -e, -3), (lambda e, tc, k: tc.abs(e), 3),
    (lambda e, tc, k: e.astype('double'), 3), (lambda e, tc, k: tc.select(e > 1.0, e, 0.0), 2), (lambda e, tc, k: e + e, 6),
    (lambda e, tc, k: tc.select(~(e > 1.0), 0.0, 1.0), 1)]


@pytest.mark.parametrize('make, value', RANGED)
def test_ranges_of_operands_are_the_statements(weft, cache, make, value):
    tc, f = weft.tc, weft.tc.Def('f')
    (n, k), y = tc.indices('N k'), f.output('y')
    x = f.input('x', 'float', n)
    y[()] = tc.sum(make(x[k].where((k, 0, 3)), tc, k))
    assert f.open(target='interpreter', cache_dir=cache)(np.arange(10, dtype=np.float32)) == value


def test_a_subscript_has_its_range(weft):
    tc, f = weft.tc, weft.tc.Def('f')
    i, k = tc.indices('i k')
    x, y = f.input('x', 'float', tc.size('N')), f.output('y')
    y[i] = tc.amax(x[(i + k).where((k, 0, 2))]).where((i, 0, 4))
    assert str(f).splitlines()[1] == '  y(i) max=! x(i + k) where k in 0:2, i in 0:4'


def test_all_parts_of_a_def(weft, cache):
    tc = weft.tc
    f = tc.Def('all')
    N, M = tc.sizes('N M')
    x, S = f.input('x', 'float', N, M), f.size('S')
    v, k, y = f.output('v'), f.output('k', 'int32', N), f.output('y')
    t = f.temporary('t', 'double', N)
    d = f.const('d', [[1.0, -1.0], [0.5, 2.0]])
    i, j, q, r = tc.indices('i j q r')
    t[i] = tc.sum(x[i, j].astype('double'))
    t[i] += x[i, j].astype('double')
    f.statement((v[i], k[i]), 'max=!', (x[i, S * j], j))
    y[q] = tc.sum(d[q, r]).where((q, 0, 2), (r, 0, 2))
    y[q] *= tc.call('abs', d[q, 0]).where((q, 0, 2))
    text = str(f)
    assert 't(i) += double(x(i, j));\n  (v(i), k(i)) max=! (x(i, S * j), j)' in text and 'const d(2, 2) = {1.0, -1.0, 0.5, 2.0};' in text
    values = np.random.default_rng(1).uniform(-1, 1, (3, 9)).astype(np.float32)
    v, k, y = f.open(cache_dir=cache)(values, 2)
    assert np.array_equal(v, values[:, ::2].max(1)) and np.array_equal(k, values[:, ::2].argmax(1))
    assert y.tolist() == [0, 1.25]


def test_wrong_use_of_the_builder(weft):
    tc = weft.tc
    f = tc.Def('f')
    x, y, (i,) = f.input('x', 'float', 4), f.output('y'), tc.indices('i')
    for wrong, error in [(lambda: bool(x[i] > 0.0), TypeError), (lambda: x[i] + True, TypeError), (lambda: x[i] + 'a', TypeError),
                         (lambda: tc.sum(x[i]) + 1.0, TypeError), (lambda: tc.index('a b'), ValueError), (lambda: tc.Def('1f'), ValueError),
                         (lambda: f.input('x;', 'float', 4), ValueError), (lambda: tc.frobnicate(x[i]), AttributeError)]:
        with pytest.raises(error):
            wrong()


def test_a_builder_generates_what_nobody_wants_to_write(weft, cache):
    """Correlation with a filter that is written out tap by tap: one statement, no reduction."""
    tc = weft.tc
    taps = [0.25, 0.5, 0.0, -1.0]
    f = tc.Def('filter')
    (N,), (i,) = tc.sizes('N'), tc.indices('i')
    x, y = f.input('x', 'float', N), f.output('y')
    y[i] = sum(t * x[i + k] for k, t in enumerate(taps) if t)
    values = np.arange(10, dtype=np.float32)
    assert np.allclose(f.open(cache_dir=cache)(values), np.correlate(values, np.array(taps, np.float32)))


def test_stubs_name_what_there_is(weft):
    stub = (ROOT / 'python/weft/__init__.pyi').read_text()
    for name in weft.__all__:
        assert f'class {name}' in stub or f'def {name}(' in stub or f'import {name} as' in stub or f'{name}:' in stub, name
    for name, member in vars(weft.Comprehension).items():
        if not name.startswith('_') or name == '__call__':
            assert f'def {name}(' in stub, name
    given = set(inspect.signature(weft.comprehension).parameters)
    assert all(f'    {name}:' in stub for name in given)


def test_memory_of_strides_is_long_enough(weft, open_):
    padded = open_('def f(size M, size K, size L, float(M, K) a strides(L, 1)) -> (y) { y(i, j) = a(i, j) }')
    memory = np.arange(14, dtype=np.float32)
    np.testing.assert_array_equal(padded(3, 4, 5, memory), [[0, 1, 2, 3], [5, 6, 7, 8], [10, 11, 12, 13]])
    with pytest.raises(weft.Error, match="found 13 elements for 'a', expected 14 or more"):
        padded(3, 4, 5, memory[:13])


def test_four_bits_are_a_byte_in_numpy(weft, open_):
    plus = open_('def f(int4(N) x) -> (y, z) { y(i) = int8(x(i)) + int8(1)  z(i) = x(i) }')
    x = np.arange(-8, 8, dtype=np.int8)
    for given in (x, x[::3], x[:5]):
        y, z = plus(given)
        np.testing.assert_array_equal(y, given + 1)
        np.testing.assert_array_equal(z, given)
    with pytest.raises(weft.Error, match="element 1 is 8, which i4 can't hold"):
        plus(np.array([0, 8], np.int8))
