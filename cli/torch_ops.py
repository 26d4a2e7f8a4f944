"""What each operator of ONNX is in torch: OPS has a function of a Node (of peer_torch.py) and its operands as tensors.

It gives a tensor, several of them, or an array where the result is known before the run. What is not in OPS is refused,
and so is a form of an operator for which torch has no call.
"""
import functools
import math
import operator

import numpy as np
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper


# ---- elementwise ----
def plain(function):
    return lambda node, *x: function(*x)


def fold(function):
    return lambda node, *x: functools.reduce(function, x)


def numeric(function):
    """Constants of one element become numbers, as programs have them: torch looks for those when it fuses.

    They stay tensors after a convolution: of the numbers that torch 2.15 folds into weights, it takes the last for all.
    """
    def call(node, *x):
        rank = max((t.ndim for t in node.operands if isinstance(t, torch.Tensor) and not node.after_conv), default=-1)
        return function(*(a.item() if isinstance(a, np.ndarray) and a.size == 1 and a.ndim <= rank else t
                          for a, t in zip(node.operands, x)))
    return call


def divide(node, a, b):
    whole = functools.partial(torch.div, rounding_mode='trunc')
    return numeric(operator.truediv)(node, a, b) if a.dtype.is_floating_point else whole(a, b)


def cast(node, x):
    return x.to(torch.from_numpy(np.empty(0, helper.tensor_dtype_to_np_dtype(node.get('to')))).dtype)


def clip(node, x, *_):
    low, high = node.form('min', 1), node.form('max', 2)
    return x if low is high is None else torch.clamp(x, low, high)


def hard_sigmoid(node, x):
    slope, offset = node.get('alpha', 0.2), node.get('beta', 0.5)
    if abs(6 * slope - 1) < 1e-6 and offset == 0.5:
        return F.hardsigmoid(x)
    return torch.clamp(x, -offset / slope, (1 - offset) / slope) * slope + offset  # see numeric: clamp comes first


def dropout(node, x, *_):
    node.refuse_if(node.known(2), 'trains')
    return x


OPS = {name.capitalize(): plain(getattr(torch, name)) for name in (
    'abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log neg reciprocal relu round sigmoid sign sin '
    'sinh sqrt tan tanh').split()}
OPS.update({
    'Identity': plain(lambda x: x), 'Dropout': dropout, 'Cast': cast, 'Clip': clip,
    'Max': fold(torch.maximum), 'Min': fold(torch.minimum), 'Sum': fold(torch.add), 'IsNaN': plain(torch.isnan),
    'And': plain(torch.logical_and), 'Or': plain(torch.logical_or), 'Xor': plain(torch.logical_xor),
    'Not': plain(torch.logical_not), 'Where': plain(torch.where),
    'Equal': numeric(operator.eq), 'Greater': numeric(operator.gt), 'GreaterOrEqual': numeric(operator.ge),
    'Less': numeric(operator.lt), 'LessOrEqual': numeric(operator.le),
    'Add': numeric(operator.add), 'Sub': numeric(operator.sub), 'Mul': numeric(operator.mul), 'Div': divide,
    'Pow': lambda node, a, b: numeric(operator.pow)(node, a, b).to(a.dtype),
    'Mod': lambda node, a, b: (torch.fmod if node.get('fmod') else torch.remainder)(a, b),
    'HardSwish': plain(F.hardswish), 'Mish': plain(F.mish), 'Softplus': plain(F.softplus),
    'Softsign': plain(F.softsign),
    'Elu': lambda node, x: F.elu(x, node.get('alpha', 1.0)),
    'Gelu': lambda node, x: F.gelu(x, approximate=node.get('approximate', 'none')),
    'HardSigmoid': hard_sigmoid,
    'LeakyRelu': lambda node, x: F.leaky_relu(x, node.get('alpha', 0.01)),
    'PRelu': plain(lambda x, slope: torch.where(x < 0, x * slope, x)),
})


