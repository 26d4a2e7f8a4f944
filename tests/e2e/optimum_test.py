"""The zoo's networks: what the partitioner takes costs no more than 2 % over the best grouping that CBC finds."""
import os
import subprocess
import sys

import pytest
from tool import ROOT

pytest.importorskip('onnx', reason='the zoo is written with onnx')
sys.path.insert(0, str(ROOT / 'models'))
from zoo_images import IMAGES  # noqa: E402
from zoo_tokens import TOKENS  # noqa: E402


def test_zoo(binary, tmp_path):
    program = binary.parent / 'optimum_test'
    if not program.is_file():
        pytest.skip('build/bin/optimum_test is not built')
    networks = []
    for name, make in (IMAGES | TOKENS).items():
        make().save(str(tmp_path / f'{name}.onnx'))
        sizes = ':batch=2' if name in IMAGES or name == 'vit' else ':batch=2:S=16'
        networks.append(f'{tmp_path / name}.onnx{sizes}')
    done = subprocess.run([program, '--gtest_filter=Optimum.RealNetworks'], stdout=subprocess.PIPE, text=True,
                          env=os.environ | {'WEFT_OPTIMUM_MODELS': ' '.join(networks)})
    if 'SKIPPED' in done.stdout:
        pytest.skip('without coinor-libcbc-dev nothing tells the optimum')
    assert done.returncode == 0, done.stdout
    assert done.stdout.count('of the optimum') == len(networks)
