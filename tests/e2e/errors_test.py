"""What a script relies on when things go wrong: exit codes, a place, and no half-written file."""
import random
import re
import struct
import subprocess

import numpy as np
import pytest
from tool import DIGITS, rewritten

ONE = {'image': np.zeros((1, 1, 16, 16), np.float32)}


def damaged(plan):
    """name -> bytes of a plan that somebody has cut or changed."""
    whole = plan.read_bytes()
    found = {f'cut-{at}': whole[:at] for at in (0, 1, 7, 64, len(whole) // 2, len(whole) - 1)}
    rng = random.Random(1)
    for at in [0, 9, 40, *(rng.randrange(64, len(whole)) for _ in range(5))]:
        flipped = bytearray(whole)
        flipped[at] ^= 1 << rng.randrange(8)
        found[f'flip-{at}'] = bytes(flipped)
    return found


def test_damaged_plans(weft, digits_plan):
    np.savez(weft.folder / 'inputs.npz', **ONE)
    for name, data in damaged(digits_plan).items():
        file = weft.folder / f'{name}.plan'
        file.write_bytes(data)
        weft('verify', file, code=1)
        weft('run', file, '--inputs', 'inputs.npz', '-o', 'outputs.npz', code=3)
        assert file.name in weft.said
    assert not list(weft.folder.glob('outputs*')), 'a failing command leaves no output'


@pytest.mark.parametrize('seed', range(30))
def test_other_numbers_under_right_hashes(weft, digits_plan, seed):
    """What nobody would notice by a hash: refused or run, and what is not verified is not run."""
    rng, data = random.Random(seed), digits_plan.read_bytes()
    offset, size = struct.unpack_from('<QQ', data, 32)
    text = data[offset:offset + size]
    numbers = [m.span() for m in re.finditer(rb'(?<![0-9a-f])\d{1,6}(?![0-9a-f])', text) if m.start() > text.index(b'{')]
    while True:
        begin, end = rng.choice(numbers)
        before, after, n = text[max(0, begin - 24):begin], text[end:end + 24], end - begin
        old = before + text[begin:end] + after
        new = before + rng.choice([b'0' * n, b'9' * n, b'%0*d' % (n, rng.randrange(10**n)), b'-' + b'1' * (n - 1)]) + after
        if text.count(old) == 1 and len(new) == len(old) and new != old:
            break
    (weft.folder / 'm.plan').write_bytes(rewritten(data, old, new))
    np.savez(weft.folder / 'in.npz', **ONE)
    weft('run', 'm.plan', '--inputs', 'in.npz', '-o', 'out.npz', code=(0, 3))
    ran = (weft.folder / 'out.npz').exists()
    assert ran != bool(weft.said), (old, new, weft.said)
    weft('verify', 'm.plan', code=0 if ran else (0, 1))


@pytest.mark.parametrize('arguments', [(), ('frobnicate',), ('build',), ('run', 'model.onnx', '--no-such-option'),
                                       ('build', str(DIGITS), '--shape', 'image'), ('opt', str(DIGITS), '--from', 'graph', '--to', 'x'),
                                       ('build', str(DIGITS), '--shape', 'image=1x1x28x28'),
                                       ('run', str(DIGITS), '--shape', 'picture=1x1x16x16')], ids=' '.join)
def test_wrong_usage(weft, arguments):
    weft(*arguments, code=2)
    assert weft.said


@pytest.mark.parametrize('arguments, says', [(('bench', 'm.plan', '--percentile', '101'), '--percentile'), (('build',), 'MODEL'),
                                             (('bench', 'm.plan', '--rate', 'nan'), '--rate'),
                                             (('run', 'm.plan', '--threads', '99999999999'), '--threads'), (('frobnicate',), 'frobnicate'),
                                             (('cache',), 'weft cache --help'), (('run', 'm.plan', '--no-such-option'), '--no-such-option')])
def test_wrong_usage_is_a_document_too(weft, arguments, says):
    error = weft.json(*arguments, code=2)['error']
    assert error['code'] == 2 and says in error['what'] + error['try'] and says in weft.said, weft.said


@pytest.mark.parametrize('option', ['--tolerance', '--rtol', '--atol', '--min-speedup'])
@pytest.mark.parametrize('value', ['nan', '-1', 'much'])
def test_a_bound_is_a_number(weft, option, value):
    weft('compare', DIGITS, '--shape', 'image=1x1x16x16', '--budget', '0', '--runs', '2', f'{option}={value}', code=2)
    assert option in weft.said and value in weft.said


def test_a_plan_that_is_wrong_is_a_document(weft, digits_plan):
    (weft.folder / 'cut.plan').write_bytes(digits_plan.read_bytes()[:-1])
    found = weft.json('verify', 'cut.plan', code=1)
    assert found['valid'] is False and found['what'] and found['where'].startswith('cut.plan')
    weft.json('verify', 'absent.plan', code=3)


@pytest.mark.parametrize('verb', ['check', 'build', 'run', 'bench', 'compare', 'explain'])
def test_a_missing_model(weft, verb):
    extra = ('-o', 'x.plan') if verb == 'build' else ()
    weft(verb, 'absent.onnx', *extra, code=3)
    assert 'absent.onnx' in weft.said
    assert not (weft.folder / 'x.plan').exists()


@pytest.mark.parametrize('name, data', [('empty', b''), ('text', b'not a model\n'), ('cut', None)])
def test_a_malformed_model(weft, name, data):
    file = weft.folder / f'{name}.onnx'
    file.write_bytes(DIGITS.read_bytes()[:-1000] if data is None else data)
    error = weft.json('build', file, '-o', 'x.plan', code=3)['error']
    assert error['code'] == 3 and error['what'] and file.name in error['where']
    assert not (weft.folder / 'x.plan').exists()


def test_an_operator_that_nobody_knows(weft):
    helper = pytest.importorskip('onnx.helper', reason='onnx is not installed')
    import onnx
    value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3])
    nodes = [helper.make_node('Relu', ['x'], ['a'], 'fine'), helper.make_node('Warp', ['a'], ['b'], 'bad', domain='far.away'),
             helper.make_node('Weave', ['b'], ['y'], 'worse', domain='far.away')]
    model = helper.make_model(helper.make_graph(nodes, 'g', [value('x')], [value('y')]), ir_version=8,
                              opset_imports=[helper.make_opsetid('', 17), helper.make_opsetid('far.away', 3)])
    onnx.save(model, weft.folder / 'm.onnx')
    said = weft.json('check', 'm.onnx', code=4)
    assert said['supported'] is False and said['nodes'] == 3
    assert [(u['node'], u['op'], u['domain'], u['opset']) for u in said['unsupported']] == [
        ('bad', 'Warp', 'far.away', 3), ('worse', 'Weave', 'far.away', 3)]
    assert 'bad (far.away.Warp, opset 3)' in weft('check', 'm.onnx', code=4)
    assert all(u['reason'] for u in said['unsupported'])
    weft('build', 'm.onnx', '-o', 'm.plan', code=4)
    assert not (weft.folder / 'm.plan').exists()


