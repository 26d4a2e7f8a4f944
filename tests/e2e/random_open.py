"""Random networks whose inputs keep symbolic extents: one plan in one process, run at several.

    python tests/e2e/random_open.py FOLDER

runs what random_graphs.py left in a folder: open.onnx, with 0-inputs.npz and 0-outputs.npz, 1-inputs.npz and so on.
"""
import copy
import sys
from pathlib import Path

import numpy as np
import onnx
import random_control
from random_value import Reject

WAYS = ('now', 'background', 'never')


def other_extents(g, outputs, change):
    """(inputs, expected outputs) of a network whose inputs' extents change; an output that says nothing there is left out."""
    scope = dict(g.known)
    given = {v.name: g.numbers(tuple(change.get(e, e) for e in v.shape), v.array.dtype) for v in g.inputs}
    scope |= {name: g.call(name, array) for name, array in given.items()}
    for node in g.nodes:
        scope |= {v.name: v for v in random_control.apply(g, node, scope)}
    expected = {v.name: scope[v.name].array for v in outputs if g.stable(scope[v.name])}
    if not expected:
        raise Reject
    return given, expected


def opened(g, model, given, expected):
    """The same model with symbols for some extents of its inputs, and what it gives at several: (model, [(inputs, outputs)])."""
    present = sorted({e for v in g.inputs for e in v.shape})
    if not present:
        raise Reject
    symbols = g.random.sample(present, g.random.randrange(1, min(len(present), 3) + 1))
    model = copy.deepcopy(model)
    for info in model.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if dim.HasField('dim_value') and dim.dim_value in symbols:  # not one that is open already
                dim.dim_param = f'e{dim.dim_value}'
    for info in model.graph.output:
        info.type.tensor_type.ClearField('shape')
    outputs = [v for v in g.values if v.name in expected]
    cases = [(given, expected)]
    for _ in range(12):
        try:
            cases.append(other_extents(g, outputs, {e: g.random.choice([0, 1, 2, 3, 5, 8, e + 1, e]) for e in symbols}))
        except Exception:  # the evaluator raises whatever numpy does with operands that an operator does not take
            continue
        if len(cases) == 4:
            break
    if len(cases) < 2:
        raise Reject
    return model, cases


def save(folder, model, cases):
    onnx.save(model, folder / 'open.onnx')
    for i, (given, expected) in enumerate(cases):
        np.savez(folder / f'{i}-inputs.npz', **given)
        np.savez(folder / f'{i}-outputs.npz', **expected)


def main(folder):
    import weft
    from random_graphs import difference
    cases = []
    for path in sorted(folder.glob('*-inputs.npz')):
        with np.load(path) as inputs, np.load(folder / path.name.replace('inputs', 'outputs')) as outputs:
            cases.append((dict(inputs), dict(outputs)))
    failed = False
    for way in WAYS:
        try:
            plan = weft.build(folder / 'open.onnx', specialize=way)
            for i, (given, expected) in enumerate([*cases, cases[0]]):
                found = plan.run(given)
                said = difference({n: np.asarray(found[n]) for n in expected}, expected)
                if said:
                    print(f'specialize={way}, case {i}: {said}')
                    failed = True
        except weft.Error as error:
            print(f'specialize={way}: {error}')
            failed = True
    return failed


if __name__ == '__main__':
    sys.exit(main(Path(sys.argv[1])))
