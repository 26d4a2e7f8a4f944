"""`weft tc`: comprehensions on the command line, and every way in which a call of it can be wrong."""
import json
import signal
import subprocess
import time

import ml_dtypes
import numpy as np
import pytest

TEXT = '''
# Several defs, one file.
def matmul(float(M, K) A, float(K, N) B) -> (C) {
  C(m, n) +=! A(m, k) * B(k, n)
}
def softmax(float(N, D) x) -> (y) {
  m(i) max=! x(i, j)
  e(i, j) = exp(x(i, j) - m(i))
  s(i) +=! e(i, j)
  y(i, j) = e(i, j) / s(i)
}
def look(float(E, D) table, int32(N) at) -> (y) { y(n, d) = table(at(n), d) }
def every(float(N) x, size S) -> (y) { y(i) = x(S * i) }
def add(float a, float b) -> (c) { c = a + b }
def two(float(N) x) -> (low, high) { low(i) = x(i) - 1.0  high(i) = x(i) + 1.0 }
def wide(bfloat16(N) x, bool(N) keep, uint64(N) n) -> (y, k, m) {
  y(i) = bfloat16(float(x(i)) * 2.0)
  k(i) = !keep(i)
  m(i) = n(i) + uint64(1)
}
'''
TARGETS = ['cpu', 'cpu:x86-64-v3', 'interpreter', 'cuda-emulated']


@pytest.fixture
def tc(weft):
    (weft.folder / 'f.tc').write_text(TEXT)

    def call(entry, inputs, *arguments, file='f.tc', json=False, **options):
        """Outputs by name; what was printed lies in call.said."""
        np.savez(weft.folder / 'in.npz', **inputs)
        given = ('tc', file, '--entry', entry, '--inputs', 'in.npz', '--output', 'out.npz', *arguments)
        call.said = weft.json(*given, **options) if json else weft(*given, **options)
        if options.get('code', 0):
            assert not (weft.folder / 'out.npz').exists(), 'a failing command leaves no output'
            return None
        with np.load(weft.folder / 'out.npz') as outputs:
            return dict(outputs)

    return call


def floats(*shape):
    return np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize('target', TARGETS)
def test_runs(tc, target):
    a, b = floats(9, 20), floats(20, 33)
    c = tc('matmul', {'A': a, 'B': b}, '--target', target)['C']
    assert c.dtype == np.float32 and np.allclose(c, a @ b, atol=1e-5)
    y = tc('softmax', {'x': a}, '--target', target, '--threads', '2')['y']
    assert np.allclose(y.sum(1), 1, atol=1e-6)
    y = tc('look', {'table': a, 'at': np.array([8, 0], np.int32)}, '--target', target)['y']
    assert np.array_equal(y, a[[8, 0]])
    y = tc('every', {'x': a[0]}, '--size', 'S=7', '--target', target)['y']
    assert np.array_equal(y, a[0, ::7])
    assert tc('add', {'a': np.float32(1), 'b': np.float32(2)}, '--target', target)['c'] == 3
    outputs = tc('two', {'x': np.zeros(0, np.float32)}, '--target', target)
    assert {name: v.shape for name, v in outputs.items()} == {'low': (0,), 'high': (0,)}


@pytest.mark.parametrize('target', TARGETS)
def test_every_type_goes_through_a_file(tc, target):
    x, keep = np.array([1, -2.5, 3], ml_dtypes.bfloat16), np.array([True, False, True])
    outputs = tc('wide', {'x': x, 'keep': keep, 'n': np.array([0, 5, 2**64 - 1], np.uint64)}, '--target', target)
    assert np.array_equal(outputs['y'].view(ml_dtypes.bfloat16), x * ml_dtypes.bfloat16(2))
    assert np.array_equal(outputs['k'], ~keep)
    assert outputs['m'].tolist() == [1, 6, 0] and outputs['m'].dtype == np.uint64


def test_emulated_cuda_wants_a_compiler(tc, weft):
    for hidden, why in (('none', 'WEFT_CXX is none'), ('/no/such/compiler', 'found none of /no/such/compiler')):
        tc('softmax', {'x': floats(9, 20)}, '--target', 'cuda-emulated', code=6, env={'WEFT_CXX': hidden})
        assert 'no C++ compiler' in weft.said and why in weft.said and 'try: install g++' in weft.said
    tc('softmax', {'x': floats(9, 20)}, '--target', 'cuda-emulated', env={'WEFT_CXX': 'g++'})


