"""Corners of operators of ai.onnx that the onnx package's suite leaves out, against its reference evaluator."""
import ml_dtypes
import numpy as np
import pytest

onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
weft = pytest.importorskip('weft', reason='the Python package is not built')
from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from weft.backend import WeftRep  # noqa: E402


def model_of(op, version, operands, constants=(), kind=1, **attributes):
    """One node whose operands are inputs, but for those that are named as constants; its result is of a kind of onnx's."""
    given = {f'x{i}': np.asarray(a) for i, a in enumerate(operands)}
    fixed = [f'x{i}' for i in constants]
    tensors = [numpy_helper.from_array(given[n], n) for n in fixed]
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in given.items() if n not in fixed]
    graph = helper.make_graph([helper.make_node(op, list(given), ['y'], **attributes)], 'g', infos,
                              [helper.make_tensor_value_info('y', kind, None)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', version)], ir_version=11)
    return model, {n: a for n, a in given.items() if n not in fixed}


def agree(expected, *node, **options):
    """What the evaluator gives, or `expected`, unless that is None."""
    model, given = model_of(*node, **options)
    found = np.asarray(WeftRep(model).run(given)[0])
    expected = ReferenceEvaluator(model).run(None, given)[0] if expected is None else expected
    assert found.dtype == expected.dtype
    if found.dtype.kind in 'iu':
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('constants', [[1], []])
@pytest.mark.parametrize('align', [0, 1])
def test_grids_of_one_image_and_of_one_line(align, constants):
    flat, solid = np.random.default_rng(0).standard_normal((3, 2, 3)), np.random.default_rng(1).standard_normal((3, 3, 4))
    for size in ([1, 1, 2, 3], [1, 2, 1, 1], [2, 1, 1, 3], [3, 1, 4, 1], [1, 1, 2, 3, 2], [2, 1, 3, 1, 1], [1, 1, 1, 1, 1]):
        extents, theta = size[2:], (flat if len(size) == 4 else solid)[:size[0]].astype(np.float32)
        # The evaluator divides by 0 where an extent of 1 is aligned; there is one place then, -1.
        axes = [np.linspace(-1, 1, n) if align else (2 * np.arange(n) + 1) / n - 1 for n in extents]
        places = np.stack([*np.meshgrid(*axes, indexing='ij')[::-1], np.ones(extents)], -1)
        expected = np.einsum('nij,...j->n...i', theta, places).astype(np.float32)
        agree(expected, 'AffineGrid', 20, [theta, np.array(size)], constants=constants, align_corners=align)


F16, BF16, F32 = (helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in (np.float16, ml_dtypes.bfloat16, np.float32))
E8M0 = ml_dtypes.float8_e8m0fnu


@pytest.mark.parametrize('constants', [[0, 1], []])
@pytest.mark.parametrize('to', [F16, BF16, F32])
@pytest.mark.parametrize('scale', [np.float16, ml_dtypes.bfloat16, np.float32])
def test_the_type_of_dequantized_numbers(scale, to, constants):
    """Of the attribute, with products in float32 whatever the scale is."""
    large = np.array([[70000, -65535, 3]], np.int32), np.array(0.1, scale)
    shifted = np.array([[65535, 40001, 7]], np.uint16), np.array([0.01, 0.02, 3], scale), np.array([9, 0, 300], np.uint16)
    for operands in (large, shifted):
        agree(None, 'DequantizeLinear', 23, operands, constants, to, output_dtype=to)
    if np.dtype(scale) == helper.tensor_dtype_to_np_dtype(to):
        agree(None, 'DequantizeLinear', 23, large, constants, to)


@pytest.mark.parametrize('constants', [[0, 1], []])
@pytest.mark.parametrize('to', [F16, BF16, F32])
@pytest.mark.parametrize('kind', [ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.int8])
def test_scales_that_are_powers_of_two(kind, to, constants):
    x = np.array([[0, 1, 2, 3], [2, 3, -4, 6]], np.float32).astype(kind)
    scale = np.array([[2, 0.5], [2.0**-100, 4]], np.float32).astype(E8M0)
    agree(None, 'DequantizeLinear', 24, [x, scale], constants, to, axis=1, block_size=2, output_dtype=to)


def test_scales_that_are_powers_of_two_give_no_type():
    x, scale = np.array([1, 2], np.int8), np.array(2).astype(E8M0)
    model, given = model_of('DequantizeLinear', 24, [x, scale])
    with pytest.raises(weft.Error, match='expected a float by attribute "output_dtype"'):
        WeftRep(model).run(given)


@pytest.mark.parametrize('extents', [[2, 3], [1, 3], [2, 1], [1, 1], [4, 2, 3], [1], []])
def test_expands_to_what_the_run_says(extents):
    agree(None, 'Expand', 13, [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(extents, np.int64)])


@pytest.mark.parametrize('extents', [[5, 3], [2, 4], [0, 3], [3, 5, 3]])
def test_a_shape_that_does_not_fit_is_an_error(extents):
    with pytest.raises(weft.Error, match='do not broadcast'):
        agree(None, 'Expand', 13, [np.ones((2, 3), np.float32), np.array(extents, np.int64)])


@pytest.mark.parametrize('exponent', [np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize('base', [np.int32, np.int64])
def test_powers_of_integers_are_exact_and_wrap(base, exponent):
    numbers = np.array([0, 1, 2, 3, 7, 10, 99, -1, -2, -3, -99], base)
    powers = np.array([0, 1, 4, 13, 39, 41, 63, 64, 127], exponent)
    exact = np.array([[int(b)**int(p) % 2**64 for p in powers] for b in numbers], np.uint64).astype(base)
    agree(exact, 'Pow', 15, [numbers[:, None], powers[None]])
    if np.issubdtype(exponent, np.signedinteger):
        negative = np.array([-1, -2, -63], exponent)  # 1 / x^n towards zero
        inverse = np.array([[{1: 1, -1: (-1)**int(-p)}.get(int(b), 0) for p in negative] for b in numbers]).astype(base)
        agree(inverse, 'Pow', 15, [numbers[:, None], negative[None]])
