"""Times the gallery of comprehensions in bench/tc beside torch, eager and compiled, and a library, on the sizes of Tensor
Comprehensions' own benchmarks (Vasilache et al., 2018; tc/benchmarks), one thread and two. The arm `library` is what torch
exports of the same function, by calls of oneDNN where it has one (`force="vendor"`).

Every row runs in a process of its own. Arms take turns in bursts; between bursts the process sleeps until no worker of
the last arm spins any more. A time is the median of single calls, from Python for every arm; `floor` is what the
operations and the operands, each moved once, take at the peaks of this machine (`weft devices`). Results are checked against
double precision: `error` is a part of the output's scale. What is saved also has `compile_s`, the first call with an empty
cache, and `tune_s`, the measuring of schedules after it.
"""
import argparse
import importlib.util
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np

TEXTS = Path(__file__).resolve().parent / 'tc'
EPS = 1e-5
PEERS = ('eager', 'compiled', 'library')


class Row(NamedTuple):
    """One def at one set of sizes. `torch` computes the same of the arguments, given torch and its functions."""
    file: str
    entry: str
    arguments: Callable   # of a numpy generator; arrays by name, and integers for sizes
    torch: Callable       # of (torch, torch.nn.functional, arguments by name)
    flops: float
    family: str = 'gallery'
    scale: float = 1.0    # of the arrays that are normal


def normal(**shapes):
    """Arguments of these shapes, of which those that begin with `w` shrink with what is summed over."""
    def make(rng):
        return {name: (rng.standard_normal(shape) * (shape[-1] ** -0.5 if name.startswith('w') else 1)).astype(np.float32)
                for name, shape in shapes.items()}
    return make


def with_indices(arguments, **indices):
    """More arguments: NAME=(shape, rows of the table)."""
    def make(rng):
        return arguments(rng) | {name: rng.integers(0, rows, shape, np.int32) for name, (shape, rows) in indices.items()}
    return make


def with_sizes(arguments, **sizes):
    return lambda rng: arguments(rng) | sizes


def tmm(m, n, k):
    return Row('products', 'tmm', normal(a=(m, k), b=(n, k)), lambda t, f, v: v['a'] @ v['b'].T, 2 * m * n * k)


def kronecker(m, d, n):
    flops = 2 * m * n * n * n * d + 2 * m * n * n * d * d + 2 * m * n * d * d * d
    return Row('products', 'kronecker3', normal(x=(m, n, n, n), w0=(d, n), w1=(d, n), w2=(d, n)),
               lambda t, f, v: t.einsum('mabz,fz,eb,da->mdef', v['x'], v['w2'], v['w1'], v['w0']), flops)


def group_convolution(c, size):
    n = g = 32
    out = size - 2

    def run(t, f, v):
        x = v['x'].reshape(n, g * c, size, size)
        return f.conv2d(x, v['k'].reshape(g * c, c, 3, 3), v['bias'].reshape(-1), groups=g).reshape(n, g, c, out, out)
    return Row('convolutions', 'group_convolution', normal(x=(n, g, c, size, size), k=(g, c, c, 3, 3), bias=(g, c)), run,
               18 * n * g * c * c * out * out)


def wavenet(d, b=1, r=32, c=32, s=256, t=4000):
    arguments = normal(x=(b, r, t), filter=(c, r, 2), filter_bias=(c,), gate=(c, r, 2), gate_bias=(c,), residual=(r, c),
                       residual_bias=(r,), skip=(s, c), skip_bias=(s,))

    def run(torch, f, v):
        x = f.pad(v['x'], (d, 0))
        z = torch.tanh(f.conv1d(x, v['filter'], v['filter_bias'], dilation=d)) * torch.sigmoid(
            f.conv1d(x, v['gate'], v['gate_bias'], dilation=d))
        return (f.conv1d(z, v['residual'][:, :, None], v['residual_bias']) + v['x'],
                f.conv1d(z, v['skip'][:, :, None], v['skip_bias']))
    return Row('convolutions', 'wavenet', with_sizes(arguments, D=d), run, 2 * b * t * c * (4 * r + r + s))


