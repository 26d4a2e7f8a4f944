"""Families of kernels: weft's measured plan of each row beside its library-only and own-only plans and the peers.

    ./dev bench kernels [--threads 1 2] [--family NAME ...] [--only ROW ...] [--seconds 2] [--save FILE.json]
    ./dev bench kernels --peak

A table a family, as `./dev bench networks` prints it; `best` is weft's speed against the fastest of the library-only
plan, onnxruntime, OpenVINO and torch, and `of roofline` how near it comes to the peaks of the machine, measured in the
same run. The last tables sum it up. Rows that fail or are wrong are told at the end, and the exit code is then 1.
--peak runs contractions instead, from comprehension to machine code, and bare leaves against the peak of the
multipliers: each program takes turns with a loop of nothing but multiply-adds, so that its percentage holds whatever
the clock does.
"""
import math
import subprocess
import sys

import arms
from families import FAMILIES, ROWS, path


def peak():
    for program in ('leaf_bench', 'contraction_bench', 'gemv_bench'):
        print(f'# {program}', flush=True)
        subprocess.run([arms.ROOT / 'build' / 'bin' / program], check=True)


def told(result):
    speed, rival = arms.best_rival(result)
    return f'{speed:.2f} {rival}'


def summary(results):
    """The geometric mean and the worst row of each family and number of threads."""
    print('\n## All families\n\nSpeed of weft against the best of ' + ', '.join(arms.RIVALS) + '\n')
    arms.heading('family', 'threads', 'rows', 'geometric mean', 'worst row')
    kinds = {}
    for r in results:
        kinds.setdefault((r['family'], r['threads']), []).append(r)
    for (family, threads), rows in kinds.items():
        mean = math.exp(sum(math.log(arms.best_rival(r)[0]) for r in rows) / len(rows))
        worst = min(rows, key=arms.best_rival)
        arms.line(family, str(threads), str(len(rows)), f'{mean:.2f}', f'{worst["row"]}: {told(worst)}')


def bounds(results):
    """Of rows in memory, how near they come to the larger of two bounds: a copy of as many bytes, and what the same
    operator takes for as much where a cache holds it, which is what it computes."""
    rows = {(r['row'], r['threads']): r['roofline'] for r in results}
    pairs = [(row, threads, r, rows.get((row.removesuffix('_dram') + '_l2', threads)))
             for (row, threads), r in rows.items() if row.endswith('_dram')]
    pairs = [pair for pair in pairs if pair[-1] and pair[-1]['bytes']]
    if not pairs:
        return
    print('\n## In memory\n\nTime of weft beside a copy of as many bytes, and beside as much of the same row in a cache\n')
    arms.heading('row', 'threads', 'weft us', 'copy us', 'in a cache us', 'of the larger')
    for row, threads, far, near in pairs:
        computed = near['us'] * far['bytes'] / near['bytes']
        arms.line(row, str(threads), f'{far["us"]:.0f}', f'{far["least_us"]:.0f}', f'{computed:.0f}',
                  f'{max(far["least_us"], computed) / far["us"]:.2f}')


def main():
    parser = arms.parser(__doc__, ROWS, seconds=2)
    parser.add_argument('--family', nargs='+', choices=FAMILIES, default=list(FAMILIES), metavar='NAME',
                        help=', '.join(FAMILIES))
    parser.add_argument('--peak', action='store_true', help='leaves and contractions against the peak instead')
    args = parser.parse_args()
    if args.peak:
        return peak()
    print(arms.NOTE)
    results, bad = [], []
    for family in args.family:
        rows = {name: row for name, row in FAMILIES[family].items() if not args.only or name in args.only}
        if not rows:
            continue
        print(f'\n## {family}\n')
        arms.heading('row', 'threads', 'weft us', *arms.COLUMNS, 'best', 'of roofline')
        for name, row in rows.items():
            for threads in args.threads:
                try:
                    result = arms.measure(path(name), threads, args.seconds, *row.options)
                    # What bounds an error is no matter there.
                    allow = row.options if '--allow' in row.options else ()
                    result['roofline'] = arms.roofline(path(name), threads, *allow)
                except arms.Failed as why:
                    bad.append(str(why))
                    arms.line(name, str(threads), 'failed')
                    continue
                if not result['accuracy']['weft']['within']:
                    bad.append(f'{name}, threads {threads}: outside the tolerance')
                results.append({'family': family, 'row': name, 'threads': threads, **result})
                arms.line(name, str(threads), f'{arms.weft_us(result):.1f}', *arms.cells(result), told(result),
                          f'{result["roofline"]["least_us"] / result["roofline"]["us"]:.2f}')
                arms.save(args.save, results)
    if results:
        summary(results)
        bounds(results)
        print('\n' + arms.machine(results))
    if bad:
        sys.exit('\n' + '\n'.join(bad))


if __name__ == '__main__':
    main()
