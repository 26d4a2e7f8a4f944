"""What random networks move, index, choose and convert: layouts, gathers, casts, comparisons, integers."""
import numpy as np
from onnx import TensorProto, helper
from random_graph import Reject
from random_ops import broadcastable, partner, tame, window

ANY = 'fiub'


def transpose(g):
    x = g.pick(ANY, ranks=range(2, 6))
    order = list(range(x.rank))
    g.random.shuffle(order)
    g.emit('Transpose', x, **({} if g.chance(0.1) else dict(perm=order)))


def factors(g, count):
    """Extents whose product is the count."""
    shape = []
    while count > 1 and len(shape) < 4:
        divisors = [d for d in range(1, count + 1) if count % d == 0 and d <= 32]
        shape.append(g.random.choice(divisors))
        count //= shape[-1]
    shape.append(count)
    g.random.shuffle(shape)
    return shape


def reshape(g):
    x = g.pick(ANY)
    way = g.random.random()
    if way < 0.1:
        return g.emit('Flatten', x, axis=g.random.randrange(-x.rank, x.rank + 1))
    if way < 0.25:
        new = sorted(g.random.sample(range(x.rank + 2), 2 if g.chance(0.5) else 1))
        if max(new) >= x.rank + len(new):
            raise Reject
        return g.emit('Unsqueeze', x, new)
    ones = [a for a, e in enumerate(x.shape) if e == 1]
    if way < 0.4 and ones:
        return g.emit('Squeeze', x, *([] if g.chance(0.2) else [g.random.sample(ones, g.random.randrange(1, len(ones) + 1))]))
    shape = factors(g, x.array.size) if x.array.size else list(x.shape)
    if x.rank and g.chance(0.2) and x.array.size:
        shape = [0, *factors(g, x.array.size // x.shape[0])]
    if shape and g.chance(0.4):
        places = [i for i, e in enumerate(shape) if e]
        shape[g.random.choice(places)] = -1
    y = g.emit('Reshape', x, shape)
    if g.chance(0.3) and y.rank > 1:
        order = list(range(y.rank))
        g.random.shuffle(order)
        y = g.emit('Transpose', y, perm=order)
        if g.chance(0.5):
            g.emit('Reshape', y, factors(g, y.array.size))


def shape_idiom(g):
    """Extents asked for at run time, the way exporters ask."""
    x = g.pick(ANY, ranks=range(2, 5))
    first = g.emit('Gather', g.emit('Shape', x), np.asarray(0, np.int64))
    rows = g.emit('Unsqueeze', first, [0])
    g.emit('Reshape', x, g.emit('Concat', rows, g.constant(np.asarray([-1], np.int64)), axis=0))


def slice_(g):
    x = g.pick(ANY, ranks=range(1, 5))
    axes = g.random.sample(range(x.rank), g.random.randrange(1, min(x.rank, 2) + 1))
    starts, ends, steps = [], [], []
    for axis in axes:
        e = x.shape[axis]
        begin, end = sorted((g.random.randrange(e + 1), g.random.randrange(e + 1)))
        step = g.random.choice([1, 1, 2, 3])
        if begin == end:
            begin, end = 0, e
        if g.chance(0.2):
            begin, end, step = end - 1, (begin - 1 if begin else -2**31), -step
        elif g.chance(0.2):
            begin -= e
            end = 2**31 if end == e else end
        starts.append(begin), ends.append(end), steps.append(step)
    axes = [a - x.rank if g.chance(0.3) else a for a in axes]
    plain = all(s == 1 for s in steps) and g.chance(0.5)
    g.emit('Slice', x, starts, ends, axes, *([] if plain else [steps]))


def concat(g):
    x = g.pick(ANY, ranks=range(1, 5))
    axis = g.random.randrange(-x.rank, x.rank)
    others = []
    for _ in range(g.random.randrange(1, 3)):
        shape = list(x.shape)
        try:
            fits = lambda v: v.rank == x.rank and v.array.dtype == x.array.dtype and all(
                a == b for i, (a, b) in enumerate(zip(v.shape, x.shape)) if i != axis % x.rank)
            others.append(g.pick(x.kind, where=fits) if g.chance(0.6) else None)
        except Reject:
            others.append(None)
        if others[-1] is None:
            shape[axis] = g.random.choice([1, 2, 3])
            others[-1] = g.fresh(tuple(shape), x.array.dtype)
    others.insert(g.random.randrange(len(others) + 1), x)
    g.emit('Concat', *others, axis=axis)


def split(g):
    x = g.pick(ANY, ranks=range(1, 5), where=lambda v: max(v.shape) > 1)
    axis = g.random.choice([a for a, e in enumerate(x.shape) if e > 1])
    e = x.shape[axis]
    if g.chance(0.4) and e % 2 == 0:
        more = dict(num_outputs=2) if g.opset >= 18 else {}
        parts = g.emit('Split', x, n=2, axis=axis, **more)
    else:
        cut = g.random.randrange(1, e)
        parts = g.emit('Split', x, [cut, e - cut], n=2, axis=axis - x.rank)
    if parts[0].shape == parts[1].shape and x.kind == 'f' and g.chance(0.5):
        g.emit('Mul', parts[0], g.emit('Sigmoid', parts[1]))


def pad(g):
    x = g.pick('fi', ranks=range(1, 5))
    mode = g.random.choice(['constant', 'constant', 'edge', 'reflect'])
    most = [min(3, e - 1) if mode == 'reflect' else 2 for e in x.shape]
    pads = [g.random.randrange(0, most[i % x.rank] + 1) if g.chance(0.6) else 0 for i in range(2 * x.rank)]
    if mode == 'constant' and g.chance(0.2) and x.shape[0] > 1:
        pads[0] = -1
    value = [np.asarray(g.random.choice([0, 1, -2]), x.array.dtype)] if mode == 'constant' and g.chance(0.5) else []
    g.emit('Pad', x, pads, *value, mode=mode)


def expand(g):
    x = g.pick(ANY, ranks=range(0, 4))
    shape = [g.random.choice([2, 3, 5]) if e == 1 else e for e in x.shape]
    if g.chance(0.4):
        shape = [g.random.choice([1, 2, 3]), *shape]
    if g.chance(0.3) and x.rank:
        return g.emit('Tile', x, [g.random.choice([1, 2, 3]) for _ in x.shape])
    g.emit('Expand', x, [1 if g.chance(0.2) else e for e in shape] if len(shape) == x.rank else shape)


def depth_and_space(g):
    x = g.pick(ranks=[4])
    if x.shape[1] % 4 == 0:
        return g.emit('DepthToSpace', x, blocksize=2, mode=g.random.choice(['DCR', 'CRD']))
    if x.shape[2] % 2 or x.shape[3] % 2:
        raise Reject
    g.emit('SpaceToDepth', x, blocksize=2)


def indices(g, below, shape):
    """Legal places: constant, or computed from integers of the network."""
    if g.chance(0.5):
        return g.constant(g.numpy.integers(-below, below, shape), g.random.choice([np.int64, np.int32]))
    x = g.pick('i', where=lambda v: v.array.dtype == np.int64 and v.array.size <= 64)
    return g.emit('Mod', x, np.asarray(below, np.int64))


def gather(g):
    x = g.pick(ANY, ranks=range(1, 4), where=lambda v: v.array.size > 0)
    axis = g.random.randrange(-x.rank, x.rank)
    way = g.random.random()
    if way < 0.6:
        shape = g.random.choice([(), (1,), (3,), (2, 3), (5,)])
        return g.emit('Gather', x, indices(g, x.shape[axis], shape), axis=axis)
    if way < 0.8:
        shape = list(x.shape)
        shape[axis] = g.random.choice([1, 2, 4])
        return g.emit('GatherElements', x, g.constant(g.numpy.integers(0, x.shape[axis], shape)), axis=axis)
    depth = g.random.randrange(1, x.rank + 1)
    rows = [[g.random.randrange(e) for e in x.shape[:depth]] for _ in range(3)]
    g.emit('GatherND', x, g.constant(np.asarray(rows, np.int64)))


def scatter(g):
    x = g.pick(ranks=range(1, 4), where=lambda v: v.shape[0] > 1)
    rows = g.random.sample(range(x.shape[0]), 2)
    updates = g.fresh((2, *x.shape[1:]), x.array.dtype)
    if g.chance(0.5):
        return g.emit('ScatterND', x, g.constant(np.asarray(rows, np.int64)[:, None]), updates)
    places = np.broadcast_to(np.asarray(rows, np.int64).reshape(-1, *[1] * (x.rank - 1)), updates.shape).copy()
    g.emit('ScatterElements', x, g.constant(places), updates, axis=0)


def triangle(g):
    if g.opset < 14:
        raise Reject
    x = g.pick(ranks=range(2, 4))
    g.emit('Trilu', x, np.asarray(g.random.randrange(-2, 3), np.int64), upper=g.random.randrange(2))


def top(g):
    x = g.pick(ranks=range(1, 4), where=lambda v: v.shape[-1] > 1)
    k = g.random.randrange(1, x.shape[-1] + 1)
    g.emit('TopK', x, [k], n=2, axis=-1, largest=g.random.randrange(2))


def resize(g):
    x = g.pick(ranks=[4])
    sizes = [*x.shape[:2], x.shape[2] * g.random.choice([1, 2, 3]), x.shape[3] * 2]
    mode, where = g.random.choice([('nearest', 'asymmetric'), ('linear', 'half_pixel'), ('linear', 'align_corners'),
                                   ('linear', 'asymmetric')])
    more = dict(nearest_mode='floor') if mode == 'nearest' else {}
    g.emit('Resize', x, None, None, sizes, mode=mode, coordinate_transformation_mode=where, **more)


TYPES = {'f': [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16],
         'i': [TensorProto.INT32, TensorProto.INT64, TensorProto.INT8], 'b': [TensorProto.BOOL]}


def cast(g):
    x = g.pick(ANY)
    to = g.random.choice('ib' if x.kind == 'f' else 'ff' + 'ib')
    if x.kind == 'f' and g.chance(0.2):  # a detour through another type of float
        y = g.emit('Cast', x, to=g.random.choice(TYPES['f']))
        return g.emit('Cast', y, to=helper.np_dtype_to_tensor_dtype(g.dtype))
    if x.kind == 'f' and to == 'i':
        x = g.emit('Clip', x, np.asarray(-100, x.array.dtype), np.asarray(100, x.array.dtype))
    kinds = [helper.np_dtype_to_tensor_dtype(g.dtype)] if to == 'f' else TYPES[to]
    g.emit('Cast', x, to=g.random.choice(kinds))


def compare(g):
    x = g.pick('fi', where=lambda v: v.array.dtype != np.float16)
    op = g.random.choice(['Less', 'Greater', 'LessOrEqual', 'GreaterOrEqual', 'Equal'])
    g.emit(op, x, partner(g, x))


def choose(g):
    x = g.pick('fi')
    try:
        condition = g.pick('b', where=lambda v: np.broadcast_shapes(v.shape, x.shape) == x.shape) if g.chance(0.7) else None
    except (Reject, ValueError):
        condition = None
    condition = condition or g.fresh(broadcastable(g, x.shape), '?')
    g.emit('Where', condition, *([x, partner(g, x)] if g.chance(0.5) else [partner(g, x), x]))


def logic(g):
    x = g.pick('b')
    if g.chance(0.3):
        return g.emit('Not', x)
    g.emit(g.random.choice(['And', 'Or', 'Xor', 'Equal']), x, g.fresh(broadcastable(g, x.shape), '?'))


def floats_only(g):
    x = g.pick()
    if x.array.dtype == np.float16:
        raise Reject
    g.emit(g.random.choice(['IsNaN', 'IsInf']), x)


def whole(g):
    x = g.pick('iu')
    if x.array.dtype.itemsize < 4 and g.opset < 14:
        raise Reject
    op = g.random.choice(['Add', 'Sub', 'Mul', 'Max', 'Min', 'Abs', 'Neg', 'Mod', 'Div', 'ReduceSum', 'ReduceMax', 'Clip'])
    dtype = x.array.dtype
    if op in ('Abs', 'Neg'):
        return g.emit(op, x)
    if op == 'Mod':
        return g.emit(op, x, np.asarray(g.random.choice([2, 3, 7]), dtype))
    if op == 'Div':  # rounds towards zero; the evaluator does so where nothing is negative
        return g.emit(op, g.emit('Abs', x), np.asarray(g.random.choice([1, 2, 3, 7]), dtype))
    if op == 'ReduceSum':
        return g.emit(op, x, [g.random.randrange(x.rank)], keepdims=g.random.randrange(2))
    if op == 'ReduceMax':
        return g.emit(op, x, keepdims=g.random.randrange(2))
    if op == 'Clip':
        return g.emit(op, x, np.asarray(1, dtype), np.asarray(5, dtype))
    g.emit(op, x, partner(g, x))


def quantized(g):
    x = tame(g, g.pick(where=lambda v: v.array.dtype == np.float32))
    dtype = g.random.choice([np.uint8, np.int8])
    zero = np.asarray(g.random.choice([0, 3, 100]), dtype)
    scale = np.asarray(g.random.choice([0.05, 0.125, 0.3]), np.float32)
    q = g.emit('QuantizeLinear', x, scale, *([zero] if dtype == np.int8 or g.chance(0.6) else []))
    g.emit('DequantizeLinear', q, scale, zero if dtype == np.int8 else np.asarray(0, dtype))


def quantized_product(g):
    """What a network that was quantized holds: a product of dequantized bytes."""
    op = g.random.choice(['Conv', 'MatMul', 'Gemm'])
    rank = g.random.choice({'Conv': [3, 4], 'MatMul': [2, 3], 'Gemm': [2]}[op])
    try:
        q = g.pick('iu', ranks=[rank], where=lambda v: v.array.dtype.itemsize == 1 and v.array.size <= 400)
    except Reject:
        if len(g.inputs) >= 4:
            raise
        q = g.input(tuple(g.random.choice([1, 2, 3, 4, 5, 7]) for _ in range(rank)), g.random.choice(['u1', 'i1']))
    x = g.emit('DequantizeLinear', q, np.float32(0.125), *([np.asarray(3, q.array.dtype)] if g.chance(0.7) else []))
    n, attributes = g.random.choice([1, 2, 3, 5, 8, 17]), window(g, x) if op == 'Conv' else {}
    shape = {'Conv': (n, x.shape[1], *attributes.get('kernel_shape', [])), 'MatMul': (x.shape[-1], n), 'Gemm': (n, x.shape[-1])}[op]
    scales = g.numpy.uniform(0.01, 0.2, n if g.chance(0.6) else ()).astype(np.float32)
    weights = g.emit('DequantizeLinear', g.constant(g.numbers(shape, 'i1')), scales, axis=int(op == 'MatMul'))
    bias = [g.emit('DequantizeLinear', g.constant(g.numbers((n,), 'i4')), scales, axis=0)] if op != 'MatMul' and g.chance(0.6) else []
    if op == 'Gemm':
        attributes['transB'] = 1
    g.emit(op, x, weights, *bias, **attributes)


def integer_matmul(g):
    x = g.pick('iu', ranks=[2, 3], where=lambda v: v.array.dtype.itemsize == 1)
    other = g.constant(g.numbers((x.shape[-1], 5), g.random.choice([np.uint8, np.int8])))
    y = g.emit('MatMulInteger', x, other, *([np.asarray(3, x.array.dtype)] if g.chance(0.5) else []))
    if g.chance(0.6):
        g.emit('Mul', g.emit('Cast', y, to=helper.np_dtype_to_tensor_dtype(g.dtype)), np.asarray(0.01, g.dtype))


def one_hot(g):
    x = g.pick('i', ranks=range(0, 3), where=lambda v: v.array.dtype == np.int64)
    places = g.emit('Mod', x, np.asarray(4, np.int64))
    g.emit('OneHot', places, np.asarray(4, np.int64), np.asarray([0, 1], g.dtype), axis=-1)


FAMILIES = {transpose: 4, reshape: 5, shape_idiom: 1, slice_: 3, concat: 3, split: 2, pad: 2, expand: 2, depth_and_space: 1,
            gather: 3, scatter: 1, triangle: 1, top: 0.7, resize: 1, cast: 3, compare: 2, choose: 3, logic: 1, floats_only: 0.3,
            whole: 4, quantized: 1, quantized_product: 1.5, integer_matmul: 1, one_hot: 0.5}