# ---- products and windows ----
def gemm(node, a, b, c=None):
    a, b = a.T if node.get('transA') else a, b.T if node.get('transB') else b
    alpha, beta = node.get('alpha', 1.0), node.get('beta', 1.0)
    return a @ b * alpha if c is None else torch.addmm(c, a, b, alpha=alpha, beta=beta)


def padded(x, begins, ends, mode='constant', value=0.0):
    """With so much added at both ends of the last axes, as many as there are begins."""
    pairs = [p for pair in zip(reversed(begins), reversed(ends)) for p in pair]
    while mode != 'constant' and pairs[-2:] == [0, 0]:  # there torch wants the axes that it pads and no others
        del pairs[-2:]
    return F.pad(x, pairs, mode, value if mode == 'constant' else None) if any(pairs) else x


def window(node, x, kernel):
    """Strides, dilations and the padding at both ends of each axis that a kernel slides along."""
    strides, dilations = (list(node.get(name, [1] * len(kernel))) for name in ('strides', 'dilations'))
    pads, automatic = node.get('pads', [0] * 2 * len(kernel)), node.get('auto_pad', 'NOTSET')
    begins, ends = list(pads[:len(kernel)]), list(pads[len(kernel):])
    if automatic.startswith('SAME'):
        for i, (size, k, s, d) in enumerate(zip(x.shape[2:], kernel, strides, dilations)):
            total = max(0, (math.ceil(size / s) - 1) * s + (k - 1) * d + 1 - size)
            begins[i] = total // 2 if automatic == 'SAME_UPPER' else total - total // 2
            ends[i] = total - begins[i]
    return strides, dilations, begins, ends


def conv(node, x, w, b=None):
    strides, dilations, begins, ends = window(node, x, w.shape[2:])
    if begins != ends:
        x, begins = padded(x, begins, ends), [0] * len(begins)
    return torch.convolution(x, w, b, strides, begins, dilations, False, [0] * len(begins), node.get('group', 1))


def conv_transpose(node, x, w, b=None):
    strides, dilations, begins, ends = window(node, x, w.shape[2:])
    derived = node.get('output_shape') or node.get('auto_pad', 'NOTSET') != 'NOTSET'
    node.refuse_if(derived or begins != ends, 'derives its padding or pads unevenly')
    more = node.get('output_padding', [0] * len(begins))
    return torch.convolution(x, w, b, strides, begins, dilations, True, more, node.get('group', 1))


def max_pool(node, x):
    kernel = node.get('kernel_shape')
    strides, dilations, begins, ends = window(node, x, kernel)
    if begins != ends:
        x, begins = padded(x, begins, ends, value=-math.inf), [0] * len(begins)
    return getattr(F, f'max_pool{len(kernel)}d')(x, kernel, strides, begins, dilations, bool(node.get('ceil_mode')))


def average_pool(node, x):
    kernel = node.get('kernel_shape')
    strides, dilations, begins, ends = window(node, x, kernel)
    node.refuse_if(begins != ends or max(dilations) > 1, 'pads unevenly or is dilated')
    ceil, whole = bool(node.get('ceil_mode')), bool(node.get('count_include_pad'))
    return getattr(F, f'avg_pool{len(kernel)}d')(x, kernel, strides, begins, ceil, whole)


def resize(node, x, *_):
    old = node.opset < 11
    scales, sizes = node.form('scales', 1 if old else 2) or None, node.known(3)
    mode, rounding = node.get('mode', 'nearest'), node.get('nearest_mode', 'floor' if old else 'round_prefer_floor')
    at = node.get('coordinate_transformation_mode', 'asymmetric' if old else 'half_pixel')
    aligned = at == 'align_corners' and all((n * s).is_integer() for n, s in zip(x.shape, scales or ()))
    right = {'nearest': at == 'asymmetric' and rounding == 'floor', 'linear': aligned or at == 'half_pixel'}
    rare = {'axes', 'antialias', 'keep_aspect_ratio_policy'} & node.attributes.keys()
    node.refuse_if(not right.get(mode) or rare, f'is {mode} with coordinates {at} ({rounding}) {rare or ""}')
    node.refuse_if((scales or sizes)[:2] != ([1, 1] if scales else list(x.shape[:2])), 'resizes the first two axes')
    if mode == 'nearest':
        return F.interpolate(x, sizes and sizes[2:], scales and scales[2:], mode)
    mode = ('linear', 'bilinear', 'trilinear')[x.ndim - 3]
    return F.interpolate(x, sizes and sizes[2:], scales and scales[2:], mode, aligned)


