"""Whole networks: weft's measured plan beside its library-only and own-only plans, onnxruntime and OpenVINO.

    ./dev bench networks [--threads 1 2] [--only NAME ...] [--seconds 20] [--save FILE.json] [--agreement]

All arms of a row run in turns in one `weft compare`, on the same inputs; a figure is a ratio of medians with its 95 %
interval. Machines differ from day to day, so ratios are what to read. Models are made or fetched on the first call.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / 'build' / 'models'
ARMS = ['vendor', 'own', 'onnxruntime', 'openvino']
NETWORKS = {
    'ResNet-50': ('resnet50.onnx', ['--dim', 'batch=1']),
    'MobileNetV2': ('mobilenetv2.onnx', ['--dim', 'batch=1']),
    'BERT-base S=128': ('bert_base.onnx', ['--dim', 'batch=1', '--dim', 'S=128']),
    'DLRM batch=8': ('dlrm.onnx', ['--dim', 'batch=8']),
    'PP-OCR rec 320': ('ppocr_rec.onnx', ['--shape', 'x=1x3x48x320']),
    'PP-OCR rec 1280': ('ppocr_rec.onnx', ['--shape', 'x=1x3x48x1280']),
    'PP-OCR det 640': ('ppocr_det.onnx', ['--shape', 'x=1x3x640x640']),
    'PP-OCR cls': ('ppocr_cls.onnx', ['--shape', 'x=1x3x48x192']),
}


def images(*shapes):
    return [['--shape', f'x={shape}'] for shape in shapes]


def pages(*sizes):
    return [['--shape', f'x=1x3x{size}', '--inputs', str(MODELS / f'page_{size}.npz')] for size in sizes]


AGREEMENT = (
    ('ResNet-50', 'resnet50.onnx', (['--dim', 'batch=1'], ['--dim', 'batch=2'])),
    ('MobileNetV2', 'mobilenetv2.onnx', (['--dim', 'batch=1'], ['--dim', 'batch=3'])),
    ('BERT-base', 'bert_base.onnx', (['--dim', 'batch=1', '--dim', 'S=128'], ['--dim', 'batch=2', '--dim', 'S=31'])),
    ('DLRM', 'dlrm.onnx', (['--dim', 'batch=8'], ['--dim', 'batch=1'])),
    ('PP-OCR rec', 'ppocr_rec.onnx', images('1x3x48x320', '1x3x48x1280')),
    ('PP-OCR det', 'ppocr_det.onnx', pages('640x640', '320x480')),
    ('PP-OCR cls', 'ppocr_cls.onnx', images('1x3x48x192', '4x3x48x192')),
)


def get_models():
    python = str(ROOT / '.venv' / 'bin' / 'python')
    if not (MODELS / 'bert_base.onnx').exists():
        subprocess.run([python, str(ROOT / 'models' / 'make_models.py'), '--out', str(MODELS), 'resnet50', 'mobilenetv2',
                        'dlrm', 'bert_base'], check=True)
    if not (MODELS / 'ppocr_rec.onnx').exists():
        subprocess.run([python, str(ROOT / 'models' / 'fetch_ppocr.py'), '--out', str(MODELS)], check=True)
    for size in ('640x640', '320x480'):
        if not (MODELS / f'page_{size}.npz').exists():
            subprocess.run([python, str(ROOT / 'models' / 'page.py'), size, '--out', str(MODELS / f'page_{size}.npz')],
                           check=True)


def compare(name, model, binding, arms, *options, env=()):
    command = ['weft', 'compare', str(MODELS / model), *binding, '--against', ','.join(arms), *options, '--json', '--quiet']
    env = {**os.environ, 'WEFT_PEER_PYTHON': sys.executable, **dict(env)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env)
    if done.returncode not in (0, 1):
        sys.exit(f'{name}: {" ".join(command)} exits {done.returncode}: {done.stdout}')
    return json.loads(done.stdout)


def agreement():
    """Errors against double precision, of onnxruntime, the estimated plan, and own kernels with oneDNN out of reach."""
    print('Largest error as a part of the output\'s scale, against double precision\n')
    print('| network | shape | onnxruntime | weft | own kernels only |\n|---|---|---|---|---|')
    for name, model, bindings in AGREEMENT:
        for binding in bindings:
            once = ['--runs', '1', '--warmup', '0', '--budget', '0']
            both = compare(name, model, binding, ['onnxruntime'], *once)['accuracy']
            own = compare(name, model, binding, ['reference'], *once, '--force', 'own', '--strict',
                          env={'WEFT_ONEDNN': 'none'}.items())['accuracy']
            errors = [both['onnxruntime'], both['weft'], own['weft']]
            print(f'| {name} | {" ".join(b for b in binding[1::2] if not b.endswith(".npz"))} | ' + ' | '.join(f'{e["max_rel"]:.1e}' for e in errors) + ' |', flush=True)
            if not all(e['within'] for e in errors[1:]):  # onnxruntime may be as far off as it likes
                sys.exit(f'{name}: outside the tolerance')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--threads', type=int, nargs='+', default=[1, 2])
    parser.add_argument('--only', nargs='+', choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument('--seconds', type=float, default=20)
    parser.add_argument('--agreement', action='store_true', help='errors at two shapes each instead of speed')
    parser.add_argument('--save', help='everything that was measured, as JSON')
    args = parser.parse_args()
    get_models()
    if args.agreement:
        return agreement()
    print('Speed of weft against each arm (above 1: weft is faster), error as a part of the output\'s scale\n')
    print('| network | threads | weft ms | ' + ' | '.join(ARMS) + ' | error |')
    print('|---|---|---|' + '---|' * (len(ARMS) + 1))
    rows = []
    for name in args.only:
        for threads in args.threads:
            result = compare(name, *NETWORKS[name], ARMS, '--threads', str(threads), '--duration', f'{args.seconds}s')
            rows.append({'network': name, 'threads': threads, **result})
            ratios = [f'{mid:.2f} [{low:.2f}, {high:.2f}]' for low, mid, high in (result['speedup'][arm] for arm in ARMS)]
            print(f'| {name} | {threads} | {result["arms"][0]["p50_us"] / 1e3:.2f} | {" | ".join(ratios)} '
                  f'| {result["accuracy"]["weft"]["max_rel"]:.1e} |', flush=True)
    env = rows[0]['env']
    print(f'\n{env["cpu"]}, {env["isa"]}, {env["libraries"]}, '
          + ', '.join(f'{peer} {version}' for peer, version in env['peers'].items()))
    if args.save:
        Path(args.save).write_text(json.dumps(rows, indent=1) + '\n')


if __name__ == '__main__':
    main()
