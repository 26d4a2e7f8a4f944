"""Plans for CUDA: every kernel compiled by NVRTC, no device needed. What a device computes is tested by device_test."""
import json
import re
import struct

import pytest
from tool import DIGITS, Weft, rewritten

TARGETS = ('cuda:sm_80', 'cuda:sm_90', 'cuda:sm_100')
ONE = ('--shape', 'image=1x1x16x16')
OWN = (*ONE, '--force', 'own')  # whatever libraries there are
NODES = ('/Conv', '/Relu', '/MaxPool', '/Conv_1', '/Relu_1', '/MaxPool_1', '/Gemm', '/Softmax')  # each own
EM_CUDA = 190  # e_machine of an ELF file


@pytest.fixture(scope='module')
def cuda(binary, tmp_path_factory):
    """What `weft devices` says of CUDA."""
    found = Weft(binary, tmp_path_factory.getbasetemp()).json('devices')['cuda']
    if not found['targets']:
        pytest.skip(f"nothing can be compiled for CUDA: {found['why_no_compiler']}")
    return found


@pytest.fixture(scope='module')
def plan(cuda, binary, tmp_path_factory):
    """digits.onnx for one image and sm_90."""
    folder = tmp_path_factory.mktemp('cuda')
    Weft(binary, folder)('build', DIGITS, *OWN, '--target', 'cuda:sm_90', '-o', 'digits.plan')
    return folder / 'digits.plan'


def kernels(weft, plan):
    """Symbol -> what its line says, by `inspect`."""
    return dict(re.findall(r'^  kernel (\w+) (key .*)$', weft('inspect', plan), re.MULTILINE))


@pytest.mark.parametrize('target', TARGETS)
def test_every_kernel_compiles(weft, cuda, target):
    assert target in cuda['targets']
    said = weft.json('build', DIGITS, *OWN, '--target', target, '-o', 'digits.plan', '--cache-dir', weft.folder / 'cache')
    assert said['steps'] == {'own': 6, 'vendor': 0, 'native': 0, 'view': 1, 'plan': 0}
    keys = {re.search(r'key "(\w+)"', rest)[1] for rest in kernels(weft, 'digits.plan').values()}
    files = list((weft.folder / 'cache').rglob('*.cubin'))
    assert {f.stem for f in files} == keys and len(keys) == 6
    for file in files:
        image = file.read_bytes()
        assert image.startswith(b'\x7fELF') and struct.unpack_from('<H', image, 18)[0] == EM_CUDA


def test_a_target_without_an_architecture_is_a_device(weft):
    devices = weft.json('devices')['cuda']['devices']
    if devices:
        pytest.skip('there is a device: see gpu_test')
    for verb in ('build', 'run'):
        weft(verb, DIGITS, *ONE, '--target', 'cuda', '-o', 'made', code=6)
        assert 'CUDA' in weft.said and '--target cuda:sm_90 needs none' in weft.said
    weft('run', DIGITS, *ONE, '--target', 'cuda:', code=2)


def test_the_assembler_says_what_kernels_take(weft, cuda):
    weft('build', DIGITS, *OWN, '--target', 'cuda:sm_90', '-o', 'digits.plan', '--cache-dir', weft.folder / 'cache', '--log', 'cuda=info')
    said = re.findall(r'(\w+): (\d+) registers, (\d+) local accesses, (\d+) bytes of stack, (\d+) shared', weft.said)
    plan = kernels(weft, 'digits.plan')
    assert {symbol for symbol, *_ in said} == set(plan)
    for symbol, registers, local, _, shared in said:
        assert 0 < int(registers) <= 255 and local == '0'
        planned = int(re.search(r'shared (\d+)', plan[symbol])[1])  # rounded up, buffer by buffer
        assert int(shared) <= planned and (planned > 0) == (shared != '0')
    inspected = weft.json('inspect', 'digits.plan', '--cache-dir', weft.folder / 'cache')['cuda']
    assert [(k['kernel'], k['registers'], k['local_accesses'], k['stack_bytes'], k['shared_bytes']) for k in inspected] \
        == [(symbol, *map(int, rest)) for symbol, *rest in sorted(said, key=lambda s: list(plan).index(s[0]))]
    for k in inspected:
        assert f"# {k['kernel']}: {k['registers']} registers, " in weft('inspect', 'digits.plan', '--cache-dir', weft.folder / 'cache')
    # What is not in the cache is compiled, and without a compiler the plan is shown all the same.
    assert weft.json('inspect', 'digits.plan', '--cache-dir', weft.folder / 'other')['cuda'] == inspected
    hidden = {'WEFT_NVRTC': 'none'}
    assert 'cuda' not in weft.json('inspect', 'digits.plan', '--cache-dir', weft.folder / 'none', env=hidden)


