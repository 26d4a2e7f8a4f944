"""The network of the examples: right answers by every implementation, the same bytes by every way to a plan."""
import numpy as np
import pytest
from tool import DIGITS, ROOT, within

FORMS = ('graph', 'tc', 'groups', 'choices', 'sched', 'loops', 'call')
ONE = ('--shape', 'image=1x1x16x16')


@pytest.fixture(scope='module')
def data():
    with np.load(ROOT / 'tests/data/digits_io.npz') as file:
        return dict(file)


def check(weft, data, batch, *options, env=None):
    outputs = weft.run(DIGITS, {'image': data['image'][:batch]}, *options, env=env)
    assert list(outputs) == ['probabilities']
    assert within(outputs['probabilities'], data['probabilities'][:batch])
    return (outputs['probabilities'].argmax(1) == data['labels'][:batch]).mean()


@pytest.mark.parametrize('batch', [1, 32])
@pytest.mark.parametrize('options', [(), ('--force', 'own', '--strict'), ('--force', 'vendor')], ids=' '.join)
def test_reads_digits(weft, data, has_onednn, batch, options):
    if 'vendor' in options and not has_onednn:
        pytest.skip('oneDNN is not there')
    assert check(weft, data, batch, '--shape', f'image={batch}x1x16x16', *options) > 0.9


@pytest.mark.parametrize('options', [(), ('--force', 'own', '--strict')], ids=' '.join)
def test_reads_digits_without_a_library(weft, data, options):
    assert check(weft, data, 32, '--shape', 'image=32x1x16x16', *options, env={'WEFT_ONEDNN': 'none'}) > 0.9


def test_a_plan_runs_like_its_model(weft, data, digits_plan):
    inputs = {'image': data['image'][:1]}
    by_model = weft.run(DIGITS, inputs, *ONE)['probabilities']
    assert np.array_equal(weft.run(digits_plan, inputs)['probabilities'], by_model)


def test_a_model_from_standard_input(weft, digits_plan):
    weft('build', '-', *ONE, '--budget', '0', '-o', 'd.plan', stdin=DIGITS)
    assert (weft.folder / 'd.plan').read_bytes() == digits_plan.read_bytes()
    assert weft.json('check', '-', stdin=DIGITS)['supported']
    weft('run', '-', *ONE, stdin=DIGITS)
    weft('compare', '-', *ONE, '--against', 'unfused,reference', '--runs', '1', '--budget', '0', stdin=DIGITS)
    weft('opt', '--from', 'graph', '--to', 'graph', '-', '-o', 'digits.graph', stdin=DIGITS)
    weft('compare', '-', *ONE, '--against', 'onnxruntime', '--runs', '1', '--budget', '0', stdin=DIGITS, code=4)
    weft('check', '-', code=3)
    assert 'standard input' in weft.said


def test_two_builds_are_the_same_bytes(weft, digits_plan):
    for name in ('a.plan', 'b.plan'):
        weft('build', DIGITS, *ONE, '--budget', '0', '-o', name)
        assert (weft.folder / name).read_bytes() == digits_plan.read_bytes()


@pytest.mark.parametrize('form', FORMS)
def test_any_form_leads_to_the_same_plan(weft, digits_plan, form):
    text = f'digits.{form}'
    weft('opt', '--from', 'graph', '--to', form, DIGITS, *ONE, '-o', text)
    weft('opt', '--from', form, '--to', 'plan', text, '--budget', '0', '-o', 'digits.plan')
    assert (weft.folder / 'digits.plan').read_bytes() == digits_plan.read_bytes()


def test_a_measured_plan(weft, data, has_onednn):
    if not has_onednn:
        pytest.skip('without oneDNN there is nothing to choose between')
    options = ['--shape', 'image=1x1x16x16', '--budget', '10s', '--cache-dir', 'measured']
    first = weft.json('build', DIGITS, *options, '-o', 'first.plan')
    assert first['measured_groups'] == sum(first['steps'].values())
    # From the cache of modules.
    weft('build', DIGITS, *options, '-o', 'second.plan')
    assert (weft.folder / 'second.plan').read_bytes() == (weft.folder / 'first.plan').read_bytes()
    # From the records of the tuning database.
    for module in (weft.folder / 'measured').glob('*.module'):
        module.unlink()
    weft('build', DIGITS, *options, '-o', 'third.plan')
    assert (weft.folder / 'third.plan').read_bytes() == (weft.folder / 'first.plan').read_bytes()
    rows = weft.json('explain', DIGITS, *options)['groups']
    assert all(alternative['measured'] for row in rows for alternative in row['alternatives'])
    assert any(alternative['reason'] == 'measured_slower' for row in rows for alternative in row['alternatives'])
