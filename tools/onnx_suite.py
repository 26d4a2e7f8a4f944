#!/usr/bin/env python3
"""Runs the backend suite of the onnx package through weft.backend, and writes docs/onnx_coverage.md.

    python tools/onnx_suite.py [--filter WORD] [--write docs/onnx_coverage.md] [--update]

All kinds of the suite: node, simple, pytorch-converted, pytorch-operator, and those of real and light models whose
files the package holds. Cases are compared as the suite's own runner does. Workers are processes of their own: one
that crashes, or takes longer than the limit, is a case that failed. Where a run of all cases differs from
tests/data/onnx_suite_failures.txt, the exit code is 1.
"""
import argparse
import collections
import dataclasses
import glob
import json
import os
import re
import sys
import time
import warnings
from pathlib import Path

import workers

ROOT = Path(__file__).resolve().parent.parent
FAILURES = ROOT / 'tests/data/onnx_suite_failures.txt'
UNKNOWN = 'not known why: '
KINDS = ('node', 'simple', 'pytorch-converted', 'pytorch-operator', 'real')
LIMIT_S = 60


@dataclasses.dataclass
class Outcome:
    """Of one case; `ulp` is the largest distance of an element of floats, None where there are none."""
    passed: bool
    reason: str = ''
    ulp: int | None = None
    steps: dict[str, int] = dataclasses.field(default_factory=dict)  # by kind
    natives: dict[str, str] = dataclasses.field(default_factory=dict)  # operator: why no kernel of weft's own
    seconds: float = 0.0


def load_cases():
    """The suite's cases by name, and their kinds; a few seconds, since many are computed."""
    warnings.simplefilter('ignore')  # infinities and empty reductions are among them
    from onnx.backend.test.loader import load_model_tests
    cases = {}
    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            assert case.name not in cases, case.name
            cases[case.name] = case
    return dict(sorted(cases.items()))


def model_of(case):
    import onnx
    if case.model is not None:
        return case.model
    if case.url:
        return onnx.load(Path(onnx.__file__).parent.parent / case.url)
    return onnx.load(os.path.join(case.model_dir, 'model.onnx'))


def data_of(case, model):
    """[(inputs, outputs)], as the suite's runner makes them."""
    import onnx
    from onnx.backend.test.runner import Runner, _normalize_tensor
    if case.data_sets is not None:
        return [tuple([_normalize_tensor(v) for v in values] for values in data) for data in case.data_sets]
    if case.url:  # a light model: its outputs lie beside it
        defaults = {i.name for i in model.graph.initializer}
        inputs = [Runner.generate_dummy_data(i, name=case.model_name) for i in model.graph.input if i.name not in defaults]
        path = Path(onnx.__file__).parent.parent / case.url
        outputs = [onnx.numpy_helper.to_array(onnx.load_tensor(path.with_name(f'{path.stem}_output_{i}.pb')))
                   for i in range(len(model.graph.output))]
        return [(inputs, outputs)]
    runner = Runner.__new__(Runner)  # for _load_proto alone
    sets = []
    for folder in sorted(glob.glob(os.path.join(case.model_dir, 'test_data_set*'))):
        read = []
        for word, infos in (('input', model.graph.input), ('output', model.graph.output)):
            read.append([])
            for i in range(len(glob.glob(os.path.join(folder, f'{word}_*.pb')))):
                runner._load_proto(os.path.join(folder, f'{word}_{i}.pb'), read[-1], infos[i].type)
        sets.append(tuple(read))
    return sets


def ulps(found, expected):
    """The largest distance in units of the last place, over elements that are numbers in both; None for no floats."""
    import numpy as np
    if not isinstance(found, np.ndarray) or found.dtype.kind not in 'fV' or found.dtype.itemsize > 8 or not found.size:
        return None
    bits = f'i{found.dtype.itemsize}'
    def ordered(x):
        i = np.ascontiguousarray(x).view(bits).astype(object if x.dtype.itemsize == 8 else np.int64)
        return np.where(i < 0, -(i & np.iinfo(bits).max), i)
    numbers = ~(np.isnan(found.astype(np.float64)) | np.isnan(expected.astype(np.float64)))
    distance = np.abs(ordered(found) - ordered(expected))[numbers]
    return int(distance.max()) if distance.size else 0


