"""Operators of com.microsoft, against onnxruntime, which they come from."""
import numpy as np
import pytest
from tool import within

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
onnxruntime = pytest.importorskip('onnxruntime', reason='onnxruntime says what is right')
from onnx import helper, numpy_helper  # noqa: E402
from tolerances import tolerances  # noqa: E402

PEER = tolerances('peer')[np.dtype(np.float32)][0]


def rand(*shape, seed=0, low=-1.0, high=1.0):
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(np.float32)


def whole(*shape, low, high, dtype, seed=0):
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def model_of(op, inputs, outputs, fixed, attributes, domain='com.microsoft'):
    """One node; of its inputs (arrays, None: absent), those at `fixed` are constants."""
    names = ['' if a is None else f'x{i}' for i, a in enumerate(inputs)]
    arrays = {n: np.asarray(a) for n, a in zip(names, inputs) if n}
    constants = {f'x{i}' for i in fixed}
    made = [n if isinstance(n, str) else f'y{i}' for i, n in enumerate(outputs)]
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in arrays.items() if n not in constants]
    graph = helper.make_graph(
        [helper.make_node(op, names, made, name='it', domain=domain, **attributes)], 'g', info,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), None)
         for n, t in zip(made, outputs) if n],
        [numpy_helper.from_array(a, n) for n, a in arrays.items() if n in constants])
    opsets = [helper.make_opsetid('', 21), helper.make_opsetid('com.microsoft', 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {n: a for n, a in arrays.items()
                                                                          if n not in constants}


# Tables and filters, whose extents a model knows.
TABLES = {'RotaryEmbedding': (2, 3), 'MRotaryEmbedding': (2, 3), 'GroupQueryAttention': (7, 8), 'CausalConvWithState': (1,)}


def open_extents(model, but=()):
    """Batches and lengths become symbols, as exports have them. Sizes stay: operators may want to know them."""
    for info in model.graph.input:
        dims = info.type.tensor_type.shape.dim
        for axis in ((0, 2) if len(dims) == 4 else range(min(2, len(dims)))) if info.name not in but else ():
            dims[axis].dim_param = f'{info.name}_{axis}'


def assert_near(path, expected, tolerance):
    found = np.load(path)
    for name, value in expected.items():
        if value.dtype.kind in 'iu':  # halves may be rounded the other way
            assert found[name].dtype == value.dtype
            assert np.abs(found[name].astype(int) - value.astype(int)).max() <= 1, name
        else:
            assert within(found[name], value, tolerance), (name, np.abs(found[name] - value).max())


def agree(weft, op, inputs, outputs=(np.float32,), fixed=(), tolerance=PEER, flags=('--strict',), **attributes):
    """Types of the outputs; '' for one that nobody reads. As kernels for these shapes, and as calls for all."""
    model, arrays = model_of(op, inputs, outputs, fixed, attributes)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # with more, each quantizes its part of a batch on its own
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
    expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, arrays)))
    onnx.save(model, weft.folder / 'model.onnx')
    np.savez(weft.folder / 'x.npz', **arrays)
    weft('run', 'model.onnx', '--inputs', 'x.npz', '-o', 'y.npz', '--force', 'own', *flags)
    assert_near(weft.folder / 'y.npz', expected, tolerance)
    open_extents(model, {f'x{i}' for i in TABLES.get(op, ())})
    onnx.save(model, weft.folder / 'open.onnx')
    weft('run', 'open.onnx', '--inputs', 'x.npz', '-o', 'y.npz', '--specialize', 'never', '--threads', '1')
    assert_near(weft.folder / 'y.npz', expected, tolerance)


@pytest.mark.parametrize('op', ['Gelu', 'FastGelu', 'QuickGelu'])
def test_gelus(weft, op):
    agree(weft, op, [rand(3, 8, high=4)])


@pytest.mark.parametrize('op', ['BiasGelu', 'FastGelu'])
def test_gelus_of_a_sum(weft, op):
    agree(weft, op, [rand(3, 8), rand(8)])


@pytest.mark.parametrize('bias', [False, True])
def test_norms_of_a_sum(weft, bias):
    x, skip, rows = rand(2, 3, 16), rand(2, 3, 16, seed=1), [rand(16, seed=k) for k in (2, 3, 4)]
    outputs = [np.float32, '', '', np.float32]
    agree(weft, 'SkipLayerNormalization', [x, skip, *rows[:2], *rows[2:] * bias], outputs, epsilon=1e-5)
    agree(weft, 'SkipSimplifiedLayerNormalization', [x, skip, rows[0], *rows[2:] * bias], outputs, epsilon=1e-5)
    agree(weft, 'SkipLayerNormalization', [x, skip, rows[0]])


def test_a_norm_without_a_domain(weft):
    model, arrays = model_of('SimplifiedLayerNormalization', [rand(2, 16), rand(16)], [np.float32], (),
                             {'axis': -1, 'epsilon': 1e-5}, domain='')
    onnx.save(model, weft.folder / 'model.onnx')
    found = weft.run('model.onnx', arrays)['y0']
    x, scale = arrays['x0'], arrays['x1']
    assert within(found, x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5)) * scale)


@pytest.mark.parametrize('places', [False, True])
@pytest.mark.parametrize('segments', [False, True])
def test_embeddings(weft, segments, places):
    ids = whole(2, 5, low=0, high=9, dtype=np.int32)
    agree(weft, 'EmbedLayerNormalization',
          [ids, whole(2, 5, low=0, high=2, dtype=np.int32) if segments else None, rand(9, 16), rand(7, 16),
           rand(2, 16) if segments else None, rand(16), rand(16, seed=1), np.minimum(ids, 1),
           whole(2, 5, low=0, high=7, dtype=np.int32, seed=1) if places else None],
          [np.float32, np.int32, np.float32])