def test_json_says_what_ran(tc):
    tc('softmax', {'x': floats(9, 20)}, '--runs', '3', '--seed', '5', json=True)
    assert tc.said['us'] > 0 and tc.said['def'] == 'softmax' and tc.said['env']['seed'] == 5
    assert tc.said['outputs'] == {'y': {'dtype': 'float32', 'shape': [9, 20]}}
    assert sum(tc.said['kernels'], []) == ['m', 'e', 's', 'y']


def test_one_def_needs_no_entry(weft):
    (weft.folder / 'one.tc').write_text('def one(float(N) x) -> (y) { y(i) = x(i) }')
    np.savez(weft.folder / 'x.npz', x=floats(3))
    assert weft('tc', 'one.tc', '--inputs', 'x.npz') == 'y: f32[3]\n'


def infer(weft, entry, *arguments, **options):
    return weft.json('tc', 'f.tc', '--entry', entry, '--infer', *arguments, **options)


def test_infers(tc, weft):
    found = infer(weft, 'matmul', '--extent', 'A=32x7', '--extent', 'B=7x64')
    assert found == {'schema': 1, 'def': 'matmul', 'ranges': {'m': [0, 32], 'n': [0, 64], 'k': [0, 7]},
                     'outputs': {'C': {'dtype': 'float32', 'shape': [32, 64]}}, 'preconditions': []}
    found = infer(weft, 'softmax', '--extent', 'x=3x4')
    assert found['ranges'] == {f'{v}@{s}': [0, n] for s in range(1, 5) for v, n in (('i', 3), ('j', 4))}
    found = infer(weft, 'look', '--extent', 'table=10x4', '--extent', 'at=5')
    assert found['preconditions'] == ['0 <= subscript 0 of table < 10']
    assert infer(weft, 'every', '--extent', 'x=10', '--size', 'S=4')['outputs']['y']['shape'] == [3]
    np.savez(weft.folder / 'in.npz', x=floats(11))
    assert infer(weft, 'every', '--inputs', 'in.npz', '--size', 'S=4')['outputs']['y']['shape'] == [3]
    assert infer(weft, 'add')['outputs'] == {'c': {'dtype': 'float32', 'shape': []}}


def test_infers_without_running(tc, weft):
    """Far more elements than there is memory for."""
    found = infer(weft, 'matmul', '--extent', 'A=1000000x1000000', '--extent', 'B=1000000x1000000')
    assert found['outputs']['C']['shape'] == [1000000, 1000000]


A, B = floats(2, 3), floats(3, 4)
WRONG = [  # entry, arrays, arguments, exit code, what is said
    ('matmul', {'A': A}, [], 2, "f.tc:3:39: the input 'B' is not given"),
    ('matmul', {}, [], 2, "f.tc:3:24: the input 'A' is not given"),
    ('matmul', {'A': A, 'B': B, 'Z': A}, [], 2, "'Z' is no tensor parameter of 'matmul', which has A, B"),
    ('every', {'x': A[0], 'S': A}, [], 2, "'S' is no tensor parameter of 'every', which has x"),
    ('matmul', {'A': A.astype(np.float64), 'B': B}, [], 2, "f.tc:3:24: found float64 for 'A', expected float32"),
    ('look', {'table': A, 'at': np.zeros(2, np.int64)}, [], 2, "f.tc:12:38: found int64 for 'at', expected int32"),
    ('matmul', {'A': A[0], 'B': B}, [], 2, "f.tc:3:24: found rank 1 for 'A', expected 2"),
    ('matmul', {'A': A, 'B': A}, [], 2, "f.tc:3:5: the size 'K' is 3 by extent 1 of 'A' and 2 by extent 0 of 'B'"),
    ('nope', {'A': A}, [], 2, "no def is called 'nope', found matmul, softmax"),
    ('every', {'x': A[0]}, [], 2, "f.tc:13:28: the size parameter 'S' is not given; try: --size S=V"),
    ('every', {'x': A[0]}, ['--size', 'T=1'], 2, "'T' is no size parameter of 'every', which has S"),
    ('every', {'x': A[0]}, ['--size', 'x=1'], 2, "'x' is no size parameter of 'every', which has S"),
    ('every', {'x': A[0]}, ['--size', 'S'], 2, 'expected'),
    ('every', {'x': A[0]}, ['--size', 'S=1x2'], 2, '--size S=1x2: expected NAME=V'),
    ('every', {'x': A[0]}, ['--size', 'S=1', '--size', 'S=2'], 2, 'given twice'),
    ('every', {'x': A[0]}, ['--size', 'S=-1'], 2, '-1'),
    ('add', {'a': A, 'b': np.float32(1)}, [], 2, "found rank 2 for 'a', expected 0"),
    ('softmax', {'x': A}, ['--target', 'abacus'], 2, 'expected cpu, interpreter, cuda or cuda-emulated'),
    ('softmax', {'x': A}, ['--target', 'interpreter:x'], 2, 'expected cpu, interpreter'),
    ('softmax', {'x': A}, ['--threads', '-3'], 2, '--threads -3'),
    ('softmax', {'x': A}, ['--extent', 'x=2x3'], 2, "the extents of 'x' are given already"),
    ('softmax', {'x': A}, ['--extent', 'z=2x3'], 2, "'z' is no tensor parameter"),
    ('look', {'table': A, 'at': np.array([0, 2], np.int32)}, [], 3, 'table'),
    ('look', {'table': A, 'at': np.array([-1], np.int32)}, [], 3, 'table'),
]