def test_two_builds_are_the_same_bytes(weft, plan):
    for threads in ('1', '3'):
        weft('build', DIGITS, *OWN, '--target', 'cuda:sm_90', '-o', 'again.plan', '--cache-dir', weft.folder / threads)
        assert (weft.folder / 'again.plan').read_bytes() == plan.read_bytes()


@pytest.mark.parametrize('form', ('graph', 'tc', 'groups', 'choices', 'sched', 'loops', 'call'))
def test_any_form_leads_to_the_same_plan_and_text(weft, plan, form):
    weft('opt', '--from', 'graph', '--to', form, DIGITS, *OWN, '--target', 'cuda:sm_90', '-o', f'digits.{form}')
    weft('opt', '--from', form, '--to', 'plan', f'digits.{form}', *OWN[2:], '--target', 'cuda:sm_90', '-o', 'digits.plan')
    assert (weft.folder / 'digits.plan').read_bytes() == plan.read_bytes()
    text = weft('opt', '--from', form, '--to', 'cu', f'digits.{form}', *OWN[2:], '--target', 'cuda:sm_90')
    assert text == weft('opt', '--from', 'graph', '--to', 'cu', DIGITS, *OWN, '--target', 'cuda:sm_90')


def test_a_plan_is_read_without_a_device(weft, plan):
    weft('verify', plan)
    for symbol, rest in kernels(weft, plan).items():
        assert re.fullmatch(r'key "\w+" grid \[\d+, \d+, \d+\] block \[\d+, \d+, \d+\] shared \d+ scratch \d+ loops blob.*', rest), symbol
    assert weft.json('inspect', plan)['target'] == 'cuda:sm_90 threads=1'
    for subject in (plan, DIGITS):
        groups = weft.json('explain', subject, *OWN, '--target', 'cuda:sm_90')['groups']
        assert {n for g in groups for n in g['nodes']} == {*NODES, '/Flatten'}
    assert '/Softmax' in weft('explain', plan, '/Softmax')
    weft('explain', plan, '/Nothing', code=2)


@pytest.mark.parametrize('verb', ('run', 'bench', 'compare'))
def test_running_wants_a_device(weft, cuda, plan, verb):
    none = {'CUDA_VISIBLE_DEVICES': ''}
    for subject in ((plan,), (DIGITS, *OWN, '--target', 'cuda:sm_90')):
        error = weft.json(verb, *subject, code=6, env=none)['error']
        assert 'CUDA' in error['what'] and 'cuda:sm_90' in json.dumps(error) and error['try']


def test_the_text_names_its_nodes(weft, plan):
    text = weft('opt', '--from', 'graph', '--to', 'cu', DIGITS, *OWN, '--target', 'cuda:sm_90')
    for node in NODES:
        assert f'// stands for "{node}"\n' in text
    for symbol in kernels(weft, plan):
        assert re.search(rf'extern "C" __global__ void (__launch_bounds__\(\d+\) )?{symbol}\(', text)
    alone = weft('opt', '--from', 'graph', '--to', 'cu', DIGITS, *OWN, '--target', 'cuda:sm_90', '--group', 'softmax')
    assert alone in text and alone.count('__global__') == 1
    weft('opt', '--from', 'graph', '--to', 'cu', DIGITS, *OWN, code=2)
    weft('opt', '--from', 'graph', '--to', 'll', DIGITS, *OWN, '--target', 'cuda:sm_90', code=2)
    weft('opt', '--from', 'graph', '--to', 'cu', DIGITS, *OWN, '--target', 'cuda:sm_90', '--group', 'nothing', code=2)


