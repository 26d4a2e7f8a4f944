"""Whole networks: weft's measured plan beside its library-only and own-only plans, onnxruntime, OpenVINO and torch.

    ./dev bench networks [--threads 1 2] [--only NAME ...] [--seconds 20] [--save FILE.json] [--agreement]

All arms of a row run in turns in one `weft compare`, on the same inputs; a figure is a ratio of medians with its 95 %
interval. Machines differ from day to day, so ratios are what to read. Models are made or fetched on the first call.
"""
import subprocess
import sys

import arms
from arms import MODELS, ROOT

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


def agreement():
    """Errors against double precision, of onnxruntime, the estimated plan, and own kernels with oneDNN out of reach."""
    print('Largest error as a part of the output\'s scale, against double precision\n')
    arms.heading('network', 'shape', 'onnxruntime', 'weft', 'own kernels only')
    for name, model, bindings in AGREEMENT:
        for binding in bindings:
            once = [*binding, '--runs', '1', '--warmup', '0', '--budget', '0']
            both = arms.compare(MODELS / model, ['onnxruntime'], *once)['accuracy']
            own = arms.compare(MODELS / model, ['reference'], *once, '--force', 'own', '--strict',
                               env={'WEFT_ONEDNN': 'none'})['accuracy']
            errors = [both['onnxruntime'], both['weft'], own['weft']]
            shape = ' '.join(b for b in binding[1::2] if not b.endswith('.npz'))
            arms.line(name, shape, *(f'{e["max_rel"]:.1e}' for e in errors))
            if not all(e['within'] for e in errors[1:]):  # onnxruntime may be as far off as it likes
                sys.exit(f'{name}: outside the tolerance')


def main():
    parser = arms.parser(__doc__, NETWORKS, seconds=20)
    parser.add_argument('--agreement', action='store_true', help='errors at two shapes each instead of speed')
    args = parser.parse_args()
    get_models()
    if args.agreement:
        return agreement()
    print(arms.NOTE + '\n')
    arms.heading('network', 'threads', 'weft ms', *arms.COLUMNS)
    results = []
    for name in args.only or NETWORKS:
        model, binding = NETWORKS[name]
        for threads in args.threads:
            result = arms.measure(MODELS / model, threads, args.seconds, *binding)
            results.append({'network': name, 'threads': threads, **result})
            arms.line(name, str(threads), f'{arms.weft_us(result) / 1e3:.2f}', *arms.cells(result))
            arms.save(args.save, results)
    print('\n' + arms.machine(results))


if __name__ == '__main__':
    main()
