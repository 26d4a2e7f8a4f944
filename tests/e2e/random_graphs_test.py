"""Random networks by every implementation, against onnx's reference evaluator; random_graphs.py runs more of them."""
from contextlib import nullcontext

import numpy as np
import pytest
from tool import ROOT

pytest.importorskip('onnx', reason='the networks are written with onnx')
import onnx  # noqa: E402
import random_control  # noqa: E402
import random_functions  # noqa: E402
import random_graphs  # noqa: E402
import random_open  # noqa: E402
import random_server  # noqa: E402
from random_graph import Graph, Reject, Value  # noqa: E402

SEEDS = range(200)
KEEP = ROOT / 'build/random_failures'


@pytest.fixture(scope='module')
def wrong(request, binary, has_onednn):
    """seed -> what is wrong with its network, of the seeds that are asked for; two at a time."""
    asked = {item.callspec.params['seed'] for item in request.session.items
             if item.module is request.module and item.originalname == 'test_network'}
    return {seed: said for seed, said, _ in random_graphs.check_seeds(binary, sorted(asked), has_onednn, KEEP)}


@pytest.mark.parametrize('seed', SEEDS)
def test_network(wrong, seed):
    assert not wrong[seed], '\n'.join([*wrong[seed], f'kept in {KEEP / str(seed)}'])


def test_a_seed_is_a_network():
    model, inputs, expected = random_graphs.generate(5)
    again = random_graphs.generate(5)
    assert model.SerializeToString() == again[0].SerializeToString()
    assert inputs.keys() == again[1].keys() and all(np.array_equal(inputs[n], again[1][n], equal_nan=True) for n in inputs)
    assert expected.keys() == again[2].keys()


def test_the_seeds_differ():
    networks = [random_graphs.generate(seed)[0] for seed in SEEDS]
    operators = {node.op_type for model in networks for node in model.graph.node}
    assert {'If', 'Loop', 'Scan', 'NonZero', 'NonMaxSuppression'} <= operators
    assert len(operators) >= 70 and {model.opset_import[0].version for model in networks} == set(range(13, 21))
    assert any(len(model.graph.output) > 2 for model in networks) and any(len(model.graph.input) > 2 for model in networks)


def test_functions_call_their_values_as_the_network_does():
    calls, given, shared = 0, set(), 0
    for seed in range(0, 120, 3):
        model = random_graphs.generate(seed)[0]
        outer = {n for node in model.graph.node for n in node.output}
        changed = random_functions.outlined(model, seed)
        assert changed.functions or len(model.graph.node) == 1
        calls += sum(node.domain == random_functions.DOMAIN for f in changed.functions for node in f.node)
        given |= {a.type for node in changed.graph.node if node.domain == random_functions.DOMAIN for a in node.attribute}
        for function in changed.functions:
            shared += not outer.isdisjoint(n for node in function.node for n in node.output)
    assert calls > 5 and shared > 20 and onnx.AttributeProto.GRAPH in given


def test_most_networks_run_at_several_extents():
    several = 0
    for seed in range(16):
        try:
            model, cases = random_open.opened(*random_graphs.grown(seed))
        except Reject:
            continue
        several += len({tuple(v.shape for v in inputs.values()) for inputs, _ in cases}) > 1
        assert any(d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim)
    assert several >= 8


@pytest.mark.parametrize('op, shapes, attributes', [
    ('Conv', [(0, 2, 1), (2, 2, 3)], {'pads': [0, 1]}),
    ('InstanceNormalization', [(1, 3, 2), (1,), (1,)], {}),
    ('DepthToSpace', [(0, 3, 2, 2)], {'blocksize': 2}),
    ('SpaceToDepth', [(0, 3, 2, 3)], {'blocksize': 2}),
    ('Einsum', [(2, 1), (3, 4)], {'equation': 'ij,jk->ik'}),
])
def test_what_only_the_evaluator_defines_is_in_no_network(op, shapes, attributes):
    g = Graph(0)
    given = [g.add('x', np.ones(shape, np.float32)) for shape in shapes]
    with pytest.raises(Reject):
        g.emit(op, *given, **attributes)


@pytest.mark.parametrize('legal', [True, False])
@pytest.mark.parametrize('op, shape, operands', [
    ('Gather', (0, 4), lambda end: [np.asarray([-4, end])]),
    ('GatherElements', (2, 4), lambda end: [np.asarray([[0, -4], [1, end]])]),
    ('TopK', (0, 4), lambda end: [np.asarray([end + 1])]),
])
def test_places_that_are_asked_for_exist(op, shape, operands, legal):
    g = Graph(0)
    x = g.add('x', np.ones(shape, np.float32))
    with nullcontext() if legal else pytest.raises(Reject):
        g.emit(op, x, *operands(3 if legal else 4), axis=1, n=2 if op == 'TopK' else 1)


