"""What random networks compute with: arithmetic, contractions, windows, reductions, norms, and idioms of several nodes."""
import numpy as np
from random_graph import Reject, scale_of


def extent(g):
    return g.random.choice([1, 1, 2, 3, 3, 4, 5, 7, 8, 9, 13, 16, 17])


def any_shape(g, low=0, high=4):
    while True:
        shape = tuple(extent(g) for _ in range(g.random.randrange(low, high + 1)))
        if np.prod(shape) <= 1500:
            return shape


def new_input(g):
    if len(g.inputs) >= 4:
        raise Reject
    g.input(any_shape(g), g.random.choices([g.dtype, 'i8', 'i4', '?'], [12, 1, 1, 1])[0])


def broadcastable(g, shape):
    """A shape that goes with another one."""
    small = tuple(e if g.chance(0.6) else 1 for e in shape)
    return small[g.random.randrange(len(small) + 1):] if g.chance(0.5) else small


def partner(g, x):
    """An operand to go with x: of its shape, broadcast to it, or x itself."""
    way = g.random.random()
    if way < 0.45:
        try:
            return g.pick(x.kind, where=lambda v: v.array.dtype == x.array.dtype and v is not x and fits(v.shape, x.shape))
        except Reject:
            pass
    if way < 0.5:
        return x
    return g.fresh(x.shape if way > 0.9 else broadcastable(g, x.shape), x.array.dtype)


def fits(a, b):
    try:
        return np.prod(np.broadcast_shapes(a, b)) <= 2048
    except ValueError:
        return False


def tame(g, x):
    """Away from where exponentials leave the type."""
    return x if scale_of(x.array) <= 8 else g.emit('Tanh', x)


UNARY = {'Relu': 13, 'Sigmoid': 13, 'Tanh': 13, 'Neg': 13, 'Abs': 13, 'Erf': 13, 'Softplus': 13, 'Softsign': 13, 'HardSwish': 14,
         'Mish': 18, 'Sin': 13, 'Cos': 13, 'Atan': 13, 'Asinh': 13, 'Floor': 13, 'Ceil': 13, 'Round': 13, 'Sign': 13, 'Exp': 13,
         'Identity': 13, 'Elu': 13, 'Selu': 13, 'Celu': 13, 'LeakyRelu': 13, 'HardSigmoid': 13, 'ThresholdedRelu': 13,
         'Shrink': 13, 'Gelu': 20, 'Sinh': 13, 'Cosh': 13}


def unary(g):
    x = g.pick()
    op = g.random.choice([op for op, since in UNARY.items() if since <= g.opset])
    attributes = {}
    if op in ('Elu', 'Celu', 'LeakyRelu', 'ThresholdedRelu') and g.chance(0.5):
        attributes = dict(alpha=g.random.choice([0.1, 0.5, 1.5]))
    if op == 'HardSigmoid' and g.chance(0.5):
        attributes = dict(alpha=0.3, beta=0.4)
    if op == 'Shrink':
        attributes = dict(lambd=0.7, bias=g.random.choice([0.0, 0.25]))
    if op == 'Gelu':
        attributes = dict(approximate=g.random.choice(['none', 'tanh']))
    g.emit(op, tame(g, x) if op in ('Exp', 'Sinh', 'Cosh') else x, **attributes)


def positive(g):
    x = g.emit(g.random.choice(['Abs', 'Relu']), g.pick())
    x = g.emit('Add', x, np.asarray(g.random.choice([0.25, 1, 3]), x.array.dtype))
    g.emit(g.random.choice(['Sqrt', 'Log', 'Reciprocal']), x)


def binary(g):
    x = g.pick()
    op = g.random.choice(['Add', 'Add', 'Sub', 'Mul', 'Mul', 'Max', 'Min', 'Mean', 'Sum', 'PRelu'])
    y = g.fresh(broadcastable(g, x.shape), x.array.dtype) if op == 'PRelu' else partner(g, x)
    if op in ('Max', 'Min', 'Mean', 'Sum') and g.chance(0.4):
        g.emit(op, x, y, partner(g, x))
    elif g.chance(0.5) and op != 'PRelu':
        g.emit(op, y, x)
    else:
        g.emit(op, x, y)


def divide(g):
    x = g.pick()
    y = partner(g, x)
    if not g.special:
        y = g.emit('Add', g.emit('Abs', y), np.asarray(0.5, x.array.dtype))
    g.emit('Div', x, y)


def power(g):
    x = g.pick()
    exponent = g.random.choice([2, 3, 0.5, -1, -0.5, 1.5, 1, 0])
    if exponent != int(exponent) or exponent < 0:
        x = g.emit('Add', g.emit('Abs', x), np.asarray(0.5, x.array.dtype))
    g.emit('Pow', x, np.full(g.random.choice([(), (1,), x.shape]), exponent, x.array.dtype))


