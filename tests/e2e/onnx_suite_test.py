"""The onnx package's backend suite through weft.backend: each case passes, or is listed with its reason."""
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools'))
import onnx_suite  # noqa: E402

CASES = onnx_suite.load_cases()
KNOWN = onnx_suite.known_failures()


@pytest.fixture(scope='session')
def outcomes(request, binary, cache):
    """Of the cases that are selected, by two processes."""
    python = binary.parents[1] / 'python'
    if not list((python / 'weft').glob('_weft*.so')):
        pytest.skip('the Python package is not built')
    sys.path.insert(0, str(python))
    wanted = {i.callspec.params['name'] for i in request.session.items if getattr(i, 'function', None) is test_case}
    return onnx_suite.run_all({n: c for n, c in CASES.items() if n in wanted}, jobs=min(2, len(os.sched_getaffinity(0))))


@pytest.mark.parametrize('name', CASES)
def test_case(outcomes, name):
    outcome = outcomes[name]
    if name in KNOWN:
        assert not outcome.passed, f'passes, but {onnx_suite.FAILURES.name} lists it: {KNOWN[name]}'
    else:
        assert outcome.passed, outcome.reason


def test_the_list_names_cases_and_reasons():
    assert set(KNOWN) <= set(CASES)
    assert all(reason and not reason.startswith(onnx_suite.UNKNOWN) for reason in KNOWN.values())