OPS.update({
    'MatMul': plain(torch.matmul), 'Gemm': gemm, 'Einsum': lambda node, *x: torch.einsum(node.get('equation'), *x),
    'Conv': conv, 'ConvTranspose': conv_transpose, 'MaxPool': max_pool, 'AveragePool': average_pool,
    'GlobalAveragePool': plain(lambda x: x.mean(tuple(range(2, x.ndim)), True)),
    'GlobalMaxPool': plain(lambda x: x.amax(tuple(range(2, x.ndim)), True)), 'Resize': resize, 'Upsample': resize,
})


# ---- recurrences ----
def recurrent(function, gates, states):
    """ONNX's gate g of torch's order is gates[g], and torch has all directions' weights and results side by side."""
    def call(node, x, w, r, b=None, lengths=None, *first):
        directions, hidden, way = len(w), r.shape[-1], node.get('direction', 'forward')
        node.refuse_if(lengths is not None, 'is told lengths')
        node.refuse_if(len(first) > states, 'has peepholes')
        usual = [a.encode() for a in (('Sigmoid',) if len(gates) > 1 else ()) + ('Tanh',) * states] * directions
        rare = node.get('layout') or node.get('input_forget') or 'clip' in node.attributes
        node.refuse_if(rare or node.get('activations', usual) != usual, 'has a form of its own')
        node.refuse_if(node.kind == 'GRU' and not node.get('linear_before_reset'), 'resets in front of its product')

        def ordered(t):
            return t.unflatten(0, (len(gates), hidden))[list(gates)].flatten(0, 1)
        weights = [ordered(t) for d in range(directions)
                   for t in (w[d], r[d], *(() if b is None else b[d].chunk(2)))]
        first = [x.new_zeros(directions, x.shape[1], hidden) if i >= len(first) or first[i] is None else first[i]
                 for i in range(states)]
        y, *last = function(x.flip(0) if way == 'reverse' else x, first if states > 1 else first[0], weights,
                            b is not None, 1, 0.0, False, way == 'bidirectional', False)
        y = y.unflatten(2, (directions, hidden)).transpose(1, 2)
        return (y.flip(0) if way == 'reverse' else y, *last)
    return call


OPS.update({'LSTM': recurrent(torch.lstm, (0, 2, 3, 1), 2), 'GRU': recurrent(torch.gru, (1, 0, 2), 1),
            'RNN': recurrent(torch.rnn_tanh, (0,), 1)})


# ---- normalization and reductions ----
def softmax(node, x):
    function = torch.softmax if node.kind == 'Softmax' else torch.log_softmax
    if node.opset >= 13:
        return function(x, node.get('axis', -1))
    return function(x.flatten(node.get('axis', 1)), -1).reshape(x.shape)  # all that follows the axis is one row


def reduction(function):
    def call(node, x, *_):
        axes = node.form('axes', 1) or ()
        if not axes and node.get('noop_with_empty_axes'):
            return x
        return function(x, tuple(axes) or tuple(range(x.ndim)), bool(node.get('keepdims', 1)))
    return call


def extreme(function):
    def call(node, x):
        node.refuse_if(node.get('select_last_index'), 'takes the last of equals')
        return function(x, node.get('axis', 0), bool(node.get('keepdims', 1)))
    return call


def number(value):
    return value[0] if isinstance(value, list) else value


def top_k(node, x, *_):
    return torch.topk(x, number(node.form('k', 1)), node.get('axis', -1), bool(node.get('largest', 1)))


def cumulative_sum(node, x, _):
    axis, back = number(node.known(1)), node.get('reverse')
    node.refuse_if(node.get('exclusive'), 'is exclusive')
    y = torch.cumsum(x.flip(axis) if back else x, axis, dtype=x.dtype)
    return y.flip(axis) if back else y


