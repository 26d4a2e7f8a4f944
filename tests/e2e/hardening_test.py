"""What strangers' files, full disks, damaged caches and signals must not achieve; docs/hardening.md lists all that is promised."""
import io
import os
import re
import resource
import signal
import subprocess
import time
import zipfile

import numpy as np
import pytest
from tool import DIGITS

onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ONE = ('--shape', 'image=1x1x16x16')
F32 = TensorProto.FLOAT


def info(name, shape, dtype=F32):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(path, nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, 'g', inputs, outputs, list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', opset), helper.make_opsetid('far', 1)], ir_version=8), path)


HUGE = 1 << 40
NORMS = [('InstanceNormalization', {}), ('GroupNormalization', {'num_groups': 2}), ('MeanVarianceNormalization', {'axes': [2, 3, 4]})]
BESIDE_NONE = [*NORMS, ('LpNormalization', {'axis': 3}), ('LRN', {'size': 3}), ('Softmax', {'axis': 1}), ('Softmax', {'axis': 3}),
               ('ReduceSum', {}), ('ReduceMax', {}), ('ArgMax', {'axis': 1}), ('MaxPool', {'kernel_shape': [3] * 3, 'pads': [1] * 6}),
               ('AveragePool', {'kernel_shape': [1] * 3}), ('GlobalAveragePool', {}), ('Resize', {}), ('Relu', {}),
               ('Transpose', {'perm': [4, 2, 0, 3, 1]}), ('Concat', {'axis': 1}), ('MatMul', {}), ('Conv', {})]
@pytest.mark.parametrize('extents', [[HUGE, HUGE, 0], [0, HUGE, HUGE], [HUGE, 0, HUGE]])
@pytest.mark.parametrize('op, attributes', BESIDE_NONE)
def test_huge_extents_beside_none(weft, op, attributes, extents):
    """Nothing is stored, but products of the extents leave 64 bits: a right answer, or a refusal that says so."""
    x = [1, 4, *extents]
    others = {'InstanceNormalization': [[4], [4]], 'GroupNormalization': [[4], [4]], 'Concat': [x], 'MatMul': [[extents[2], 1]],
              'Conv': [[4, 4, 1, 1, 1]]}
    shapes = {'x': x} | {f'x{i}': s for i, s in enumerate(others.get(op, []))}
    scales = [helper.make_tensor('scales', F32, [5], [1, 1, 2, 2, 2])] if op == 'Resize' else []
    names = [*shapes, '', 'scales'] if scales else [*shapes]
    save(weft.folder / 'm.onnx', [helper.make_node(op, names, ['y'], **attributes)], [info(n, s) for n, s in shapes.items()],
         [info('y', None, TensorProto.INT64 if op == 'ArgMax' else F32)], scales, opset=21)
    done = subprocess.run([weft.binary, 'run', 'm.onnx', '--budget', '0'], cwd=weft.folder, capture_output=True, text=True)
    assert done.returncode == 0 or done.returncode in (4, 5) and re.search('address|memory', done.stderr), done.stderr


@pytest.mark.parametrize('op, gates', [('RNN', 1), ('GRU', 3), ('LSTM', 4)])
def test_many_steps_of_no_sequences(weft, op, gates):
    save(weft.folder / 'm.onnx', [helper.make_node(op, ['x', 'w', 'r'], ['y'], hidden_size=2)],
         [info('x', [HUGE, 0, 3]), info('w', [1, 2 * gates, 3]), info('r', [1, 2 * gates, 2])], [info('y', None)])
    done = subprocess.run([weft.binary, 'run', 'm.onnx', '--budget', '0'], cwd=weft.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or done.returncode in (4, 5) and re.search('address|memory', done.stderr), done.stderr


def test_names_do_not_reach_the_terminal(weft):
    name = 'a\x1b[2J\r\nb"\\\u202e\x7f'
    save(weft.folder / 'm.onnx', [helper.make_node('Warp', ['x'], [name], name, domain='far')], [info('x', [2])], [info(name, None)])
    text = weft('check', 'm.onnx', code=4)
    assert not re.search(r'[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u202e]', text + weft.said), text
    assert weft.json('check', 'm.onnx', code=4)['unsupported'][0]['node'] == name
    weft('build', 'm.onnx', '-o', 'm.plan', code=4)
    assert not re.search(r'[\x00-\x09\x0b-\x1f\x7f\u202e]', weft.said), weft.said
    error = weft.json('run', 'm\x1b.onnx', code=3)['error']
    assert 'm\x1b.onnx' not in weft.said and error['code'] == 3


def test_a_path_that_is_no_text_is_told_as_json(weft):
    path = os.fsencode(weft.folder) + b'/\xff\xfe.onnx'
    done = subprocess.run([os.fsencode(weft.binary), b'check', path, b'--json'], capture_output=True)
    assert done.returncode == 3
    done.stdout.decode()  # UTF-8


def npy(header, data=b'\0' * 1024, version=b'\1\0', length=None):
    header = header.encode() + b'\n'
    return b'\x93NUMPY' + version + (len(header) if length is None else length).to_bytes(2, 'little') + header + data


def right(descr="'<f4'", order='False', shape='(1, 1, 16, 16)'):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


HOSTILE = {
    'pickle': npy(right("'|O'")),
    'code': npy("{'descr': __import__('os').system('touch ran'), 'fortran_order': False, 'shape': (1, 1, 16, 16)}"),
    'comprehension': npy("{'descr': '<f4', 'fortran_order': False, 'shape': tuple(1 for i in range(10**9))}"),
    'structured': npy(right("[('a', '<f4')]")), 'unknown type': npy(right("'<f3'")), 'no type': npy(right("''")),
    'negative': npy(right(shape='(1, 1, -16, 16)')), 'huge': npy(right(shape='(1099511627776, 1099511627776)')),
    'more than there is': npy(right(shape='(1, 1, 16, 17)')), 'cut': npy(right(), b'\0' * 1000), 'a tail': npy(right(), b'\0' * 1028),
    'deep': npy(right(shape='(' * 10000)), 'no shape': npy("{'descr': '<f4', 'fortran_order': False}"), 'empty': b'',
    'other magic': b'\x93NUMPX' + npy(right())[6:], 'version': npy(right(), version=b'\x09\0'), 'header beyond': npy(right(), length=65535),
    'not closed': npy("{'descr': '<f4"), 'magic alone': b'\x93NUMPY', 'later version': npy(right(), version=b'\4\0'),
    'behind the end': npy(right() + '; import os'), 'a key twice': npy(right()[:-1] + "'descr': '<f4'}"),
    'behind the end': npy(right() + '; import os'), 'a key twice': npy(right()[:-1] + ", 'descr': '<f4'}"),
    'no version': npy(right(), version=b'\x00\0'), 'a later version': npy(right(), version=b'\x04\0'),
}


@pytest.mark.parametrize('name', HOSTILE)
def test_arrays_that_are_not_to_be_trusted(weft, digits_plan, name):
    (weft.folder / 'x.npy').write_bytes(HOSTILE[name])
    weft('run', digits_plan, '--input', 'image=x.npy', '-o', 'y.npz', code=(3, 5))
    assert 'x.npy' in weft.said
    assert not (weft.folder / 'y.npz').exists() and not (weft.folder / 'ran').exists()


def test_arrays_in_every_order_of_bytes_and_axes(weft, digits_plan):
    image = np.random.default_rng(1).random((1, 1, 16, 16), np.float32)
    found = []
    for array in (image, image.astype('>f4'), np.asfortranarray(image), np.asfortranarray(image.astype('>f4'))):
        np.save(weft.folder / 'x.npy', array)
        weft('run', digits_plan, '--input', 'image=x.npy', '-o', 'y.npz')
        found.append(dict(np.load(weft.folder / 'y.npz')))
    for other in found[1:]:
        for name, values in found[0].items():
            np.testing.assert_array_equal(values, other[name])


def test_archives_of_more_than_they_hold(weft, digits_plan):
    """An archive whose entry says that it unpacks to a terabyte."""
    whole = io.BytesIO()
    np.savez_compressed(whole, image=np.zeros((1, 1, 16, 16), np.float32))
    data = bytearray(whole.getvalue())
    for sign, at in ((b'PK\x01\x02', 24), (b'PK\x03\x04', 22)):
        place = data.find(sign) + at
        data[place:place + 4] = (0xFFFFFFF0).to_bytes(4, 'little')
    (weft.folder / 'x.npz').write_bytes(data)
    weft('run', digits_plan, '--inputs', 'x.npz', '-o', 'y.npz', code=(3, 5))
    assert 'x.npz' in weft.said and not (weft.folder / 'y.npz').exists()


def test_archives_of_what_nobody_wants(weft, digits_plan):
    """What is compressed may be a thousand times larger: under a name that no input has it is not even looked at."""
    np.savez_compressed(weft.folder / 'x.npz', other=np.arange(1000))
    data = bytearray((weft.folder / 'x.npz').read_bytes())
    data[len(data) // 2] ^= 255
    (weft.folder / 'x.npz').write_bytes(data)
    weft('run', digits_plan, '--inputs', 'x.npz', code=2)
    assert 'x.npz: the network has no input "other"' in weft.said


def test_archives_whose_entries_share_bytes(weft, digits_plan):
    with zipfile.ZipFile(weft.folder / 'x.npz', 'w') as archive:
        archive.writestr('image.npy', npy(right()))
        archive.filelist *= 2
    weft('run', digits_plan, '--inputs', 'x.npz', code=3)
    assert 'the entries are larger than the file (entry "image")' in weft.said


@pytest.mark.parametrize('arguments', [('build', DIGITS, *ONE, '--budget', '0', '-o', 'out'), ('run', DIGITS, *ONE, '-o', 'out'),
                                       ('opt', '--from', 'graph', '--to', 'graph', DIGITS, *ONE, '-o', 'out')], ids=lambda a: a[0])
def test_a_file_that_may_not_grow(weft, arguments):
    """SIGXFSZ and EFBIG: the older file stays, and nothing else is there."""
    old = b'older'
    (weft.folder / 'out').write_bytes(old)
    done = subprocess.run([str(a) for a in (weft.binary, *arguments)], cwd=weft.folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)))
    assert done.returncode == 5, done.stderr
    assert 'out' in done.stderr and (weft.folder / 'out').read_bytes() == old
    assert [f.name for f in weft.folder.iterdir()] == ['out']


def test_a_reader_that_goes_away(weft, digits_plan):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([weft.binary, 'inspect', digits_plan], stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 5 and 'Broken pipe' in done.stderr


@pytest.mark.parametrize('with_signal', [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_run(weft, digits_plan, with_signal):
    process = subprocess.Popen([weft.binary, 'bench', digits_plan, '--duration', '60s', '--runs', '100000000'], cwd=weft.folder,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    process.send_signal(with_signal)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 130 and 'interrupted' in said


def outputs_of(weft, model, *options):
    weft('run', model, *ONE, '--seed', '1', '-o', 'y.npz', '--cache-dir', 'cache', *options)
    return np.load(weft.folder / 'y.npz')['logits' if 'logits' in np.load(weft.folder / 'y.npz') else np.load(weft.folder / 'y.npz').files[0]]


@pytest.mark.parametrize('harm', ['cut', 'flipped', 'empty', 'exchanged', 'folders', 'read-only'])
def test_a_cache_that_is_damaged(weft, harm):
    before = outputs_of(weft, DIGITS)
    files = sorted(f for f in (weft.folder / 'cache').rglob('*') if f.is_file())
    assert files
    whole = [f.read_bytes() for f in files]
    for i, file in enumerate(files):
        data = bytearray(whole[i])
        if harm == 'folders':
            file.unlink()
            file.mkdir()
            continue
        if harm == 'flipped' and data:
            data[len(data) // 2] ^= 0x10
        file.write_bytes({'cut': data[:len(data) // 2], 'empty': b'', 'exchanged': whole[i - 1]}.get(harm, data))
    if harm == 'read-only':
        for folder in (weft.folder / 'cache', *(f for f in (weft.folder / 'cache').rglob('*') if f.is_dir())):
            folder.chmod(0o500)
    np.testing.assert_array_equal(outputs_of(weft, DIGITS), before)


def test_weights_are_in_the_key(weft):
    """The same network under the same names, but with other numbers."""
    x, found = np.ones((1, 3), np.float32), []
    for factor in (2, 3):
        save(weft.folder / 'm.onnx', [helper.make_node('Mul', ['x', 'w'], ['y'])], [info('x', [1, 3])], [info('y', [1, 3])],
             [numpy_helper.from_array(np.full(3, factor, np.float32), 'w')])
        found.append(weft.run('m.onnx', {'x': x}, '--cache-dir', 'cache')['y'])
    np.testing.assert_array_equal(found[0] * 3, found[1] * 2)


ODD = {
    'an output that is an input': ([], ['x'], ['x'], {}, lambda x: x),
    'an input that nobody reads': ([('Relu', ['x'], 'y')], ['x', 'z'], ['y'], {}, lambda x: np.maximum(x, 0)),
    'an output twice as far': ([('Identity', ['x'], 'a'), ('Identity', ['a'], 'y')], ['x'], ['y', 'a'], {}, lambda x: x),
    'an output that is a weight': ([], ['x'], ['w'], {'w': np.ones(2, np.float32)}, lambda x: np.ones(2, np.float32)),
    'an initializer over an input': ([('Add', ['x', 'w'], 'y')], ['x', 'w'], ['y'], {'w': np.ones((2, 3), np.float32)}, lambda x: x + 1),
    'an operand that is empty': ([('Clip', ['x', '', 'w'], 'y')], ['x'], ['y'], {'w': np.float32(0.25)}, lambda x: np.minimum(x, 0.25)),
}


@pytest.mark.parametrize('name', ODD)
@pytest.mark.parametrize('shape', [(2, 3), (0, 3), (2, 0)])
def test_odd_models_run(weft, name, shape):
    nodes, inputs, outputs, weights, expected = ODD[name]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x.reshape(-1)[:1] = np.nan
    weights = {n: np.ones(shape, np.float32) if w.shape == (2, 3) else w for n, w in weights.items()}
    save(weft.folder / 'm.onnx', [helper.make_node(op, given, [result]) for op, given, result in nodes], [info(n, shape) for n in inputs],
         [info(n, weights[n].shape if n in weights else shape) for n in outputs],
         [numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()])
    found = weft.run('m.onnx', {'x': x} | ({'z': x} if 'z' in inputs else {}))
    for output in outputs:
        np.testing.assert_array_equal(found[output], expected(x))


def test_scalars_run(weft):
    save(weft.folder / 'm.onnx', [helper.make_node('Exp', ['x'], ['y']), helper.make_node('ReduceSum', ['x'], ['z'])], [info('x', [])],
         [info('y', []), info('z', [])])
    found = weft.run('m.onnx', {'x': np.float32(-np.inf)})
    assert found['y'] == 0 and found['y'].shape == () and found['z'] == -np.inf


def test_a_long_chain(weft):
    """Neither the stack nor quadratic time."""
    names = [f'v{i}' for i in range(20001)]
    save(weft.folder / 'm.onnx', [helper.make_node('Relu', [a], [b]) for a, b in zip(names, names[1:])], [info('v0', [4])],
         [info('v20000', [4])])
    done = subprocess.run([weft.binary, 'check', 'm.onnx'], cwd=weft.folder, capture_output=True, timeout=30,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20)))
    assert done.returncode == 0


def test_all_that_is_wrong_is_said_at_once(weft):
    nodes = [helper.make_node('Relu', ['x'], ['a'], 'first', far=1), helper.make_node('Warp', ['a'], ['b'], 'second', domain='far'),
             helper.make_node('Weave', ['b'], ['y'], 'third', domain='far')]
    save(weft.folder / 'm.onnx', nodes[1:], [info('a', [2])], [info('y', None)])
    said = weft.json('check', 'm.onnx', code=4)['unsupported']
    assert [u['node'] for u in said] == ['second', 'third'] and all(u['reason'] and u['try'] for u in said)
    save(weft.folder / 'm.onnx', nodes[:1], [info('x', [2])], [info('a', None)])
    error = weft.json('check', 'm.onnx', code=3)['error']
    assert 'first' in error['where'] + error['what'] and '"far"' in error['what']


SMALL = """graph g (x: f32[4, 16]) -> (y) {
  t: f32[4, 16] = Relu(x)
  y: f32[4, 16] = Add(t, x)
}
"""


@pytest.mark.parametrize('form, old, new, words', [
    ('groups', '{t: direct, y: direct}', '{y: direct, t: direct}', 'it stands before what makes its "t"'),
    ('graph', 'y: f32[4, 16] =', 'y: f32[4, 17] =', 'value y is f32[4, 17], inference says f32[4, 16]')])
def test_text_forms_that_contradict_themselves(weft, form, old, new, words):
    (weft.folder / 'm.graph').write_text(SMALL)
    weft('opt', 'm.graph', '--from', 'graph', '--to', 'groups', '-o', 'm.text', '--force', 'own')
    before, mark, after = (weft.folder / 'm.text').read_text().partition(f'=== {form}')
    assert mark and old in after
    (weft.folder / 'm.text').write_text(before + mark + after.replace(old, new, 1))
    weft('opt', 'm.text', '--from', 'groups', '--to', 'll', '-o', 'm.ll', code=3)
    assert words in weft.said


@pytest.mark.parametrize('form, old, new', [
    ('sched', 'domain: "{ ', 'domain: "{ ' + '(' * 100000), ('sched', ' : 0 <= ', ' : 0 <= ' + '- ' * 100000),
    ('sched', ' : 0 <= ', ' : ' + 'not ' * 100000 + '0 <= '), ('sched', ' : 0 <= ', ' : ' + 'exists a : ' * 100000 + '0 <= '),
    ('sched', '\nchild:', '\n' + ' ' * 2000 + 'child:'),
    ('loops', ' = max(', ' = ' + 'x[0] + ' * 100000 + 'max('),
    ('loops', ' {\n', ' {\n  reg big: f32[4294967296, 4294967296]\n')])
def test_text_forms_that_go_too_far(weft, form, old, new):
    """What a parser or a compiler would recurse on, or allocate, without end."""
    (weft.folder / 'm.graph').write_text(SMALL)
    weft('opt', 'm.graph', '--from', 'graph', '--to', form, '-o', 'm.text', '--force', 'own')
    text = (weft.folder / 'm.text').read_text()
    before, mark, after = text.partition(f'=== {form} ')
    assert mark and old in after
    (weft.folder / 'm.text').write_text(before + mark + after.replace(old, new, 1))
    weft('opt', 'm.text', '--from', form, '--to', 'll', '-o', 'm.ll', code=3)
    assert not (weft.folder / 'm.ll').exists()
