"""The checks that keep the tree, checked: each says nothing of a good tree and names what is wrong in a bad one."""
import subprocess
from pathlib import Path

import pytest

import check_hardening
import check_language
import check_layers
import check_numerics
import holes
import run_doc
import run_tests
import update_tests


def make_tree(root: Path, files: dict[str, str]) -> Path:
    subprocess.run(['git', 'init', '-q', str(root)], check=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


GOOD = {
    'base/status.h': '#pragma once\n',
    'graph/graph.h': '#include "base/status.h"\n',
    'graph/graph.cpp': '#include "graph/graph.h"\n#include <vector>\n',
    'affine/set.cpp': '#include <isl/cpp.h>\n',
    'tc_lang/parse.cpp': '#include "graph/graph.h"\n',
}


@pytest.mark.parametrize('file, text, wrong', [
    ('graph/more.cpp', '#include "base/status.h"\n', None),
    ('driver/all.cpp', '#include "graph/graph.h"\n', None),
    ('graph/more.cpp', '#include "affine/set.h"\n#include "tc_lang/tc.h"\n', None),  # absent files: the compiler's business
    ('base/more.cpp', '#include "graph/graph.h"\n', 'base may not include graph/graph.h'),
    ('graph/more.cpp', '  #  include <isl/set.h>\n', 'only affine, polyhedral may include isl/set.h'),
    ('graph/more_test.cpp', '#include <isl/set.h>\n', None),
    ('graph/more.cpp', '#include "graph.h"\n', '"graph.h" is to be named from the root'),
    ('graph/graph.h', '#include "graph/other.h"\n', None),
    ('base/status.h', '#include "base/status.h"\n', 'includes itself'),
])
def test_includes(tmp_path, file, text, wrong):
    said = check_layers.check_includes(make_tree(tmp_path, GOOD | {file: text}))
    assert (not said) if wrong is None else (len(said) == 1 and wrong in said[0]), said


LINKS = {
    'base/CMakeLists.txt': 'weft_library(base SRCS a.cpp DEPS weft::fmt)',
    'graph/CMakeLists.txt': 'weft_library(graph_ir SRCS a.cpp DEPS base)\nweft_library(graph SRCS b.cpp DEPS graph_ir)',
    'codegen/CMakeLists.txt': 'weft_library(codegen SRCS a.cpp PRIVATE_LIBS weft::llvm)',
}


@pytest.mark.parametrize('folder, text, wrong', [
    ('tc_lang', 'weft_library(tc_lang DEPS graph_ir base)', None),
    ('tc_lang', 'weft_library(tc_lang DEPS graph)', "graph's nouns only"),
    ('tc_lang', 'weft_library(tc_lang DEPS graph_ir) # not graph', None),
    ('driver', 'weft_library(driver DEPS graph)', None),
    ('plan', 'weft_library(plan_ir DEPS plan)\nweft_library(plan DEPS base)', 'the noun plan_ir links plan'),
    ('executor', 'weft_library(executor DEPS fallback)\nweft_library(fallback DEPS weft::llvm)', 'reaches weft::llvm'),
])
def test_links(tmp_path, folder, text, wrong):
    said = check_layers.check_links(make_tree(tmp_path, LINKS | {f'{folder}/CMakeLists.txt': text}))
    assert (not said) if wrong is None else (said and wrong in said[0]), said


def test_the_include_table_is_acyclic():
    edges = {folder: set(may.split()) for folder, may in check_layers.MAY_INCLUDE.items()}
    assert not [f for f, reached in check_layers.closure(edges).items() if f in reached]


@pytest.mark.parametrize('expected, printed, same', [
    ('', 'anything\n', True),
    ('a b\n', 'a b\n', True),
    ('a b\n', 'a c\n', False),
    ('took ... ms\n', 'took 3.5 ms\n', True),
    ('first\n...\nlast\n', 'first\n1\n2\nlast\n', True),
    ('first\n...\nlast\n', 'first\nlast\n', True),
    ('first\n...\nlast\n', 'first\nlast\nmore\n', False),
    ('x*y\n', 'xxy\n', False),
])
def test_document_output(expected, printed, same):
    assert run_doc.matches(expected, printed) == same


def test_document_commands():
    text = 'words\n```console\n$ one \\\n  two\nout\n$ three\n```\n```sh\n$ four\n```\n```console gpu\n$ five\n```\n'
    assert list(run_doc.commands(text)) == [
        (3, '', 'one \\\n  two', 'out\n'), (6, '', 'three', ''), (12, 'gpu', 'five', '')]


def test_update_rewrites_only_the_expectation(tmp_path):
    file = tmp_path / 'a.tc'
    file.write_text("# RUN: printf 'x [[1]] {{2}}\\n\\ny\\n' | FileCheck %s\n# CHECK: old\n# CHECK-NEXT: older\ntext\n")
    assert update_tests.update(file)
    assert file.read_text().split('\n')[1:] == [
        '# CHECK: x {{[[][[]}}1]] {{[{][{]}}2}}', '# CHECK-EMPTY:', '# CHECK-NEXT: y', 'text', '']
    assert subprocess.run(['bash', '-c', f"printf 'x [[1]] {{{{2}}}}\\n\\ny\\n' | FileCheck-19 {file}"]).returncode == 0
    assert not update_tests.update(file)


def test_junit_report(tmp_path):
    report = tmp_path / 'r.xml'
    report.write_text('<testsuites><testsuite><testcase classname="A" name="b"/>'
                      '<testcase classname="A" name="c"><failure>why</failure></testcase>'
                      '<testcase classname="A" name="d"><skipped message="no\ndevice"/></testcase>'
                      '</testsuite></testsuites>')
    assert [(c.name, c.result, c.text) for c in run_tests.from_junit(report, 'k')] == [
        ('k A.b', 'passed', ''), ('k A.c', 'failed', 'why'), ('k A.d', 'skipped', 'no device')]


def test_holes_are_found_and_listed(tmp_path):
    root = make_tree(tmp_path, {
        'base/reasons.def': 'WEFT_REASON(TooWide, "x")\nWEFT_REASON(TooTall, "x")\n', 'base/status.h': '  kUsage = 2,\n',
        'fallback/native/native.def': 'WEFT_NATIVE(Abs, Unary)\n', 'tc_lang/ops/table.cpp': '{Op::kAbs, {"direct", Unary}}\n',
        'graph/ops.def': 'WEFT_OP(Abs, "")\nWEFT_OP(If, "")\n', 'graph/rewrites/rewrites.def': 'WEFT_REWRITE(drop_it)\n',
        'a.cpp': 'Reason::kTooWide\n', 'a_test.cpp': 'TEST(DropIt, A)\nReason::kTooWide Reason::kTooTall If Code::kUsage\n',
        'build/op_cases.bin': 'case abs_1 Abs\n', 'tools/holes.txt': 'operator If: not any more\n'})
    assert holes.check(root, root / 'build') == ['no test: reason TooTall', 'tools/holes.txt: no longer a hole: operator If']
    (root / 'build/op_cases.bin').write_text('')
    (root / 'a_test.cpp').write_text('')
    assert holes.check(root, root / 'build') == [
        f'no test: {hole}' for hole in ('code Usage', 'operator Abs', 'reason TooTall', 'reason TooWide', 'rewrite drop_it')]


@pytest.mark.parametrize('document, wrong', [
    ('- A rule\n  of two lines (`Suite.Name`).\n| E0101 | a byte | `Suite.Name` |\n| `exp` | | `Suite.Name` |\n', []),
    ('- A rule without one.\n| E0101 | | `Suite.Name` |\n| `exp` | | `Suite.Name` |\n', ['names no test']),
    ('| E0101 | | `Suite.Other` |\n| `exp` | | `Suite.Name` |\n', ['there is no test Suite.Other']),
    ('| E0102 | | `Suite.Name` |\n| `exp` | | `Suite.Name` |\n', ['E0101 is not explained', 'E0102 is no error']),
    ('| E0101 | | `Suite.Name` |\n', ["the builtin 'exp' is not listed"]),
])
def test_rules_of_the_language_name_tests(document, wrong):
    said = check_language.check(document, {'Suite.Name'}, {'0101'}, {'exp'})
    assert len(said) == len(wrong) and all(w in s for w, s in zip(wrong, said)), said


def test_promises_are_held(tmp_path):
    root = make_tree(tmp_path, {'a_test.cpp': 'TEST(Suite, Name) {}\n', 'b_test.py': 'def test_it():\n', 'tests/fuzz/fuzz_x.cpp': ''})
    row = '| {}. what | how | `a_test.cpp`: `Suite.Name`; `b_test.py`: `test_it`; `tests/fuzz/fuzz_x.cpp` |'
    good = '\n'.join(row.format(n) for n in range(1, 18))
    assert check_hardening.check(good, root) == []
    for old, new, wrong in [('Suite.Name', 'Suite.Other', 'no test Suite.Other'), ('test_it', 'test_other', 'no test test_other'),
                            ('b_test.py', 'c_test.py', 'no file c_test.py'), ('| 3. ', '| 4. ', 'found the promises'),
                            (': `test_it`', '', 'without a test')]:
        assert wrong in '\n'.join(check_hardening.check(good.replace(old, new), root)), new


def test_a_table_of_tolerances():
    data = 'WEFT_CLASS(exact, element,\n  "Abs "\n  "Neg")\nWEFT_TOLERANCE(exact, f32, 0, 0)\nWEFT_CLASS(computed, scale, "")\nWEFT_TOLERANCE(computed, f16, 1e-3, 0)\n'
    assert check_numerics.table(data).split('\n')[2:4] == [
        '| exact | Abs Neg | element |  | exactly |  |  |', '| computed | all others | scale |  |  | 1e-3 |  |']
