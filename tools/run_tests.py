#!/usr/bin/env python3
"""Runs every kind of test and sums them up in one last line: "N passed, N failed, N skipped".

Kinds: programs that ctest knows (GoogleTest and fuzz replays), file tests (lit), Python tests (pytest), the tree's own
checks (layers, headers, sizes), and the commands of the documents. A PATH keeps those tests that lie below it; "gpu"
keeps those that need a device (suites and functions with Gpu in their name, files below tests/file/gpu).
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

import tree

PYTHON_TESTS = ('tests/python', 'tests/e2e', 'tools', 'models')
CHECKS = ('check_layers', 'check_headers', 'check_sizes', 'check_language', 'check_hardening', 'check_numerics', 'holes')
LIMIT_S = 1800  # for one program; a hang is a failure, not a lost run


@dataclasses.dataclass
class Case:
    name: str
    result: str  # passed | failed | skipped
    text: str = ''  # why it failed or was skipped


@dataclasses.dataclass
class Options:
    build: Path
    path: str  # '' for all, 'gpu', or a path below the root
    scratch: Path
    update: bool


def environment(options: Options) -> dict[str, str]:
    """What every test sees: the built tools first on PATH, the built package, a cache of this run's own."""
    tools = [options.build / 'bin', tree.ROOT / '.venv/bin', Path('/usr/lib/llvm-19/bin')]
    return os.environ | {
        'PATH': os.pathsep.join([*map(str, tools), os.environ.get('PATH', '')]),
        'PYTHONPATH': str(options.build / 'python'),
        'WEFT_CACHE_DIR': str(options.scratch / 'cache'),
    }


def run(command: list, options: Options, cwd: Path = tree.ROOT) -> tuple[int, str]:
    try:
        done = subprocess.run([str(c) for c in command], cwd=cwd, env=environment(options), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S)
        return done.returncode, done.stdout.decode(errors='replace')
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b'').decode(errors='replace') + f'\nstopped after {LIMIT_S} s'


def below(file: str, path: str) -> bool:
    return not path or file == path or file.startswith(path.rstrip('/') + '/')


def from_junit(report: Path, kind: str) -> list[Case]:
    """The cases of a JUnit report, which GoogleTest, lit and pytest all write."""
    cases = []
    for case in xml.parse(report).getroot().iter('testcase'):
        name = f"{kind} {case.get('classname')}.{case.get('name')}"
        bad = [e for e in case if e.tag in ('failure', 'error')]
        skip = case.find('skipped')
        if bad:
            cases.append(Case(name, 'failed', '\n'.join(e.text or e.get('message', '') for e in bad)))
        elif skip is not None:
            cases.append(Case(name, 'skipped', ' '.join((skip.get('message') or skip.text or '').split())))
        elif case.get('result') != 'suppressed' and case.get('status') != 'notrun':
            cases.append(Case(name, 'passed'))
    return cases


def tail(text: str, lines: int = 30) -> str:
    return '\n'.join(text.strip().split('\n')[-lines:])


def suites_below(path: str) -> list[str]:
    """GoogleTest suites that are written in the test files below a path."""
    found = set()
    for file in tree.files('_test.cpp'):
        if below(file, path):
            text = (tree.ROOT / file).read_text(errors='replace')
            found |= set(re.findall(r'^\s*(?:RC_GTEST(?:_FIXTURE)?_PROP|(?:TYPED_)?TEST(?:_[FP])?)\s*\(\s*(\w+)', text, re.M))
    return sorted(found)


def gtest_filter(path: str) -> str | None:
    """The --gtest_filter for a path; None where nothing below it is a unit test."""
    if not path:
        return '*'
    if path == 'gpu':
        return '*Gpu*'
    suites = suites_below(path)
    return ':'.join(f'{s}.*:*/{s}.*:{s}/*' for s in suites) if suites else None


def run_gtest(name: str, command: list[str], wanted: str, options: Options) -> list[Case]:
    report = options.scratch / f'{name}.xml'
    code, text = run([*command, f'--gtest_filter={wanted}', f'--gtest_output=xml:{report}'], options)
    cases = from_junit(report, name) if report.exists() else []
    if code != 0 and not any(c.result == 'failed' for c in cases):
        at = re.findall(r'^\[ RUN      \] (.*)$', text, re.M)
        cases.append(Case(f'{name} {at[-1] if at else ""}', 'failed', f'exit {code}\n{tail(text)}'))
    return cases


def run_program(name: str, command: list[str], options: Options) -> list[Case]:
    code, text = run(command, options)
    return [Case(name, 'failed' if code else 'passed', f'exit {code}\n{tail(text)}')]


def programs(options: Options) -> list[Case]:
    """What ctest knows. Two at a time at most: many of these start a team of threads of their own."""
    wanted = gtest_filter(options.path)
    listed = json.loads(subprocess.run(['ctest', '--test-dir', str(options.build), '--show-only=json-v1'],
                                       capture_output=True, text=True, check=True).stdout)
    jobs = []
    for test in listed['tests']:
        labels = next((p['value'] for p in test.get('properties', []) if p['name'] == 'LABELS'), [])
        if 'gtest' in labels and wanted:
            jobs.append((run_gtest, test['name'], test['command'], wanted, options))
        elif 'gtest' not in labels and (not options.path or below('tests/fuzz', options.path)):
            jobs.append((run_program, test['name'], test['command'], options))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [c for cases in pool.map(lambda job: job[0](*job[1:]), jobs) for c in cases]


