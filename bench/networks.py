"""Whole networks: weft's measured plan beside its library-only and own-only plans, onnxruntime, OpenVINO and torch.

    ./dev bench networks [--threads 1 2] [--family NAME ...] [--only NAME ...] [--allow LIST] [--seconds 20]
                         [--save FILE.json] [--agreement | --errors 5]

All arms of a row run in turns in one `weft compare`, on the same inputs; a figure is a ratio of medians with its 95 %
interval. Machines differ from day to day, so ratios are what to read. `best peer` is weft's speed against the fastest of
onnxruntime, OpenVINO and torch; the last table has its geometric mean and worst row by family, and the same against the
library-only plan. --allow passes on what may change results (`winograd`, `winograd,bf16`): its figures are a column of
their own. Models are made or fetched on the first call.
"""
import math
import subprocess
import sys

import arms
import numpy as np
from arms import MODELS, ROOT


def dims(**extents):
    return [word for name, extent in extents.items() for word in ('--dim', f'{name}={extent}')]


def image(shape):
    return ['--shape', f'x={shape}']


ONE = dims(batch=1)
BF16_TOLERANCE = '0.05'  # of the scale: of random weights, factors of eight bits
FAMILIES = {
    'large CNNs': {
        'ResNet-18': ('resnet18', ONE), 'ResNet-50': ('resnet50', ONE), 'VGG-16': ('vgg16', ONE)},
    'mobile CNNs': {
        'MobileNetV2': ('mobilenetv2', ONE), 'MobileNetV3-L': ('mobilenetv3_large', ONE),
        'EfficientNet-B0': ('efficientnet_b0', ONE)},
    'transformers': {
        'BERT-base S=128': ('bert_base', dims(batch=1, S=128)), 'MiniLM S=32': ('minilm', dims(batch=1, S=32)),
        'MiniLM S=128': ('minilm', dims(batch=1, S=128)), 'GPT-2 prefill S=64': ('gpt2', dims(batch=1, S=64, P=0)),
        'GPT-2 decode P=64': ('gpt2', dims(batch=1, S=1, P=64)), 'ViT-B/16': ('vit_b16', ONE)},
    'recommenders': {f'DLRM batch={batch}': ('dlrm_small', dims(batch=batch)) for batch in (1, 128, 2048)},
    'audio and recurrent': {
        'LSTM T=100': ('lstm', ONE), 'WaveNet': ('wavenet', ONE), 'VAD': ('silero_vad_openvino', [])},
    'OCR, detector, classifier': {
        'PP-OCR rec 320': ('ppocr_rec', image('1x3x48x320')), 'PP-OCR det 640': ('ppocr_det', image('1x3x640x640')),
        'PP-OCR cls': ('ppocr_cls', image('1x3x48x192')), 'YOLOv8n 320': ('yolov8n', ONE),
        'magika': ('magika', ['--shape', 'bytes=1x2048', '--inputs', str(MODELS / 'magika.npz')])},
    'batches': {
        'ResNet-50 batch=8': ('resnet50', dims(batch=8)), 'MobileNetV2 batch=32': ('mobilenetv2', dims(batch=32)),
        'BERT-base batch=8 S=128': ('bert_base', dims(batch=8, S=128))},
    'eight bits': {
        'ResNet-50 int8': ('resnet50_int8', ONE), 'BERT-base int8 S=128': ('bert_base_int8', dims(batch=1, S=128))},
    'others': {
        'ResNet-3D-18': ('resnet3d18', ONE), 'PP-OCR rec 1280': ('ppocr_rec', image('1x3x48x1280')),
        'GCN': ('gcn', [*dims(nodes=2708, edges=10556), '--inputs', str(MODELS / 'gcn.npz')])},
}
NETWORKS = {name: network for family in FAMILIES.values() for name, network in family.items()}
FETCHED = {'silero_vad_openvino': 'fetch_networks', 'magika': 'fetch_networks', 'ppocr_rec': 'fetch_ppocr',
           'ppocr_det': 'fetch_ppocr', 'ppocr_cls': 'fetch_ppocr', 'resnet50_int8': 'quantize', 'bert_base_int8': 'quantize'}


