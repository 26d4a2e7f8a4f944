"""libweft_runtime.so: what it shows, what it needs, and the example in C that links it."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

COMPILERS = r'LLVM|lld|isl|protobuf|xgboost'


def output(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope='module')
def library(build_dir):
    path = build_dir / 'lib/libweft_runtime.so'
    if not path.exists():
        pytest.skip('libweft_runtime.so is not built')
    if not shutil.which('nm'):
        pytest.skip('no binutils')
    return path


def test_shows_the_functions_of_its_header_only(library):
    header = (ROOT / 'include/weft/weft.h').read_text()
    declared = set(re.findall(r'\b(weft_\w+)\(', header))
    shown = {line.split()[-1].split('@')[0] for line in output('nm', '-D', '--defined-only', library).splitlines()}
    assert shown - {'WEFT_1'} == declared


def test_needs_no_compiler(library):
    needed = re.findall(r'NEEDED.*\[(.*)\]', output('readelf', '-d', library))
    assert needed and not [n for n in needed if re.search(COMPILERS, n)]
    assert not re.search(COMPILERS, output('ldd', library))
    assert 'weft_runtime' in output('readelf', '-d', library)


def test_the_example_runs_a_plan(build_dir, library, digits, cache, tmp_path):
    plan = tmp_path / 'digits.plan'
    digits.save(plan)
    done = subprocess.run([build_dir / 'bin/run_plan', plan, cache], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'input image: [32, 1, 16, 16]' in done.stdout and 'output probabilities: [32, 10]' in done.stdout


def test_the_example_says_what_is_wrong(build_dir, library, tmp_path):
    bad = tmp_path / 'bad.plan'
    bad.write_bytes(os.urandom(100))
    done = subprocess.run([build_dir / 'bin/run_plan', bad], capture_output=True, text=True)
    assert done.returncode == 3 and f'{bad}: byte 0: not a plan file' in done.stderr