def test_an_operator_that_nothing_computes(weft):
    helper = pytest.importorskip('onnx.helper', reason='onnx is not installed')
    import onnx
    tensor = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    float_, int_ = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    nodes = [helper.make_node('SequenceConstruct', ['x'], ['s'], 'makes'), helper.make_node('SequenceAt', ['s', 'i'], ['y'], 'it')]
    graph = helper.make_graph(nodes, 'g', [tensor('x', float_, [2, 5]), tensor('i', int_, [])], [onnx.ValueInfoProto(name='y')])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid('', 17)]), weft.folder / 'm.onnx')
    error = weft.json('build', 'm.onnx', '-o', 'm.plan', code=4)['error']
    assert 'SequenceAt' in error['what'] or 'SequenceAt' in error['where'], error
    assert not (weft.folder / 'm.plan').exists()


def test_an_input_of_another_shape_or_name(weft, digits_plan):
    for inputs in ({'image': ONE['image'][:, :, :15]}, {'picture': ONE['image']}, {'image': ONE['image'].astype(np.float64)}):
        np.savez(weft.folder / 'inputs.npz', **inputs)
        error = weft.json('run', digits_plan, '--inputs', 'inputs.npz', code=2)['error']
        assert error['code'] == 2 and error['what']


def test_inputs_that_are_no_archive(weft, digits_plan):
    (weft.folder / 'inputs.npz').write_bytes(b'PK\x03\x04 not really')
    weft('run', digits_plan, '--inputs', 'inputs.npz', code=3)
    assert 'inputs.npz' in weft.said


@pytest.mark.parametrize('arguments', [('inspect', 'PLAN'), ('run', 'PLAN', '--json'), ('--help',)])
def test_output_that_finds_no_room(weft, digits_plan, arguments):
    command = [weft.binary, *(digits_plan if word == 'PLAN' else word for word in arguments)]
    with open('/dev/full', 'w') as full:
        done = subprocess.run(command, cwd=weft.folder, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 5 and "standard output: can't write: No space left on device" in done.stderr


def test_closed_streams_are_no_files(weft, digits_plan):
    """What is printed does not end up in a file that was opened under the number of a closed stream."""
    done = subprocess.run(['sh', '-c', '"$0" build "$1" --shape image=1x1x16x16 --budget 0 -o m.plan --json <&- >&- 2>&-',
                           weft.binary, DIGITS], cwd=weft.folder)
    assert done.returncode == 0
    weft('verify', 'm.plan')
