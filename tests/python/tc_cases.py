"""Comprehensions with what they mean, written down a second time in NumPy.

A case is a text, its arguments and an oracle. An argument is a shape, filled by the seed in the parameter's type, an array
as it is, or an integer for a `size`. The oracle gets the arguments in that order, floats as float64 and all else as it is, and gives the output, or a
tuple of several. `length` is how many terms the longest sum has: results of float32 are within 3e-7 of the output's scale
for each, integers are the same. New features of the language add a section."""
import math
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np


@dataclass
class Case:
    name: str
    text: str
    arguments: dict[str, Any]
    oracle: Callable
    length: int = 1
    types: tuple = ()  # of the outputs, where that is what the case is about
    entry: str | None = None
    marks: dict = field(default_factory=dict)


CASES: list[Case] = []


def case(name, text, arguments, oracle, **more):
    CASES.append(Case(name, text, arguments, oracle, **more))


def statement(name, signature, body, arguments, oracle, **more):
    """A case of one def, called f."""
    case(name, f'def f({signature}) {{ {body} }}', arguments, oracle, **more)


F, I = np.float32, np.int32
erf = np.vectorize(math.erf, otypes=[np.float64])
sigmoid = lambda x: 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def correlate(x, w, stride=1):
    """[n, c, h, w] with [k, c, r, s], without padding."""
    r, s = w.shape[2:]
    h, v = (x.shape[2] - r) // stride + 1, (x.shape[3] - s) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], h, v))
    for i in range(r):
        for j in range(s):
            out += np.einsum('nchw,kc->nkhw', x[:, :, i:i + stride * h:stride, j:j + stride * v:stride], w[:, :, i, j])
    return out


# Copies and transposes of every rank.
for rank in range(1, 6):
    axes = 'abcde'[:rank]
    shape = tuple(range(2, 2 + rank))
    sizes, subscripts = ', '.join(axes.upper()), ', '.join(axes)
    statement(f'copy_{rank}d', f'float({sizes}) x) -> (y', f'y({subscripts}) = x({subscripts})', {'x': shape}, lambda x: x)
for order in ('ba', 'cab', 'dbac', 'badc', 'edcba', 'acebd'):
    axes = sorted(order)
    shape = tuple(range(3, 3 + len(order)))
    statement(f'transpose_{order}', f'float({", ".join(axes).upper()}) x) -> (y',
              f'y({", ".join(order)}) = x({", ".join(axes)})', {'x': shape},
              lambda x, order=order, axes=axes: np.transpose(x, [axes.index(a) for a in order]))
statement('two_copies', 'float(N) x) -> (y, z', 'y(i) = x(i) z(i) = x(i)', {'x': (7,)}, lambda x: (x, x))
statement('three_copies', 'float(N, M) x) -> (y, z, w', 'y(i, j) = x(i, j) z(i, j) = y(i, j) w(i, j) = z(i, j)', {'x': (5, 4)},
          lambda x: (x, x, x))
statement('copy_of_one_cell', 'float(N) x) -> (y', 'y(i) = x(i)', {'x': (1,)}, lambda x: x)
statement('partial_copy', 'float(N) x) -> (y', 'y(i) = x(i) where i in 0:3', {'x': (9,)}, lambda x: x[:3])
statement('later_start', 'float(N) x) -> (y', 'y(i) = x(i) where i in 3:N-1', {'x': (9,)}, lambda x: x[3:8])
statement('broadcast', 'float(N) x, float(M) b) -> (y', 'y(i, j) = x(i) + b(j)', {'x': (5,), 'b': (6,)},
          lambda x, b: x[:, None] + b)
statement('outer_axis_by_where', 'float(N) x) -> (y', 'y(b, i) = x(i) where b in 0:4', {'x': (5,)}, lambda x: np.tile(x, (4, 1)))
statement('two_tensors_intersect', 'float(A) x, float(B) w) -> (y', 'y(i) = x(i) + w(i)', {'x': (7,), 'w': (5,)},
          lambda x, w: x[:5] + w)
statement('literal_extents', 'float(4, 3) x) -> (y', 'y(i, j) = x(i, j)', {'x': (4, 3)}, lambda x: x)
statement('annotated_output', 'float(N, M) x) -> (float(N, M) y', 'y(i, j) = x(i, j)', {'x': (2, 3)}, lambda x: x)

# Subscripts.
statement('scale', 'float(N) x) -> (y', 'y(i) = x(3*i)', {'x': (10,)}, lambda x: x[::3])
statement('scale_beyond', 'float(N) x) -> (y', 'y(i) = x(123*i)', {'x': (300,)}, lambda x: x[::123])
statement('shift_by_where', 'float(N) x) -> (y', 'y(i) = x(i + 2) where i in 0:N-2', {'x': (9,)}, lambda x: x[2:])
statement('sum_of_two_solved', 'float(A) a, float(B) b, float(C) c) -> (y', 'y(i, j) = a(i) * b(j) * c(i + j)',
          {'a': (3,), 'b': (4,), 'c': (6,)}, lambda a, b, c: np.array([[a[i] * b[j] * c[i + j] for j in range(4)] for i in range(3)]))
statement('diagonal', 'float(N, N) x) -> (y', 'y(i) = x(i, i)', {'x': (5, 5)}, np.diag)
statement('reverse', 'float(N) x) -> (y', 'y(i) = x(N - 1 - i)', {'x': (6,)}, lambda x: x[::-1])
statement('rotation', 'float(N) x, float(N) s) -> (y', 'y(i, j) = x((i + j) % N) + s(j) where i in 0:N, j in 0:N',
          {'x': (5,), 's': (5,)}, lambda x, s: np.array([[x[(i + j) % 5] for j in range(5)] for i in range(5)]) + s)
statement('divided', 'float(N) x) -> (y', 'y(i) = x(i / 3) where i in 0:3*N', {'x': (4,)}, lambda x: np.repeat(x, 3))
statement('clamped', 'float(N) x) -> (y', 'y(i) = x(min(max(i - 2, 0), N - 1)) where i in 0:N+4', {'x': (5,)},
          lambda x: np.pad(x, 2, mode='edge'))
statement('constant_subscript', 'float(N, M) x) -> (y', 'y(i) = x(i, 1)', {'x': (4, 3)}, lambda x: x[:, 1])
statement('pixel_shuffle', 'float(C, H, W) x) -> (y',
          'y(c, 2*h + i, 2*w + j) = x(4*c + 2*i + j, h, w) where c in 0:C/4, i in 0:2, j in 0:2', {'x': (8, 3, 2)},
          lambda x: x.reshape(2, 2, 2, 3, 2).transpose(0, 3, 1, 4, 2).reshape(2, 6, 4))
