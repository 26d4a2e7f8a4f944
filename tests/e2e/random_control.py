"""Control flow of random networks, and extents that data decide.

Bodies are grown like networks: from nodes that are added, evaluated, and then moved out of the network into a graph of
their own. They read what lies outside. What a branch or a loop gives is found by evaluating the nodes of its body one by
one, so that its values carry noise as all others do. onnx's evaluator has the last word about the whole network, unless
there is what it gets wrong: it stacks the rows of a Loop as if they were matrices, takes a Loop without a condition for
one that never runs, and knows a Scan only forwards along the first axis.
"""
from dataclasses import replace

import numpy as np
from onnx import helper, numpy_helper
from random_value import Reject, Value

OPERATORS = ('If', 'Loop', 'Scan')
MOST_TRIPS = 8


def apply(g, node, scope):
    """The values a node gives where `scope` has those that it may read."""
    if node.op_type not in OPERATORS:
        return g.step(node, [scope[n] if n else None for n in node.input])
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    given = [scope[n] if n else None for n in node.input]
    if node.op_type == 'If':
        both = [run(g, attributes[f'{branch}_branch'], scope, []) for branch in ('else', 'then')]  # neither may be malformed
        found = both[bool(given[0].array)]
    elif node.op_type == 'Loop':
        found = loop(g, attributes['body'], scope, *given)
    else:
        found = scan(g, attributes, scope, given[:-1], given[-1])
    return [replace(v, name=name) for name, v in zip(node.output, found)]


def run(g, body, scope, given):
    inner = dict(scope)
    for proto in body.initializer:
        array = numpy_helper.to_array(proto)
        inner[proto.name] = Value(proto.name, array, (array, array))
    inner |= {i.name: replace(v, name=i.name) for i, v in zip(body.input, given)}
    for node in body.node:
        inner |= {v.name: v for v in apply(g, node, inner)}
    return [inner[o.name] for o in body.output]


def stacked(rows):
    pile = lambda arrays: np.stack(list(arrays))
    return Value('', pile(r.array for r in rows), tuple(map(pile, zip(*(r.noisy for r in rows)))), all(r.exact for r in rows))


def loop(g, body, scope, trips, on, *states):
    exact = lambda array: Value('', array, (array, array))
    rows, trip = [], 0
    on = on or exact(np.array(True))
    while on.array.item() and (trips is None or trip < trips.array.item()):
        if trip == MOST_TRIPS:
            raise Reject
        on, *found = run(g, body, scope, [exact(np.array(trip)), on, *states])
        states = found[:len(states)]
        rows.append(found[len(states):])
        trip += 1
    if not rows and len(body.output) > 1 + len(states):
        raise Reject  # the evaluator does not know the shape of no rows
    return [*states, *map(stacked, zip(*rows))]


def mapped(value, change):
    return replace(value, array=change(value.array), noisy=tuple(map(change, value.noisy)))


def scan(g, attributes, scope, states, sequence):
    """Over one sequence, as `sweep` makes them."""
    way = lambda name: attributes.get(f'scan_{name}', [0])[0]
    step = lambda name: -1 if way(name) else 1
    sequence = mapped(sequence, lambda a: np.moveaxis(a, way('input_axes'), 0)[::step('input_directions')])
    rows = []
    for i in range(sequence.shape[0]):
        found = run(g, attributes['body'], scope, [*states, mapped(sequence, lambda a: a[i])])
        if any(a.shape != b.shape for a, b in zip(states, found)):
            raise Reject  # a state keeps its shape; the evaluator does not look
        states = found[:len(states)]
        rows.append(found[len(states):])
    if not rows and len(attributes['body'].output) > len(states):
        raise Reject  # nor that of a Scan
    place = lambda a: np.moveaxis(a[::step('output_directions')], 0, way('output_axes'))
    return [*states, *(mapped(stacked(r), place) for r in zip(*rows))]