@pytest.mark.parametrize('entry, arrays, arguments, code, says', WRONG, ids=[f'{w[0]}-{i}' for i, w in enumerate(WRONG)])
def test_wrong_calls(tc, weft, entry, arrays, arguments, code, says):
    tc(entry, arrays, *arguments, code=code)
    assert says in weft.said, weft.said
    tc(entry, arrays, *arguments, code=code, json=True)
    assert tc.said['error']['code'] == code and says.split('; ')[0].split(': ')[-1] in json.dumps(tc.said, ensure_ascii=False).replace('\\"', '"')


@pytest.mark.parametrize('target', TARGETS)
def test_an_index_out_of_range_names_the_table(tc, weft, target):
    table = floats(10, 3)
    for bad in (10, -1, 2**31 - 1, -2**31):
        tc('look', {'table': table, 'at': np.array([0, bad], np.int32)}, '--target', target, code=3)
        assert 'table' in weft.said and str(bad) in weft.said


TEXTS = [  # text, exit code, what is said
    ('', 3, 'bad.tc:1:1: the text holds no def'),
    ('# nothing\n', 3, 'bad.tc'),
    ('def f(', 3, 'bad.tc:1:7: found the end of the text'),
    ('not a def', 3, 'bad.tc:1:1'),
    ('def f(float(N) x) -> (y) {\n  y(i) = x(j)\n}', 3, 'bad.tc:2:'),
    ('def f(float(N) x) -> (y) {\n  y(i) = z(i)\n}', 3, 'bad.tc:2:10'),
    ('def f(float(N) x) -> (y) {\n  y(i) = x(i - 1)\n}', 3, 'bad.tc:2:'),
    ('def f(float(N) x) -> (y) {\n  y(i) = x(i, i)\n}', 3, 'bad.tc:2:'),
    ('def f(float(N) x) -> (y) {\n  y(i) = x(i + .5)\n}', 3, 'bad.tc:2:'),
    ('def f(float(N) x) -> (y) {\n  x(i) = 1.0\n  y(i) = x(i)\n}', 3, 'bad.tc:2:3'),
    ('def f(float(N) x) -> (int8(N) y) {\n  y(i) = x(i)\n}', 3, 'bad.tc:2:'),
    ('def f(float(N) x) -> (y) {\n  y(i) = x(i) where i in 8:4\n}', 3, 'bad.tc:2:'),
    ('def f(float(N) x) -> (y) {\n  y(i) = x(i + j)\n}', 3, 'bad.tc:2:'),
    ('def f(float(N) x) -> (y) {\n  y(i) += x(i)\n}', 3, 'bad.tc:2:'),
    ('def f(float(N) x) -> (y) { y(i) = x(i) }\ndef f(float(N) x) -> (y) { y(i) = x(i) }', 3, 'bad.tc:2:5'),
    ('def f(float(N) \xff x) -> (y) { y(i) = x(i) }', 3, 'bad.tc:1:16'),
    ('def f(float(N) x) -> (y) { y(i) = x(i) ' + '+ (' * 600 + '1.0' + ')' * 600 + '}', 3, 'bad.tc:1:'),
]