statement('interleaved_writes', 'float(N) a, float(N) b) -> (y',
          'y(2*i) = a(i) where i in 0:N  y(2*i + 1) = b(i) where i in 0:N', {'a': (5,), 'b': (5,)},
          lambda a, b: np.stack([a, b], 1).ravel())
statement('block_diagonal', 'float(G, R, R) b, float(G, R) x) -> (y', 'y(g, i) +=! b(g, i, j) * x(g, j)',
          {'b': (3, 4, 4), 'x': (3, 4)}, lambda b, x: np.einsum('gij,gj->gi', b, x), length=4)

# Reductions.
for name, operator, oracle in [('sum', '+=!', np.sum), ('product', '*=!', np.prod), ('min', 'min=!', np.min), ('max', 'max=!', np.max)]:
    for shape in [(1, 1), (3, 7), (42, 256), (16, 9), (111, 7), (7, 128)]:
        statement(f'{name}_{shape[0]}x{shape[1]}', 'float(N, M) x) -> (y', f'y(i) {operator} x(i, j)', {'x': shape},
                  lambda x, oracle=oracle: oracle(x, axis=1), length=shape[1])
statement('sum_of_columns', 'float(N, M) x) -> (y', 'y(j) +=! x(i, j)', {'x': (33, 17)}, lambda x: x.sum(0), length=33)
statement('sum_of_everything', 'float(N, M) x) -> (y', 'y +=! x(i, j)', {'x': (21, 13)}, np.sum, length=21 * 13)
statement('sum_3d_inner', 'float(A, B, C) x) -> (y', 'y(a, b) +=! x(a, b, c)', {'x': (3, 4, 50)}, lambda x: x.sum(2), length=50)
statement('sum_3d_two', 'float(A, B, C) x) -> (y', 'y(b) +=! x(a, b, c)', {'x': (6, 5, 9)}, lambda x: x.sum((0, 2)), length=54)
statement('mean_with_statements_around', 'float(N, M) x) -> (y', 's(i) +=! x(i, j) * 2.0  y(i, j) = x(i, j) - s(i) / float(2 * M)',
          {'x': (5, 31)}, lambda x: x - x.mean(1, keepdims=True), length=31)
statement('order_given_by_where', 'float(N, M) x) -> (y', 'y(i) +=! x(i, j) where j in 0:M, i in 0:N', {'x': (4, 6)},
          lambda x: x.sum(1), length=6)
statement('index_only_in_where', 'float(N) x) -> (y', 'y(i) +=! x(i) where k in 0:5', {'x': (4,)}, lambda x: 5 * x, length=5)
statement('accumulate_onto', 'float(N) b, float(N, M) x) -> (y', 'y(i) = b(i)  y(i) += x(i, j)', {'b': (4,), 'x': (4, 9)},
          lambda b, x: b + x.sum(1), length=10)
statement('wide_accumulation', 'float(N, M) x) -> (float(N) y', 'y(i) +=! double(x(i, j))', {'x': (3, 1000)}, lambda x: x.sum(1))
statement('integers_add_exactly', 'int32(N, M) x) -> (y', 'y(i) +=! x(i, j)', {'x': (9, 77)}, lambda x: x.sum(1, dtype=I), types=(I,))
statement('bytes_as_int32', 'uint8(N, M) x, int8(M, K) w) -> (y', 'y(i, k) +=! int32(x(i, j)) * int32(w(j, k))',
          {'x': (7, 65), 'w': (65, 33)}, lambda x, w: x.astype(I) @ w.astype(I), types=(I,))
statement('count_where', 'float(N, M) x) -> (y', 'y(i) +=! x(i, j) > 0.0 ? 1 : 0', {'x': (5, 40)},
          lambda x: (x > 0).sum(1).astype(I), types=(I,))
statement('scatter_add', 'int32(N) at, float(N) x) -> (float(8) y', 'y(i) = 0.0 where i in 0:8  y(i) += at(j) == i ? x(j) : 0.0 where i in 0:8',
          {'at': np.array([0, 3, 3, 7, 1], I), 'x': (5,)}, lambda at, x: np.bincount(at, x, 8), length=5)
statement('sum_and_squares', 'float(N, M) x) -> (s, q', 's(i) +=! x(i, j)  q(i) +=! x(i, j) * x(i, j)', {'x': (8, 96)},
          lambda x: (x.sum(1), (x * x).sum(1)), length=96)

# Empty and single extents, scalars.
statement('sum_of_nothing', 'float(N, M) x) -> (y', 'y(i) +=! x(i, j)', {'x': (3, 0)}, lambda x: np.zeros(3))
statement('product_of_nothing', 'float(N, M) x) -> (y', 'y(i) *=! x(i, j)', {'x': (3, 0)}, lambda x: np.ones(3))
statement('max_of_nothing', 'float(N, M) x) -> (y', 'y(i) max=! x(i, j)', {'x': (3, 0)}, lambda x: np.full(3, -np.inf))
statement('min_of_nothing', 'int32(N, M) x) -> (y', 'y(i) min=! x(i, j)', {'x': (3, 0)}, lambda x: np.full(3, 2**31 - 1, I))
statement('nothing_at_all', 'float(N) x) -> (y', 'y(i) = x(i)', {'x': (0,)}, lambda x: x)
statement('empty_range', 'float(N) x) -> (y', 'y(i) = x(i) where i in 2:2', {'x': (4,)}, lambda x: np.zeros(0))
statement('empty_matmul', 'float(M, K) a, float(K, N) b) -> (c', 'c(m, n) +=! a(m, k) * b(k, n)', {'a': (3, 0), 'b': (0, 2)},
          lambda a, b: np.zeros((3, 2)))
statement('empty_beside_full', 'float(N) x, float(M) w) -> (y, z', 'y(i) = exp(x(i))  z(j) = w(j) + 1.0', {'x': (0,), 'w': (5,)},
          lambda x, w: (x, w + 1))
