"""Families of kernels: small models, each one idea at the sizes that networks have, with seeded weights.

FAMILIES is family -> row -> Row; the name of a row is unique. Of what memory bounds there are two sizes: `_l2`, whose
operands lie in half a megabyte, and `_dram`, whose operands take 64 MB and more.
"""
import functools
import sys
import zlib
from pathlib import Path
from typing import Callable, NamedTuple

import ml_dtypes
import numpy as np
import onnx

import arms

sys.path.insert(0, str(arms.ROOT / 'models'))
import layers as L  # noqa: E402
from builder import Builder, i64, write_bytes  # noqa: E402


class Halves(Builder):
    """Whose weights are rounded to bfloat16. Its opset is the first whose convolutions take that."""

    def __init__(self, name, seed):
        super().__init__(name, seed, opset=22)

    def weight(self, array, name=None):
        return super().weight(array.astype(ml_dtypes.bfloat16) if array.dtype == np.float32 else array, name)


class Row(NamedTuple):
    body: Callable  # of a Builder and the names of the inputs; gives the name of the result
    shapes: tuple  # of the inputs
    options: tuple = ()  # of weft
    dtype: str = 'float32'  # of the result
    inputs: str = 'float32'  # their type


def row(body, *shapes, **more):
    return Row(body, shapes, **more)


def make(name):
    body, shapes, _, dtype, inputs = ROWS[name]
    g = (Halves if inputs == 'bfloat16' else Builder)(name, seed=zlib.crc32(name.encode()))
    g.output('y', body(g, *(g.input(f'x{i}', list(shape), inputs) for i, shape in enumerate(shapes))), dtype=dtype)
    return onnx.shape_inference.infer_shapes(g.model(), strict_mode=True, data_prop=True)


