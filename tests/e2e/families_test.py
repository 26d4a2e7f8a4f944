"""The models of `./dev bench kernels`: a row of each family can be built and agrees with the fp64 reference."""
import sys

import pytest
from tool import ROOT

pytest.importorskip('onnx', reason='the rows are written with onnx')
sys.path.insert(0, str(ROOT / 'bench'))
import families  # noqa: E402

FIRST = [next(iter(rows)) for rows in families.FAMILIES.values()]


@pytest.mark.parametrize('name', FIRST)
def test_row(weft, name):
    once = [*families.ROWS[name].options, '--runs', '1', '--warmup', '0', '--budget', '0']
    said = weft.json('compare', families.path(name, weft.folder), '--against', 'reference', *once)
    assert said['accuracy']['weft']['within']


def test_names_are_unique():
    assert len(families.ROWS) == sum(map(len, families.FAMILIES.values()))