statement('rank_0_input', 'float a, float(N) x) -> (y', 'y(i) = a * x(i)', {'a': (), 'x': (6,)}, lambda a, x: a * x)
statement('rank_0_all', 'float a, float b) -> (y', 'y = a + b', {'a': (), 'b': ()}, lambda a, b: a + b)
statement('rank_0_between', 'float(N) x) -> (y', 's +=! x(i)  y(i) = x(i) / s', {'x': np.arange(1, 8, dtype=F)}, lambda x: x / x.sum(), length=7)
statement('single_instances', 'float(1, 1) a, float(1, 1) b) -> (c', 'c(m, n) +=! a(m, k) * b(k, n)', {'a': (1, 1), 'b': (1, 1)},
          lambda a, b: a @ b)
statement('no_inputs', ') -> (y', 'y(i) = i * 2 where i in 0:5', {}, lambda: np.arange(0, 10, 2, dtype=I), types=(I,))
statement('index_as_value', 'float(N) x) -> (y', 'y(i) = x(i) + float(i)', {'x': (5,)}, lambda x: x + np.arange(5))

# Types.
for word, kind in [('int8', np.int8), ('int16', np.int16), ('int32', np.int32), ('int64', np.int64), ('uint8', np.uint8),
                   ('uint16', np.uint16), ('uint32', np.uint32), ('uint64', np.uint64)]:
    statement(f'{word}_arithmetic', f'{word}(N) x, {word}(N) w) -> (y', 'y(i) = x(i) * w(i) + x(i) - w(i)', {'x': (40,), 'w': (40,)},
              lambda x, w: x * w + x - w, types=(kind,))
    statement(f'{word}_sum', f'{word}(N, M) x) -> (y', 'y(i) +=! x(i, j)', {'x': (5, 11)},
              lambda x, kind=kind: x.sum(1, dtype=kind), types=(kind,))
for word, kind in [('float16', np.float16), ('float', np.float32), ('double', np.float64)]:
    statement(f'{word}_fma', f'{word}(N) x, {word}(N) w) -> (y', 'y(i) = x(i) * w(i) + x(i)', {'x': (40,), 'w': (40,)},
              lambda x, w: x * w + x, types=(kind,))
    statement(f'{word}_matmul', f'{word}(M, K) a, {word}(K, N) b) -> (c', 'c(m, n) +=! a(m, k) * b(k, n)', {'a': (6, 20), 'b': (20, 17)},
              lambda a, b: a @ b, length=20, types=(kind,))
statement('bfloat16_round_trip', 'bfloat16(N) x) -> (y', 'y(i) = bfloat16(float(x(i)))', {'x': np.array([0x3f80, 0xc000, 0x7f80, 0x0001], np.uint16)},
          lambda x: x, types=(np.uint16,))
statement('bool_logic', 'bool(N) a, bool(N) b) -> (y', 'y(i) = a(i) && !b(i) || b(i) && !a(i)', {'a': (16,), 'b': (16,)}, lambda a, b: a ^ b, types=(np.bool_,))
for name, operator, oracle in [('less', '<', np.less), ('greater', '>', np.greater), ('at_most', '<=', np.less_equal),
                               ('at_least', '>=', np.greater_equal), ('equal', '==', np.equal), ('different', '!=', np.not_equal)]:
    statement(f'compare_{name}', 'int32(N) a, int32(N) b) -> (y', f'y(i) = a(i) {operator} b(i)',
              {'a': np.array([1, 2, 3, -1], I), 'b': np.array([1, 3, 2, -1], I)}, oracle, types=(np.bool_,))
