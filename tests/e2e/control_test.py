"""What only a run decides: extents that depend on data, branches, loops; against the reference and by hand."""
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
weft_package = pytest.importorskip('weft', reason='the Python package is not built')
from onnx import TensorProto as T  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from tool import interrupted  # noqa: E402

node = helper.make_node
X = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)


def graph(name, nodes, inputs, outputs, constants=None):
    infos = [[helper.make_tensor_value_info(*info) for info in values] for values in (inputs, outputs)]
    return helper.make_graph(nodes, name, *infos, [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()])


def saved(weft, *parts):
    model = helper.make_model(graph('g', *parts), opset_imports=[helper.make_opsetid('', 21)], ir_version=10)
    onnx.save(model, weft.folder / 'm.onnx')
    return model


def agree(weft, model, inputs, expected=None, plan='m.onnx'):
    np.savez(weft.folder / 'in.npz', **inputs)
    weft('run', plan, '--inputs', 'in.npz', '-o', 'out.npz', '--budget', '0')
    found = np.load(weft.folder / 'out.npz')
    expected = expected or ReferenceEvaluator(model).run(None, inputs)
    for output, want in zip(model.graph.output, expected):
        have, want = found[output.name], np.asarray(want)
        assert have.shape == want.shape and have.dtype == want.dtype
        np.testing.assert_allclose(have, want, 1e-5, 1e-6)


def test_a_network_goes_on_behind_nonzero(weft):
    model = saved(weft, [
        node('ReduceSum', ['x', 'axis1'], ['sums'], keepdims=0), node('Greater', ['sums', 'zero'], ['keep']),
        node('NonZero', ['keep'], ['where']), node('Squeeze', ['where', 'axis0'], ['rows']),
        node('Gather', ['x', 'rows'], ['kept']), node('MatMul', ['kept', 'w'], ['product']), node('Relu', ['product'], ['y'])],
        [('x', T.FLOAT, [5, 8])], [('y', T.FLOAT, None)],
        {'axis1': [1], 'axis0': [0], 'zero': np.float32(0), 'w': X.T[:, :4].copy()})
    for x in (X, -X, -np.abs(X)):  # some, the others, none
        agree(weft, model, {'x': x})
    weft('build', 'm.onnx', '-o', 'm.plan', '--budget', '0')
    weft('verify', 'm.plan')
    agree(weft, model, {'x': X}, plan='m.plan')
    assert 'stage blob' in weft('inspect', 'm.plan')
    assert 'data decides' in weft('explain', 'm.onnx')


def test_a_network_goes_on_behind_boxes(weft):
    model = saved(weft, [
        node('NonMaxSuppression', ['boxes', 'scores', 'most', 'iou', 'least'], ['chosen']),
        node('Gather', ['chosen', 'two'], ['which'], axis=1), node('Squeeze', ['boxes', 'axis0'], ['all']),
        node('Gather', ['all', 'which'], ['kept']), node('Cast', ['which'], ['numbers'], to=T.FLOAT),
        node('Unsqueeze', ['numbers', 'axis1'], ['column']), node('Concat', ['kept', 'column'], ['y'], axis=1)],
        [('boxes', T.FLOAT, [1, 6, 4]), ('scores', T.FLOAT, [1, 1, 6])], [('y', T.FLOAT, None)],
        {'most': [3], 'iou': np.float32([.5]), 'least': np.float32([0]), 'two': 2, 'axis0': [0], 'axis1': [1]})
    lefts = np.float32([0, .1, -.1, 10, 10.1, 100])
    boxes = np.stack([0 * lefts, lefts, 0 * lefts + 1, lefts + 1], -1)[None].astype(np.float32)
    for scores in (np.float32([[[.9, .75, .6, .95, .5, .3]]]), np.zeros((1, 1, 6), np.float32)):
        agree(weft, model, {'boxes': boxes, 'scores': scores})


