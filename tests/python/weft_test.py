"""The Python package on the network of the examples."""
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import MODEL, ROOT


@pytest.fixture(scope='module')
def data():
    return dict(np.load(ROOT / 'tests/data/digits_io.npz'))


def within(found, expected):
    return np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def test_runs_as_expected(digits, data):
    assert [t.name for t in digits.inputs] == ['image']
    assert digits.inputs[0].shape == (32, 1, 16, 16) and digits.inputs[0].dtype == np.float32
    assert digits.outputs[0].shape == (32, 10)
    for inputs in ({'image': data['image']}, [data['image']]):
        outputs = digits.run(inputs)
        assert list(outputs) == ['probabilities']
        assert within(outputs['probabilities'], data['probabilities'])
    assert (outputs['probabilities'].argmax(1) == data['labels']).mean() > 0.9


def test_takes_what_is_not_contiguous(digits, data):
    strided = np.repeat(data['image'], 2, axis=3)[..., ::2]
    assert not strided.flags.c_contiguous
    fortran = np.asfortranarray(data['image'])
    swapped = data['image'].astype('>f4')
    read_only = data['image'].copy()
    read_only.flags.writeable = False
    for image in (strided, fortran, swapped, read_only):
        assert within(digits.run([image])['probabilities'], data['probabilities'])


@pytest.mark.parametrize('force', ['own', 'vendor'])
def test_every_implementation_agrees(weft, cache, data, force):
    plan = weft.build(MODEL, shapes={'image': (32, 1, 16, 16)}, force=force, threads=2, cache_dir=cache)
    assert plan.threads == 2
    assert within(plan.run([data['image']])['probabilities'], data['probabilities'])


def test_a_saved_plan_runs_alike(weft, digits, data, cache, tmp_path):
    path = tmp_path / 'digits.plan'
    digits.save(path)
    loaded = weft.load(path, cache_dir=cache)
    assert loaded.inputs == digits.inputs and loaded.outputs == digits.outputs
    assert str(loaded) == str(digits) and loaded.name in repr(loaded)
    again = loaded.run([data['image']])['probabilities']
    assert np.array_equal(again, digits.run([data['image']])['probabilities'])


@pytest.mark.parametrize('kind, low', [('INT4', -8), ('UINT4', 0)])
def test_four_bits_are_bytes_of_numpy(weft, cache, tmp_path, kind, low):
    onnx = pytest.importorskip('onnx', reason='the model is written with onnx')
    value = [onnx.helper.make_tensor_value_info(name, getattr(onnx.TensorProto, kind), shape)
             for name, shape in (('x', [3, 5]), ('y', [5, 3]))]
    graph = onnx.helper.make_graph([onnx.helper.make_node('Transpose', ['x'], ['y'])], 'g', value[:1], value[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid('', 21)], ir_version=10),
              tmp_path / 'm.onnx')
    plan = weft.build(tmp_path / 'm.onnx', force='own', cache_dir=cache)
    x = (np.arange(15).reshape(3, 5) + low).astype(np.int8 if low else np.uint8)
    y = plan.run([x])['y']
    assert y.dtype == x.dtype and np.array_equal(y, x.T)
    with pytest.raises(weft.Error, match=f"element 7 is {low + 16}, which {'i4' if low else 'u4'} can't hold") as error:
        plan.run([x + x.dtype.type(9)])
    assert error.value.code == 2 and error.value.where == 'input "x"'


def test_errors_have_parts(weft, digits, data, tmp_path):
    with pytest.raises(weft.Error) as error:
        digits.run({'image': data['image'][:3]})
    assert error.value.code == 2 and '[3, 1, 16, 16]' in error.value.what and error.value.hint
    with pytest.raises(weft.Error, match='expected float32'):
        digits.run([data['image'].astype(np.float64)])
    with pytest.raises(weft.Error, match='expected'):
        digits.run({'picture': data['image']})
    with pytest.raises(weft.Error, match='expected'):
        digits.run([])
    broken = tmp_path / 'broken.plan'
    broken.write_bytes(b'not a plan')
    with pytest.raises(weft.Error) as error:
        weft.load(broken)
    assert error.value.code == 3 and str(broken) in error.value.where and error.value.what in str(error.value)
    with pytest.raises(weft.Error):
        weft.load(tmp_path / 'absent.plan')
    with pytest.raises(weft.Error, match='force'):
        weft.build(MODEL, force='luck')
    with pytest.raises(weft.Error):
        weft.build(MODEL, target='abacus')


def test_threads_may_share_a_plan(digits, data):
    wrong = []

    def work():
        for _ in range(10):
            if not within(digits.run([data['image']])['probabilities'], data['probabilities']):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def saved(onnx, path, nodes, inputs, outputs, constants=()):
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, 'g', [value(*v) for v in inputs], [value(*v) for v in outputs],
                                   [onnx.numpy_helper.from_array(a, n) for n, a in constants])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid('', 17)], ir_version=8), path)