statement('floor_division', 'int32(N) a, int32(N) b) -> (q, r', 'q(i) = a(i) / b(i)  r(i) = a(i) % b(i)',
          {'a': np.array([7, -7, 7, -7], I), 'b': np.array([2, 2, -2, -2], I)}, lambda a, b: (a // b, a % b))
statement('trunc_division', 'int32(N) a, int32(N) b) -> (q, r', 'q(i) = trunc_div(a(i), b(i))  r(i) = rem(a(i), b(i))',
          {'a': np.array([7, -7, 7, -7], I), 'b': np.array([2, 2, -2, -2], I)}, lambda a, b: (np.trunc(a / b).astype(I), np.fmod(a, b)))
statement('total_division', 'int32(N) a, int32(N) b) -> (q, r', 'q(i) = a(i) / b(i)  r(i) = a(i) % b(i)',
          {'a': np.array([7, -2**31, 0], I), 'b': np.array([0, -1, 0], I)}, lambda a, b: (np.array([0, -2**31, 0], I), np.array([0, 0, 0], I)))
statement('wrapping', 'int32(N) a) -> (y', 'y(i) = a(i) * a(i) + a(i)', {'a': np.array([2**31 - 1, -2**31, 65536], I)}, lambda a: a * a + a)
statement('casts_saturate', 'float(N) x) -> (a, b', 'a(i) = int8(x(i))  b(i) = uint8(x(i))', {'x': np.array([1.9, -1.9, 300, -300, np.nan], F)},
          lambda x: (np.array([1, -1, 127, -128, 0], np.int8), np.array([1, 0, 255, 0, 0], np.uint8)))
statement('casts_widen', 'uint8(N) x) -> (y', 'y(i) = float(x(i)) / 255.0', {'x': (20,)}, lambda x: x / 255)
statement('bits', 'int32(N) a, int32(N) b) -> (y', 'y(i) = bit_or(bit_and(a(i), b(i)), shl(bit_xor(a(i), b(i)), 2))', {'a': (9,), 'b': (9,)},
          lambda a, b: (a & b) | ((a ^ b) << 2))
statement('precedence', 'int32 a) -> (y', 'y = -3%2+4*5+7-a', {'a': np.array(11, I)}, lambda a: I(-3 % 2 + 4 * 5 + 7 - 11))
statement('conditions_nest', 'int32(N) a) -> (y', 'y(i) = a(i) < 0 ? -1 : a(i) > 0 ? 1 : 0', {'a': np.array([-5, 0, 7], I)}, np.sign)
statement('mixed_types', 'int32(N) a, float(N) x) -> (y', 'y(i) = a(i) * x(i)', {'a': (6,), 'x': (6,)}, lambda a, x: a * x, types=(F,))
statement('literals_beside_double', 'double(N) x) -> (y', 'y(i) = x(i) * 0.1', {'x': (6,)}, lambda x: x * 0.1, types=(np.float64,))

# Builtins, where they are defined.
POSITIVE, UNIT, LARGE = (np.linspace(a, b, 41, dtype=F) for a, b in ((0.01, 9), (-0.99, 0.99), (1.01, 20)))
REAL = np.linspace(-6, 6, 49, dtype=F)
for name, oracle, points in [
        ('abs', np.abs, REAL), ('sqrt', np.sqrt, POSITIVE), ('floor', np.floor, REAL), ('ceil', np.ceil, REAL), ('trunc', np.trunc, REAL),
        ('round', np.rint, REAL), ('exp', np.exp, REAL), ('log', np.log, POSITIVE), ('tanh', np.tanh, REAL), ('erf', erf, REAL),
        ('sigmoid', sigmoid, REAL), ('sin', np.sin, REAL), ('cos', np.cos, REAL), ('tan', np.tan, UNIT), ('asin', np.arcsin, UNIT),
        ('acos', np.arccos, UNIT), ('atan', np.arctan, REAL), ('sinh', np.sinh, REAL), ('cosh', np.cosh, REAL), ('asinh', np.arcsinh, REAL),
        ('acosh', np.arccosh, LARGE), ('atanh', np.arctanh, UNIT), ('log1p', np.log1p, POSITIVE), ('expm1', np.expm1, REAL)]:
    statement(f'builtin_{name}', 'float(N) x) -> (y', f'y(i) = {name}(x(i))', {'x': points}, oracle)
statement('builtin_pow', 'float(N) x, float(M) e) -> (y', 'y(i, j) = pow(x(i), e(j))', {'x': POSITIVE, 'e': np.array([0, 1, 2, -1, 0.5], F)},
          lambda x, e: x[:, None]**e, length=2)
statement('builtin_fma', 'float(N) x, float(N) w) -> (y', 'y(i) = fma(x(i), w(i), 1.0)', {'x': (8,), 'w': (8,)}, lambda x, w: x * w + 1)
statement('builtins_nest', 'float(N) a, float(N) b, float(N) c) -> (y', 'y(i) = max(min(a(i), b(i)), min(max(a(i), b(i)), c(i)))',
          {'a': (30,), 'b': (30,), 'c': (30,)}, lambda a, b, c: np.median([a, b, c], axis=0))
ODD = np.array([np.nan, 1, -np.inf, np.inf, np.nan, 0], F)
statement('min_max_keep_nan', 'float(N) a, float(N) b) -> (x, y', 'x(i) = min(a(i), b(i))  y(i) = max(a(i), b(i))', {'a': ODD, 'b': ODD[::-1].copy()},
          lambda a, b: (np.minimum(a, b), np.maximum(a, b)))
statement('fmin_fmax_ignore_nan', 'float(N) a, float(N) b) -> (x, y', 'x(i) = fmin(a(i), b(i))  y(i) = fmax(a(i), b(i))',
          {'a': ODD, 'b': ODD[::-1].copy()}, lambda a, b: (np.fmin(a, b), np.fmax(a, b)))
statement('reductions_keep_nan', 'float(N, M) x) -> (y', 'y(i) max=! x(i, j)', {'x': np.array([[1, np.nan, 3], [1, 2, 3], [-np.inf] * 3], F)},
          lambda x: np.max(x, axis=1))
statement('isnan_and_infinity', 'float(N) x) -> (y', 'y(i) = isnan(x(i)) || x(i) == infinity()', {'x': ODD}, lambda x: np.isnan(x) | (x == np.inf))

# Where: ranges, lets, exists, guards.
statement('let', 'float(N) x) -> (y', 'y(i) = z * z where z = x(i) + 1.0', {'x': (7,)}, lambda x: (x + 1)**2)
statement('lets_chain', 'float(N) x) -> (y', 'y(i) = c where a = x(i), b = a * a, c = b + a', {'x': (7,)}, lambda x: x * x + x)
statement('exists', 'float(N) x, float(M) w) -> (y', 'y(i) = x(i) where exists w(i)', {'x': (9,), 'w': (4,)}, lambda x, w: x[:4])
statement('bounds_of_sizes', 'float(N) x) -> (y', 'y(i) = x(i) where i in 0:N/2', {'x': (9,)}, lambda x: x[:4])
statement('guarded_read', 'float(N) x) -> (y', 'y(i) = i > 0 ? x(i - 1) : 0.0 where i in 0:N', {'x': (6,)}, lambda x: np.r_[0, x[:-1]])
statement('lazy_and', 'int32(N) x) -> (y', 'y(i) = i + 1 < N && x(i + 1) > 4 where i in 0:N', {'x': (8,)}, lambda x: np.r_[x[1:] > 4, False])
statement('concat_by_select', 'float(N) a, float(N) b) -> (y', 'y(i, j) = i == 0 ? a(j) : b(j) where i in 0:2', {'a': (5,), 'b': (5,)},
          lambda a, b: np.stack([a, b]))
statement('concat_by_statements', 'float(N) a, float(M) b) -> (y', 'y(i) = a(i) where i in 0:N  y(i) = b(i - N) where i in N:N+M',
          {'a': (5,), 'b': (3,)}, lambda a, b: np.r_[a, b])
statement('masked_sum', 'float(N, N) x) -> (y', 'y(i) +=! j <= i ? x(i, j) : 0.0', {'x': (9, 9)}, lambda x: np.tril(x).sum(1), length=9)

# Constants, sizes, tuples, gathers.
statement('constant_matrix', 'float(N) x) -> (y', 'const d(2, 2) = {1.0, -1.0, 0.5, 2.0};  y(b, i) +=! d(i, j) * x(2*b + j) where b in 0:N/2, i in 0:2, j in 0:2',
          {'x': (8,)}, lambda x: x.reshape(4, 2) @ np.array([[1, -1], [0.5, 2]]).T, length=2)
statement('size_as_stride', 'float(N) x, size S) -> (y', 'y(i) = x(S * i)', {'x': (11,), 'S': 4}, lambda x, S: x[::S])
statement('size_as_dilation', 'float(N) x, float(K) w, size D) -> (y', 'y(i) +=! x(i + D * k) * w(k)', {'x': (20,), 'w': (3,), 'D': 4},
          lambda x, w, D: sum(x[k * D:k * D + 12] * w[k] for k in range(3)), length=3)
statement('argmax', 'float(N, M) x) -> (v, k', '(v(i), k(i)) max=! (x(i, j), j)', {'x': (6, 30)}, lambda x: (x.max(1), x.argmax(1).astype(I)))
statement('argmin_ties', 'int32(N, M) x) -> (v, k', '(v(i), k(i)) min=! (x(i, j), j)', {'x': np.array([[2, 1, 1], [0, 0, 5]], I)},
          lambda x: (x.min(1), x.argmin(1).astype(I)))
statement('argmin_by_two_passes', 'float(N, D) x, float(K, D) c) -> (best', '''
    s(n, k) +=! (x(n, d) - c(k, d)) * (x(n, d) - c(k, d))
    v(n) min=! s(n, k)
    best(n) min=! s(n, k) == v(n) ? k : K''', {'x': (7, 5), 'c': (9, 5)},
          lambda x, c: ((x[:, None] - c)**2).sum(2).argmin(1).astype(I), types=(I,))
TABLE = {'table': (20, 8), 'at': np.array([[0, 3, 19], [5, 5, 5], [1, 2, 4], [19, 0, 7]], I)}
statement('lut', 'float(E, D) table, int32(B, L) at) -> (y', 'y(b, d) +=! table(at(b, l), d)', TABLE, lambda table, at: table[at].sum(1), length=3)
statement('lut_int64', 'float(E, D) table, int64(B, L) at) -> (y', 'y(b, d) +=! table(at(b, l), d)', TABLE | {'at': TABLE['at'].astype(np.int64)},
          lambda table, at: table[at].sum(1), length=3)
statement('two_luts', 'float(E, D) t0, int32(B, L) i0, float(E, D) t1, int32(B, L) i1) -> (y0, y1',
          'y0(b, d) +=! t0(i0(b, l), d)  y1(b, d) +=! t1(i1(b, l), d)',
          {'t0': (20, 8), 'i0': TABLE['at'], 't1': (20, 8), 'i1': TABLE['at'][::-1].copy()},
          lambda t0, i0, t1, i1: (t0[i0].sum(1), t1[i1].sum(1)), length=3)
statement('gather_of_gather', 'float(E) x, int32(N) a, int32(M) b) -> (y', 'y(i) = x(a(b(i)))',
          {'x': (9,), 'a': np.array([8, 0, 3, 3], I), 'b': np.array([3, 0, 1], I)}, lambda x, a, b: x[a[b]])
statement('indexing', 'float(N, M) x, int32(L) rows) -> (y', 'y(l, m) = x(rows(l), m)', {'x': (6, 5), 'rows': np.array([5, 0, 5], I)}, lambda x, rows: x[rows])

# In place, recurrences.
statement('in_place', 'float(N) x) -> (y', 'y(i) = x(i)  y(i) = y(i) * 2.0  y(i) = y(i) + 1.0', {'x': (9,)}, lambda x: x * 2 + 1)
statement('read_then_overwritten', 'float(N) x) -> (y, z', 't(i) = x(i) * 3.0  y(i) = t(i)  t(i) = x(i) + 1.0  z(i) = t(i)', {'x': (9,)},
          lambda x: (x * 3, x + 1))
statement('in_place_matmul', 'float(M, K) a, float(K, N) b, float(N) c) -> (y', '''
    y(m, n) +=! a(m, k) * b(k, n)
    y(m, n) = y(m, n) + c(n)
    y(m, n) = max(y(m, n), 0.0)''', {'a': (9, 12), 'b': (12, 20), 'c': (20,)}, lambda a, b, c: np.maximum(a @ b + c, 0), length=13)
statement('in_place_in_part', 'float(N) x) -> (y', 'y(i) = x(i)  y(i) = y(i) * 2.0 where i in 2:5', {'x': (9,)}, lambda x: np.r_[x[:2], 2 * x[2:5], x[5:]])
statement('in_place_by_gathers', 'float(N) x, int32(N) at) -> (y', 'y(i) = x(i)  z(i) = y(at(i))  y(i) = y(i) + z(i)', {'x': (4,), 'at': np.array([3, 2, 1, 0], I)},
          lambda x, at: x + x[at])
statement('reduced_and_rewritten', 'float(N, M) x) -> (y, s', 'y(i, j) = x(i, j)  s(i) +=! y(i, j)  y(i, j) = y(i, j) - s(i)  s(i) max=! y(i, j)',
          {'x': (6, 21)}, lambda x: (c := x - x.sum(1, keepdims=True), c.max(1)), length=21)
statement('names_that_collide', 'float(N, M) y_acc, float(N) y_acc_1) -> (y', 'y(i) +=! y_acc(i, j)  y(i) = y(i) + y_acc_1(i)',
          {'y_acc': (5, 18), 'y_acc_1': (5,)}, lambda a, b: a.sum(1) + b, length=19)
statement('prefix_sum', 'float(N) x) -> (y', 'y(t) = x(t) + (t > 0 ? y(t - 1) : 0.0) where t in 0:N', {'x': (30,)}, np.cumsum, length=30)
statement('scan_from_a_first_slice', 'float(T, N) x) -> (h', 'h(t, i) = x(t, i) where t in 0:1  h(t, i) = tanh(h(t - 1, i) + x(t, i)) where t in 1:T, i in 0:N',
          {'x': (8, 5)}, lambda x: np.array([h := x[0]] + [h := np.tanh(h + r) for r in x[1:]]), length=4)
statement('rnn', 'float(T, N) x, float(N, N) w) -> (h', '''
    g(t, i) +=! t > 0 ? w(i, j) * h(t - 1, j) : 0.0 where t in 0:T, i in 0:N, j in 0:N
    h(t, i) = tanh(g(t, i) + x(t, i)) where t in 0:T, i in 0:N''', {'x': (6, 5), 'w': (5, 5)},
          lambda x, w: np.array([h := np.tanh(x[0])] + [h := np.tanh(w @ h + r) for r in x[1:]]), length=10)

# Kernels of networks.
statement('matmul', 'float(M, K) a, float(K, N) b) -> (c', 'c(m, n) +=! a(m, k) * b(k, n)', {'a': (65, 70), 'b': (70, 33)}, lambda a, b: a @ b, length=70)
statement('tmm', 'float(M, K) a, float(N, K) b) -> (c', 'c(m, n) +=! a(m, k) * b(n, k)', {'a': (32, 48), 'b': (40, 48)}, lambda a, b: a @ b.T, length=48)
statement('tbmm', 'float(B, N, M) x, float(B, K, M) y) -> (z', 'z(b, n, k) +=! x(b, n, m) * y(b, k, m)', {'x': (5, 26, 36), 'y': (5, 13, 36)},
          lambda x, y: np.einsum('bnm,bkm->bnk', x, y), length=36)
statement('matvec', 'float(M, K) a, float(K) x) -> (y', 'y(m) +=! a(m, k) * x(k)', {'a': (50, 61), 'x': (61,)}, lambda a, x: a @ x, length=61)
statement('triple_hadamard', 'float(N) a, float(N) b, float(N) c) -> (y', 'y(i) = a(i) * b(i) * c(i)', {'a': (40,), 'b': (40,), 'c': (40,)}, lambda a, b, c: a * b * c)
statement('tensordot', 'float(N, C1, C2, H, W) x, float(N, C2, C3, H, W) w) -> (y', 'y(n, a, c, h, v) +=! x(n, a, b, h, v) * w(n, b, c, h, v)',
          {'x': (2, 3, 5, 4, 6), 'w': (2, 5, 2, 4, 6)}, lambda x, w: np.einsum('nabhv,nbchv->nachv', x, w), length=5)
statement('two_matmuls', 'float(M, K) a, float(K, N) b, float(N, P) c) -> (y', 't(m, n) +=! a(m, k) * b(k, n)  y(m, p) +=! t(m, n) * c(n, p)',
          {'a': (20, 15), 'b': (15, 18), 'c': (18, 21)}, lambda a, b, c: a @ b @ c, length=33)
CONV = 'float(N, C, H, W) x, float(K, C, R, S) w'
statement('conv_valid', CONV + ') -> (y', 'y(n, k, h, v) +=! x(n, c, h + r, v + s) * w(k, c, r, s)', {'x': (2, 3, 9, 8), 'w': (4, 3, 3, 3)}, correlate, length=27)
statement('conv_stride_2', CONV + ') -> (y', 'y(n, k, h, v) +=! x(n, c, 2*h + r, 2*v + s) * w(k, c, r, s)', {'x': (1, 3, 11, 9), 'w': (4, 3, 3, 3)},
          lambda x, w: correlate(x, w, 2), length=27)
statement('conv_stride_by_size', CONV + ', size T) -> (y', 'y(n, k, h, v) +=! x(n, c, T*h + r, T*v + s) * w(k, c, r, s)', {'x': (1, 2, 13, 10), 'w': (3, 2, 3, 3), 'T': 3},
          lambda x, w, T: correlate(x, w, T), length=18)
statement('conv_padded', CONV + ') -> (y', '''y(n, k, h, v) +=! h+r-1 >= 0 && h+r-1 < H && v+s-1 >= 0 && v+s-1 < W ? x(n, c, h+r-1, v+s-1) * w(k, c, r, s) : 0.0
    where h in 0:H, v in 0:W''', {'x': (1, 3, 7, 9), 'w': (5, 3, 3, 3)}, lambda x, w: correlate(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), w), length=27)
statement('conv_input_gradient', 'float(OH) g, float(R) w) -> (x', 'x(h) +=! h - r >= 0 && h - r < OH ? g(h - r) * w(r) : 0.0 where h in 0:OH+R-1',
          {'g': (9,), 'w': (3,)}, np.convolve, length=3)
statement('conv_weird', 'float(N, M) x, float(K) w) -> (y', 'y(i) +=! x(2*i + 3*j, j) * w(j) where i in 0:3, j in 0:4', {'x': (16, 4), 'w': (4,)},
          lambda x, w: np.array([sum(x[2 * i + 3 * j, j] * w[j] for j in range(4)) for i in range(3)]), length=4)
statement('group_conv', 'float(N, G, C, H, W) x, float(G, F, C, R, S) w, float(G, F) b) -> (y', '''
    y(n, g, f, h, v) +=! x(n, g, c, h + r, v + s) * w(g, f, c, r, s)
    y(n, g, f, h, v) = y(n, g, f, h, v) + b(g, f)''', {'x': (2, 4, 3, 6, 7), 'w': (4, 5, 3, 3, 3), 'b': (4, 5)},
          lambda x, w, b: np.stack([correlate(x[:, g], w[g]) for g in range(4)], 1) + b[None, :, :, None, None], length=28)
statement('depthwise', 'float(C, H, W) x, float(C, R, S) w) -> (y', 'y(c, h, v) +=! x(c, h + r, v + s) * w(c, r, s)', {'x': (6, 8, 9), 'w': (6, 3, 3)},
          lambda x, w: np.stack([correlate(x[None, c:c + 1], w[None, c:c + 1])[0, 0] for c in range(6)]), length=9)
statement('maxpool', 'float(C, H, W) x) -> (y', 'y(c, h, v) max=! x(c, 2*h + r, 2*v + s) where r in 0:2, s in 0:2', {'x': (3, 6, 8)},
          lambda x: x.reshape(3, 3, 2, 4, 2).max((2, 4)))
statement('avgpool', 'float(C, H, W) x) -> (y', 'y(c, h, v) +=! x(c, 2*h + r, 2*v + s) * 0.25 where r in 0:2, s in 0:2', {'x': (3, 6, 8)},
          lambda x: x.reshape(3, 3, 2, 4, 2).mean((2, 4)), length=4)
statement('softmax_c', 'float(N, D) x) -> (y', 'm(i) max=! x(i, j)  s(i) +=! exp(x(i, j) - m(i))  y(i, j) = exp(x(i, j) - m(i)) / s(i)', {'x': (9, 41)}, softmax, length=41)
statement('softmax_d', 'float(N, D) x) -> (y', 'm(i) max=! x(i, j)  e(i, j) = exp(x(i, j) - m(i))  s(i) +=! e(i, j)  y(i, j) = e(i, j) / s(i)', {'x': (9, 41)}, softmax, length=41)
statement('softmax_that_reuses_its_output', 'float(N, D) x) -> (y', 't(i) max=! x(i, j)  y(i, j) = exp(x(i, j) - t(i))  t(i) +=! y(i, j)  y(i, j) = y(i, j) / t(i)',
          {'x': (5, 33)}, softmax, length=33)
statement('layernorm', 'float(N, D) x, float(D) g, float(D) b) -> (y', '''
    m(i) +=! x(i, j) / float(D)
    v(i) +=! (x(i, j) - m(i)) * (x(i, j) - m(i)) / float(D)
    y(i, j) = (x(i, j) - m(i)) / sqrt(v(i) + 1e-5) * g(j) + b(j)''', {'x': (6, 50), 'g': (50,), 'b': (50,)},
          lambda x, g, b: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b, length=50)
statement('batchnorm', 'float(N, C, H, W) x) -> (y, mean, var', '''
    mean(c) +=! x(n, c, h, w)
    mean(c) = mean(c) / float(N * H * W)
    var(c) +=! (x(n, c, h, w) - mean(c)) * (x(n, c, h, w) - mean(c))
    var(c) = var(c) / float(N * H * W)
    y(n, c, h, w) = (x(n, c, h, w) - mean(c)) / sqrt(var(c) + 1e-5)''', {'x': (3, 4, 5, 6)},
          lambda x: ((x - (m := x.mean((0, 2, 3)))[:, None, None]) / np.sqrt((v := x.var((0, 2, 3)))[:, None, None] + 1e-5), m, v), length=90)
statement('group_norm', 'float(N, G, D, H, W) x) -> (y', '''
    s(n, g) +=! x(n, g, d, h, w)
    q(n, g) +=! x(n, g, d, h, w) * x(n, g, d, h, w)
    y(n, g, d, h, w) = (x(n, g, d, h, w) - u) / sqrt(q(n, g) / c - u * u + 1e-5) where c = float(D * H * W), u = s(n, g) / c''', {'x': (2, 4, 3, 5, 5)},
          lambda x: (x - x.mean((2, 3, 4), keepdims=True)) / np.sqrt(x.var((2, 3, 4), keepdims=True) + 1e-5), length=75)
statement('moments', 'float(N, K) x) -> (mean, var', 'mean(n) +=! x(n, k) / float(K)  var(n) +=! x(n, k) * x(n, k) / float(K)  var(n) = var(n) - mean(n) * mean(n)',
          {'x': (12, 90)}, lambda x: (x.mean(1), x.var(1)), length=90)
MLP = {f'w{k}': (n, m) for k, (n, m) in enumerate([(20, 16), (16, 12), (12, 2)])} | {f'b{k}': (m,) for k, m in enumerate([16, 12, 2])}
statement('fcrelu_3', 'float(B, M) x, float(M, N) w0, float(N, O) w1, float(O, P) w2, float(N) b0, float(O) b1, float(P) b2) -> (y0, y1, y2', '''
    y0(b, n) +=! x(b, m) * w0(m, n)   y0(b, n) = y0(b, n) + b0(n)   y0(b, n) = max(y0(b, n), 0.0)
    y1(b, o) +=! y0(b, n) * w1(n, o)  y1(b, o) = y1(b, o) + b1(o)   y1(b, o) = max(y1(b, o), 0.0)
    y2(b, p) +=! y1(b, o) * w2(o, p)  y2(b, p) = y2(b, p) + b2(p)   y2(b, p) = max(y2(b, p), 0.0)''', {'x': (9, 20)} | MLP,
          lambda x, w0, w1, w2, b0, b1, b2: (y0 := np.maximum(x @ w0 + b0, 0), y1 := np.maximum(y0 @ w1 + b1, 0), np.maximum(y1 @ w2 + b2, 0)), length=48)
statement('attention', 'float(B, N, D) q, float(B, M, D) k, float(B, M, D) v) -> (o', '''
    a(b, i, j) +=! q(b, i, d) * k(b, j, d)
    m(b, i) max=! a(b, i, j)
    e(b, i, j) = exp(a(b, i, j) - m(b, i))
    s(b, i) +=! e(b, i, j)
    o(b, i, d) +=! e(b, i, j) / s(b, i) * v(b, j, d)''', {'q': (2, 9, 16), 'k': (2, 11, 16), 'v': (2, 11, 16)},
          lambda q, k, v: softmax(np.einsum('bid,bjd->bij', q, k)) @ v, length=38)
statement('wavenet', 'float(B, R, T) x, float(R, R, 2) wf, float(R, R, 2) wg, float(R, R) wr, float(K, R) ws, size D) -> (res, skip', '''
    f(b, r, t) +=! t >= (1 - k) * D ? x(b, c, t - (1 - k) * D) * wf(r, c, k) : 0.0 where t in 0:T, k in 0:2
    g(b, r, t) +=! t >= (1 - k) * D ? x(b, c, t - (1 - k) * D) * wg(r, c, k) : 0.0 where t in 0:T, k in 0:2
    z(b, r, t) = tanh(f(b, r, t)) * sigmoid(g(b, r, t))
    res(b, r, t) +=! wr(r, c) * z(b, c, t)
    res(b, r, t) = res(b, r, t) + x(b, r, t)
    skip(b, k, t) +=! ws(k, c) * z(b, c, t)''',
          {'x': (1, 4, 21), 'wf': (4, 4, 2), 'wg': (4, 4, 2), 'wr': (4, 4), 'ws': (6, 4), 'D': 4},
          lambda x, wf, wg, wr, ws, D: (
              p := np.pad(x, ((0, 0), (0, 0), (D, 0))),
              dil := lambda w: np.einsum('bct,rc->brt', p[..., :21], w[..., 0]) + np.einsum('bct,rc->brt', p[..., D:], w[..., 1]),
              z := np.tanh(dil(wf)) * sigmoid(dil(wg)),
              np.einsum('rc,bct->brt', wr, z) + x, np.einsum('kc,bct->bkt', ws, z))[-2:], length=16)
statement('kronecker_3', 'float(D0, N0) w0, float(D1, N1) w1, float(D2, N2) w2, float(M, N0, N1, N2) x) -> (y', '''
    a(m, n0, n1, d2) +=! x(m, n0, n1, n2) * w2(d2, n2)
    b(m, n0, d1, d2) +=! a(m, n0, n1, d2) * w1(d1, n1)
    y(m, d0, d1, d2) +=! b(m, n0, d1, d2) * w0(d0, n0)''', {'w0': (3, 5), 'w1': (2, 4), 'w2': (4, 6), 'x': (7, 5, 4, 6)},
          lambda w0, w1, w2, x: np.einsum('mabc,xa,yb,zc->mxyz', x, w0, w1, w2), length=15)
statement('lut_concat', 'float(E, D) t, int32(B, L) at, float(B, D) x) -> (y',
          'e(b, d) +=! t(at(b, l), d)  y(b, i, d) = i == 0 ? e(b, d) : x(b, d) where i in 0:2', {'t': (20, 8), 'at': TABLE['at'], 'x': (4, 8)},
          lambda t, at, x: np.stack([t[at].sum(1), x], 1), length=3)
statement('cosine_coherence', 'float(B, D) a, float(B, D) b) -> (y', '''
    n(i) +=! a(i, d) * b(i, d)   p(i) +=! a(i, d) * a(i, d)   q(i) +=! b(i, d) * b(i, d)
    y(i) = n(i) / sqrt(p(i) * q(i))''', {'a': (7, 30), 'b': (7, 30)},
          lambda a, b: (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1)), length=30)
