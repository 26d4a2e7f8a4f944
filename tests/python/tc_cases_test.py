"""Comprehensions by every engine against NumPy, and what is said of those that are wrong."""
import re

import numpy as np
import pytest
from tc_cases import CASES
from tc_corner_cases import FAULTS

# Of an output's scale, for each term of a sum: 3e-7 for float32, and as much more as other types round.
UNIT = {'float16': 1e-3, 'float32': 3e-7, 'float64': 6e-16}


def argument(parameter, given, rng):
    """What a case says of a parameter, as the call wants it."""
    if parameter.dtype is None:
        return int(given)
    if isinstance(given, np.ndarray):
        return given
    if parameter.dtype.kind == 'f':
        return rng.uniform(-1, 1, given).astype(parameter.dtype)
    if parameter.dtype == bool:
        return rng.integers(0, 2, given).astype(bool)
    low = 0 if parameter.dtype.kind == 'u' else -9
    return rng.integers(low, 10, given).astype(parameter.dtype)


def expected_of(case, arguments):
    wide = {name: a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == 'f' else a for name, a in arguments.items()}
    with np.errstate(all='ignore'):
        outputs = case.oracle(*(wide[name] for name in case.arguments))
    return outputs if isinstance(outputs, tuple) else (outputs,)


def check(found, expected, length):
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    if found.dtype.kind != 'f':
        assert expected.dtype == found.dtype
        return np.testing.assert_array_equal(found, expected)
    finite = np.isfinite(expected)
    scale = max(np.abs(expected[finite]).max(initial=0), 1e-30)
    with np.errstate(invalid='ignore'):
        np.testing.assert_array_equal(found[~finite], expected[~finite])
        error = np.abs(found.astype(np.float64) - expected)[finite].max(initial=0)
    assert error <= UNIT[found.dtype.name] * length * scale, f'an error of {error / scale:.2e} of the scale'


@pytest.mark.parametrize('target', ['cpu', 'interpreter', 'cuda-emulated'])
@pytest.mark.parametrize('case', CASES, ids=lambda c: c.name)
def test_case(weft, cache, case, target):
    f = weft.comprehension(case.text, case.entry, target=target, threads=2, cache_dir=cache)
    rng = np.random.default_rng(list(case.name.encode()))
    arguments = {p.name: argument(p, case.arguments[p.name], rng) for p in f.parameters}
    outputs = f(**arguments)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    expected = expected_of(case, arguments)
    assert len(outputs) == len(expected)
    for found, wanted in zip(outputs, expected):
        check(found, wanted, case.length)
    if case.types:
        assert tuple(o.dtype for o in outputs) == tuple(np.dtype(t) for t in case.types)


@pytest.mark.parametrize('target', ['cpu', 'interpreter', 'cuda-emulated'])
@pytest.mark.parametrize('name, text, arguments, says', FAULTS, ids=lambda v: v if isinstance(v, str) and v.isidentifier() else '')
def test_fault(weft, cache, name, text, arguments, says, target):
    """Wrong data is an error that names the tensor, what was found and, if that is no index, what was expected."""
    f = weft.comprehension(text, target=target, threads=2, cache_dir=cache)
    with pytest.raises(weft.Error) as error:
        f(**arguments)
    assert error.value.code == 3 and error.value.where
    for word in says.split():
        assert word.strip("'") in re.findall(r'-?\w+', error.value.what), error.value.what
