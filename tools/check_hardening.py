#!/usr/bin/env python3
"""docs/hardening.md: each of the promises names tests, and each test that it names is in the file that it names."""
import re
import sys
from pathlib import Path

import tree

PROMISES = 17
DOCUMENT = 'docs/hardening.md'
TEST = re.compile(r'^(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP)\(\s*(\w+),\s*(\w+)', re.M)


def tests_of(file: Path) -> set[str]:
    text = file.read_text()
    if file.suffix == '.py':
        return set(re.findall(r'^def (test_\w+)', text, re.M))
    return {f'{suite}.{name}' for suite, name in TEST.findall(text)}


def check(document: str, root: Path) -> list[str]:
    said, promised = [], []
    for number, line in enumerate(document.split('\n'), 1):
        row = re.match(r'\| (\d+)\. .*\|(.*)\|$', line)
        if not row:
            continue
        promised.append(int(row[1]))
        held = row[2].split(';')
        for part in held:
            named = re.findall(r'`([^`]+)`', part)
            file = root / named[0] if named else None
            if file is None or not file.is_file():
                said.append(f'{DOCUMENT}:{number}: there is no file {named[0] if named else part.strip()}')
                continue
            fuzz = file.name.startswith('fuzz_')  # one target a file
            if not fuzz and not named[1:]:
                said.append(f'{DOCUMENT}:{number}: {named[0]} is named without a test')
            said += [f'{DOCUMENT}:{number}: there is no test {test} in {named[0]}' for test in sorted(set(named[1:]) - tests_of(file))]
    if promised != list(range(1, PROMISES + 1)):
        said.append(f'{DOCUMENT}: found the promises {promised}, expected 1 to {PROMISES}')
    return said


def main() -> int:
    document = (tree.ROOT / DOCUMENT).read_text()
    said = check(document, tree.ROOT)
    print('\n'.join(said) or f'hardening: {PROMISES} promises, each held by tests that there are')
    return 1 if said else 0


if __name__ == '__main__':
    sys.exit(main())