def images(*shapes):
    return [['--shape', f'x={shape}'] for shape in shapes]


def pages(*sizes):
    return [['--shape', f'x=1x3x{size}', '--inputs', str(MODELS / f'page_{size}.npz')] for size in sizes]


AGREEMENT = (
    ('ResNet-50', 'resnet50', (['--dim', 'batch=1'], ['--dim', 'batch=2'])),
    ('MobileNetV2', 'mobilenetv2', (['--dim', 'batch=1'], ['--dim', 'batch=3'])),
    ('BERT-base', 'bert_base', (['--dim', 'batch=1', '--dim', 'S=128'], ['--dim', 'batch=2', '--dim', 'S=31'])),
    ('DLRM', 'dlrm', (['--dim', 'batch=8'], ['--dim', 'batch=1'])),
    ('PP-OCR rec', 'ppocr_rec', images('1x3x48x320', '1x3x48x1280')),
    ('PP-OCR det', 'ppocr_det', pages('640x640', '320x480')),
    ('PP-OCR cls', 'ppocr_cls', images('1x3x48x192', '4x3x48x192')),
)


def get_models(names):
    """Makes or fetches the files that are not there yet."""
    def script(name, *arguments):
        subprocess.run([str(ROOT / '.venv' / 'bin' / 'python'), str(ROOT / 'models' / f'{name}.py'), *arguments], check=True)

    missing = {name for name in names if not (MODELS / f'{name}.onnx').exists()}
    makers = {name: FETCHED.get(name, 'make_models') for name in missing}
    for maker in sorted(set(makers.values())):
        wanted = [] if maker == 'fetch_ppocr' else [name for name in makers if makers[name] == maker]
        script(maker, '--out', str(MODELS), *wanted)
    if 'gcn' in names and not (MODELS / 'gcn.npz').exists():
        script('citations', '--out', str(MODELS / 'gcn.npz'))
    if 'magika' in names and not (MODELS / 'magika.npz').exists():
        # It looks bytes up: of other numbers it makes rows of zeros, whose normalization is noise.
        values = np.random.default_rng(0).integers(0, 256, (1, 2048), dtype=np.int32)
        np.savez(MODELS / 'magika.npz', bytes=values)
    if 'ppocr_det' in names:
        for size in ('640x640', '320x480'):
            if not (MODELS / f'page_{size}.npz').exists():
                script('page', size, '--out', str(MODELS / f'page_{size}.npz'))


def agreement():
    """Errors against double precision, of onnxruntime, the estimated plan, and own kernels with oneDNN out of reach."""
    print('Largest error as a part of the output\'s scale, against double precision\n')
    arms.heading('network', 'shape', 'onnxruntime', 'weft', 'own kernels only')
    for name, model, bindings in AGREEMENT:
        for binding in bindings:
            once = [*binding, '--runs', '1', '--warmup', '0', '--budget', '0']
            both = arms.compare(MODELS / f'{model}.onnx', ['onnxruntime'], *once)['accuracy']
            own = arms.compare(MODELS / f'{model}.onnx', ['reference'], *once, '--force', 'own', '--strict',
                               env={'WEFT_ONEDNN': 'none'})['accuracy']
            errors = [both['onnxruntime'], both['weft'], own['weft']]
            shape = ' '.join(b for b in binding[1::2] if not b.endswith('.npz'))
            arms.line(name, shape, *(f'{e["max_rel"]:.1e}' for e in errors))
            if not all(e['within'] for e in errors[1:]):  # onnxruntime may be as far off as it likes
                sys.exit(f'{name}: outside the tolerance')


