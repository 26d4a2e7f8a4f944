"""Seeded cases that the onnx package's own suite lacks: exotic attributes, grouped and strided windows, other
element types, edges."""
import zlib

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

OPSET = 24
np.seterr(all='ignore')  # infinities are among the cases
NOT_THE_NEWEST_FORM = {'test_dropout_random_old', 'test_dft_opset19', 'test_dft_axis_opset19', 'test_dft_inverse_opset19',
                       'test_dft_rfft_opset19', 'test_dft_irfft_opset19', 'test_scatter_with_axis', 'test_scatter_without_axis'}
FOLDED = {}  # case -> places of inputs that are to be constants


def evaluate(node, inputs, n_outputs, by_runtime, opset=OPSET):
    types = {n: onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in inputs.items()}
    graph = onnx.helper.make_graph(
        [node], 'case', [onnx.helper.make_tensor_value_info(n, types[n], a.shape) for n, a in inputs.items()],
        [onnx.ValueInfoProto(name=n) for n in node.output if n])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid('', opset)], ir_version=10)
    if not by_runtime:
        return ReferenceEvaluator(model).run(None, inputs)
    inferred = onnx.shape_inference.infer_shapes(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(inferred.SerializeToString(), options, providers=['CPUExecutionProvider'])
    return session.run(None, inputs)


class Cases:
    def __init__(self):
        self.out = []

    def add(self, name, op, inputs, outputs=1, folded=(), by_runtime=False, expected=None, opset=OPSET, **attributes):
        """inputs: arrays, or None for an absent one. `folded`: places of those that are constants. `expected`: the
        output, or a list of them."""
        names = ['' if a is None else f'in{k}' for k, a in enumerate(inputs)]
        out_names = ['result'] if outputs == 1 else [f'result{k}' for k in range(outputs)]
        node = onnx.helper.make_node(op, names, out_names, **attributes)
        arrays = {n: np.asarray(a) for n, a in zip(names, inputs) if n}
        try:
            if expected is not None:
                results = expected if isinstance(expected, list) else [expected]
            else:
                results = evaluate(node, arrays, outputs, by_runtime, opset)
        except Exception:  # each of the two lacks some operators and element types
            results = evaluate(node, arrays, outputs, not by_runtime, opset)
        if op.startswith('Reduce'):  # numpy widens sums of integers, ONNX does not
            results = [np.asarray(r).astype(arrays['in0'].dtype) for r in results]
        FOLDED[name] = list(folded)
        self.out.append((name, node, arrays, dict(zip(out_names, map(np.asarray, results)))))


def rand(*shape, seed='', dtype=np.float32, low=-2.0, high=2.0):
    random = np.random.default_rng(zlib.crc32(f'{seed}{shape}'.encode()))
    return random.uniform(low, high, shape).astype(dtype)


def whole(*shape, low=-9, high=9, dtype=np.int32, seed=''):
    random = np.random.default_rng(zlib.crc32(f'{seed}{shape}'.encode()))
    return random.integers(low, high, shape).astype(dtype)


def convolutions(c):
    for name, x, filter_, attributes in [
            ('plain', (2, 3, 8, 9), (4, 3, 3, 3), {}),
            ('padded', (1, 3, 7, 6), (4, 3, 3, 3), dict(pads=[1, 1, 1, 1])),
            ('lopsided', (1, 2, 7, 6), (3, 2, 3, 2), dict(pads=[0, 1, 2, 0], strides=[2, 1])),
            ('dilated', (1, 2, 9, 9), (3, 2, 3, 3), dict(pads=[2, 2, 2, 2], dilations=[2, 2])),
            ('depthwise', (1, 4, 6, 6), (4, 1, 3, 3), dict(pads=[1, 1, 1, 1], group=4)),
            ('multiplier', (1, 3, 6, 6), (6, 1, 3, 3), dict(pads=[1, 1, 1, 1], group=3)),
            ('grouped', (2, 6, 5, 5), (4, 3, 3, 3), dict(pads=[1, 1, 1, 1], group=2, strides=[2, 2])),
            ('fewer', (2, 6, 5, 5), (3, 2, 3, 3), dict(group=3)),
            ('pointwise', (1, 8, 4, 4), (5, 8, 1, 1), {}),
            ('pointwise_strided', (1, 8, 5, 5), (5, 8, 1, 1), dict(strides=[2, 2])),
            ('row', (1, 3, 11), (4, 3, 5), dict(pads=[4, 0], dilations=[1])),
            ('solid', (1, 2, 4, 5, 6), (3, 2, 3, 3, 3), dict(pads=[1, 1, 1, 1, 1, 1])),
            ('same_upper', (1, 2, 6, 7), (3, 2, 4, 3), dict(auto_pad='SAME_UPPER', strides=[2, 2])),
            ('same_lower', (1, 2, 6, 7), (3, 2, 4, 3), dict(auto_pad='SAME_LOWER', strides=[2, 2]))]:
        for with_bias in (False, True):
            inputs = [rand(*x, seed=name), rand(*filter_, seed=name)] + [rand(filter_[0], seed='b')] * with_bias
            c.add(f'conv_{name}{"_bias" * with_bias}', 'Conv', inputs, by_runtime=True, **attributes)
    # With a filter that is known when the plan is built: Winograd's tiles, whole and cut.
    for name, x, filter_, attributes in [
            ('even', (2, 3, 8, 6), (4, 3, 3, 3), dict(pads=[1, 1, 1, 1])),
            ('odd', (1, 5, 7, 9), (3, 5, 3, 3), dict(pads=[1, 1, 1, 1])),
            ('bare', (1, 2, 6, 5), (2, 2, 3, 3), {}),
            ('lopsided', (1, 2, 5, 6), (3, 2, 3, 3), dict(pads=[0, 2, 1, 0])),
            ('single', (1, 1, 3, 3), (1, 1, 3, 3), {}),
            ('series', (2, 3, 11), (4, 3, 3), dict(pads=[1, 1])),
            ('series_bare', (1, 2, 6), (3, 2, 3), {}),
            ('across', (1, 3, 4, 7), (2, 3, 1, 3), dict(pads=[0, 1, 0, 1])),
            ('across_far', (1, 2, 3, 6), (2, 2, 1, 3), dict(pads=[1, 2, 0, 1])),
            ('down', (2, 3, 7, 4), (2, 3, 3, 1), dict(pads=[1, 0, 1, 0])),
            ('same', (1, 4, 6, 7), (5, 4, 3, 3), dict(auto_pad='SAME_UPPER'))]:
        for with_bias in (False, True):
            inputs = [rand(*x, seed=name), rand(*filter_, seed=name)] + [rand(filter_[0], seed='b')] * with_bias
            c.add(f'conv_tiled_{name}{"_bias" * with_bias}', 'Conv', inputs, folded=[1], by_runtime=True, **attributes)
    half = [rand(1, 3, 6, 6).astype(np.float16), rand(4, 3, 3, 3).astype(np.float16), rand(4).astype(np.float16)]
    c.add('conv_f16', 'Conv', half, pads=[1, 1, 1, 1])
    c.add('conv_f64', 'Conv', [rand(1, 3, 6, 6, dtype=np.float64), rand(4, 3, 3, 3, dtype=np.float64)],
          pads=[1, 1, 1, 1])
    c.add('conv_integer_padded', 'ConvInteger',
          [whole(1, 2, 5, 5, low=0, high=200, dtype=np.uint8), whole(3, 2, 3, 3, low=0, high=200, dtype=np.uint8),
           np.uint8(7), np.uint8(100)], pads=[1, 1, 1, 1], by_runtime=True)
    for dtype, low in ((np.uint8, 0), (np.int8, -100)):
        image = whole(1, 2, 5, 5, low=low, high=low + 200, dtype=dtype)
        signed, zero = whole(3, 2, 3, 3, dtype=np.int8), dtype(low + 7)
        c.add(f'conv_integer_{dtype.__name__}', 'ConvInteger', [image, signed, zero], pads=[1, 1, 1, 1], by_runtime=True)
        c.add(f'qlinear_conv_{dtype.__name__}', 'QLinearConv',
              [image, np.float32(0.02), zero, signed, rand(3, low=0.1, high=0.9), np.zeros(3, np.int8),
               np.float32(0.11), dtype(low + 101), whole(3, low=-400, high=400)], pads=[1, 0, 1, 1], strides=[2, 1],
              by_runtime=True)
    for name, x, filter_, attributes in [
            ('plain', (1, 3, 4, 5), (3, 2, 3, 3), {}),
            ('strided', (1, 3, 4, 5), (3, 2, 3, 3), dict(strides=[2, 3], pads=[1, 0, 1, 1])),
            ('doubling', (1, 4, 4, 4), (4, 2, 2, 2), dict(strides=[2, 2])),
            ('extra', (1, 2, 4, 4), (2, 3, 3, 3), dict(strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])),
            ('grouped', (1, 4, 4, 4), (4, 3, 3, 3), dict(group=2, strides=[2, 2])),
            ('depthwise', (1, 4, 4, 4), (4, 1, 3, 3), dict(group=4, pads=[1, 1, 1, 1])),
            ('dilated', (1, 2, 5, 5), (2, 2, 3, 3), dict(dilations=[2, 2], strides=[2, 1])),
            ('row', (1, 2, 6), (2, 3, 4), dict(strides=[3])),
            ('wide', (2, 16, 9, 13), (16, 24, 4, 4), dict(strides=[2, 2], pads=[1, 1, 1, 1])),
            ('narrow', (1, 16, 9, 32), (16, 3, 4, 4), dict(strides=[2, 2], pads=[1, 1, 1, 1])),
            ('cut', (1, 3, 6, 7), (3, 2, 5, 7), dict(strides=[2, 3], pads=[3, 5, 4, 6])),
            ('gaps', (1, 3, 4, 5), (3, 2, 1, 2), dict(strides=[3, 2], output_padding=[2, 1])),
            ('one_way', (1, 3, 6, 7), (3, 2, 3, 3), dict(strides=[1, 2], dilations=[2, 1], pads=[1, 1, 2, 0])),
            ('volume', (1, 2, 3, 4, 5), (2, 3, 2, 3, 4), dict(strides=[2, 1, 3], pads=[0, 1, 2, 1, 1, 0])),
            ('vocoder', (1, 12, 21), (12, 8, 16), dict(strides=[8], pads=[4, 4])),
            ('by_channel', (1, 5, 7, 6), (5, 1, 4, 4), dict(group=5, strides=[2, 2], pads=[1, 1, 1, 1])),
            ('four_axes', (1, 2, 2, 3, 2, 3), (2, 2, 2, 2, 2, 2), dict(strides=[2, 1, 2, 2]))]:
        c.add(f'conv_transpose_{name}', 'ConvTranspose',
              [rand(*x, seed=name), rand(*filter_, seed=name),
               rand(filter_[1] * attributes.get('group', 1), seed='b')], by_runtime=True, **attributes)


