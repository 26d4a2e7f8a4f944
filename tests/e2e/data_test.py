"""Where inputs and expected outputs come from: arrays, test_data_set folders, images; and the exit code they lead to."""
import random

import numpy as np
import pytest
from tool import DIGITS, ROOT

ONE = ('--shape', 'image=1x1x16x16')


@pytest.fixture(scope='module')
def sample():
    with np.load(ROOT / 'tests/data/digits_io.npz') as file:
        return {'image': file['image'][:1], 'probabilities': file['probabilities'][:1]}


@pytest.fixture
def data_set(weft, sample):
    """The sample as a test_data_set."""
    helper = pytest.importorskip('onnx.numpy_helper', reason='onnx is not installed')
    folder = weft.folder / 'test_data_set_0'
    folder.mkdir()
    for file, name in (('input_0.pb', 'image'), ('output_0.pb', 'probabilities')):
        (folder / file).write_bytes(helper.from_array(sample[name], 'called otherwise').SerializeToString())
    return folder


@pytest.mark.parametrize('by_plan', [False, True])
def test_a_data_set(weft, digits_plan, data_set, by_plan):
    said = weft.json('run', digits_plan if by_plan else DIGITS, '--data', data_set)
    assert said['accuracy']['probabilities']['within'] and said['accuracy']['probabilities']['max_rel'] < 1e-4
    assert 'generated' not in weft.said
    weft('bench', digits_plan, '--data', data_set, '--runs', '1')


def test_a_data_set_that_differs(weft, sample, data_set):
    helper = pytest.importorskip('onnx.numpy_helper')
    wrong = helper.from_array(sample['probabilities'] + 1e-3).SerializeToString()
    (data_set / 'output_0.pb').write_bytes(wrong)
    said = weft.json('run', DIGITS, '--data', data_set, code=1)
    assert said['accuracy']['probabilities']['within'] is False and 'probabilities' in weft.said
    weft('run', DIGITS, '--data', data_set, '--tolerance', '1e-2')
    assert weft.json('compare', DIGITS, '--data', data_set, '--against', 'unfused', '--runs', '1', code=1)['accuracy']
    (data_set / 'output_1.pb').write_bytes(wrong)
    weft('run', DIGITS, '--data', data_set, code=2)
    assert 'output_1.pb' in weft.said


def test_a_damaged_data_set(weft, data_set):
    whole = (data_set / 'input_0.pb').read_bytes()
    rng = random.Random(1)
    for _ in range(20):
        (data_set / 'input_0.pb').write_bytes(whole[:rng.randrange(len(whole))])
        weft('run', DIGITS, '--data', data_set, '-o', 'y.npz', code=3)
        assert 'input_0.pb' in weft.said and not (weft.folder / 'y.npz').exists()
    weft('run', DIGITS, '--data', 'absent', code=3)


@pytest.mark.parametrize('change, options, code', [
    (0, (), 0), (1e-2, (), 1), (1e-2, ('--atol', '0.02'), 0), (1e-2, ('--atol', '0.001'), 1), (1e-2, ('--rtol', '1e9'), 0),
    (1e-2, ('--tolerance', '0.1'), 0), (0, ('--tolerance', '-1'), 2), (0, ('--rtol', 'x'), 2)])
def test_expected(weft, sample, change, options, code):
    np.savez(weft.folder / 'x.npz', image=sample['image'])
    np.savez(weft.folder / 'y.npz', probabilities=(sample['probabilities'] + change).astype(np.float64))
    weft('run', DIGITS, '--inputs', 'x.npz', '--expected', 'y.npz', *options, code=code)


@pytest.mark.parametrize('arrays, code', [({'other': np.zeros(3, np.float32)}, 2), ({'probabilities': np.zeros(10, np.int64)}, 2),
                                          ({'probabilities': np.zeros((1, 11), np.float32)}, 1)])