def errors(rows, inputs, save):
    """Errors against double precision as geometric means over generated inputs: rounding alone makes each vary by a few
    times from input to input. Last how many times the least of a peer's is weft's."""
    peers = [arm for arm in arms.PEERS if arm in arms.ARMS]
    print(f'Largest error as a part of the output\'s scale: geometric means over {inputs} inputs\n')
    arms.heading('network', 'weft', *peers, 'of the least')
    kept = []
    for name, (family, model, binding) in rows.items():
        found = {}
        for seed in range(inputs):
            result = arms.measure(MODELS / f'{model}.onnx', 1, 0.1, *binding, '--seed', str(seed))
            for arm, accuracy in result['accuracy'].items():
                found.setdefault(arm, []).append(accuracy['max_rel'])
        means = {arm: math.exp(sum(math.log(max(e, 1e-9)) for e in each) / len(each)) for arm, each in found.items()}
        least = min((means[arm] for arm in peers if arm in means), default=math.nan)
        arms.line(name, *(f'{means[arm]:.1e}' if arm in means else '-' for arm in ('weft', *peers)),
                  f'{means["weft"] / least:.2f}')
        kept.append({'family': family, 'network': name, 'errors': found, 'env': result['env']})
        arms.save(save, kept)


def best_peer(result):
    """(weft's speed against it, its name) for the fastest peer that ran; none: (nan, -)."""
    return min(((result['speedup'][arm][1], arm) for arm in arms.PEERS if arm in result['speedup']), default=(math.nan, '-'))


def summary(results):
    print('\n## By family\n\nSpeed of weft, geometric mean and worst row\n')
    arms.heading('family', 'threads', 'rows', 'best peer', 'worst row', 'library-only', 'worst row')
    kinds = {}
    for r in results:
        kinds.setdefault((r['family'], r['threads']), []).append(r)
        kinds.setdefault(('all', r['threads']), []).append(r)
    for (family, threads), rows in kinds.items():
        cells = []
        for speed in (best_peer, lambda r: (r['speedup']['vendor'][1], 'vendor')):
            known = [r for r in rows if not math.isnan(speed(r)[0])]
            if known:
                worst = min(known, key=speed)
                mean = math.exp(sum(math.log(speed(r)[0]) for r in known) / len(known))
                cells += [f'{mean:.2f}', f'{speed(worst)[0]:.2f} {worst["network"]}']
            else:
                cells += ['-', '-']
        arms.line(family, str(threads), str(len(rows)), *cells)


def main():
    parser = arms.parser(__doc__, NETWORKS, seconds=20)
    parser.add_argument('--family', nargs='+', choices=FAMILIES, default=list(FAMILIES), metavar='NAME',
                        help='; '.join(FAMILIES))
    parser.add_argument('--allow', metavar='LIST', help='as of weft build; nothing else than the default if absent')
    parser.add_argument('--agreement', action='store_true', help='errors at two shapes each instead of speed')
    parser.add_argument('--errors', type=int, metavar='N', help='errors over N generated inputs each instead of speed')
    args = parser.parse_args()
    if args.agreement:
        get_models({model for _, model, _ in AGREEMENT})
        return agreement()
    rows = {name: (family, *network) for family in args.family for name, network in FAMILIES[family].items()
            if not args.only or name in args.only}
    get_models({model for _, model, _ in rows.values()})
    if args.errors:
        return errors(rows, args.errors, args.save)
    print(arms.NOTE + '\n')
    arms.heading('network', 'threads', 'weft ms', *arms.COLUMNS, 'best peer')
    results, bad = [], []
    for name, (family, model, binding) in rows.items():
        for threads in args.threads:
            options = [*binding, *(['--allow', args.allow] if args.allow else []),
                       *(['--tolerance', BF16_TOLERANCE] if 'bf16' in (args.allow or '') else [])]
            try:
                result = arms.measure(MODELS / f'{model}.onnx', threads, args.seconds, *options)
            except arms.Failed as why:
                bad.append(f'{name}: {why}')
                arms.line(name, str(threads), 'failed')
                continue
            results.append({'family': family, 'network': name, 'threads': threads, **result})
            speed, peer = best_peer(result)
            arms.line(name, str(threads), f'{arms.weft_us(result) / 1e3:.2f}', *arms.cells(result), f'{speed:.2f} {peer}')
            arms.save(args.save, results)
    if results:
        summary(results)
        print('\n' + arms.machine(results))
    if bad:
        sys.exit('\n' + '\n'.join(bad))


if __name__ == '__main__':
    main()