def clip(g):
    x = g.pick()
    low, high = (None if g.chance(0.2) else np.asarray(limit, x.array.dtype) for limit in (-0.75, 1.25))
    g.emit('Clip', *[v for v in (x, low, high)])


def residual(g):
    """A branch of its own that meets where it began."""
    x = g.pick(ranks=range(1, 5))
    y = g.emit(g.random.choice(['Relu', 'Sigmoid', 'Tanh', 'Abs']), x)
    if g.chance(0.5):
        y = g.emit('MatMul', y, g.constant(g.numbers((x.shape[-1], x.shape[-1]), x.array.dtype)))
    g.emit('Add', *([x, y] if g.chance(0.5) else [y, x]))


def matmul(g):
    x = g.pick(ranks=range(1, 5))
    k, n = x.shape[-1], extent(g)
    shapes = [(k, n), (k, n), (k,)]
    if x.rank > 2:
        batch = x.shape[:-2]
        shapes += [batch + (k, n), (1,) * len(batch) + (k, n), batch[1:] + (k, n)]
    else:
        shapes += [(extent(g) % 4 + 1, k, n)]
    other = g.fresh(g.random.choice(shapes), x.array.dtype)
    if x.rank >= 2 and g.chance(0.25):
        left = g.fresh(g.random.choice([(n, x.shape[-2]), (x.shape[-2],)]), x.array.dtype)
        return g.emit('MatMul', left, x)
    y = g.emit('MatMul', x, other)
    if g.chance(0.4) and y.rank:
        y = g.emit('Add', y, g.constant(g.numbers(y.shape[-1:], x.array.dtype)))
    if g.chance(0.3):
        g.emit(g.random.choice(['Relu', 'Tanh', 'Sigmoid']), y)


def gemm(g):
    x = g.pick(ranks=[2])
    trans_a, trans_b = g.random.randrange(2), g.random.randrange(2)
    m, k = x.shape[::-1] if trans_a else x.shape
    n = extent(g)
    attributes = dict(transA=trans_a, transB=trans_b)
    if g.chance(0.4):
        attributes |= dict(alpha=0.5, beta=g.random.choice([1.0, 0.25, 2.0]))
    c = [] if g.chance(0.3) else [g.fresh(g.random.choice([(n,), (1, n), (m, 1), (m, n), (), (1,)]), x.array.dtype)]
    g.emit('Gemm', x, g.fresh((n, k) if trans_b else (k, n), x.array.dtype), *c, **attributes)


def einsum(g):
    x = g.pick(ranks=[2, 3])
    equation, shape = g.random.choice(
        [('ij,jk->ik', (x.shape[-1], extent(g))), ('ij,kj->ki', (extent(g), x.shape[-1])), ('ij,ij->i', x.shape), ('ij,j->ij', x.shape[1:])]
        if x.rank == 2 else
        [('bij,bjk->bik', (x.shape[0], x.shape[2], extent(g))), ('bij,bkj->bik', (x.shape[0], extent(g), x.shape[2])),
         ('bij,jk->bik', (x.shape[2], extent(g))), ('bij,bij->ij', x.shape)])
    g.emit('Einsum', x, g.fresh(shape, x.array.dtype), equation=equation)


def picture(g, spatial=(1, 2, 2, 2, 3)):
    """Something with channels and a plane."""
    n = g.random.choice(spatial)
    try:
        return g.pick(ranks=[n + 2], where=lambda v: min(v.shape) > 0)
    except Reject:
        shape = (g.random.choice([1, 1, 2, 3]), g.random.choice([1, 2, 3, 4, 6, 8]),
                 *(g.random.choice([1, 3, 4, 5, 6, 7, 9]) for _ in range(n)))
        if np.prod(shape) > 1500 or len(g.inputs) >= 4:
            raise
        return g.input(shape, g.dtype)


def window(g, x, pooling=False):
    n = x.rank - 2
    kernel = [g.random.choice([1, 2, 3, 3, 5]) for _ in range(n)]
    attributes = dict(kernel_shape=kernel)
    if g.chance(0.5):
        attributes['strides'] = [g.random.choice([1, 2, 2, 3]) for _ in range(n)]
    if g.chance(0.6):
        attributes['pads'] = [g.random.randrange(0, min(kernel[i % n], 4)) for i in range(2 * n)]
    if g.chance(0.3) and not pooling and not g.special:  # the evaluator multiplies infinities by the zeros between taps
        attributes['dilations'] = [g.random.choice([1, 2, 3]) for _ in range(n)]
    pads, dilations = attributes.get('pads', [0] * 2 * n), attributes.get('dilations', [1] * n)
    for i in range(n):
        if x.shape[2 + i] + pads[i] + pads[n + i] < (kernel[i] - 1) * dilations[i] + 1:
            raise Reject
    return attributes


