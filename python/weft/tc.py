"""Comprehensions made by Python: tensors, indices and expressions that print as the kernel language.

    f = tc.Def('fc_relu')
    B, K, N = tc.sizes('B K N')
    x, w, b = f.input('x', 'float', B, K), f.input('w', 'float', K, N), f.input('b', 'float', N)
    i, n, k = tc.indices('i n k')
    y = f.output('y')
    y[i, n] = tc.sum(x[i, k] * w[k, n])         # y(i, n) +=! x(i, k) * w(k, n)
    y[i, n] = tc.max(y[i, n] + b[n], 0.0)
    fc_relu = f.open()                          # weft.comprehension(str(f))

Operators mean what they mean there: `/` (or `//`) and `%` of integers floor, `&`, `|` and `~` are `&&`, `||` and `!`, a Python int is an
int32 literal and a float is a float32 one. docs/language.md says what a text means, docs/comprehensions.md shows more of this.
"""
from __future__ import annotations

import math
import re
from typing import Any, Iterable, Sequence, Union

import numpy as np

__all__ = ['Access', 'Def', 'Expr', 'Reduction', 'Tensor', 'amax', 'amin', 'call', 'cast', 'index', 'indices', 'max', 'min',
           'product', 'select', 'size', 'sizes', 'sum']

Number = Union[int, float, np.integer, np.floating]
Operand = Union['Expr', Number]

_NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*\Z')
# From loose to tight, as the grammar has it.
_SELECT, _OR, _AND, _COMPARE, _ADD, _MULTIPLY, _UNARY, _PRIMARY = range(8)


def _named(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f'found {name!r}, expected letters, digits and underscores')
    return name


class Expr:
    """An expression as text, with how tightly it binds. `clauses` are those of a `where`, here or in an operand: they are
    said once, behind the statement."""

    def __init__(self, text: str, level: int = _PRIMARY, clauses: Iterable[str] = ()):
        self._text, self._level, self._clauses = text, level, tuple(clauses)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f'<tc {self._text}>'

    __hash__ = object.__hash__  # `==` makes an expression

    def __bool__(self) -> bool:
        raise TypeError('an expression has no truth value here: use &, |, ~ and tc.select')

    def where(self, *ranges: tuple[Expr, Operand, Operand], exists: Sequence[Expr] = ()) -> Expr:
        """The same with ranges: (i, 0, N) is `i in 0:N`; `exists` bounds indices by the accesses of expressions."""
        clauses = [f'{v} in {_at(a, _OR)}:{_at(b, _OR)}' for v, a, b in ranges] + [f'exists {e}' for e in exists]
        operands = [o for r in ranges for o in r] + list(exists)
        return _copy(self, _clauses(self, *operands, more=clauses))

    def astype(self, dtype: str) -> Expr:
        return cast(dtype, self)

    def __add__(self, other: Operand) -> Expr: return self if _is_zero(other) else _binary(self, '+', other, _ADD)
    def __radd__(self, other: Operand) -> Expr: return self if _is_zero(other) else _binary(other, '+', self, _ADD)
    def __sub__(self, other: Operand) -> Expr: return _binary(self, '-', other, _ADD)
    def __rsub__(self, other: Operand) -> Expr: return _binary(other, '-', self, _ADD)
    def __mul__(self, other: Operand) -> Expr: return _binary(self, '*', other, _MULTIPLY)
    def __rmul__(self, other: Operand) -> Expr: return _binary(other, '*', self, _MULTIPLY)
    def __truediv__(self, other: Operand) -> Expr: return _binary(self, '/', other, _MULTIPLY)
    def __rtruediv__(self, other: Operand) -> Expr: return _binary(other, '/', self, _MULTIPLY)
    __floordiv__, __rfloordiv__ = __truediv__, __rtruediv__
    def __mod__(self, other: Operand) -> Expr: return _binary(self, '%', other, _MULTIPLY)
    def __rmod__(self, other: Operand) -> Expr: return _binary(other, '%', self, _MULTIPLY)
    def __lt__(self, other: Operand) -> Expr: return _binary(self, '<', other, _COMPARE)
    def __le__(self, other: Operand) -> Expr: return _binary(self, '<=', other, _COMPARE)
    def __gt__(self, other: Operand) -> Expr: return _binary(self, '>', other, _COMPARE)
    def __ge__(self, other: Operand) -> Expr: return _binary(self, '>=', other, _COMPARE)
    def __eq__(self, other: Operand) -> Expr: return _binary(self, '==', other, _COMPARE)  # type: ignore[override]
    def __ne__(self, other: Operand) -> Expr: return _binary(self, '!=', other, _COMPARE)  # type: ignore[override]
    def __and__(self, other: Expr) -> Expr: return _binary(self, '&&', other, _AND)
    def __or__(self, other: Expr) -> Expr: return _binary(self, '||', other, _OR)
    def __neg__(self) -> Expr: return Expr('-' + _at(self, _UNARY), _UNARY, self._clauses)
    def __invert__(self) -> Expr: return Expr('!' + _at(self, _UNARY), _UNARY, self._clauses)


