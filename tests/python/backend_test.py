"""weft.backend on small models: what the suite of the onnx package (tests/e2e/onnx_suite_test.py) does not ask."""
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper


@pytest.fixture(scope='module')
def backend(weft):
    import weft.backend
    return weft.backend


def model(nodes, inputs, outputs, initializers=()):
    infos = [[helper.make_tensor_value_info(*info) for info in values] for values in (inputs, outputs)]
    graph = helper.make_graph(nodes, 'g', *infos, initializer=list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 21)])


def test_shapes_and_values_come_with_the_inputs(backend, cache):
    reshape = model([helper.make_node('Reshape', ['x', 'shape'], ['y'])],
                    [('x', TensorProto.FLOAT, ['n']), ('shape', TensorProto.INT64, ['r'])], [('y', TensorProto.FLOAT, [None])])
    rep = backend.prepare(reshape, cache_dir=cache)
    for x, shape in [(np.arange(6), [2, 3]), (np.arange(6), [3, -1]), (np.arange(8), [2, 2, 2])]:
        x = x.astype(np.float32)
        y, = rep.run([x, np.array(shape)])
        assert np.array_equal(y, x.reshape(shape))
    assert rep.plan([x, np.array(shape)]) is rep.plan([x, np.array(shape)])
    assert [t.name for t in rep.plan([x, np.array(shape)]).inputs] == ['x']


def test_outputs_have_names_and_initializers_are_no_inputs(backend, cache):
    two = model([helper.make_node('Add', ['x', 'w'], ['sum']), helper.make_node('Mul', ['x', 'w'], ['product'])],
                [('x', TensorProto.FLOAT, [2]), ('w', TensorProto.FLOAT, [2])],
                [('sum', TensorProto.FLOAT, [2]), ('product', TensorProto.FLOAT, [2])],
                [onnx.numpy_helper.from_array(np.float32([1, 2]), 'w')])
    rep = backend.prepare(two, cache_dir=cache)
    assert rep.input_names == ['x']
    for inputs in ([np.float32([3, 4])], {'x': np.float32([3, 4])}, np.float32([3, 4])):
        found = rep.run(inputs)
        assert found.sum.tolist() == [4, 6] and found['product'].tolist() == [3, 8]
    assert backend.run_model(two, [np.float32([3, 4])], cache_dir=cache)[0].tolist() == [4, 6]


def test_types_that_numpy_lacks(backend, cache):
    for kind, dtype in ((TensorProto.BFLOAT16, ml_dtypes.bfloat16), (TensorProto.INT4, ml_dtypes.int4),
                        (TensorProto.UINT4, ml_dtypes.uint4)):
        swap = model([helper.make_node('Transpose', ['x'], ['y'])], [('x', kind, [2, 3])], [('y', kind, [3, 2])])
        x = np.array([[1, 2, 3], [4, 5, 6]]).astype(dtype)
        y, = backend.run_model(swap, [x], cache_dir=cache)
        assert y.dtype == dtype and np.array_equal(y, x.T)


def test_one_node(backend, cache):
    y, = backend.run_node(helper.make_node('Add', ['a', 'b'], ['c']), [np.float32([1, 2]), np.float32([3])], cache_dir=cache)
    assert y.tolist() == [4, 5]
    y, = backend.run_node(helper.make_node('Clip', ['x', '', 'high'], ['y']), {'x': np.float32([1, 9]), 'high': np.float32(4)},
                          opset_version=12, cache_dir=cache)
    assert y.tolist() == [1, 4]
    with pytest.raises(onnx.checker.ValidationError):
        backend.run_node(helper.make_node('Add', ['a'], ['c']), [np.float32([1, 2])])


def test_codes_are_bytes_in_a_plan(backend, cache):
    for kind, dtype in ((TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn), (TensorProto.INT2, ml_dtypes.int2),
                        (TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn)):
        there = model([helper.make_node('Cast', ['x'], ['y'], to=kind)], [('x', TensorProto.FLOAT, [3])], [('y', kind, [3])])
        back = model([helper.make_node('Cast', ['x'], ['y'], to=TensorProto.FLOAT)], [('x', kind, [3])],
                     [('y', TensorProto.FLOAT, [3])])
        x = np.float32([1, -2, 0])
        code, = backend.run_model(there, [x], cache_dir=cache)
        assert code.dtype == dtype and np.array_equal(code, x.astype(dtype))
        assert backend.run_model(back, [code], cache_dir=cache)[0].tolist() == x.tolist()


def test_sequences_and_optionals(backend, cache):
    def info(name, maker, kind=TensorProto.FLOAT, shape=(2,)):
        return helper.make_value_info(name, maker(helper.make_tensor_type_proto(kind, shape)))
    sequence, optional = helper.make_sequence_type_proto, helper.make_optional_type_proto
    x = helper.make_tensor_value_info('x', TensorProto.FLOAT, [2])
    insert = helper.make_graph([helper.make_node('SequenceInsert', ['s', 'x'], ['y'])], 'g', [info('s', sequence), x],
                               [info('y', sequence)])
    has = helper.make_graph([helper.make_node('OptionalHasElement', ['o'], ['y'])], 'g', [info('o', optional)],
                            [helper.make_tensor_value_info('y', TensorProto.BOOL, [])])
    insert, has = (helper.make_model(g, opset_imports=[helper.make_opsetid('', 21)]) for g in (insert, has))
    one, two = np.float32([1, 2]), np.float32([3, 4])
    rep = backend.prepare(insert, cache_dir=cache)
    for given in ([], [one], [one, two]):
        found, = rep.run([given, two])
        assert [f.tolist() for f in found] == [g.tolist() for g in [*given, two]]
    rep = backend.prepare(has, cache_dir=cache)
    assert rep.run([one])[0] and not rep.run([None])[0]