statement('twelve_statements', 'float(N, D) x, float(D, E) w, float(E) b) -> (y', '''
    h(i, e) +=! x(i, d) * w(d, e)
    h(i, e) = h(i, e) + b(e)
    r(i, e) = max(h(i, e), 0.0)
    m(i) max=! r(i, e)
    t(i, e) = exp(r(i, e) - m(i))
    s(i) +=! t(i, e)
    p(i, e) = t(i, e) / s(i)
    u(i) +=! p(i, e) * r(i, e)
    c(i, e) = r(i, e) - u(i)
    v(i) +=! c(i, e) * c(i, e)
    k(i) = 1.0 / sqrt(v(i) + 1e-3)
    y(i, e) = c(i, e) * k(i)''', {'x': (10, 24), 'w': (24, 40), 'b': (40,)},
          lambda x, w, b: (r := np.maximum(x @ w + b, 0), c := r - (softmax(r) * r).sum(1, keepdims=True),
                           c / np.sqrt((c * c).sum(1, keepdims=True) + 1e-3))[-1], length=64)
case('several_defs', '''
    def half(float(N) x) -> (y) { y(i) = x(i) / 2.0 }
    def twice(float(N) x) -> (y) { y(i) = x(i) * 2.0 }''', {'x': (5,)}, lambda x: x * 2, entry='twice')


