"""Random networks through the whole product, against onnx's reference evaluator.

    python tests/e2e/random_graphs.py SEED [COUNT]

checks COUNT networks (1), the first made from SEED, the next from SEED + 1 and so on: by the default partition, by own
kernels alone, by the library alone, by the library and native kernels, without fusion, and, where the Python package is
built, as one plan for several extents of its inputs. A network that fails is kept in
build/random_failures/SEED, with its inputs and expected outputs; the lines that say so begin with its seed.
"""
import argparse
import collections
import concurrent.futures
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import random_control
import random_functions
import random_layouts
import random_open
import random_ops
import random_server
from random_graph import TOLERANCE, Graph, Reject, differs, scale_of
from tool import ROOT

FAMILIES = random_ops.FAMILIES | random_layouts.FAMILIES
ARMS = {'default': None, 'own': 'own', 'vendor': 'vendor', 'calls': 'calls'}  # name -> what is forced
LIMIT_S = 60
HAS_PACKAGE = importlib.util.find_spec('weft') is not None
# Of this process; end with it.
server, server_without_onednn = random_server.Server(), random_server.Server(WEFT_ONEDNN='none')
NOT_ALONE = 'wrong in the process that checked others before, and not alone'
np.seterr(all='ignore')
warnings.simplefilter('ignore')


def generate(seed):
    """The network of a seed: (model, inputs, expected outputs)."""
    return grown(seed)[1:]


def grown(seed):
    """(how it grew, model, inputs, expected outputs). One that has nothing to say is replaced by another."""
    for attempt in range(20):
        g = Graph(seed + attempt * 1_000_003)
        g.families = FAMILIES | (random_control.FAMILIES if g.chance(0.35) else {})
        for _ in range(g.random.choice([1, 1, 2, 3])):
            g.input(random_ops.any_shape(g, 1 if g.chance(0.9) else 0), g.dtype)
        if g.chance(0.3):
            g.input(random_ops.any_shape(g, 0, 2), g.random.choice(['i8', 'i4', 'u1', 'i1']))
        g.grow(g.random.randrange(3, 15))
        try:
            return g, *g.model()
        except Reject:
            continue
    raise AssertionError(f'seed {seed} makes no network')


def difference(found, expected):
    """How outputs differ by name; empty if they don't."""
    if found.keys() != expected.keys():
        return f'found the outputs {sorted(found)}, expected {sorted(expected)}'
    for name, right in expected.items():
        wrong = found[name]
        if wrong.dtype != right.dtype or wrong.shape != right.shape:
            return f'{name}: found {wrong.dtype}{list(wrong.shape)}, expected {right.dtype}{list(right.shape)}'
        if differs(wrong, right, TOLERANCE.get(right.dtype, 0)):
            error = np.abs(np.subtract(wrong, right, dtype=np.float64))
            return f'{name}: {right.dtype}{list(right.shape)} differs by {np.nanmax(error):.3g}, the scale is {scale_of(right):.3g}'
    return ''


