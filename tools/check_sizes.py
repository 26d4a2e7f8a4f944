#!/usr/bin/env python3
"""No source file is longer than 800 lines, no file larger than 1 MB; prints where the tree stands."""
import sys

import tree

MOST_LINES = 800
MOST_BYTES = 1_000_000


def main() -> int:
    lines = {f: (tree.ROOT / f).read_bytes().count(b'\n')
             for f in tree.files('.h', '.cpp', '.cu', '.py', '.sh', 'CMakeLists.txt', '.cmake')}
    said = [f'{f}: {n} lines, {MOST_LINES} are the most' for f, n in lines.items() if n > MOST_LINES]
    for f in tree.files(''):
        size = (tree.ROOT / f).stat().st_size
        if size > MOST_BYTES:
            said.append(f'{f}: {size} bytes, {MOST_BYTES} are the most')
    source = sorted(n for f, n in lines.items() if not tree.is_test(f))
    if source:
        tests = sum(n for f, n in lines.items() if tree.is_test(f))
        at = lambda share: source[min(int(len(source) * share), len(source) - 1)]
        print(f'sizes: {len(source)} source files, {sum(source)} lines; median {at(0.5)}, p90 {at(0.9)}, '
              f'largest {source[-1]}; tests {tests} lines')
    print('\n'.join(said), end='\n' if said else '')
    return 1 if said else 0


if __name__ == '__main__':
    sys.exit(main())
