"""Pieces of networks, each in the spellings that exporters give it; used by every script here that makes a model.

A piece takes a Builder and the names of values, adds nodes, and returns the name of its result. Axes given to Reduce,
Squeeze and Unsqueeze nodes are attributes or inputs, as the Builder's opset wants them.
"""

import math

import numpy as np
from onnx import numpy_helper

from builder import f32, i64

LOWEST = float(np.finfo(np.float32).min)


# ---- operators whose axes moved from an attribute to an input ----
def reduce(g, op, x, axes, keepdims=1):
    as_input = g.opset >= (13 if op == "ReduceSum" else 18)
    if as_input:
        return g.op(op, x, i64(*axes), keepdims=keepdims)
    return g.op(op, x, axes=list(axes), keepdims=keepdims)


def unsqueeze(g, x, *axes):
    return g.Unsqueeze(x, i64(*axes)) if g.opset >= 13 else g.Unsqueeze(x, axes=list(axes))


def squeeze(g, x, *axes):
    return g.Squeeze(x, i64(*axes)) if g.opset >= 13 else g.Squeeze(x, axes=list(axes))


def clip(g, x, low, high):
    return g.Clip(x, f32(low), f32(high)) if g.opset >= 11 else g.Clip(x, min=float(low), max=float(high))


def split(g, x, axis, sizes):
    if g.opset >= 13:
        return g.Split(x, i64(*sizes), axis=axis, outputs=len(sizes))
    return g.Split(x, axis=axis, split=list(sizes), outputs=len(sizes))


def slice_(g, x, starts, ends, axes, steps=None):
    if g.opset < 10:
        return g.Slice(x, starts=list(starts), ends=list(ends), axes=list(axes))
    return g.Slice(x, i64(*starts), i64(*ends), i64(*axes), *([i64(*steps)] if steps else []))


# ---- shapes that are computed in the graph ----
def fill(array):
    """The value attribute of a ConstantOfShape."""
    return numpy_helper.from_array(array, "value")


def extent(g, x, axis):
    """The extent of an axis as a rank-0 int64 value: Shape, Gather."""
    return g.Gather(g.Shape(x), np.array(axis, np.int64), axis=0)


def shape_from(g, *extents):
    """A shape of integers and rank-0 values: Unsqueeze each, Concat."""
    parts = [i64(e) if isinstance(e, int) else unsqueeze(g, e, 0) for e in extents]
    return g.Concat(*parts, axis=0)


def view(g, x, *extents):
    """torch's x.view(...) as the tracing exporter writes it."""
    return g.Reshape(x, shape_from(g, *extents))


def expand(g, x, *extents):
    """torch's x.expand(...): a -1 means the extent that is there, which the exporter looks for at run time."""
    shape = g.Reshape(shape_from(g, *extents), i64(-1))
    ones = g.ConstantOfShape(g.Shape(shape), value=fill(i64(1)))
    keep = g.Equal(shape, g.Mul(ones, np.array(-1, np.int64)))
    return g.Expand(x, g.Where(keep, ones, shape))


# ---- linear ----
def linear(g, x, inner, outer, gain=1.0, bias=0.05):
    """MatMul and Add, the bias on the left, as exporters of transformers do."""
    y = g.MatMul(x, g.normal([inner, outer], math.sqrt(gain / inner)))
    return g.Add(g.normal([outer], bias), y)


def gemm(g, x, inner, outer, gain=1.0, bias=0.05):
    return g.Gemm(x, g.normal([outer, inner], math.sqrt(gain / inner)), g.normal([outer], bias), transB=1)