def lit(options: Options) -> list[Case]:
    root = 'tests/file'
    path = 'tests/file/gpu' if options.path == 'gpu' else options.path
    if path and not below(path, root):
        path = root if below(root, path) else ''
        if not path:
            return []
    where = tree.ROOT / (path or root)
    if not where.exists():
        return []
    if options.update:
        code, text = run([sys.executable, tree.ROOT / 'tools/update_tests.py', where], options)
        print(text, end='')
    report = options.scratch / 'lit.xml'
    command = [tree.ROOT / '.venv/bin/lit', '-q', f'-j{os.cpu_count()}', f'-Dbuild={options.build}',
               f'--xunit-xml-output={report}', '--allow-empty-runs', where]
    code, text = run(command, options)
    if report.exists():
        return from_junit(report, 'lit')
    return [Case('lit', 'failed', tail(text))] if code else []


def pytest(options: Options) -> list[Case]:
    files = [f for f in tree.files('_test.py') + tree.files('.py') if Path(f).name.startswith('test_') or f.endswith('_test.py')]
    files = sorted({f for f in files if f.startswith(tuple(p + '/' for p in PYTHON_TESTS))})
    keep = ['-k', 'gpu or Gpu'] if options.path == 'gpu' else []
    if options.path and not keep:
        files = [f for f in files if below(f, options.path)]
    if not files:
        return []
    report = options.scratch / 'pytest.xml'
    # A file stays in one process, for what its tests share; tests of a device alone go one after another.
    cores = min(len(files), len(os.sched_getaffinity(0)))
    at_once = ['-n', str(cores), '--dist=loadfile'] if cores > 1 and not keep else []
    code, text = run([sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', f'--junitxml={report}', *at_once, *keep,
                      *files], options)
    cases = from_junit(report, 'pytest') if report.exists() else []
    if code not in (0, 1, 5) or (code == 1 and not any(c.result == 'failed' for c in cases)):  # 5: nothing selected
        cases.append(Case('pytest', 'failed', f'exit {code}\n{tail(text)}'))
    return cases


def checks(options: Options) -> list[Case]:
    if options.path:
        return []
    cases = []
    for check in CHECKS:
        arguments = [options.build] if check in ('check_headers', 'holes') else []
        code, text = run([sys.executable, tree.ROOT / f'tools/{check}.py', *arguments], options)
        cases.append(Case(check, 'failed' if code else 'passed', text.strip()))
        if not code:
            print('  ' + text.strip())
    return cases


def documents(options: Options) -> list[Case]:
    docs = [f for f in tree.files('.md') if f.startswith('docs/') or f in ('README.md', 'ARCHITECTURE.md')]
    if options.path == 'gpu':
        return []
    cases = []
    for doc in docs:
        if below(doc, options.path):
            report = options.scratch / 'doc.xml'
            code, text = run([sys.executable, tree.ROOT / 'tools/run_doc.py', doc, '--junit', report], options)
            cases += from_junit(report, 'doc') if report.exists() else [Case(doc, 'failed', f'exit {code}\n{tail(text)}')]
            report.unlink(missing_ok=True)
    return cases


KINDS = {'programs': programs, 'lit': lit, 'pytest': pytest, 'checks': checks, 'documents': documents}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('path', nargs='?', default='', help='a file or folder, or "gpu"')
    parser.add_argument('--update', action='store_true', help='first rewrite what file tests below PATH expect')
    parser.add_argument('--build', type=Path, default=tree.ROOT / 'build')
    parser.add_argument('--only', default=','.join(KINDS), help='kinds to run: ' + ', '.join(KINDS))
    arguments = parser.parse_args()
    path = arguments.path
    if path not in ('', 'gpu'):
        if not (tree.ROOT / path).exists():
            parser.error(f'no such file or folder: {path}')
        path = os.path.relpath(tree.ROOT / path, tree.ROOT)
    if arguments.update and path in ('', 'gpu'):
        parser.error('--update wants a PATH')

    cases: list[Case] = []
    with tempfile.TemporaryDirectory(prefix='weft-test-') as scratch:
        options = Options(arguments.build.resolve(), '' if path == '.' else path, Path(scratch), arguments.update)
        for kind in arguments.only.split(','):
            new = KINDS[kind](options)
            cases += new
            if new:
                print(f'{kind}: {sum(c.result == "passed" for c in new)} of {len(new)} passed', flush=True)
    for case in cases:
        if case.result == 'skipped':
            print(f'skipped: {case.name}: {case.text or "without a reason"}')
    for case in cases:
        if case.result == 'failed':
            print(f'FAILED: {case.name}\n{case.text}\n')
    if not cases:
        print(f'no test {"needs a device" if path == "gpu" else "below " + path}')
    count = {r: sum(c.result == r for c in cases) for r in ('passed', 'failed', 'skipped')}
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count['failed'] or not cases else 0


if __name__ == '__main__':
    sys.exit(main())
