"""What the tests from end to end share."""
import os
from pathlib import Path

import pytest
from tool import DIGITS, ROOT, Weft


@pytest.fixture(scope='session')
def binary():
    path = Path(os.environ.get('WEFT_BIN') or ROOT / 'build/bin/weft')
    if not path.is_file():
        pytest.skip('build/bin/weft is not built')
    return path.resolve()


@pytest.fixture(scope='session', autouse=True)
def cache(tmp_path_factory):
    """One cache for all tests of a process, so that a kernel is compiled once; not the user's."""
    os.environ['WEFT_CACHE_DIR'] = str(tmp_path_factory.mktemp('cache') / 'weft')


@pytest.fixture
def weft(binary, tmp_path):
    return Weft(binary, tmp_path)


@pytest.fixture(scope='session')
def digits_plan(binary, tmp_path_factory):
    """digits.onnx for one image, as a file."""
    folder = tmp_path_factory.mktemp('digits')
    Weft(binary, folder)('build', DIGITS, '--shape', 'image=1x1x16x16', '--budget', '0', '-o', 'digits.plan')
    return folder / 'digits.plan'


@pytest.fixture(scope='session')
def has_onednn(binary, tmp_path_factory):
    return Weft(binary, tmp_path_factory.getbasetemp()).json('devices')['libraries']['onednn'].startswith('onednn ')