class Body:
    """Opens a graph inside of the network; what is added while it is open goes there."""

    def __init__(self, g, *given):
        self.g, self.given = g, given

    def __enter__(self):
        g = self.g
        self.before = [len(x) for x in (g.nodes, g.initializers, g.values)]
        g.values += self.given
        g.depth += 1
        return self

    def __exit__(self, *_):
        g = self.g
        g.depth -= 1
        self.nodes, constants = g.nodes[self.before[0]:], g.initializers[self.before[1]:]
        self.initializers = constants if g.chance(0.5) else []  # or it reads them from outside
        del g.nodes[self.before[0]:], g.values[self.before[2]:]
        if self.initializers:
            del g.initializers[self.before[1]:]

    def grow(self, most=3):
        self.g.grow(self.g.random.randrange(1, most + 1))

    def made(self, where=lambda v: True, like=None):
        """One of the values that its nodes gave; if none fits, one more node makes one of `like`."""
        names = {n for node in self.g.nodes[self.before[0]:] if node.op_type != 'Constant' for n in node.output}
        fit = [v for v in self.g.values[self.before[2]:] if v.name in names and where(v)]
        if fit:
            return self.g.random.choice(fit)
        if like is None:
            raise Reject
        return self.g.emit('Tanh' if like.kind == 'f' else 'Identity' if like.kind == 'b' else 'Neg', like)

    def graph(self, inputs, outputs, shaped=True):
        """What was added, as a graph; `shaped` says whether the extents of all trips are those of the first."""
        g = self.g
        info = lambda v, known: helper.make_tensor_value_info(
            v.name, helper.np_dtype_to_tensor_dtype(v.array.dtype), v.shape if known else None)
        known = shaped and g.chance(0.5)
        return helper.make_graph(self.nodes, g.name('body'), [info(v, known or v.rank == 0) for v in inputs],
                                 [info(v, known) for v in outputs], self.initializers)


def decision(g):
    """A scalar that is true or false, by data."""
    x = g.pick('f', where=lambda v: v.array.size > 0)
    total = g.emit('ReduceMax' if g.chance(0.5) else 'ReduceMin', x, keepdims=0)
    return g.emit('Greater', total, np.asarray(g.random.choice([0, 0.3, -0.5]), x.array.dtype))


def branches(g):
    way = g.random.random()
    on = decision(g) if way < 0.5 else g.constant(np.array(g.chance(0.5))) if way < 0.75 or g.depth else g.input((), '?')
    count = g.random.choice([1, 1, 2])
    with Body(g) as yes:
        yes.grow()
        results = distinct(g, [yes.made() for _ in range(count)])
    with Body(g) as no:
        no.grow()
        others = []
        for r in results:
            same = lambda v, r=r: v.array.dtype == r.array.dtype
            others.append(no.made(lambda v, r=r, same=same: same(v) and (v.shape == r.shape or g.chance(0.5)),
                                  like=g.pick('fiub', where=same)))
        others = distinct(g, others)
    g.emit('If', on, n=count, then_branch=yes.graph([], results), else_branch=no.graph([], others))


def distinct(g, values):
    """The values, each under a name of its own."""
    names = [v.name for v in values]
    return [g.emit('Identity', v) if v.name in names[:i] else v for i, v in enumerate(values)]


def trips(g):
    """How often a loop runs: constant, an input's, or counted."""
    way = g.random.random()
    count = np.array(g.random.choice([1, 1, 2, 3, 4]))
    if way < 0.4 or g.depth:
        return g.constant(count)
    if way < 0.7:
        return g.start(count)
    x = g.pick('f', where=lambda v: 0 < v.array.size)
    flags = g.emit('Cast', g.emit('Greater', x, np.asarray(0.5, x.array.dtype)), to=7)
    return g.emit('Min', g.emit('ReduceSum', flags, keepdims=0), np.array(4))


def repeat(g):
    state = g.pick('fi')
    index, on = g.call(g.name('i'), np.array(0)), g.call(g.name('on'), np.array(True))
    s = g.call(g.name('s'), state.array)
    s.noisy, s.exact = state.noisy, state.exact
    grows = state.rank and g.chance(0.3)
    with Body(g, index, on, s) as body:
        body.grow()
        same = lambda v: v.array.dtype == s.array.dtype
        if grows:
            after = g.emit('Concat', s, g.pick('fi', where=lambda v: same(v) and v.shape[1:] == s.shape[1:] and v.rank), axis=0)
        else:
            after = body.made(lambda v: same(v) and v.shape == s.shape, like=s)
        outputs = [g.emit('Less', index, np.array(g.random.randrange(4))) if g.chance(0.4) else g.emit('Identity', on), after]
        if g.chance(0.6):
            outputs.append(body.made())
        outputs = distinct(g, outputs)
    g.own_word = True
    first = None if g.chance(0.5) else g.constant(np.array(True))
    g.emit('Loop', trips(g) if g.chance(0.9) else None, first, state, n=len(outputs) - 1,
           body=body.graph([index, on, s], outputs, not grows))