def test_expected_of_another_kind(weft, digits_plan, arrays, code):
    np.savez(weft.folder / 'y.npz', **arrays)
    weft('run', digits_plan, '--expected', 'y.npz', code=code)
    assert weft.said


def picture(shape=(16, 16, 3)):
    return np.random.default_rng(7).integers(0, 256, shape, np.uint8)


def save(path, pixels, **options):
    pytest.importorskip('PIL.Image', reason='PIL is not installed').fromarray(pixels).save(path, **options)
    return path


def test_a_gray_image(weft, sample, digits_plan):
    pixels = picture((16, 16))
    file = save(weft.folder / 'x.png', pixels)
    image = ((pixels.astype(np.float32) - 127.5) * np.float32(1 / 127.5))[None, None]
    weft('run', digits_plan, '--input', f'image={file}', '--mean', '127.5', '--scale', str(1 / 127.5), '-o', 'png.npz')
    np.savez(weft.folder / 'x.npz', image=image)
    weft('run', digits_plan, '--inputs', 'x.npz', '-o', 'npz.npz')
    with np.load(weft.folder / 'png.npz') as found, np.load(weft.folder / 'npz.npz') as expected:
        assert np.allclose(found['probabilities'], expected['probabilities'], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize('suffix, slack', [('png', 0), ('jpg', 3)])
@pytest.mark.parametrize('layout', ['nchw', 'nhwc', 'chw', 'hwc'])
def test_a_colour_image(weft, suffix, slack, layout):
    helper = pytest.importorskip('onnx.helper', reason='onnx is not installed')
    import onnx
    image = pytest.importorskip('PIL.Image', reason='PIL is not installed')
    pixels = np.kron(picture((2, 3, 3)), np.ones((8, 8, 1), np.uint8))
    file = save(weft.folder / f'x.{suffix}', pixels, **({'quality': 95} if suffix == 'jpg' else {}))
    expected = np.asarray(image.open(file), np.float32)
    expected = expected.transpose(2, 0, 1) if layout.endswith('chw') else expected
    expected = expected[None] if layout.startswith('n') else expected
    value = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, expected.shape)
    model = helper.make_model(helper.make_graph([helper.make_node('Relu', ['x'], ['y'])], 'g', [value('x')], [value('y')]),
                              ir_version=8, opset_imports=[helper.make_opsetid('', 17)])
    onnx.save(model, weft.folder / 'm.onnx')
    weft('run', 'm.onnx', '--input', f'x={file}', '--layout', layout, '-o', 'y.npz')
    with np.load(weft.folder / 'y.npz') as found:
        assert np.abs(found['y'] - expected).max() <= slack
    weft('run', 'm.onnx', '--input', f'x={file}', '--layout', layout, '--mean', '1,2', code=2)


def test_images_that_are_not_to_be_trusted(weft, digits_plan):
    whole = {suffix: save(weft.folder / f'good.{suffix}', picture()).read_bytes() for suffix in ('png', 'jpg')}
    huge = bytearray(whole['png'])
    huge[16:24] = b'\x7f\xff\xff\xff' * 2  # width and height; the checksum is wrong now too
    cases = {'huge.png': bytes(huge), 'text.png': b'no image\n', 'empty.jpg': b''}
    rng = random.Random(1)
    cases |= {f'cut{at}.{s}': data[:at] for s, data in whole.items() for at in (3, 30, len(data) // 2)}
    for s, data in whole.items():
        for i in range(10):
            flipped = bytearray(data)
            flipped[rng.randrange(4, len(data))] ^= 1 << rng.randrange(8)
            cases[f'flip{i}.{s}'] = bytes(flipped)
    for name, data in cases.items():
        (weft.folder / name).write_bytes(data)
        weft('run', digits_plan, '--input', f'image={weft.folder / name}', '-o', 'y.npz',
             code=(2, 3, 5) if name.startswith('flip') else (3, 5))
        assert not (weft.folder / 'y.npz').exists()
    weft('run', digits_plan, '--input', 'image=absent.png', code=2)