@pytest.mark.parametrize('old, new, why', [
    (b'grid [10, 1, 1]', b'grid [00, 1, 1]', 'found a grid along x of 0'),
    (b'grid [10, 1, 1]', b'grid [1,99999 ]', 'expected'),
    (b'block [128, 1, 1]', b'block [128, 9, 1]', 'found threads of a block of 1152'),
    (b'block [128, 1, 1]', b'block [128, 1, 0]', 'found a block along z of 0'),
    (b'shared 16 scratch 0', b'shared 999 scratch0', 'expected'),
    (b'shared 16 scratch', b'rank_s 16 scratch', 'expected `shared`'),
    (b'block [128, 1, 1] shared 16', b'block [128,1,1]shared 99999', 'found shared bytes of 99999'),
    (b'kernel gemm_', b'kernel geMm_', 'its nest is called'),
    (b'"cuda:sm_90 threads=1"', b'"cpu:x86-64-v3 l1=128"', 'expected `rank_scratch`'),
    (b'"cuda:sm_90 threads=1"', b'"cuda:sm_91 threads=1"', 'cuda:sm_90'),
])
def test_hostile_launches(weft, plan, old, new, why):
    (weft.folder / 'bad.plan').write_bytes(rewritten(plan.read_bytes(), old, new))
    weft('verify', 'bad.plan', code=1)
    assert why in weft.said
    weft('run', 'bad.plan', code=3)


def test_without_its_compiler(weft, cuda):
    hidden = {'WEFT_NVRTC': 'none'}
    assert weft.json('devices', env=hidden)['cuda']['targets'] == []
    error = weft.json('build', DIGITS, *OWN, '--target', 'cuda:sm_90', '-o', 'digits.plan', code=6, env=hidden)['error']
    assert 'NVRTC' in error['what'] and error['try']
    assert not (weft.folder / 'digits.plan').exists()
    assert '__global__' in weft('opt', '--from', 'graph', '--to', 'cu', DIGITS, *OWN, '--target', 'cuda:sm_90', env=hidden)


@pytest.mark.parametrize('target', TARGETS)
def test_libraries_of_a_device(weft, cuda, target):
    if not all(weft.json('devices')['libraries'][name] for name in ('cudnn', 'cublas')):
        pytest.skip('no cuDNN or no cuBLASLt can be loaded here')
    vendor = ('build', DIGITS, *ONE, '--target', target, '--force', 'vendor', '-o', 'digits.plan')
    assert weft.json(*vendor)['steps']['vendor'] == 5
    weft('verify', 'digits.plan')
    weft('opt', '--from', 'graph', '--to', 'call', DIGITS, *ONE, '--target', target, '--force', 'vendor', '-o', 'digits.call')
    calls = (weft.folder / 'digits.call').read_text()
    assert sorted(re.findall(r'(cudnn\.\w+|cublas\.\w+)\(', calls)) == ['cublas.matmul'] + ['cudnn.convolution'] * 2 + ['cudnn.pooling'] * 2
    assert calls.count('post = [relu]') == 2


def test_libraries_that_are_not_there(weft, cuda):
    hidden = {'WEFT_CUDNN': 'none', 'WEFT_CUBLAS': 'none'}
    assert not any(weft.json('devices', env=hidden)['libraries'][name] for name in ('cudnn', 'cublas'))
    vendor = ('build', DIGITS, *ONE, '--target', 'cuda:sm_90', '--force', 'vendor', '-o', 'digits.plan')
    error = weft.json(*vendor, code=6, env=hidden)['error']
    assert 'cuDNN' in error['what'] and error['try']


def test_without_a_device_choices_are_estimates(weft, cuda):
    """Of kernels and calls in one table; a budget is not spent, and that is said."""
    if not weft.json('devices')['libraries']['cublas']:
        pytest.skip('no cuBLASLt can be loaded here')
    none = {'CUDA_VISIBLE_DEVICES': ''}
    for budget in ('0', '5s'):
        groups = weft.json('explain', DIGITS, *ONE, '--target', 'cuda:sm_90', '--budget', budget, env=none)['groups']
        assert ('estimated' in weft.said) == (budget != '0')
        gemm, = (g for g in groups if '/Gemm' in g['nodes'])
        assert {gemm['choice'], *(a['kind'] for a in gemm['alternatives'])} == {'own', 'cublas.matmul'}
        assert gemm['reason'].startswith('estimated') and not any(a['measured'] for g in groups for a in g['alternatives'])
    built = weft.json('build', DIGITS, *ONE, '--target', 'cuda:sm_90', '--budget', '5s', '-o', 'digits.plan', env=none)
    assert built['measured_groups'] == 0
    assert 'prices estimated' in weft('inspect', 'digits.plan')


def test_other_architectures(weft, cuda):
    weft('build', DIGITS, *ONE, '--target', 'cuda:sm_91', '-o', 'digits.plan', code=2)
    assert 'cuda:sm_90' in weft.said
