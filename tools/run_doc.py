#!/usr/bin/env python3
"""Runs the commands of a document, so that it cannot rot.

A fenced block marked `console` holds lines `$ command`, each followed by what it prints. The command must exit 0, or N
where the line ends in `# exit N`. Where output is given it must be what is printed, `...` standing for anything within
a line or, alone, for any lines. A block marked `console gpu` wants a device. All blocks of a document share one fresh
folder, in which the tree's own top-level folders are visible. `./dev` lines are not run (this is inside one).
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

import tree

BLOCK = re.compile(r'^```console *(?P<mark>\w*)\n(?P<body>.*?)^```', re.M | re.S)
LIMIT_S = 600


def commands(text: str):
    """(line number, mark, command, expected output) for each command of a document."""
    for block in BLOCK.finditer(text):
        line = text.count('\n', 0, block.start('body')) + 1
        parts = re.split(r'^\$ ', block['body'], flags=re.M)
        line += parts[0].count('\n')
        for part in parts[1:]:
            command, output = re.match(r'((?:[^\n]*\\\n)*[^\n]*)\n?(.*)', part, re.S).groups()
            yield line, block['mark'], command, output
            line += part.count('\n')


def matches(expected: str, printed: str) -> bool:
    """Whether a text is what was expected, with `...` as described above."""
    if not expected.strip():
        return True
    pattern = ''
    for line in expected.rstrip('\n').split('\n'):
        if line.strip() == '...':
            pattern += r'(?:.*\n)*?'
        else:
            pattern += '.*?'.join(re.escape(piece) for piece in line.rstrip().split('...')) + r'[ \t]*\n'
    return re.fullmatch(pattern, printed.rstrip('\n') + '\n') is not None


def run_one(command: str, expected: str, folder: Path) -> tuple[str, str]:
    """(what is wrong or '', what was printed)"""
    wanted = re.search(r'#\s*exit (\d+)\s*$', command)
    code = int(wanted[1]) if wanted else 0
    try:
        done = subprocess.run(['bash', '-c', command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace', timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f'still running after {LIMIT_S} s', ''
    if done.returncode != code:
        return f'exit {done.returncode}, expected {code}', done.stdout
    if not matches(expected, done.stdout):
        return f'printed something else than expected:\n{expected}', done.stdout
    return '', done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('document')
    parser.add_argument('--show', action='store_true', help='print each command and what it prints')
    parser.add_argument('--junit', type=Path, help='also write a JUnit report here')
    arguments = parser.parse_args()
    suite = xml.Element('testsuite')
    failed = 0
    with tempfile.TemporaryDirectory(prefix='weft-doc-') as scratch:
        folder = Path(scratch)
        for entry in {f.split('/')[0] for f in tree.files('') if '/' in f}:
            (folder / entry).symlink_to(tree.ROOT / entry)
        bins = [tree.ROOT / 'build/bin', tree.ROOT / '.venv/bin']
        os.environ['PATH'] = os.pathsep.join([*map(str, bins), os.environ['PATH']])
        os.environ['PYTHONPATH'] = str(tree.ROOT / 'build/python')
        os.environ.setdefault('WEFT_CACHE_DIR', str(folder / '.cache'))
        for line, mark, command, expected in commands((tree.ROOT / arguments.document).read_text()):
            if command.startswith('./dev'):
                continue
            case = xml.SubElement(suite, 'testcase', classname=arguments.document, name=f'{line}: {command}')
            if mark == 'gpu' and not glob.glob('/dev/nvidia[0-9]*'):
                xml.SubElement(case, 'skipped', message='needs a CUDA device')
                continue
            if arguments.show:
                print(f'$ {command}', flush=True)
            wrong, printed = run_one(command, expected, folder)
            if arguments.show or wrong:
                print(printed, flush=True)
            if wrong:
                failed += 1
                print(f'{arguments.document}:{line}: {command}\n{wrong}', file=sys.stderr)
                text = f'{wrong}\nprinted:\n{printed}'
                xml.SubElement(case, 'failure').text = re.sub(r'[^\t\n\x20-\ufffd]', '?', text)
    if arguments.junit:
        xml.ElementTree(suite).write(arguments.junit)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