def contractions(c):
    for a, b in [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)),
                 ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (1, 5, 4, 6)), ((2, 1, 1, 4), (4,)), ((4,), (2, 3, 4, 5))]:
        name = '_'.join('x'.join(map(str, s)) for s in (a, b))
        c.add(f'matmul_{name}', 'MatMul', [rand(*a), rand(*b)])
    c.add('matmul_f16', 'MatMul', [rand(3, 16).astype(np.float16), rand(16, 5).astype(np.float16)])
    c.add('matmul_i32', 'MatMul', [whole(3, 4), whole(4, 5)])
    c.add('matmul_i64', 'MatMul', [whole(3, 4, dtype=np.int64), whole(4, 5, dtype=np.int64)])
    c.add('matmul_empty', 'MatMul', [rand(3, 0), rand(0, 5)])
    c.add('matmul_integer_rows', 'MatMulInteger',
          [whole(3, 4, low=0, dtype=np.uint8), whole(4, 5, low=0, dtype=np.uint8), np.uint8(3),
           whole(5, low=0, dtype=np.uint8)], by_runtime=True)
    for trans_a in (0, 1):
        for trans_b in (0, 1):
            for bias in (None, (), (1,), (5,), (1, 5), (3, 1), (3, 5)):
                inputs = [rand(*((4, 3) if trans_a else (3, 4))), rand(*((5, 4) if trans_b else (4, 5)))]
                if bias is not None:
                    inputs.append(np.float32(0.3) if bias == () else rand(*bias))
                tag = 'none' if bias is None else 'x'.join(map(str, bias)) or 'scalar'
                c.add(f'gemm_{trans_a}{trans_b}_{tag}', 'Gemm', inputs, transA=trans_a, transB=trans_b, alpha=0.5,
                      beta=1.5)
    c.add('gemm_plain', 'Gemm', [rand(3, 4), rand(4, 5), rand(5)])
    c.add('gemm_no_beta', 'Gemm', [rand(3, 4), rand(4, 5), rand(5)], beta=0.0)
    for k, (equation, *shapes) in enumerate([
            ('ij,jk->ik', (2, 3), (3, 4)), ('bij,bjk->bik', (2, 2, 3), (2, 3, 4)), ('ii->i', (3, 3)), ('ii', (3, 3)),
            ('ij->ji', (2, 3)), ('ij', (2, 3)), ('i,j->ij', (3,), (4,)), ('...ij,...jk->...ik', (5, 2, 3), (3, 4)),
            ('b n h w, n d -> b d h w', (2, 3, 2, 2), (3, 4)), ('ij,jk,kl->il', (2, 3), (3, 2), (2, 4)),
            ('...->', (2, 3)), ('ij,ij->', (2, 3), (2, 3)), ('bhid,bhjd->bhij', (1, 2, 3, 4), (1, 2, 5, 4)),
            ('...i,...i->...', (2, 3), (2, 3)), ('bc,bd->', (1, 2), (4, 3)), ('a,ab,ab->b', (2,), (2, 1), (2, 3)),
            ('ij,jk->ik', (2, 1), (3, 4))]):
        c.add(f'einsum_{k}', 'Einsum', [rand(*s) for s in shapes], equation=equation)


def dequantized_products(c):
    """weft's own operator: products with weights of few bits, by whole blocks, a broken one, one block."""
    for rows, k, n, block, dtype in ((1, 32, 20, 16, ml_dtypes.int4), (3, 24, 17, 16, ml_dtypes.int4), (9, 16, 5, 16, np.int8),
                                     (8, 32, 33, 8, ml_dtypes.int4)):
        blocks = -(-k // block)
        x, scale = rand(2, rows, k), rand(blocks, n, low=0.5)
        w, zero = (whole(*shape, low=-8, high=8, seed='w') for shape in ((k, n), (blocks, n)))
        for zeros in (False, True):
            spread = np.repeat(scale, block, 0)[:k], np.repeat(zero, block, 0)[:k] * zeros
            c.add(f'dequantize_matmul_{rows}x{k}_{zeros}', 'DequantizeMatMul',
                  [x, w.astype(dtype), scale, *([zero.astype(dtype)] if zeros else [])], folded=(1, 2, 3),
                  expected=(x @ ((w - spread[1]) * spread[0])).astype(np.float32), block_size=block)


FLOAT_CODES = {17: ml_dtypes.float8_e4m3fn, 18: ml_dtypes.float8_e4m3fnuz, 19: ml_dtypes.float8_e5m2,
               20: ml_dtypes.float8_e5m2fnuz, 23: ml_dtypes.float4_e2m1fn, 24: ml_dtypes.float8_e8m0fnu}


def float_codes(c):
    """weft's own operators: each code there is, and numbers at, next to and half-way between those that codes have."""
    for number, dtype in FLOAT_CODES.items():
        codes = np.arange(16 if number == 23 else 256, dtype=np.uint8)
        numbers = codes.view(dtype).astype(np.float32)
        c.add(f'decode_float_{number}', 'DecodeFloat', [codes], expected=numbers, format=number)
        exact = np.sort(numbers[np.isfinite(numbers)])
        near = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2])
        near = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))])
        if number == 24:
            near = near[np.isfinite(near) & (near > 0)]
            mantissa, exponent = np.frexp(near.astype(np.float64))
            for mode, up in (('down', 0), ('nearest', mantissa >= 0.75), ('up', mantissa > 0.5)):
                power = np.clip(exponent + 126 + up, 0, 254).astype(np.uint8)
                c.add(f'encode_power_{mode}', 'EncodeFloat', [near], expected=power, format=number, round_mode=mode)
            ends = np.float32([np.inf, np.nan, 3.4e38, 0, 1e-45])
            c.add('encode_power_ends', 'EncodeFloat', [ends], expected=np.uint8([254, 255, 254, 0, 0]), format=number)
            c.add('encode_power_beyond', 'EncodeFloat', [ends], expected=np.uint8([255, 255, 255, 0, 0]), format=number,
                  saturate=0)
            continue
        x = np.concatenate([near, np.float32([np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-30, -1e-30, 0, -0.0, 1e-45, 500, -500])])
        largest = float(ml_dtypes.finfo(dtype).max)
        for saturate in (0, 1):
            inside = np.clip(x, -largest, largest) if saturate else x
            c.add(f'encode_float_{number}_{saturate}', 'EncodeFloat', [x], expected=inside.astype(dtype).view(np.uint8),
                  format=number, saturate=saturate)


