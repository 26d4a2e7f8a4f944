"""Integers of four bits: as inputs and outputs, in what quantizes, and as weights of products."""
import sys

import numpy as np
import pytest
from tool import ROOT, within

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
import ml_dtypes  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

sys.path.insert(0, str(ROOT / 'models'))
from builder import Builder  # noqa: E402

TYPES = {'int4': TensorProto.INT4, 'uint4': TensorProto.UINT4, 'int8': TensorProto.INT8, 'float32': TensorProto.FLOAT}
RNG = np.random.default_rng(4)


def saved(weft, nodes, inputs, outputs, constants=None):
    """inputs and outputs: name -> (type, shape)."""
    info = [[helper.make_tensor_value_info(n, TYPES[t], s) for n, (t, s) in side.items()] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, 'g', *info, [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()])
    path = weft.folder / 'model.onnx'
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 21)], ir_version=10), path)
    return path


def run(weft, model, *options, **inputs):
    np.savez(weft.folder / 'x.npz', **inputs)
    weft('run', model, '--inputs', 'x.npz', '-o', 'y.npz', '--force', 'own', *options)
    return dict(np.load(weft.folder / 'y.npz'))


@pytest.mark.parametrize('kind, low', [('int4', -8), ('uint4', 0)])
def test_inputs_and_outputs_are_bytes_outside(weft, kind, low):
    model = saved(weft, [helper.make_node('Transpose', ['x'], ['t'], perm=[1, 0]),
                         helper.make_node('Cast', ['x'], ['f'], to=TensorProto.FLOAT),
                         helper.make_node('Cast', ['f'], ['r'], to=TYPES[kind]),
                         helper.make_node('Reshape', ['x', 's'], ['v'])],
                  {'x': (kind, [7, 5])}, {'t': (kind, [5, 7]), 'f': ('float32', [7, 5]), 'r': (kind, [7, 5]), 'v': (kind, [35])},
                  {'s': np.array([35])})
    x = RNG.integers(low, low + 16, (7, 5)).astype(np.int8 if low else np.uint8)
    found = run(weft, model, x=x)
    for name, expected in {'t': x.T, 'f': x.astype(np.float32), 'r': x, 'v': x.reshape(35)}.items():
        assert found[name].dtype == expected.dtype and np.array_equal(found[name], expected), name
    said = weft.json('compare', model, '--against', 'reference', '--runs', '1', '--budget', '0')
    assert said['accuracy']['weft']['within']
    weft('compare', model, '--against', 'onnxruntime', '--runs', '1', '--budget', '0', code=4)
    assert 'numpy, which has no type for' in weft.said
    np.savez(weft.folder / 'x.npz', x=np.full((7, 5), low + 16, x.dtype))
    weft('run', model, '--inputs', 'x.npz', code=2)
    assert f'which {"i4" if low else "u4"} can\'t hold' in weft.said


def test_quantizes_per_tensor_axis_and_block(weft):
    x = (RNG.standard_normal((6, 64)) * 3).astype(np.float32)
    scales = {'tensor': np.float32(0.5), 'axis': RNG.uniform(0.2, 1, 6).astype(np.float32),
              'block': RNG.uniform(0.2, 1, (6, 4)).astype(np.float32)}
    spread = {'tensor': scales['tensor'], 'axis': scales['axis'][:, None], 'block': np.repeat(scales['block'], 16, 1)}
    nodes, constants = [], {}
    for name, scale in scales.items():
        more = {'axis': {'axis': 0}, 'block': {'axis': 1, 'block_size': 16}}.get(name, {})
        constants[f's_{name}'] = scale
        constants[f'z_{name}'] = np.full(scale.shape, -2 if name == 'block' else 0).astype(ml_dtypes.int4)
        for op, a, b in (('QuantizeLinear', 'x', 'q'), ('DequantizeLinear', f'q_{name}', 'd')):
            nodes.append(helper.make_node(op, [a, f's_{name}', f'z_{name}'], [f'{b}_{name}'], **more))
    outputs = {f'{b}_{name}': (t, [6, 64]) for name in scales for b, t in (('q', 'int4'), ('d', 'float32'))}
    found = run(weft, saved(weft, nodes, {'x': ('float32', [6, 64])}, outputs, constants), x=x)
    for name, scale in spread.items():
        zero = -2 if name == 'block' else 0
        expected = np.clip(np.rint(x / scale) + zero, -8, 7).astype(np.int8)
        assert np.array_equal(found[f'q_{name}'], expected), name
        assert np.array_equal(found[f'd_{name}'], (expected - zero).astype(np.float32) * scale), name


def packed(q, bits):
    """[n, ...] numbers, each row on its own, the first in the low bits."""
    if bits == 8:
        return q
    q = np.concatenate([q, np.zeros((*q.shape[:-1], q.shape[-1] % 2), q.dtype)], -1)
    return q[..., ::2] | q[..., 1::2] << 4