def test_an_extent_that_an_input_holds(weft):
    top = saved(weft, [node('TopK', ['x', 'k'], ['v', 'i']), node('Exp', ['v'], ['y'])],
                [('x', T.FLOAT, [5, 8]), ('k', T.INT64, [1])], [('y', T.FLOAT, None), ('i', T.INT64, None)])
    for k in (3, 8, 0):
        agree(weft, top, {'x': X, 'k': np.int64([k])})
    np.savez(weft.folder / 'in.npz', x=X, k=np.int64([9]))
    assert 'outside [0, 8]' in weft.json('run', 'm.onnx', '--inputs', 'in.npz', code=3)['error']['what']
    resize = saved(weft, [node('Resize', ['x', '', '', 'sizes'], ['r'], mode='nearest'), node('Relu', ['r'], ['y'])],
                   [('x', T.FLOAT, [1, 1, 5, 8]), ('sizes', T.INT64, [4])], [('y', T.FLOAT, None)])
    for size in ([1, 1, 10, 16], [1, 1, 10, 8]):
        agree(weft, resize, {'x': X[None, None], 'sizes': np.int64(size)})


def test_branches_of_different_rank(weft):
    yes = graph('yes', [node('Identity', ['x'], ['a'])], [], [('a', T.FLOAT, None)])
    no = graph('no', [node('Unsqueeze', ['x', 'axis'], ['b'])], [], [('b', T.FLOAT, None)], {'axis': [0]})
    model = saved(weft, [node('ReduceSum', ['x'], ['sum'], keepdims=0), node('Greater', ['sum', 'zero'], ['c']),
                         node('If', ['c'], ['r'], then_branch=yes, else_branch=no), node('Neg', ['r'], ['y'])],
                  [('x', T.FLOAT, [5, 8])], [('y', T.FLOAT, None)], {'zero': np.float32(0)})
    for x in (np.abs(X), -np.abs(X)):
        agree(weft, model, {'x': x})
    assert weft.json('compare', 'm.onnx', '--against', 'reference', '--runs', '1', '--budget', '0')['accuracy']['weft']['within']


def test_branches_of_known_extents_leave_the_rest_static(weft):
    yes = graph('yes', [node('Add', ['x', 'x'], ['a'])], [], [('a', T.FLOAT, None)])
    no = graph('no', [node('Mul', ['x', 'x'], ['b'])], [], [('b', T.FLOAT, None)])
    model = saved(weft, [node('If', ['c'], ['r'], then_branch=yes, else_branch=no), node('Relu', ['r'], ['y'])],
                  [('x', T.FLOAT, [5, 8]), ('c', T.BOOL, [])], [('y', T.FLOAT, None)])
    for c in (True, False):
        agree(weft, model, {'x': X, 'c': np.bool_(c)})
    assert weft.json('run', 'm.onnx')['steps'] == {'own': 1, 'vendor': 0, 'native': 0, 'view': 0, 'plan': 1}


def grows(weft):
    """Appends x to the state until its sum reaches the limit."""
    body = graph('body', [node('Concat', ['s', 'x'], ['longer'], axis=0), node('ReduceSum', ['longer'], ['sum'], keepdims=0),
                          node('Less', ['sum', 'limit'], ['on']), node('Neg', ['sum'], ['row'])],
                 [('i', T.INT64, []), ('c', T.BOOL, []), ('s', T.FLOAT, None)],
                 [('on', T.BOOL, []), ('longer', T.FLOAT, None), ('row', T.FLOAT, [])])
    return saved(weft, [node('Loop', ['', '', 'x'], ['y', 'rows'], body=body)],
                 [('x', T.FLOAT, [2, 3]), ('limit', T.FLOAT, [])], [('y', T.FLOAT, None), ('rows', T.FLOAT, None)])


def test_a_state_that_grows(weft):
    model, x = grows(weft), np.full((2, 3), .125, np.float32)
    for limit, trips in ((2, 2), (3.5, 4)):
        rows = -.75 * np.arange(2, trips + 2, dtype=np.float32)
        agree(weft, model, {'x': x, 'limit': np.float32(limit)}, [np.tile(x, (trips + 1, 1)), rows])


@pytest.mark.parametrize('specialize', ['now', 'background', 'never'])
def test_a_state_that_grows_whatever_is_built(weft, specialize):
    x = np.full((2, 3), .125, np.float32)
    grows(weft)
    plan = weft_package.build(weft.folder / 'm.onnx', specialize=specialize, cache_dir=weft.folder / 'cache', threads=1)
    for limit, trips in ((2, 2), (15, 19), (6, 7), (15, 19)):
        found = plan.run({'x': x, 'limit': np.float32(limit)})
        np.testing.assert_array_equal(found['y'], np.tile(x, (trips + 1, 1)))
        np.testing.assert_array_equal(found['rows'], -.75 * np.arange(2, trips + 2, dtype=np.float32))