@pytest.mark.parametrize('a, b', [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_products(weft, a, b):
    x, y = rand(2, *((4, 3) if a else (3, 4))), rand(2, *((5, 4) if b else (4, 5)))
    agree(weft, 'FusedMatMul', [x, y], transA=a, transB=b, alpha=0.5)
    if not a:  # of its transpose onnxruntime reads other elements
        agree(weft, 'FusedMatMul', [x, rand(4)], transA=a, transB=b)
    agree(weft, 'FusedMatMul', [rand(4), y], transA=a, transB=b)
    agree(weft, 'FusedMatMul', [rand(4), rand(4, seed=1)], transA=a, transB=b)


@pytest.mark.parametrize('a', [0, 1])
def test_products_with_the_batch_inside(weft, a):
    agree(weft, 'FusedMatMul', [rand(4, 2, 3), rand(2, 4, 5) if a else rand(2, 3, 5)], transBatchA=1, transA=a)
    agree(weft, 'FusedMatMul', [rand(2, 3, 4, 6), rand(6, 2, 3, 5)], transBatchB=1)


def test_what_onnx_had_later(weft):
    two = np.int64([[0], [2]])
    agree(weft, 'GatherND', [rand(3, 4), two])
    agree(weft, 'GatherND', [rand(3, 4), two.astype(np.int32)])
    agree(weft, 'Trilu', [rand(2, 3, 4), np.int64(1)], upper=1)
    agree(weft, 'Pad', [rand(3, 4), np.int64([1, 0, 1, 2]), np.float32([0.5])], fixed=(1, 2))
    agree(weft, 'Pad', [rand(3, 4), np.int64([[1, 0, 1, 2]])], fixed=(1,), mode='reflect')
    agree(weft, 'ExpandDims', [rand(3, 4), np.int32(-1)], fixed=(1,))
    agree(weft, 'Range', [np.int32(1), np.int32(9), np.int32(3)], [np.int32], (0, 1, 2))
    agree(weft, 'Range', [np.int16(-1), np.int16(3)], [np.int16], (0, 1))
    agree(weft, 'Range', [np.float32([0.5]), np.float32([3])], fixed=(0, 1))
    agree(weft, 'CDist', [rand(5, 3), rand(4, 3)], metric='euclidean')
    agree(weft, 'CDist', [rand(5, 3), rand(4, 3)], metric='sqeuclidean')


def test_different_elements_in_their_order(weft):
    model, arrays = model_of('Unique', [np.float32([3, 1, 3, 2])], [np.float32, np.int64, np.int64], (), {})
    onnx.save(model, weft.folder / 'model.onnx')
    np.savez(weft.folder / 'x.npz', **arrays)
    weft('run', 'model.onnx', '--inputs', 'x.npz', '-o', 'y.npz')
    found = np.load(weft.folder / 'y.npz')
    assert [found[f'y{i}'].tolist() for i in range(3)] == [[3, 1, 2], [0, 1, 0, 2], [2, 1, 1]]


@pytest.mark.parametrize('mode', ['bilinear', 'nearest', 'bicubic'])
def test_samples_between_pixels(weft, mode):
    agree(weft, 'GridSample', [rand(1, 2, 4, 5), rand(1, 3, 3, 2, low=-1.3, high=1.3)], mode=mode, padding_mode='zeros', align_corners=1)


@pytest.mark.parametrize('activation, params', [('Relu', []), ('Sigmoid', []), ('Tanh', []), ('LeakyRelu', [0.2]),
                                                ('Clip', [-0.5, 0.5]), ('HardSigmoid', [0.3, 0.4])])
def test_fused_convolutions(weft, activation, params):
    extra = {'activation_params': params} if params else {}
    agree(weft, 'FusedConv', [rand(1, 3, 6, 6), rand(4, 3, 3, 3), rand(4)], activation=activation, pads=[1, 1, 1, 1], **extra)


def test_a_convolution_that_is_added(weft):
    agree(weft, 'FusedConv', [rand(1, 3, 6, 6), rand(4, 3, 3, 3), rand(4), rand(1, 4, 4, 4)], activation='Relu')


@pytest.mark.parametrize('activation, params', [
    ('Celu', {'alpha': 0.5}), ('Elu', {'alpha': 0.5}), ('HardSigmoid', {'alpha': 0.3, 'beta': 0.4}), ('LeakyRelu', {'alpha': 0.3}), ('Relu', {}),
    ('Relu', {'alpha': 0.5}), ('Selu', {'alpha': 1.5, 'gamma': 2.0}), ('Sigmoid', {}), ('Softplus', {}), ('Softsign', {}), ('Tanh', {}), ('ThresholdedRelu', {'alpha': 0.5})])
def test_fused_gemm(weft, activation, params):
    agree(weft, 'FusedGemm', [rand(3, 4), rand(5, 4), rand(5)], transB=1, alpha=2.0, activation=activation,
          **{f'activation_{name}': value for name, value in params.items()})


# Of int8 weights beside uint8: on a CPU with AVX2 alone, onnxruntime adds pairs of their products in 16 bits, where larger ones
# saturate; weft's are exact everywhere.
SMALL = dict(low=-64, high=64, dtype=np.int8)


def quantized(*shape, seed=0):
    return whole(*shape, low=0, high=255, dtype=np.uint8, seed=seed), np.float32(0.02 + 0.01 * seed), np.uint8(100 + seed)


@pytest.mark.parametrize('op', ['QLinearAdd', 'QLinearMul'])
def test_pairs_of_quantized_tensors(weft, op):
    agree(weft, op, [*quantized(2, 3, 4), *quantized(3, 4, seed=1), np.float32(0.05), np.uint8(120)], [np.uint8])
    signed = [[q.view(np.int8), scale, np.int8(3)] for q, scale, _ in (quantized(4), quantized(4, seed=1))]
    agree(weft, op, [*signed[0], *signed[1], np.float32(0.05), np.int8(-7)], [np.int8])


@pytest.mark.parametrize('op, attributes', [
    ('QLinearSigmoid', {}), ('QLinearLeakyRelu', {'alpha': 0.2}), ('QLinearGlobalAveragePool', {}),
    ('QLinearAveragePool', {'kernel_shape': [2, 2], 'strides': [1, 2]}), ('QLinearSoftmax', {'axis': -1, 'opset': 13})])
def test_quantized_tensors(weft, op, attributes):
    constants = (1, 2, 3, 4)
    agree(weft, op, [*quantized(1, 3, 4, 4), np.float32(0.01), np.uint8(3)], [np.uint8], constants, **attributes)


def test_a_choice_of_quantized_tensors(weft):
    agree(weft, 'QLinearWhere', [rand(3, 4) > 0, *quantized(3, 4), *quantized(3, 4, seed=1), np.float32(0.03), np.uint8(120)],
          [np.uint8], (2, 3, 5, 6, 7, 8))


def test_quantized_tensors_one_behind_the_other(weft):
    agree(weft, 'QLinearConcat', [np.float32(0.05), np.uint8(120), *quantized(2, 3), *quantized(2, 4, seed=1)], [np.uint8],
          axis=1)


@pytest.mark.parametrize('bias', [False, True])
def test_products_of_integers(weft, bias):
    b, rows = whole(8, 5, **SMALL), rand(5, low=0.01, high=0.02)
    more = [rand(5)] if bias else []
    agree(weft, 'MatMulIntegerToFloat', [quantized(3, 8)[0], b, np.float32(0.02), rows, np.uint8(100),
                                         whole(5, low=-3, high=3, dtype=np.int8), *more])
    agree(weft, 'DynamicQuantizeMatMul', [rand(3, 8), b, np.float32([0.01]), np.int8([2]), *more], tolerance=1e-3)


@pytest.mark.parametrize('turn_a, turn_b', [(0, 0), (0, 1), (1, 0)])
def test_products_of_quantized_matrices(weft, turn_a, turn_b):
    a = quantized(*((8, 3) if turn_a else (3, 8)))
    weights = whole(*((5, 8) if turn_b else (8, 5)), **SMALL)
    b = weights, rand(5, low=0.01, high=0.02), np.zeros(5, np.int8)
    bias, options = whole(5, low=-3000, high=3000, dtype=np.int32), dict(alpha=0.5, transA=turn_a, transB=turn_b)
    agree(weft, 'QGemm', [*a, *b], **options)
    agree(weft, 'QGemm', [*a, *b, bias], **options)
    agree(weft, 'QGemm', [*a, *b, bias, np.float32(0.3), np.uint8(90)], [np.uint8], **options)
    agree(weft, 'QGemm', [*a, weights, np.float32(0.02), np.int8(0), None, np.float32(0.3), np.uint8(90)], [np.uint8], **options)
    agree(weft, 'QGemm', [*a, *b, bias, np.float32(0.3)], **options)  # scaled, and not quantized


@pytest.mark.parametrize('dtype', [np.int8, np.uint16, np.int16])
def test_conversions_before_onnx_had_them(weft, dtype):
    scale, zero = np.float32(0.003), np.array(5, dtype)
    agree(weft, 'QuantizeLinear', [rand(3, 4), scale, zero], [dtype])
    rows = np.float32([0.1, 0.2, 0.3]), np.array([1, 0, 2], dtype)
    agree(weft, 'DequantizeLinear', [whole(3, 4, low=0, high=100, dtype=dtype), *rows], axis=0)
    agree(weft, 'DequantizeLinear', [whole(4, low=0, high=100, dtype=dtype), np.float32([0.1]), np.array([3], dtype)])


@pytest.mark.parametrize('segments', [False, True])
def test_embeddings_of_quantized_tables(weft, segments):
    ids, kinds = whole(2, 3, low=0, high=9, dtype=np.int32), whole(2, 3, low=0, high=2, dtype=np.int32)
    tables = [quantized(*shape, seed=k) for k, shape in enumerate([(9, 8), (5, 8), (2, 8), (8,), (8,)])]
    if not segments:
        kinds, tables[2] = None, (None, None, None)
    values, scales, zeros = zip(*tables)
    agree(weft, 'QEmbedLayerNormalization', [ids, kinds, *values, None, *scales, *zeros], [np.float32, np.int32], epsilon=1e-6)


def dynamic_lstm(directions, size=5, hidden=4, batch=2, per_column=False, zeros=True, seed=0):
    """Operands of DynamicQuantizeLSTM, without lengths, states and peepholes."""
    def weights(rows, k):
        w = whole(directions, rows, 4 * hidden, **SMALL, seed=seed + k)
        shape = [directions, 4 * hidden] if per_column else [directions]
        zero = None if not zeros else np.zeros(shape, np.int8) if per_column else np.int8([3, -5][:directions])
        return w, rand(*shape, low=0.004, high=0.006, seed=seed + k), zero
    w, r = weights(size, 1), weights(hidden, 2)
    return [rand(6, batch, size, seed=seed), w[0], r[0], rand(directions, 8 * hidden, seed=seed), None, None, None, None,
            w[1], w[2], r[1], r[2]]


@pytest.mark.parametrize('direction', ['forward', 'reverse', 'bidirectional'])
@pytest.mark.parametrize('per_column', [False, True])
def test_recurrences_that_are_quantized_in_each_step(weft, direction, per_column):
    directions = 2 if direction == 'bidirectional' else 1
    operands = dynamic_lstm(directions, per_column=per_column)
    fixed = (1, 2, 3, 8, 9, 10, 11)
    outputs = [np.float32] * 3
    agree(weft, 'DynamicQuantizeLSTM', operands, outputs, fixed, hidden_size=4, direction=direction)
    states = [rand(directions, 2, 4, seed=s) for s in (7, 8)]
    operands[5:8] = [*states, rand(directions, 12)]
    activations = ['Sigmoid', 'Tanh', 'Tanh', 'HardSigmoid', 'Softsign', 'Relu'][:3 * directions]
    agree(weft, 'DynamicQuantizeLSTM', operands, ['', np.float32], fixed, hidden_size=4, direction=direction, clip=0.8,
          activations=activations, input_forget=int(per_column))


def test_recurrences_of_many_steps_are_loops(weft):
    operands = dynamic_lstm(1)
    operands[0] = rand(150, 2, 5)
    # What the steps give is too many parts for one kernel: a native step puts them together, which --strict would refuse.
    agree(weft, 'DynamicQuantizeLSTM', operands, [np.float32], (1, 2, 3, 8, 9, 10, 11), flags=(), hidden_size=4)


@pytest.mark.parametrize('change, says', [
    ({4: np.int32([3, 6])}, 'lengths of the sequences, is not supported'), ({8: None}, 'input 8 is absent'),
    ({'direction': 'sideways'}, 'direction is "sideways"'), ({'activations': ['Sigmoid', 'Tanh']}, 'found 2 activations'),
    ({'activations': ['Sigmoid', 'Affine', 'Tanh']}, 'the activation "Affine" is not supported')])
def test_quantized_recurrences_that_are_refused(weft, change, says):
    operands, attributes = dynamic_lstm(1), {'hidden_size': 4}
    for i, value in change.items():
        if isinstance(i, int):
            operands[i] = value
        else:
            attributes[i] = value
    model, _ = model_of('DynamicQuantizeLSTM', operands, [np.float32], (), attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    told = weft('check', 'model.onnx', code=(3, 4)) + weft.said
    assert says in told and '"it"' in told


def packed(length, heads, size, seed):
    return rand(2, length, heads * size, seed=seed)


@pytest.mark.parametrize('bits, block', [(2, 32), (4, 32), (8, 16)])
@pytest.mark.parametrize('zeros', [None, np.uint8, np.float32])
def test_products_with_weights_of_few_bits(weft, bits, block, zeros):
    k, n = 72, 6  # the last block of a row is not full
    blocks = -(-k // block)
    zero = {None: None, np.uint8: whole(n * -(-blocks * bits // 8), low=0, high=256, dtype=np.uint8),
            np.float32: rand(n, blocks, low=0, high=2 ** bits - 1)}[zeros]
    if bits == 8 and zeros == np.float32:
        pytest.skip('onnxruntime takes no such')
    weights = whole(n, blocks, block * bits // 8, low=0, high=256, dtype=np.uint8)
    agree(weft, 'MatMulNBits', [rand(3, k), weights, rand(n * blocks), zero], fixed=(1, 2, 3), K=k, N=n, bits=bits, block_size=block)


@pytest.mark.parametrize('zeros', [False, True])
@pytest.mark.parametrize('order', [lambda k, block: k // block, lambda k, block: k * 7 % 5])
def test_rows_of_weights_in_groups_of_their_own(weft, zeros, order):
    k, n, block = 72, 6, 16
    weights = whole(n, 5, block // 2, low=0, high=256, dtype=np.uint8)
    agree(weft, 'MatMulNBits', [rand(3, k), weights, rand(n * 5), rand(n, 5, high=15) if zeros else None,
                                order(np.arange(k), block).astype(np.int32)], fixed=(1, 2, 3, 4), K=k, N=n, bits=4, block_size=block)


@pytest.mark.parametrize('bits', [4, 8])
@pytest.mark.parametrize('with_zeros', [False, True])
def test_rows_of_tables_of_few_bits(weft, bits, with_zeros):
    table, scales = whole(10, 48 * bits // 8, low=0, high=256, dtype=np.uint8), rand(10, 3)
    zeros = whole(10, (3 * bits + 7) // 8, low=0, high=256, dtype=np.uint8)  # half a byte behind three numbers of four bits
    agree(weft, 'GatherBlockQuantized', [table, np.int64([[1, 3, 9]]), scales, *[zeros] * with_zeros], fixed=(0, 2, 3),
          block_size=16, quantize_axis=1, gather_axis=0, bits=bits)


@pytest.mark.parametrize('past', [0, 3])
@pytest.mark.parametrize('causal', [0, 1])
def test_heads(weft, past, causal):
    caches = [rand(2, 4, past, 8, seed=s) for s in (5, 6)] if past else [None, None]
    outputs = [np.float32] * 3
    agree(weft, 'MultiHeadAttention', [packed(5, 4, 8, 0), packed(5, 4, 8, 1), packed(5, 4, 8, 2), rand(96),
                                       None, rand(1, 4, 5, 5 + past), *caches], outputs, num_heads=4, unidirectional=causal)


def test_heads_with_lengths(weft):
    agree(weft, 'MultiHeadAttention', [packed(5, 4, 8, 0), packed(6, 4, 8, 1), packed(6, 4, 8, 2), None, np.int32([3, 6])],
          num_heads=4)


@pytest.mark.parametrize('causal', [0, 1])
@pytest.mark.parametrize('past', [0, 3])
def test_lengths_hide_keys_whatever_else_does(weft, past, causal):
    agree(weft, 'MultiHeadAttention', [packed(4, 4, 8, 0), packed(4, 4, 8, 1), packed(4, 4, 8, 2), None, np.int32([2, 3])],
          num_heads=4, unidirectional=causal)
    packed_past = [rand(2, 2, 4, past, 4)] if past else []
    for bounds in ([3, 4 + past], [3, 4 + past, 1, 0]):  # ends, or ends and first ones
        agree(weft, 'Attention', [rand(2, 4, 12), rand(12, 48), rand(48), np.int32(bounds), *packed_past],
              [np.float32] * (1 + len(packed_past)), (1, 2), num_heads=4, unidirectional=causal)


def test_heads_with_sums_of_lengths(weft):
    sums = np.int32([3, 6, 0, 5, 10, 0, 3, 9])  # the lengths; where the queries and the keys of each batch begin, without pads
    agree(weft, 'MultiHeadAttention', [packed(5, 4, 8, 0), packed(6, 4, 8, 1), packed(6, 4, 8, 2), None, sums], num_heads=4)


@pytest.mark.parametrize('bounds', [[3, 4], [3, 4, 1, 0]])
def test_lengths_of_an_open_number_of_batches(weft, bounds):
    """As kernels, once a run has said the number."""
    model, arrays = model_of('Attention', [rand(2, 4, 12), rand(12, 48), rand(48), np.int32(bounds)], [np.float32], (1, 2),
                             {'num_heads': 4, 'do_rotary': 0})
    expected = onnxruntime.InferenceSession(model.SerializeToString(), providers=['CPUExecutionProvider']).run(None, arrays)[0]
    open_extents(model)
    onnx.save(model, weft.folder / 'model.onnx')
    np.savez(weft.folder / 'x.npz', **arrays)
    weft('build', 'model.onnx', '-o', 'open.plan')
    weft('run', 'open.plan', '--inputs', 'x.npz', '-o', 'y.npz', '--specialize', 'now')
    assert_near(weft.folder / 'y.npz', {'y0': expected}, PEER)


def test_heads_with_a_mask(weft):
    mask = np.int32([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    agree(weft, 'MultiHeadAttention', [packed(5, 4, 8, 0), packed(6, 4, 8, 1), packed(6, 4, 8, 2), None, mask], num_heads=4,
          scale=0.5)
    agree(weft, 'MultiHeadAttention', [packed(5, 4, 8, 0), rand(2, 4, 6, 8), rand(2, 4, 6, 8, seed=1)], num_heads=4)


@pytest.mark.parametrize('mask', [
    None, np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]), np.int32([3, 5]), np.int32([3, 5, 1, 0]), np.int32([3, 4, 0, 3, 7, 0, 4, 8]),
    np.int32([[0], [1]])])
def test_attention_with_its_weights(weft, mask):
    agree(weft, 'Attention', [rand(2, 5, 12), rand(12, 48), rand(48), mask], fixed=(1, 2), num_heads=4)


def test_attention_with_a_past(weft):
    agree(weft, 'Attention', [rand(2, 3, 16), rand(16, 48), rand(48), None, rand(2, 2, 4, 5, 4)], [np.float32] * 2, (1, 2),
          num_heads=4, unidirectional=1)


@pytest.mark.parametrize('interleaved', [0, 1])
def test_rotary_embeddings(weft, interleaved):
    tables = [rand(9, 4, seed=1), rand(9, 4, seed=2)]
    places = whole(2, 5, low=0, high=9, dtype=np.int64)
    agree(weft, 'RotaryEmbedding', [rand(2, 5, 24), places, *tables], interleaved=interleaved)
    agree(weft, 'RotaryEmbedding', [rand(2, 3, 5, 8), np.int64([2]), *tables], interleaved=interleaved)
    agree(weft, 'RotaryEmbedding', [rand(2, 5, 36), places, *tables], interleaved=interleaved, num_heads=3,
          rotary_embedding_dim=8)


@pytest.mark.parametrize('rotary', [0, 1])
@pytest.mark.parametrize('window', [-1, 2])
@pytest.mark.parametrize('past, length', [(0, 4), (5, 1)])
def test_groups_of_queries(weft, past, length, window, rotary):
    total = past + length
    tables = [rand(16, 8, seed=1), rand(16, 8, seed=2)] if rotary else [None, None]
    operands = [packed(length, 4, 16, 0), packed(length, 2, 16, 1), packed(length, 2, 16, 2),
                *(rand(2, 2, past, 16, seed=s) for s in (5, 6)), np.full(2, total - 1, np.int32), np.array(total, np.int32)]
    agree(weft, 'GroupQueryAttention', [*operands, *tables], [np.float32] * 3, (6,), num_heads=4, kv_num_heads=2,
          do_rotary=rotary, local_window_size=window)


@pytest.mark.parametrize('past, length, places', [(0, 4, [[3, 1, 0, 2], [5, 5, 6, 7]]), (5, 1, [[3], [9]])])
def test_groups_of_queries_at_places(weft, past, length, places):
    """Of a prompt the first number counts alone."""
    total = past + length
    operands = [packed(length, 4, 16, 0), packed(length, 2, 16, 1), packed(length, 2, 16, 2),
                *(rand(2, 2, past, 16, seed=s) for s in (5, 6)), np.full(2, total - 1, np.int32), np.array(total, np.int32),
                rand(16, 8, seed=1), rand(16, 8, seed=2), np.int64(places)]
    for fixed in ((), (6,)):
        agree(weft, 'GroupQueryAttention', operands, [np.float32] * 3, fixed, num_heads=4, kv_num_heads=2, do_rotary=1)


@pytest.mark.parametrize('bias', [False, True])
@pytest.mark.parametrize('sink', ['none', 'smooth', 'by_head'])
def test_groups_of_queries_beside_a_sink(weft, sink, bias):
    operands = [packed(3, 4, 8, 0), packed(3, 2, 8, 1), packed(3, 2, 8, 2), *(rand(2, 2, 0, 8) for _ in range(2)),
                np.full(2, 2, np.int32), np.array(3, np.int32), None, None, None,
                rand(1, 4, 3, 3) if bias else None, rand(4, seed=9) if sink == 'by_head' else None]
    agree(weft, 'GroupQueryAttention', operands, [np.float32] * 3, (6,), num_heads=4, kv_num_heads=2, softcap=3.0,
          **({'smooth_softmax': 1} if sink == 'smooth' else {}))


def test_groups_of_queries_with_room_for_later_ones(weft):
    operands = [packed(1, 4, 8, 0), packed(1, 2, 8, 1), packed(1, 2, 8, 2), *(rand(2, 2, 6, 8, seed=s) for s in (5, 6)),
                np.full(2, 5, np.int32), np.array(6, np.int32)]
    agree(weft, 'GroupQueryAttention', operands, [np.float32] * 3, (6,), num_heads=4, kv_num_heads=2)


def test_groups_of_queries_in_one_operand(weft):
    agree(weft, 'GroupQueryAttention', [rand(2, 4, 64), None, None, rand(2, 2, 0, 8), rand(2, 2, 0, 8), np.full(2, 3, np.int32),
                                        np.array(4, np.int32)], [np.float32] * 3, (6,), num_heads=4, kv_num_heads=2,
          softcap=2.0, scale=0.3)


@pytest.mark.parametrize('past', [False, True])
def test_attention_on_quantized_rows(weft, past):
    w = whole(16, 48, **SMALL)
    x, scale, zero = quantized(2, 3, 16)
    mask = np.int32([[1] * (5 + 3 * past), [1] * (4 + 3 * past) + [0]])[:, 2:] if past else np.int32([3, 2])
    more = [rand(2, 2, 4, 3, 4)] if past else []
    agree(weft, 'QAttention', [x, w, rand(48), scale, np.float32(0.01), mask, zero, np.int8(0), *more],
          [np.float32] * (2 if past else 1), (1, 2), tolerance=1e-3, num_heads=4)


@pytest.mark.parametrize('op, inputs, attributes, code, said', [
    ('FusedConv', [rand(1, 1, 4, 4), rand(1, 1, 3, 3)], {'activation': 'Selu'}, 4, 'the activation "Selu"'),
    ('FusedMatMul', [rand(3, 4), rand(4, 5)], {'transBatchA': 1}, 4, 'batches that are transposed'),
    ('Pad', [rand(2, 2), whole(2, 2, low=0, high=3, dtype=np.int64)], {}, 3, 'axis 0 of [2, 2] has 2, expected 1'),
    ('CDist', [rand(3, 4), rand(5, 4)], {'metric': 'cosine'}, 4, 'the metric "cosine"'),
    ('MultiHeadAttention', [rand(1, 2, 8)] * 3, {'num_heads': 0}, 3, '"num_heads" is 0'),
    ('GroupQueryAttention', [rand(1, 2, 8)] * 3, {'num_heads': 2, 'kv_num_heads': 1}, 3, 'input 5'),
    ('GroupQueryAttention', [rand(1, 2, 8)] * 3 + [None, None, np.int32([1]), np.array(2, np.int32), *[None] * 5, rand(1)],
     {'num_heads': 2, 'kv_num_heads': 1}, 4, 'quantized cache'),
    ('Attention', [rand(1, 2, 8), rand(8, 25)], {'num_heads': 2}, 3, '25 columns'),
    ('Attention', [rand(2, 4, 8), rand(8, 24), None, np.int32([3])], {'num_heads': 2}, 3, 'a list of 1 masks nothing of a batch of 2'),
    ('MultiHeadAttention', [rand(2, 4, 8)] * 3 + [None, np.int32([3, 4, 0, 0])], {'num_heads': 2}, 3, 'a list of 4'),
    ('GatherND', [rand(3, 4), rand(1, 2)], {}, 3, 'input 1 (indices) is f32'),
    ('QLinearAdd', [rand(3)], {}, 3, 'input 1 is absent'),
    ('Gelu', [rand(3)] * 3, {}, 3, 'at most 2')])
def test_what_is_wrong_names_the_node(weft, op, inputs, attributes, code, said):
    model, _ = model_of(op, inputs, [np.float32], (), attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    weft('run', 'model.onnx', code=code)
    assert said in weft.said and 'node "it"' in weft.said, weft.said


@pytest.mark.parametrize('dtype', [np.uint8, np.int8])
@pytest.mark.parametrize('group', [1, 2])
def test_quantized_convolutions_of_channels_that_come_last(weft, dtype, group):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x, w = whole(2, 7, 6, 4, low=low, high=high, dtype=dtype), whole(6, 4 // group, 3, 3, **SMALL)
    for bias in (None, whole(6, low=-500, high=500, dtype=np.int32)):
        agree(weft, 'QLinearConv', [x, np.float32(0.02), dtype(3), w, rand(6, low=0.01, high=0.02), np.zeros(6, np.int8),
                                    np.float32(0.1), dtype(7), bias],
              (dtype,), fixed=range(1, 9), channels_last=1, group=group, pads=[1, 1, 1, 1], strides=[2, 1])


def test_pooling_of_channels_that_come_last(weft):
    x = whole(2, 7, 6, 5, low=0, high=255, dtype=np.uint8)
    agree(weft, 'NhwcMaxPool', [x], (np.uint8,), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0])
    ends = [np.float32(0.02), np.uint8(3), np.float32(0.03), np.uint8(5)]
    agree(weft, 'QLinearAveragePool', [x, *ends], (np.uint8,), fixed=range(1, 5), channels_last=1, kernel_shape=[3, 2],
          strides=[2, 2], pads=[1, 0, 1, 0])
    agree(weft, 'QLinearGlobalAveragePool', [x, *ends], (np.uint8,), fixed=range(1, 5), channels_last=1)


def by_hand(weft, op, inputs, expected, tolerance=1e-5, **attributes):
    """Where onnxruntime has none for the CPU."""
    model, arrays = model_of(op, inputs, [np.float32] * len(expected), (), attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    found = weft.run('model.onnx', arrays, '--force', 'own', '--strict')
    assert all(within(found[f'y{i}'], np.asarray(e, np.float32), tolerance) for i, e in enumerate(expected))


def test_convolutions_of_channels_that_come_last(weft):
    torch = pytest.importorskip('torch', reason='torch says what is right')
    x, w, b, z = rand(2, 7, 6, 4), rand(6, 2, 3, 3), rand(6), rand(2, 4, 6, 6)
    y = torch.nn.functional.conv2d(torch.tensor(x.transpose(0, 3, 1, 2)), torch.tensor(w), torch.tensor(b), (2, 1), 1, groups=2)
    y = y.numpy().transpose(0, 2, 3, 1)
    window = {'pads': [1, 1, 1, 1], 'strides': [2, 1], 'group': 2}
    by_hand(weft, 'NhwcConv', [x, w, b], [y], **window)
    by_hand(weft, 'NhwcFusedConv', [x, w, b, z], [np.maximum(y + z, 0)], activation='Relu', **window)
    by_hand(weft, 'NhwcFusedConv', [x, w, b, z], [y + z], **window)


@pytest.mark.parametrize('last', [0, 1])
def test_group_norms(weft, last):
    x, gamma, beta, bias = rand(2, 5, 4, 6), rand(6, seed=1), rand(6, seed=2), rand(6, seed=3)

    def norm(v):
        groups = v.reshape(2, 20, 3, 2).astype(np.float64)
        apart = groups - groups.mean((1, 3), keepdims=True)
        y = (apart / np.sqrt((apart ** 2).mean((1, 3), keepdims=True) + 1e-3)).reshape(v.shape) * gamma + beta
        return y / (1 + np.exp(-y))

    def laid(v):
        return v if last else np.ascontiguousarray(v.transpose(0, 3, 1, 2))
    attributes = {'groups': 3, 'epsilon': 1e-3, 'activation': 1, 'channels_last': last}
    by_hand(weft, 'GroupNorm', [laid(x), gamma, beta], [laid(norm(x))], **attributes)
    skip = rand(2, 5, 4, 6, seed=5)
    total = x + skip + bias
    by_hand(weft, 'SkipGroupNorm', [laid(x), gamma, beta, laid(skip), bias], [laid(norm(total)), laid(total)], **attributes)
    if last:
        total = x + skip[:, :1, :1]
        by_hand(weft, 'SkipGroupNorm', [x, gamma, beta, skip[:, 0, 0].copy()], [norm(total), total], **attributes)


def test_halves_and_sums_of_diffusion_models(weft):
    x, bias = rand(2, 5, 8), rand(8, seed=1)
    left, right = np.split((x + bias).astype(np.float64), 2, -1)
    erf = np.vectorize(__import__('math').erf)
    by_hand(weft, 'BiasSplitGelu', [x, bias], [left * right * 0.5 * (1 + erf(right / np.sqrt(2)))])
    by_hand(weft, 'BiasAdd', [x, bias, x[::-1].copy()], [x + bias + x[::-1]])


def test_gates(weft):
    x, gate, scale = rand(2, 3, 8), rand(2, 3, 8, seed=1), rand(4)
    for activation in ('silu', 'sigmoid'):
        agree(weft, 'GatedRMSNorm', [x, scale, gate], activation=activation)
    agree(weft, 'GatedAdd', [x, gate, rand(2, 3, 1)])
    agree(weft, 'ScaledSiLU', [x, np.float32(1.5)])
    agree(weft, 'ScaledSiLU', [x], alpha=0.5)


@pytest.mark.parametrize('kind, turned', [(0, 1), (1, 1)])
def test_products_with_tables_of_weights(weft, kind, turned):
    k, n, block = 48, 5, 16
    weights = whole(k * n // 2, low=0, high=256, dtype=np.uint8)
    agree(weft, 'MatMulBnb4', [rand(3, 2, k), weights, rand(k * n // block, low=0.5)], fixed=(1, 2), K=k, N=n, block_size=block,
          quant_type=kind, transB=turned)


TOKENS, EXPERTS, HIDDEN, INNER = 7, 4, 16, 32


@pytest.mark.parametrize('rank', [2, 3])
@pytest.mark.parametrize('activation', ['relu', 'gelu', 'silu', 'identity'])
@pytest.mark.parametrize('k, normalize', [(1, 0), (2, 1), (3, 0)])
def test_experts(weft, activation, k, normalize, rank):
    x = rand(TOKENS, HIDDEN) if rank == 2 else rand(1, TOKENS, HIDDEN)
    agree_experts(weft, 'MoE', [x, rand(TOKENS, EXPERTS, low=-3, high=3), rand(EXPERTS, INNER, HIDDEN), rand(EXPERTS, INNER),
                                rand(EXPERTS, HIDDEN, INNER), rand(EXPERTS, HIDDEN)],
                  k=k, normalize_routing_weights=normalize, activation_type=activation)


def agree_experts(weft, op, inputs, **attributes):
    """Who is asked is sorted out on the host: not by own kernels alone."""
    model, arrays = model_of(op, inputs, (np.float32,), range(2, len(inputs)), attributes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    expected, = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider']).run(None, arrays)
    onnx.save(model, weft.folder / 'model.onnx')
    found = weft.run('model.onnx', arrays, '--budget', '0')['y0']
    assert within(found, expected, 1e-5), np.abs(found - expected).max()


def gated_experts(x, router, w1, b1, w2, b2, fusion, most):
    """Two experts for each token, with alpha 1.7 and beta 1, in float64."""
    odds = np.exp(router.astype(np.float64))
    total = np.zeros((len(x), w2.shape[1]))
    for t, row in enumerate(odds):
        asked = np.argsort(-row)[:2]
        for expert in asked:
            sums = w1[expert].astype(np.float64) @ x[t] + b1[expert]
            g, l = (sums[::2], sums[1::2]) if fusion == 1 else np.split(sums, 2)
            g, l = np.minimum(g, most), np.clip(l, -most, most)
            total[t] += row[expert] / row[asked].sum() * (w2[expert] @ (g / (1 + np.exp(-1.7 * g)) * (l + 1)) + b2[expert])
    return total.astype(np.float32)


GATES = {'k': 2, 'normalize_routing_weights': 1, 'activation_type': 'swiglu', 'activation_alpha': 1.7, 'activation_beta': 1.0}


@pytest.mark.parametrize('fusion', [1, 2])
def test_experts_with_gates(weft, fusion):
    inputs = [rand(TOKENS, HIDDEN), rand(TOKENS, EXPERTS, low=-3, high=3), rand(EXPERTS, 2 * INNER, HIDDEN),
              rand(EXPERTS, 2 * INNER), rand(EXPERTS, HIDDEN, INNER), rand(EXPERTS, HIDDEN)]
    attributes = GATES | {'swiglu_fusion': fusion, 'swiglu_limit': 2.0}
    if fusion == 1:  # onnxruntime has no other
        agree_experts(weft, 'MoE', inputs, **attributes)
    model, arrays = model_of('MoE', inputs, (np.float32,), range(2, 6), attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    assert within(weft.run('model.onnx', arrays, '--budget', '0')['y0'], gated_experts(*inputs, fusion, 2.0), 1e-5)


@pytest.mark.parametrize('bits, block, zeros', [(4, 0, False), (8, 0, False), (4, 16, False), (8, 16, False), (4, 16, True)])
def test_quantized_experts(weft, bits, block, zeros):
    def layer(rows, columns, seed):
        blocks = columns // block if block else 1
        scales = rand(*((EXPERTS, rows, blocks) if block else (EXPERTS, rows)), seed=seed, low=0.01, high=0.02)
        points = whole(EXPERTS, rows, (blocks * bits + 7) // 8, low=0, high=256, dtype=np.uint8, seed=seed) if zeros else None
        return whole(EXPERTS, rows, columns * bits // 8, low=0, high=256, dtype=np.uint8, seed=seed), scales, points

    def real(packed, scales):
        numbers = packed if bits == 8 else np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:2], -1)
        return (numbers.astype(np.float64) - 2 ** (bits - 1)) * np.repeat(
            scales.reshape(*packed.shape[:2], -1), block or numbers.shape[2], axis=2)
    w1, s1, z1 = layer(2 * INNER, HIDDEN, 1)
    w2, s2, z2 = layer(HIDDEN, INNER, 2)
    x, router, b1, b2 = rand(TOKENS, HIDDEN), rand(TOKENS, EXPERTS, low=-3, high=3), rand(EXPERTS, 2 * INNER), rand(EXPERTS, HIDDEN)
    inputs = [x, router, w1, s1, b1, w2, s2, b2] + ([None, None, None, z1, z2] if zeros else [])
    attributes = GATES | {'swiglu_fusion': 1, 'swiglu_limit': 7.0, 'expert_weight_bits': bits} | ({'block_size': block} if block else {})
    if (bits, block) != (8, 16):  # where onnxruntime quantizes what comes in
        agree_experts(weft, 'QMoE', inputs, **attributes)
    if not zeros:
        model, arrays = model_of('QMoE', inputs, (np.float32,), range(2, len(inputs)), attributes)
        onnx.save(model, weft.folder / 'model.onnx')
        expected = gated_experts(x, router, real(w1, s1), b1, real(w2, s2), b2, 1, 7.0)
        assert within(weft.run('model.onnx', arrays, '--budget', '0')['y0'], expected, 1e-5)
