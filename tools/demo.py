#!/usr/bin/env python3
"""The demo: a network that reads lines of text, from the file it was exported to, to what it reads and how fast.

Fetches PP-OCR's recognizer, builds one plan for its two widths, reads the lines of tests/data/ocr with it, and measures
it against plans of library calls only and of one kernel a node. Exits 1 if a line is misread or the outputs leave the
tolerance.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import tree

sys.path.insert(0, str(tree.ROOT / 'models'))
import ocr  # noqa: E402

WIDTHS = (320, 1280)
MODELS = tree.ROOT / '.deps/ppocr'


def shape(width: int) -> str:
    return f'x=1x3x{ocr.HEIGHT}x{width}'


def shown(path: Path) -> str:
    return os.path.relpath(path, tree.ROOT) if path.is_relative_to(tree.ROOT) else str(path)


class Weft:
    def __init__(self, binary: Path):
        self.binary = binary

    def __call__(self, *arguments) -> str:
        words = [str(a) for a in arguments]
        print('+ weft ' + ' '.join(w.replace(f'{tree.ROOT}/', '') for w in words), flush=True)
        return subprocess.run([self.binary, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    def json(self, *arguments) -> dict:
        return json.loads(self(*arguments, '--json', '--quiet'))


def read_lines(weft: Weft, plan: Path, folder: Path) -> int:
    """Prints every line; how many were misread."""
    keys = ocr.load_keys(MODELS / 'ppocr_keys.txt')
    wrong = 0
    for path, text, width in ocr.load_lines():
        inputs, outputs = folder / 'line.npz', folder / 'read.npz'
        np.savez(inputs, x=ocr.batch([(path, text, width)]))
        done = subprocess.run([weft.binary, 'run', plan, '--quiet', '--inputs', inputs, '-o', outputs], stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f'demo: weft run of {os.path.basename(path)}: exit {done.returncode}')
        with np.load(outputs) as file:
            (probabilities,) = file.values()
        found = ocr.greedy_decode(probabilities[0], keys)
        wrong += found != text
        print(f'  {os.path.basename(path):<18} {found}' + ('' if found == text else f'   <- misread, it says: {text}'))
    return wrong


def table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print('  ' + '  '.join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip())


def compare(weft: Weft, model: Path, width: int, line: Path, arms: list[str], duration: str) -> dict:
    np.savez(line, x=ocr.batch(ocr.load_lines(width=width)[:1]))
    return weft.json('compare', model, '--shape', shape(width), '--inputs', line, '--against', ','.join(arms),
                     '--duration', duration)


def rows_of(width: int, said: dict) -> list[tuple[str, ...]]:
    rows = []
    for arm in said['arms']:
        name, accuracy = arm['name'], said['accuracy'][arm['name']]
        low, high = arm['ci95_us']
        speed = ''
        if name in said['speedup']:
            least, middle, most = said['speedup'][name]
            speed = f'{middle:.2f} [{least:.2f}, {most:.2f}]' + (' no difference' if least <= 1 <= most else '')
        rows.append((str(width), {'weft': 'chosen', 'vendor': 'library only'}.get(name, name),
                     f"{arm['p50_us'] / 1e3:.2f} [{low / 1e3:.2f}, {high / 1e3:.2f}]", speed,
                     f"{accuracy['max_rel']:.1e}" + ('' if accuracy['within'] else ' outside the tolerance')))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--out', type=Path, default=tree.ROOT / 'build/demo')
    parser.add_argument('--weft', type=Path, default=Path(os.environ.get('WEFT_BIN') or tree.ROOT / 'build/bin/weft'))
    parser.add_argument('--duration', default='10s', help='the longest that each comparison measures')
    arguments = parser.parse_args()
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    weft, plan, model = Weft(arguments.weft.resolve()), folder / 'ppocr_rec.plan', MODELS / 'ppocr_rec.onnx'

    subprocess.run([sys.executable, tree.ROOT / 'models/fetch_ppocr.py', '--out', shown(MODELS)], cwd=tree.ROOT, check=True)
    built = weft.json('build', model, *(f'--profile={shape(w)}' for w in WIDTHS), '-o', plan)
    env = built['env']
    print(f"  built in {built['seconds']:.1f} s for {env['cpu']}, {env['threads']} threads, {env['isa'].split()[0]}; "
          + (f"{built['measured_groups']} groups measured" if built['measured_groups'] else 'choices are estimates'))

    print(f'+ weft run {shown(plan)}, for each line of tests/data/ocr')
    wrong = read_lines(weft, plan, folder)
    total = len(ocr.load_lines())
    print(f'  {total - wrong} of {total} lines read as they are written\n')

    kinds = list(built['steps'])
    print('What the plan holds, by width of a line: steps by kind, and the arena that they share')
    table([('width', 'steps', *kinds, 'arena bytes'),
           *((str(w), str(sum(s['steps'].values())), *(str(s['steps'][k]) for k in kinds), str(s['arena_bytes']))
             for w, s in zip(WIDTHS, built['specializations']))])
    print(f"  {weft.json('inspect', plan)['kernels']} kernels of its own in all\n")

    arms = ['vendor', 'unfused']
    if not weft.json('devices')['libraries'].get('onednn'):
        print('  oneDNN is not there: the library-only plan is left out')
        arms.remove('vendor')
    compared = {w: compare(weft, model, w, folder / 'line.npz', arms, arguments.duration) for w in WIDTHS}
    print('\nOne line, interleaved on the same input; brackets are 95 % intervals, ratios are time / time of the chosen plan')
    table([('width', 'plan', 'median ms', 'ratio', 'error / scale of fp64'),
           *(row for w in WIDTHS for row in rows_of(w, compared[w]))])
    print(f'\nThe plan: {shown(plan)}, {plan.stat().st_size} bytes')
    inaccurate = [w for w in WIDTHS if not compared[w]['accuracy']['weft']['within']]
    if wrong or inaccurate:
        print(f'demo: {wrong} lines misread' + ''.join(f'; width {w}: outside the tolerance' for w in inaccurate), file=sys.stderr)
    return 1 if wrong or inaccurate else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as failed:
        sys.exit(f'demo: {Path(str(failed.cmd[0])).name} {failed.cmd[1]}: exit {failed.returncode}')
