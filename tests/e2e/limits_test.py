"""Limits and interruptions: memory that is not allowed or not there, Ctrl-C, and constants that need a file."""
import re
import resource
import signal
import subprocess
import time

import numpy as np
import pytest
from tool import DIGITS, interrupted

ONE = ('--shape', 'image=1x1x16x16')


def started(weft, *arguments, **options):
    return subprocess.Popen([str(a) for a in (weft.binary, *arguments)], cwd=weft.folder, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize('verb', ['build', 'run', 'bench', 'compare'])
def test_max_memory(weft, verb):
    options = {'build': ('-o', 'x.plan'), 'run': ('-o', 'y.npz'), 'bench': ('--runs', '1'), 'compare': ('--against', 'unfused', '--runs', '1')}
    arguments = (verb, DIGITS, *ONE, '--budget', '0', *options[verb])
    error = weft.json(*arguments, '--max-memory', '10K', code=5)['error']
    assert '10240' in error['what'] and not list(weft.folder.glob('*.plan')) and not list(weft.folder.glob('*.npz'))
    weft(*arguments, '--max-memory', '1G')
    weft(*arguments, '--max-memory', 'much', code=2)


def test_max_memory_of_what_a_run_decides(weft):
    onnx = pytest.importorskip('onnx', reason='onnx is not installed')
    helper, kind = onnx.helper, onnx.TensorProto
    value = helper.make_tensor_value_info
    node = helper.make_node
    wide = helper.make_graph([node('Mul', ['c', 'r'], ['p']), node('Transpose', ['p'], ['q'], perm=[1, 0]),
                              node('CumSum', ['q', 'axis'], ['z']), node('ReduceMax', ['z'], ['o'], keepdims=0)],
                             'wide', [], [value('o', kind.FLOAT, [])])
    small = helper.make_graph([node('ReduceMax', ['c'], ['o2'], keepdims=0)], 'small', [], [value('o2', kind.FLOAT, [])])
    axis = onnx.numpy_helper.from_array(np.array(0, np.int64), 'axis')
    branch = ([node('If', ['k'], ['y'], then_branch=wide, else_branch=small)],
              [value('k', kind.BOOL, []), value('c', kind.FLOAT, [2048, 1]), value('r', kind.FLOAT, [1, 2048])],
              [value('y', kind.FLOAT, [])], [axis])
    native = ([node('NonZero', ['x'], ['y'])], [value('x', kind.FLOAT, [64, 4096])], [value('y', kind.INT64, [2, None])], [])
    body = helper.make_graph([node('Neg', ['x'], ['a']), node('Exp', ['x'], ['b']), node('Identity', ['on'], ['goes'])], 'body',
                             [value('t', kind.INT64, []), value('on', kind.BOOL, [])],
                             [value('goes', kind.BOOL, []), value('a', kind.FLOAT, None), value('b', kind.FLOAT, None)])
    rows = ([node('Loop', ['n', ''], ['ya', 'yb'], body=body)], [value('n', kind.INT64, []), value('x', kind.FLOAT, [1 << 17])],
            [value('ya', kind.FLOAT, None), value('yb', kind.FLOAT, None)], [])  # either alone would fit
    for (nodes, inputs, outputs, constants), data, what in (
            (rows, {'n': np.array(5), 'x': np.ones(1 << 17, np.float32)}, 'are left to the loop'),
            (branch, {'k': np.array(True), 'c': np.ones((2048, 1), np.float32), 'r': np.ones((1, 2048), np.float32)}, 'are left to it'),
            (native, {'x': np.ones((64, 4096), np.float32)}, 'leaves the limit')):
        model = helper.make_model(helper.make_graph(nodes, 'g', inputs, outputs, constants), ir_version=8,
                                  opset_imports=[helper.make_opsetid('', 17)])
        onnx.save(model, weft.folder / 'm.onnx')
        np.savez(weft.folder / 'in.npz', **data)
        arguments = ('run', 'm.onnx', '--inputs', 'in.npz', '--budget', '0', '--force', 'calls', '--max-memory')
        assert what in weft.json(*arguments, '4M', code=5)['error']['what']
        weft(*arguments, '1G')
        if nodes is branch[0]:  # not a byte is left beside the plan around it
            said = weft.json(*arguments, '1', code=5)['error']['what']
            assert what in weft.json(*arguments, re.search(r'needs (\d+) bytes', said)[1], code=5)['error']['what']


def test_an_interrupted_native_kernel(weft):
    onnx = pytest.importorskip('onnx', reason='onnx is not installed')
    count = 400000  # none of which hides another: 80 s and more
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node('NonMaxSuppression', ['boxes', 'scores', 'most'], ['y'])]
    graph = onnx.helper.make_graph(nodes, 'g', [value('boxes', 1, [1, count, 4]), value('scores', 1, [1, 1, count])],
                                   [value('y', 7, [None, 3])], [onnx.numpy_helper.from_array(np.array([count]), 'most')])
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid('', 17)]), weft.folder / 'm.onnx')
    at = np.arange(count, dtype=np.float32)[:, None] * 2
    np.savez(weft.folder / 'in.npz', boxes=np.concatenate([at, at, at + 1, at + 1], 1)[None], scores=np.ones((1, 1, count), np.float32))
    interrupted(started(weft, 'run', 'm.onnx', '--inputs', 'in.npz', '--budget', '0'))


