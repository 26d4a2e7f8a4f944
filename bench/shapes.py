"""The first result at a shape that a plan for open extents has not met, beside a plan made for that shape.

    ./dev bench shapes [--threads 1 2] [--only NAME ...] [--seconds 10] [--save FILE.json]

`first`: `specialize='never'`, a plan just loaded that has run at the other shape four times. `kernels`: a plan for the shape
(estimated, `--budget 0`), whose turn comes after the same work, so that both find the caches as others left them; `warm`: the
best of its runs in a row. All in turns, ms, medians. The bar is first <= 3 kernels.
"""
import itertools
import statistics
import time

import arms
import networks
import numpy as np
import weft

# name -> (model, the extents it ran at before, those that are new to it)
NETWORKS = {
    'ResNet-18': ('resnet18', {'batch': 3}, {'batch': 1}, {'batch': 2}),
    'MobileNetV2': ('mobilenetv2', {'batch': 3}, {'batch': 1}, {'batch': 2}),
    'MobileNetV3-L': ('mobilenetv3_large', {'batch': 3}, {'batch': 1}, {'batch': 2}),
    'EfficientNet-B0': ('efficientnet_b0', {'batch': 3}, {'batch': 1}, {'batch': 2}),
    'YOLOv8n 320': ('yolov8n', {'batch': 2}, {'batch': 1}),
    'ViT-B/16': ('vit_b16', {'batch': 2}, {'batch': 1}),
    'MiniLM': ('minilm', {'batch': 1, 'S': 12}, *({'batch': 1, 'S': s} for s in (8, 16, 32))),
    'BERT-base': ('bert_base', {'batch': 1, 'S': 12}, *({'batch': 1, 'S': s} for s in (16, 128))),
    'GPT-2': ('gpt2', {'batch': 1, 'S': 1, 'P': 64}, {'batch': 1, 'S': 1, 'P': 65}, {'batch': 1, 'S': 16, 'P': 0}),
    'WaveNet': ('wavenet', {'batch': 2}, {'batch': 1}),
    'LSTM T=100': ('lstm', {'batch': 2}, {'batch': 1}, {'batch': 3}),
    'DLRM': ('dlrm_small', {'batch': 3}, *({'batch': b} for b in (1, 2, 8, 64))),
}
TURNS = 15  # at most


def inputs(plan):
    """Random inputs; integers are small enough for any table, masks are of ones."""
    random = np.random.default_rng(0)
    made = {}
    for spec in plan.inputs:
        if 'mask' in spec.name:
            made[spec.name] = np.ones(spec.shape, spec.dtype)
        elif np.issubdtype(spec.dtype, np.floating):
            made[spec.name] = random.standard_normal(spec.shape).astype(spec.dtype)
        else:
            made[spec.name] = random.integers(0, 2, spec.shape).astype(spec.dtype)
    return made


def milliseconds(plan, feeds):
    began = time.perf_counter()
    plan.run(feeds)
    return 1e3 * (time.perf_counter() - began)


def row(model, other, extents, threads, seconds):
    """Medians over the turns: {'first', 'kernels', 'warm'} in ms and how many turns there were."""
    file = networks.MODELS / f'{model}.onnx'
    made, before = (weft.build(file, threads=threads, dims=dims, budget=0) for dims in (extents, other))
    made_feeds, before_feeds = inputs(made), inputs(before)
    turns = []
    began = time.perf_counter()
    while len(turns) < 3 or (len(turns) < TURNS and time.perf_counter() - began < seconds):
        plan = weft.build(file, threads=threads, specialize='never')
        for _ in range(4):
            plan.run(before_feeds)
        first = milliseconds(plan, made_feeds)
        for _ in range(4):
            before.run(before_feeds)
            plan.run(before_feeds)
        kernels = milliseconds(made, made_feeds)
        turns.append((first, kernels, min(milliseconds(made, made_feeds) for _ in range(5))))
    return dict(zip(('first', 'kernels', 'warm'), map(statistics.median, zip(*turns))), turns=len(turns))


def main():
    args = arms.parser(__doc__, NETWORKS, seconds=10).parse_args()
    chosen = {name: NETWORKS[name] for name in args.only or NETWORKS}
    networks.get_models({model for model, *_ in chosen.values()})
    arms.heading('network', 'threads', 'first ms', 'kernels ms', 'ratio', 'warm kernels ms', 'ratio')
    results = []
    for name, (model, other, *shapes) in chosen.items():
        for extents, threads in itertools.product(shapes, args.threads):
            r = row(model, other, extents, threads, args.seconds)
            results.append({'network': name, 'extents': extents, 'threads': threads, **r})
            shape = ' '.join(f'{symbol}={extent}' for symbol, extent in extents.items())
            arms.line(f'{name} {shape}', str(threads), f'{r["first"]:.3g}', f'{r["kernels"]:.3g}',
                      f'{r["first"] / r["kernels"]:.2f}', f'{r["warm"]:.3g}', f'{r["first"] / r["warm"]:.2f}')
            arms.save(args.save, results)


if __name__ == '__main__':
    main()
