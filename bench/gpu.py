"""Kernels and networks on a GPU: weft's measured plan beside its own kernels alone and the vendor's libraries alone.

    ./dev bench gpu [--part kernels networks] [--family NAME ...] [--only ROW ...] [--seconds 2] [--save FILE.json]

Without a device it says so and ends with 0. Three plans of each row take turns in one `weft compare`: `mixed`, what a
measured build chooses, `own` kernels only, and `vendor`, calls of cuDNN and cuBLASLt wherever they can. Their times are
those between two events of the stream, of whole runs with operands in the device's memory; caches are not flushed
between runs. onnxruntime's CUDA provider and torch (max-autotune, in plain f32) are arms where they are installed; a
host waits for them, so they are held against what a host waits for weft.

GB/s counts operands, results and constants of a row once, Gflop/s the multiply-adds of its products and convolutions;
rows end in `_l2`, `_dram` (64 MB and more, which a GPU's caches hold in part) and `_hbm` (four times as much).
`of copy` and `of peak` are shares of what the device copies and multiplies, measured in this run.
"""
import argparse
import json
import math
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import onnx
from onnx import numpy_helper

import arms
import families
import networks

ROWS_OF = {  # the kernels by what they are, and the families of bench/families.py that are that
    'pointwise': ('elementwise',), 'softmax': ('softmax',), 'norms': ('normalization',), 'reductions': ('reduction',),
    'transposes': ('layout',), 'pooling': ('pooling',), 'GEMMs': ('gemm', 'mlp', 'gemv_chain'),
    'convolutions': ('conv1x1', 'conv3x3', 'conv3x3_strided', 'first_layer', 'depthwise', 'grouped', 'inverted_residual'),
    'attention': ('attention',)}
KERNELS = {kind: {name: row for family in names for name, row in families.FAMILIES[family].items()}
           for kind, names in ROWS_OF.items()}
for kind in ('pointwise', 'softmax', 'norms', 'reductions', 'transposes', 'pooling'):
    # What does not fit into a CPU's caches, four times as large: several times what those of a GPU hold.
    KERNELS[kind] |= {name.removesuffix('_dram') + '_hbm': row._replace(shapes=[(4 * first, *rest) for first, *rest in row.shapes])
                      for name, row in KERNELS[kind].items() if name.endswith('_dram')}
    families.ROWS |= KERNELS[kind]
WHOLE = ('large CNNs', 'mobile CNNs', 'transformers', 'recommenders', 'OCR, detector, classifier', 'batches')
NETWORKS = {name: network for family in WHOLE for name, network in networks.FAMILIES[family].items()}
PLANS = ('own', 'vendor')
ARCHITECTURES = {8: 'cuda:sm_80', 9: 'cuda:sm_90', 10: 'cuda:sm_100'}  # by major compute capability
COPY_NOTE = 'us on the device; speeds above 1: mixed is faster; -: the arm cannot run it'


def device():
    """The first GPU that weft can build for, as `weft devices` tells of it; ends the program where there is none."""
    said = subprocess.run(['weft', 'devices', '--json', '--quiet'], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(said.stdout)
    for one in found['cuda']['devices']:
        target = ARCHITECTURES.get(int(one['compute_capability'].split('.')[0]))
        if target in found['cuda']['targets']:
            return {**one, 'target': target, 'compiler': found['cuda']['compiler'], 'libraries': found['libraries']}
    print('skipped: ' + (found['cuda']['why_no_device'] or found['cuda']['why_no_compiler'] or
                         'no device of compute capability 8, 9 or 10'))
    sys.exit(0)


def peers():
    """Those that can use the GPU, asked in processes of their own."""
    tests = {'onnxruntime': 'import onnxruntime as o; assert "CUDAExecutionProvider" in o.get_available_providers()',
             'torch': 'import torch; assert torch.cuda.is_available()'}
    return [peer for peer, test in tests.items()
            if subprocess.run([sys.executable, '-c', test], capture_output=True).returncode == 0]


def elements(value):
    return math.prod(d.dim_value for d in value.type.tensor_type.shape.dim)


def work(model):
    """(bytes, flops): what goes in and out once, and multiply-adds, as two each."""
    size = lambda v: elements(v) * onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type).itemsize  # noqa: E731
    graph = model.graph
    values = {v.name: elements(v) for v in (*graph.input, *graph.output, *graph.value_info)}
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.input, *graph.value_info)}
    shapes |= {t.name: list(t.dims) for t in graph.initializer}
    moved = sum(map(size, (*graph.input, *graph.output))) + sum(numpy_helper.to_array(t).nbytes for t in graph.initializer)
    flops = 0
    for node in graph.node:
        if node.op_type in ('MatMul', 'Gemm'):
            turned = any(a.name == 'transA' and a.i for a in node.attribute)
            flops += 2 * values[node.output[0]] * shapes[node.input[0]][-2 if turned else -1]
        elif node.op_type == 'Conv':
            flops += 2 * values[node.output[0]] * math.prod(shapes[node.input[1]][1:])
    return moved, flops


def measure(file, others, options, seconds):
    """One `weft compare`; a peer that cannot run the row is left out."""
    able = [*PLANS, *others]
    while True:
        try:
            return arms.compare(file, able, *options, '--duration', f'{seconds}s')
        except arms.Failed as why:
            if why.arm not in able:
                raise
            able.remove(why.arm)


def times(result):
    """Microseconds on the device by plan."""
    return {('mixed' if arm['name'] == 'weft' else arm['name']): arm['device_us'] for arm in result['arms'] if 'device_us' in arm}