def test_outputs_without_elements_take_none_of_others(backend, cache):
    x = np.arange(3, dtype=np.float32)
    of = lambda name, kind: helper.make_tensor_sequence_value_info(name, kind, [3])
    optional = helper.make_value_info('o', helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [3])))
    nodes = [helper.make_node('SequenceEmpty', [], ['a']), helper.make_node('SequenceConstruct', ['x', 'x'], ['b']),
             helper.make_node('Optional', [], ['o'], type=helper.make_tensor_type_proto(1, [3])), helper.make_node('Neg', ['x'], ['y'])]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, 'g', [info('x', 1, [3])], [of('a', 1), of('b', 1), optional, info('y', 1, [3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)
    a, b, o, y = backend.run_model(model, [x], cache_dir=cache)
    assert a == [] and len(b) == 2 and np.array_equal(b, [x, x]) and o is None and np.array_equal(y, -x)


def test_what_it_cannot_do_is_an_error(weft, backend, cache):
    assert backend.supports_device('CPU') and not backend.supports_device('CUDA:0')
    relu = model([helper.make_node('Relu', ['x'], ['y'])], [('x', TensorProto.FLOAT, [2])], [('y', TensorProto.FLOAT, [2])])
    assert backend.is_compatible(relu) and not backend.is_compatible(relu, 'CUDA')
    rep = backend.prepare(relu, cache_dir=cache)
    for inputs, part in [([], 'found 0 inputs'), ([np.float32([1])], 'found'), ([np.float64([1, 2])], 'float64'),
                         ([[np.float32([1])]], 'found a list'), ([np.array(['a', 'b'])], 'expected float32')]:
        with pytest.raises(weft.Error, match=part):
            rep.run(inputs)
    with pytest.raises(weft.Error, match='no device'):
        backend.prepare(relu, 'CUDA')


def test_steps_say_why(weft, backend, cache):
    top = model([helper.make_node('TopK', ['x', 'k'], ['v', 'i'])],
                [('x', TensorProto.FLOAT, [4]), ('k', TensorProto.INT64, [1])],
                [('v', TensorProto.FLOAT, [None]), ('i', TensorProto.INT64, [None])])
    step, = backend.prepare(top, cache_dir=cache).plan([np.float32([1, 4, 2, 3]), np.array([2])]).steps
    assert (step.kind, step.call) == ('native', 'TopK') and step.reason


def test_outputs_are_as_large_as_they_come_out(weft, cache, tmp_path):
    found = model([helper.make_node('NonZero', ['x'], ['where']), helper.make_node('Neg', ['where'], ['y'])],
                  [('x', TensorProto.FLOAT, [2, 3])], [('where', TensorProto.INT64, None), ('y', TensorProto.INT64, None)])
    onnx.save(found, tmp_path / 'm.onnx')
    plan = weft.build(tmp_path / 'm.onnx', cache_dir=cache)
    assert [t.shape for t in plan.outputs] == [None, None]
    assert [s.kind for s in plan.steps] == ['native', 'plan']
    plan.save(tmp_path / 'm.plan')
    for p in (plan, weft.load(tmp_path / 'm.plan', cache_dir=cache)):
        for x in (np.float32([[1, 0, 2], [0, 0, 3]]), np.zeros((2, 3), np.float32)):
            outputs = p.run([x])
            where = np.array(np.nonzero(x))
            assert outputs['where'].dtype == np.int64
            assert np.array_equal(outputs['where'], where) and np.array_equal(outputs['y'], -where)


@pytest.mark.parametrize('labels', [{'classlabels_int64s': [7, 3]}, {'classlabels_strings': ['b', 'a']}])
def test_a_map_comes_with_its_keys(backend, cache, labels):
    (keys,) = labels.values()
    kind = TensorProto.STRING if isinstance(keys[0], str) else TensorProto.INT64
    row = helper.make_map_type_proto(kind, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    graph = helper.make_graph([helper.make_node('ZipMap', ['x'], ['maps'], domain='ai.onnx.ml', **labels)], 'g',
                              [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['n', 2])],
                              [helper.make_value_info('maps', helper.make_sequence_type_proto(row))])
    zipped = helper.make_model(graph, opset_imports=[helper.make_opsetid('ai.onnx.ml', 3)])
    found, = backend.prepare(zipped, cache_dir=cache).run([np.float32([[1, 2], [3, 4], [5, 6]])])
    assert found == [dict(zip(keys, values)) for values in ([1, 2], [3, 4], [5, 6])]
