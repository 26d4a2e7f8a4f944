#!/usr/bin/env python3
"""Rewrites what file tests expect: `./dev test --update PATH`.

For each RUN line that ends in `| FileCheck %s [--check-prefix=P]`, runs what stands before the pipe and puts its output
in place of the P lines, as one block where the first of them stood. Read the diff: an update blesses, it proves nothing.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import tree

RUN = re.compile(r'^(?P<comment>\S+)\s*RUN:\s*(?P<command>.*?)\s*\|\s*FileCheck(?:-19)?\s+%s(?P<options>.*)$')


def expand(command: str, file: Path) -> str:
    """lit's substitutions, as far as file tests use them."""
    temporary = f'/tmp/weft-update-{os.getpid()}'
    for name, value in (('%models', tree.ROOT / 'models'), ('%s', file), ('%S', file.parent), ('%t', temporary)):
        command = re.sub(re.escape(name) + r'\b', str(value), command)
    return command


def block(prefix: str, comment: str, output: str) -> list[str]:
    """CHECK lines that match this output line by line; FileCheck's own brackets are escaped."""
    lines, directive = [], prefix
    for line in output.rstrip('\n').split('\n'):
        if not line.strip():
            lines.append(f'{comment} {prefix}-EMPTY:')
            continue
        escaped = line.replace('{{', '{{[{][{]}}').replace('[[', '{{[[][[]}}')
        lines.append(f'{comment} {directive}: {escaped}')
        directive = prefix + '-NEXT'
    return lines


def update(file: Path) -> bool:
    """True when the file changed."""
    before = lines = file.read_text().rstrip('\n').split('\n')
    for match in [m for m in map(RUN.match, before) if m]:
        found = re.search(r'--check-prefix(?:es)?[= ](\w+)', match['options'])
        prefix = found[1] if found else 'CHECK'
        done = subprocess.run(['bash', '-c', expand(match['command'], file)], capture_output=True, text=True,
                              cwd=file.parent)
        if done.returncode != 0 and not match['command'].startswith('not '):
            print(f'{file}: left alone, its RUN line exits {done.returncode}: {done.stderr.strip()[:300]}')
            return False
        old = re.compile(rf'^\s*\S+\s*{prefix}(-[A-Z]+)?:')
        at = next((i for i, line in enumerate(lines) if old.match(line)), len(lines))
        kept = [line for line in lines if not old.match(line)]
        lines = kept[:at] + block(prefix, match['comment'], done.stdout) + kept[at:]
    if lines != before:
        file.write_text('\n'.join(lines) + '\n')
    return lines != before


def main() -> int:
    for where in map(Path, sys.argv[1:]):
        for file in sorted(p for p in ([where] if where.is_file() else where.rglob('*')) if p.is_file()):
            if 'RUN:' in file.read_text(errors='replace') and update(file):
                print(f'updated {os.path.relpath(file, tree.ROOT)}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