def pools(c):
    base = dict(kernel_shape=[3, 2])
    for name, attributes in [
            ('plain', {}), ('strided', dict(strides=[2, 2])), ('padded', dict(pads=[1, 1, 1, 0], strides=[2, 1])),
            ('dilated', dict(dilations=[2, 3])), ('dilated_padded', dict(dilations=[2, 2], pads=[1, 1, 2, 1])),
            ('ceil', dict(strides=[2, 3], ceil_mode=1)),
            ('ceil_padded', dict(strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1)),
            ('same_upper', dict(auto_pad='SAME_UPPER', strides=[2, 2])),
            ('same_lower', dict(auto_pad='SAME_LOWER', strides=[2, 2]))]:
        x = rand(2, 3, 8, 9, seed=name)
        c.add(f'max_pool_{name}', 'MaxPool', [x], by_runtime=True, **base, **attributes)
        c.add(f'max_pool_{name}_indices', 'MaxPool', [x], outputs=2, by_runtime=True, **base, **attributes)
        for with_pads in (0, 1):
            c.add(f'average_pool_{name}_{with_pads}', 'AveragePool', [x], by_runtime=True, count_include_pad=with_pads,
                  **base, **attributes)
    c.add('max_pool_row', 'MaxPool', [rand(1, 2, 9)], kernel_shape=[3], strides=[2], by_runtime=True)
    c.add('conv_of_four_axes', 'Conv', [rand(1, 2, 3, 4, 3, 4), rand(3, 2, 2, 1, 2, 3)], pads=[1, 0, 0, 1] * 2, by_runtime=True)
    c.add('average_pool_of_four_axes', 'AveragePool', [rand(1, 2, 3, 4, 3, 4)], kernel_shape=[2, 2, 1, 3])
    c.add('max_pool_solid', 'MaxPool', [rand(1, 2, 4, 5, 6)], kernel_shape=[2, 2, 3], by_runtime=True)
    # Windows with more elements than their axes have taps twice: along one axis after another.
    for name, shape, attributes in [
            ('same', (2, 3, 9, 7), dict(kernel_shape=[5, 5], pads=[2, 2, 2, 2])),
            ('strided', (1, 2, 14, 15), dict(kernel_shape=[5, 4], strides=[2, 3], pads=[1, 2, 3, 1], dilations=[1, 2])),
            ('ceil', (1, 2, 13, 14), dict(kernel_shape=[6, 4], strides=[4, 4], ceil_mode=1)),
            ('skipping', (1, 2, 6, 5, 7), dict(kernel_shape=[1, 5, 5], strides=[2, 1, 1], pads=[0, 2, 1, 0, 2, 2])),
            ('longer', (1, 2, 6, 9, 9), dict(kernel_shape=[2, 5, 5], pads=[0, 2, 2, 1, 2, 2])),
            ('solid', (1, 2, 5, 6, 7), dict(kernel_shape=[3, 3, 3], pads=[1, 1, 1, 1, 1, 1]))]:
        c.add(f'max_pool_wide_{name}', 'MaxPool', [rand(*shape)], by_runtime=True, **attributes)
    c.add('max_pool_wide_i8', 'MaxPool', [whole(1, 2, 9, 9, low=-120, high=120, dtype=np.int8)], kernel_shape=[5, 5],
          pads=[2, 2, 2, 2], by_runtime=True)
    c.add('max_pool_u8', 'MaxPool', [whole(1, 2, 5, 5, low=0, high=250, dtype=np.uint8)], kernel_shape=[2, 2],
          pads=[1, 1, 0, 0], by_runtime=True)
    c.add('max_pool_f16', 'MaxPool', [rand(1, 2, 5, 5).astype(np.float16)], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    c.add('average_pool_f16', 'AveragePool', [rand(1, 2, 5, 5).astype(np.float16)], kernel_shape=[3, 3],
          pads=[1, 1, 1, 1])
    c.add('lp_pool_3', 'LpPool', [rand(1, 2, 6, 6)], kernel_shape=[3, 2], strides=[2, 1], p=3, by_runtime=True)
    c.add('global_lp_pool', 'GlobalLpPool', [x := rand(2, 3, 4, 5)], p=3,
          expected=(np.abs(x)**3).sum((2, 3), keepdims=True)**(1 / 3))
    for op in ('GlobalAveragePool', 'GlobalMaxPool'):
        c.add(f'{op.lower()}_row', op, [rand(2, 3, 7)], by_runtime=True)
        c.add(f'{op.lower()}_plane', op, [rand(2, 3, 4, 5)], by_runtime=True)


def reductions(c):
    for op in ('L1', 'L2', 'LogSum', 'LogSumExp', 'Max', 'Mean', 'Min', 'Prod', 'Sum', 'SumSquare'):
        x = rand(2, 3, 4, 5, low=0.5)
        for axes in ([1], [0, 2], [-1, 1], [0, 1, 2, 3]):
            for keep in (0, 1):
                tag = ''.join(map(str, axes)).replace('-', 'm')
                c.add(f'reduce_{op.lower()}_{tag}_{keep}', f'Reduce{op}', [x, np.array(axes, np.int64)], keepdims=keep)
        c.add(f'reduce_{op.lower()}_all', f'Reduce{op}', [x])
        c.add(f'reduce_{op.lower()}_none', f'Reduce{op}', [x, np.array([], np.int64)], noop_with_empty_axes=1,
              by_runtime=True)
        c.add(f'reduce_{op.lower()}_i32', f'Reduce{op}', [whole(2, 3, 4, low=1), np.array([1], np.int64)],
              by_runtime=op in ('Mean', 'LogSum', 'LogSumExp', 'L2'))
        c.add(f'reduce_{op.lower()}_f16', f'Reduce{op}', [x.astype(np.float16), np.array([1], np.int64)])
    c.add('reduce_logsumexp_minus_inf', 'ReduceLogSumExp',
          [np.array([[-np.inf, -np.inf], [0, -np.inf]], np.float32), np.array([1], np.int64)],
          expected=np.array([[-np.inf], [0]], np.float32))
    for op in ('ArgMax', 'ArgMin'):
        for last in (0, 1):
            for axis, keep in ((0, 1), (1, 0), (-1, 1)):
                c.add(f'{op.lower()}_{axis + 1}_{keep}_{last}', op, [whole(3, 4, 5, low=0, high=4).astype(np.float32)],
                      axis=axis, keepdims=keep, select_last_index=last)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            for axis in (0, 1, -1):
                c.add(f'cumsum_{exclusive}{reverse}_{axis + 1}', 'CumSum', [rand(3, 4, 5), np.int64(axis)],
                      exclusive=exclusive, reverse=reverse)
                c.add(f'cumprod_{exclusive}{reverse}_{axis + 1}', 'CumProd', [rand(3, 4, 5), np.int64(axis)], opset=26,
                      exclusive=exclusive, reverse=reverse)
    c.add('cumsum_i64', 'CumSum', [whole(3, 4, dtype=np.int64), np.int64(1)])
    c.add('cumprod_i64', 'CumProd', [whole(3, 4, dtype=np.int64), np.int64(1)], opset=26)
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        for op, opset in (('CumSum', 14), ('CumProd', 26)):
            c.add(f'{op.lower()}_11_{np.dtype(dtype).name}', op, [whole(3, 4, low=1, high=5, dtype=dtype), np.int64(1)], opset=opset,
                  exclusive=1, reverse=1)
    c.add('cumprod_f16', 'CumProd', [rand(3, 4).astype(np.float16), np.int64(1)], opset=26)
    c.add('cumsum_f16', 'CumSum', [rand(3, 4).astype(np.float16), np.int64(1)])


def norms(c):
    c.add('batch_norm', 'BatchNormalization', [rand(2, 3, 4, 5), rand(3, seed='s'), rand(3, seed='b'), rand(3, seed='m'),
                                               rand(3, seed='v', low=0.5)], epsilon=1e-2)
    c.add('batch_norm_row', 'BatchNormalization', [rand(4, 3), rand(3, seed='s'), rand(3, seed='b'), rand(3, seed='m'),
                                                   rand(3, seed='v', low=0.5)])
    c.add('batch_norm_vector', 'BatchNormalization', [rand(5), rand(1, seed='s'), rand(1, seed='b'), rand(1, seed='m'),
                                                      rand(1, seed='v', low=0.5)], by_runtime=True)
    # All that is left of the large part is how exactly epsilon, a float, is taken.
    wide = lambda v: np.full(3, v, np.float64)
    c.add('batch_norm_f64', 'BatchNormalization',
          [1000 + rand(4, 3, dtype=np.float64), wide(1), wide(-1000 / np.sqrt(np.float64(np.float32(0.3)))), wide(0), wide(0)],
          epsilon=0.3)
    for name, dtype, shape in (('row', np.float32, (4, 3)), ('solid', np.float64, (2, 3, 2, 3, 2)), ('f16', np.float16, (2, 3, 5))):
        c.add(f'batch_norm_training_{name}', 'BatchNormalization',
              [rand(*shape, dtype=dtype), *(rand(3, seed=s, low=0.5, dtype=dtype) for s in 'sbmv')], outputs=3, training_mode=1,
              momentum=0.7)
    for axis in (-1, 1, 2):
        shape = (2, 3, 4, 32)[axis:]
        c.add(f'layer_norm_{axis + 1}', 'LayerNormalization', [rand(2, 3, 4, 32), rand(*shape), rand(*shape, seed='b')],
              outputs=3, axis=axis)
        c.add(f'rms_norm_{axis + 1}', 'RMSNormalization', [rand(2, 3, 4, 32), rand(*shape)], axis=axis)
    c.add('layer_norm_no_bias', 'LayerNormalization', [rand(2, 48), rand(48)])
    c.add('layer_norm_far', 'LayerNormalization', [rand(2, 64) + 8, rand(64), rand(64, seed='b')])
    c.add('layer_norm_f16', 'LayerNormalization', [rand(2, 48).astype(np.float16), rand(48).astype(np.float16)],
          by_runtime=True)
    c.add('instance_norm', 'InstanceNormalization', [rand(2, 3, 4, 5), rand(3), rand(3, seed='b')])
    c.add('group_norm', 'GroupNormalization', [rand(2, 6, 4, 5), rand(6), rand(6, seed='b')], num_groups=3)
    c.add('group_norm_each', 'GroupNormalization', [rand(2, 6, 7), rand(6), rand(6, seed='b')], num_groups=6)
    c.add('lrn', 'LRN', [rand(7, 7, 2, 3)], size=4, alpha=0.01, beta=0.5, bias=1.5)
    c.add('lrn_by_roots', 'LRN', [rand(9, 9, 2, 2)], size=5, alpha=0.5, beta=0.75, bias=2.0)
    for p in (1, 2):
        c.add(f'lp_norm_{p}', 'LpNormalization', [rand(3, 4, 5)], axis=1, p=p, by_runtime=True)


def softmaxes(c):
    for op in ('Softmax', 'LogSoftmax', 'Hardmax'):
        for axis in (0, 1, -1):
            c.add(f'{op.lower()}_{axis + 1}', op, [rand(3, 4, 32)], axis=axis)
        c.add(f'{op.lower()}_f16', op, [rand(3, 32).astype(np.float16)])
        c.add(f'{op.lower()}_large', op, [rand(3, 32, low=-1000, high=1000)])
    c.add('softmax_f64', 'Softmax', [rand(3, 4, dtype=np.float64)])
    c.add('softmax_masked', 'Softmax', [np.where(rand(3, 48) > 0, rand(3, 48, seed='q'), -np.inf).astype(np.float32)])


def layouts(c):
    for k, (before, after) in enumerate([
            ((2, 3, 4), (6, 4)), ((6, 4), (2, 3, 4)), ((2, 3, 4), (4, 3, 2)), ((2, 3, 4), (24,)), ((24,), (2, 3, 4)),
            ((6, 4), (8, 3)), ((2, 1, 3), (2, 3)), ((1, 6), (6,)), ((2, 6, 2), (2, 3, 4)), ((1, 1), ()), ((), (1, 1)),
            ((4, 6), (2, 2, 3, 2)), ((0, 3), (3, 0)), ((2, 8, 3, 3), (2, 2, 4, 3, 3)), ((5, 1, 4), (1, 5, 2, 1, 2))]):
        c.add(f'reshape_{k}', 'Reshape', [rand(*before) if before else np.float32(3), np.array(after, np.int64)],
              by_runtime=True, allowzero=1)
    for axis in (0, 1, 2, 3):
        c.add(f'flatten_{axis}', 'Flatten', [rand(2, 3, 4)], axis=axis)
    for perm in ([0, 2, 1], [2, 0, 1], None):
        c.add(f'transpose_{perm}'.replace(', ', ''), 'Transpose', [rand(2, 3, 4)], **(dict(perm=perm) if perm else {}))
    c.add('concat_3', 'Concat', [rand(2, 3), rand(2, 1), rand(2, 0), rand(2, 4)], axis=1)
    c.add('concat_first', 'Concat', [rand(2, 3), rand(4, 3)], axis=0)
    c.add('concat_i64', 'Concat', [whole(2, dtype=np.int64), whole(3, dtype=np.int64)], axis=-1)
    c.add('concat_twice', 'Concat', [rand(2, 3), rand(1, 3)], axis=0)
    c.add('split_uneven', 'Split', [rand(2, 7), np.array([2, 1, 4], np.int64)], outputs=3, axis=1)
    i64 = lambda *v: np.array(v, np.int64)  # noqa: E731
    for name, *args in [('plain', i64(1, 0), i64(3, 2)), ('steps', i64(0), i64(10), i64(1), i64(3)),
                        ('back', i64(-1), i64(-100), i64(1), i64(-2)), ('beyond', i64(2), i64(1000), i64(-1)),
                        ('empty', i64(3), i64(1), i64(1)), ('clamped', i64(100), i64(0), i64(0), i64(-1)),
                        ('negative', i64(-3, -4), i64(-1, -1), i64(0, 1), i64(1, 2))]:
        c.add(f'slice_{name}', 'Slice', [rand(5, 9), *args])
    least, most = -2**63, 2**63 - 1
    for name, *args in [('before_first', i64(-9), i64(least), i64(0), i64(-1)), ('least_step', i64(2), i64(least), i64(0), i64(least)),
                        ('most_step', i64(2), i64(most), i64(0), i64(most)), ('least_start', i64(least), i64(least), i64(1), i64(-2))]:
        c.add(f'slice_{name}', 'Slice', [rand(5, 9), *args], by_runtime=True)  # numpy clamps a start to before the first
    for mode in ('constant', 'edge', 'reflect', 'wrap'):
        c.add(f'pad_{mode}', 'Pad', [rand(2, 5, 4), i64(0, 1, 2, 0, 3, 1)], mode=mode, by_runtime=True)
        c.add(f'pad_{mode}_axes', 'Pad', [rand(2, 5, 4), i64(2, 1), None, i64(-1)], mode=mode, by_runtime=True)
        c.add(f'pad_{mode}_crop', 'Pad', [rand(2, 5, 4), i64(0, -1, 1, 0, 2, -1)], mode=mode, by_runtime=True)
    c.add('pad_value', 'Pad', [whole(2, 3), i64(1, 0, 0, 2), np.int32(7)], by_runtime=True)
    c.add('pad_row_twice_as_wide', 'Pad', [rand(3), i64(7, 9)], mode='wrap')
    c.add('expand_both', 'Expand', [rand(3, 1), i64(2, 1, 4)])
    c.add('tile_3', 'Tile', [rand(2, 1, 3), i64(2, 3, 2)])
    for mode in ('DCR', 'CRD'):
        c.add(f'depth_to_space_{mode.lower()}', 'DepthToSpace', [rand(2, 12, 2, 3)], blocksize=2, mode=mode)
    c.add('space_to_depth_2', 'SpaceToDepth', [rand(2, 3, 4, 6)], blocksize=2)
    types = [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.float16, np.float32, np.float64]
    for a in types:
        for b in types:
            x = np.array([0, 1, 2, 3.7, 100, -5] if np.issubdtype(a, np.floating) else [0, 1, 2, 3, 100, 5]).astype(a)
            if np.issubdtype(b, np.unsignedinteger):
                x = np.abs(x)
            c.add(f'cast_{np.dtype(a).name}_{np.dtype(b).name}', 'Cast', [x],
                  to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(b)))