def test_trips_that_an_input_counts(weft):
    body = graph('body', [node('Add', ['s', 'x'], ['t']), node('Identity', ['t'], ['row']), node('Identity', ['c'], ['on'])],
                 [('i', T.INT64, []), ('c', T.BOOL, []), ('s', T.FLOAT, None)],
                 [('on', T.BOOL, []), ('t', T.FLOAT, None), ('row', T.FLOAT, None)])
    model = saved(weft, [node('Loop', ['n', '', 'x'], ['y', 'rows'], body=body)],
                  [('x', T.FLOAT, [2]), ('n', T.INT64, [])], [('y', T.FLOAT, None), ('rows', T.FLOAT, None)])
    x = np.float32([1, -2])
    for n in (3, 1, 0, -7):
        rows = x * np.arange(2, max(n, 0) + 2, dtype=np.float32)[:, None]
        agree(weft, model, {'x': x, 'n': np.int64(n)}, [x * (max(n, 0) + 1), rows])


@pytest.mark.parametrize('counted', [True, False])
def test_a_body_that_declares_lists_of_one(weft, counted):
    """torch's older exporter gives a trip's number a shape of [1], and slices from that element on."""
    body = graph('body', [node('Gather', ['from', 'i'], ['first'], axis=0), node('Add', ['first', 'two'], ['last']),
                          node('Slice', ['x', 'first', 'last', 'axis'], ['part']), node('Squeeze', ['c', 'zero'], ['more'])],
                 [('i', T.INT64, [1]), ('c', T.BOOL, [1])], [('more', T.BOOL, []), ('part', T.FLOAT, [5, 2])])
    nodes = [node('Loop', ['n', 'go'], ['y'], body=body)]
    constants = {'from': np.array([6, 0, 3]), 'two': np.array([2]), 'axis': np.array([1]), 'zero': np.array([0]), 'go': np.array(True)}
    inputs = [('x', T.FLOAT, [5, 8])]
    if counted:
        inputs.append(('n', T.INT64, []))
    else:
        constants['n'] = np.array(3)
    model = saved(weft, nodes, inputs, [('y', T.FLOAT, [None, 5, 2])], constants)
    for trips in (3, 1) if counted else (3,):
        expected = [np.stack([X[:, k:k + 2] for k in (6, 0, 3)[:trips]])]
        agree(weft, model, {'x': X, **({'n': np.array(trips)} if counted else {})}, expected)


def test_rows_of_no_trip_have_their_rank(weft):
    body = graph('body', [node('NonZero', ['x'], ['row']), node('Identity', ['c'], ['on'])],
                 [('i', T.INT64, []), ('c', T.BOOL, [])], [('on', T.BOOL, []), ('row', T.INT64, [2, None])])
    model = saved(weft, [node('Loop', ['n', ''], ['rows'], body=body), node('Shape', ['rows'], ['extents'])],
                  [('n', T.INT64, []), ('x', T.FLOAT, [2, 3])], [('rows', T.INT64, [None, 2, None]), ('extents', T.INT64, [3])])
    x = np.eye(2, 3, dtype=np.float32)
    for n in (2, 0, -7):
        rows = np.broadcast_to(np.int64([[0, 1], [0, 1]]), (2, 2, 2)) if n > 0 else np.zeros((0, 2, 0), np.int64)
        agree(weft, model, {'n': np.int64(n), 'x': x}, [rows, np.int64(rows.shape)])


def test_rows_of_different_shapes(weft):
    body = graph('body', [node('Range', ['zero', 'i', 'one'], ['row']), node('Identity', ['c'], ['on'])],
                 [('i', T.INT64, []), ('c', T.BOOL, [])], [('on', T.BOOL, []), ('row', T.INT64, None)], {'zero': 0, 'one': 1})
    saved(weft, [node('Loop', ['n', 'yes'], ['y'], body=body)], [('n', T.INT64, [])], [('y', T.INT64, None)], {'yes': True})
    np.savez(weft.folder / 'in.npz', n=np.int64(3))
    assert 'trip 1 gives a row of [1]' in weft.json('run', 'm.onnx', '--inputs', 'in.npz', code=3)['error']['what']