def epsilon(node):
    return node.get('epsilon', 1e-5)


OPS.update({f'Reduce{name}': reduction(function) for name, function in {
    'Max': torch.amax, 'Min': torch.amin, 'Mean': torch.mean, 'LogSumExp': torch.logsumexp,
    'Sum': lambda x, axes, keep: x.sum(axes, keep, dtype=x.dtype), 'L1': lambda x, axes, keep: x.abs().sum(axes, keep),
    'L2': lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep),
    'SumSquare': lambda x, axes, keep: (x * x).sum(axes, keep)}.items()})
OPS.update({
    'ArgMax': extreme(torch.argmax), 'ArgMin': extreme(torch.argmin), 'TopK': top_k, 'CumSum': cumulative_sum,
    'Softmax': softmax, 'LogSoftmax': softmax,
    'BatchNormalization': lambda node, x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, eps=epsilon(node)),
    'InstanceNormalization': lambda node, x, w, b: F.instance_norm(x, weight=w, bias=b, eps=epsilon(node)),
    'LayerNormalization': lambda node, x, *w: F.layer_norm(x, x.shape[node.get('axis', -1):], *w, eps=epsilon(node)),
    'RMSNormalization': lambda node, x, w: F.rms_norm(x, x.shape[node.get('axis', -1):], w, epsilon(node)),
})


# ---- layout ----
def reshape(node, x, _):
    return x.reshape([x.shape[i] if n == 0 and not node.get('allowzero') else n for i, n in enumerate(node.known(1))])


def flatten(node, x):
    axis = node.get('axis', 1)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def squeeze(node, x, *_):
    axes = node.form('axes', 1)
    return x.squeeze(tuple(i for i, n in enumerate(x.shape) if n == 1) if axes is None else tuple(axes))


def unsqueeze(node, x, *_):
    axes = node.form('axes', 1)
    for axis in sorted(a % (x.ndim + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


def split(node, x, *_):
    axis, count = node.get('axis', 0), len(node.proto.output)
    return torch.split(x, node.form('split', 1) or math.ceil(x.shape[axis] / count), axis)


def slice_(node, x, *_):
    starts, ends = node.form('starts', 1), node.form('ends', 2)
    axes = node.form('axes', 3) or range(len(starts))
    for start, end, axis, step in zip(starts, ends, axes, node.known(4) or [1] * len(starts)):
        taken = range(*slice(start, end, step).indices(x.shape[axis]))
        up = taken if step > 0 else taken[::-1]
        x = x[(slice(None),) * (axis % x.ndim) + (slice(up.start, max(up.start, up.stop), up.step),)]
        x = x if step > 0 else x.flip(axis)
    return x


def gather(node, x, i):
    axis, known = node.get('axis', 0) % x.ndim, node.operands[1]
    if isinstance(known, np.ndarray) and known.ndim == 0:
        return x.select(axis, known.item())
    return torch.ops.aten.index(x, [None] * axis + [i.long()])


def pad(node, x, *_):
    pads, value, axes = node.form('pads', 1), node.get('value', node.known(2)), node.known(3)
    rank, mode = len(pads) // 2, node.get('mode', 'constant')
    node.refuse_if(axes not in (None, list(range(x.ndim))), 'names its axes')
    return padded(x, pads[:rank], pads[rank:], {'edge': 'replicate', 'wrap': 'circular'}.get(mode, mode), value or 0)


def constant(node):
    (kind, value), = node.attributes.items()
    if kind == 'value':
        return numpy_helper.to_array(value)
    return np.array(value, np.float32 if 'float' in kind else np.int64)


def filled(node, _):
    value = numpy_helper.to_array(node.get('value')) if 'value' in node.attributes else np.zeros(1, np.float32)
    return np.full(node.known(0), value[0])


def counted(node, *_):
    return np.arange(*(node.known(i) for i in range(3)), dtype=node.operands[0].dtype)


OPS.update({
    'Reshape': reshape, 'Flatten': flatten, 'Squeeze': squeeze, 'Unsqueeze': unsqueeze, 'Split': split, 'Slice': slice_,
    'Concat': lambda node, *x: torch.cat(x, node.get('axis')), 'Tile': lambda node, x, _: x.repeat(node.known(1)),
    'Transpose': lambda node, x: x.permute(node.get('perm', list(range(x.ndim))[::-1])), 'Pad': pad,
    'Expand': lambda node, x, _: x.expand(np.broadcast_shapes(x.shape, tuple(node.known(1)))),
    'Gather': gather,
    'Trilu': lambda node, x, *_: (torch.triu if node.get('upper', 1) else torch.tril)(x, node.known(1, 0)),
    'Shape': lambda node, x: np.array(x.shape[node.get('start', 0):node.get('end')], np.int64),
    'Constant': constant, 'ConstantOfShape': filled, 'Range': counted,
})


# ---- integers that stand for other numbers ----
def along(t, x, axis):
    """What has one element for each index of an axis of x, so that it is broadcast over the others."""
    return t.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]) if t.ndim == 1 else t