@pytest.mark.parametrize('target', ['cpu', 'interpreter'])
@pytest.mark.parametrize('text, code, says', TEXTS, ids=range(len(TEXTS)))
def test_wrong_texts(weft, text, code, says, target):
    (weft.folder / 'bad.tc').write_bytes(text.encode('latin-1'))
    np.savez(weft.folder / 'in.npz', x=floats(5))
    weft('tc', 'bad.tc', '--inputs', 'in.npz', '-o', 'out.npz', '--target', target, code=code)
    assert says in weft.said, weft.said
    assert not (weft.folder / 'out.npz').exists()


def test_files_that_are_not_there_or_no_archives(tc, weft):
    weft('tc', 'absent.tc', code=(2, 3))
    assert 'absent.tc' in weft.said
    weft('tc', 'f.tc', '--entry', 'softmax', '--inputs', 'absent.npz', code=3)
    assert 'absent.npz' in weft.said
    (weft.folder / 'bad.npz').write_bytes(b'PK\x03\x04 not really')
    weft('tc', 'f.tc', '--entry', 'softmax', '--inputs', 'bad.npz', code=3)
    assert 'bad.npz' in weft.said
    weft('tc', code=2)


@pytest.mark.parametrize('target', ['cpu', 'interpreter'])
def test_an_endless_run_can_be_interrupted(binary, weft, target):
    (weft.folder / 'f.tc').write_text('def many(float(N) x) -> (y) { y(i) +=! x(i) where j in 0:100000000000 }')
    np.savez(weft.folder / 'x.npz', x=floats(4))
    run = subprocess.Popen([binary, 'tc', 'f.tc', '--inputs', 'x.npz', '-o', 'out.npz', '--target', target], cwd=weft.folder)
    time.sleep(2)
    run.send_signal(signal.SIGINT)
    assert run.wait(10) == 130
    assert not list(weft.folder.glob('out*'))


def test_memory_that_is_not_there(weft):
    (weft.folder / 'f.tc').write_text('def big(float(N) x) -> (y) { y(i, j) = x(i) where j in 0:1000000000000 }')
    np.savez(weft.folder / 'x.npz', x=floats(4))
    for target in TARGETS:
        weft('tc', 'f.tc', '--inputs', 'x.npz', '--target', target, code=5)


def test_infer_wants_all_sizes(tc, weft):
    infer(weft, 'matmul', '--extent', 'A=3x4', code=(2, 3))
    assert "'N'" in weft.said and "'B'" in weft.said
    infer(weft, 'every', '--extent', 'x=3', code=2)
    assert '--size S' in weft.said


def test_cuda_wants_a_device(tc, weft):
    cuda = weft.json('devices')['cuda']
    code = 4 if cuda['devices'] else 6
    tc('softmax', {'x': A}, '--target', 'cuda', code=code)
    assert 'CUDA' in weft.said and 'try:' in weft.said


RECURRENT = 'y(i,j) = x(i,j) + (i > 0 ? y(i-1,j) : 0.0) where i in 0:5, j in 0:8  z(i,j) = y(i,j) + x(i,j)'
ONCE = 't(j) = x(0,j) * 2.0  z(i,j) = t(j) + x(i,j)'
FIRST = 't(i,j) = x(i,j) * 2.0  z(i,j) = t(0,j) + x(i,j)'
TWO_PARTS = 't(i,j) = x(i,j) where i in 0:5, j in 0:3  t(i,j) = x(i,15-j) * 2.0 where i in 0:5, j in 3:13  z(i,j) = t(i,j) + x(i,j) where i in 0:5, j in 0:13'