def test_a_scan_that_is_too_long_to_copy(weft):
    body = graph('body', [node('Add', ['s', 'x'], ['t']), node('Mul', ['t', 'x'], ['row'])],
                 [('s', T.FLOAT, [3]), ('x', T.FLOAT, [3])], [('t', T.FLOAT, [3]), ('row', T.FLOAT, [3])])
    model = saved(weft, [node('Scan', ['s0', 'xs'], ['y', 'rows'], body=body, num_scan_inputs=1, scan_input_axes=[1],
                              scan_input_directions=[1], scan_output_axes=[-1], scan_output_directions=[1])],
                  [('s0', T.FLOAT, [3]), ('xs', T.FLOAT, [3, 6000])], [('y', T.FLOAT, None), ('rows', T.FLOAT, None)])
    xs = np.random.default_rng(2).integers(-2, 3, (3, 6000)).astype(np.float32)
    sums = np.cumsum(xs[:, ::-1], 1)
    agree(weft, model, {'s0': np.zeros(3, np.float32), 'xs': xs}, [sums[:, -1], sums[:, ::-1] * xs])


@pytest.mark.parametrize('verb', [('run',), ('bench', '--budget', '60s')])
def test_a_loop_without_an_end_stops_when_asked(weft, verb):
    grows(weft)
    np.savez(weft.folder / 'in.npz', x=np.zeros((2, 3), np.float32), limit=np.float32(1))
    command = [weft.binary, verb[0], 'm.onnx', '--inputs', 'in.npz', *verb[1:]]
    interrupted(subprocess.Popen([str(word) for word in command], cwd=weft.folder, stderr=subprocess.PIPE, text=True))


def test_a_loop_that_may_not_end_is_not_measured_and_said_so(weft):
    grows(weft)
    weft('build', 'm.onnx', '-o', 'm.plan', '--budget', '1')
    assert 'not measured but estimated' in weft.said and 'a loop may never end' in weft.said


def test_plans_nest_no_deeper_than_a_limit(weft):
    nodes = []
    for k in range(70):  # each needs the extents of the one before
        nodes += [node('NonZero', [f'x{k}'], [f'i{k}']), node('Squeeze', [f'i{k}', 'axis'], [f'x{k + 1}'])]
    saved(weft, nodes, [('x0', T.INT64, [3])], [('x70', T.INT64, None)], {'axis': [0]})
    assert 'nest deeper than 64' in weft.json('run', 'm.onnx', code=5)['error']['what']


def test_what_is_no_kernel_reads_images_as_they_are_written(weft):
    w = np.random.default_rng(3).standard_normal((8, 3, 3, 3)).astype(np.float32)
    model = saved(weft, [node('Conv', ['x', 'w'], ['c'], pads=[1, 1, 1, 1]), node('TopK', ['c', 'k'], ['y', 'i'], axis=1)],
                  [('x', T.FLOAT, [1, 3, 4, 5])], [('y', T.FLOAT, None), ('i', T.INT64, None)], {'w': w, 'k': [2]})
    agree(weft, model, {'x': np.random.default_rng(4).standard_normal((1, 3, 4, 5)).astype(np.float32)})


@pytest.mark.parametrize('backward', [0, 1])
def test_scans_of_opset_8_have_batches(weft, backward):
    body = graph('step', [node('Add', ['sum', 'x'], ['new_sum']), node('Mul', ['new_sum', 'two'], ['row'])],
                 [('sum', T.FLOAT, [2]), ('x', T.FLOAT, [2])], [('new_sum', T.FLOAT, [2]), ('row', T.FLOAT, [2])])
    parts = graph('g', [node('Scan', ['', 'start', 'xs'], ['last', 'rows'], body=body, num_scan_inputs=1, directions=[backward])],
                  [('start', T.FLOAT, ['n', 2]), ('xs', T.FLOAT, ['n', 'length', 2])], [('last', T.FLOAT, None), ('rows', T.FLOAT, None)],
                  {'two': np.float32(2)})
    model = helper.make_model(parts, opset_imports=[helper.make_opsetid('', 8)], ir_version=3)
    onnx.save(model, weft.folder / 'm.onnx')
    rng = np.random.default_rng(2)
    for n, length in ((3, 4), (1, 2), (2, 40)):
        start, xs = (rng.standard_normal(shape).astype(np.float32) for shape in ([n, 2], [n, length, 2]))
        rows = 2 * (start[:, None] + np.cumsum(xs[:, ::-1] if backward else xs, 1))
        agree(weft, model, {'start': start, 'xs': xs}, [start + xs.sum(1), rows])
