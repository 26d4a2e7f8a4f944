"""What the benchmarks share: one model beside the other ways to run it, in one `weft compare`, and the table of it.

A further arm is one more name in ARMS, and in RIVALS if weft is to beat it. torch is an arm where it is installed.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / 'build' / 'models'
TORCH = ('torch',) if importlib.util.find_spec('torch') else ()
ARMS = ('vendor', 'own', 'onnxruntime', 'openvino', *TORCH)
PEERS = ('onnxruntime', 'openvino', 'torch')
UNSUPPORTED = 4  # the exit code of weft where something cannot be done
RIVALS = ('vendor', 'onnxruntime', 'openvino', *TORCH)
COLUMNS = (*ARMS, 'error')
NOTE = ('Speed of weft against each arm (above 1: weft is faster; -: the arm cannot run it), '
        'error as a part of the output\'s scale'
        + ('' if TORCH else '. No column of torch: it is not installed (./dev bench torch does that)'))


class Failed(SystemExit):
    """No result, and why; ends the program where nobody catches it. `arm`: whose fault alone it is, if that is known."""

    def __init__(self, why, arm=None):
        super().__init__(why)
        self.arm = arm


def parser(doc, names, seconds):
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('--threads', type=int, nargs='+', default=[1, 2])
    made.add_argument('--only', nargs='+', choices=names, metavar='NAME', help=', '.join(names))
    made.add_argument('--seconds', type=float, default=seconds, help='of measuring, at most, for all arms of a row')
    made.add_argument('--save', type=Path, help='everything that was measured, as JSON')
    return made


def answer(command, env=None):
    """The document that a command of weft prints, empty if none, and its exit code."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env)
    return json.loads(done.stdout) if done.stdout.strip() else {}, done.returncode


def failure(command, said, code, *unable):
    why = said.get('error', {}).get('what', 'nothing said')
    # Results are kept, and say it by paths of the tree.
    return Failed(f'{" ".join(command)} exits {code}: {why}'.replace(f'{ROOT}/', ''), *unable)


def compare(model, arms, *options, env=None):
    """The document that `weft compare` prints. An answer of no is one too: the errors are in it."""
    command = ['weft', 'compare', str(model), '--against', ','.join(arms), *options, '--json', '--quiet']
    env = {'TORCHINDUCTOR_CACHE_DIR': str(ROOT / 'build' / 'torch_cache'), **os.environ,
           'WEFT_PEER_PYTHON': sys.executable, **(env or {})}
    said, code = answer(command, env)
    if 'arms' in said:
        return said
    why = said.get('error', {}).get('what', 'nothing said')
    unable = [arm for arm in arms if arm in PEERS and code == UNSUPPORTED and why.startswith(arm + ' ')]
    raise failure(command, said, code, *unable)


def measure(model, threads, seconds, *options):
    """All arms but the peers that cannot run the model: those stand in `unable`, with what they say."""
    able, unable = list(ARMS), {}
    while True:
        try:
            result = compare(model, able, *options, '--threads', str(threads), '--duration', f'{seconds}s')
            return {**result, 'unable': unable}
        except Failed as why:
            if why.arm not in able:
                raise
            able.remove(why.arm)
            unable[why.arm] = str(why)


def roofline(model, threads, *options):
    """What weft's steps take beside what they would at the peaks of this machine, both measured in one run: of a step
    whose work is not known, as long as it takes."""
    command = ['weft', 'bench', str(model), *options, '--threads', str(threads), '--duration', '0.2s', '--json', '--quiet']
    said, code = answer(command)
    if code != 0:
        raise failure(command, said, code)
    steps = said['kernels']
    least = sum(step['us'] * (1 if step['efficiency'] is None else step['efficiency']) for step in steps)
    return {'us': sum(step['us'] for step in steps), 'least_us': least, 'bytes': sum(step['bytes'] or 0 for step in steps)}


def cells(result):
    """What stands in COLUMNS; a speed is a ratio of medians with its 95 % interval, `-` where an arm cannot run."""
    speeds = (result['speedup'].get(arm) for arm in ARMS)
    ratios = [f'{speed[1]:.2f} [{speed[0]:.2f}, {speed[2]:.2f}]' if speed else '-' for speed in speeds]
    accuracy = result['accuracy']['weft']
    return *ratios, f'{accuracy["max_rel"]:.1e}{"" if accuracy["within"] else " WRONG"}'


def weft_us(result):
    return result['arms'][0]['p50_us']


def rivals(result):
    """Those of RIVALS that ran. The library-only plan is none where it calls no library: then it is weft's own
    kernels too, unless nobody else could run the row."""
    calls = {arm['name']: arm.get('steps', {}).get('vendor', 1) for arm in result['arms']}
    ran = [arm for arm in RIVALS if arm in result['speedup']]
    return [arm for arm in ran if calls.get(arm, 1) > 0] or ran


def best_rival(result):
    """(weft's speed against it, its name) for the fastest of its rivals."""
    return min((result['speedup'][arm][1], arm) for arm in rivals(result))


def heading(*names):
    line(*names)
    line(*['---'] * len(names))


def line(*texts):
    print('| ' + ' | '.join(texts) + ' |', flush=True)


def machine(results):
    """The machine and the versions, in one line."""
    env = results[0]['env']
    isa = ' '.join(word for word in env['isa'].split() if not word.startswith('threads='))  # the rows have theirs
    versions = {peer: version for result in results for peer, version in result['env'].get('peers', {}).items()}
    peers = (f'{peer} {version}' for peer, version in versions.items())
    return ', '.join([env['cpu'], isa, env['libraries'], *peers])


def save(path, results):
    if path:
        path.write_text(json.dumps(results, indent=1) + '\n')