# Calls: a def as a statement, as several results, at a place, and of numbers.
LIBRARY = '''
def scale(float(N) x, float() a) -> (y) { y(i) = a() * x(i) }
def extremes(float(N) x) -> (lo, hi) { lo() min=! x(i)  hi() max=! x(i) }
def product(float(M, K) a, float(K, N) b) -> (c) { c(m, n) +=! a(m, k) * b(k, n) }
def gelu(float x) -> (float y) { y = 0.5 * x * (1.0 + erf(x * 0.70710678)) }
'''


def call(name, signature, body, arguments, oracle, **more):
    case(f'call_{name}', f'{LIBRARY}def f({signature}) {{ {body} }}', arguments, oracle, entry='f', **more)


call('product', 'float(M, K) a, float(K, N) b) -> (y', 'y = product(a, b)', {'a': (5, 7), 'b': (7, 3)}, lambda a, b: a @ b, length=7)
call('product_of_product', 'float(M, K) a, float(K, N) b, float(N, P) c) -> (y', 'h = product(a, b);  y = product(h, c)',
     {'a': (5, 7), 'b': (7, 3), 'c': (3, 9)}, lambda a, b, c: a @ b @ c, length=21)
call('of_several_results', 'float(N) x) -> (y', '(lo, hi) = extremes(x);  y(i) = (x(i) - lo()) / (hi() - lo())', {'x': (33,)},
     lambda x: (x - x.min()) / (x.max() - x.min()), length=4)
