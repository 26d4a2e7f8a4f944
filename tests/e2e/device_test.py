"""Plans for CUDA, run on a device that stands in for one (tests/cuda/standin): kernels on the CPU, streams and memory as strict
as the driver's interface allows."""
import hashlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from tool import DIGITS, ROOT, Weft, within

ONE = ('--shape', 'image=1x1x16x16')
ESTIMATED = ('--budget', '0')
SEEDS = range(40)
NETWORKS = {'shufflenetv2': {'batch': 1}, 'minilm': {'batch': 2, 'S': 7}}


class OnDevice(Weft):
    """The binary, in an environment of its own."""

    def __init__(self, binary, folder, environment, target='cuda:sm_90'):
        super().__init__(binary, folder)
        self.environment, self.cuda = environment, ('--target', target)

    def __call__(self, *arguments, env=None, **options):
        return super().__call__(*arguments, env=self.environment | (env or {}), **options)


@pytest.fixture(scope='module')
def environment(binary, tmp_path_factory):
    """What makes a process find the device; what is compiled for it is no other device's."""
    standin = binary.parents[1] / 'standin'
    if not standin.is_dir():
        pytest.skip('tests/cuda/standin is not built')
    return {'LD_LIBRARY_PATH': str(standin), 'WEFT_CACHE_DIR': str(tmp_path_factory.mktemp('cubins') / 'weft')}


@pytest.fixture
def device(binary, tmp_path, environment):
    return OnDevice(binary, tmp_path, environment)


def digits():
    with np.load(ROOT / 'tests/data/digits_io.npz') as file:
        return {'image': file['image'][:1]}


def test_there_is_a_device(device):
    found = device.json('devices')['cuda']
    assert [d['compute_capability'] for d in found['devices']] == ['9.0'] and 'cuda:sm_90' in found['targets']


@pytest.mark.parametrize('major, target', [('8', 'cuda:sm_80'), ('9', 'cuda:sm_90'), ('10', 'cuda:sm_100'), ('7', None)])
def test_without_an_architecture_the_device_decides(device, major, target):
    there = {'WEFT_STANDIN_MAJOR': major}
    device('build', DIGITS, *ONE, '--target', 'cuda', *ESTIMATED, '-o', 'digits.plan', env=there, code=0 if target else 6)
    assert target or 'found stand-in for a device of compute capability 7.0, expected 8.x, 9.x or 10.x' in device.said
    if target:
        assert f'{target} ' in device('inspect', 'digits.plan', env=there)
        assert device.run('digits.plan', digits(), env=there).keys() == device.run(DIGITS, digits(), *ONE, *ESTIMATED).keys()
    (device.folder / 'f.tc').write_text('def f(float(N) x) -> (y) { y(i) = x(i) + 1.0 }')
    np.savez(device.folder / 'x.npz', x=np.arange(5, dtype=np.float32))
    device('tc', 'f.tc', '--inputs', 'x.npz', '--target', 'cuda', '-o', 'y.npz', env=there, code=0 if target else 6)
    assert not target or np.array_equal(np.load(device.folder / 'y.npz')['y'], np.arange(1, 6))


def test_the_programs_of_a_device(binary, environment, tmp_path):
    """Those that `./dev test gpu` runs where there is a GPU."""
    done = subprocess.run([binary.parent / 'cuda_test', '--gtest_filter=*Gpu*'], env=os.environ | environment, cwd=tmp_path,
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:]
    assert 'PASSED' in done.stdout and 'SKIPPED' not in done.stdout


def test_the_cpu_says_the_same(device):
    here, there = (device.run(DIGITS, digits(), *ONE, '--budget', '0', *target) for target in ((), device.cuda))
    assert here.keys() == there.keys() and all(within(there[name], here[name], 1e-6) for name in here)