def lookup(count, b=128, d=64, l=50, e=10_000_000):
    # The tables are larger than what is looked up; they are filled cheaply.
    def table(rng):
        return np.resize(rng.standard_normal(1 << 20).astype(np.float32), (e, d))
    if count == 1:
        return Row('lookups', 'lut1', with_indices(lambda rng: {'table': table(rng)}, i=((b, l), e)),
                   lambda t, f, v: f.embedding_bag(v['i'], v['table'], mode='sum'), b * l * d)
    return Row('lookups', 'lut2', with_indices(lambda rng: {'table1': table(rng), 'table2': table(rng)},
                                               i1=((b, l), e), i2=((b, l), e)),
               lambda t, f, v: (f.embedding_bag(v['i1'], v['table1'], mode='sum'),
                                f.embedding_bag(v['i2'], v['table2'], mode='sum')), 2 * b * l * d)


def dense(f, x, w, b):
    return f.relu(f.linear(x, w, b))


def mlp3(t, f, v):
    o2 = dense(f, v['i'], v['w2'], v['b2'])
    o3 = dense(f, o2, v['w3'], v['b3'])
    return o2, o3, dense(f, o3, v['w4'], v['b4'])


def production(b=128, d=64, l=50, e=10_000_000, x=1000, y=1024, n=128, o=64, p=32, q=2):
    tables = lookup(2, b, d, l, e).arguments
    layers = normal(x=(b, x), w=(y, x), w1=(n, 2 * d + y), b1=(n,), w2=(o, n), b2=(o,), w3=(p, o), b3=(p,), w4=(q, p),
                    b4=(q,))

    def run(t, f, v):
        parts = (f.embedding_bag(v['i1'], v['table1'], mode='sum'), f.embedding_bag(v['i2'], v['table2'], mode='sum'),
                 f.linear(v['x'], v['w']))
        h = t.cat(parts, 1)
        for k in '1234':
            h = dense(f, h, v['w' + k], v['b' + k])
        return h
    flops = 2 * b * (l * d + x * y + (2 * d + y) * n + n * o + o * p + p * q)
    return Row('mlp', 'production', lambda rng: tables(rng) | layers(rng), run, flops, 'production')


def lstm_step(b=64, i=256, h=256):
    def run(t, f, v):
        g = t.einsum('bi,kei->kbe', v['x'], v['w']) + t.einsum('bi,kei->kbe', v['h'], v['r']) + v['bias'][:, None]
        c = t.sigmoid(g[1]) * v['c'] + t.sigmoid(g[0]) * t.tanh(g[2])
        return t.sigmoid(g[3]) * t.tanh(c), c
    return Row('mlp', 'lstm_step', normal(x=(b, i), h=(b, h), c=(b, h), w=(4, h, i), r=(4, h, h), bias=(4, h)), run,
               8 * b * h * (i + h))


def rows(entry, n, k, run, **more):
    return Row('rows', entry, normal(x=(n, k), **more), run, 2 * n * k)


def moments(t, f, v):
    mean = v['x'].mean(1)
    return mean, (v['x'] * v['x']).mean(1) - mean * mean


def group_norm(n, size, g=32, d=16):
    def run(t, f, v):
        x = v['x'].reshape(n, g * d, size, size)
        return f.group_norm(x, g, v['gamma'].reshape(-1), v['beta'].reshape(-1), EPS).reshape(n, g, d, size, size)
    return Row('rows', 'group_norm', normal(x=(n, g, d, size, size), gamma=(g, d), beta=(g, d)), run,
               5 * n * g * d * size * size)


def kronecker_recurrent(t=64, b=16, p=8):
    def run(torch, f, v):
        h, all_h = torch.zeros_like(v['x'][0]), []
        for x in v['x']:
            h = torch.tanh(x + torch.einsum('bpqr,xp,yq,zr->bxyz', h, v['wp'], v['wq'], v['wr']))
            all_h.append(h)
        return torch.stack(all_h)
    return Row('research', 'kronecker_recurrent', normal(x=(t, b, p, p, p), wp=(p, p), wq=(p, p), wr=(p, p)), run,
               6 * t * b * p ** 4, 'research')


def capsule_routing(b=4, i=1152, j=10, d=16, s=3):
    def run(t, f, v):
        u, l = v['u'], t.zeros(b, i, j, dtype=v['u'].dtype)
        for k in range(s):
            out = t.einsum('bij,bijd->bjd', t.softmax(l, 2), u)
            n = (out * out).sum(2, keepdim=True)
            out = out * t.sqrt(n) / (1 + n)
            l = l + t.einsum('bijd,bjd->bij', u, out)
        return out
    return Row('research', 'capsule_routing', with_sizes(normal(u=(b, i, j, d)), S=s), run, 4 * s * b * i * j * d, 'research')