def run_case(case):
    import weft
    from onnx.backend.test.runner import Runner
    from weft.backend import WeftBackend
    begin = time.monotonic()
    outcome = Outcome(False)
    try:
        model = model_of(case)
        rep = WeftBackend.prepare(model, threads=1)
        for inputs, expected in data_of(case, model):
            for step in rep.plan(inputs).steps:
                outcome.steps[step.kind] = outcome.steps.get(step.kind, 0) + 1
                if step.kind == 'native':
                    outcome.natives[step.call] = step.reason
            found = list(rep.run(inputs))
            Runner.assert_similar_outputs(expected, found, case.rtol, case.atol)
            for f, e in zip(found, expected):
                u = ulps(f, e)
                outcome.ulp = u if outcome.ulp is None else max(outcome.ulp, u or 0)
        outcome.passed = True
    except weft.Error as error:
        outcome.reason = error.what
    except Exception as error:  # the suite's assertions, and whatever else the backend says
        lines = [line.strip() for line in str(error).split('\n') if line.strip()]
        outcome.reason = f'{type(error).__name__}: {"; ".join(lines[:4])}'
    outcome.reason = re.sub(r'\S*/weft-\w+/', '', outcome.reason)
    outcome.seconds = time.monotonic() - begin
    return outcome


def run_all(cases, jobs=2, limit_s=LIMIT_S):
    """Outcomes by name, in the order of `cases`."""
    return workers.run_all(cases, run_case, lambda reason: Outcome(False, reason), jobs, limit_s)


def known_failures():
    """{case: reason} of the file: reasons as lines that begin with `#`, each above the cases it is true of."""
    known, reason = {}, ''
    for line in FAILURES.read_text().split('\n'):
        if line.startswith('# '):
            reason = line[2:]
        elif line:
            known[line] = reason
    return known


def reason_of(name, outcome, known):
    """Why a case fails: what is written of it, or, until somebody has found out, what weft or the comparison says."""
    import onnx_coverage
    return known.get(name) or f'{UNKNOWN}{onnx_coverage.cause(outcome.reason)}'


def failures_text(outcomes, known):
    reasons = collections.defaultdict(list)
    for name, outcome in outcomes.items():
        if not outcome.passed:
            reasons[reason_of(name, outcome, known)].append(name)
    return '\n'.join(f'# {reason}\n' + ''.join(f'{name}\n' for name in names) for reason, names in reasons.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--filter', default='', help='only cases whose name contains this')
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--limit', type=float, default=LIMIT_S, help='seconds for one case')
    parser.add_argument('--write', type=Path, help='the page to write')
    parser.add_argument('--update', action='store_true', help='rewrite the list of failures')
    parser.add_argument('--json', type=Path, help='every outcome')
    parser.add_argument('--build', type=Path, default=ROOT / 'build')
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.build / 'python'))
    cases = {name: case for name, case in load_cases().items() if arguments.filter in name}
    begin = time.monotonic()
    outcomes = run_all(cases, arguments.jobs, arguments.limit)
    seconds = time.monotonic() - begin
    if arguments.json:
        arguments.json.write_text(json.dumps({n: dataclasses.asdict(o) for n, o in outcomes.items()}, indent=1))
    known = known_failures()
    if arguments.update and not arguments.filter:
        FAILURES.write_text(failures_text(outcomes, known))
    if arguments.write:
        import onnx_coverage
        arguments.write.write_text(onnx_coverage.page(cases, outcomes, known))
    new = {n: o.reason for n, o in outcomes.items() if not o.passed and n not in known}
    fixed = [n for n in known if n in outcomes and outcomes[n].passed]
    for name, reason in new.items():
        print(f'FAILED: {name}: {reason}')
    for name in fixed:
        print(f'passes, but is listed as a failure: {name}')
    print(f'{sum(o.passed for o in outcomes.values())} of {len(outcomes)} cases passed, {len(new)} failed that are not listed, '
          f'in {seconds:.0f} s')
    return 1 if new or fixed else 0


if __name__ == '__main__':
    sys.exit(main())