def test_steps_are_timed(device):
    device('build', DIGITS, *ONE, *device.cuda, *ESTIMATED, '-o', 'digits.plan')
    said = device.json('bench', 'digits.plan', '--runs', '3')
    assert said['target'].startswith('cuda:sm_90') and len(said['kernels']) == 7 and said['latency_us']['min'] > 0
    assert all(k['us'] > 0 for k in said['kernels'] if k['kind'] == 'own')
    arms = device.json('compare', DIGITS, *ONE, *device.cuda, *ESTIMATED, '--against', 'unfused', '--runs', '2')['accuracy']
    assert all(arm['within'] for arm in arms.values()) and len(arms) == 2


def test_factors_are_rounded_where_that_is_allowed(device):
    onnx = pytest.importorskip('onnx', reason='the model is written with onnx')
    sys.path.insert(0, str(ROOT / 'models'))
    from builder import Builder
    g = Builder('product', opset=18)
    g.output('y', g.MatMul(g.input('x', [4, 8]), np.ones((8, 3), np.float32)), [4, 3])
    g.save(str(device.folder / 'm.onnx'))
    x = np.full((4, 8), 1 + 2 ** -12, np.float32)  # TF32 has 10 bits behind the first
    vendor = ('--force', 'vendor', *device.cuda, *ESTIMATED)
    for allow, expected in (((), 8 * x[:, :3]), (('--allow', 'tf32'), np.full((4, 3), 8, np.float32))):
        assert np.array_equal(device.run('m.onnx', {'x': x}, *vendor, *allow)['y'], expected)


@pytest.mark.parametrize('name', NETWORKS)
def test_network(device, name):
    pytest.importorskip('onnx', reason='the zoo is written with onnx')
    sys.path.insert(0, str(ROOT / 'models'))
    import zoo_images
    import zoo_tokens
    (zoo_images.IMAGES | zoo_tokens.TOKENS)[name]().save(str(device.folder / 'm.onnx'))
    dims = [word for dim, extent in NETWORKS[name].items() for word in ('--dim', f'{dim}={extent}')]
    said = device.json('compare', 'm.onnx', *dims, *device.cuda, *ESTIMATED, '--against', 'reference', '--runs', '1', '--warmup', '0')
    assert said['accuracy']['weft']['within']


@pytest.mark.parametrize('seed', SEEDS)
def test_random_network(device, seed):
    """Kernels, steps of the host between them, branches and loops."""
    onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
    import random_graphs
    model, inputs, expected = random_graphs.generate(seed)
    onnx.save(model, device.folder / 'model.onnx')
    found = device.run('model.onnx', inputs, '--budget', '0', *device.cuda)
    assert not random_graphs.difference(found, expected)


def test_kernels_of_several_launches(device):
    """A sum of all, and one that everything waits for: blocks leave parts of it, other launches add them up."""
    onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
    model = onnx.parser.parse_model('''<ir_version: 9, opset_import: ["": 20]> g (float[4, 3, 200, 220] x) => (float[] y, float[] s) {
        s = ReduceSum<keepdims = 0>(x)  axes = Constant<value_ints = [0, 2, 3]>()  m = ReduceMean<keepdims = 1>(x, axes)
        y = Sub(x, m) }''')
    onnx.save(model, device.folder / 'm.onnx')
    device('build', 'm.onnx', *device.cuda, '--budget', '0', '-o', 'm.plan')
    assert ' then grid [' in device('inspect', 'm.plan')
    x = np.random.default_rng(0).standard_normal((4, 3, 200, 220)).astype(np.float32)
    found = device.run('m.plan', {'x': x})
    mean = x.mean((0, 2, 3), dtype=np.float64, keepdims=True)
    assert within(found['y'], (x - mean).astype(np.float32), 1e-6)
    assert within(found['s'], np.array(x.sum(dtype=np.float64), np.float32), 1e-5)
    again = device.run('m.plan', {'x': x})
    assert all(np.array_equal(again[name], found[name]) for name in found)