def test_what_is_passed_through_is_a_copy(weft, cache, tmp_path):
    onnx = pytest.importorskip('onnx', reason='the model is written with onnx')
    saved(onnx, tmp_path / 'm.onnx', [onnx.helper.make_node('NonZero', ['x'], ['y'])], [('x', 1, ['N'])],
          [('x', 1, ['N']), ('y', 7, [1, None])])
    plan = weft.build(tmp_path / 'm.onnx', cache_dir=cache)
    x = np.arange(1000, dtype=np.float32)
    found = plan.run({'x': x})
    assert not np.shares_memory(found['x'], x)
    x[:] = 7
    assert found['x'][-1] == 999 and found['y'][0, 0] == 1


def test_constants_are_folded_with_subnormals(weft, cache, tmp_path):
    onnx = pytest.importorskip('onnx', reason='the model is written with onnx')
    saved(onnx, tmp_path / 'm.onnx', [onnx.helper.make_node('Mul', ['a', 'b'], ['c']), onnx.helper.make_node('Mul', ['x', 'c'], ['y'])],
          [('x', 1, [4])], [('y', 1, [4])], [('a', np.full(4, 1e-30, np.float32)), ('b', np.full(4, 1e-10, np.float32))])
    libm = ctypes.CDLL('libm.so.6')
    saved_mode, flushing = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
    libm.fegetenv(saved_mode)
    libm.fegetenv(flushing)
    control = int.from_bytes(flushing.raw[28:32], 'little') | 0x8040  # MXCSR: flush to zero, denormals are zero
    flushing[28:32] = control.to_bytes(4, 'little')
    libm.fesetenv(flushing)
    try:
        assert np.float32(1e-30) * np.float32(1e-10) == 0
        plan = weft.build(tmp_path / 'm.onnx', cache_dir=tmp_path)
    finally:
        libm.fesetenv(saved_mode)
    np.testing.assert_allclose(plan.run([np.full(4, 1e38, np.float32)])['y'], 0.01, rtol=1e-4)


def test_an_interrupt_ends_a_run(weft, cache, tmp_path):
    onnx = pytest.importorskip('onnx', reason='the model is written with onnx')
    value = onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph([onnx.helper.make_node('Identity', ['c'], ['on']), onnx.helper.make_node('Neg', ['s'], ['t'])], 'body',
                                  [value('i', 7, []), value('c', 9, []), value('s', 1, [2])], [value('on', 9, []), value('t', 1, [2])])
    saved(onnx, tmp_path / 'm.onnx', [onnx.helper.make_node('Loop', ['n', '', 'x'], ['y'], body=body)],
          [('n', 7, []), ('x', 1, [2])], [('y', 1, [2])])
    script = """if True:
        import sys
        import numpy as np, weft
        plan = weft.build(sys.argv[1], cache_dir=sys.argv[2])
        x = np.ones(2, np.float32)
        plan.run({'n': np.int64(1), 'x': x})
        print('runs', flush=True)
        try:
            plan.run({'n': np.int64(2**62), 'x': x})
        except KeyboardInterrupt:
            print(plan.run({'n': np.int64(1), 'x': x})['y'])
    """
    process = subprocess.Popen([sys.executable, '-c', script, tmp_path / 'm.onnx', cache], stdout=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
                               env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
    assert process.stdout.readline() == 'runs\n'
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    out, _ = process.communicate(timeout=30)
    assert out == '[-1. -1.]\n' and time.monotonic() - begin < 2


def test_version(weft):
    assert weft.__version__.count('.') == 2


def test_a_plan_for_cuda_wants_a_device(weft, build_dir, cache, tmp_path):
    tool = build_dir / 'bin/weft'
    found = json.loads(subprocess.run([tool, 'devices', '--json'], capture_output=True, check=True).stdout)['cuda']
    if not found['targets']:
        pytest.skip(f"nothing can be compiled for CUDA: {found['why_no_compiler']}")
    code = 4 if found['devices'] else 6
    plan = tmp_path / 'digits.plan'
    subprocess.run([tool, 'build', MODEL, '--shape', 'image=1x1x16x16', '--target', 'cuda:sm_90', '-o', plan,
                    '--cache-dir', cache], check=True)
    for attempt in (lambda: weft.load(plan), lambda: weft.build(MODEL, shapes={'image': (1, 1, 16, 16)}, target='cuda:sm_90')):
        with pytest.raises(weft.Error, match='CUDA') as error:
            attempt()
        assert error.value.code == code and error.value.hint
    by_c = subprocess.run([build_dir / 'bin/run_plan', plan, cache], capture_output=True, text=True)
    assert by_c.returncode == code and 'CUDA' in by_c.stderr
