"""Convolutions of volumes: direct, and by tiles of their last two axes, which the taps along the depth are summed over."""
import sys

import numpy as np
import pytest
from tool import ROOT, within

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402

CHANNELS, RANDOM = 64, np.random.default_rng(3)


def random(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def convolved(x, w, b, pads):
    n = len(pads) // 2
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *zip(pads[:n], pads[n:])])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3, 4))
    return np.einsum('ncdhwrst,kcrst->nkdhw', windows, w.astype(np.float64), optimize=True) + b[:, None, None, None]


# name -> x's extents behind its channels, the filter's, pads, batch
CASES = {
    'cube': ((4, 12, 14), (3, 3, 3), (1, 1, 1, 1, 1, 1), 1),
    'planes': ((3, 12, 14), (1, 3, 3), (0, 1, 1, 0, 1, 1), 2),
    'without_pads': ((5, 13, 11), (3, 3, 3), (0, 0, 0, 0, 0, 0), 1),
    'two_taps_deep': ((4, 12, 12), (2, 3, 3), (1, 1, 1, 0, 1, 1), 1),
    'five_taps_deep': ((3, 12, 12), (5, 3, 3), (2, 1, 1, 2, 1, 1), 1),
    'rows': ((4, 12, 16), (3, 1, 3), (1, 0, 1, 1, 0, 1), 1),
    'columns': ((4, 16, 12), (3, 3, 1), (1, 1, 0, 1, 1, 0), 1),
    'depth_alone': ((6, 12, 10), (3, 1, 1), (1, 0, 0, 1, 0, 0), 2),
    'depth_and_columns': ((6, 10, 12), (3, 1, 3), (0, 0, 1, 1, 0, 1), 1),
    'a_depth_of_one': ((1, 14, 14), (3, 3, 3), (1, 1, 1, 1, 1, 1), 1),
    'uneven_pads': ((4, 11, 13), (3, 3, 3), (2, 0, 1, 0, 2, 0), 1),
}


@pytest.mark.parametrize('threads', [1, 2])
@pytest.mark.parametrize('allow', ['none', 'winograd'])
@pytest.mark.parametrize('name', CASES)
def test_convolution(weft, name, allow, threads):
    shape, filter_, pads, batch = CASES[name]
    x, w, b = random(batch, CHANNELS, *shape), random(CHANNELS, CHANNELS, *filter_), random(CHANNELS)
    g = Builder('volumes')
    g.output('y', g.Relu(g.Conv(g.input('x', list(x.shape)), w, b, pads=list(pads))), [None] * 5)
    path = weft.folder / 'volumes.onnx'
    g.save(str(path))
    y = weft.run(path, {'x': x}, '--budget', '0', '--force', 'own', '--allow', allow, '--threads', str(threads))['y']
    assert within(y, np.maximum(convolved(x, w, b, pads), 0).astype(np.float32), 1e-6 if allow == 'none' else 1e-5)


def test_tiles_are_chosen(weft):
    """Where they save products, as those of images are."""
    g = Builder('cube')
    g.output('y', g.Conv(g.input('x', [1, 256, 4, 14, 14]), random(256, 256, 3, 3, 3), pads=[1] * 6), [None] * 5)
    g.save(str(weft.folder / 'cube.onnx'))
    weft('opt', '--from', 'graph', '--to', 'groups', 'cube.onnx', '--force', 'own', '--budget', '0', '--target', 'cpu:x86-64-v4', '-o', 'cube.groups')
    assert ': winograd}' in (weft.folder / 'cube.groups').read_text()