def ragged_attention(lengths=(17, 128, 64, 5, 96, 33, 120, 49), h=8, d=64):
    ends = np.cumsum(lengths, dtype=np.int32)
    bounds = {'first': np.repeat(ends - lengths, lengths).astype(np.int32), 'end': np.repeat(ends, lengths)}
    arrays = normal(q=(h, ends[-1], d), k=(h, ends[-1], d), v=(h, ends[-1], d))

    def run(t, f, v):
        parts = zip(*(v[name].split(list(lengths), 1) for name in 'qkv'))
        return t.cat([f.scaled_dot_product_attention(*part) for part in parts], 1)
    return Row('research', 'ragged_attention', with_sizes(lambda rng: arrays(rng) | bounds, M=max(lengths)), run,
               4 * h * d * sum(n * n for n in lengths), 'research')


def locally_connected(n=8, c=16, f_=16, size=32):
    out = size - 2

    def run(t, f, v):
        patches = f.unfold(v['x'], 3).reshape(n, c, 3, 3, out, out)
        return t.einsum('ncrshw,hwfcrs->nfhw', patches, v['k'])
    return Row('research', 'locally_connected', normal(x=(n, c, size, size), k=(out, out, f_, c, 3, 3)), run,
               18 * n * c * f_ * out * out, 'research')


def bilinear_pooling(b=128, l=20, p=32, e=100_000):
    return Row('research', 'bilinear_pooling',
               with_indices(normal(table1=(e, p), table2=(e, p)), i=((b, l), e), j=((b, l), e)),
               lambda t, f, v: t.einsum('blp,blq->bpq', f.embedding(v['i'], v['table1']), f.embedding(v['j'], v['table2'])),
               2 * b * l * p * p, 'research')


def gated_recurrence(t=256, b=8, d=512):
    def run(torch, f, v):
        h, all_h = torch.zeros_like(v['x'][0]), []
        for x, gate in zip(v['x'], torch.sigmoid(v['gate'])):
            h = gate * h + (1 - gate) * x
            all_h.append(h)
        return torch.stack(all_h)
    return Row('research', 'gated_recurrence', normal(x=(t, b, d), gate=(t, b, d)), run, 12 * t * b * d, 'research')


def softmax(t, f, v):
    return t.softmax(v['x'], 1)


ROWS = {
    'tmm_128x256x32': tmm(128, 256, 32),
    'tmm_128x1024x1024': tmm(128, 1024, 1024),
    'tmm_128x16384x4096': tmm(128, 16384, 4096),
    'tbmm': Row('products', 'tbmm', normal(x=(500, 26, 72), y=(500, 72, 26)), lambda t, f, v: t.bmm(v['x'], v['y']),
                2 * 500 * 26 * 72 * 26),
    'c3': Row('products', 'c3', normal(i=(128, 1000), w=(1024, 1000)), lambda t, f, v: f.linear(v['i'], v['w']),
              2 * 128 * 1000 * 1024),
    'tensordot_28': Row('products', 'tensordot', normal(x=(32, 512, 8, 28, 28), y=(32, 8, 2, 28, 28)),
                        lambda t, f, v: t.einsum('nabhw,nbchw->nachw', v['x'], v['y']), 2 * 32 * 512 * 8 * 2 * 28 * 28),
    'tensordot_17': Row('products', 'tensordot', normal(x=(16, 8, 16, 17, 25), y=(16, 16, 2, 17, 25)),
                        lambda t, f, v: t.einsum('nabhw,nbchw->nachw', v['x'], v['y']), 2 * 16 * 8 * 16 * 2 * 17 * 25),
    'kronecker_32': kronecker(256, 16, 32),
    'kronecker_64': kronecker(256, 16, 64),
    **{f'group_convolution_{c}x{size}': group_convolution(c, size) for c, size in ((4, 56), (8, 28), (16, 14), (32, 7))},
    'convolution': Row('convolutions', 'convolution', normal(x=(32, 4, 56, 56), k=(4, 4, 3, 3), bias=(4,)),
                       lambda t, f, v: f.conv2d(v['x'], v['k'], v['bias']), 2 * 32 * 16 * 9 * 54 * 54),
    'wavenet_1': wavenet(1),
    'wavenet_32': wavenet(32),
    'lut1': lookup(1),
    'lut2': lookup(2),
    'mlp1': Row('mlp', 'mlp1', normal(i=(128, 2000), w=(128, 2000), bias=(128,)),
                lambda t, f, v: dense(f, v['i'], v['w'], v['bias']), 2 * 128 * 2000 * 128),
    'mlp3': Row('mlp', 'mlp3', normal(i=(128, 128), w2=(64, 128), b2=(64,), w3=(32, 64), b3=(32,), w4=(2, 32), b4=(2,)), mlp3,
                2 * 128 * (128 * 64 + 64 * 32 + 32 * 2)),
    'lstm_step': lstm_step(),
    'sum': rows('sum', 128, 2304, lambda t, f, v: v['x'].sum(1)),
    'mean': rows('mean', 128, 2304, lambda t, f, v: v['x'].mean(1)),
    'sum_squares': rows('sum_squares', 128, 2304, lambda t, f, v: (v['x'] * v['x']).sum(1)),
    'sum_and_squares': rows('sum_and_squares', 128, 2304, lambda t, f, v: (v['x'].sum(1), (v['x'] * v['x']).sum(1))),
    'variance': rows('variance', 128, 2304, lambda t, f, v: (v['x'] * v['x']).mean(1) - v['mean'] * v['mean'], mean=(128,)),
    'moments_128x2304': rows('moments', 128, 2304, moments),
    'moments_1024x36864': rows('moments', 1024, 36864, moments),
    'softmax_128x2304': rows('softmax', 128, 2304, softmax),
    'softmax_stored_128x2304': rows('softmax_stored', 128, 2304, softmax),
    'layer_norm_128x2304': rows('layer_norm', 128, 2304,
                                lambda t, f, v: f.layer_norm(v['x'], (2304,), v['gamma'], v['beta'], EPS),
                                gamma=(2304,), beta=(2304,)),
    'group_norm_4x12': group_norm(4, 12),
    'group_norm_32x48': group_norm(32, 48),
    'production': production(),
    'kronecker_recurrent': kronecker_recurrent(),
    'capsule_routing': capsule_routing(),
    'ragged_attention': ragged_attention(),
    'locally_connected': locally_connected(),
    'bilinear_pooling': bilinear_pooling(),
    'gated_recurrence': gated_recurrence(),
}


