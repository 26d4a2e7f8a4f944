"""Every verb's --json document has the keys that scripts read."""
import json
import sys

import pytest
from tool import DIGITS

ONE = ('--shape', 'image=1x1x16x16')
STEPS = {'own', 'vendor', 'native', 'view', 'plan'}
ENV = {'weft', 'cpu', 'isa', 'libraries', 'threads', 'seed'}


def test_check(weft):
    said = weft.json('check', DIGITS)
    assert said['supported'] is True and said['nodes'] > 0 and said['unsupported'] == []


def test_build_and_run(weft):
    built = weft.json('build', DIGITS, *ONE, '--budget', '0', '-o', 'd.plan')
    assert {'plan', 'seconds', 'measured_groups', 'specializations', 'steps'} <= built.keys()
    assert built['measured_groups'] == 0 and built['steps'].keys() == STEPS and built['env'].keys() >= ENV
    ran = weft.json('run', 'd.plan', '-o', 'y.npz')
    assert ran['outputs']['probabilities']['shape'] == [1, 10]
    assert {'build_s', 'load_us', 'first_run_us', 'steps', 'env'} <= ran.keys() and ran['steps'] == built['steps']


def test_bench(weft, digits_plan):
    said = weft.json('bench', digits_plan, '--runs', '3')
    assert {'threads', 'target', 'shapes', 'ci95_us', 'throughput_per_s', 'env'} <= said.keys()
    assert said['runs'] == 3 and said['shapes'] == {'image': [1, 1, 16, 16]}
    assert said['latency_us'].keys() == {'min', 'p50', 'p90', 'p95', 'p99', 'mean'}
    assert said['latency_us']['min'] <= said['latency_us']['p50'] <= said['latency_us']['p99']
    assert said['memory'].keys() == {'arena_bytes', 'weight_bytes'}
    for kernel in said['kernels']:
        assert kernel.keys() == {'name', 'kind', 'library', 'nodes', 'us', 'flops', 'bytes', 'efficiency'}
        if kernel['kind'] == 'view':
            assert (kernel['flops'], kernel['bytes'], kernel['efficiency']) == (0, 0, None)
        else:
            assert kernel['kind'] in STEPS and kernel['bytes'] > 0 and kernel['efficiency'] > 0


def test_samples(weft, digits_plan):
    said = weft.json('bench', digits_plan, '--runs', '5', '--samples', 's.csv')
    lines = (weft.folder / 's.csv').read_text().splitlines()
    assert lines[0] == 'run,us' and len(lines) == 1 + said['runs'] == 6
    assert min(float(line.split(',')[1]) for line in lines[1:]) == pytest.approx(said['latency_us']['min'], abs=1e-2)


def test_percentile(weft, digits_plan):
    latency = weft.json('bench', digits_plan, '--runs', '9', '--percentile', '99.5')['latency_us']
    assert latency['p99'] <= latency['p99.5']
    assert ', p100 ' in weft('bench', digits_plan, '--runs', '3', '--percentile', '100')
    weft('bench', digits_plan, '--percentile', '101', code=2)


def test_load(weft, digits_plan):
    many = weft.json('bench', digits_plan, '--threads', '1', '--concurrency', '3', '--runs', '50')
    assert many['runs'] == 50 and many['threads'] == 1 and many['throughput_per_s'] > 0
    paced = weft.json('bench', digits_plan, '--rate', '50', '--duration', '400ms')
    assert 10 <= paced['runs'] <= 21 and paced['throughput_per_s'] < 60
    assert ' runs/s, 1 at once' in weft('bench', digits_plan, '--mode', 'throughput', '--duration', '50ms')
    weft('bench', digits_plan, '--concurrency', '0', code=2)


def test_trace(weft, digits_plan):
    kernels = weft.json('bench', digits_plan, '--runs', '3', '--trace', 't.json')['kernels']
    events = json.loads((weft.folder / 't.json').read_text())['traceEvents']
    assert [(e['name'], e['cat'], e['dur'], e['ph']) for e in events] == [
        (k['name'], k['kind'], k['us'], 'X') for k in kernels]
    assert all(b['ts'] == pytest.approx(a['ts'] + a['dur']) for a, b in zip(events, events[1:]))


def test_compare_records(weft):
    said = weft.json('compare', DIGITS, *ONE, '--against', 'unfused,own', '--runs', '5', '--samples', 's.csv', '--trace',
                     't.json', '--percentile', '99')
    assert all(arm['p50_us'] <= arm['p99_us'] for arm in said['arms'])
    lines = (weft.folder / 's.csv').read_text().splitlines()
    assert lines[0] == 'arm,run,us' and len(lines) == 1 + 3 * 5 and lines[6].startswith('"unfused",0,')
    events = json.loads((weft.folder / 't.json').read_text())['traceEvents']
    assert [e['args']['name'] for e in events if e['ph'] == 'M'] == ['weft', 'unfused', 'own']
    assert {e['tid'] for e in events if e['ph'] == 'X'} == {1, 2, 3}
    assert ', p99 ' in weft('compare', DIGITS, *ONE, '--against', 'unfused', '--runs', '3', '--percentile', '99')


