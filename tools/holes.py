#!/usr/bin/env python3
"""Finds what no test names: operators, reasons of refusals, rewrites of graphs, codes of errors.

operator  each one that the importer knows is named in a test; each one that a comprehension or a native kernel computes
          has a case in BUILD/op_cases.bin, which the tests of both run
reason    each one of base/reasons.def is given by some code, and named in a test
rewrite   each one of graph/rewrites/rewrites.def has a test suite of its name
code      each one of base/status.h is expected by a test

What tools/holes.txt lists, one `KIND NAME: WHY` a line, may be a hole; a line that no longer stands for one is an error.
"""
import argparse
import re
import sys
from pathlib import Path

import tree

TEST_CODE = ('_test.cpp', '_test.py', '.graph', '.tc', '.plan', '.loops', '.sched', '.choices', '.groups', '.call', '.test')


class Texts:
    """The tree as texts: its tests, and its code without them."""

    def __init__(self, root: Path, build: Path):
        def read(files):
            return '\n'.join((root / f).read_text(errors='replace') for f in files)

        self.root = root
        tests = [f for f in tree.files(*TEST_CODE, root=root) if f.endswith(('_test.cpp', '_test.py')) or f.startswith('tests/')]
        self.cpp_tests = read(f for f in tests if f.endswith('.cpp'))
        self.tests = read([*tests, *(f for f in tree.files('.py', root=root) if f.startswith('models/'))])
        self.words = set(re.findall(r'\w+', self.tests))
        self.code = read(f for f in tree.files('.cpp', '.h', root=root) if not tree.is_test(f))
        cases = build / 'op_cases.bin'
        self.cases = {op.decode() for op in re.findall(rb'case \S+ (\w+)\n', cases.read_bytes())} if cases.exists() else set()

    def entries(self, file: str, macro: str) -> list[str]:
        return re.findall(rf'^{macro}\((\w+)', (self.root / file).read_text(), re.M)


def snake(name: str) -> str:
    return re.sub(r'(?<!^)([A-Z])', r'_\1', name).lower()


def operators(t: Texts) -> list[str]:
    computed = t.entries('fallback/native/native.def', 'WEFT_NATIVE')
    computed += re.findall(r'\{Op::k(\w+), \{', (t.root / 'tc_lang/ops/table.cpp').read_text())
    known = t.entries('graph/ops.def', 'WEFT_OP')
    return [op for op in computed if op not in t.cases] + [op for op in known if op not in t.cases | t.words]


def reasons(t: Texts) -> list[str]:
    found = t.entries('base/reasons.def', 'WEFT_REASON')
    given = set(re.findall(r'Reason::k(\w+)', t.code))
    named = set(re.findall(r'Reason::k(\w+)', t.cpp_tests)) | {r for r in found if snake(r) in t.words}
    return [r for r in found if r not in given & named]


def rewrites(t: Texts) -> list[str]:
    suites = {s.lower() for s in re.findall(r'^TEST\((\w+),', t.cpp_tests, re.M)}
    return [r for r in t.entries('graph/rewrites/rewrites.def', 'WEFT_REWRITE') if r.replace('_', '') not in suites]


def codes(t: Texts) -> list[str]:
    found = re.findall(r'^  k(\w+) = (\d+),', (t.root / 'base/status.h').read_text(), re.M)
    return [name for name, number in found
            if f'Code::k{name}' not in t.cpp_tests and not re.search(rf'\bcode={number}\b', t.tests)]


KINDS = {'operator': operators, 'reason': reasons, 'rewrite': rewrites, 'code': codes}


def check(root: Path, build: Path) -> list[str]:
    texts = Texts(root, build)
    holes = {f'{kind} {name}' for kind, find in KINDS.items() for name in find(texts)}
    lines = (root / 'tools/holes.txt').read_text().splitlines()
    allowed = dict(line.split(': ', 1) for line in lines if line and not line.startswith('#'))
    said = [f'no test: {hole}' for hole in sorted(holes - allowed.keys())]
    return said + [f'tools/holes.txt: no longer a hole: {hole}' for hole in sorted(allowed.keys() - holes)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build', nargs='?', type=Path, default=tree.ROOT / 'build')
    said = check(tree.ROOT, parser.parse_args().build)
    print('\n'.join(said) or 'holes: none but those that are listed')
    return 1 if said else 0


if __name__ == '__main__':
    sys.exit(main())
