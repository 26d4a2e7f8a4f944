"""Networks whose inputs keep symbolic extents: one plan for all of them, and what is built for those that a run finds."""

import resource
import time

import numpy as np
import pytest
onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
weft_package = pytest.importorskip('weft', reason='the Python package is not built')
from onnx import TensorProto as T  # noqa: E402
from onnx import helper, numpy_helper, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

node = helper.make_node
WEIGHTS = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)
SHAPES = [(1, 5, 8), (3, 2, 8), (2, 0, 8), (1, 5, 8)]


def saved(path):
    """softmax(relu(x w)) x, added to what is given beside it: its rows and batch are open."""
    nodes = [node('MatMul', ['x', 'w'], ['a']), node('Relu', ['a'], ['b']), node('Softmax', ['b'], ['p'], axis=-1),
             node('Mul', ['p', 'x'], ['m']), node('Add', ['m', 'y'], ['z']), node('CumSum', ['z', 'axis'], ['sums'])]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, 'g', [info('x', T.FLOAT, ['batch', 'rows', 8]), info('y', T.FLOAT, ['rows', 8])],
                              [info('z', T.FLOAT, ['batch', 'rows', 8]), info('sums', T.FLOAT, None)],
                              [numpy_helper.from_array(WEIGHTS, 'w'), numpy_helper.from_array(np.array(1), 'axis')])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 21)], ir_version=10)
    onnx.save(model, path)
    return model


def drawn(shape, seed=0):
    random = np.random.default_rng(seed)
    return {'x': random.standard_normal(shape, dtype=np.float32), 'y': random.standard_normal(shape[1:], dtype=np.float32)}


def check(model, inputs, found):
    for output, want in zip(model.graph.output, ReferenceEvaluator(model).run(None, inputs)):
        assert found[output.name].shape == want.shape
        np.testing.assert_allclose(found[output.name], want, 1e-5, 1e-5)


@pytest.mark.parametrize('specialize', ['now', 'background', 'never'])
def test_one_plan_for_all_shapes(tmp_path, specialize):
    model = saved(tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', specialize=specialize, cache_dir=tmp_path / 'cache')
    assert [t.shape for t in plan.inputs] == [None, None]
    for seed, shape in enumerate(SHAPES):
        inputs = drawn(shape, seed)
        check(model, inputs, plan.run(inputs))
    plan.save(tmp_path / 'm.plan')
    again = weft_package.load(tmp_path / 'm.plan', specialize=specialize, cache_dir=tmp_path / 'cache')
    for seed, shape in enumerate(SHAPES):
        inputs = drawn(shape, seed)
        check(model, inputs, again.run(inputs))


def test_kernels_take_over_from_calls(tmp_path):
    model = saved(tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', specialize='background', cache_dir=tmp_path / 'cache')
    inputs = drawn((2, 3, 8))
    end = time.monotonic() + 60
    while time.monotonic() < end:
        check(model, inputs, plan.run(inputs))
        if any((tmp_path / 'cache').glob('*.so')):
            break
    else:
        pytest.fail('no kernel was compiled')
    check(model, inputs, plan.run(inputs))


def test_never_compiles_what_calls_can_do(tmp_path):
    saved(tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', specialize='never', cache_dir=tmp_path / 'cache')
    for _ in range(2):  # the general plan, then one of calls
        plan.run(drawn((2, 3, 8)))
    assert not any((tmp_path / 'cache').glob('*.so'))


def resident():
    with open('/proc/self/statm') as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize('specialize', ['now', 'never'])
def test_shapes_share_their_weights(tmp_path, specialize):
    """Packed or not: another shape costs less than a copy of them. The first one packs them, when it comes again."""
    weights = np.random.default_rng(0).standard_normal((1536, 8192), dtype=np.float32)
    info = helper.make_tensor_value_info
    graph = helper.make_graph([node('Gemm', ['x', 'w'], ['y'])], 'g', [info('x', T.FLOAT, ['rows', 1536])],
                              [info('y', T.FLOAT, ['rows', 8192])], [numpy_helper.from_array(weights, 'w')])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 21)], ir_version=10), tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', specialize=specialize, cache_dir=tmp_path / 'cache')
    random, grown = np.random.default_rng(1), []
    for rows in (32, 32, 40, 40, 48, 56, 56, 64, 40):
        before = resident()
        x = random.standard_normal((rows, 1536), dtype=np.float32)
        found = plan.run({'x': x})['y']
        grown.append(resident() - before)
        np.testing.assert_allclose(found, x @ weights, 1e-3, 1e-2)
    assert sum(grown[2:]) < weights.nbytes, grown