def shifted(x, zero, axis, dtype):
    return x.to(dtype) if zero is None else x.to(dtype) - along(zero, x, axis).to(dtype)


def rounded(x, zero):
    low, high = torch.iinfo(zero.dtype).min, torch.iinfo(zero.dtype).max
    return torch.clamp(torch.round(x) + zero, low, high).to(zero.dtype)


def dequantized(x, scale, zero=None, axis=1):
    return shifted(x, zero, axis, scale.dtype) * along(scale, x, axis)


def quantized(x, scale, zero=None, axis=1):
    zero = torch.zeros((), dtype=torch.uint8) if zero is None else zero
    return rounded(x / along(scale, x, axis), along(zero, x, axis))


def simple(function):
    """For one scale, or one for each index of an axis."""
    def call(node, *x):
        node.refuse_if(node.get('block_size') or node.get('output_dtype'), 'has blocks, or a type of its own')
        return function(*x, axis=node.get('axis', 1))
    return call


def quantized_by_range(node, x):
    low, high = torch.clamp(x.amin(), max=0), torch.clamp(x.amax(), min=0)
    scale = (high - low) / 255
    zero = torch.clamp(torch.round(-low / scale), 0, 255).to(torch.uint8)
    return quantized(x, scale, zero), scale, zero


def sums(node, a, b, a_zero, b_zero, known, known_zero):
    """Products of bytes, for which torch has no call: in float32 where it counts that far, else in float64."""
    convolved, dtype = 'Conv' in node.kind, torch.float64
    if isinstance(known, np.ndarray) and not isinstance(known_zero, torch.Tensor):
        off = 0 if known_zero is None else np.abs(known_zero.astype(np.int64)).max()
        terms = np.abs(known.astype(np.int64)) + off
        most = 255 * terms.sum(tuple(range(1, terms.ndim)) if convolved else -2).max()
        dtype = torch.float32 if most < 2**24 else torch.float64
    a, b = shifted(a, a_zero, -2, dtype), shifted(b, b_zero, 0 if convolved else -1, dtype)
    return conv(node, a, b) if convolved else a @ b


def integer_product(node, a, b, a_zero=None, b_zero=None):
    return sums(node, a, b, a_zero, b_zero, node.operands[1], (*node.operands, None, None)[3]).to(torch.int32)


def quantized_product(node, a, a_scale, a_zero, b, b_scale, b_zero, scale, zero, bias=None):
    y = sums(node, a, b, a_zero, b_zero, node.operands[3], node.operands[5])
    if node.kind == 'QLinearConv':
        y = y if bias is None else y + along(bias, y, 1)
        return rounded(y * along(a_scale * b_scale / scale, y, 1), zero)
    return rounded(y * (along(a_scale, y, -2) * along(b_scale, y, -1) / along(scale, y, -2)), along(zero, y, -2))


OPS.update({
    'QuantizeLinear': simple(quantized), 'DequantizeLinear': simple(dequantized),
    'DynamicQuantizeLinear': quantized_by_range, 'MatMulInteger': integer_product, 'ConvInteger': integer_product,
    'QLinearConv': quantized_product, 'QLinearMatMul': quantized_product,
})