def gathers(c):
    i64 = lambda *v: np.array(v, np.int64)  # noqa: E731
    for folded in ((), (1,)):
        tag = '_folded' * bool(folded)
        c.add(f'gather_rows{tag}', 'Gather', [rand(5, 4), i64(0, -1, 3)], folded=folded)
        c.add(f'gather_matrix{tag}', 'Gather', [rand(5, 4), np.array([[0, 1], [-2, 3]], np.int32)], axis=1, folded=folded)
        c.add(f'gather_scalar{tag}', 'Gather', [rand(5, 4), np.int64(-2)], axis=1, folded=folded)
        c.add(f'gather_strided{tag}', 'Gather', [rand(9, 2), i64(1, 3, 5, 7)], folded=folded)
        c.add(f'gather_backwards{tag}', 'Gather', [rand(9, 2), i64(7, 5, 3)], folded=folded)
        c.add(f'gather_one{tag}', 'Gather', [rand(9, 2), i64(-1)], folded=folded)
    c.add('gather_elements_neg', 'GatherElements', [rand(3, 4), np.array([[0, -1], [2, -3]], np.int64)], axis=1)
    c.add('gather_nd_batch', 'GatherND', [rand(2, 3, 4, 2), whole(2, 3, 2, low=-2, high=2, dtype=np.int64)],
          batch_dims=1)
    c.add('gather_nd_all', 'GatherND', [rand(3, 4), np.array([[0, -1], [2, 3]], np.int64)])
    for k in (-2, 0, 1):
        for upper in (0, 1):
            c.add(f'trilu_{k + 2}{upper}', 'Trilu', [rand(2, 4, 5), np.int64(k)], upper=upper)
    c.add('one_hot_axis', 'OneHot', [whole(2, 3, low=-4, high=5, dtype=np.int64), np.int64(4),
                                     np.array([-1, 2], np.float32)], axis=1, by_runtime=True)
    c.add('range_down', 'Range', [np.float32(5), np.float32(1), np.float32(-1.5)])
    c.add('where_broadcast', 'Where', [rand(3, 1) > 0, rand(1, 4), np.float32(7)])


