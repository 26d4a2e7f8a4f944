"""The zoo: small networks in the style of real exports, against the fp64 reference and against onnxruntime."""
import sys

import pytest
from tool import ROOT, within

pytest.importorskip('onnx', reason='the zoo is written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from zoo_images import IMAGES  # noqa: E402
from zoo_tokens import TOKENS  # noqa: E402

MAKE = IMAGES | TOKENS


def bindings(name):
    """One dimension to all ones, and an odd one."""
    if name in IMAGES or name == 'vit':
        return [{'batch': 1}, {'batch': 3}]
    return [{'batch': 1, 'S': 1}, {'batch': 2, 'S': 7}]


CASES = [pytest.param(name, dims, id='-'.join([name, *(f'{k}{v}' for k, v in dims.items())]))
         for name in MAKE for dims in bindings(name)]


def dim_options(dims):
    return [word for name, extent in dims.items() for word in ('--dim', f'{name}={extent}')]


@pytest.fixture(scope='module')
def models(tmp_path_factory):
    """name -> path, written when first asked for."""
    folder = tmp_path_factory.mktemp('zoo')

    def path(name):
        file = folder / f'{name}.onnx'
        if not file.exists():
            MAKE[name]().save(str(file))
        return file
    return path


@pytest.mark.parametrize('name, dims', CASES)
def test_network(weft, models, name, dims):
    said = weft.json('compare', models(name), *dim_options(dims), '--against', 'reference', '--runs', '1', '--warmup', '0')
    assert said['accuracy']['weft']['within'] and said['accuracy']['weft']['max_rel'] <= 1e-4

    reference = pytest.importorskip('reference', reason='onnxruntime is not installed', exc_type=ImportError)
    import onnx
    inputs = reference.make_inputs(onnx.load(models(name)), dims=dims, seed=3)
    expected = reference.run(str(models(name)), inputs)
    found = weft.run(models(name), inputs, *dim_options(dims))
    assert found.keys() == expected.keys()
    for output in expected:
        assert within(found[output], expected[output]), output