def speeds(result, others):
    us = times(result)
    ratios = [us[plan] / us['mixed'] for plan in PLANS] + [result['speedup'].get(peer, [0, math.nan])[1] for peer in others]
    return ['-' if math.isnan(ratio) else f'{ratio:.2f}' for ratio in ratios]


def steps(result):
    """How many of the mixed plan's steps are whose."""
    return '/'.join(str(result['arms'][0]['steps'].get(kind, 0)) for kind in ('own', 'vendor', 'native'))


def error(result):
    accuracy = result['accuracy']['weft']
    return f'{accuracy["max_rel"]:.1e}{"" if accuracy["within"] else " WRONG"}'


class Run:
    def __init__(self, args):
        self.args, self.device, self.peers, self.bad = args, device(), peers(), []
        self.options = ['--target', self.device['target'], *(['--budget', args.budget] if args.budget else [])]
        self.document = {'date': datetime.now(timezone.utc).isoformat(timespec='seconds'), 'device': self.device,
                         'kernels': [], 'networks': []}

    def one(self, name, file, options):
        try:
            result = measure(file, self.peers, [*self.options, *options], self.args.seconds)
        except arms.Failed as why:
            self.bad.append(f'{name}: {why}')
            arms.line(name, 'failed')
            return None
        if not result['accuracy']['weft']['within']:
            self.bad.append(f'{name}: outside the tolerance')
        self.document['env'] = result['env']
        return result

    def save(self):
        if self.args.save:
            self.args.save.write_text(json.dumps(self.document, indent=1) + '\n')

    def kernels(self):
        for kind in self.args.family:
            rows = {name: row for name, row in KERNELS[kind].items() if not self.args.only or name in self.args.only}
            if not rows:
                continue
            print(f'\n## {kind}\n')
            arms.heading('row', 'mixed us', 'own us', 'vendor us', *PLANS, *self.peers, 'own/vendor/native', 'GB/s', 'of copy',
                         'Gflop/s', 'of peak', 'error')
            for name, row in rows.items():
                result = self.one(name, families.path(name), row.options)
                if not result:
                    continue
                moved, flops = work(families.make(name))
                us = times(result)
                rate, speed = moved / us['mixed'] * 1e6, flops / us['mixed'] * 1e6
                shares = {'of_copy': rate / self.device['peak_bytes_per_s'], 'of_peak': speed / self.device['peak_flops_per_s']}
                arms.line(name, *(f'{us[plan]:.1f}' for plan in ('mixed', *PLANS)), *speeds(result, self.peers), steps(result),
                          f'{rate / 1e9:.1f}', f'{shares["of_copy"]:.2f}', f'{speed / 1e9:.1f}', f'{shares["of_peak"]:.2f}',
                          error(result))
                self.document['kernels'].append({'family': kind, 'row': name, 'bytes': moved, 'flops': flops, 'device_us': us,
                                                 **shares, **result})
                self.save()

    def networks(self):
        wanted = {name: network for name, network in NETWORKS.items() if not self.args.only or name in self.args.only}
        if not wanted:
            return
        networks.get_models({model for model, _ in wanted.values()})
        print('\n## networks\n')
        arms.heading('network', 'mixed us', 'own us', 'vendor us', *PLANS, *self.peers, 'own/vendor/native', 'error')
        for name, (model, binding) in wanted.items():
            result = self.one(name, arms.MODELS / f'{model}.onnx', binding)
            if not result:
                continue
            us = times(result)
            arms.line(name, *(f'{us[plan]:.1f}' for plan in ('mixed', *PLANS)), *speeds(result, self.peers), steps(result),
                      error(result))
            self.document['networks'].append({'network': name, 'device_us': us, **result})
            self.save()


def main():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('--part', nargs='+', choices=('kernels', 'networks'), default=('kernels', 'networks'))
    made.add_argument('--family', nargs='+', choices=KERNELS, default=list(KERNELS), metavar='NAME', help=', '.join(KERNELS))
    made.add_argument('--only', nargs='+', metavar='NAME', help='rows of kernels, or networks, by name')
    made.add_argument('--seconds', type=float, default=2, help='of measuring, at most, for all arms of a row')
    made.add_argument('--budget', help='of each measured build, as of `weft build`')
    made.add_argument('--save', type=Path, help='everything that was measured, as JSON')
    made.add_argument('--probe', action='store_true', help='only say so where there is no device')
    args = made.parse_args()
    if args.probe:
        return device()
    known = [*NETWORKS, *(name for rows in KERNELS.values() for name in rows)]
    if unknown := set(args.only or ()) - set(known):
        made.error(f'--only: no row is called {", ".join(sorted(unknown))}')
    run = Run(args)
    d = run.device
    print(f'{d["name"]}, compute capability {d["compute_capability"]}, driver {d["driver"]}, {d["compiler"]}, '
          f'{d["libraries"]["cudnn"] or "no cuDNN"}, {d["libraries"]["cublas"] or "no cuBLASLt"}\n'
          f'measured: {d["peak_bytes_per_s"] / 1e9:.1f} GB/s copied, {d["peak_flops_per_s"] / 1e9:.1f} Gflop/s in f32\n'
          f'{COPY_NOTE}' + ('' if run.peers else '; neither onnxruntime nor torch can use the GPU here'))
    run.save()
    for part in args.part:
        getattr(run, part)()
    if run.bad:
        sys.exit('\n' + '\n'.join(run.bad))


if __name__ == '__main__':
    main()