def pointwise(c):
    x, y = rand(3, 4, low=-6, high=6), rand(4, low=0.5, seed='y')
    for op in ('Relu', 'LeakyRelu', 'Elu', 'Selu', 'Celu', 'HardSigmoid', 'HardSwish', 'Mish', 'Softplus', 'Softsign',
               'ThresholdedRelu', 'Sigmoid', 'Tanh', 'Erf', 'Exp', 'Abs', 'Neg', 'Ceil', 'Floor', 'Round', 'Sign', 'Sin',
               'Cos', 'Tan', 'Atan', 'Sinh', 'Cosh', 'Asinh', 'Reciprocal', 'Gelu', 'IsNaN', 'IsInf', 'Shrink'):
        c.add(f'map_{op.lower()}', op, [x])
    for op in ('Relu', 'LeakyRelu', 'Sigmoid', 'HardSwish', 'Gelu', 'Tanh', 'Neg', 'Abs', 'Softplus'):
        c.add(f'map_{op.lower()}_f16', op, [x.astype(np.float16)])
        c.add(f'map_{op.lower()}_f64', op, [x.astype(np.float64)])
    for op in ('Abs', 'Neg', 'Sign', 'Relu'):
        c.add(f'map_{op.lower()}_i8', op, [whole(3, 4, dtype=np.int8)], by_runtime=op != 'Relu')
    c.add('gelu_tanh', 'Gelu', [x], approximate='tanh')
    c.add('map_sign_edges', 'Sign', [np.array([0.0, np.inf, -np.inf], np.float32)])
    c.add('prelu_channels', 'PRelu', [rand(2, 3, 4), rand(3, 1)])
    for op in ('Add', 'Sub', 'Mul', 'Div', 'Pow', 'Max', 'Min', 'Mean', 'Sum', 'Less', 'Greater', 'LessOrEqual',
               'GreaterOrEqual', 'Equal'):
        c.add(f'pair_{op.lower()}', op, [np.abs(x), y])
        c.add(f'pair_{op.lower()}_folded', op, [np.abs(x), np.float32(2)], folded=(1,))
        c.add(f'pair_{op.lower()}_f16', op, [np.abs(x).astype(np.float16), np.full((1, 1), 1.7, np.float16)], folded=(1,))
        c.add(f'pair_{op.lower()}_vector', op, [rand(2, 1, 4, low=0.5), rand(3, 1, low=0.5)])
    for op in ('Add', 'Sub', 'Mul', 'Div', 'Max', 'Min', 'Less', 'Equal'):
        for dtype in (np.int8, np.uint8, np.int32, np.int64, np.uint32):
            low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -9
            other = whole(4, low=1, high=7, dtype=dtype)
            c.add(f'pair_{op.lower()}_{np.dtype(dtype).name}', op, [whole(3, 4, low=low, dtype=dtype), other])
            c.add(f'pair_{op.lower()}_{np.dtype(dtype).name}_folded', op,
                  [whole(3, 4, low=low, dtype=dtype), np.array([3], dtype)], folded=(1,))
    c.add('div_towards_zero', 'Div', [np.array([7, -7, 7, -7], np.int64), np.array([2, 2, -2, -2], np.int64)],
          by_runtime=True)
    for fmod in (0, 1):
        c.add(f'mod_{fmod}', 'Mod', [np.array([7, -7, 7, -7], np.int32), np.array([3, 3, -3, -3], np.int32)], fmod=fmod)
    c.add('fmod_float', 'Mod', [np.array([7.5, -7.5], np.float32), np.array([2, 2], np.float32)], fmod=1)
    c.add('div_by_negative_zero', 'Div', [np.array([1, -1], np.float32), np.float32(-0.0)], folded=(1,))
    for exponent in (0.5, -0.5, -1):
        c.add(f'pow_{exponent}_of_edges'.replace('.', '_').replace('-', 'm'), 'Pow',
              [np.array([0.0, -0.0, np.inf, np.nan, -4, 4, 1e-30, 3e38], np.float32), np.float32(exponent)], folded=(1,))
    for exponent in (0.5, 1, 2, 3, -1, 2.5, -0.5):
        c.add(f'pow_{exponent}'.replace('.', '_').replace('-', 'm'), 'Pow', [rand(3, 4, low=0.1), np.float32(exponent)],
              folded=(1,))
    c.add('pow_ints', 'Pow', [whole(3, 4, low=1), whole(4, low=0, high=4, dtype=np.int64)])
    for low, high in ((None, 1.5), (-0.5, None), (-0.5, 1.5), (None, None)):
        name = f'clip_{low}_{high}'.replace('.', '_').replace('-', 'm').lower()
        c.add(name, 'Clip', [x, None if low is None else np.float32(low), None if high is None else np.float32(high)],
              folded=(1, 2))
    c.add('clip_i32', 'Clip', [whole(3, 4), np.int32(-2), np.int32(5)], folded=(1, 2))
    c.add('clip_inputs', 'Clip', [x, np.float32(-1), np.float32(1)])
    for op in ('And', 'Or', 'Xor'):
        c.add(f'{op.lower()}_pairs', op, [rand(3, 4) > 0, rand(4) > 0])