# Nodes, shapes of inputs, shapes of constants, and which library does them in how many calls.
CALLS = {
    'product': ('y = MatMul(x, w)', {'x': (5, 7)}, {'w': (7, 9)}, {'cublas.matmul': 1}),
    'rows of a batch': ('y = MatMul(x, w)', {'x': (2, 3, 5, 7)}, {'w': (7, 9)}, {'cublas.matmul': 1}),
    'batch': ('y = MatMul(x, w)', {'x': (2, 3, 5, 7), 'w': (2, 3, 7, 4)}, {}, {'cublas.matmul': 1}),
    'one matrix for all': ('y = MatMul(x, w)', {'x': (5, 7), 'w': (2, 3, 7, 4)}, {}, {'cublas.matmul': 1}),
    'bias': ('m = Gemm<transB = 1>(x, w, b) y = Relu(m)', {'x': (5, 7)}, {'w': (9, 7), 'b': (9,)}, {'cublas.matmul': 1}),
    'factor': ('m = Gemm<transA = 1, alpha = 0.5>(x, w, b) y = Relu(m)', {'x': (7, 5), 'b': (5, 9)}, {'w': (7, 9)},
               {'cublas.matmul': 1}),
    'gelu': ('m = MatMul(x, w) a = Add(m, b) y = Gelu<approximate = "tanh">(a)', {'x': (2, 5, 7)}, {'w': (7, 9), 'b': (9,)},
             {'cublas.matmul': 1}),
    'addend': ('m = MatMul(x, w) a = Add(m, b) y = Add(a, z)', {'x': (2, 5, 7), 'z': (2, 5, 9)}, {'w': (7, 9), 'b': (9,)},
               {'cublas.matmul': 1}),
    'kernels between': ('m = MatMul(x, w) s = Softmax(m) n = MatMul(s, v) y = Add(n, x)', {'x': (5, 7)}, {'w': (7, 9), 'v': (9, 7)},
                        {'cublas.matmul': 2}),
    'convolution': ('y = Conv(x, w)', {'x': (2, 4, 7, 8)}, {'w': (6, 4, 3, 3)}, {'cudnn.convolution': 1}),
    'strides': ('c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w, b) y = Relu(c)', {'x': (2, 4, 7, 8)},
                {'w': (6, 4, 3, 3), 'b': (6,)}, {'cudnn.convolution': 1}),
    'groups': ('c = Conv<pads = [1, 0, 2, 1], group = 2, dilations = [2, 1]>(x, w, b) a = Add(c, z) y = Relu(a)',
               {'x': (2, 4, 7, 8), 'z': (2, 6, 6, 7)}, {'w': (6, 2, 3, 3), 'b': (6,)}, {'cudnn.convolution': 1}),
    'one axis': ('y = Conv<pads = [2, 0], dilations = [2], group = 2>(x, w, b)', {'x': (2, 4, 12)}, {'w': (6, 2, 3), 'b': (6,)},
                 {'cudnn.convolution': 1}),
    'three axes': ('y = Conv<pads = [1, 1, 1, 1, 1, 1]>(x, w, b)', {'x': (1, 2, 4, 5, 3)}, {'w': (3, 2, 3, 3, 3), 'b': (3,)},
                   {'cudnn.convolution': 1}),
    'largest of a window': ('y = MaxPool<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]>(x)', {'x': (2, 4, 7, 8)}, {},
                            {'cudnn.pooling': 1}),
    'mean of a window': ('y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x)', {'x': (2, 4, 7, 8)}, {},
                         {'cudnn.pooling': 1}),
    'mean with padding': ('y = AveragePool<kernel_shape = [3], pads = [1, 1], count_include_pad = 1>(x)', {'x': (2, 4, 9)}, {},
                          {'cudnn.pooling': 1}),
    'mean of all': ('y = GlobalAveragePool(x)', {'x': (2, 3, 4, 5, 3)}, {}, {'cudnn.pooling': 1}),
    'a chain': ('c = Conv<pads = [1, 1, 1, 1], group = 4>(x, w, b) d = Tanh(c) e = Conv(d, v, b) y = Add(e, x)',
                {'x': (2, 4, 7, 8)}, {'w': (4, 1, 3, 3), 'b': (4,), 'v': (4, 4, 1, 1)}, {'cudnn.convolution': 2}),
}