class Reduction(Expr):
    """What a statement adds up, or takes the extreme of, over the indices that its left side lacks."""

    def __init__(self, operator: str, text: str, level: int, clauses: Iterable[str] = ()):
        super().__init__(text, level, clauses)
        self._operator = operator


class Access(Expr):
    """One element of a tensor: T(i, j)."""

    def __iadd__(self, other: Operand) -> Reduction: return _reduction('+=', other)  # type: ignore[misc]
    def __imul__(self, other: Operand) -> Reduction: return _reduction('*=', other)  # type: ignore[misc]


def _copy(e: Expr, clauses: tuple[str, ...]) -> Expr:
    if isinstance(e, Reduction):
        return Reduction(e._operator, e._text, e._level, clauses)
    return Expr(e._text, e._level, clauses)


def _is_zero(value: Operand) -> bool:
    """The int 0 with which Python's own sum() begins."""
    return type(value) is int and value == 0


def _expr(value: Operand) -> Expr:
    if isinstance(value, Reduction):
        raise TypeError('a reduction is a whole right side: give it to a tensor of its own')
    if isinstance(value, Expr):
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f'found {type(value).__name__}, expected an expression or a number')
    if isinstance(value, (int, np.integer)):
        text = str(int(value))
    elif math.isnan(value):
        return Expr('nan()')
    elif math.isinf(value):
        text = '-infinity()' if value < 0 else 'infinity()'
    else:  # as many digits as the type has, with a point or an exponent
        text = np.format_float_scientific(value) if value and not 1e-4 <= abs(value) < 1e16 else str(float(str(value)))
    return Expr(text, _UNARY if text.startswith('-') else _PRIMARY)


def _at(value: Operand, level: int) -> str:
    e = _expr(value)
    return f'({e._text})' if e._level < level else e._text


