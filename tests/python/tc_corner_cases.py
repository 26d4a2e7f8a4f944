"""More cases for tc_cases.CASES: the corners of each part of the language, and the errors of runs.

Each case exercises a rule, or a way in which rules meet, that no other does."""
import math
from pathlib import Path

import numpy as np
from tc_cases import CASES, F, I, case, correlate, erf, segments, sigmoid, softmax, statement

X9, X12 = np.linspace(-2, 2, 9, dtype=F), np.arange(12, dtype=F)
MATRIX = np.arange(12, dtype=F).reshape(3, 4)


def by_hand(shape, value):
    """An array of this shape whose element at each place is value(place)."""
    return np.array([value(*at) for at in np.ndindex(*shape)], np.float64).reshape(shape)


# Subscripts with quotients and remainders, which intervals alone don't keep inside.
for name, subscript, extent in [
        ('remainder_of_a_quotient', '(3*i / 2) % 4', 8), ('quotient_of_a_remainder', 'i % 9 / 2', 20),
        ('sum_of_quotients', '(i / 2 + i / 3) % 9', 40), ('remainder_in_a_remainder', 'i % 9 / 2 * 2 % 3', 40),
        ('quotient_that_falls', '-i / 2 + 4', 9), ('remainder_that_falls', '4 - i % 5', 12),
        ('by_a_negative_number', 'i % -5 + 4', 9), ('quotient_by_a_negative_number', 'i / -2 + 4', 9),
        ('pairs_swapped', 'i / 2 * 4 - i + 1', 8), ('of_a_wide_number', '(int64(i) * 4294967296 / 4294967296) % 9', 12)]:
    formula = subscript.replace('/', '//').replace('int64(i)', 'i')
    statement(f'subscript_{name}', 'float(N) x) -> (y', f'y(i) = x({subscript}) where i in 0:{extent}', {'x': X9},
              lambda x, formula=formula, extent=extent: np.array([x[eval(formula, {'i': i})] for i in range(extent)]))
for name, subscript, value in [
        ('abs', 'abs(i - 4)', lambda i: abs(i - 4)), ('shift', 'shr(i, 1)', lambda i: i >> 1), ('bits', 'bit_and(i, 3)', lambda i: i & 3),
        ('truncated', 'trunc_div(i - 8, 3) + 4', lambda i: math.trunc((i - 8) / 3) + 4), ('rest', 'rem(i, 4)', lambda i: i % 4),
        ('choice', 'i > 4 ? 8 - i : i', lambda i: 8 - i if i > 4 else i), ('product', '(i * i) % 9', lambda i: i * i % 9),
        ('byte', 'int32(uint8(i * 60)) % 9', lambda i: i * 60 % 256 % 9)]:
    statement(f'subscript_by_{name}', 'float(N) x) -> (y', f'y(i) = x({subscript}) where i in 0:9', {'x': X9},
              lambda x, value=value: x[[value(i) for i in range(9)]])
statement('subscript_of_a_let', 'float(N) x) -> (y', 'y(i) = x(k) * float(k) where i in 0:5, k = 2*i % 9', {'x': X9},
          lambda x: np.array([x[2 * i % 9] * (2 * i % 9) for i in range(5)]))
statement('split_of_an_axis', 'float(N) x) -> (y', 'y(i, j) = x(4*i + j) where i in 0:N/4, j in 0:4', {'x': X12}, lambda x: x.reshape(3, 4))
statement('merge_of_axes', 'float(N, M) x) -> (y', 'y(i) = x(i / M, i % M) where i in 0:N*M', {'x': MATRIX}, lambda x: x.ravel())
statement('merge_across', 'float(N, M) x) -> (y', 'y(i) = x(i % N, i / N) where i in 0:N*M', {'x': MATRIX}, lambda x: x.T.ravel())
statement('anti_diagonal', 'float(N, N) x) -> (y', 'y(i) = x(i, N - 1 - i)', {'x': (5, 5)}, lambda x: np.fliplr(x).diagonal())
statement('window_of_three', 'float(N) x) -> (y', 'y(i) = x(i) + x(i + 1) + x(i + 2) where i in 0:N-2', {'x': (9,)}, lambda x: x[:-2] + x[1:-1] + x[2:])
statement('five_point_stencil', 'float(H, W) x) -> (y',
          'y(h, w) = x(h + 1, w + 1) * -4.0 + x(h, w + 1) + x(h + 2, w + 1) + x(h + 1, w) + x(h + 1, w + 2) where h in 0:H-2, w in 0:W-2',
          {'x': (7, 8)}, lambda x: x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1], length=5)
statement('later_start_is_read_back', 'float(N) x) -> (z', 'y(i) = x(i) where i in 3:7  z(i) = y(i) + float(i) where i in 3:7', {'x': (9,)},
          lambda x: x[3:7] + np.arange(3, 7), length=7)
statement('hull_of_two_statements', 'float(N) a) -> (y', 'y(i) = a(i) where i in 0:N  y(i) = a(2*N - 1 - i) where i in N:2*N', {'a': (5,)},
          lambda a: np.r_[a, a[::-1]])
statement('writes_permuted', 'float(N) x) -> (y', 'y((5*i) % 9) = x(i)', {'x': (9,)}, lambda x: by_hand((9,), lambda k: x[2 * k % 9]))
statement('writes_backwards', 'float(N) x) -> (y', 'y(N - 1 - i) = x(i)', {'x': (7,)}, lambda x: x[::-1])
statement('writes_rotated', 'float(N) x) -> (y', 'y((i + 4) % N) = x(i)', {'x': (9,)}, lambda x: np.roll(x, 4))
statement('writes_split', 'float(N) x) -> (y', 'y(i % 3, i / 3) = x(i)', {'x': (12,)}, lambda x: x.reshape(4, 3).T)
statement('size_squared_as_extent', 'float(N) x, size S) -> (y', 'y(i) = x(i % N) where i in 0:S*S', {'x': (3,), 'S': 3}, lambda x, S: np.tile(x, 3))
statement('integer_coefficients_past_int32', 'float(N) x) -> (y', 'y(i) = i < 1 ? x(2147483648 * i) : 0.0 where i in 0:4', {'x': (2,)},
          lambda x: np.r_[x[0], 0, 0, 0])
statement('offsets_past_int32', 'float(N) x) -> (y', 'y(i) = x(i - 3000000000) where i in 3000000000:3000000005', {'x': (9,)}, lambda x: x[:5])