def run(binary, folder, environment, *arguments):
    """(what was printed, what went wrong)."""
    try:
        done = subprocess.run([str(a) for a in (binary, *arguments)], cwd=folder, env=os.environ | environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return '', f'took more than {LIMIT_S} s'
    return done.stdout, f'exit {done.returncode}: {done.stderr.strip()[-600:]}' if done.returncode else ''


def check_alone(binary, folder, environment, common, arms, expected):
    """What is wrong with each arm in a process of its own."""
    wrong = {}
    for arm, force in arms.items():
        options = ['--force', force] if force else []
        said = run(binary, folder, environment, 'run', 'model.onnx', *common, *options, '--quiet', '-o', f'{arm}.npz')[1]
        if not said:
            with np.load(folder / f'{arm}.npz') as file:
                said = difference(dict(file), expected)
            (folder / f'{arm}.npz').unlink()
        if said:
            wrong[arm] = said
    return wrong


def check(binary, folder, has_vendor, threads):
    """What is wrong with the network in a folder, by arm. A library may lose a NaN (oneDNN's relu, exp and softmax do), so none
    has a part where inputs are not finite, and a plan of its calls alone is not asked for a NaN."""
    with np.load(folder / 'outputs.npz') as file:
        expected = dict(file)
    with np.load(folder / 'inputs.npz') as file:
        finite = all(np.isfinite(v).all() for v in file.values() if v.dtype.kind == 'f')
    makes_nan = any(np.isnan(v).any() for v in expected.values() if v.dtype.kind == 'f')
    has_vendor, environment = has_vendor and finite and not makes_nan, {} if finite else {'WEFT_ONEDNN': 'none'}
    common = ['--inputs', 'inputs.npz', '--budget', '0', '--threads', str(threads)]
    arms = {arm: force for arm, force in ARMS.items() if arm != 'vendor' or has_vendor}
    one = server if finite else server_without_onednn
    wrong = {}
    if not HAS_PACKAGE or not one.is_right(folder, LIMIT_S, threads, arms.values()):
        wrong = check_alone(binary, folder, environment, common, arms, expected)
        if not wrong and HAS_PACKAGE:
            wrong = {'together': NOT_ALONE}
    loosest = max((TOLERANCE.get(v.dtype, 0) for v in expected.values()), default=0)
    out, said = run(binary, folder, environment, 'compare', 'model.onnx', *common, '--against', 'unfused', '--runs', '1',
                    '--warmup', '0', '--expected', 'outputs.npz', '--tolerance', str(loosest), '--json')
    accuracy = json.loads(out or '{}').get('accuracy', {}).get('unfused')
    if not accuracy:
        wrong['unfused'] = said or 'said nothing of its accuracy'
    elif not accuracy['within']:
        wrong['unfused'] = f'differs: {accuracy}'
    return wrong


def check_open(folder, g, model, inputs, expected):
    """What is wrong with the network where some extents of its inputs stay open, by arm."""
    if g.special or not HAS_PACKAGE:
        return {}
    try:
        random_open.save(folder, *random_open.opened(g, model, inputs, expected))
    except Reject:
        return {}
    if server.is_right(folder, LIMIT_S):
        return {}
    out, said = run(sys.executable, folder, {'PYTHONPATH': os.pathsep.join(sys.path)}, random_open.__file__, folder)
    return {'open': f'{said}\n{out}' if said else NOT_ALONE}


def check_seed(binary, seed, has_vendor, keep):
    """What is wrong with the network of a seed; it is kept below `keep` if anything is."""
    folder = Path(tempfile.mkdtemp(prefix=f'weft-{seed}-'))
    try:
        g, model, inputs, expected = grown(seed)
        onnx.save(random_functions.outlined(model, seed) if seed % 3 == 0 else model, folder / 'model.onnx')
        np.savez(folder / 'inputs.npz', **inputs)
        np.savez(folder / 'outputs.npz', **expected)
        wrong = check(binary, folder, has_vendor, 1 + seed % 3) | check_open(folder, g, model, inputs, expected)
        if wrong and keep:
            kept = Path(keep) / str(seed)
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept)
        return [f'seed {seed}, {arm}: {said}' for arm, said in wrong.items()], [n.op_type for n in model.graph.node]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_seeds(binary, seeds, has_vendor, keep, workers=2):
    """Yields (seed, what is wrong, its operators) as they are done."""
    pool = concurrent.futures.ProcessPoolExecutor(workers)
    try:
        jobs = {pool.submit(check_seed, binary, seed, has_vendor, keep): seed for seed in seeds}
        for job in concurrent.futures.as_completed(jobs):
            failed = job.exception()
            yield jobs[job], *(([f'seed {jobs[job]}, no network: {failed}'], []) if failed else job.result())
    finally:  # whoever ends the run does not wait for the seeds that are left
        pool.shutdown(cancel_futures=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('seed', type=int)
    parser.add_argument('count', type=int, nargs='?', default=1)
    parser.add_argument('--keep', default=ROOT / 'build/random_failures', metavar='DIR')
    parser.add_argument('--workers', type=int, default=2)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended'))
    binary = Path(os.environ.get('WEFT_BIN') or ROOT / 'build/bin/weft').resolve()
    devices = json.loads(subprocess.run([binary, 'devices', '--json'], capture_output=True, check=True).stdout)
    has_vendor = devices['libraries']['onednn'].startswith('onednn ')
    failed, operators, n_nodes = 0, collections.Counter(), 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ['WEFT_CACHE_DIR'] = f'{cache}/weft'
        seeds = range(arguments.seed, arguments.seed + arguments.count)
        for _, wrong, ops in check_seeds(binary, seeds, has_vendor, arguments.keep, arguments.workers):
            failed += bool(wrong)
            operators.update(set(ops))
            n_nodes += len(ops)
            print('\n'.join(wrong), end='\n' if wrong else '', flush=True)
    print(f'{arguments.count} networks, {n_nodes} nodes of {len(operators)} operators: {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