def resizes(c):
    for name, x, sizes in [('double', (1, 2, 3, 4), (1, 2, 6, 8)), ('half', (1, 1, 6, 8), (1, 1, 3, 4)),
                           ('odd', (1, 1, 5, 4), (1, 1, 7, 9)), ('three_halves', (1, 1, 4, 6), (1, 1, 6, 9)),
                           ('down', (1, 1, 9, 7), (1, 1, 5, 3)), ('one', (1, 1, 4, 4), (1, 1, 1, 3))]:
        for mode in ('nearest', 'linear', 'cubic'):
            for coordinates in ('half_pixel', 'pytorch_half_pixel', 'align_corners', 'asymmetric', 'half_pixel_symmetric'):
                c.add(f'resize_{name}_{mode}_{coordinates}', 'Resize',
                      [rand(*x), None, None, np.array(sizes, np.int64)], mode=mode,
                      coordinate_transformation_mode=coordinates,
                      by_runtime=(name, coordinates) == ('one', 'pytorch_half_pixel'))
        for nearest in ('round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'):
            c.add(f'resize_{name}_{nearest}', 'Resize', [rand(*x), None, None, np.array(sizes, np.int64)], mode='nearest',
                  coordinate_transformation_mode='asymmetric', nearest_mode=nearest)
    for mode in ('nearest', 'linear', 'cubic'):
        c.add(f'resize_scales_{mode}', 'Resize', [rand(1, 1, 4, 4), None, np.array([1, 1, 1.6, 2.3], np.float32)],
              mode=mode)
    for mode in ('linear', 'cubic'):  # along one axis after another too
        c.add(f'resize_volume_{mode}', 'Resize', [rand(1, 2, 3, 4, 5), None, np.array([1, 1, 2, 1.5, 2.4], np.float32)], mode=mode)
        c.add(f'resize_wide_{mode}', 'Resize', [rand(2, 9, 7, 13), None, None, np.array([2, 9, 15, 40], np.int64)], mode=mode,
              coordinate_transformation_mode='align_corners')
    c.add('resize_i32', 'Resize', [whole(1, 1, 3, 3), None, np.array([1, 1, 2, 2], np.float32)], mode='nearest')
    c.add('resize_antialias', 'Resize', [rand(1, 1, 9, 8), None, None, np.array([1, 1, 4, 5], np.int64)], mode='linear',
          antialias=1)
    c.add('resize_without_region', 'Resize', [rand(1, 1, 5, 4), np.zeros(0, np.float32), np.array([1, 1, 1.5, 2], np.float32)],
          mode='linear', folded=[2], by_runtime=True)
    c.add('resize_floats', 'Resize', [rand(1, 1, 5, 9), None, np.array([1, 1, 0.6, 0.7], np.float32)], mode='nearest',
          nearest_mode='floor', by_runtime=True)  # 1.5 / 0.6 is a half
    for mode in ('nearest', 'linear'):
        for coordinates in ('half_pixel', 'align_corners', 'asymmetric'):
            c.add(f'resize_long_{mode}_{coordinates}', 'Resize', [rand(1, 1, 50), None, np.array([1, 1, 240.5], np.float32)],
                  mode=mode, coordinate_transformation_mode=coordinates)
    # By powers of 2 the weights are exact, and so are ties.
    for dtype, high in ((np.uint8, 250), (np.int8, 120), (np.int32, 10**9), (np.int64, 10**12)):
        for mode in ('linear', 'cubic'):
            c.add(f'resize_{np.dtype(dtype).name}_{mode}', 'Resize', [whole(1, 2, 5, 6, low=0, high=high, dtype=dtype), None,
                                                                     np.array([1, 1, 2, 4], np.float32)], mode=mode)
    c.add('resize_u8_antialias', 'Resize', [whole(1, 1, 9, 8, low=0, high=250, dtype=np.uint8), None, None,
                                            np.array([1, 1, 9, 5], np.int64)], mode='linear', antialias=1, by_runtime=True)
    c.add('resize_outside', 'Resize', [rand(1, 1, 5, 5), None, None, np.array([1, 1, 7, 7], np.int64)], mode='cubic',
          exclude_outside=1, cubic_coeff_a=-0.5)


def recurrents(c):
    steps, batch, units, inputs = 5, 2, 3, 4
    for op, gates in (('RNN', 1), ('GRU', 3), ('LSTM', 4)):
        for direction in ('forward', 'reverse', 'bidirectional'):
            n = 2 if direction == 'bidirectional' else 1
            x = rand(steps, batch, inputs)
            weights = [rand(n, gates * units, k, seed='w', low=-1, high=1) for k in (inputs, units)]
            bias, state = rand(n, 2 * gates * units), [rand(n, batch, units, seed=s) for s in 'hc'][:1 + (op == 'LSTM')]
            outputs = 2 + (op == 'LSTM')
            common = dict(outputs=outputs, by_runtime=True, hidden_size=units, direction=direction)
            name = f'{op.lower()}_{direction}'
            c.add(name, op, [x, *weights, bias, None, *state], **common)
            c.add(f'{name}_bare', op, [x, *weights], **common)
            for fewer in range(1, outputs):  # states that nobody asks for are still states
                c.add(f'{name}_{fewer}_of_{outputs}', op, [x, *weights, bias], **(common | {'outputs': fewer}))
            c.add(f'{name}_lengths', op, [x, *weights, bias, np.array([5, 3], np.int32), *state], **common)
            c.add(f'{name}_ended', op, [x, *weights, None, np.array([5, 1], np.int32)], **common)
            c.add(f'{name}_clipped', op, [x, *weights, bias, None, *state], clip=0.5, **common)
        # of the directions one behind the other; those that have parameters take them in turn
        functions = {'RNN': ['Affine', 'ThresholdedRelu'], 'GRU': ['HardSigmoid', 'LeakyRelu', 'Sigmoid', 'ScaledTanh'],
                     'LSTM': ['HardSigmoid', 'Tanh', 'Elu', 'HardSigmoid', 'Affine', 'Softsign']}[op]
        c.add(f'{op.lower()}_parameters', op, [x, *weights, bias], activations=functions, activation_alpha=[0.3, 0.7, 0.8, 0.6][:len(functions)],
              activation_beta=[0.4, 0.6, 0.1], **common)
        if op != 'RNN':  # of that onnxruntime wants the names as they are
            c.add(f'{op.lower()}_lower_case', op, [x, *weights, bias], activations=['tanh', 'SIGMOID', 'relu', 'softsign', 'Relu', 'elu'][:len(functions)],
                  **common)
        if op == 'GRU':
            c.add('gru_after', op, [x, *weights, bias], linear_before_reset=1, **common)
        if op == 'LSTM':
            c.add('lstm_peepholes', op, [x, *weights, bias, None, *state, rand(n, 3 * units)], **common)
            c.add('lstm_coupled', op, [x, *weights, bias], input_forget=1, **common)