def tuple_of(value):
    return value if isinstance(value, tuple) else (value,)


def exported(torch, row, tensors, path):
    """The row's function of torch as an ONNX file whose inputs are all its arguments."""
    class Net(torch.nn.Module):
        def forward(self, *values):
            return row.torch(torch, torch.nn.functional, dict(zip(tensors, values, strict=True)))
    with torch.inference_mode():
        torch.onnx.export(Net(), tuple(tensors.values()), path, input_names=list(tensors), dynamo=False, opset_version=18)


def measure(name, threads, seconds):
    """The document of one row: times of each arm in microseconds, sorted, seconds before them, and the error."""
    import weft
    row = ROWS[name]
    arguments = row.arguments(np.random.default_rng(1))
    text = (TEXTS / f'{row.file}.tc').read_text()
    with tempfile.TemporaryDirectory() as cache:  # compiled by this process, not found
        ours = weft.comprehension(text, row.entry, threads=threads, file=f'{row.file}.tc', cache_dir=cache)
        begin = time.perf_counter()
        ours(**arguments)
        called = time.perf_counter()
        ours.tune(**arguments, budget=20)
        out = {'compile_s': called - begin, 'tune_s': time.perf_counter() - called}
        found = tuple_of(ours(**arguments))
    arms = {'weft': lambda: ours(**arguments)}
    if importlib.util.find_spec('torch'):
        import torch
        torch.set_num_threads(threads)
        functional = torch.nn.functional
        tensors = {k: torch.from_numpy(v) for k, v in arguments.items() if isinstance(v, np.ndarray)}
        with torch.inference_mode():
            exact = row.torch(torch, functional, {k: v.double() if v.is_floating_point() and v.numel() < 1 << 28 else v
                                                  for k, v in tensors.items()})
        compiled = torch.compile(row.torch, dynamic=False, options={'max_autotune': True, 'freezing': True})

        def torch_arm(function):
            def run():
                with torch.inference_mode():
                    return function(torch, functional, tensors)
            return run
        arms |= {'eager': torch_arm(row.torch), 'compiled': torch_arm(compiled)}
        try:
            with tempfile.TemporaryDirectory() as folder:
                exported(torch, row, tensors, f'{folder}/{name}.onnx')
                plan = weft.build(f'{folder}/{name}.onnx', threads=threads, force='vendor')
            given = {tensor.name: arguments[tensor.name] for tensor in plan.inputs}
            arms['library'] = lambda: plan.run(given)
        except (weft.Error, RuntimeError) as why:
            out['no_library'] = str(why)
        errors = [np.abs(a - b.double().numpy()).max() / max(np.abs(b.double().numpy()).max(), 1e-30)
                  for a, b in zip(found, tuple_of(exact), strict=True)]
        out['error'] = float(max(errors))
    moved = sum(np.asarray(v).nbytes for v in arguments.values()) + sum(v.nbytes for v in found)
    tables = [v for k, v in arguments.items() if k.startswith('table')]
    if tables:  # of which only the rows that are looked up move
        looked_up = sum(v.size for v in arguments.values() if getattr(v, 'dtype', None) == np.int32)
        moved += looked_up * tables[0][0].nbytes - sum(t.nbytes for t in tables)
    times = {arm: [] for arm in arms}
    per_call = {}
    for arm, run in arms.items():
        for _ in range(2):
            begin = time.perf_counter()
            run()
            per_call[arm] = time.perf_counter() - begin
    slow = [arm for arm in arms if per_call[arm] > max(seconds, 1)]
    for arm in slow:  # that one call takes longer than all should is answer enough
        times[arm].append(per_call[arm] * 1e6)
    taking_turns, rounds = [arm for arm in arms if arm not in slow], 8
    for _ in range(rounds):
        for arm in random.sample(taking_turns, len(taking_turns)):
            time.sleep(0.02)  # workers of the arm before stop spinning
            calls = max(1, int(seconds / rounds / len(arms) / max(per_call[arm], 1e-6)))
            arms[arm]()
            for _ in range(min(calls, 2000)):
                begin = time.perf_counter()
                arms[arm]()
                times[arm].append((time.perf_counter() - begin) * 1e6)
    return {**out, 'us': {arm: sorted(t) for arm, t in times.items()}, 'flops': row.flops, 'bytes': moved}