call('at_a_place', 'float(M, K) a, float(K, N) b) -> (y', 'y(i, j) = product(a, b)(i, j) + 1.0', {'a': (4, 6), 'b': (6, 5)},
     lambda a, b: a @ b + 1, length=6)
call('of_numbers', 'float(N) x) -> (y', 'y(i) = gelu(x(i))', {'x': (40,)}, lambda x: 0.5 * x * (1 + erf(x * 0.5 ** 0.5)), length=4)
call('twice', 'float(N) x, float() a, float() b) -> (y', 'u = scale(x, a);  v = scale(u, b);  y(i) = u(i) + v(i)',
     {'x': (9,), 'a': (), 'b': ()}, lambda x, a, b: a * x + b * a * x, length=3)


for steps in (1, 2, 9):
    statement(f'recurrence_of_{steps}', 'float(T) x) -> (h', '''
        h(t) = x(t) + (t > 0 ? 0.5 * c(t - 1) : 0.0) where t in 0:T
        c(t) = tanh(h(t)) where t in 0:T''', {'x': (steps,)},
              lambda x: np.array([h := x[0]] + [h := v + 0.5 * np.tanh(h) for v in x[1:]]), length=4)


# Segments: rows of different lengths, one after another.
def segments(x, offsets, reduce, start):
    return np.array([reduce(x[a:b]) if b > a else start for a, b in zip(offsets, offsets[1:])])


