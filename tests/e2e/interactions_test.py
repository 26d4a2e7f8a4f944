"""Products of all pairs of vectors that were looked up in tables, as recommenders take them."""
import sys

import numpy as np
import pytest
from tool import ROOT, within

pytest.importorskip('onnx', reason='the models are written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402

RANDOM = np.random.default_rng(11)
ROWS = 40  # of a table


def random(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def interaction(weft, tables, batch, open_batch=False, shared=False):
    """Its path, inputs and result: a dense vector beside one of each table, and the products below the diagonal."""
    width, size = 32, len(tables) + 1
    dense, places = random(batch, width), RANDOM.integers(-ROWS, ROWS, (batch, len(tables)))
    below, left = np.tril_indices(size, -1)
    g = Builder('interaction', opset=18)
    x = g.input('dense', ['batch' if open_batch else batch, width])
    at = g.input('places', ['batch' if open_batch else batch, len(tables)], 'int64')
    rows = [g.Gather(g.weight(table, f'table_{k}'), g.Gather(at, np.array(k, np.int64), axis=1), axis=0)
            for k, table in enumerate(tables)]
    stacked = g.Reshape(g.Concat(x, *rows, axis=1), np.array([-1, size, width], np.int64))
    products = g.Reshape(g.MatMul(stacked, g.Transpose(stacked, perm=[0, 2, 1])), np.array([-1, size * size], np.int64))
    y = g.Concat(x, g.Gather(products, (below * size + left).astype(np.int64), axis=1), axis=1)
    g.output('y', g.Add(y, g.ReduceSum(rows[0], np.array([1], np.int64), keepdims=1)) if shared else y, [])
    path = weft.folder / 'interaction.onnx'
    g.save(str(path))
    vectors = np.stack([dense, *(table[places[:, k]] for k, table in enumerate(tables))], 1)
    expected = np.concatenate([dense, (vectors @ vectors.transpose(0, 2, 1))[:, below, left]], 1)
    if shared:
        expected = expected + vectors[:, 1].sum(1, keepdims=True)
    return path, {'dense': dense, 'places': places}, expected


@pytest.mark.parametrize('threads', [1, 2])
def test_rows_are_looked_up_where_they_are_multiplied(weft, threads):
    path, inputs, expected = interaction(weft, [random(ROWS, 32) for _ in range(19)], 512)
    options = '--force', 'own', '--budget', '0', '--threads', threads
    assert within(weft.run(path, inputs, *options)['y'], expected)
    weft('opt', '--from', 'graph', '--to', 'groups', path, *options, '-o', 'text')
    groups = [line for line in (weft.folder / 'text').read_text().splitlines() if line.startswith('  own ')]
    joined = [line for line in groups if 'MatMul' in line]
    assert len(joined) == 1 and joined[0].count('Gather') >= 19, groups


@pytest.mark.parametrize('count', [1, 2, 7, 40])
def test_few_and_many_tables(weft, count):
    path, inputs, expected = interaction(weft, [random(ROWS, 32) for _ in range(count)], 5)
    for options in (('--force', 'own'), ()):
        assert within(weft.run(path, inputs, '--budget', '0', *options)['y'], expected)


def test_rows_that_are_read_elsewhere_too(weft):
    path, inputs, expected = interaction(weft, [random(ROWS, 32) for _ in range(6)], 9, shared=True)
    assert within(weft.run(path, inputs, '--force', 'own', '--budget', '0')['y'], expected)


def test_open_batches(weft):
    path, inputs, expected = interaction(weft, [random(ROWS, 32) for _ in range(6)], 9, open_batch=True)
    assert within(weft.run(path, inputs, '--budget', '0')['y'], expected)


def test_places_outside_a_table(weft):
    path, inputs, _ = interaction(weft, [random(ROWS, 32) for _ in range(19)], 512)
    inputs['places'][40, 3] = ROWS
    np.savez(weft.folder / 'outside.npz', **inputs)
    weft('run', path, '--force', 'own', '--budget', '0', '--inputs', 'outside.npz', '-o', 'y.npz', code=3)
    assert 'table_3' in weft.said and str(ROWS) in weft.said, weft.said