def path(name, folder=arms.MODELS / 'kernels'):
    """The file of a row, made anew: the same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f'{name}.onnx'
    write_bytes(str(file), make(name).SerializeToString(deterministic=True))
    return file


# ---- contractions ----
# A step rounds to 8 bits, so a row of a few steps is as far off as they are together.
BF16 = {'dtype': 'bfloat16', 'inputs': 'bfloat16', 'options': ('--tolerance', '0.02')}


def matmul(g, x, *sizes):
    """x times a matrix for each pair of neighbouring sizes."""
    for inner, outer in zip(sizes, sizes[1:]):
        x = g.MatMul(x, g.normal([inner, outer], inner ** -0.5))
    return x


def gemm(m, *sizes):
    return row(lambda g, x: matmul(g, x, *sizes), (m, sizes[0]))


def gemm_bf16(m, k, n):
    return row(lambda g, x: matmul(g, x, k, n), (m, k), **BF16)


def mlp(*sizes):
    def body(g, x):
        for inner, outer in zip(sizes, sizes[1:]):
            x = g.Relu(L.gemm(g, x, inner, outer, gain=2))
        return x
    return row(body, (1, sizes[0]))


def attention(length, count=12, width=64):
    def body(g, *x):
        q, k, v = (L.heads(g, t, 1, length, count, width) for t in x)
        return L.merge_heads(g, L.attention(g, q, k, v, width), 1, length, count, width)
    return row(body, *[(1, length, count * width)] * 3)


# ---- convolutions ----
CHAIN = 4  # so many layers in a row, as networks have them: peers change the layout of the first and the last


def chain(layer, shape, count=CHAIN, **more):
    def body(g, x):
        for _ in range(count):
            x = layer(g, x)
        return x
    return row(body, shape, **more)


def conv(inner, outer, size, kernel=1, stride=1, group=1, **more):
    count = CHAIN if inner == outer and stride == 1 else 1
    return chain(lambda g, x: g.Relu(L.conv(g, x, inner, outer, kernel, stride, group)), (1, inner, size, size),
                 **{'count': count, **more})


def depthwise(channels, size, kernel=3, stride=1):
    return conv(channels, channels, size, kernel, stride, group=channels)


def inverted_residual(channels, size, ratio=6):
    def layer(g, x):
        inner = channels * ratio
        y = L.clip(g, L.conv(g, x, channels, inner), 0, 6)
        y = L.clip(g, L.conv(g, y, inner, inner, kernel=3, group=inner), 0, 6)
        return g.Add(x, L.conv(g, y, inner, channels, gain=1))
    return chain(layer, (1, channels, size, size))


def square_convs(prefix, *options):
    """The 3x3 convolutions of ResNet-50, the first of them alone too."""
    rows = {f'{prefix}_{c}x{size}': conv(c, c, size, kernel=3, options=options)
            for c, size in ((64, 56), (128, 28), (256, 14), (512, 7))}
    return {f'{prefix}_alone_64x56': conv(64, 64, 56, kernel=3, count=1, options=options), **rows}


def transposed(inner, outer, *extents, kernel, stride, more=0):
    """Each extent times the stride."""
    n, pad = len(extents), (kernel - stride + more) // 2

    def body(g, x):
        weights = g.normal([inner, outer, *[kernel] * n], (inner * (kernel / stride) ** n) ** -0.5)
        return g.Relu(g.ConvTranspose(x, weights, g.normal([outer], 0.1), kernel_shape=[kernel] * n, strides=[stride] * n,
                                      pads=[pad] * 2 * n, output_padding=[more] * n))
    return row(body, (1, inner, *extents))


def row_conv(inner, outer, length, kernel, stride=1, dilation=1, count=1):
    """Along the only axis of an image; where sizes let it be, `count` in a row."""
    pad = (kernel - 1) * dilation // 2

    def layer(g, x):
        weights = g.normal([outer, inner, kernel], (inner * kernel / 2) ** -0.5)
        return g.Relu(g.Conv(x, weights, g.normal([outer], 0.1), kernel_shape=[kernel], strides=[stride],
                             dilations=[dilation], pads=[pad] * 2))
    return chain(layer, (1, inner, length), count)


# ---- integers of a byte ----
ROUNDED = ('--atol', '8')  # where a sum falls between two bytes either is right, and four layers pass it on
ACTIVATION_ZERO = np.array(117, np.uint8)


def integer_matmul(m, k, n):
    """As dynamic quantization writes it: unsigned activations with a zero point, signed weights without."""
    def body(g, x):
        return g.MatMulInteger(x, g.rng.integers(-127, 128, (k, n)).astype(np.int8), ACTIVATION_ZERO)
    return row(body, (m, k), dtype='int32', inputs='uint8')


def quantized_conv(inner, outer, size, kernel=1, group=1, stride=1, pad=None):
    """As static quantization writes it, a scale for all channels; a chain where sizes let it be one."""
    pad = kernel // 2 if pad is None else pad
    def layer(g, x):
        weights = g.rng.integers(-127, 128, (outer, inner // group, kernel, kernel)).astype(np.int8)
        scale = 1 / (74 * (inner // group * kernel * kernel) ** 0.5)  # keeps the spread of what flows through
        return g.QLinearConv(x, np.float32(0.02), ACTIVATION_ZERO, weights, np.float32(scale), np.int8(0),
                             np.float32(0.02), ACTIVATION_ZERO, g.rng.integers(-99, 99, outer).astype(np.int32),
                             pads=[pad] * 4, strides=[stride] * 2, group=group)
    count = CHAIN if inner == outer else 1
    return chain(layer, (1, inner, size, size), count, dtype='uint8', inputs='uint8', options=ROUNDED)


# ---- weights of four bits ----
def matmul_nbits(m, *sizes, block=32):
    """Products with weights of four bits, a scale for each block of them: more of both than a cache holds."""
    def body(g, x):
        for k, n in zip(sizes, sizes[1:]):
            weights = g.rng.integers(0, 256, (n, k // block, block // 2)).astype(np.uint8)
            scales = g.uniform([n, k // block], 0.5, 1.5) * np.float32(k ** -0.5 / 4.6)  # keeps the spread
            x = g.op('MatMulNBits', x, weights, scales, domain='com.microsoft', K=k, N=n, bits=4, block_size=block)
        return x
    return row(body, (m, sizes[0]))


# ---- what memory bounds ----
def sized(name, body, small, large, count=1, **more):
    """Two rows: `count` operands of the shape `small`, and of the shape `large`."""
    return {f'{name}_l2': row(body, *[small] * count, **more), f'{name}_dram': row(body, *[large] * count, **more)}


ROWS_OF, COLUMNS_OF = ((64, 512), (8192, 1024)), ((1, 64, 512), (8, 1024, 1024))  # small, large
PHOTOS = ((1, 3, 128, 128), (8, 3, 720, 1280))
TOKENS, PICTURES = ((1, 32, 768), (24, 512, 768)), ((1, 32, 32, 32), (4, 32, 256, 256))
POOLED, GROWN = ((1, 32, 48, 48), (8, 32, 256, 256)), ((1, 16, 32, 32), (4, 16, 224, 224))  # inputs only
REDUCED, REDUCED_COLUMNS = ((64, 1024), (16384, 1024)), ((1, 64, 1024), (16, 1024, 1024))


def layer_norm(g, x, residual):
    return L.layer_norm(g, g.Add(x, residual), 768)


def group_norm(g, x, channels=32, groups=8):
    """As exporters write it: groups are channels of an InstanceNormalization whose own scale does nothing."""
    rows = g.Reshape(x, i64(0, groups, -1))
    rows = g.InstanceNormalization(rows, np.ones(groups, np.float32), np.zeros(groups, np.float32), epsilon=1e-5)
    y = g.Reshape(rows, g.Shape(x))
    return g.Add(g.Mul(y, g.uniform([channels, 1, 1], 0.8, 1.2)), g.normal([channels, 1, 1], 0.1))


def instance_norm(g, x, channels=32):
    return g.InstanceNormalization(x, g.uniform([channels], 0.8, 1.2), g.normal([channels], 0.1), epsilon=1e-5)


def hard_swish_chain(g, x, channels=32):
    x = g.Add(g.Mul(x, g.uniform([channels, 1, 1], 0.8, 1.2)), g.normal([channels, 1, 1], 0.1))
    return g.HardSwish(g.Add(g.HardSwish(x), x))


def gate(g, a, b, c):
    return g.Add(g.Mul(g.Sigmoid(a), g.Tanh(b)), c)


def bias_silu_add(g, x, residual):
    return g.Add(L.silu(g, g.Add(x, g.normal([768], 0.1))), residual)


def max_pool(g, x):
    return g.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def average_pool(g, x):
    return g.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2])


def resize(g, x, **how):
    return g.Resize(x, None, np.array([1, 1, 2, 2], np.float32), **how)


def cumsum(g, x, axis):
    return g.CumSum(x, np.array(axis, np.int64))


FAMILIES = {
    'call': {'call': row(lambda g, x: g.Relu(x), (1,))},  # what a run of nothing costs; the peers' includes Python's
    'gemm': {f'gemm_{m}x{k}x{n}': gemm(m, k, n) for m, k, n in (
        (256, 256, 256), (384, 384, 384), (512, 512, 512), (768, 768, 768), (1024, 1024, 1024),
        (128, 768, 768), (128, 768, 3072), (128, 3072, 768),
        (1, 1024, 1024), (4, 1024, 1024), (16, 1024, 1024), (8192, 64, 64), (2048, 512, 64))},
    'conv1x1': {f'conv1_{inner}x{outer}x{size}': conv(inner, outer, size) for inner, outer, size in (
        (64, 256, 56), (256, 64, 56), (512, 128, 28), (128, 512, 28), (1024, 256, 14), (256, 1024, 14), (2048, 512, 7),
        (512, 2048, 7), (256, 256, 56), (256, 256, 14), (24, 144, 56), (32, 192, 28), (64, 384, 14), (160, 960, 7))},
    'conv3x3': square_convs('conv3', '--allow', 'none'),
    'winograd': square_convs('winograd', '--allow', 'winograd'),
    'conv3x3_strided': {f'strided_{c}x{size}': conv(c, c, size, kernel=3, stride=2)
                        for c, size in ((128, 56), (256, 28), (512, 14))},
    'first_layer': {
        'first_7x7': conv(3, 64, 224, kernel=7, stride=2),
        'first_3x3': conv(3, 32, 224, kernel=3, stride=2),
        'first_3x3_s1': conv(3, 64, 224, kernel=3),
    },
    'int8': {
        **{f'int8_{m}x{k}x{n}': integer_matmul(m, k, n) for m, k, n in (
            (128, 768, 768), (128, 768, 3072), (512, 512, 512), (1, 1024, 1024), (16, 1024, 1024))},
        **{f'qconv3_{c}x{size}': quantized_conv(c, c, size, kernel=3) for c, size in ((64, 56), (256, 14))},
        **{f'qconv1_{i}x{o}x{size}': quantized_conv(i, o, size) for i, o, size in ((64, 256, 56), (1024, 256, 14))},
        **{f'qdw3_{c}x{size}': quantized_conv(c, c, size, kernel=3, group=c) for c, size in ((144, 56), (576, 14))},
        'qfirst_7x7': quantized_conv(3, 64, 224, kernel=7, stride=2),
        'qfirst_3x3': quantized_conv(3, 32, 224, kernel=3, stride=2),
        'qpatches_16x16': quantized_conv(3, 192, 224, kernel=16, stride=16, pad=0),
    },
    'int4': {
        **{f'int4_{m}x4096_b32': matmul_nbits(m, *[4096] * (count + 1)) for m, count in (
            (1, 8), (4, 8), (32, 4), (128, 4))},
        'int4_1x4096_b128': matmul_nbits(1, *[4096] * 9, block=128),
        **{f'int4_1x11008_b{block}': matmul_nbits(1, *[4096, 11008] * 2, 4096, block=block) for block in (32, 128)},
    },
    'bf16': {
        **{f'bf16_{m}x{k}x{n}': gemm_bf16(m, k, n) for m, k, n in (
            (128, 768, 768), (128, 768, 3072), (512, 768, 3072), (1, 1024, 1024))},
        **{f'bf16_conv1_{i}x{o}x{size}': conv(i, o, size, **BF16) for i, o, size in (
            (64, 256, 56), (1024, 256, 14), (256, 256, 14))},
        **{f'bf16_conv3_{c}x{size}': conv(c, c, size, kernel=3, **BF16) for c, size in (
            (64, 56), (128, 28), (256, 14), (512, 7))},
    },
    'inverted_residual': {f'inverted_{c}x{size}': inverted_residual(c, size)
                          for c, size in ((24, 56), (32, 28), (64, 14), (96, 14), (160, 7))},
    'depthwise': {f'dw{k}_{c}x{size}_s{stride}': depthwise(c, size, k, stride) for k, c, size, stride in (
        (3, 144, 56, 1), (3, 192, 28, 1), (3, 576, 14, 1), (3, 960, 7, 1), (3, 96, 112, 2), (3, 144, 56, 2),
        (5, 240, 28, 1), (5, 480, 14, 1), (5, 72, 56, 2), (5, 672, 14, 2))},
    'grouped': {f'group{width}_{c}x{size}': conv(c, c, size, kernel=3, group=c // width) for width, c, size in (
        (4, 128, 56), (8, 256, 28), (16, 512, 14), (4, 128, 28), (8, 256, 14), (16, 256, 28))},  # ResNeXt's first
    'transposed': {  # of U-Nets, generators of pictures, vocoders
        'up2_512x256x16': transposed(512, 256, 16, 16, kernel=2, stride=2),
        'up2_128x64x64': transposed(128, 64, 64, 64, kernel=2, stride=2),
        'up4_64x32x40': transposed(64, 32, 40, 40, kernel=4, stride=2),
        'up4_64x3x40': transposed(64, 3, 40, 40, kernel=4, stride=2),
        'up3_128x64x30': transposed(128, 64, 30, 30, kernel=3, stride=2, more=1),
        'up16_512x256x40': transposed(512, 256, 40, kernel=16, stride=8),
        'up4_64x32x2560': transposed(64, 32, 2560, kernel=4, stride=2),
    },
    'row': {  # of speech and of signals
        'row3_512x1600_s2': row_conv(512, 512, 1600, 3, stride=2),
        'row15_12x64x4096_s2': row_conv(12, 64, 4096, 15, stride=2),
        'row15_128x512': row_conv(128, 128, 512, 15, count=CHAIN),
        'row3_64x1024_d8': row_conv(64, 64, 1024, 3, dilation=8, count=CHAIN),
        'row7_80x256x100': row_conv(80, 256, 100, 7),
    },
    'attention': {f'attention_{length}': attention(length) for length in (32, 128, 512)},
    'softmax': {
        **sized('softmax', lambda g, x: g.Softmax(x, axis=-1), *ROWS_OF),
        **sized('softmax_inner', lambda g, x: g.Softmax(x, axis=1), *COLUMNS_OF),
    },
    'normalization': {
        **sized('add_layer_norm', layer_norm, *TOKENS, count=2),
        **sized('rms_norm', lambda g, x: L.rms_norm(g, x, 768), *TOKENS),
        **sized('group_norm', group_norm, *PICTURES),
        **sized('instance_norm', instance_norm, *PICTURES),
    },
    'elementwise': {
        **sized('gelu', L.gelu, *TOKENS),
        **sized('hard_swish', hard_swish_chain, *PICTURES),
        **sized('mul_add_relu', lambda g, a, b, c: g.Relu(g.Add(g.Mul(a, b), c)), *TOKENS, count=3),
        **sized('gate', gate, *TOKENS, count=3),
        **sized('bias_silu_add', bias_silu_add, *TOKENS, count=2),
    },
    'pooling': {
        **sized('max_pool', max_pool, *POOLED),
        **sized('average_pool', average_pool, *POOLED),
        **sized('max_pool_wide', lambda g, x: g.MaxPool(x, kernel_shape=[5, 5], pads=[2] * 4), *POOLED),
        **sized('global_pool', lambda g, x: g.GlobalAveragePool(x), *POOLED),
    },
    'layout': {
        **sized('transpose', lambda g, x: g.Transpose(x, perm=[1, 0]), *ROWS_OF),
        **sized('transpose_nhwc', lambda g, x: g.Transpose(x, perm=[0, 2, 3, 1]), *PICTURES),
        **sized('colours_last', lambda g, x: g.Transpose(x, perm=[0, 2, 3, 1]), *PHOTOS),
        **sized('colours_last_bytes', lambda g, x: g.Transpose(x, perm=[0, 2, 3, 1]), *PHOTOS, dtype='uint8', inputs='uint8'),
        **sized('gelu_transpose', lambda g, x: g.Transpose(L.gelu(g, x), perm=[1, 0]), *ROWS_OF),
        **sized('transpose_heads', lambda g, x: L.heads(g, x, 0, 0, 12, 64), *TOKENS),
        **sized('concat', lambda g, a, b: g.Concat(a, b, axis=1), *PICTURES, count=2),
        **sized('pad', lambda g, x: g.Pad(x, i64(0, 0, 1, 1, 0, 0, 1, 1)), *PICTURES),
    },
    'resize': {
        **sized('resize_nearest', functools.partial(resize, mode='nearest', nearest_mode='floor',
                                                    coordinate_transformation_mode='asymmetric'), *GROWN),
        **sized('resize_linear', functools.partial(resize, mode='linear'), *GROWN),
        **sized('resize_corners', functools.partial(resize, mode='linear', coordinate_transformation_mode='align_corners'),
                *GROWN),
        **sized('resize_cubic', functools.partial(resize, mode='cubic'), *GROWN),
    },
    'gemv_chain': {**{f'gemv4_{k}': gemm(1, *[k] * 5) for k in (256, 512, 1024)},
                   'gemv2_4096_dram': gemm(1, *[4096] * 3)},
    'mlp': {f'mlp_{"_".join(map(str, sizes[1:]))}': mlp(*sizes) for sizes in (
        (32, 32, 32, 32), (64, 64, 64, 64), (128, 128, 128, 128), (128, 128, 64, 32))},
    'reduction': {
        **sized('mean', lambda g, x: L.reduce(g, 'ReduceMean', x, [-1]), *REDUCED),
        **sized('mean_inner', lambda g, x: L.reduce(g, 'ReduceMean', x, [1]), *REDUCED_COLUMNS),
        **sized('sum', lambda g, x: L.reduce(g, 'ReduceSum', x, [-1]), *REDUCED),
        **sized('sum_inner', lambda g, x: L.reduce(g, 'ReduceSum', x, [1]), *REDUCED_COLUMNS),
        **sized('argmax', lambda g, x: g.ArgMax(x, axis=-1), *REDUCED, dtype='int64'),
        **sized('argmax_inner', lambda g, x: g.ArgMax(x, axis=1), *REDUCED_COLUMNS, dtype='int64'),
        **sized('cumsum', functools.partial(cumsum, axis=-1), *ROWS_OF),
        **sized('cumsum_inner', functools.partial(cumsum, axis=1), *COLUMNS_OF),
    },
}
ROWS = {name: row for rows in FAMILIES.values() for name, row in rows.items()}