def convolution(g):
    x = picture(g)
    channels, attributes = x.shape[1], window(g, x)
    group = g.random.choice([d for d in range(1, channels + 1) if channels % d == 0] + [1, 1])
    filters = group * g.random.choice([1, 2, 3, 4])
    weights = g.constant(g.numbers((filters, channels // group, *attributes['kernel_shape']), x.array.dtype))
    if group > 1:
        attributes['group'] = group
    bias = [g.constant(g.numbers((filters,), x.array.dtype))] if g.chance(0.5) else []
    y = g.emit('Conv', x, weights, *bias, **attributes)
    if g.opset >= 14 and g.chance(0.25):  # before, the evaluator trains
        norm = [np.abs(g.numbers((filters,), x.array.dtype)) + x.array.dtype.type(0.5) for _ in range(4)]
        y = g.emit('BatchNormalization', y, *norm)
    if g.chance(0.5):
        y = g.emit(g.random.choice(['Relu', 'Sigmoid', 'LeakyRelu']), y)
    if y.shape == x.shape and g.chance(0.5):
        g.emit('Add', y, x)


def deconvolution(g):
    x = picture(g, (1, 2))
    channels, n = x.shape[1], x.rank - 2
    group = g.random.choice([d for d in range(1, channels + 1) if channels % d == 0] + [1, 1])
    kernel = [g.random.choice([1, 2, 3, 4]) for _ in range(n)]
    strides = [g.random.choice([1, 2, 3]) for _ in range(n)]
    attributes = dict(strides=strides, group=group)
    if g.chance(0.4):
        attributes['pads'] = [g.random.randrange(0, kernel[i % n]) for i in range(2 * n)]
    if g.chance(0.3):
        attributes['output_padding'] = [g.random.randrange(0, s) for s in strides]
    filters = g.random.choice([1, 2, 3])
    # The evaluator gives all groups the bias of the first.
    bias = [g.constant(g.numbers((filters,), x.array.dtype))] if group == 1 and g.chance(0.5) else []
    g.emit('ConvTranspose', x, g.constant(g.numbers((channels, filters, *kernel), x.array.dtype)), *bias, **attributes)


def pool(g):
    x = picture(g)
    way = g.random.random()
    if way < 0.3:
        return g.emit(g.random.choice(['GlobalAveragePool', 'GlobalMaxPool']), x)
    attributes = window(g, x, pooling=True)
    if way < 0.65:
        if g.special:  # the evaluator loses a NaN that is not the first of its window
            raise Reject
        return g.emit('MaxPool', x, **attributes)
    g.emit('AveragePool', x, count_include_pad=g.random.randrange(2), **attributes)


def some_axes(g, rank):
    axes = g.random.sample(range(rank), g.random.randrange(1, rank + 1))
    return [a - rank if g.chance(0.3) else a for a in axes]


REDUCTIONS = ['ReduceSum', 'ReduceMean', 'ReduceMax', 'ReduceMin', 'ReduceSumSquare', 'ReduceL1', 'ReduceL2', 'ReduceProd',
              'ReduceLogSumExp']


def reduce(g, op, x, axes, keepdims):
    if op == 'ReduceSum' or g.opset >= 18:
        return g.emit(op, x, *([] if axes is None else [axes]), keepdims=keepdims)
    return g.emit(op, x, keepdims=keepdims, **({} if axes is None else dict(axes=axes)))


def reduction(g):
    x = g.pick(ranks=range(1, 6), where=lambda v: v.array.size > 0)
    op = g.random.choice(REDUCTIONS)
    if op == 'ReduceLogSumExp':
        x = tame(g, x)
    reduce(g, op, x, None if g.chance(0.1) else some_axes(g, x.rank), g.random.randrange(2))


def arg_reduction(g):
    x = g.pick('fi', ranks=range(1, 5), where=lambda v: v.array.size > 0)
    g.emit(g.random.choice(['ArgMax', 'ArgMin']), x, axis=g.random.randrange(-x.rank, x.rank), keepdims=g.random.randrange(2),
           select_last_index=int(g.chance(0.2)))


def cumulate(g):
    x = g.pick('fi', ranks=range(1, 4), where=lambda v: v.array.dtype.itemsize >= 4)
    g.emit('CumSum', x, np.asarray(g.random.randrange(-x.rank, x.rank), g.random.choice([np.int64, np.int32])),
           exclusive=int(g.chance(0.3)), reverse=int(g.chance(0.3)))


def softmax(g):
    x = tame(g, g.pick(ranks=range(1, 5)))
    axis = g.random.choice([-1, -1, g.random.randrange(x.rank)])
    way = g.random.random()
    if way < 0.6:
        return g.emit(g.random.choice(['Softmax', 'Softmax', 'LogSoftmax']), x, axis=axis)
    shifted = g.emit('Sub', x, reduce(g, 'ReduceMax', x, [axis], 1))
    powers = g.emit('Exp', shifted)
    g.emit('Div', powers, reduce(g, 'ReduceSum', powers, [axis], 1))


def layer_norm(g):
    x = g.pick(ranks=range(2, 5), where=lambda v: v.shape[-1] > 1)
    gain, shift = (g.constant(g.numbers(x.shape[-1:], x.array.dtype)) for _ in range(2))
    if g.opset >= 17 and g.chance(0.4):
        axis = g.random.choice([-1, x.rank - 1, x.rank - 2])
        wide = x.shape[axis:]
        gain, shift = (g.constant(g.numbers(wide, x.array.dtype)) for _ in range(2))
        return g.emit('LayerNormalization', x, gain, *([shift] if g.chance(0.8) else []), axis=axis)
    epsilon = np.asarray(1e-3, x.array.dtype)
    if g.chance(0.3):
        square = reduce(g, 'ReduceMean', g.emit('Mul', x, x), [-1], 1)
        return g.emit('Mul', g.emit('Div', x, g.emit('Sqrt', g.emit('Add', square, epsilon))), gain)
    centred = g.emit('Sub', x, reduce(g, 'ReduceMean', x, [-1], 1))
    two = np.asarray(2, x.array.dtype)
    square = g.emit('Pow', centred, two) if g.chance(0.5) else g.emit('Mul', centred, centred)
    spread = g.emit('Sqrt', g.emit('Add', reduce(g, 'ReduceMean', square, [-1], 1), epsilon))
    y = g.emit('Div', centred, spread) if g.chance(0.6) else g.emit('Mul', centred, g.emit('Reciprocal', spread))
    g.emit('Add', g.emit('Mul', y, gain), shift)


def channel_norm(g):
    x = picture(g)
    channels = x.shape[1]
    scale, shift, mean = (g.numbers((channels,), x.array.dtype) for _ in range(3))
    if g.opset >= 14 and g.chance(0.5):
        return g.emit('BatchNormalization', x, scale, shift, mean, np.abs(mean) + x.array.dtype.type(0.5), epsilon=1e-3)
    g.emit('InstanceNormalization', x, scale, shift, epsilon=1e-2)


def activation_idiom(g):
    x = g.pick()
    number = lambda v: np.asarray(v, x.array.dtype)
    way = g.random.randrange(4)
    if way == 0:
        inner = g.emit('Add', g.emit('Erf', g.emit('Div', x, number(1.41421356))), number(1))
        g.emit('Mul', g.emit('Mul', x, inner), number(0.5))
    elif way == 1:
        g.emit('Mul', x, g.emit('Sigmoid', x))
    elif way == 2:
        inner = g.emit('Clip', g.emit('Add', x, number(3)), number(0), number(6))
        g.emit('Div', g.emit('Mul', x, inner), number(6))
    else:
        cube = g.emit('Mul', g.emit('Mul', x, x), x)
        inner = g.emit('Mul', g.emit('Add', x, g.emit('Mul', cube, number(0.044715))), number(0.7978846))
        g.emit('Mul', g.emit('Mul', x, g.emit('Add', g.emit('Tanh', inner), number(1))), number(0.5))


def attention(g):
    x = g.pick(ranks=[2, 3, 4], where=lambda v: v.shape[-2] <= 17)
    width, dtype = x.shape[-1], x.array.dtype
    weights = lambda: g.constant((g.numbers((width, width)) * 0.3).astype(dtype))
    q, k, v = (g.emit('MatMul', x, weights()) if g.chance(0.7) else x for _ in range(3))
    order = list(range(x.rank))
    order[-2:] = order[:-3:-1]
    scores = g.emit('Mul', g.emit('MatMul', q, g.emit('Transpose', k, perm=order)), np.asarray(width ** -0.5, dtype))
    length = x.shape[-2]
    if g.chance(0.3):
        scores = g.emit('Where', g.constant(np.tril(np.ones((length, length), bool))), scores, np.asarray(-1e3, dtype))
    elif g.chance(0.4):
        scores = g.emit('Add', scores, g.fresh((length, length), dtype))
    g.emit('MatMul', g.emit('Softmax', scores, axis=-1), v)


FAMILIES = {new_input: 2, unary: 6, positive: 1, binary: 8, divide: 1, power: 1, clip: 1, residual: 3, matmul: 4, gemm: 2,
            einsum: 1, convolution: 4, deconvolution: 1, pool: 2, reduction: 4, arg_reduction: 1, cumulate: 1, softmax: 2,
            layer_norm: 2, channel_norm: 1, activation_idiom: 2, attention: 1}