@pytest.mark.parametrize('name', CALLS)
def test_calls_of_libraries(device, name):
    onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
    from onnx.reference import ReferenceEvaluator
    nodes, inputs, constants, calls = CALLS[name]
    random = np.random.default_rng(0)
    given = {key: random.standard_normal(shape).astype(np.float32) for key, shape in inputs.items()}
    arguments = ', '.join(f'float[{", ".join(map(str, shape))}] {key}' for key, shape in inputs.items())
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> g ({arguments}) => (float[] y) {{ {nodes} }}')
    for key, shape in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), key))
    onnx.save(model, device.folder / 'm.onnx')
    vendor = (*device.cuda, '--force', 'vendor', '--budget', '0')
    device('build', 'm.onnx', *vendor, '-o', 'm.plan')
    found = device.run('m.plan', given)
    expected, = ReferenceEvaluator(model).run(None, given)
    assert within(found['y'], expected, 1e-6)
    device('opt', '--from', 'graph', '--to', 'call', 'm.onnx', *vendor, '-o', 'm.call')
    text = (device.folder / 'm.call').read_text()
    assert {call: text.count(call + '(') for call in calls} == calls


def product(device, path='m.onnx'):
    """y = Relu(x w + b), one group whoever does it."""
    onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
    model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["": 20]> g (float[6, 8] x) => (float[6, 9] y) '
                                    '{ m = MatMul(x, w) a = Add(m, b) y = Relu(a) }')
    random = np.random.default_rng(0)
    for key, shape in (('w', (8, 9)), ('b', (9,))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), key))
    onnx.save(model, device.folder / path)
    return path


@pytest.mark.parametrize('slow, choice, rival', [('libraries', 'own', 'cublas.matmul'), ('kernels', 'cublas.matmul', 'own')])
def test_measured_choices_follow_the_times(device, slow, choice, rival):
    """Whatever the estimate was: one of the two ways sleeps for milliseconds in each run. What is on record stays decided."""
    model, env = product(device), {'WEFT_STANDIN_SLOW': slow, 'WEFT_CACHE_DIR': str(device.folder / slow)}
    built = device.json('build', model, *device.cuda, '--budget', '20s', '-o', 'first.plan', env=env)
    assert built['measured_groups'] == 1 and built['steps']['own'] == (choice == 'own')
    group, = device.json('explain', model, *device.cuda, '--budget', '20s', env=env)['groups']
    assert group['choice'] == choice and group['reason'].startswith('measured')
    others = {a['kind']: a for a in group['alternatives']}
    assert others[rival]['measured'] and others[rival]['us'] > 4000 and others[rival]['reason'] == 'measured_slower'
    device('build', model, *device.cuda, '--budget', '20s', '-o', 'second.plan', env=env | {'WEFT_STANDIN_SLOW': ''})
    assert (device.folder / 'first.plan').read_bytes() == (device.folder / 'second.plan').read_bytes()
    device('verify', 'first.plan')


def test_without_a_budget_choices_are_estimates(device):
    group, = device.json('explain', product(device), *device.cuda, '--budget', '0')['groups']
    assert group['reason'].startswith('estimated') and not any(a['measured'] for a in group['alternatives'])


def test_device_times_are_between_events(device):
    """Of whole runs, and of each step."""
    said = device.json('compare', product(device), *device.cuda, '--against', 'vendor,own', '--budget', '0', '--runs', '2',
                       env={'WEFT_STANDIN_SLOW': 'libraries'})
    us = {arm['name']: arm['device_us'] for arm in said['arms']}
    assert us['vendor'] > 5000 > us['own'] and us['weft'] in (pytest.approx(us['vendor'], rel=9), pytest.approx(us['own'], rel=9))
    row, = said['kernels']
    assert row['arms']['vendor'] > 5000 > row['arms']['own'] > 0


def test_peaks_of_a_device(device):
    found, = device.json('devices')['cuda']['devices']
    assert found['multiprocessors'] == 2 and found['driver'] == '13.0'
    assert found['peak_flops_per_s'] > 1e6 and found['peak_bytes_per_s'] > 1e6