@pytest.mark.parametrize('rows', [1, 5, 17, 70])
@pytest.mark.parametrize('bits', [4, 8])
@pytest.mark.parametrize('zeros', [False, True])
@pytest.mark.parametrize('k', [128, 72])  # the last of its blocks is a half
def test_matmul_nbits(weft, rows, bits, zeros, k):
    n, block = 50, 16
    blocks = -(-k // block)
    q = RNG.integers(0, 1 << bits, (n, blocks * block)).astype(np.uint8)
    scale = RNG.uniform(0.5, 1.5, (n, blocks)).astype(np.float32)
    zero = RNG.integers(0, 1 << bits, (n, blocks)).astype(np.uint8) if zeros else np.full((n, blocks), 1 << bits - 1, np.uint8)
    bias = RNG.standard_normal(n).astype(np.float32)
    weights = ((q.astype(np.float64) - np.repeat(zero, block, 1)) * np.repeat(scale, block, 1))[:, :k]
    g = Builder('g', opset=17)
    x = g.input('x', [rows, k])
    blob = packed(q, bits).reshape(n, blocks, block * bits // 8)
    y = g.op('MatMulNBits', x, blob, scale.ravel(), packed(zero, bits).ravel() if zeros else None, None, bias,
             domain='com.microsoft', K=k, N=n, bits=bits, block_size=block)
    g.output('y', y, [rows, n])
    g.save(str(weft.folder / 'm.onnx'))
    value = RNG.standard_normal((rows, k)).astype(np.float32)
    found = run(weft, weft.folder / 'm.onnx', x=value)['y']
    assert within(found, (value @ weights.T + bias).astype(np.float32), 2e-6)


@pytest.mark.parametrize('form', ['matmul', 'transposed', 'gemm', 'column', 'tensor', 'int8'])
def test_dequantized_weights_stay_small_in_products_of_few_rows(weft, form):
    k, n, block = 96, 40, 32
    kind = np.int8 if form == 'int8' else ml_dtypes.int4
    q = RNG.integers(-8, 8, (k, n))
    scale = {'column': RNG.uniform(0.5, 1.5, n), 'tensor': np.array(0.7)}.get(form, RNG.uniform(0.5, 1.5, (k // block, n)))
    scale = scale.astype(np.float32)
    by_block = scale.ndim == 2
    weights = q * (np.repeat(scale, block, 0) if by_block else scale)
    turned = form in ('transposed', 'gemm')
    stored, scales = (q.T, scale.T) if turned else (q, scale)
    axis = {'axis': 1 if turned or not by_block else 0, **({'block_size': block} if by_block else {})}
    nodes = [helper.make_node('DequantizeLinear', ['w', 's'], ['d'], **axis)]
    if form == 'transposed':
        nodes.append(helper.make_node('Transpose', ['d'], ['t'], perm=[1, 0]))
    gemm = [helper.make_node('Gemm', ['x', 'd', 'c'], ['y'], transB=1)]
    nodes += gemm if form == 'gemm' else [helper.make_node('MatMul', ['x', 't' if form == 'transposed' else 'd'], ['y'])]
    c = RNG.standard_normal(n).astype(np.float32)
    model = saved(weft, nodes, {'x': ('float32', [3, k])}, {'y': ('float32', [3, n])},
                  {'w': np.ascontiguousarray(stored).astype(kind), 's': np.ascontiguousarray(scales), 'c': c})
    x = RNG.standard_normal((3, k)).astype(np.float32)
    expected = x.astype(np.float64) @ weights + (c if form == 'gemm' else 0)
    assert within(run(weft, model, x=x)['y'], expected.astype(np.float32), 2e-6)
    weft('build', model, '-o', 'f.plan', '--force', 'own', '--budget', '0')
    plan = weft('inspect', 'f.plan')
    assert ('i8[96, 40]' if form == 'int8' else 'i4[96, 40]') in plan, plan


@pytest.mark.parametrize('change, code, says', [
    ({'bits': 3}, 4, 'weights of 3 bits'),
    ({'block_size': 24}, 3, 'block_size is 24'),
    ({'N': 7}, 3, 'of weights, expected'),
    ({'K': -1}, 3, 'K is -1'),
    ({'g_idx': [0] * 31 + [2]}, 3, 'row 31 is of group 2, there are 2'),
    ({'g_idx': [0]}, 3, 'groups (g_idx) of 1 rows, expected 32')])
def test_what_is_wrong_with_a_product_is_said(weft, change, code, says):
    g = Builder('g', opset=17)
    attributes = {'K': 32, 'N': 4, 'bits': 4, 'block_size': 16} | change
    groups = attributes.pop('g_idx', None)
    y = g.op('MatMulNBits', g.input('x', [1, 32]), np.zeros((4, 2, 8), np.uint8), np.ones(8, np.float32),
             None, None if groups is None else np.int32(groups), domain='com.microsoft', **attributes)
    g.output('y', y, [1, 4])
    g.save(str(weft.folder / 'm.onnx'))
    weft('run', 'm.onnx', code=code)
    assert says in weft.said