def saved_with_parts(path):
    """Rows gathered in a sequence by a loop, and a product whose batches two shapes name differently."""
    nodes = [node('Shape', ['x'], ['counts'], end=1), node('Squeeze', ['counts'], ['trips']),
             node('Constant', [], ['go'], value=numpy_helper.from_array(np.array(True))),
             node('SequenceEmpty', [], ['empty']),
             node('Loop', ['trips', 'go', 'empty'], ['rows'], name='gathering', body=helper.make_graph(
                 [node('Identity', ['c'], ['c_out']), node('Add', ['x', 'x'], ['double']),
                  node('SequenceInsert', ['list', 'double'], ['longer'])], 'b',
                 [helper.make_tensor_value_info('i', T.INT64, []), helper.make_tensor_value_info('c', T.BOOL, []),
                  helper.make_tensor_sequence_value_info('list', T.FLOAT, None)],
                 [helper.make_tensor_value_info('c_out', T.BOOL, []),
                  helper.make_tensor_sequence_value_info('longer', T.FLOAT, None)])),
             node('ConcatFromSequence', ['rows'], ['joined'], axis=1),
             node('Reshape', ['y', 'by_hand'], ['turned']), node('MatMul', ['x', 'turned'], ['z'], name='product')]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, 'g', [info('x', T.FLOAT, ['batch', 'rows', 8]), info('y', T.FLOAT, ['also_batch', 'words'])],
                              [info('joined', T.FLOAT, None), info('z', T.FLOAT, None)],
                              [numpy_helper.from_array(np.array([-1, 8, 2]), 'by_hand')])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 21)], ir_version=10)
    onnx.save(model, path)
    return model


def test_what_only_a_run_decides_is_supported(weft):
    model = saved_with_parts(weft.folder / 'm.onnx')
    said = weft.json('check', 'm.onnx')
    assert said['supported'] and not said['unsupported'] and said['later'] >= 3
    plan = weft_package.build(weft.folder / 'm.onnx', threads=1)
    for batch, rows in ((2, 3), (1, 4), (2, 3)):
        random = np.random.default_rng(batch)
        inputs = {'x': random.standard_normal((batch, rows, 8), dtype=np.float32),
                  'y': random.standard_normal((batch, 16), dtype=np.float32)}
        check(model, inputs, plan.run(inputs))


def test_the_command_line(weft):
    model = saved(weft.folder / 'm.onnx')
    said = weft.json('check', 'm.onnx')
    assert said['supported'] and not said['unsupported'] and 0 < said['later'] <= said['nodes']
    assert weft.json('check', 'm.onnx', '--shape', 'x=2x3x8', '--shape', 'y=3x8')['later'] == 0
    weft('build', 'm.onnx', '-o', 'm.plan', '--budget', '0')
    weft('verify', 'm.plan')
    for specialize in ('now', 'never'):
        for what in ('m.plan', 'm.onnx'):
            inputs = drawn((3, 4, 8))
            np.savez(weft.folder / 'in.npz', **inputs)
            weft('run', what, '--inputs', 'in.npz', '-o', 'out.npz', '--budget', '0', '--specialize', specialize)
            check(model, inputs, np.load(weft.folder / 'out.npz'))
    assert weft.json('bench', 'm.plan', '--shape', 'x=2x3x8', '--shape', 'y=3x8', '--runs', '3')


@pytest.mark.parametrize('specialize', ['now', 'never'])
@pytest.mark.parametrize('shapes, message', [
    (((2, 3, 7), (3, 7)), 'axis 2 of input x'), (((2, 3, 8), (4, 8)), 'axis 0 of input y'), (((3, 8), (3, 8)), 'x')])