def conv(g, x, inner, outer, kernel=1, stride=1, group=1, pad=None, gain=2.9, bias=0.1, dilation=1):
    """A convolution with its bias. Kernels and pads may be pairs.

    Each filter's weights sum to zero (unless it sees one channel): what a Relu before it adds to every mean is taken out
    again, as a normalization would, so that the result depends on the picture and not on the weights alone. gain 2.9
    keeps the variance of a Relu's result, 1 that of a linear one."""
    kernel, stride, dilation = ([v, v] if isinstance(v, int) else list(v) for v in (kernel, stride, dilation))
    if pad is None:
        pad = [(k - 1) * d // 2 for k, d in zip(kernel, dilation)]
    pad = [pad, pad] if isinstance(pad, int) else list(pad)
    weight = g.he([outer, inner // group, *kernel], gain)
    if inner // group > 1:
        weight -= weight.mean((1, 2, 3), np.float64, keepdims=True).astype(np.float32)
    parts = [x, weight] + ([g.normal([outer], bias)] if bias is not None else [])
    return g.Conv(*parts, dilations=dilation, group=group, kernel_shape=kernel, pads=pad * 2, strides=stride)


def batch_norm(g, x, channels):
    """Statistics near (0, 1), so that it changes every channel and no scale."""
    scale, shift = g.uniform([channels], 0.8, 1.2), g.normal([channels], 0.1)
    mean, var = g.normal([channels], 0.1), g.uniform([channels], 0.7, 1.3)
    return g.BatchNormalization(x, scale, shift, mean, var, epsilon=1e-5)


# ---- normalization over the last axis ----
def layer_norm(g, x, width, spelling="op", epsilon=1e-5):
    scale, shift = g.uniform([width], 0.8, 1.2), g.normal([width], 0.1)
    if spelling == "op":
        return g.LayerNormalization(x, scale, shift, axis=-1, epsilon=epsilon)
    mean = reduce(g, "ReduceMean", x, [-1])
    if spelling == "folded":  # x * m + (shift - mean * m), as exporters of TensorFlow do
        variance = reduce(g, "ReduceMean", _square(g, g.Sub(x, mean)), [-1])
        factor = g.Mul(g.Reciprocal(g.Sqrt(g.Add(variance, f32(epsilon)))), scale)
        return g.Add(g.Mul(x, factor), g.Sub(shift, g.Mul(mean, factor)))
    centred = g.Sub(x, mean)
    if spelling == "pow":
        square = g.Pow(centred, f32(2))
    elif spelling == "mul":
        square = _square(g, centred)
    else:
        raise ValueError(spelling)
    deviation = g.Sqrt(g.Add(reduce(g, "ReduceMean", square, [-1]), f32(epsilon)))
    return g.Add(g.Mul(g.Div(centred, deviation), scale), shift)


def rms_norm(g, x, width, spelling="reciprocal", epsilon=1e-6):
    scale = g.uniform([width], 0.8, 1.2)
    root = g.Sqrt(g.Add(reduce(g, "ReduceMean", g.Pow(x, f32(2)), [-1]), f32(epsilon)))
    if spelling == "div":
        return g.Mul(g.Div(x, root), scale)
    return g.Mul(scale, g.Mul(x, g.Div(f32(1), root) if spelling == "one_over" else g.Reciprocal(root)))


def _square(g, x):
    return g.Mul(x, x)


# ---- activations ----
def gelu(g, x, spelling="erf"):
    if spelling == "op":
        return g.Gelu(x)
    if spelling == "erf":  # x * (1 + erf(x / sqrt 2)) * 0.5
        return g.Mul(g.Mul(x, g.Add(g.Erf(g.Div(x, f32(math.sqrt(2)))), f32(1))), f32(0.5))
    if spelling == "erf_half_first":  # (0.5 * x) * (1 + erf(x * sqrt 0.5))
        return g.Mul(g.Mul(f32(0.5), x), g.Add(f32(1), g.Erf(g.Mul(x, f32(math.sqrt(0.5))))))
    if spelling == "sigmoid":
        return g.Mul(x, g.Sigmoid(g.Mul(x, f32(1.702))))
    cube = g.Pow(x, f32(3)) if spelling == "tanh" else g.Mul(g.Mul(x, x), x)
    inner = g.Mul(g.Add(x, g.Mul(cube, f32(0.044715))), f32(math.sqrt(2 / math.pi)))
    if spelling == "tanh":
        return g.Mul(g.Mul(x, f32(0.5)), g.Add(g.Tanh(inner), f32(1)))
    if spelling == "tanh_cube":
        return g.Mul(f32(0.5), g.Mul(x, g.Add(f32(1), g.Tanh(inner))))
    raise ValueError(spelling)


def silu(g, x):
    return g.Mul(x, g.Sigmoid(x))


def mish(g, x):
    return g.Mul(x, g.Tanh(g.Softplus(x)))


def hard_swish(g, x, spelling="op"):
    if spelling == "op":
        return g.HardSwish(x)
    if spelling == "hard_sigmoid":
        return g.Mul(x, g.HardSigmoid(x, alpha=1 / 6))
    gate = clip(g, g.Add(x, f32(3)), 0, 6)
    if spelling == "div":
        return g.Div(g.Mul(x, gate), f32(6))
    if spelling == "mul":
        return g.Mul(x, g.Mul(gate, f32(1 / 6)))
    raise ValueError(spelling)


def softmax(g, x, spelling="op"):
    if spelling == "op":
        return g.Softmax(x, axis=-1)
    e = g.Exp(g.Sub(x, reduce(g, "ReduceMax", x, [-1]))) if spelling == "max" else g.Exp(x)
    return g.Div(e, reduce(g, "ReduceSum", e, [-1]))


# ---- attention ----
def heads(g, x, batch, length, count, width):
    """[B, S, count * width] -> [B, count, S, width]; batch and length are 0, integers or rank-0 values."""
    fixed = isinstance(batch, int) and isinstance(length, int)
    x = g.Reshape(x, i64(batch, length, count, width)) if fixed else view(g, x, batch, length, count, width)
    return g.Transpose(x, perm=[0, 2, 1, 3])


def attention(g, q, k, v, width, mask=None, scale="div", guard=False):
    """Scaled dot products of [B, H, S, width]; `mask` is added to the scores, or is a function of them.

    scale: div or mul (the scores), query (q alone), both (a square root on either side), none. guard: a row without any
    allowed key gives zeros, as in torch's scaled_dot_product_attention."""
    k = g.Transpose(k, perm=[0, 1, 3, 2])
    factor = 1 / math.sqrt(width)
    if scale == "query":
        q = g.Mul(q, f32(factor))
    if scale == "both":
        q, k = g.Mul(q, f32(math.sqrt(factor))), g.Mul(k, f32(math.sqrt(factor)))
    scores = g.MatMul(q, k)
    if scale == "div":
        scores = g.Div(scores, f32(math.sqrt(width)))
    if scale == "mul":
        scores = g.Mul(scores, f32(factor))
    if callable(mask):
        scores = mask(scores)
    elif mask is not None:
        scores = g.Add(scores, mask)
    weights = g.Softmax(scores, axis=-1)
    if guard:
        weights = g.Where(g.IsNaN(weights), f32(0), weights)
    return g.MatMul(weights, v)


def merge_heads(g, x, batch, length, count, width):
    x = g.Transpose(x, perm=[0, 2, 1, 3])
    if isinstance(batch, int) and isinstance(length, int):
        return g.Reshape(x, i64(batch, length, count * width))
    return view(g, x, batch, length, count * width)


def additive_mask(g, mask):
    """int64 [B, S] of ones and zeros -> float32 [B, 1, 1, S], 0 where allowed and the lowest float where not."""
    mask = unsqueeze(g, unsqueeze(g, mask, 1), 2)
    return g.Mul(g.Sub(f32(1), g.Cast(mask, to=1)), f32(LOWEST))


# ---- squeeze and excitation ----
def squeeze_excite(g, x, channels, inner, act, gate, pool="op"):
    with g.scope("se"):
        s = g.GlobalAveragePool(x) if pool == "op" else reduce(g, "ReduceMean", x, [2, 3])
        s = act(conv(g, s, channels, inner, gain=4.0))
        return g.Mul(gate(conv(g, s, inner, channels, bias=0.5)), x)
