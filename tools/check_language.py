#!/usr/bin/env python3
"""docs/language.md: each rule and error names a test, each test that it names exists, no error or builtin is left out."""
import re
import sys

import tree

TEST = re.compile(r'^(?:TEST|TEST_F|RC_GTEST_PROP)\(\s*(\w+)\s*,\s*(\w+)', re.M)
NAMED = re.compile(r'`([A-Z]\w*\.[A-Z]\w*)`')


def rules(text: str) -> list[tuple[int, str]]:
    """Items of lists and rows of tables outside of code, each with its line."""
    found: list[tuple[int, str]] = []
    code = opened = False
    for number, line in enumerate(text.split('\n'), 1):
        if line.startswith('```'):
            code = not code
        elif code:
            continue
        elif line.startswith('- '):
            found.append((number, line))
            opened = True
        elif opened and line.startswith('  '):
            found[-1] = (found[-1][0], found[-1][1] + ' ' + line.strip())
        else:
            opened = False
            # Rows of tables that have a column of tests.
            if line.startswith('| `') or re.match(r'\| E\d{4} ', line):
                found.append((number, line))
    return found


def check(document: str, tests: set[str], problems: set[str], builtins: set[str]) -> list[str]:
    said = []
    examples = re.compile(r'^\| `\w+\(')  # the worked examples of ranges
    for number, rule in rules(document):
        named = NAMED.findall(rule)
        if not named and not examples.match(rule):
            said.append(f'docs/language.md:{number}: a rule that names no test: {rule[:80]}')
    for number, line in enumerate(document.split('\n'), 1):
        for name in NAMED.findall(line):
            if name not in tests:
                said.append(f'docs/language.md:{number}: there is no test {name}')
    listed = set(re.findall(r'^\| E(\d{4}) ', document, re.M))
    said += [f'docs/language.md: E{n} is not explained' for n in sorted(problems - listed)]
    said += [f'docs/language.md: E{n} is no error' for n in sorted(listed - problems)]
    said += [f"docs/language.md: the builtin '{b}' is not listed" for b in sorted(builtins)
             if not re.search(rf'^\|[^|]*`{b}[`(]', document, re.M)]
    return said


def main() -> int:
    tests = {f'{suite}.{name}' for f in tree.files('_test.cpp')
             for suite, name in TEST.findall((tree.ROOT / f).read_text())}
    numbers = re.findall(r'^WEFT_TC_PROBLEM\((\d+)', (tree.ROOT / 'tc_lang/problems.def').read_text(), re.M)
    words = re.findall(r'^WEFT_SCALAR\(\w+, "([a-z_0-9]+)"', (tree.ROOT / 'base/scalar.def').read_text(), re.M)
    document = (tree.ROOT / 'docs/language.md').read_text()
    said = check(document, tests, {f'{int(n):04}' for n in numbers}, set(words) - {'select', 'cast', 'bitcast', 'fma_flush', 'add_flush', 'ldexp', 'pick'})
    print('\n'.join(said) if said else f'language: {len(rules(document))} rules, {len(set(NAMED.findall(document)))} tests named')
    return 1 if said else 0


if __name__ == '__main__':
    sys.exit(main())
