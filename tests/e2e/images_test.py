"""ImageDecoder on files that Pillow writes: what Pillow reads, and never a crash on damaged ones."""
import io

import numpy as np
import pytest

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
Image = pytest.importorskip('PIL.Image', reason='the files are written with Pillow')
weft_package = pytest.importorskip('weft', reason='the Python package is not built')
from onnx import TensorProto, helper  # noqa: E402

LOSSLESS = ['bmp', 'png', 'ppm', 'tiff', 'webp', 'jpeg2000']


@pytest.fixture(scope='module')
def decode(tmp_path_factory):
    """decode(bytes, pixel format) through plans for streams of any length."""
    folder, plans = tmp_path_factory.mktemp('images'), {}

    def run(data, pixel_format='RGB'):
        if pixel_format not in plans:
            node = helper.make_node('ImageDecoder', ['data'], ['image'], pixel_format=pixel_format)
            graph = helper.make_graph([node], 'g', [helper.make_tensor_value_info('data', TensorProto.UINT8, ['n'])],
                                      [helper.make_tensor_value_info('image', TensorProto.UINT8, ['h', 'w', 'c'])])
            path = folder / f'{pixel_format}.onnx'
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 20)], ir_version=10), path)
            plans[pixel_format] = weft_package.build(path)
        return plans[pixel_format].run({'data': np.frombuffer(data, np.uint8)})['image']
    return run


def picture(height=37, width=53, channels=3):
    """Smooth, with some noise, so that lossy formats have something to do."""
    y, x = np.mgrid[:height, :width]
    planes = [128 + 100 * np.sin(x / (5 + c)) * np.cos(y / (7 - c)) for c in range(channels)]
    noise = np.random.default_rng(3).normal(0, 6, (height, width, channels))
    return np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)


def saved(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def opened(data):
    return Image.open(io.BytesIO(data))


def check(decode, data, slack=0):
    image = opened(data)
    rgb = np.asarray(image.convert('RGB')).astype(int)
    for form, expected in (('RGB', rgb), ('BGR', rgb[:, :, ::-1]), ('Grayscale', np.asarray(image.convert('L')).astype(int)[:, :, None])):
        found = decode(data, form)
        assert found.dtype == np.uint8 and found.shape == expected.shape
        assert np.abs(found.astype(int) - expected).max() <= slack, form


@pytest.mark.parametrize('form', LOSSLESS)
@pytest.mark.parametrize('size', [(37, 53), (1, 1), (64, 3)])
def test_lossless_formats(decode, form, size):
    options = {'lossless': True} if form == 'webp' else {}
    check(decode, saved(Image.fromarray(picture(*size)), form, **options))


@pytest.mark.parametrize('options', [
    {}, {'quality': 30}, {'subsampling': 0}, {'subsampling': 1}, {'progressive': True}, {'optimize': True, 'quality': 95}])
def test_jpeg(decode, options):
    check(decode, saved(Image.fromarray(picture()), 'jpeg', **options))


def test_jpeg_of_gray_and_of_inks(decode):
    check(decode, saved(Image.fromarray(picture(channels=1)[:, :, 0]), 'jpeg'))
    check(decode, saved(Image.fromarray(picture()).convert('CMYK'), 'jpeg'))


@pytest.mark.parametrize('form, mode', [
    ('png', 'L'), ('png', '1'), ('png', 'P'), ('png', 'LA'), ('png', 'RGBA'), ('bmp', 'L'), ('bmp', '1'), ('bmp', 'P'),
    ('bmp', 'RGBA'), ('ppm', 'L'), ('ppm', '1'), ('tiff', 'L'), ('tiff', 'P'), ('tiff', 'RGBA'), ('tiff', '1'),
    ('jpeg2000', 'L'), ('jpeg2000', 'RGBA')])
def test_other_kinds_of_pixels(decode, form, mode):
    image = Image.fromarray(picture())
    if mode in ('RGBA', 'LA'):
        image.putalpha(Image.fromarray(picture(channels=4)[:, :, 3]))
    check(decode, saved(image.convert(mode), form))


@pytest.mark.parametrize('compression', ['raw', 'tiff_lzw', 'packbits', 'tiff_adobe_deflate', 'jpeg'])
def test_tiff(decode, compression):
    check(decode, saved(Image.fromarray(picture()), 'tiff', compression=compression), slack=1 if compression == 'jpeg' else 0)


@pytest.mark.parametrize('orientation', range(1, 9))
def test_orientation_of_tiff(decode, orientation):
    check(decode, saved(Image.fromarray(picture(5, 9)), 'tiff', tiffinfo={274: orientation}))


def test_lossy_formats(decode):
    check(decode, saved(Image.fromarray(picture()), 'webp', quality=70))
    check(decode, saved(Image.fromarray(picture()), 'jpeg2000', irreversible=True), slack=1)


def test_portable_text(decode):
    for text in (b'P1 # a comment\n3 2\n1 0 1\n0 1 0\n', b'P2\n3 1\n#x\n15\n0 7 15\n', b'P3 1 2 255 1 2 3 250 251 252\n'):
        check(decode, text)
    pam = b'P7\nWIDTH 2\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n' + bytes([1, 2, 3, 4, 5, 6, 7, 8])
    assert decode(pam).tolist() == [[[1, 2, 3], [5, 6, 7]]]


def test_runs_of_bmp(decode):
    head = b'BM' + (0).to_bytes(8, 'little') + (14 + 40 + 8).to_bytes(4, 'little')
    info = (40).to_bytes(4, 'little') + (4).to_bytes(4, 'little') + (2).to_bytes(4, 'little') + b'\1\0\x08\0' + (1).to_bytes(4, 'little')
    info += bytes(12) + (2).to_bytes(4, 'little') + bytes(4)
    data = head + info + bytes([0, 0, 0, 0, 30, 20, 10, 0]) + bytes([3, 1, 1, 0, 0, 0, 0, 4, 0, 1, 1, 0, 0, 1])
    assert decode(data, 'RGB')[:, :, 0].tolist() == [[0, 10, 10, 0], [10, 10, 10, 0]]


def test_what_is_no_image_is_empty(decode):
    for data in (b'', b'x', b'no image at all', b'BM', b'P6', b'\xff\xd8', b'\x89PNG\r\n\x1a\n', b'RIFF....WEBP', b'II*\0', b'\0\0\0\x0cjP  '):
        assert decode(data, 'RGB').shape == (0, 0, 3) and decode(data, 'Grayscale').shape == (0, 0, 1)


@pytest.mark.parametrize('form', [*LOSSLESS, 'jpeg'])
def test_damaged_files(decode, form):
    """Cut off anywhere and with any bytes changed: an image, an empty one or an error of a limit, in reasonable time."""
    data = saved(Image.fromarray(picture(24, 17)), form)
    random = np.random.default_rng(len(data))
    decoded = 0
    for _ in range(150):
        bad = bytearray(data[:random.integers(1, len(data) + 1)] if random.random() < 0.3 else data)
        for _ in range(random.integers(0, 6)):
            bad[random.integers(0, min(len(bad), random.choice([32, 200, 10**6])))] = random.integers(0, 256)
        try:
            found = decode(bytes(bad))
        except weft_package.Error as error:
            assert 'pixels' in str(error) or 'limit' in str(error)
            continue
        decoded += found.size > 0
        assert found.shape == (0, 0, 3) or (found.shape[2] == 3 and found.size > 0)
    assert decoded > 0


def test_a_header_that_promises_too_much(decode):
    with pytest.raises(weft_package.Error, match='pixels'):
        decode(b'P6 100000 100000 255\n')
