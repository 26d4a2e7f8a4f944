"""What device_test tries on a device that stands in for one, on a GPU, where there is one: `./dev test gpu`."""
import ctypes

import pytest
from device_test import (OnDevice, test_a_caller_in_c, test_calls_of_libraries, test_libraries_and_kernels_agree,  # noqa: F401
                         test_network, test_random_network, test_random_network_by_libraries, test_steps_are_timed,
                         test_the_cpu_says_the_same, test_the_programs_of_a_device, test_what_the_cache_lost_is_compiled_again)
from tool import DIGITS, Weft

try:
    ctypes.CDLL('libcuda.so.1')
except OSError as why:  # once for all, not test by test
    pytest.skip(f'needs a GPU: {why}', allow_module_level=True)

TARGETS = {'8': 'cuda:sm_80', '9': 'cuda:sm_90', '10': 'cuda:sm_100'}  # by major compute capability


@pytest.fixture(scope='module')
def found(binary, tmp_path_factory):
    """The first GPU that there is a target for."""
    said = Weft(binary, tmp_path_factory.mktemp('devices')).json('devices')
    for gpu in said['cuda']['devices']:
        target = TARGETS.get(gpu['compute_capability'].split('.')[0])
        if target in said['cuda']['targets']:
            return {**gpu, 'target': target, 'libraries': said['libraries']}
    pytest.skip('needs a GPU: ' + (said['cuda']['why_no_device'] or said['cuda']['why_no_compiler'] or 'none of these is a target'))


@pytest.fixture(scope='module')
def environment(found, tmp_path_factory):
    return {'WEFT_CACHE_DIR': str(tmp_path_factory.mktemp('cubins') / 'weft')}


@pytest.fixture
def device(found, binary, tmp_path, environment):
    return OnDevice(binary, tmp_path, environment, found['target'])


def test_peaks(found):
    assert found['peak_flops_per_s'] > 1e12 and found['peak_bytes_per_s'] > 1e11


def test_what_is_measured_decides(device, found):
    """Whatever wins, it was measured, and a second build reads it from the records."""
    if not found['libraries']['cudnn'] and not found['libraries']['cublas']:
        pytest.skip('without a library there is nothing to choose between')
    build = ('build', DIGITS, '--shape', 'image=1x1x16x16', *device.cuda, '--budget', '20s')
    assert device.json(*build, '-o', 'first.plan')['measured_groups'] > 0
    device(*build, '-o', 'second.plan')
    assert (device.folder / 'first.plan').read_bytes() == (device.folder / 'second.plan').read_bytes()