def test_an_interrupted_build_of_what_a_run_decides(weft):
    onnx = pytest.importorskip('onnx', reason='onnx is not installed')
    helper = onnx.helper
    nodes, weights, last = [helper.make_node('Compress', ['x', 'k'], ['r7'], axis=2)], [], 'r7'
    for i in range(8, 78):  # kernels that differ
        weights.append(onnx.numpy_helper.from_array(np.full((i + 1, i, 3, 3), 0.01, np.float32), f'w{i}'))
        nodes += [helper.make_node('Conv', [last, f'w{i}'], [f'c{i}'], pads=[1] * 4), helper.make_node('Relu', [f'c{i}'], [f'r{i}'])]
        last = f'r{i}'
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, 'g', [value('x', 1, [1, 8, 64, 9]), value('k', 9, [64])], [value(last, 1, None)], weights)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid('', 13)]), weft.folder / 'm.onnx')
    np.savez(weft.folder / 'in.npz', x=np.ones((1, 8, 64, 9), np.float32), k=np.arange(64) < 31)
    interrupted(started(weft, 'run', 'm.onnx', '--inputs', 'in.npz', '--threads', '1', '--specialize', 'now'), after_s=1)


def test_an_output_that_memory_does_not_hold(weft):
    helper = pytest.importorskip('onnx.helper', reason='onnx is not installed')
    import onnx
    value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    node = helper.make_node('Add', ['x', 'y'], ['z'])
    model = helper.make_model(helper.make_graph([node], 'g', [value('x', [1 << 16, 1]), value('y', [1, 1 << 16])],
                                                [value('z', [1 << 16, 1 << 16])]),
                              ir_version=8, opset_imports=[helper.make_opsetid('', 17)])
    onnx.save(model, weft.folder / 'm.onnx')
    limit = 8 << 30
    for verb in ('run', 'bench'):
        process = started(weft, verb, 'm.onnx', '--budget', '0',
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        _, said = process.communicate(timeout=60)
        assert process.returncode == 5, said
        assert 'no memory' in said


def test_interrupted_runs(weft, digits_plan):
    process = started(weft, 'bench', digits_plan, '--duration', '60s', '--json', '--runs', '100000000')
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert '"code": 130' in out and 'interrupted' in said


def test_interrupted_before_there_is_anything_to_keep(weft):
    process = started(weft, 'opt', '--from', 'graph', '--to', 'graph', '-', '-o', 'x.graph')
    process.communicate(timeout=30)  # an empty model ends by itself
    assert process.returncode == 3
    process = subprocess.Popen([str(weft.binary), 'opt', '--from', 'graph', '--to', 'graph', '-', '-o', 'x.graph'],
                               cwd=weft.folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert not (weft.folder / 'x.graph').exists()


def test_an_interrupted_build_keeps_the_best_so_far(weft):
    process = started(weft, 'build', DIGITS, '--shape', 'image=64x1x16x16', '--budget', '10m', '-o', 'x.plan', '--cache-dir', 'empty')
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode in (0, 130), said
    assert (weft.folder / 'x.plan').exists() == (process.returncode == 0)
    if process.returncode == 0:
        weft('verify', 'x.plan')


def test_big_constants_are_not_dropped(weft):
    error = weft.json('opt', '--from', 'graph', '--to', 'graph', DIGITS, *ONE, code=2)['error']
    assert '-o FILE' in error['try']
    weft('opt', '--from', 'graph', '--to', 'graph', DIGITS, *ONE, '-o', 'd.graph')
    assert any((weft.folder / 'd.graph.blobs').iterdir())


def test_hundreds_of_parts(weft):
    """A tensor that is taken apart, changed and put together again, part by part, as exporters unroll a loop."""
    helper = pytest.importorskip('onnx.helper', reason='onnx is not installed')
    import numpy as np
    import onnx
    count = 300
    value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [count, 5])
    nodes = [helper.make_node('Split', ['x'], [f'p{i}' for i in range(count)], axis=0, num_outputs=count),
             *(helper.make_node('Neg', [f'p{i}'], [f'q{i}']) for i in range(0, count, 50)),
             helper.make_node('Concat', [f'{"p" if i % 50 else "q"}{i}' for i in range(count)], ['y'], axis=0)]
    model = helper.make_model(helper.make_graph(nodes, 'g', [value('x')], [value('y')]), ir_version=8,
                              opset_imports=[helper.make_opsetid('', 18)])
    onnx.save(model, weft.folder / 'm.onnx')
    x = np.arange(count * 5, dtype=np.float32).reshape(count, 5)
    np.savez(weft.folder / 'x.npz', x=x)
    for force in ((), ('--force', 'vendor'), ('--force', 'own')):
        weft('run', 'm.onnx', '--inputs', 'x.npz', '-o', 'y.npz', '--budget', '0', *force)
        x_or_negative = np.where(np.arange(count)[:, None] % 50, x, -x)
        np.testing.assert_array_equal(np.load(weft.folder / 'y.npz')['y'], x_or_negative)
    assert '300 > 48' in weft('explain', 'm.onnx', '--budget', '0')


@pytest.mark.parametrize('what', ['attributes', 'operands', 'inputs', 'parts'])
def test_very_many_of_a_kind(weft, what):
    """A small file: its reading takes seconds, where a search in a list for each of them would take minutes."""
    helper = pytest.importorskip('onnx.helper', reason='onnx is not installed')
    import onnx
    count = 150_000
    value = lambda name, *shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    names = lambda letter: [f'{letter}{i}' for i in range(count)]
    nodes, inputs = [helper.make_node('Relu', ['x'], ['y'])], [value('x', count)]
    if what == 'attributes':
        nodes[0] = helper.make_node('Unknown', ['x'], ['y'], domain='d', **dict.fromkeys(names('a'), 1))
    if what == 'operands':
        nodes[0] = helper.make_node('Unknown', ['x'] * count, ['y', *names('o')], domain='d')
    if what == 'inputs':
        inputs += [value(name, f'dim_{name}') for name in names('i')]
    if what == 'parts':
        nodes = [helper.make_node('Split', ['x'], names('p'), axis=0, num_outputs=count), helper.make_node('Concat', names('p'), ['y'], axis=0)]
    model = helper.make_model(helper.make_graph(nodes, 'g', inputs, [value('y', count)]), ir_version=8,
                              opset_imports=[helper.make_opsetid('', 18), helper.make_opsetid('d', 1)])
    onnx.save(model, weft.folder / 'm.onnx')
    process = started(weft, 'check', 'm.onnx')
    process.communicate(timeout=40)
    assert process.returncode == (4 if what in ('attributes', 'operands') else 0)


def test_a_choice_that_takes_the_polyhedral_library_too_long(weft):
    """A text may ask for thousands of tiles in each other: how much work that may be is a limit, not a rule of the text."""
    (weft.folder / 'm.graph').write_text('graph g (x: f32[64, 64]) -> (y) {\n  y: f32[64, 64] = Exp(x)\n}\n')
    weft('opt', '--from', 'graph', '--to', 'choices', '--force', 'own', '--budget', '0', 'm.graph', '-o', 'm.choices')
    text = (weft.folder / 'm.choices').read_text()
    deep, tiles = re.subn(r'(tile \S+)( \d+)+', r'\1' + ' 2' * 5000, text)
    assert tiles, text
    (weft.folder / 'deep.choices').write_text(deep)
    weft('opt', '--from', 'choices', '--to', 'loops', 'deep.choices', code=5)
    assert 'isl_quota' in weft.said