def sequences(c):
    batch, length, keys, size = 2, 3, 5, 4
    for heads, shared in ((2, 2), (4, 2), (3, 1)):
        q, k, v = rand(batch, heads, length, size), rand(batch, shared, keys, size), rand(batch, shared, keys, 6)
        past = [rand(batch, shared, 4, size, seed='p'), rand(batch, shared, 4, 6, seed='p')]
        name, full = f'attention_{heads}_{shared}', dict(outputs=4, opset=25)
        c.add(name, 'Attention', [q, k, v], opset=25)
        for mode in range(4):
            c.add(f'{name}_mode_{mode}', 'Attention', [q, k, v, rand(length, keys)], qk_matmul_output_mode=mode,
                  softcap=1.5 * (mode > 0), **full)  # the evaluator's raw scores are capped ones
        c.add(f'{name}_past', 'Attention', [q, k, v, None, *past], is_causal=1, **full)
        c.add(f'{name}_windows', 'Attention', [q, k, v, None, *past], left_window_size=2, right_window_size=1, **full)
        c.add(f'{name}_lengths', 'Attention', [q, k, v, None, None, None, np.array([4, 2], np.int64)], is_causal=1,
              left_window_size=1, opset=25)
        c.add(f'{name}_short_mask', 'Attention', [q, k, v, rand(batch, 1, length, 3) > 0, *past], scale=0.3, **full)
        c.add(f'{name}_mask_by_head', 'Attention', [q, k, v, rand(heads, 1, keys)], opset=25)
        packed = [np.moveaxis(x, 1, 2).reshape(batch, x.shape[2], -1) for x in (q, k, v)]
        c.add(f'{name}_packed', 'Attention', [*packed, None, *past], q_num_heads=heads, kv_num_heads=shared, **full)
        c.add(f'{name}_f64', 'Attention', [x.astype(np.float64) for x in (q, k, v)], opset=25)
        c.add(f'{name}_in_double', 'Attention', [q, k, v], softmax_precision=11, opset=25)
        c.add(f'{name}_f16', 'Attention', [x.astype(np.float16) for x in (q, k, v)], softmax_precision=1, opset=25)
    c.add('attention_no_keys', 'Attention', [rand(1, 1, 2, 4), rand(1, 1, 0, 4), rand(1, 1, 0, 4)],
          expected=np.zeros((1, 1, 2, 4), np.float32))
    for interleaved in (0, 1):
        for turned in (0, 4):
            half = (turned or 6) // 2
            tables = [rand(9, half, seed='cos'), rand(9, half, seed='sin')]
            name, common = f'rotary_{interleaved}_{turned}', dict(interleaved=interleaved, rotary_embedding_dim=turned)
            places = whole(2, 5, low=0, dtype=np.int64)
            c.add(name, 'RotaryEmbedding', [rand(2, 3, 5, 6), *tables, places], **common)
            c.add(f'{name}_packed', 'RotaryEmbedding', [rand(2, 5, 18), *tables, places], num_heads=3, **common)
            c.add(f'{name}_in_order', 'RotaryEmbedding', [rand(2, 3, 5, 6), rand(2, 5, half, seed='cos'),
                                                          rand(2, 5, half, seed='sin')], **common)
    for axis in (1, 2, -1):
        cache, at = rand(2, 4, 5, 6), np.array([1, 0], np.int64)
        new = rand(*[3 if i == axis % 4 else n for i, n in enumerate(cache.shape)], seed='new')
        c.add(f'tensor_scatter_{axis + 1}', 'TensorScatter', [cache, new, at], axis=axis)
        c.add(f'tensor_scatter_{axis + 1}_start', 'TensorScatter', [cache, new], axis=axis)
        c.add(f'tensor_scatter_{axis + 1}_round', 'TensorScatter', [cache, new, np.array([3, 9], np.int64)], axis=axis,
              mode='circular')
    for taps, steps in ((1, 3), (4, 6), (5, 2)):
        x, filter_, state = rand(2, 3, steps), rand(3, 1, taps), rand(2, 3, taps - 1, seed='state')
        for activation in ('none', 'silu'):
            common = dict(outputs=2, activation=activation, opset=27)
            c.add(f'causal_conv_{taps}_{activation}', 'CausalConvWithState', [x, filter_], **common)
            c.add(f'causal_conv_{taps}_{activation}_state', 'CausalConvWithState', [x, filter_, rand(3), state], **common)
    for rule in ('linear', 'gated', 'delta', 'gated_delta'):
        for shared, by_key in ((2, False), (1, True)):
            decay = rand(2, 5, shared * (3 if by_key else 1), high=0) if rule.startswith('gated') else None
            beta = rand(2, 5, 1 if by_key else shared, low=0, high=1) if rule.endswith('delta') else None
            operands = [rand(2, 5, 6, seed='q'), rand(2, 5, 3 * shared, seed='k'), rand(2, 5, 4 * shared, seed='v')]
            common = dict(outputs=2, opset=27, update_rule=rule, q_num_heads=2, kv_num_heads=shared)
            c.add(f'linear_attention_{rule}_{shared}', 'LinearAttention', [*operands, None, decay, beta], **common)
            c.add(f'linear_attention_{rule}_{shared}_state', 'LinearAttention',
                  [*operands, rand(2, shared, 3, 4), decay, beta], scale=0.7, **common)


