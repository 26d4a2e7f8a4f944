"""What files of opset 9 and before say that later ones can't, against onnxruntime, or NumPy where that has it no more."""
import numpy as np
import pytest

onnx = pytest.importorskip('onnx', reason='the networks are written with onnx')
onnxruntime = pytest.importorskip('onnxruntime', reason='onnxruntime says what is right')
weft = pytest.importorskip('weft', reason='the Python package is not built')
from onnx import helper  # noqa: E402
from weft.backend import WeftRep  # noqa: E402


def rand(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(-2, 2, shape).astype(np.float32)


def model_of(op, opset, operands, outputs=1, **attributes):
    given = {f'x{i}': np.asarray(a) for i, a in enumerate(operands)}
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()]
    made = [f'y{i}' for i in range(outputs)]
    graph = helper.make_graph([helper.make_node(op, list(given), made, **attributes)], 'g', infos,
                              [helper.make_tensor_value_info(n, 1, None) for n in made])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', opset)], ir_version=4), given


def agree(expected, model, given):
    if expected is None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        expected = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, given)
    for found, wanted in zip(WeftRep(model).run(given), expected, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def refused(said, model, given):
    with pytest.raises(weft.Error, match=said):
        WeftRep(model).run(given)


IMAGES = rand(2, 3, 5, 7)


@pytest.mark.parametrize('op, attributes', [
    ('Affine', {'alpha': 1.5, 'beta': -0.5}),
    ('Crop', {'border': [1, 2, 3, 1]}),
    ('Crop', {'border': [0, 1, 0, 0]}),
    ('Crop', {'border': [2, 1, 0, 0], 'scale': [3, 4]}),
    ('ImageScaler', {'bias': [1.0, -2.0, 0.25], 'scale': 0.5}),
    ('MeanVarianceNormalization', {}),
    ('MeanVarianceNormalization', {'across_channels': 1}),
    ('MeanVarianceNormalization', {'normalize_variance': 0}),
    ('ParametricSoftplus', {'alpha': 0.5, 'beta': 2.0}),
    ('ScaledTanh', {'alpha': 0.5, 'beta': 2.0}),
    ('ThresholdedRelu', {'alpha': 0.75}),
    ('ThresholdedRelu', {})])
def test_operators_on_trial(op, attributes):
    agree(None, *model_of(op, 7, [IMAGES], **attributes))


def test_scale():
    agree([IMAGES * np.float32(0.25)], *model_of('Scale', 9, [IMAGES], scale=0.25))


@pytest.mark.parametrize('axes', [[], [[3, 1]]])
def test_slices_by_operands(axes):
    bounds = [np.array([1, 0], np.int64), np.array([3, -1], np.int64), *(np.array(a, np.int64) for a in axes)]
    expected = IMAGES[:, :-1, :, 1:3] if axes else IMAGES[1:3, 0:-1]
    agree([expected], *model_of('DynamicSlice', 9, [IMAGES, *bounds]))


@pytest.mark.parametrize('operands, attributes, shape', [
    ([IMAGES], {}, IMAGES.shape),
    ([IMAGES], {'extra_shape': [2]}, (*IMAGES.shape, 2)),
    ([], {'shape': [3, 4]}, (3, 4))])
def test_tensors_of_one_value(operands, attributes, shape):
    agree([np.full(shape, 1.5, np.float32)], *model_of('ConstantFill', 8, operands, value=1.5, **attributes))


@pytest.mark.parametrize('op, attributes, said', [
    ('Crop', {'border': [1, 2]}, 'not 4 widths'), ('Crop', {'border': [1, -2, 0, 0]}, 'not 4 widths'),
    ('Crop', {'border': [0] * 4, 'scale': [3]}, 'not a height and a width'), ('Crop', {}, 'border'),
    ('ParametricSoftplus', {'alpha': 1.0}, 'beta'), ('ConstantFill', {'shape': [2]}, 'expected an input or'),
    ('ConstantFill', {'dtype': 8}, 'no type of a constant'), ('ConstantFill', {'dtype': 17}, 'no type of a constant'),
    ('ImageScaler', {'bias': 3}, 'bias'), ('ImageScaler', {'bias': [1.0]}, 'found 1 biases for 3 channels'),
    ('Crop', {'border': [0, 3, 0, 3]}, 'found 5 at axis 2'), ('Crop', {'border': [2, 1, 0, 0], 'scale': [4, 6]}, 'found 7 at axis 3')])
def test_wrong_attributes(op, attributes, said):
    refused(said, *model_of(op, 7, [IMAGES], **attributes))


def test_what_opset_10_dropped_is_unknown_there():
    refused('Affine', *model_of('Affine', 10, [IMAGES]))


STATISTICS = [rand(3, seed=1), rand(3, seed=2), rand(3, seed=3), abs(rand(3, seed=4)) + 0.5]


@pytest.mark.parametrize('shape', [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_statistics_of_each_place(shape):
    x = rand(*shape)
    scale, bias, mean, variance = (np.broadcast_to(s.reshape(3, *[1] * (len(shape) - 2)), shape[1:]) + (i == 3) * abs(
        rand(*shape[1:])) for i, s in enumerate(STATISTICS))
    expected = (x - mean) / np.sqrt(variance + np.float32(1e-3)) * scale + bias
    operands = [x, *(np.ascontiguousarray(s) for s in (scale, bias, mean, variance))]
    agree([expected], *model_of('BatchNormalization', 7, operands, spatial=0, epsilon=1e-3))


@pytest.mark.parametrize('shape', [(4,), (1,), (3, 1, 4), (5, 3, 4, 4)])
def test_statistics_of_each_place_are_images(shape):
    refused('not the shape of an image', *model_of('BatchNormalization', 7, [rand(1, 3, 4, 4), *[rand(*shape)] * 4], spatial=0))


def test_statistics_of_each_place_in_halves():
    x = np.ones((2, 1, 2), np.float16)
    operands = [x, *(np.full((1, 2), v, np.float16) for v in (1, 0, 0, 0))]
    agree([np.full(x.shape, 1e4, np.float16)], *model_of('BatchNormalization', 7, operands, spatial=0, epsilon=1e-8))


def test_extents_of_an_input_want_an_input():
    refused('there is no input', *model_of('ConstantFill', 7, [], shape=[2], extra_shape=[3]))


def test_statistics_of_a_test_stay_what_they_are():
    model, given = model_of('BatchNormalization', 6, [IMAGES, *STATISTICS], 5, is_test=1)
    scale, bias, mean, variance = (s.reshape(3, 1, 1) for s in STATISTICS)
    expected = (IMAGES - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + bias
    agree([expected, *STATISTICS[2:], *STATISTICS[2:]], model, given)


@pytest.mark.parametrize('opset', [7, 9, 13])
def test_more_outputs_than_one_train(opset):
    model, given = model_of('BatchNormalization', opset, [IMAGES, *STATISTICS], 5, momentum=0.75)
    scale, bias, mean, variance = (s.reshape(3, 1, 1) for s in STATISTICS)
    mean_now, variance_now = IMAGES.mean((0, 2, 3)), IMAGES.var((0, 2, 3))
    y = (IMAGES - mean_now.reshape(3, 1, 1)) / np.sqrt(variance_now.reshape(3, 1, 1) + np.float32(1e-5)) * scale + bias
    agree([y, STATISTICS[2] * 0.75 + mean_now * np.float32(0.25), STATISTICS[3] * 0.75 + variance_now * np.float32(0.25),
           mean_now, variance_now], model, given)


def test_a_softmax_has_an_axis():
    refused('found axis 4 for rank 4', *model_of('Softmax', 11, [IMAGES], axis=4))
