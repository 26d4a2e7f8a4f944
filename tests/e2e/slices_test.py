"""Scatters and gathers by constant indices that are slices, and those that nearly are."""
import sys

import numpy as np
import pytest
from tool import ROOT

pytest.importorskip('onnx', reason='the models are written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402

RANDOM = np.random.default_rng(7)


def random(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def model(weft, build, **arrays):
    """A network of one output, `build` of the builder and its inputs."""
    g = Builder('slices', opset=18)
    g.output('y', build(g, *(g.input(name, list(a.shape)) for name, a in arrays.items())), [])
    g.save(str(weft.folder / 'slices.onnx'))
    return weft.folder / 'slices.onnx'


def operators(weft, path):
    weft('opt', '--from', 'graph', '--to', 'tc', path, '-o', 'text')
    return (weft.folder / 'text').read_text()


def tuples(*axes):
    """What index arrays say along each axis, as ScatterND has it."""
    return np.stack(np.meshgrid(*axes, indexing='ij'), -1).astype(np.int64)


# data's shape, along which axes what is indexed; what is behind them is whole
BOXES = {
    'one_axis': ((6, 5), [[2, 3]]),
    'to_the_end': ((6, 5), [[4, 5]]),
    'from_the_end': ((6, 5), [[-2, -1]]),
    'everything': ((3, 4), [[0, 1, 2]]),
    'two_axes': ((6, 5, 3), [[1, 2, 3], [0, 1]]),
    'three_axes': ((4, 5, 6), [[0, 1], [3], [2, 3, 4]]),
    'whole_in_front': ((2, 5, 6), [[0, 1], [1, 2], [0]]),
    'with_steps': ((8, 3), [[1, 3, 5]]),
    'backwards': ((8, 3), [[5, 4, 3]]),
    'apart': ((8, 3), [[0, 1, 5]]),
}


@pytest.mark.parametrize('name', BOXES)
def test_scatter_of_tuples(weft, name):
    shape, axes = BOXES[name]
    indices, x = tuples(*axes), random(*shape)
    updates = random(*indices.shape[:-1], *shape[len(axes):])
    path = model(weft, lambda g, x, u: g.ScatterND(x, indices, u), x=x, u=updates)
    expected = x.copy()
    expected[np.ix_(*axes)] = updates
    assert (weft.run(path, {'x': x, 'u': updates}, '--budget', '0')['y'] == expected).all()
    is_slice = name not in ('with_steps', 'backwards', 'apart')
    assert (' = ScatterND(' in operators(weft, path)) != is_slice


def test_scatter_whose_axes_are_turned(weft):
    """The first axis of the indices walks along the data's second."""
    indices, x, updates = tuples([1, 2, 3], [0, 1]).transpose(1, 0, 2), random(6, 5), random(2, 3)
    path = model(weft, lambda g, x, u: g.ScatterND(x, indices, u), x=x, u=updates)
    expected = x.copy()
    expected[1:4, 0:2] = updates.T
    assert (weft.run(path, {'x': x, 'u': updates}, '--budget', '0')['y'] == expected).all()


def test_scatter_whose_updates_meet(weft):
    indices, x, updates = np.full((2, 1), 3), random(6, 5), np.ones((2, 5), np.float32)
    path = model(weft, lambda g, x, u: g.ScatterND(x, indices, u), x=x, u=updates)
    expected = x.copy()
    expected[3] = 1
    assert (weft.run(path, {'x': x, 'u': updates}, '--budget', '0')['y'] == expected).all()


@pytest.mark.parametrize('axis, places, others', [(1, [2, 3], (4, 3)), (0, [-1], (6, 3)), (2, [0, 1], (2, 4)), (1, [0, 2], (4, 3))])
def test_scatter_of_elements(weft, axis, places, others):
    """`others` are how many updates there are along the other axes."""
    x = random(4, 6, 3)
    extents = list(others)
    extents.insert(axis, len(places))
    indices = np.broadcast_to(np.array(places).reshape([-1 if a == axis else 1 for a in range(3)]), extents).astype(np.int64)
    updates, expected = random(*extents), x.copy()
    np.put_along_axis(expected[tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(extents))], indices, updates, axis)
    path = model(weft, lambda g, x, u: g.ScatterElements(x, indices.copy(), u, axis=axis), x=x, u=updates)
    assert (weft.run(path, {'x': x, 'u': updates}, '--budget', '0')['y'] == expected).all()


def test_sums_are_no_assignments(weft):
    x, updates = random(6, 5), random(2, 5)
    path = model(weft, lambda g, x, u: g.ScatterND(x, np.array([[1], [2]]), u, reduction='add'), x=x, u=updates)
    expected = x.copy()
    expected[1:3] += updates
    assert (weft.run(path, {'x': x, 'u': updates}, '--budget', '0')['y'] == expected).all()


@pytest.mark.parametrize('count', [5, 40])
def test_a_loop_that_assigns(weft, count):
    """As many scatters as steps; the last state of all of them is what each step made."""
    x, steps = random(count + 2, 8), random(count, 8)

    def build(g, x, steps):
        for t in range(count):
            step = g.Mul(g.Slice(steps, np.array([t]), np.array([t + 1]), np.array([0])), np.float32(t + 1))
            x = g.ScatterND(x, np.array([[t + 1]]), step)
        return x
    path = model(weft, build, x=x, steps=steps)
    expected = x.copy()
    expected[1:-1] = steps * np.arange(1, count + 1, dtype=np.float32)[:, None]
    assert (weft.run(path, {'x': x, 'steps': steps}, '--budget', '0')['y'] == expected).all()
    assert operators(weft, path).count(' = Concat(') == 1


def test_boxes_that_overlap(weft):
    x, a, b = random(10, 4), random(5, 4), random(4, 4)

    def build(g, x, a, b):
        first = g.ScatterND(x, np.arange(1, 6)[:, None], a)
        return g.Add(g.ScatterND(first, np.arange(4, 8)[:, None], b), first)
    first = x.copy()
    first[1:6] = a
    second = first.copy()
    second[4:8] = b
    y = weft.run(model(weft, build, x=x, a=a, b=b), {'x': x, 'a': a, 'b': b}, '--budget', '0')['y']
    assert (y == first + second).all()


def test_states_that_are_all_read(weft):
    """Each is there as a whole, so that the next takes it as it is."""
    x, steps = random(8, 4), random(6, 4)

    def build(g, x, steps):
        sums = []
        for t in range(6):
            x = g.ScatterND(x, np.array([[t + 1]]), g.Slice(steps, np.array([t]), np.array([t + 1]), np.array([0])))
            sums.append(g.ReduceSum(x, np.array([0])))
        return g.Concat(*sums, axis=0)
    expected, state = [], x.copy()
    for t in range(6):
        state[t + 1] = steps[t]
        expected.append(state.sum(0))
    path = model(weft, build, x=x, steps=steps)
    assert np.allclose(weft.run(path, {'x': x, 'steps': steps}, '--budget', '0')['y'], expected, atol=1e-5)
    assert max(line.count(',') for line in operators(weft, path).splitlines() if ' = Concat(' in line and 'x_part' in line) <= 4


def windows(size, width, stride):
    return np.arange(0, size - width + 1, stride)[:, None] + np.arange(width)


@pytest.mark.parametrize('axis, indices', [(1, windows(20, 4, 2)), (0, windows(6, 3, 1).T), (1, windows(20, 5, 3)[:, ::-1]),
                                           (1, windows(20, 4, 2) - 20), (1, windows(20, 4, 2)[[0, 2, 1]]), (1, np.full((2, 3), 7))])
def test_gather_of_windows(weft, axis, indices):
    x = random(6, 20, 3)
    path = model(weft, lambda g, x: g.Gather(x, indices.astype(np.int64), axis=axis), x=x)
    assert (weft.run(path, {'x': x}, '--budget', '0')['y'] == np.take(x, indices, axis)).all()


DIAGONALS = np.arange(9)[:, None] - np.arange(9) + 8  # as distances from one place to another


@pytest.mark.parametrize('places', [DIAGONALS, DIAGONALS - 17, np.minimum(DIAGONALS, 9)])
def test_gather_of_diagonals(weft, places):
    x, indices = random(3, 9, 17), np.broadcast_to(places, (3, 9, 9)).astype(np.int64)
    path = model(weft, lambda g, x: g.GatherElements(x, indices.copy(), axis=2), x=x)
    assert (weft.run(path, {'x': x}, '--budget', '0')['y'] == np.take_along_axis(x, indices, 2)).all()


@pytest.mark.parametrize('rows, columns', [([1, 2, 3], [0, 2, 4]), ([1, 2, 3], [4, 0, 2]), ([-1, -2, -3], [3, 3, 3])])
def test_gather_of_tuples(weft, rows, columns):
    x, indices = random(6, 5, 4), np.stack([rows, columns], -1).astype(np.int64)
    path = model(weft, lambda g, x: g.GatherND(x, indices), x=x)
    assert (weft.run(path, {'x': x}, '--budget', '0')['y'] == x[rows, columns]).all()


def test_windows_are_fused(weft):
    """An unfolded image is a part of the product that reads it."""
    x, k = random(1, 8, 14, 14), random(16, 72)
    places = windows(14, 3, 1).T.astype(np.int64)

    def build(g, x, k):
        rows = g.Gather(g.Gather(x, places, axis=2), places, axis=4)  # [1, 8, 3, 12, 3, 12]
        turned = g.Transpose(rows, perm=[0, 1, 2, 4, 3, 5])
        return g.MatMul(k, g.Reshape(turned, np.array([1, 72, 144])))
    y = weft.run(model(weft, build, x=x, k=k), {'x': x, 'k': k}, '--budget', '0')['y']
    view = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (1, 2))  # [8, 12, 12, 3, 3]
    expected = k.astype(np.float64) @ view.transpose(0, 3, 4, 1, 2).reshape(72, 144)
    assert np.abs(y[0] - expected).max() < 1e-5 * np.abs(expected).max()