def test_bench_of_gpus(binary, environment, tmp_path):
    """`./dev bench gpu`, but for what installs the peers."""
    pytest.importorskip('ml_dtypes', reason='the rows are written with ml_dtypes')
    rows = ['hard_swish_l2', 'softmax_l2', 'mean_l2', 'mlp_32_32_32']
    run = [sys.executable, ROOT / 'bench/gpu.py', '--seconds', '0.2', '--budget', '2s', '--save', tmp_path / 'gpu.json']
    env = os.environ | environment | {'PATH': f'{binary.parent}:{os.environ["PATH"]}'}
    done = subprocess.run([*run, '--part', 'kernels', '--only', *rows], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'stand-in for a device' in done.stdout and '## softmax' in done.stdout
    saved = json.loads((tmp_path / 'gpu.json').read_text())
    assert sorted(r['row'] for r in saved['kernels']) == sorted(rows) and saved['date'] and saved['device']['driver'] == '13.0'
    for row in saved['kernels']:
        assert row['device_us'].keys() == {'mixed', 'own', 'vendor'} and min(row['device_us'].values()) > 0
        assert row['of_copy'] > 0 and (row['of_peak'] > 0) == (row['row'] == 'mlp_32_32_32')
    nothing = subprocess.run([*run], env=env | {'LD_LIBRARY_PATH': ''}, capture_output=True, text=True, timeout=60)
    assert nothing.returncode == 0 and nothing.stdout.startswith('skipped: ')


def test_libraries_and_kernels_agree(device):
    """In runs that are captured, too."""
    arms = device.json('compare', DIGITS, *ONE, *device.cuda, *ESTIMATED, '--against', 'vendor', '--runs', '4')['accuracy']
    assert len(arms) == 2 and all(arm['within'] for arm in arms.values())


@pytest.mark.parametrize('seed', SEEDS[:12])
def test_random_network_by_libraries(device, seed):
    onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
    import random_graphs
    model, inputs, expected = random_graphs.generate(seed)
    onnx.save(model, device.folder / 'model.onnx')
    found = device.run('model.onnx', inputs, '--budget', '0', *device.cuda, '--force', 'vendor')
    assert not random_graphs.difference(found, expected)


def test_what_the_cache_lost_is_compiled_again(device):
    device('build', DIGITS, *ONE, *device.cuda, *ESTIMATED, '-o', 'digits.plan', '--cache-dir', 'cache')
    before = device.run('digits.plan', digits(), '--cache-dir', 'cache')
    files = {f: f.read_bytes() for f in (device.folder / 'cache').rglob('*.cubin')}
    for i, (file, image) in enumerate(files.items()):
        file.write_bytes((b'', image[:len(image) // 2], b'\0' * 100)[i % 3])
    after = device.run('digits.plan', digits(), '--cache-dir', 'cache')
    assert all(np.array_equal(after[name], before[name]) for name in before)
    assert {f: f.read_bytes() for f in files} == files
    for file in files:
        file.write_bytes(b'')
    error = device.json('run', 'digits.plan', '--cache-dir', 'cache', env={'WEFT_NVRTC': 'none'}, code=6)['error']
    assert 'NVRTC' in error['what']


def test_the_way_of_a_call_is_measured_once(device):
    """Which of a library's ways is the fastest; what is on record stays, unless it is none of the ways."""
    cache = ('--cache-dir', 'ways')
    device('build', product(device), *device.cuda, '--force', 'vendor', *ESTIMATED, '-o', 'm.plan', *cache)
    x = {'x': np.random.default_rng(1).standard_normal((6, 8)).astype(np.float32)}

    def taken():
        device.run('m.plan', x, '--log', 'cuda=debug', *cache)
        return re.search('cublasLt algorithm [0-9]+', device.said)[0]

    def put(content):
        file.write_bytes(content + hashlib.sha256(content).digest())

    first = taken()
    file, = (device.folder / 'ways').rglob('*.way')
    kept = file.read_bytes()[:-32]
    assert kept.decode().endswith(first)
    ways = {b'%d cublasLt algorithm %d' % (at, of) for at in range(2) for of in (0x7001, 0x7002)} - {kept}
    others = set()
    for way in ways:
        put(way)
        others |= {taken()} if file.read_bytes()[:-32] == way else set()
    assert others and others != {first}
    for damage in (b'', b'7 cublasLt algorithm 1', b'\xff' * 1000):
        put(damage)
        taken()
        assert file.read_bytes()[:-32] != damage


def test_a_device_that_is_full(device):
    device('build', DIGITS, *ONE, *device.cuda, *ESTIMATED, '-o', 'digits.plan')
    for free in ('0', '20000'):
        error = device.json('run', 'digits.plan', code=5, env={'WEFT_STANDIN_BYTES': free})['error']
        assert 'out of memory' in error['what'] and 'bytes on the device' in str(error['why'])


def test_a_plan_for_another_device(device):
    device('build', DIGITS, *ONE, '--target', 'cuda:sm_80', *ESTIMATED, '-o', 'digits.plan')
    error = device.json('run', 'digits.plan', code=6)['error']
    assert 'cuda:sm_80' in str(error) and '9.0' in str(error)


# The runtime library alone: memory from the driver, two runs on a stream of the caller's, results fetched behind them.
THROUGH_C = '''
import ctypes, sys
import numpy as np
weft, cuda = ctypes.CDLL(sys.argv[1]), ctypes.CDLL('libcuda.so.1')
u64, pointer = ctypes.c_uint64, ctypes.c_void_p
def check(code):
    weft.weft_error_message.restype = ctypes.c_char_p
    assert code == 0, (code, weft.weft_error_message())
plan, context, stream = pointer(), pointer(), pointer()
check(weft.weft_plan_load(sys.argv[2].encode(), None, ctypes.byref(plan)))
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxPushCurrent_v2(context))
check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
def memory(array):
    at = u64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(array.nbytes)))
    check(cuda.cuMemcpyHtoDAsync_v2(at, array.ctypes.data_as(pointer), ctypes.c_size_t(array.nbytes), stream))
    return at
image = np.ascontiguousarray(np.load(sys.argv[3])['image'])
outputs = [np.zeros((1, 10), np.float32), np.zeros(1, np.int64)]
at = [memory(a) for a in (image, *outputs)]
inputs_at, outputs_at = (pointer * 1)(at[0].value), (pointer * 2)(at[1].value, at[2].value)
for _ in range(3):
    check(weft.weft_plan_enqueue(plan, ctypes.c_size_t(0), inputs_at, outputs_at, None, stream))
check(weft.weft_plan_wait(plan, ctypes.c_size_t(0), stream))
for a, where in zip(outputs, at[1:]):
    check(cuda.cuMemcpyDtoHAsync_v2(a.ctypes.data_as(pointer), where, ctypes.c_size_t(a.nbytes), stream))
check(cuda.cuStreamSynchronize(stream))
assert weft.weft_plan_enqueue(plan, ctypes.c_size_t(0), (pointer * 1)(), outputs_at, None, stream) == 2
weft.weft_plan_free(plan)
np.savez(sys.argv[4], *outputs)
'''


def test_a_caller_in_c(device, environment, binary):
    library = binary.parents[1] / 'lib/libweft_runtime.so'
    if not library.exists():
        pytest.skip('libweft_runtime.so is not built')
    device('build', DIGITS, *ONE, *device.cuda, *ESTIMATED, '-o', 'digits.plan')
    expected = device.run('digits.plan', digits())
    folder = device.folder
    np.savez(folder / 'in.npz', **digits())
    done = subprocess.run([sys.executable, '-c', THROUGH_C, library, folder / 'digits.plan', folder / 'in.npz', folder / 'out.npz'],
                          env=os.environ | environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with np.load(folder / 'out.npz') as found:
        assert all(np.array_equal(a, b) for a, b in zip(found.values(), expected.values()))