def test_compare(weft):
    said = weft.json('compare', DIGITS, *ONE, '--against', 'unfused', '--runs', '5')
    assert [arm['name'] for arm in said['arms']] == ['weft', 'unfused']
    assert all(arm.keys() == {'name', 'p50_us', 'ci95_us', 'steps'} for arm in said['arms'])
    low, middle, high = said['speedup']['unfused']
    assert 0 < low <= middle <= high
    assert said['accuracy'].keys() == {'weft', 'unfused'}
    assert all(a.keys() == {'max_abs', 'max_rel', 'max_ulp', 'within'} and a['within'] for a in said['accuracy'].values())


def test_compare_joins_kernels(weft, digits_plan):
    said = weft.json('compare', DIGITS, *ONE, '--against', f'unfused,{digits_plan}', '--runs', '3')
    steps = [step['name'] for step in weft.json('inspect', digits_plan)['specializations'][0]['steps']]
    assert sorted(name for row in said['kernels'] for name in row['name'].split(' + ')) == sorted(steps)
    assert all(row['arms'].keys() == {'weft', 'unfused', str(digits_plan)} for row in said['kernels'])
    assert all(us >= 0 for row in said['kernels'] for us in row['arms'].values())


def test_nodes_without_names_are_called_by_their_outputs(weft):
    helper = pytest.importorskip('onnx.helper', reason='onnx is not installed')
    import onnx
    value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node('Relu', ['x'], ['The.Y'])], 'g', [value('x')], [value('The.Y')])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid('', 17)]), weft.folder / 'm.onnx')
    assert weft.json('bench', 'm.onnx', '--runs', '1', '--budget', '0')['kernels'][0]['nodes'] == ['the_y']


def test_compare_with_onnxruntime(weft):
    pytest.importorskip('onnxruntime')
    document = weft.json('compare', DIGITS, '--shape', 'image=3x1x16x16', '--against', 'onnxruntime', '--runs', '3',
                         '--budget', '0', env={'WEFT_PEER_PYTHON': sys.executable})
    assert [arm['name'] for arm in document['arms']] == ['weft', 'onnxruntime']
    assert all(arm['p50_us'] > 0 for arm in document['arms'])
    assert document['accuracy']['onnxruntime']['within']
    assert document['env']['peers']['onnxruntime']


def test_compare_with_a_peer_that_is_absent(weft, tmp_path):
    weft('compare', DIGITS, '--shape', 'image=1x1x16x16', '--against', 'openvino', '--runs', '1', '--budget', '0',
         env={'WEFT_PEER_PYTHON': str(tmp_path / 'none')}, code=6)
    assert 'WEFT_PEER_PYTHON' in weft.said


def test_compare_says_no(weft):
    weft('compare', DIGITS, *ONE, '--against', 'unfused', '--runs', '3', '--min-speedup', '1e9', code=1)


def test_compare_without_the_library(weft):
    weft('compare', DIGITS, *ONE, '--against', 'vendor', '--runs', '3', code=6, env={'WEFT_ONEDNN': 'none'})


def test_explain(weft):
    said = weft.json('explain', DIGITS, *ONE)
    for group in said['groups']:
        assert {'name', 'nodes', 'choice', 'reason', 'alternatives'} <= group.keys() and group['reason']
        assert all(a.keys() >= {'kind', 'us', 'measured', 'reason'} for a in group['alternatives'])
    assert all(r['nodes'] and r['reason'] for r in said['refused'])
    first = said['groups'][0]['nodes'][0]
    assert first in weft('explain', DIGITS, first, *ONE)


def test_explain_prints_what_a_model_says_on_one_line(weft):
    helper = pytest.importorskip('onnx.helper', reason='onnx is not installed')
    import onnx
    value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4])
    name = 'a\nb\x1b[31m'
    model = helper.make_model(helper.make_graph([helper.make_node('Exp', ['x'], [name], name=name)], 'g', [value('x')], [value(name)]),
                              ir_version=8, opset_imports=[helper.make_opsetid('', 17)])
    onnx.save(model, weft.folder / 'm.onnx')
    line, = weft('explain', 'm.onnx', '--budget', '0').splitlines()
    assert r'a\nb' in line and '\x1b' not in line


def test_inspect_verify_devices(weft, digits_plan):
    said = weft.json('inspect', digits_plan)
    assert said['kernels'] > 0 and said['specializations'][0]['steps']
    assert weft('inspect', digits_plan).startswith('plan digits')
    assert weft.json('verify', digits_plan)['valid'] is True
    devices = weft.json('devices')
    assert devices['devices'][0]['peak_flops_per_s'] > 0 and devices['devices'][0]['peak_bytes_per_s'] > 0
    assert devices['devices'][0]['threads'] >= 1 and 'onednn' in devices['libraries']
    assert weft('--version').startswith('weft ')


@pytest.mark.parametrize('verb', ['check', 'build', 'run', 'bench', 'compare', 'explain', 'inspect', 'verify', 'devices', 'opt'])
def test_help_has_an_example(weft, verb):
    assert f'Example: weft {verb}' in weft(verb, '--help')