OFFSETS = np.array([0, 3, 3, 10, 11, 17], I)
statement('segment_sum', 'float(N) x, int32(B) o) -> (y', 'y(i) +=! x(j) where i in 0:B-1, j in o(i):o(i + 1) max 8',
          {'x': (17,), 'o': OFFSETS}, lambda x, o: segments(x, o, np.sum, 0.0), length=8)
statement('segment_max', 'float(N) x, int32(B) o) -> (y', 'y(i) max=! x(j) where i in 0:B-1, j in o(i):o(i + 1) max 8',
          {'x': (17,), 'o': OFFSETS}, lambda x, o: segments(x, o, np.max, -np.inf))
statement('segment_rows', 'float(N, D) x, int32(B) o) -> (y',
          'y(i, d) +=! x(j, d) where i in 0:B-1, j in o(i):o(i + 1) max 7, d in 0:D',
          {'x': (17, 6), 'o': OFFSETS}, lambda x, o: np.stack([x[a:b].sum(0) for a, b in zip(o, o[1:])]), length=7)

# Strides: an operand is read where it lies, in memory that may be longer.
STRIDED = 'size M, size K, float(M, K) a strides({}), float(K, N) b) -> (y'
for name, strides, cells, view in (('transposed', '1, M', 35, lambda a: a.reshape(7, 5).T),
                                   ('padded', '9, 1', 50, lambda a: a[:45].reshape(5, 9)[:, :7]),
                                   ('interleaved', '14, 2', 70, lambda a: a.reshape(5, 7, 2)[:, :, 0])):
    statement(f'stride_{name}', STRIDED.format(strides), 'y(m, n) +=! a(m, k) * b(k, n)',
              {'M': 5, 'K': 7, 'a': (cells,), 'b': (7, 3)}, lambda M, K, a, b, view=view: view(a) @ b, length=7)

# Four bits.
for typed, low in (('int4', -8), ('uint4', 0)):
    nibbles = np.arange(low, low + 16).astype(np.int8 if low else np.uint8)
    statement(f'{typed}_to_float', f'{typed}(N) x) -> (y', 'y(i) = float(x(i)) * 0.5', {'x': nibbles}, lambda x: x * 0.5)
    statement(f'{typed}_sum', f'{typed}(N) x) -> (int32(1) y', 'y(i) +=! int32(x(j)) where i in 0:1, j in 0:15',
              {'x': nibbles[:15]}, lambda x: np.array([x.astype(I).sum()], I))