@pytest.mark.parametrize('noise, legal', [(1e-7, True), (1e-5, False)])
def test_a_step_is_no_nearer_than_the_noise(noise, legal):
    g = Graph(0)
    x, zero = np.float32([2e-5]), g.add('x', np.zeros(1, np.float32))
    nearly_nothing = Value('y', x, (x + np.float32(noise), x - np.float32(noise)), exact=False)
    with nullcontext() if legal else pytest.raises(Reject):
        g.emit('Greater', zero, nearly_nothing)


@pytest.mark.parametrize('first, second', [(0, 5), (5, 0), (3, 4)])
def test_neighbours_that_rounding_swaps_have_no_order(first, second):
    g = Graph(0)
    array = np.arange(2, 8, dtype=np.float32)
    array[first], array[second] = np.float32(1), np.nextafter(np.float32(1), np.float32(0))
    for apart in (False, True):
        array[first] += 0.5 * apart
        x = Value('x', array.copy(), (array.copy(),) * 2, exact=False)
        with nullcontext() if apart else pytest.raises(Reject):
            g.emit('TopK', x, [3], n=2, largest=0)


@pytest.mark.parametrize('change, legal', [({2: 3}, True), ({2: 0}, False), ({1: 3}, False)],
                         ids=['longer', 'no rows', 'another state'])
def test_what_a_scan_is_run_at(change, legal):
    g = Graph(0)
    x = g.start(np.ones((2, 1), np.float32))
    state, row = g.call('state', np.ones(1, np.float32)), g.call('row', x.array[0])
    with random_control.Body(g, state, row) as body:
        after = g.emit('Add', state, row)
        made = g.emit('Neg', after)
    results = g.emit('Scan', g.constant(np.ones(1, np.float32)), x, n=2, num_scan_inputs=1,
                     body=body.graph([state, row], [after, made]))
    with nullcontext() if legal else pytest.raises(Reject):
        random_open.other_extents(g, results, change)


def test_a_wrong_value_at_other_extents_is_noticed(tmp_path):
    pytest.importorskip('weft', reason='the Python package is not built')
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([onnx.helper.make_node('Neg', ['x'], ['y'])], 'g', [info('x', 1, ['n'])], [info('y', 1, ['n'])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid('', 21)], ir_version=10)
    ones = np.ones(3, np.float32)
    random_open.save(tmp_path, model, [({'x': ones}, {'y': -ones}), ({'x': ones[:2]}, {'y': -ones[:2]})])
    assert not random_open.main(tmp_path)
    random_open.save(tmp_path, model, [({'x': ones}, {'y': -ones}), ({'x': ones[:2]}, {'y': ones[:2]})])
    assert random_open.main(tmp_path)


@pytest.mark.parametrize('kind', 'fib')
def test_a_wrong_value_is_noticed(binary, has_onednn, tmp_path, kind):
    """In any arm: the network is right, what is expected of it is not."""
    for seed in range(200):
        model, inputs, expected = random_graphs.generate(seed)
        names = [n for n, v in expected.items() if v.dtype.kind == kind and v.size and np.isfinite(v).all() and v.any()]
        if names:
            break
    array = expected[names[0]].reshape(-1)
    array[-1] = not array[-1] if kind == 'b' else array[-1] + (1 if kind == 'i' else np.abs(array).max() / 10)
    onnx.save(model, tmp_path / 'model.onnx')
    np.savez(tmp_path / 'inputs.npz', **inputs)
    np.savez(tmp_path / 'outputs.npz', **expected)
    said = random_graphs.check(binary, tmp_path, has_onednn, 1)
    assert said.keys() == {'default', 'own', 'calls', 'unfused', *(['vendor'] if has_onednn else [])}
    assert all('differs' in text for text in said.values()), said


def test_the_process_of_many_notices_a_wrong_value(tmp_path):
    pytest.importorskip('weft', reason='the Python package is not built')
    model, inputs, expected = random_graphs.generate(5)
    onnx.save(model, tmp_path / 'model.onnx')
    np.savez(tmp_path / 'inputs.npz', **inputs)
    server = random_server.Server()
    for change, right in ((0, True), (1, False)):
        np.savez(tmp_path / 'outputs.npz', **{name: array + array.dtype.type(change) for name, array in expected.items()})
        assert server.is_right(tmp_path, 60, 1, [None, 'own']) == right
    server.close()