def _clauses(*operands: Operand, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Those of all operands, each once, in order."""
    inner = [c for o in operands if isinstance(o, Expr) for c in o._clauses]
    return tuple(dict.fromkeys([*inner, *more]))


def _binary(a: Operand, operator: str, b: Operand, level: int) -> Expr:
    return Expr(f'{_at(a, level)} {operator} {_at(b, level + 1)}', level, _clauses(a, b))


def _reduction(operator: str, value: Operand) -> Reduction:
    e = _expr(value)
    return Reduction(operator, e._text, e._level, e._clauses)


def sum(value: Operand) -> Reduction:
    """`+=!`; as the right side of a statement."""
    return _reduction('+=!', value)


def product(value: Operand) -> Reduction:
    """`*=!`."""
    return _reduction('*=!', value)


def amax(value: Operand) -> Reduction:
    """`max=!`; NaN wins."""
    return _reduction('max=!', value)


def amin(value: Operand) -> Reduction:
    """`min=!`; NaN wins."""
    return _reduction('min=!', value)


def call(name: str, *arguments: Operand) -> Expr:
    """A builtin by its name: call('fma', a, b, c)."""
    return Expr(f'{_named(name)}({", ".join(str(_expr(a)) for a in arguments)})', clauses=_clauses(*arguments))


def __getattr__(name: str) -> Any:
    """The builtins of the language: tc.exp(x), tc.fmax(a, b)."""
    if name in _BUILTINS:
        return lambda *arguments: call(name, *arguments)
    raise AttributeError(f'weft.tc has no {name!r}')


_BUILTINS = frozenset('''fmin fmax abs sqrt floor ceil trunc round fma pow exp log tanh erf sigmoid sin cos tan asin acos atan
    sinh cosh asinh acosh atanh log1p expm1 isnan trunc_div int_pow rem bit_and bit_or bit_xor bit_not shl shr neg'''.split())


def max(a: Operand, b: Operand) -> Expr:
    return call('max', a, b)


def min(a: Operand, b: Operand) -> Expr:
    return call('min', a, b)


def cast(dtype: str, value: Operand) -> Expr:
    """To 'float', 'int8', …: truncates and saturates towards integers."""
    return Expr(f'{_named(dtype)}({_expr(value)})', clauses=_clauses(value))


def select(condition: Expr, then: Operand, otherwise: Operand) -> Expr:
    """`condition ? then : otherwise`: the branch not taken is not evaluated."""
    return Expr(f'{_at(condition, _OR)} ? {_at(then, _SELECT)} : {_at(otherwise, _SELECT)}', _SELECT,
                _clauses(condition, then, otherwise))


def index(name: str) -> Expr:
    return Expr(_named(name))


def indices(names: str) -> tuple[Expr, ...]:
    """indices('i j k') are three."""
    return tuple(index(name) for name in names.replace(',', ' ').split())


size, sizes = index, indices  # what a name is follows from where it stands


class Tensor:
    """A tensor of a def: T[i, j] reads it, T[i, j] = e adds a statement."""

    def __init__(self, def_: Def, name: str):
        self._def, self.name = def_, _named(name)

    def __getitem__(self, subscripts: Operand | tuple[Operand, ...]) -> Access:
        if not isinstance(subscripts, tuple):
            subscripts = (subscripts,)
        inside = ', '.join(str(_expr(s)) for s in subscripts)
        return Access(f'{self.name}({inside})' if inside else self.name, clauses=_clauses(*subscripts))

    def __setitem__(self, subscripts: Operand | tuple[Operand, ...], value: Operand) -> None:
        operator = value._operator if isinstance(value, Reduction) else '='
        self._def.statement(self[subscripts], operator, value)


class Def:
    """A def that grows statement by statement; str() is its text."""

    def __init__(self, name: str):
        self.name = _named(name)
        self._params: list[str] = []
        self._outputs: list[str] = []
        self._body: list[str] = []

    def input(self, name: str, dtype: str, *extents: Union[Expr, int]) -> Tensor:
        """A parameter: input('x', 'float', N, 3)."""
        self._params.append(f'{_typed(dtype, extents)} {_named(name)}')
        return Tensor(self, name)

    def size(self, name: str) -> Expr:
        """A number that a call gives: `size S`."""
        self._params.append(f'size {_named(name)}')
        return Expr(name)

    def output(self, name: str, dtype: str = '', *extents: Union[Expr, int]) -> Tensor:
        """An output; with a type, one that is checked against what is inferred."""
        self._outputs.append(f'{_typed(dtype, extents)} {_named(name)}'.strip())
        return Tensor(self, name)

    def temporary(self, name: str, dtype: str = '', *extents: Union[Expr, int]) -> Tensor:
        """A tensor that stays inside; without a type it has that of its first value."""
        if dtype:
            self._body.append(f'{_typed(dtype, extents)} {_named(name)}')
        return Tensor(self, name)

    def const(self, name: str, values: Any, dtype: str = '') -> Tensor:
        """A tensor of numbers, which the compiler folds: const('G', [[1.0, 0.5], [0.0, 2.0]])."""
        array = np.asarray(values)
        extents = f'({", ".join(map(str, array.shape))})' if array.ndim else ''
        elements = ', '.join(str(_expr(v.item())) for v in array.ravel())
        self._body.append(f'const {dtype + " " if dtype else ""}{_named(name)}{extents} = {{{elements}}};')
        return Tensor(self, name)

    def statement(self, target: Expr | Sequence[Expr], operator: str, value: Operand | Sequence[Operand],
                  tag: str = '') -> None:
        """One statement as it is written: statement((v[i], k[i]), 'max=!', (x[i, j], j)) takes two at once."""
        if isinstance(target, Expr):
            e = value if isinstance(value, Expr) else _expr(value)  # type: ignore[arg-type]
            left, right, clauses = str(target), str(e), _clauses(target, e)
        else:
            values = [_expr(v) for v in value]  # type: ignore[union-attr]
            left, right = (f'({", ".join(map(str, part))})' for part in (target, values))
            clauses = _clauses(*target, *values)
            if self._body and not self._body[-1].endswith(';'):
                self._body[-1] += ';'  # a tuple would read as the last call's arguments
        where = f' where {", ".join(clauses)}' if clauses else ''
        self._body.append(f'{"@" + _named(tag) + " " if tag else ""}{left} {operator} {right}{where}')

    def __str__(self) -> str:
        body = ''.join(f'  {line}\n' for line in self._body)
        return f'def {self.name}({", ".join(self._params)}) -> ({", ".join(self._outputs)}) {{\n{body}}}\n'

    def open(self, **options: Any) -> Any:
        """weft.comprehension of the text, with its options."""
        from ._comprehension import comprehension
        return comprehension(str(self), self.name, **options)


def _typed(dtype: str, extents: Sequence[Union[Expr, int]]) -> str:
    if not dtype:
        return ''
    return _named(dtype) + (f'({", ".join(str(_expr(e)) for e in extents)})' if extents else '')
