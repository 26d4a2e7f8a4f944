"""The models of `./dev bench kernels`: a row of each family can be built and agrees with the fp64 reference."""
import sys

import pytest
from tool import ROOT

pytest.importorskip('onnx', reason='the rows are written with onnx')
sys.path.insert(0, str(ROOT / 'bench'))
import arms  # noqa: E402
import families  # noqa: E402

FIRST = [next(iter(rows)) for rows in families.FAMILIES.values()]


@pytest.mark.parametrize('name', FIRST)
def test_row(weft, name):
    once = [*families.ROWS[name].options, '--runs', '1', '--warmup', '0', '--budget', '0']
    said = weft.json('compare', families.path(name, weft.folder), '--against', 'reference', *once)
    assert said['accuracy']['weft']['within']


def test_a_peer_that_cannot_run_a_row_leaves_the_others(weft, monkeypatch):
    model = families.path('bf16_1x1024x1024', weft.folder)
    said = weft.json('compare', model, '--against', 'onnxruntime', '--runs', '1', '--budget', '0', code=4)
    assert said['error']['what'].startswith('onnxruntime ')

    def compare(model, names, *options):
        for peer in ('onnxruntime', 'openvino'):
            if peer in names:
                raise arms.Failed(f'{peer} says: no', peer)
        return {'arms': [{'name': name} for name in names],
                'speedup': {name: [0.9, 1.0, 1.1] for name in names}, 'accuracy': {'weft': {'max_rel': 0, 'within': True}},
                'env': {'cpu': 'a', 'isa': 'b threads=1', 'libraries': 'c'}}
    monkeypatch.setattr(arms, 'compare', compare)
    result = arms.measure(model, 1, 1)
    assert result['unable'].keys() == {'onnxruntime', 'openvino'}
    assert arms.machine([result]) == 'a, b, c'
    assert arms.best_rival(result) == (1.0, 'vendor')
    assert arms.cells(result)[:4] == ('1.00 [0.90, 1.10]', '1.00 [0.90, 1.10]', '-', '-')


def test_a_row_that_weft_fails_is_no_row(weft, monkeypatch):
    def compare(model, names, *options):
        raise arms.Failed('weft says no')
    monkeypatch.setattr(arms, 'compare', compare)
    with pytest.raises(arms.Failed):
        arms.measure('a.onnx', 1, 1)


def test_bytes_are_summed_exactly_or_not_at_all(weft):
    """A processor without VNNI, whose sums the library saturates, stood in for by what hides that from the library."""
    model, force = families.path('int8_1x1024x1024', weft.folder), ('--force', 'vendor', '--budget', '0')
    if 'onednn.matmul' not in weft('explain', model, *force):
        pytest.skip('no AVX512-VNNI, or no oneDNN')
    assert 'saturate' in weft('explain', model, *force, '--target', 'cpu:x86-64-v4')
    weft('run', model, *force)
    weft('run', model, *force, env={'ONEDNN_MAX_CPU_ISA': 'AVX512_CORE'}, code=4)
    assert 'saturates' in weft.said


def test_names_are_unique():
    assert len(families.ROWS) == sum(map(len, families.FAMILIES.values()))
