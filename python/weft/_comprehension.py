"""Comprehensions that are called like functions."""
import os
from typing import NamedTuple

import numpy as np

from . import _weft
from ._types import NUMPY


class Parameter(NamedTuple):
    """Of a comprehension: a tensor with its element type and rank, or a size, which has neither."""
    name: str
    dtype: np.dtype | None
    rank: int | None


class TunedKernel(NamedTuple):
    """A kernel of a comprehension after tuning; `choice` is a line that `choices=` takes."""
    name: str
    choice: str
    trials: int
    best_us: float
    start_us: float


def native(value, dtype):
    """An array of what the module does not read itself, or None: numbers, NumPy's scalars, other byte orders, bfloat16."""
    if isinstance(value, (bool, int, float)):
        return _number(value, dtype)
    if not isinstance(value, (np.ndarray, np.generic)):
        return None
    array = np.asarray(value)
    if array.dtype.name == 'bfloat16':
        return array.view(np.uint16)
    return array.astype(array.dtype.newbyteorder('='))


_RANGES = {'bool': (0, 1), 'u4': (0, 15), 'i4': (-8, 7)}  # of what NumPy has no integers of


def _number(value, dtype):
    """A Python number as an array, None if it is no value of the type; rounded where that is a float."""
    kind = np.dtype(NUMPY[dtype])
    if dtype == 'bf16':  # to nearest, even at halves, on the bits of a float32
        single = np.asarray(value, np.float32)
        bits = single.view(np.uint32)
        return np.asarray(0x7fc0 if np.isnan(single) else (int(bits) + 0x7fff + (int(bits) >> 16 & 1)) >> 16, np.uint16)
    if kind.kind == 'f':
        return np.asarray(value, kind)
    least, most = _RANGES.get(dtype) or (np.iinfo(kind).min, np.iinfo(kind).max)
    return np.asarray(value, kind) if isinstance(value, int) and least <= value <= most else None


class Comprehension:
    """A def of the kernel language, compiled for the sizes of each call and kept.

    Arguments come in the def's order or by name: arrays (NumPy's, or anything with DLPack, in host memory) of exactly the
    def's types, and integers for its `size` parameters. Gives the output, or a tuple of several, as NumPy arrays; `out` has
    them written to arrays of yours, which may be inputs too. bfloat16 goes in and out as the bits, uint16."""

    def __init__(self, opened):
        self._opened = opened

    def __call__(self, *args, **kwargs):
        return self._opened(*args, **kwargs)

    @property
    def source(self):
        """The text it was made from."""
        return self._opened.source

    @property
    def name(self):
        return self._opened.name

    @property
    def parameters(self):
        return [Parameter(name, None, None) if kind == 'size' else Parameter(name, np.dtype(NUMPY[kind]), rank)
                for name, kind, rank in self._opened.parameters()]

    def infer(self, *args, **kwargs):
        """Ranges and extents, running nothing: {'def', 'ranges': {index: (begin, end)}, 'outputs': {name: (dtype, shape)},
        'preconditions'}. Arguments are shapes or arrays, and integers for sizes; those that follow from others may be left
        out. An index that occurs in several statements is `i@1`, `i@2`."""
        found = self._opened.infer(*args, **kwargs)
        found['outputs'] = {name: (np.dtype(NUMPY[dtype]), shape) for name, (dtype, shape) in found['outputs'].items()}
        return found

    def tune(self, *args, budget=5.0, **kwargs):
        """Times the schedules that can be thought of on these arguments, for about `budget` seconds, and uses the fastest
        for these sizes from now on. Gives a TunedKernel for each kernel of the def."""
        return [TunedKernel(*row) for row in self._opened.tune(*args, budget=float(budget), **kwargs)]

    def __repr__(self):
        return f'<weft.Comprehension {self.name}({", ".join(p.name for p in self.parameters)})>'


def comprehension(text, entry=None, *, target='cpu', threads=0, choices=None, file='comprehension', cache_dir=None):
    """Opens a def of the kernel language (docs/language.md), a text or a tc.Def, as a function on arrays.

        matmul = weft.comprehension('def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }')
        c = matmul(a, b)

    text: may hold several defs, then `entry` names one. target: 'cpu', 'cpu:x86-64-v3', 'interpreter', 'cuda' or
    'cuda-emulated'. threads: 0 takes what the machine allows. choices: schedules to force, a line a kernel. file: what
    errors call the text."""
    return Comprehension(_weft.open_comprehension(str(text), file, entry or '', target, threads, choices,
                                                  None if cache_dir is None else os.fspath(cache_dir)))