def test_shapes_that_do_not_fit(tmp_path, shapes, message, specialize):
    saved(tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', specialize=specialize, cache_dir=tmp_path / 'cache')
    with pytest.raises(weft_package.Error, match=message) as raised:
        plan.run({'x': np.zeros(shapes[0], np.float32), 'y': np.zeros(shapes[1], np.float32)})
    assert raised.value.code == 2
    plan.run(drawn((1, 2, 8)))  # goes on


def test_data_that_decides_extents_again_and_again(tmp_path):
    """Each run at known shapes builds one plan more within the last one; the depth of plans has a limit."""
    steps = ''.join(f's{i} = Sin(x{i}) c{i} = Less(s{i}, most) x{i + 1} = Compress<axis = 0>(x{i}, c{i}) ' for i in range(66))
    text = f'<ir_version: 10, opset_import: ["": 20]> g (float[n] x0) => (float[m] y) <float most = {{0.999}}> {{ {steps} y = Neg(x66) }}'
    onnx.save(parser.parse_model(text), tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', threads=1, specialize='never', cache_dir=tmp_path / 'cache')
    x = drawn([20])['x']
    for _ in range(70):
        np.testing.assert_allclose(plan.run({'x0': x})['y'], -x, rtol=1e-6)


@pytest.mark.parametrize('specialize', ['now', 'never'])
def test_a_loop_of_no_trips_whose_body_would_be_refused(tmp_path, specialize):
    text = '''<ir_version: 10, opset_import: ["": 20]> g (float[n] x, int64 trips) => (float[m] last, float[t, k] rows) {
        last, rows = Loop(trips, , x) <body = b (int64 i, bool go, float[n] v) => (bool on, float[n] w, float[k] best) {
            on = Identity(go) w = Neg(v) three = Constant<value_ints = [3]>() best, place = TopK(v, three) }> }'''
    onnx.save(parser.parse_model(text), tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', threads=1, specialize=specialize, cache_dir=tmp_path / 'cache')
    for count, trips in ((2, 0), (5, 2), (2, 0), (5, 0)):
        found = plan.run({'x': np.arange(count, dtype=np.float32), 'trips': np.int64(trips)})
        assert found['last'].shape == (count,) and found['rows'].shape == (trips, 3)
    with pytest.raises(weft_package.Error, match='TopK'):
        plan.run({'x': np.zeros(2, np.float32), 'trips': np.int64(1)})
    text = '''<ir_version: 10, opset_import: ["": 20]> g (float[n] x, int64 trips) => (float[n] last, float[t, k] rows)
        <float[3] three = {1, 2, 3}> { z = Neg(x) last, rows = Loop(trips, , z) <body = b (int64 i, bool go, float[n] v) =>
        (bool on, float[n] w, float[3] sum) { on = Identity(go) w = Neg(v) sum = Add(z, three) }> }'''
    onnx.save(parser.parse_model(text), tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', threads=1, specialize=specialize, cache_dir=tmp_path / 'cache')
    for count, trips in ((2, 0), (3, 2), (2, 0)):
        found = plan.run({'x': np.arange(count, dtype=np.float32), 'trips': np.int64(trips)})
        assert found['last'].shape == (count,) and found['rows'].shape == (trips, 3)


def test_shapes_that_are_not_met_again_are_forgotten(tmp_path):
    chain = ''.join(f'y{i + 1} = {op}(y{i}) ' for i, op in enumerate(['Neg', 'Abs', 'Sin', 'Relu'] * 75))
    text = (f'<ir_version: 10, opset_import: ["": 20]> g (float[n] x) => (float[k] y300) '
            f'{{ p = NonZero(x) q = Transpose<perm = [1, 0]>(p) y0 = GatherND(x, q) {chain} }}')
    onnx.save(parser.parse_model(text), tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', threads=1, specialize='never', cache_dir=tmp_path / 'cache')
    resident_after = []
    for count in range(1, 301):
        for _ in range(2):
            plan.run({'x': np.ones(count, np.float32)})
        if count % 100 == 0:
            resident_after.append(resident())
    assert resident_after[2] - resident_after[1] < 8 << 20, resident_after


@pytest.mark.parametrize('specialize', ['now', 'never'])
def test_scalars_declared_with_open_extents(tmp_path, specialize):
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[n] x, float[q] low) => (float[n] y) { y = Clip(x, low) }'
    onnx.save(parser.parse_model(text), tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', specialize=specialize, cache_dir=tmp_path / 'cache')
    x, low = drawn([5])['x'], np.zeros(1, np.float32)
    np.testing.assert_array_equal(plan.run({'x': x, 'low': low})['y'], np.maximum(x, 0))
    with pytest.raises(weft_package.Error, match=r'Clip'):
        plan.run({'x': x, 'low': np.zeros(3, np.float32)})
    np.testing.assert_array_equal(plan.run({'x': x, 'low': low})['y'], np.maximum(x, 0))


def test_a_type_that_does_not_fit(tmp_path):
    saved(tmp_path / 'm.onnx')
    plan = weft_package.build(tmp_path / 'm.onnx', cache_dir=tmp_path / 'cache')
    with pytest.raises(weft_package.Error, match='float64'):
        plan.run({'x': np.zeros((1, 2, 8)), 'y': np.zeros((2, 8), np.float32)})


def test_a_budget_waits_for_extents(weft):
    """Nothing can be timed before they are known: the build goes on, and says what would help."""
    model = saved(weft.folder / 'm.onnx')
    weft('build', 'm.onnx', '-o', 'm.plan')
    assert 'choices are estimates; --shape x=… or --profile x=…' in weft.said
    inputs = drawn((3, 4, 8))
    np.savez(weft.folder / 'in.npz', **inputs)
    weft('run', 'm.plan', '--inputs', 'in.npz', '-o', 'out.npz')
    check(model, inputs, np.load(weft.folder / 'out.npz'))


def test_a_range_and_the_size_to_tune_at(weft):
    model = saved(weft.folder / 'm.onnx')
    shapes = '--shape', 'x=1..4@3x2..9@4x8', '--shape', 'y=2..9@4x8'
    weft('build', 'm.onnx', '-o', 'm.plan', *shapes, '--budget', '1')
    assert 'estimates' not in weft.said
    said = weft('inspect', 'm.plan')
    assert said.count('specialization') == 2 and 'x: f32[3, 4, 8] input' in said and 'x: f32 dynamic' in said
    for what, sizes in ('m.plan', (3, 4, 8)), ('m.plan', (1, 9, 8)), ('m.onnx', (3, 4, 8)), ('m.onnx', (2, 2, 8)):
        inputs = drawn(sizes)
        np.savez(weft.folder / 'in.npz', **inputs)
        options = shapes if what == 'm.onnx' else ()
        weft('run', what, '--inputs', 'in.npz', '-o', 'out.npz', *options)
        check(model, inputs, np.load(weft.folder / 'out.npz'))
    for batch, rows, words in (5, 4, 'symbol batch is in 1:4, found 5'), (2, 1, 'symbol rows is in 2:9, found 1'):
        weft('run', 'm.plan', '--shape', f'x={batch}x{rows}x8', '--shape', f'y={rows}x8', code=2)
        assert words in weft.said


@pytest.mark.parametrize('shape, words', [
    ('1..4@5x2x8', 'LOW..HIGH@SIZE'), ('4..1x2x8', 'LOW..HIGH'), ('1..x2x8', 'a number'), ('1..2@x2x8', 'a number'),
    ('1..2x2x9..10', 'axis 2 of input x is in 8:8, found 9:10'), ('1..2x2', 'rank 3')])
def test_ranges_that_make_no_sense(weft, shape, words):
    saved(weft.folder / 'm.onnx')
    weft('build', 'm.onnx', '-o', 'm.plan', '--shape', 'x=' + shape, code=2)
    assert words in weft.said and not (weft.folder / 'm.plan').exists()


def test_extents_that_nobody_gives(weft):
    saved(weft.folder / 'm.onnx')
    weft('build', 'm.onnx', '-o', 'm.plan', '--budget', '0')
    weft('bench', 'm.plan', '--shape', 'x=2x3x8', code=2)
    assert 'input "y"' in weft.said and '--shape y=' in weft.said