def main():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('--threads', type=int, nargs='+', default=[1, 2])
    made.add_argument('--only', nargs='+', choices=list(ROWS), metavar='NAME')
    made.add_argument('--seconds', type=float, default=3, help='of measuring, for all arms of a row')
    made.add_argument('--save', type=Path, help='everything that was measured, as JSON')
    made.add_argument('--row', help=argparse.SUPPRESS)  # in a process of its own
    args = made.parse_args()
    if args.row:
        json.dump(measure(args.row, args.threads[0], args.seconds), sys.stdout)
        return
    saved, ratios, cores = [], {}, sorted(os.sched_getaffinity(0))
    print('| row | threads | weft us | floor | eager | compiled | library | error |\n| --- | --- | --- | --- | --- | --- | --- | --- |')
    for threads in args.threads:
        os.sched_setaffinity(0, cores[:threads])  # of all that is started from here
        devices = subprocess.run(['weft', 'devices', '--json', '--quiet'], stdout=subprocess.PIPE, text=True, check=True)
        peaks = json.loads(devices.stdout)['devices'][0]
        for name in args.only or ROWS:
            command = [sys.executable, __file__, '--row', name, '--threads', str(threads), '--seconds', str(args.seconds)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f'| {name} | {threads} | failed | | | | | |', flush=True)
                continue
            result = json.loads(done.stdout)
            middle = {arm: statistics.median(t) for arm, t in result['us'].items()}
            floor = max(result['flops'] / peaks['peak_flops_per_s'], result['bytes'] / peaks['peak_bytes_per_s']) * 1e6
            speeds = {arm: middle[arm] / middle['weft'] for arm in PEERS if arm in middle}
            for arm, speed in speeds.items():
                ratios.setdefault((ROWS[name].family, threads, arm), []).append((speed, name))
            cells = ' | '.join(f'{speeds[arm]:.2f}' if arm in speeds else '-' for arm in PEERS)
            print(f'| {name} | {threads} | {middle["weft"]:.1f} | {floor:.1f} | {cells} | {result.get("error", math.nan):.1e} |',
                  flush=True)
            saved.append({'row': name, 'threads': threads, 'peaks': peaks, 'middle_us': middle,
                          **{k: v for k, v in result.items() if k != 'us'}})
    print('\n| family | threads | against | geometric mean | worst |\n| --- | --- | --- | --- | --- |')
    for (family, threads, arm), found in ratios.items():
        mean = math.exp(sum(math.log(speed) for speed, _ in found) / len(found))
        print(f'| {family} | {threads} | {arm} | {mean:.2f} | {min(found)[0]:.2f} {min(found)[1]} |')
    if args.save:
        args.save.write_text(json.dumps(saved, indent=1))


if __name__ == '__main__':
    main()
