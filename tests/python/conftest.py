"""What the tests of the built package share. What is not built yet is skipped, with that reason."""
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / 'models/digits.onnx'


@pytest.fixture(scope='session')
def build_dir():
    """Where the tree was built: the package's folder is build/python."""
    for entry in os.environ.get('PYTHONPATH', str(ROOT / 'build/python')).split(os.pathsep):
        if Path(entry).name == 'python' and Path(entry).parent.is_dir():
            return Path(entry).parent
    pytest.skip('PYTHONPATH names no build/python')


@pytest.fixture(scope='session')
def weft(build_dir):
    if not list((build_dir / 'python/weft').glob('_weft*.so')):
        pytest.skip('the Python package is not built')
    sys.path.insert(0, str(build_dir / 'python'))
    import weft
    return weft


@pytest.fixture(scope='session')
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp('cache') / 'weft'


@pytest.fixture(scope='session')
def digits(weft, cache):
    """The network of the examples, built for the 32 images of tests/data."""
    return weft.build(MODEL, shapes={'image': (32, 1, 16, 16)}, cache_dir=cache)