@pytest.mark.parametrize('statements, columns, choice', [
    (RECURRENT, 8, 'y_to_z: cluster y z | order i j'), (RECURRENT, 8, 'y_to_z: cluster y z | order j i'),
    (RECURRENT, 8, 'y_to_z: cluster y z | order i j | tile j 4, i 2'), (ONCE, 8, 't_to_z: cluster t z | order i j'),
    (FIRST, 8, 't_to_z: cluster t z | order i j'), (FIRST, 8, 't_to_z: cluster t z | order i j | tile j 4'),
    (TWO_PARTS, 16, 't_to_z: cluster t t_2 z | inner i j | unroll i j | vector t.j 3, t_2.j 10, j 13')])
def test_temporaries_in_registers_keep_what_is_read_later(tc, weft, statements, columns, choice):
    """What another iteration reads is not overwritten, nor what lies behind the last of the lanes."""
    (weft.folder / 'f.tc').write_text(f'def f(float(5,{columns}) x) -> (z) {{ {statements} }}')
    (weft.folder / 'c.choices').write_text(choice + '\n')
    x = np.arange(5 * columns, dtype=np.float32).reshape(5, columns)
    right = tc('f', {'x': x}, '--target', 'interpreter')['z']
    assert np.array_equal(tc('f', {'x': x}, '--choices', 'c.choices', '--threads', '1')['z'], right)


def test_choices_that_are_dumped_can_be_forced(tc, weft):
    x = floats(40, 70)
    expected = tc('softmax', {'x': x}, '--dump', 'dump')['y']
    names = sorted(p.name for p in (weft.folder / 'dump').iterdir() if p.is_file())
    assert names == ['1.tc', '2.groups', '3.choices', '4.sched', '5.loops', '6.call', '7.plan']
    again = tc('softmax', {'x': x}, '--choices', 'dump/3.choices')['y']
    assert np.array_equal(again, expected)
    (weft.folder / 'apart.choices').write_text('m_to_y: cluster m | cluster e | cluster s | cluster y\n')
    forced = tc('softmax', {'x': x}, '--choices', 'apart.choices', '--dump', 'forced')['y']
    assert np.allclose(forced, expected, atol=1e-6)
    assert 'm_to_y: cluster m | cluster e | cluster s | cluster y' in (weft.folder / 'forced/3.choices').read_text()
    said = weft('opt', '--from', 'tc', '--to', 'loops', 'dump/1.tc', '-o', 'again.loops')
    assert said == '' and 'loops m_to_y' in (weft.folder / 'again.loops').read_text()


@pytest.mark.parametrize('text, code, says', [
    ('nobody: cluster m\n', 2, "a choice is for 'nobody', found the own groups m_to_y"),
    ('m_to_y: cluster m e s\n', 3, 'statement y is in no cluster'),
    ('m_to_y: cluster m e s y | order j\n', 3, 'illegal_schedule'),
    ('m_to_y: bundle m\n', 3, 'c.choices:1:9')])
def test_choices_that_do_not_do(tc, weft, text, code, says):
    (weft.folder / 'c.choices').write_text(text)
    tc('softmax', {'x': A}, '--choices', 'c.choices', code=code)
    assert says in weft.said, weft.said


def test_one_entry_for_programs_that_differ_in_names(weft):
    arrays = {'x': floats(6, 5), 'table': floats(6, 5)}
    for name, text in [('x', 'def f(float(N, D) x) -> (y) { y(i) +=! x(i, j) }'),
                       ('table', 'def g(float(A, B) table) -> (total) { total(row) +=! table(row, column) }')]:
        (weft.folder / 'f.tc').write_text(text)
        np.savez(weft.folder / 'in.npz', **{name: arrays[name]})
        weft('tc', 'f.tc', '--inputs', 'in.npz', '--cache-dir', 'cache')
    assert len(list((weft.folder / 'cache').glob('*.so'))) == 1


def test_several_kernels_where_that_is_better(tc, weft):
    (weft.folder / 'two.tc').write_text('''def two(float(M, K) a, float(K, N) b, float(N, P) c) -> (y) {
      t(m, n) +=! a(m, k) * b(k, n)
      u(n, m) = t(m, n)
      y(n, p) +=! u(n, m) * c(m, p) where m in 0:64
    }''')
    a, b, c = floats(64, 40), floats(40, 64), floats(64, 30)
    y = tc('two', {'a': a, 'b': b, 'c': c}, file='two.tc', json=True)['y']
    assert np.allclose(y, (a @ b).T @ c, atol=1e-4)
    assert len(tc.said['kernels']) > 1