def samples(c):
    for mode in ('linear', 'nearest', 'cubic'):
        for padding in ('zeros', 'border', 'reflection'):
            for corners in (0, 1):
                common = dict(mode=mode, padding_mode=padding, align_corners=corners)
                name = f'grid_sample_{mode}_{padding}_{corners}'
                c.add(name, 'GridSample', [rand(2, 3, 4, 5), rand(2, 3, 6, 2, low=-3, high=3)], **common)
                c.add(f'{name}_row', 'GridSample', [rand(1, 2, 7), rand(1, 5, 1, low=-1.5, high=1.5)], **common)
    c.add('grid_sample_solid', 'GridSample', [rand(1, 2, 3, 4, 5), rand(1, 2, 3, 2, 3, low=-1.3, high=1.3)])
    c.add('grid_sample_f16', 'GridSample', [rand(1, 2, 4, 5).astype(np.float16), rand(1, 3, 3, 2).astype(np.float16)],
          align_corners=1)
    c.add('grid_sample_i32', 'GridSample', [whole(1, 2, 4, 5), rand(1, 3, 3, 2)], mode='nearest')
    c.add('grid_sample_pixel', 'GridSample', [rand(1, 2, 1, 1), rand(1, 3, 3, 2)], padding_mode='reflection',
          align_corners=0)
    c.add('grid_sample_far', 'GridSample', [rand(1, 1, 4, 5), np.float32([[[[1e30, 0], [-1e30, 0.1], [3e9, -3e9]]]])],
          expected=np.zeros((1, 1, 1, 3), np.float32))
    regions = np.array([[0, 0, 7, 6], [1.3, 0.4, 5.9, 6.2], [-3.3, -2.2, 4, 3], [2, 2, 2.1, 2.2]], np.float32)
    images = np.array([0, 1, 1, 0], np.int64)
    for mode in ('avg', 'max'):
        for ratio in (0, 2):
            for form in ('half_pixel', 'output_half_pixel'):
                c.add(f'roi_align_{mode}_{ratio}_{form}', 'RoiAlign', [rand(2, 3, 8, 9), regions, images], by_runtime=True,
                      mode=mode, sampling_ratio=ratio, coordinate_transformation_mode=form, output_height=3, output_width=2,
                      spatial_scale=0.8)
    c.add('max_roi_pool', 'MaxRoiPool', [rand(2, 3, 8, 9), np.c_[images, regions * 1.3 + 0.1].astype(np.float32)], by_runtime=True,
          opset=21, pooled_shape=[3, 2], spatial_scale=0.8)  # onnxruntime has no newer one
    for name, x, filter_, groups, attributes in [
            ('plain', (1, 2, 5, 6), (3, 2, 3, 2), 1, {}), ('strided', (2, 2, 7, 6), (3, 2, 3, 3), 1, dict(strides=[2, 1])),
            ('grouped', (1, 4, 5, 5), (4, 2, 2, 2), 2, dict(group=2, pads=[1, 0, 1, 1])),
            ('dilated', (1, 4, 6, 6), (2, 4, 2, 2), 4, dict(dilations=[2, 1])),
            ('pointwise', (1, 2, 4, 4), (3, 2, 1, 1), 2, {})]:
        pads, strides, dilations = (attributes.get(k, d) for k, d in (('pads', [0] * 4), ('strides', [1] * 2), ('dilations', [1] * 2)))
        out = [(x[i + 2] + pads[i] + pads[i + 2] - dilations[i] * (filter_[i + 2] - 1) - 1) // strides[i] + 1 for i in (0, 1)]
        taps = filter_[2] * filter_[3] * groups
        offset = rand(x[0], 2 * taps, *out, seed='offset')
        c.add(f'deform_conv_{name}', 'DeformConv', [rand(*x), rand(*filter_), offset], offset_group=groups, **attributes)
        c.add(f'deform_conv_{name}_masked', 'DeformConv', [rand(*x), rand(*filter_), offset, rand(filter_[0]),
                                                           rand(x[0], taps, *out, seed='mask')], offset_group=groups,
              **attributes)
    i64 = lambda *v: np.array(v, np.int64)  # noqa: E731
    c.add('col2im_row', 'Col2Im', [rand(1, 6, 4), i64(6), i64(3)], expected=sum_of_blocks(rand(1, 6, 4), 6, 3))
    c.add('col2im_lopsided', 'Col2Im', [rand(2, 12, 6), i64(5, 6), i64(3, 2)], pads=[0, 1, 1, 0], strides=[2, 2])
    c.add('col2im_f16', 'Col2Im', [rand(1, 8, 6).astype(np.float16), i64(3, 4), i64(2, 2)])
    x, at = rand(1, 2, 2, 3), np.arange(12, dtype=np.int64).reshape(1, 2, 2, 3) * 4
    c.add('max_unpool_strided', 'MaxUnpool', [x, at], kernel_shape=[2, 2], strides=[2, 2])
    c.add('max_unpool_shape', 'MaxUnpool', [x, at, i64(1, 3, 5, 7)], kernel_shape=[2, 2], strides=[2, 2])
    for shape in ((3, 8), (6, 2), (5, 4)):
        c.add(f'center_crop_pad_{shape[0]}_{shape[1]}', 'CenterCropPad', [rand(4, 5), i64(*shape)])


def sum_of_blocks(x, size, block):
    """x: [batch, channels * block, blocks] of one spatial axis, in steps of 1."""
    y = np.zeros((x.shape[0], x.shape[1] // block, size), np.float32)
    for tap in range(block):
        y[:, :, tap:tap + x.shape[2]] += x[:, tap::block]
    return y


def scatters(c):
    i64 = lambda *v: np.array(v, np.int64)  # noqa: E731
    for reduction in ('none', 'add', 'mul', 'max', 'min'):
        places = np.array([[0, 1, -1], [2, 0, -1], [1, 1, 1]], np.int64)
        if reduction == 'none':
            places[:, 2] = (1, 0, 2)
        for axis in (0, 1):
            c.add(f'scatter_elements_{reduction}_{axis}', 'ScatterElements', [rand(4, 5), places[:2], rand(2, 3)], axis=axis,
                  reduction=reduction)
        pairs = np.array([[[0, 1], [2, 0]], [[-1, -2], [1, 1]]], np.int64)
        c.add(f'scatter_nd_{reduction}', 'ScatterND', [rand(3, 4, 5), pairs, rand(2, 2, 5)], reduction=reduction)
        c.add(f'scatter_nd_{reduction}_i64', 'ScatterND', [whole(5, dtype=np.int64), i64(1, 3, 4)[:, None],
                                                           whole(3, dtype=np.int64, seed='u')], reduction=reduction)
    c.add('scatter_elements_twice', 'ScatterElements', [rand(3), i64(1, 1, 0), rand(3, seed='u')])
    c.add('scatter_elements_bool', 'ScatterElements', [rand(3) > 0, i64(1, 2), np.array([True, False])])
    c.add('scatter_elements_many', 'ScatterElements', [rand(70), i64(*range(69, -1, -1)), rand(70, seed='u')])
    c.add('scatter_nd_many', 'ScatterND', [rand(70, 2), i64(*range(65))[:, None], rand(65, 2)])


def signals(c):
    i64 = lambda *v: np.array(v[0] if len(v) == 1 else v, np.int64)  # noqa: E731
    for parts in (1, 2):
        for inverse in (0, 1):
            for axis in (0, 1, -2):
                c.add(f'dft_{parts}_{inverse}_{axis + 2}', 'DFT', [rand(3, 5, 4, parts), None, i64(axis)], opset=20,
                      inverse=inverse)
            for length in (3, 8):
                c.add(f'dft_{parts}_{inverse}_of_{length}', 'DFT', [rand(2, 5, parts), i64(length)], opset=20,
                      inverse=inverse)
    for length in (6, 7):
        c.add(f'dft_real_{length}', 'DFT', [rand(2, length, 1)], opset=20, onesided=1)
        c.add(f'dft_to_real_{length}', 'DFT', [rand(2, 4, 2), i64(length)], opset=20, onesided=1, inverse=1)
    c.add('dft_to_real', 'DFT', [rand(2, 4, 2)], opset=20, onesided=1, inverse=1)
    c.add('dft_f64', 'DFT', [rand(2, 6, 2, dtype=np.float64)], opset=20)
    for onesided, parts in ((1, 1), (0, 1), (0, 2)):
        x = rand(2, 20, parts)
        c.add(f'stft_{onesided}_{parts}', 'STFT', [x, i64(3), rand(6)], opset=20, onesided=onesided)
        c.add(f'stft_{onesided}_{parts}_bare', 'STFT', [x, i64(4), None, i64(8)], opset=20, onesided=onesided)
    frames = np.lib.stride_tricks.sliding_window_view(rand(2, 20), 6, axis=1)[:, ::3]
    spectrum = np.fft.rfft(frames * rand(6))
    c.add('stft_without_parts', 'STFT', [rand(2, 20), i64(3), rand(6)], opset=20,
          expected=np.stack([spectrum.real, spectrum.imag], 3).astype(np.float32))
    c.add('mel_weights', 'MelWeightMatrix', [i64(10), i64(64), i64(8000), np.float32(50), np.float32(3900)], opset=20)
    for n in (0, 1, 2, 3, 5):
        c.add(f'det_{n}', 'Det', [rand(2, n, n)], expected=np.linalg.det(rand(2, n, n)))
    singular = rand(3, 3)
    singular[2] = singular[0]
    c.add('det_singular', 'Det', [singular], expected=np.float32(0))
    c.add('det_pivots', 'Det', [np.float32([[0, 2, 1], [3, 0, 0], [0, 0, 4]])], expected=np.float32(-24))


def losses(c):
    for op in ('NegativeLogLikelihoodLoss', 'SoftmaxCrossEntropyLoss'):
        short = ''.join(a for a in op if a.isupper()).lower()
        for reduction in ('none', 'sum', 'mean'):
            for shape in ((4, 5), (2, 5, 3)):
                target = whole(shape[0], *shape[2:], low=0, high=5, dtype=np.int64)
                c.add(f'{short}_{reduction}_{len(shape)}', op, [rand(*shape), target], reduction=reduction)
                c.add(f'{short}_{reduction}_{len(shape)}_weights', op, [rand(*shape), target, rand(5, low=0.1)],
                      reduction=reduction, ignore_index=2)


def seeded():
    c = Cases()
    for family in (convolutions, contractions, dequantized_products, float_codes, pools, reductions, norms, softmaxes, layouts,
                   gathers, pointwise, resizes, recurrents, sequences, samples, scatters, signals, losses):
        family(c)
    return c.out
