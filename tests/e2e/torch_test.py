"""The peer `torch`: models come out of its translation as they should, and what it has no call for is told."""
import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tool import DIGITS, ROOT, within

pytest.importorskip('onnx', reason='the models are written with onnx')
import onnx  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

sys.path[:0] = [str(ROOT / 'models'), str(ROOT / 'bench')]
import families  # noqa: E402
import layers as L  # noqa: E402
from builder import Builder, f32  # noqa: E402
from spellings import SPELLINGS  # noqa: E402
from zoo_images import IMAGES  # noqa: E402
from zoo_tokens import TOKENS  # noqa: E402

ONCE = ('--runs', '1', '--warmup', '0', '--budget', '0')
HAS_TORCH = 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("torch"))'
PYTHON = next((python for python in (Path(sys.executable), ROOT / '.venv-peers/bin/python')
               if python.is_file() and subprocess.run([python, '-c', HAS_TORCH]).returncode == 0), None)
needs_torch = pytest.mark.skipif(PYTHON is None, reason='torch is not installed (./dev bench torch)')


# ---- integers that stand for other numbers ----
def quantized(op, x, *constants, made=1, **attributes):
    """A model of one node, and its input."""
    weights = [numpy_helper.from_array(a, f'c{i}') for i, a in enumerate(constants)]
    outputs = [f'y{i}' for i in range(made)]
    node = helper.make_node(op, ['x', *(w.name for w in weights)], outputs, **attributes)
    value = helper.make_tensor_value_info('x', helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    graph = helper.make_graph([node], op, [value], [onnx.ValueInfoProto(name=y) for y in outputs], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model), {'x': x}


def numbers(dtype, *shape, seed=0):
    """All of uint8; of int8 the middle half, since onnxruntime saturates sums of two products on older processors."""
    random = np.random.default_rng(seed)
    if dtype is np.float32:
        return random.standard_normal(shape, np.float32)
    low, high = {np.uint8: (0, 255), np.int8: (-64, 63), np.int32: (-2000, 2000)}[dtype]
    return random.integers(low, high, shape, dtype, endpoint=True)


def scale(*values):
    return np.array(values if len(values) > 1 else values[0], np.float32)


def integer_models():
    u8, i8 = np.uint8, np.int8
    signed, many = numbers(i8, 4, 3, 3, 3, seed=1), scale(0.01, 0.02, 0.03, 0.04)
    return {
        'quantize': quantized('QuantizeLinear', numbers(np.float32, 2, 4, 5), many, np.array([1, 2, 3, 4], u8), axis=1),
        'quantize_alone': quantized('QuantizeLinear', numbers(np.float32, 3, 4), scale(0.02)),
        'dequantize': quantized('DequantizeLinear', numbers(i8, 4, 5), many, np.array([1, 0, 3, 4], i8), axis=0),
        'dynamic_quantize': quantized('DynamicQuantizeLinear', numbers(np.float32, 7, 9), made=3),
        'matmul_integer': quantized('MatMulInteger', numbers(u8, 5, 600), numbers(i8, 600, 4), np.array(7, u8),
                                    np.array([1, -2, 3, 0], i8)),
        'conv_integer': quantized('ConvInteger', numbers(u8, 1, 3, 6, 6), numbers(u8, 4, 3, 3, 3), np.array(9, u8),
                                  pads=[1, 1, 1, 1]),
        'qlinear_matmul': quantized('QLinearMatMul', numbers(u8, 5, 8), scale(0.02), np.array(12, u8),
                                    numbers(i8, 8, 4), scale(0.01), np.array(0, i8), scale(0.1), np.array(100, u8)),
        'qlinear_conv': quantized('QLinearConv', numbers(u8, 1, 3, 6, 6), scale(0.02), np.array(12, u8), signed, many,
                                  np.zeros(4, i8), scale(0.3), np.array(100, u8), numbers(np.int32, 4)),
    }


# ---- recurrences ----
def recurrence(kind, gates, direction, bias=True, first=False):
    states, ways, hidden = 2 if kind == 'LSTM' else 1, 2 if direction == 'bidirectional' else 1, 5
    g = Builder(kind, opset=17)
    x = g.input('x', [6, 'batch', 4])
    weights = [g.normal([ways, gates * hidden, columns], 0.4) for columns in (4, hidden)]
    weights.append(g.normal([ways, 2 * gates * hidden], 0.4) if bias else None)
    given = [g.input(f'first{i}', [ways, 'batch', hidden]) for i in range(states)] if first else []
    reset = {'linear_before_reset': 1} if kind == 'GRU' else {}
    made = g.op(kind, x, *weights, *([None, *given] if given else []), outputs=1 + states, hidden_size=hidden,
                direction=direction, **reset)
    for i, value in enumerate(made):
        g.output(f'y{i}', value)
    return g


RECURRENCES = {f'{kind}_{direction}'.lower(): functools.partial(recurrence, kind, gates, direction, **more)
               for kind, gates in (('RNN', 1), ('GRU', 3), ('LSTM', 4))
               for direction, more in (('forward', {'first': True}), ('reverse', {}), ('bidirectional', {'bias': False}))}


# ---- against onnxruntime ----
FIRST = [name for name in map(next, map(iter, families.FAMILIES.values()))
         if families.ROWS[name].inputs != 'bfloat16'  # which onnxruntime has no kernels for
         and not any(node.op_type == 'MatMulNBits' for node in families.make(name).graph.node)]  # nor torch a call
FLOATS = {**SPELLINGS, **IMAGES, **TOKENS, **RECURRENCES, **{name: functools.partial(families.make, name) for name in FIRST}}
INTEGERS = integer_models()


@pytest.fixture(scope='module')
def results(tmp_path_factory):
    """name -> (outputs of the translation, expected outputs), of all models in one process."""
    reference = pytest.importorskip('reference', reason='onnxruntime is not installed', exc_type=ImportError)
    folder, expected = tmp_path_factory.mktemp('torch'), {}
    models = dict(INTEGERS)
    for name, make in FLOATS.items():
        made = make()
        model = made if isinstance(made, onnx.ModelProto) else made.model()
        models[name] = model, reference.make_inputs(model, dims={'batch': 2, 'S': 7}, seed=3)
    for name, (model, inputs) in models.items():
        onnx.save(model, folder / f'{name}.onnx')
        np.savez(folder / f'{name}.in.npz', **inputs)
        expected[name] = reference.run(str(folder / f'{name}.onnx'), inputs)
    subprocess.run([PYTHON, ROOT / 'tests/e2e/torch_eager.py', ROOT / 'cli', folder], check=True)
    return {name: (dict(np.load(folder / f'{name}.out.npz')), wanted) for name, wanted in expected.items()}


@needs_torch
@pytest.mark.parametrize('name', FLOATS)
def test_translation(results, name):
    found, expected = results[name]
    assert found.keys() == expected.keys()
    for output in expected:
        assert within(found[output], expected[output]), output


@needs_torch
@pytest.mark.parametrize('name', INTEGERS)
def test_translation_of_integers(results, name):
    found, expected = results[name]
    for output, wanted in expected.items():
        assert found[output].dtype == wanted.dtype
        steps = np.abs(found[output].astype(np.float64) - wanted)
        assert steps.max() <= (1 if name.startswith('qlinear') else 1e-6), output  # an order of sums may round apart


# ---- the arm ----
@needs_torch
def test_compare(weft):
    said = weft.json('compare', DIGITS, '--shape', 'image=3x1x16x16', '--against', 'torch', *ONCE, '--threads', '2',
                     env={'WEFT_PEER_PYTHON': str(PYTHON)}, limit_s=600)
    assert [arm['name'] for arm in said['arms']] == ['weft', 'torch'] and said['arms'][1]['p50_us'] > 0
    assert said['accuracy']['torch']['within'] and said['env']['peers']['torch']
    assert not list(weft.folder.iterdir())


@needs_torch
def test_folding_into_convolutions(weft):
    """torch folds numbers into weights, but the last of them into all, and does not look whether one is transposed."""
    g = Builder('folding', opset=17)
    x = g.input('x', [1, 8, 6, 6])
    for gain, offset in ((2.5, 0.3), (1.5, -0.7)):
        x = g.Add(g.Mul(L.conv(g, x, 8, 8), f32(gain)), np.array([offset], np.float32))
        x = g.HardSigmoid(L.conv(g, x, 8, 8), alpha=gain / 9)
        x = L.batch_norm(g, g.ConvTranspose(x, g.normal([8, 8, 2, 2], 0.3), strides=[2, 2]), 8)
    x = g.Add(g.ConvTranspose(x, g.normal([8, 1, 2, 2], 0.3), strides=[2, 2]), f32(0.5))
    g.output('y', x)
    onnx.save(g.model(), weft.folder / 'folding.onnx')
    said = weft.json('compare', 'folding.onnx', '--against', 'torch', *ONCE,
                     env={'WEFT_PEER_PYTHON': str(PYTHON)}, limit_s=600)
    assert said['accuracy']['torch']['within']


@needs_torch
def test_operators_without_a_call(weft):
    g = Builder('rare', opset=17)
    x = g.input('x', [1, 2, 8, 8])
    g.output('y', g.LpPool(g.LRN(g.Relu(x), size=3), kernel_shape=[2, 2], p=2))
    onnx.save(g.model(), weft.folder / 'rare.onnx')
    weft('compare', 'rare.onnx', '--against', 'torch', *ONCE, env={'WEFT_PEER_PYTHON': str(PYTHON)}, code=4)
    assert 'LRN, LpPool' in weft.said


@pytest.mark.parametrize('error', ['ModuleNotFoundError("No module named \'torch\'")',
                                   'ImportError("libcudart.so.13: cannot open shared object file")'])
def test_torch_is_absent(weft, tmp_path, error):
    (tmp_path / 'none').mkdir()
    (tmp_path / 'none' / 'torch.py').write_text(f'raise {error}\n')
    weft('compare', DIGITS, '--shape', 'image=1x1x16x16', '--against', 'torch', *ONCE, code=6,
         env={'WEFT_PEER_PYTHON': sys.executable, 'PYTHONPATH': str(tmp_path / 'none')})
    assert 'WEFT_PEER_PYTHON' in weft.said and error.split('"')[1] in weft.said