# Scatters: several instances to a cell.
statement('scatter_by_quotient', 'float(N) x) -> (y', 'y(i / 3) +=! x(i)', {'x': (12,)}, lambda x: x.reshape(4, 3).sum(1), length=3)
statement('scatter_by_remainder', 'float(N) x) -> (y', 'y(i % 3) +=! x(i)', {'x': (12,)}, lambda x: x.reshape(4, 3).sum(0), length=4)
statement('scatter_by_both', 'float(N) x) -> (y', 'y((3*i / 2) % 4) max=! x(i)', {'x': (9,)},
          lambda x: by_hand((4,), lambda k: max(x[i] for i in range(9) if 3 * i // 2 % 4 == k)))
statement('scatter_full_convolution', 'float(N) x, float(K) w) -> (y', 'y(i + k) +=! x(i) * w(k)', {'x': (9,), 'w': (4,)}, np.convolve, length=4)
statement('scatter_transposed_convolution', 'float(C, H) x, float(C, K, R) w) -> (y', 'y(k, 2*h + r) +=! x(c, h) * w(c, k, r)', {'x': (3, 5), 'w': (3, 2, 3)},
          lambda x, w: by_hand((2, 11), lambda k, at: sum(x[c, h] * w[c, k, at - 2 * h] for c in range(3) for h in range(5) if 0 <= at - 2 * h < 3)), length=6)
statement('scatter_onto_what_is_there', 'float(N) x) -> (y', 'y(k) = 10.0 where k in 0:4  y(i / 3) += x(i) where i in 0:N', {'x': (12,)},
          lambda x: 10 + x.reshape(4, 3).sum(1), length=4)
statement('scatter_least', 'int32(N) x) -> (y', 'y(i / 4) min=! x(i)', {'x': (12,)}, lambda x: x.reshape(3, 4).min(1))
statement('histogram', 'int32(N) at) -> (int32(5) y', 'y(k) +=! at(i) == k ? 1 : 0 where k in 0:5', {'at': np.array([0, 4, 4, 2, 4], I)},
          lambda at: np.bincount(at, minlength=5).astype(I), types=(I,))

# Guards.
statement('guard_of_two_sides', 'float(N) x) -> (y', 'y(i) = i >= 2 && i < N + 2 ? x(i - 2) : -1.0 where i in 0:N+4', {'x': (6,)},
          lambda x: np.pad(x, 2, constant_values=-1))
statement('guard_negated', 'float(N) x) -> (y', 'y(i) = !(i >= 2) ? x(i) : 0.0 where i in 0:12', {'x': (9,)}, lambda x: np.r_[x[:2], np.zeros(10)])
statement('guard_of_disjunction', 'float(N) x) -> (y', 'y(i) = i < 1 || i > N ? 7.0 : x(i - 1) where i in 0:N+2', {'x': (6,)},
          lambda x: np.pad(x, 1, constant_values=7))
statement('guard_by_remainder', 'float(N) x) -> (y', 'y(i) = i % 3 == 0 ? x(i / 3) : 0.0 where i in 0:3*N', {'x': (9,)},
          lambda x: np.kron(x, [1, 0, 0]))
statement('guard_of_a_product', 'float(N) x) -> (y', 'y(i) = i * i < 9 ? x(i * i) : 0.0 where i in 0:12', {'x': (9,)},
          lambda x: np.r_[x[[0, 1, 4]], np.zeros(9)])
statement('guard_unequal', 'float(N) x) -> (y', 'y(i) = i != N ? x(i) : 5.0 where i in 0:N+1', {'x': (9,)}, lambda x: np.r_[x, 5])
statement('guard_reads_first', 'float(N) x, float(N) m) -> (y', 'y(i) = m(i) > 0.0 ? x(i) : 0.0', {'x': (20,), 'm': (20,)}, lambda x, m: np.where(m > 0, x, 0))
statement('guard_by_a_scalar', 'float(N) x, float h, size n) -> (y', 'y(i) = h > 0.0 ? x(n) : 0.5 where i in 0:4', {'x': (9,), 'h': np.array(-1, F), 'n': 11},
          lambda x, h, n: np.full(4, 0.5))
statement('guard_of_a_gather', 'float(N) x, int32(M) at) -> (y', 'y(i) = at(i) >= 0 ? x(at(i)) : 0.0', {'x': (5,), 'at': np.array([4, -1, 0, -9], I)},
          lambda x, at: np.where(at >= 0, x[np.maximum(at, 0)], 0))
statement('guard_before_an_empty_table', 'float(N) x, int32(M) at) -> (y', 'y(i) = at(i) >= 0 ? x(at(i)) : 1.0', {'x': (0,), 'at': np.array([-1, -3], I)},
          lambda x, at: np.ones(2))
statement('guard_that_never_holds', 'float(N) x) -> (y', 'y(i) = i > 20 ? x(i) : 2.0 where i in 0:12', {'x': (0,)}, lambda x: np.full(12, 2))
statement('guards_chain_through_reads', 'int32(N) a) -> (y', 'y(i) = a(i) > 0 && a(a(i) - 1) > 0 ? a(a(i) - 1) : -1', {'a': np.array([1, 3, 0, 2], I)},
          lambda a: np.array([a[v - 1] if v > 0 and a[v - 1] > 0 else -1 for v in a], I))
statement('guard_on_a_reduced_index', 'float(N) x, int32(M) at, size n) -> (y', 'y(i) +=! (k < n && i > 0 ? x(at(i)) : 0.0) where k in 0:3',
          {'x': (9,), 'at': np.array([-5, 2, 7], I), 'n': 2}, lambda x, at, n: np.r_[0, 2 * x[2], 2 * x[7]], length=2)
statement('upper_triangle_product', 'float(N, N) a, float(N) x) -> (y', 'y(i) +=! (j >= i ? a(i, j) * x(j) : 0.0)', {'a': (17, 17), 'x': (17,)},
          lambda a, x: np.triu(a) @ x, length=17)
statement('causal_softmax', 'float(N, N) x) -> (y', '''
    m(i) max=! (j <= i ? x(i, j) : -infinity())
    s(i) +=! (j <= i ? exp(x(i, j) - m(i)) : 0.0)
    y(i, j) = j <= i ? exp(x(i, j) - m(i)) / s(i) : 0.0''', {'x': (9, 9)},
          lambda x: softmax(np.where(np.tril(np.ones((9, 9))), x, -np.inf)), length=9)
statement('reflected_border', 'float(N) x) -> (y', 'y(i) = x(i < 2 ? 2 - i : i > N + 1 ? 2*N - i : i - 2) where i in 0:N+4', {'x': (6,)},
          lambda x: np.pad(x, 2, mode='reflect'))
statement('masked_conv', 'float(N) x, float(K) w, bool(K) m) -> (y', 'y(i) +=! m(k) ? x(i + k) * w(k) : 0.0 where i in 0:N-K+1',
          {'x': (12,), 'w': (5,), 'm': np.array([1, 0, 1, 1, 0], bool)}, lambda x, w, m: np.correlate(x, w * m, 'valid'), length=5)

# Reductions: kinds, orders, extents.
statement('product_of_integers_wraps', 'int32(N) x) -> (y', 'y() *=! x(i)', {'x': np.array([65536, 65536, 3], I)}, lambda x: np.array(0, I), types=(I,))
statement('extremes_of_unsigned', 'uint8(N, M) x) -> (a, b', 'a(i) min=! x(i, j)  b(i) max=! x(i, j)', {'x': np.array([[0, 255, 7], [9, 8, 200]], np.uint8)},
          lambda x: (x.min(1), x.max(1)), types=(np.uint8, np.uint8))
statement('extremes_of_int64', 'int64(N) x) -> (a, b', 'a() min=! x(i)  b() max=! x(i)', {'x': np.array([-2**63, 5, 2**63 - 1])}, lambda x: (x.min(), x.max()))
statement('identity_of_each_type', 'int8(N) x, uint16(N) w, double(N) v) -> (a, b, c', 'a() max=! x(i)  b() min=! w(i)  c() max=! v(i)',
          {'x': (0,), 'w': (0,), 'v': (0,)}, lambda x, w, v: (np.array(-128, np.int8), np.array(65535, np.uint16), np.array(-np.inf)))
statement('accumulate_each_way', 'float(N, M) x) -> (a, b, c, d', '''
    a(i) = 2.0 where i in 0:N  a(i) += x(i, j)    b(i) = 2.0 where i in 0:N  b(i) *= x(i, j)
    c(i) = 0.1 where i in 0:N  c(i) min= x(i, j)  d(i) = 0.1 where i in 0:N  d(i) max= x(i, j)''', {'x': (5, 6)},
          lambda x: (2 + x.sum(1), 2 * x.prod(1), np.minimum(x.min(1), 0.1), np.maximum(x.max(1), 0.1)), length=8)
statement('accumulate_onto_nothing_more', 'float(N, M) x) -> (y', 'y(i) = 3.0 where i in 0:N  y(i) += x(i, j)', {'x': (4, 0)}, lambda x: np.full(4, 3))
statement('sum_of_rank_5', 'float(A, B, C, D, E) x) -> (y', 'y(c) +=! x(a, b, c, d, e)', {'x': (2, 3, 4, 3, 2)}, lambda x: x.sum((0, 1, 3, 4)), length=36)
statement('sum_then_maximum_then_sum', 'float(A, B, C) x) -> (y', 's(a, b) +=! x(a, b, c)  m(a) max=! s(a, b)  y() +=! m(a)', {'x': (5, 6, 7)},
          lambda x: x.sum(2).max(1).sum(), length=12)
statement('reduction_of_an_expression_of_indices', 'size N) -> (y', 'y(i) +=! i * j where i in 0:N, j in 0:N', {'N': 7},
          lambda N: np.arange(7, dtype=I) * 21, types=(I,))
statement('sum_over_a_triangle', 'float(N, N) x) -> (y', 'y() +=! (i > j ? x(i, j) - x(j, i) : 0.0)', {'x': (13, 13)}, lambda x: np.tril(x - x.T).sum(), length=78)
statement('mean_in_float64', 'float(N) x) -> (double() y', 'y() +=! double(x(i))  y() = y() / double(N)', {'x': (1000,)}, np.mean, types=(np.float64,))
statement('half_sum_is_wide', 'float16(N) x) -> (y', 'y() +=! x(i)', {'x': np.ones(3000, np.float16)}, np.sum, types=(np.float16,))
statement('signs_of_zero', 'float(N) x) -> (y', 'y(i) = 1.0 / (x(i) * -1.0)', {'x': np.zeros(3, F)}, lambda x: np.full(3, -np.inf))
statement('min_keeps_nan', 'float(N, M) x) -> (y', 'y(i) min=! x(i, j)', {'x': np.array([[3, np.nan], [2, np.inf]], F)}, lambda x: np.min(x, 1))
statement('sum_of_infinities', 'float(N) x) -> (y', 'y() +=! x(i)', {'x': np.array([np.inf, 1, -np.inf], F)}, np.sum)
for shape in [(4, 7), (11, 5), (8, 11), (1, 1000), (1000, 1), (63, 65)]:
    statement(f'logsumexp_{shape[0]}x{shape[1]}', 'float(N, M) x) -> (y', 'm(i) max=! x(i, j)  s(i) +=! exp(x(i, j) - m(i))  y(i) = log(s(i)) + m(i)',
              {'x': shape}, lambda x: np.log(np.exp(x).sum(1)), length=shape[1])

# Tuples.
statement('argmax_of_columns', 'float(N, M) x) -> (v, k', '(v(j), k(j)) max=! (x(i, j), i)', {'x': (30, 6)}, lambda x: (x.max(0), x.argmax(0).astype(I)))
statement('argmax_of_everything', 'float(N, M) x) -> (v, k', '(v(), k()) max=! (x(i, j), i * M + j)', {'x': (6, 7)}, lambda x: (x.max(), np.array(x.argmax(), I)))
statement('argmax_of_nan', 'float(N, M) x) -> (v, k', '(v(i), k(i)) max=! (x(i, j), j)', {'x': np.array([[1, np.nan, np.nan, 9]], F)},
          lambda x: (np.array([np.nan]), np.array([1], I)))
statement('argmin_gives_another_tensor', 'float(N, M) x, float(M) w) -> (v, k', '(v(i), k(i)) min=! (x(i, j), w(j))', {'x': (5, 9), 'w': (9,)},
          lambda x, w: (x.min(1), w[x.argmin(1)]))
statement('argmax_under_a_guard', 'float(N, M) x) -> (v, k', '(v(i), k(i)) max=! (j > i ? x(i, j) : -infinity(), j) where i in 0:4', {'x': (5, 9)},
          lambda x: (np.array([x[i, i + 1:].max() for i in range(4)]), np.array([i + 1 + x[i, i + 1:].argmax() for i in range(4)], I)))
statement('nearest_centre', 'float(N, D) x, float(K, D) c) -> (d, k', '''
    s(n, q) +=! (x(n, e) - c(q, e)) * (x(n, e) - c(q, e));
    (d(n), k(n)) min=! (s(n, q), q)''', {'x': (7, 5), 'c': (9, 5)},
          lambda x, c: ((s := ((x[:, None] - c)**2).sum(2)).min(1), s.argmin(1).astype(I)), length=10)

# Types.
statement('bfloat16_arithmetic', 'bfloat16(N) x) -> (float(N) y', 'y(i) = float(x(i)) * 2.0 + 1.0', {'x': np.array([0x3f80, 0xc000, 0x4040], np.uint16)},
          lambda x: np.array([3.0, -3.0, 7.0]))
statement('bfloat16_sum', 'bfloat16(N, M) x) -> (float(N) y', 'y(i) +=! float(x(i, j))', {'x': np.full((3, 40), 0x3f80, np.uint16)}, lambda x: np.full(3, 40.0))
statement('bfloat16_product', 'bfloat16(M, K) a, bfloat16(K, N) b) -> (float(M, N) c', 'c(m, n) +=! float(a(m, k)) * float(b(k, n))',
          {'a': np.full((4, 6), 0x4000, np.uint16), 'b': np.full((6, 5), 0x3f00, np.uint16)}, lambda a, b: np.full((4, 5), 6.0))
statement('bfloat16_rounds_to_even', 'float(N) x) -> (y', 'y(i) = bfloat16(x(i))', {'x': np.array([1 + 2**-8, 1 + 3 * 2**-8], F)},
          lambda x: np.array([0x3f80, 0x3f82], np.uint16), types=(np.uint16,))
statement('float16_beside_float', 'float16(N) x, float(N) w) -> (y', 'y(i) = x(i) + w(i)', {'x': (9,), 'w': (9,)}, lambda x, w: x + w, types=(F,))
statement('float16_subnormals', 'float16(N) x) -> (y', 'y(i) = x(i) * float16(0.5)', {'x': np.array([2**-14, 2**-24 * 3], np.float16)},
          lambda x: (x / 2).astype(np.float16).astype(np.float64), types=(np.float16,))
statement('float64_transcendentals', 'double(N) x) -> (a, b, c', 'a(i) = exp(x(i))  b(i) = tanh(x(i))  c(i) = sin(x(i))', {'x': (40,)},
          lambda x: (np.exp(x), np.tanh(x), np.sin(x)), length=4, types=(np.float64,) * 3)
statement('bool_as_integer', 'bool(N, M) b) -> (y', 'y(i) +=! int32(b(i, j))', {'b': (4, 9)}, lambda b: b.sum(1, dtype=I), types=(I,))
statement('bool_through', 'bool(N) b) -> (y', 'y(i) = b(N - 1 - i)', {'b': (11,)}, lambda b: b[::-1], types=(np.bool_,))
statement('bool_chosen', 'bool(N) b, int8(N) x) -> (y', 'y(i) = b(i) ? x(i) : int8(-1)', {'b': (9,), 'x': (9,)}, lambda b, x: np.where(b, x, np.int8(-1)), types=(np.int8,))
statement('compare_unsigned', 'uint32(N) a, uint32(N) b) -> (y', 'y(i) = a(i) > b(i)', {'a': np.array([2**31, 1], np.uint32), 'b': np.array([1, 2**31], np.uint32)},
          np.greater, types=(np.bool_,))
statement('tuple_with_pads', 'float(N) x) -> (v, k', '(v(w), k(w)) max=! ((w - s - 2 >= 0 ? x(w-s-2) : -infinity()), s + 5) where w in 0:3, s in 0:2',
          {'x': np.array([1, 2, 3], F)}, lambda x: (np.array([-np.inf, -np.inf, 1], F), np.array([5, 5, 5], I)))
statement('tuple_of_the_least_with_pads', 'int8(N) x) -> (v, k', '(v(w), k(w)) max=! ((w + s >= 1 && w + s <= N ? x(w+s-1) : int8(-128)), s) where w in 0:N, s in 0:3',
          {'x': np.full(4, -128, np.int8)}, lambda x: (x, np.zeros(4, I)), types=(np.int8, I))
statement('written_twice_and_empty', 'float(N, M) x) -> (y', 'y(i,j) = x(i,j)  y(i,j) = x(i,j) * 2.0 where i in 0:0, j in 1:3', {'x': np.zeros((0, 3), F)}, lambda x: x)
statement('compare_with_nan', 'float(N) x) -> (y', 'y(i) = int32(x(i) == x(i)) + 2 * int32(x(i) != x(i))', {'x': np.array([np.nan, 1], F)}, lambda x: np.array([2, 1], I))
statement('floor_division_of_int64', 'int64(N) a) -> (q, r', 'q(i) = a(i) / 10  r(i) = a(i) % 10', {'a': np.array([-2**63, -1, 2**62])}, lambda a: (a // 10, a % 10))
statement('division_of_unsigned', 'uint8(N) a, uint8(N) b) -> (q, r', 'q(i) = a(i) / b(i)  r(i) = a(i) % b(i)',
          {'a': np.array([255, 7, 9], np.uint8), 'b': np.array([2, 0, 9], np.uint8)},
          lambda a, b: (np.array([127, 0, 1], np.uint8), np.array([1, 0, 0], np.uint8)))
statement('shifts_past_the_width', 'int8(N) a) -> (l, r', 'l(i) = shl(a(i), int8(9))  r(i) = shr(a(i), int8(9))', {'a': np.array([5, -5], np.int8)},
          lambda a: (np.zeros(2, np.int8), np.array([0, -1], np.int8)))
statement('bits_of_a_float', 'float(N) x) -> (y', 'y(i) = bitcast_int32(x(i))', {'x': np.array([1, -2, 0], F)}, lambda x: x.astype(F).view(I), types=(I,))
statement('float_of_bits', 'int32(N) x) -> (y', 'y(i) = bitcast_float(bit_xor(x(i), 1))', {'x': np.array([0x3f800001, 0x40000001], I)},
          lambda x: np.array([1.0, 2.0]), types=(F,))
statement('int64_to_int32_wraps', 'int64(N) x) -> (y', 'y(i) = int32(x(i))', {'x': np.array([2**32 + 5, -2**31 - 1])}, lambda x: x.astype(I), types=(I,))
statement('casts_of_large_floats', 'double(N) x) -> (a, b', 'a(i) = int64(x(i))  b(i) = uint64(x(i))', {'x': np.array([1e30, -1e30, 3.7])},
          lambda x: (np.array([2**63 - 1, -2**63, 3]), np.array([2**64 - 1, 0, 3], np.uint64)))
statement('wide_index_values', 'size N) -> (y', 'y(i) = i * 3000000000 where i in 0:N', {'N': 4}, lambda N: np.arange(4) * 3000000000, types=(np.int64,))
statement('wrapping_generator', 'size N) -> (y', 'y(i) = bit_xor(int64(i) * 6364136223846793005 + 1442695040888963407, 77) where i in 0:N', {'N': 64},
          lambda N: (np.arange(64) * 6364136223846793005 + 1442695040888963407) ^ 77, types=(np.int64,))
statement('uint4_shifted', 'uint4(N) x) -> (uint8(N) y', 'y(i) = uint8(x(i)) * uint8(16)', {'x': np.arange(16, dtype=np.uint8)}, lambda x: x * np.uint8(16))
statement('int4_to_int4', 'int4(N) x) -> (int4(N) y', 'y(i) = x(N - 1 - i)', {'x': np.arange(-8, 7).astype(np.int8)}, lambda x: x[::-1])
statement('int4_weights', 'float(M, K) x, int4(K, N) w, float(N) s) -> (y', 'y(m, n) +=! x(m, k) * float(w(k, n))  y(m, n) = y(m, n) * s(n)',
          {'x': (3, 16), 'w': (np.arange(128).reshape(16, 8) % 16 - 8).astype(np.int8), 's': (8,)}, lambda x, w, s: x @ w * s, length=128)

# Builtins at their edges.
EDGES = np.array([np.inf, -np.inf, 0, np.nan], F)
for name, text, oracle in [
        ('exp', 'exp(x(i))', np.exp), ('log', 'log(x(i))', np.log), ('tanh', 'tanh(x(i))', np.tanh), ('erf', 'erf(x(i))', erf), ('sigmoid', 'sigmoid(x(i))', sigmoid),
        ('sqrt', 'sqrt(x(i))', np.sqrt), ('atan', 'atan(x(i))', np.arctan), ('expm1', 'expm1(x(i))', np.expm1), ('floor', 'floor(x(i))', np.floor)]:
    statement(f'edges_of_{name}', 'float(N) x) -> (y', f'y(i) = {text}', {'x': EDGES}, oracle)
statement('edges_of_pow', 'float(N) x) -> (y', 'y(i) = pow(x(i), 0.0)', {'x': EDGES}, lambda x: np.ones(4))
statement('remainders_of_floats', 'float(N) a, float(N) b) -> (y, z', 'y(i) = a(i) % b(i)  z(i) = rem(a(i), b(i))',
          {'a': np.array([5.5, -5.5, 5.5], F), 'b': np.array([2, 2, -2], F)}, lambda a, b: (np.mod(a, b), np.fmod(a, b)))
statement('minus_and_bit_not', 'int32(N) x) -> (a, b', 'a(i) = neg(x(i))  b(i) = bit_not(x(i))', {'x': np.array([5, -2**31], I)},
          lambda x: (np.array([-5, -2**31], I), ~x))
statement('gelu_of_gelu', 'float(N) x) -> (y', 'y(i) = 0.5 * t * (1.0 + erf(t * 0.70710678)) where t = 0.5 * x(i) * (1.0 + erf(x(i) * 0.70710678))', {'x': X9},
          lambda x: (g := lambda v: 0.5 * v * (1 + erf(v * 0.5**0.5)), g(g(x)))[1], length=4)

# Recurrences.
statement('recurrence_of_order_two', 'float(T) x) -> (y', 'y(t) = x(t) where t in 0:2  y(t) = 0.5 * y(t - 1) - 0.25 * y(t - 2) where t in 2:T', {'x': (9,)},
          lambda x: (y := list(x[:2]), [y.append(0.5 * y[-1] - 0.25 * y[-2]) for _ in range(7)], np.array(y))[-1], length=9)
statement('recurrence_of_nothing', 'float(T) x) -> (y', 'y(t) = x(t) + (t > 0 ? y(t - 1) : 0.0)', {'x': (0,)}, lambda x: x)
statement('wavefront', 'float(N, M) x) -> (y', 'y(i, j) = x(i, j) + max(i > 0 ? y(i - 1, j) : 0.0, j > 0 ? y(i, j - 1) : 0.0)', {'x': MATRIX},
          lambda x: (y := np.zeros((4, 5)), [y.__setitem__((i + 1, j + 1), x[i, j] + max(y[i, j + 1], y[i + 1, j])) for i in range(3) for j in range(4)], y[1:, 1:])[-1], length=6)
statement('diagonal_recurrence', 'float(N, M) x) -> (y', 'y(i, j) = x(i, j) + (i > 0 && j > 0 ? y(i - 1, j - 1) : 0.0)', {'x': MATRIX},
          lambda x: (y := x.copy(), [y.__setitem__((i, j), x[i, j] + y[i - 1, j - 1]) for i in range(1, 3) for j in range(1, 4)], y)[-1], length=3)
statement('edit_distance', 'int32(N) a, int32(M) b) -> (int32(N + 1, M + 1) d',
          'd(i, j) = i == 0 ? j : j == 0 ? i : min(min(d(i - 1, j), d(i, j - 1)) + 1, d(i - 1, j - 1) + (a(i - 1) == b(j - 1) ? 0 : 1)) where i in 0:N+1, j in 0:M+1',
          {'a': np.array([1, 2, 3, 4], I), 'b': np.array([2, 3, 5], I)},
          lambda a, b: np.array([[0, 1, 2, 3], [1, 1, 2, 3], [2, 1, 2, 3], [3, 2, 1, 2], [4, 3, 2, 2]], I))
statement('running_maximum', 'float(T, N) x) -> (y', 'y(t, i) = max(x(t, i), t > 0 ? y(t - 1, i) : -infinity()) where t in 0:T, i in 0:N', {'x': (7, 5)},
          lambda x: np.maximum.accumulate(x))
statement('power_iteration', 'float(N, N) a, size T) -> (y', '''
    v(t, i) = 1.0 where t in 0:1, i in 0:N
    v(t, i) +=! a(i, j) * v(t - 1, j) where t in 1:T+1, i in 0:N, j in 0:N
    y(i) = v(T, i)''', {'a': (4, 4), 'T': 3}, lambda a, T: np.linalg.matrix_power(a, 3) @ np.ones(4), length=64)
statement('online_softmax', 'float(N, D) x) -> (y', '''
    m(j, i) = max(x(i, j), j > 0 ? m(j - 1, i) : -infinity()) where j in 0:D, i in 0:N
    s(j, i) = (j > 0 ? s(j - 1, i) * exp(m(j - 1, i) - m(j, i)) : 0.0) + exp(x(i, j) - m(j, i)) where j in 0:D, i in 0:N
    y(i, j) = exp(x(i, j) - m(D - 1, i)) / s(D - 1, i)''', {'x': (5, 12)}, softmax, length=24)
statement('gru', 'float(T, N) x, float(N, N) u, float(N, N) w) -> (h', '''
    g(t, i) +=! t > 0 ? u(i, j) * h(t - 1, j) : 0.0 where t in 0:T, i in 0:N, j in 0:N
    r(t, i) +=! t > 0 ? w(i, j) * h(t - 1, j) : 0.0 where t in 0:T, i in 0:N, j in 0:N
    h(t, i) = z * (t > 0 ? h(t - 1, i) : 0.0) + (1.0 - z) * tanh(x(t, i) + r(t, i)) where t in 0:T, i in 0:N, z = sigmoid(g(t, i))''',
          {'x': (5, 4), 'u': (4, 4), 'w': (4, 4)},
          lambda x, u, w: (h := [np.zeros(4)], [h.append((z := sigmoid(u @ h[-1])) * h[-1] + (1 - z) * np.tanh(r + w @ h[-1])) for r in x], np.array(h[1:]))[-1], length=20)

# Segments.
OFFSETS = np.array([0, 3, 3, 10, 11, 17], I)
statement('segment_product', 'float(N) x, int32(B) o) -> (y', 'y(i) *=! x(j) where i in 0:B-1, j in o(i):o(i + 1) max 8', {'x': (17,), 'o': OFFSETS},
          lambda x, o: segments(x, o, np.prod, 1.0), length=8)
statement('segment_onto_what_is_there', 'float(N) x, int32(B) o) -> (y', 'y(i) = 1.0 where i in 0:B-1  y(i) += x(j) where j in o(i):o(i + 1) max 8',
          {'x': (17,), 'o': OFFSETS}, lambda x, o: 1 + segments(x, o, np.sum, 0.0), length=9)
statement('segment_lengths', 'int32(B) o) -> (y', 'y(i) +=! 1 where i in 0:B-1, j in o(i):o(i + 1) max 8', {'o': OFFSETS},
          lambda o: np.diff(o), types=(I,))
statement('segment_places', 'int32(B) o) -> (y', 'y(i) +=! j where i in 0:B-1, j in o(i):o(i + 1) max 8', {'o': OFFSETS},
          lambda o: np.array([sum(range(a, b)) for a, b in zip(o, o[1:])], I))
statement('segment_by_two_arrays', 'float(N) x, int64(B) a, int64(B) b) -> (y', 'y(i) +=! x(j) where j in a(i):b(i) max N',
          {'x': (9,), 'a': np.array([2, 0, 8]), 'b': np.array([5, 9, 1])}, lambda x, a, b: np.array([x[2:5].sum(), x.sum(), 0]), length=9)
statement('segment_from_the_start', 'float(N) x, uint8(B) n) -> (y', 'y(i) +=! x(j) where j in 0:n(i) max N', {'x': (9,), 'n': np.array([0, 9, 4], np.uint8)},
          lambda x, n: np.array([x[:k].sum() for k in n]), length=9)
statement('segments_nested', 'float(N) x, int32(B) o) -> (y', 'y(i) +=! x(j) * x(k) where i in 0:B-1, j in o(i):o(i + 1) max 8, k in j:o(i + 1) max 8',
          {'x': (17,), 'o': OFFSETS}, lambda x, o: segments(x, o, lambda r: np.triu(np.outer(r, r)).sum(), 0.0), length=36)
statement('segment_of_looked_up_rows', 'float(E, D) t, int32(L) at, int32(B) o) -> (y',
          'y(i, d) +=! t(at(j), d) where i in 0:B-1, j in o(i):o(i + 1) max 8', {'t': (9, 5), 'at': (np.arange(17) * 5 % 9).astype(I), 'o': OFFSETS},
          lambda t, at, o: np.stack([t[at[a:b]].sum(0) for a, b in zip(o, o[1:])]), length=7)
statement('sparse_matrix_product', 'float(Z) v, int32(Z) at, int32(R) o, float(K, N) x) -> (y',
          'y(i, n) +=! v(j) * x(at(j), n) where i in 0:R-1, j in o(i):o(i + 1) max 8',
          {'v': (17,), 'at': (np.arange(17) * 7 % 9).astype(I), 'o': OFFSETS, 'x': (9, 6)},
          lambda v, at, o, x: np.stack([v[a:b] @ x[at[a:b]] for a, b in zip(o, o[1:])]), length=7)
statement('segment_of_nothing_reads_nothing', 'float(N) x, float(E) t, int32(B) o, int32(P) at) -> (y',
          'y(i) +=! x(j) * t(at(i)) where i in 0:B-1, j in o(i):o(i + 1) max 8', {'x': (17,), 't': (4,), 'o': OFFSETS, 'at': np.array([3, -1, 0, 2, 2], I)},
          lambda x, t, o, at: segments(x, o, np.sum, 0.0) * t[at], length=7)
statement('segment_by_looked_up_bounds', 'float(N) x, int32(B) o, int32(R) row) -> (y',
          'y(i) +=! x(j) * float(j) where j in o(row(i)):o(row(i) + 1) max 8', {'x': (17,), 'o': OFFSETS, 'row': np.array([4, 0, 0, 1], I)},
          lambda x, o, row: segments(x * np.arange(17), o, np.sum, 0.0)[row], length=7)
statement('segment_softmax', 'float(N) x, int32(B) o, int32(N) row) -> (y', '''
    m(i) max=! x(j) where i in 0:B-1, j in o(i):o(i + 1) max 8
    s(i) +=! exp(x(j) - m(i)) where i in 0:B-1, j in o(i):o(i + 1) max 8
    y(n) = exp(x(n) - m(row(n))) / s(row(n))''', {'x': (17,), 'o': OFFSETS, 'row': np.repeat(np.arange(5), np.diff(OFFSETS)).astype(I)},
          lambda x, o, row: np.concatenate([softmax(x[a:b]) for a, b in zip(o, o[1:]) if b > a]), length=14)

# Calls, constants, declared temporaries, strides, where they meet the rest.
case('call_with_parentheses', 'def twice(float x) -> (float y) { y = x() + x() }\ndef f(float(N) x) -> (y) { y(i) = twice(x(i)) }', {'x': (5,)}, lambda x: 2 * x, entry='f')
case('call_under_a_guard', 'def inv(float x) -> (float y) { y = 1.0 / x }\ndef f(float(N) x) -> (y) { y(i) = i > 0 ? inv(x(i - 1)) : 0.0 where i in 0:N+1 }',
     {'x': np.arange(1, 6, dtype=F)}, lambda x: np.r_[0, 1 / x], entry='f')
case('call_of_a_function_of_functions', '''
    def relu(float x) -> (float y) { y = max(x, 0.0) }
    def relu6(float x) -> (float y) { y = min(relu(x), 6.0) }
    def f(float(N) x) -> (y) { y(i) = relu6(x(i) * 3.0) }''', {'x': X12}, lambda x: np.clip(3 * x, 0, 6), entry='f')
case('call_with_a_size', 'def every(float(N) x, size S) -> (y) { y(i) = x(S * i) }\ndef f(float(N) x, size S) -> (y) { a = every(x, S + 1);  y(i) = a(i) }',
     {'x': (11,), 'S': 2}, lambda x, S: x[::3], entry='f')
case('call_inside_a_reduction', 'def square(float x) -> (float y) { y = x * x }\ndef f(float(N, M) x) -> (y) { y(i) +=! square(x(i, j)) }', {'x': (4, 9)},
     lambda x: (x * x).sum(1), length=9, entry='f')
case('call_of_a_recurrence', 'def sums(float(N) x) -> (y) { y(t) = x(t) + (t > 0 ? y(t - 1) : 0.0) }\ndef f(float(N) x) -> (y) { a = sums(x);  y = sums(a) }',
     {'x': (9,)}, lambda x: np.cumsum(np.cumsum(x)), length=45, entry='f')
statement('constant_of_integers', 'int32(N) x) -> (y', 'const t(4) = {3, 1, 0, 2}  y(i) = x(t(i)) where i in 0:4', {'x': (4,)}, lambda x: x[[3, 1, 0, 2]])
statement('declared_temporary', 'float(N) x) -> (float(N) y', 'float16(N) t  t(i) = float16(x(i))  y(i) = float(t(i))', {'x': np.array([1 / 3, 70000.0, -2], F)},
          lambda x: x.astype(np.float16).astype(np.float64))
statement('stride_of_zero', 'size N, size M, float(N, M) x strides(0, 1)) -> (y', 'y(i, j) = x(i, j) where i in 0:N, j in 0:M', {'N': 3, 'M': 4, 'x': (4,)},
          lambda N, M, x: np.tile(x, (3, 1)))
statement('stride_of_windows', 'size N, float(N, 3) x strides(1, 1), float(3) w) -> (y', 'y(i) +=! x(i, k) * w(k)', {'N': 6, 'x': (8,), 'w': (3,)},
          lambda N, x, w: np.correlate(x, w, 'valid'), length=3)
statement('names_of_builtins_elsewhere', 'float(N) size, float(N) where_) -> (max_', 'max_(i) = size(i) + where_(i)', {'size': (4,), 'where_': (4,)}, lambda a, b: a + b)

# Layers.
statement('conv_dilated', 'float(C, H) x, float(K, C, R) w) -> (y', 'y(k, h) +=! x(c, h + 3*r) * w(k, c, r)', {'x': (2, 15), 'w': (3, 2, 3)},
          lambda x, w: sum(np.einsum('ch,kc->kh', x[:, 3 * r:3 * r + 9], w[:, :, r]) for r in range(3)), length=6)
statement('conv_weight_gradient', 'float(N, C, H, W) x, float(N, K, P, Q) g) -> (w', 'w(k, c, r, s) +=! x(n, c, h + r, v + s) * g(n, k, h, v)',
          {'x': (2, 3, 6, 7), 'g': (2, 4, 4, 5)}, lambda x, g: correlate(x.transpose(1, 0, 2, 3), g.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3), length=40)
statement('conv_of_bytes', 'uint8(C, H, W) x, int8(K, C, 3, 3) w) -> (y', 'y(k, h, v) +=! int32(x(c, h + r, v + s)) * int32(w(k, c, r, s))',
          {'x': (4, 7, 8), 'w': (5, 4, 3, 3)}, lambda x, w: correlate(x[None].astype(float), w.astype(float))[0].astype(I), types=(I,))
statement('locally_connected', 'float(C, H) x, float(P, K, C, R) w) -> (y', 'y(k, p) +=! x(c, p + r) * w(p, k, c, r)', {'x': (3, 8), 'w': (6, 4, 3, 3)},
          lambda x, w: np.stack([np.einsum('cr,kcr->k', x[:, p:p + 3], w[p]) for p in range(6)], 1), length=9)
statement('bilinear', 'float(B, P) x, float(B, Q) z, float(K, P, Q) w) -> (y', 'y(b, k) +=! w(k, p, q) * x(b, p) * z(b, q)', {'x': (4, 5), 'z': (4, 6), 'w': (3, 5, 6)},
          lambda x, z, w: np.einsum('kpq,bp,bq->bk', w, x, z), length=30)
statement('rotary_embedding', 'float(T, D) x, float(T, D) c, float(T, D) s) -> (y', 'y(t, d) = x(t, d) * c(t, d) + (d < D/2 ? -x(t, d + D/2) : x(t, d - D/2)) * s(t, d)',
          {'x': (5, 8), 'c': (5, 8), 's': (5, 8)}, lambda x, c, s: x * c + np.c_[-x[:, 4:], x[:, :4]] * s, length=2)
statement('depth_to_space', 'float(C, H, W) x) -> (y', 'y(c, h, w) = x(4*c + h % 2 * 2 + w % 2, h / 2, w / 2) where c in 0:C/4, h in 0:2*H, w in 0:2*W', {'x': (8, 3, 2)},
          lambda x: x.reshape(2, 2, 2, 3, 2).transpose(0, 3, 1, 4, 2).reshape(2, 6, 4))
statement('nearest_upsampling', 'float(C, H, W) x) -> (y', 'y(c, h, w) = x(c, h / 2, w / 3) where h in 0:2*H, w in 0:3*W', {'x': (2, 3, 4)},
          lambda x: x.repeat(2, 1).repeat(3, 2))
statement('max_pool_with_places', 'float(H, W) x) -> (v, k', '(v(h, w), k(h, w)) max=! (x(2*h + r, 2*w + s), (2*h + r) * W + 2*w + s) where r in 0:2, s in 0:2', {'x': (6, 8)},
          lambda x: (x.reshape(3, 2, 4, 2).max((1, 3)), by_hand((3, 4), lambda h, w: max((x[2 * h + r, 2 * w + s], -((2 * h + r) * 8 + 2 * w + s)) for r in (0, 1) for s in (0, 1))[1] * -1).astype(I)))
statement('dequantized_product', 'int8(M, K) a, float(M) sa, int8(K, N) b, float(N) sb, int32(N) z) -> (y', '''
    t(m, n) +=! int32(a(m, k)) * (int32(b(k, n)) - z(n))
    y(m, n) = float(t(m, n)) * sa(m) * sb(n)''', {'a': (5, 33), 'sa': (5,), 'b': (33, 9), 'sb': (9,), 'z': (9,)},
          lambda a, sa, b, sb, z: a.astype(float) @ (b.astype(float) - z) * sa[:, None] * sb, length=3)
statement('rms_norm', 'float(N, D) x, float(D) g) -> (y', 's(i) +=! x(i, j) * x(i, j)  y(i, j) = x(i, j) * g(j) / sqrt(s(i) / float(D) + 1e-6)', {'x': (6, 50), 'g': (50,)},
          lambda x, g: x * g / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6), length=50)
statement('cross_entropy', 'float(N, C) x, int32(N) t) -> (y', 'm(i) max=! x(i, j)  s(i) +=! exp(x(i, j) - m(i))  y(i) = log(s(i)) + m(i) - x(i, t(i))',
          {'x': (6, 9), 't': np.array([0, 8, 3, 3, 1, 7], I)}, lambda x, t: np.log(np.exp(x).sum(1)) - x[np.arange(6), t], length=9)
statement('pairwise_distances', 'float(N, D) a, float(M, D) b) -> (y', 's(i, j) +=! (a(i, d) - b(j, d)) * (a(i, d) - b(j, d))  y(i, j) = sqrt(s(i, j))', {'a': (7, 5), 'b': (6, 5)},
          lambda a, b: np.sqrt(((a[:, None] - b)**2).sum(2)), length=10)

# The layers of bench/tc/research.tc, as they are measured.
RESEARCH = (Path(__file__).parents[2] / 'bench/tc/research.tc').read_text()


def research(name, arguments, oracle, **more):
    case(f'research_{name}', RESEARCH, arguments, oracle, entry=name, **more)


def attend(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / q.shape[-1]**0.5) @ v


def ragged(q, k, v, first, end, M):
    return np.stack([attend(q[:, i:i + 1], k[:, a:b], v[:, a:b])[:, 0] for i, (a, b) in enumerate(zip(first, end))], 1)


def squash(s):
    n = (s * s).sum(-1, keepdims=True)
    return s * np.sqrt(n) / (1 + n)


def route(u, S):
    logits = np.zeros(u.shape[:3])
    for _ in range(S):
        v = squash(np.einsum('bij,bijd->bjd', softmax(logits), u))
        logits = logits + np.einsum('bijd,bjd->bij', u, v)
    return v


ENDS = np.repeat([3, 4, 11], [3, 1, 7]).astype(I)
research('ragged_attention', {'q': (2, 11, 8), 'k': (2, 11, 8), 'v': (2, 11, 8), 'first': np.repeat([0, 3, 4], [3, 1, 7]).astype(I), 'end': ENDS, 'M': 7},
         ragged, length=22)
research('kronecker_recurrent', {'x': (5, 2, 2, 3, 2), 'wp': (2, 2), 'wq': (3, 3), 'wr': (2, 2)},
         lambda x, p, q, r: (h := [np.zeros(x.shape[1:])], [h.append(np.tanh(v + np.einsum('bpqr,xp,yq,zr->bxyz', h[-1], p, q, r))) for v in x], np.array(h[1:]))[-1], length=40)
research('capsule_routing', {'u': (2, 6, 3, 4), 'S': 3}, route, length=40)
research('bilinear_pooling', {'table1': (9, 4), 'table2': (7, 5), 'i': np.array([[0, 8, 3], [2, 2, 1]], I), 'j': np.array([[6, 0, 3], [1, 5, 5]], I)},
         lambda a, b, i, j: np.einsum('blp,blq->bpq', a[i], b[j]), length=3)
research('gated_recurrence', {'x': (7, 2, 5), 'gate': (7, 2, 5)},
         lambda x, g: (h := [np.zeros((2, 5))], [h.append(sigmoid(b) * h[-1] + (1 - sigmoid(b)) * a) for a, b in zip(x, g)], np.array(h[1:]))[-1], length=14)

# What goes wrong when it runs: text, arguments, and what every engine names. All end with code 3.
GATHER = 'def f(float(N) x, int32(M) at) -> (y) { y(i) = x(at(i)) }'
GUARD = 'def f(float(N) x) -> (y) {{ y(i) = {} where i in 0:12 }}'
SEGMENT = 'def f(float(N) x, int32(B) o) -> (y) { y(i) +=! x(j) where i in 0:B-1, j in o(i):o(i + 1) max 6 }'
at = lambda *values, dtype=I: np.array(values, dtype)
FAULTS = [
    ('gather_beyond', GATHER, {'x': X9, 'at': at(0, 9)}, "'x' 9"),
    ('gather_before', GATHER, {'x': X9, 'at': at(-1)}, "'x' -1"),
    ('gather_of_nothing', GATHER, {'x': X9[:0], 'at': at(3)}, "'x' 3"),
    ('gather_of_nothing_under_a_guard', 'def f(float(N) x, int32(M) at) -> (y) { y(i) = at(i) > 0 ? x(at(i)) : 0.0 }', {'x': X9[:0], 'at': at(-1, 7)}, "'x' 7"),
    ('gather_of_a_gather', 'def f(float(N) x, int32(M) at) -> (y) { y(i) = x(at(at(i))) }', {'x': X9, 'at': at(1, 3, 0)}, "'at' 3"),
    ('gather_by_unsigned', GATHER.replace('int32', 'uint32'), {'x': X9, 'at': at(2**32 - 1, dtype=np.uint32)}, "'x' 4294967295"),
    ('within', 'def f(int32(M) at) -> (y) { y(i) = within(at(i), 0, 4) }', {'at': at(1, 4)}, "'at' 4 3"),
    ('beyond_a_guard', GUARD.format('i > 2 ? x(i) : 0.0'), {'x': X9}, "'x' 9"),
    ('beyond_a_lazy_and', GUARD.format('i < 3 && x(i + 7) > 0.0 ? 1 : 0'), {'x': X9}, "'x' 9"),
    ('beyond_a_lazy_or', GUARD.format('i > 2 || x(i + 7) > 0.0 ? 1 : 0'), {'x': X9}, "'x' 9"),
    ('beyond_a_remainder', GUARD.format('i % 3 == 0 ? x(i / 3) : 0.0'), {'x': X9[:3]}, "'x' 3"),
    ('guard_of_nothing', GUARD.format('i > 2 ? x(i) : 0.0'), {'x': X9[:0]}, "'x' 3"),
    ('beyond_a_scalar', 'def f(float(N) x, float h, size n) -> (y) { y() = h > 0.0 ? x(n) : 0.0 }', {'x': X9, 'h': np.array(1, F), 'n': 11}, "'x' 11"),
    ('wide_coefficient', GUARD.format('x(9223372036854775807 * i)'), {'x': X9}, "'x' 9223372036854775807"),
    ('product_past_int64', GUARD.format('x(4611686018427387904 * i + 4611686018427387904 * i)'), {'x': X9}, "'x' -9223372036854775808"),
    ('segment_too_long', SEGMENT, {'x': X9, 'o': at(0, 8)}, "'o' 8 6"),
    ('segment_before_the_first', SEGMENT, {'x': X9, 'o': at(0, 3, -5)}, "'o' -5 2147483646"),
    ('segment_bound_too_large', SEGMENT, {'x': X9, 'o': at(0, 2**31 - 1)}, "'o' 2147483647 2147483646"),
    ('segment_bound_of_int64', SEGMENT.replace('int32', 'int64'), {'x': X9, 'o': at(0, 2**40, dtype=np.int64)}, f"'o' {2**40} 2147483646"),
    ('segment_bound_of_uint32', SEGMENT.replace('int32', 'uint32'), {'x': X9, 'o': at(0, 2**32 - 1, dtype=np.uint32)}, f"'o' {2**32 - 1} 2147483646"),
    ('segment_past_its_tensor', SEGMENT, {'x': X9, 'o': at(5, 10)}, "'x' 9"),
    ('recurrence_before_the_first', 'def f(float(T) x) -> (y) { y(t) = x(t) + (x(t) < 4.0 ? y(t - 1) : 0.0) }', {'x': X9}, "'y' -1"),
]
assert len({c.name for c in CASES}) == len(CASES), 'two cases of one name'