def sweep(g):
    state, sequence = g.pick(), g.pick('fi', ranks=range(1, 5), where=lambda v: min(v.shape) > 0)
    axis = g.random.randrange(sequence.rank) if g.chance(0.4) else 0
    if sequence.shape[axis] > MOST_TRIPS:
        raise Reject
    s = g.call(g.name('s'), state.array)
    x = g.call(g.name('row'), np.moveaxis(sequence.array, axis, 0)[0])
    s.noisy, s.exact = state.noisy, state.exact
    x.noisy, x.exact = tuple(np.moveaxis(c, axis, 0)[0] for c in sequence.noisy), sequence.exact
    with Body(g, x, s) as body:
        body.grow()
        after = body.made(lambda v: v.array.dtype == s.array.dtype and v.shape == s.shape, like=s)
        outputs = distinct(g, [after, *([body.made()] if g.chance(0.7) else [])])
    attributes = {}
    if axis:
        attributes['scan_input_axes'] = [axis - sequence.rank if g.chance(0.3) else axis]
    if g.chance(0.3):
        attributes['scan_input_directions'] = [1]
    if len(outputs) > 1 and g.chance(0.3):
        attributes |= dict(scan_output_directions=[g.random.randrange(2)], scan_output_axes=[g.random.randrange(outputs[1].rank + 1)])
    g.own_word |= bool(attributes)
    g.emit('Scan', state, sequence, n=len(outputs), num_scan_inputs=1, body=body.graph([s, x], outputs), **attributes)


def found_rows(g):
    """Rows that data choose."""
    x = g.pick('fi', ranks=range(1, 5), where=lambda v: v.array.size > 0)
    axis = g.random.randrange(x.rank)
    others = [a for a in range(x.rank) if a != axis]
    total = x
    if others:
        total = g.emit('ReduceMax', x, *([others] if g.opset >= 18 else []), keepdims=0,
                       **({} if g.opset >= 18 else dict(axes=others)))
    keep = g.emit('Greater', total, np.asarray(0, x.array.dtype))
    if g.chance(0.4):
        return g.emit('Compress', x, keep, axis=axis)
    where = g.emit('Squeeze', g.emit('NonZero', keep), [0])
    g.emit('Gather', x, where, axis=axis)


def found_indices(g):
    x = g.pick('fib', ranks=range(1, 4))
    where = g.emit('NonZero', x)
    if g.chance(0.5):
        g.emit('GatherND', x, g.emit('Transpose', where, perm=[1, 0]))


def uniques(g):
    x = g.pick('i', where=lambda v: v.array.size > 0)
    if g.chance(0.4) and x.rank:
        return g.emit('Unique', x, n=g.random.choice([1, 4]), axis=g.random.randrange(x.rank), sorted=1)
    g.emit('Unique', x, n=g.random.choice([1, 4]), sorted=1)


def top_of_a_count(g):
    x = g.pick('f', ranks=range(1, 4), where=lambda v: v.shape[-1] > 1)
    flags = g.emit('Cast', decision(g), to=7)
    k = g.emit('Unsqueeze', g.emit('Add', flags, np.array(g.random.randrange(x.shape[-1]))), [0])
    g.emit('TopK', x, k, n=2, axis=-1)


def boxes(g):
    count = g.random.randrange(1, 9)
    corners = np.round(g.numpy.uniform(0, 4, (1, count, 2)) * 4) / 4
    sizes = np.round(g.numpy.uniform(0.5, 2, (1, count, 2)) * 4) / 4
    given = g.constant(np.concatenate([corners, corners + sizes], -1), np.float32)
    scores = g.constant(g.numpy.permutation(count).reshape(1, 1, count) / 8, np.float32)
    if not g.depth and len(g.inputs) < 4 and g.chance(0.5):
        scores = g.start(scores.array)
    chosen = g.emit('NonMaxSuppression', given, scores, np.array([g.random.randrange(0, 5)]), np.float32([0.4]), np.float32([0.1]))
    which = g.emit('Gather', chosen, np.array(2), axis=1)
    g.emit('Gather', g.emit('Squeeze', given, [0]), which, axis=0)


FAMILIES = {branches: 6, repeat: 6, sweep: 4, found_rows: 2, found_indices: 1, uniques: 1, top_of_a_count: 1, boxes: 1}
