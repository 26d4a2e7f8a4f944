"""weft tune: a budget is kept, what is found is remembered and used, nothing is lost."""
import signal
import sqlite3
import subprocess
import time

import numpy as np
import pytest
from tool import DIGITS, within

ONE = ('--shape', 'image=1x1x16x16', '--threads', '1')


@pytest.fixture
def own(tmp_path):
    """A cache that no other test fills."""
    return '--cache-dir', tmp_path / 'own'


def best(own):
    """Choices on record, by what they are for."""
    with sqlite3.connect(own[1] / 'tuning.db') as db:
        return dict(db.execute("SELECT what, note FROM measurement WHERE choice = 'best'"))


def test_tunes_within_its_budget(weft, own):
    begin = time.monotonic()
    tuned = weft.json('tune', DIGITS, *ONE, *own, '--budget', '6s')
    assert time.monotonic() - begin < 30
    assert tuned['stopped'] in ('budget', 'done') and tuned['seconds'] > 1
    assert tuned['trials'] == sum(g['trials'] for g in tuned['groups']) > 0
    assert {'name', 'trials', 'best_us', 'start_us', 'vendor_us'} <= tuned['groups'][0].keys()
    for group in tuned['groups']:
        assert 0 < group['best_us'] <= group['start_us'] * 1.0001, group
    with sqlite3.connect(own[1] / 'tuning.db') as db:
        assert db.execute("SELECT count(*) FROM measurement WHERE what LIKE 'alone%'").fetchone()[0] > 0


def test_nothing_is_searched_that_could_not_be_kept(weft, own):
    own[1].mkdir()
    (own[1] / 'tuning.db').write_bytes(np.random.default_rng(1).bytes(8192))
    begin = time.monotonic()
    error = weft.json('tune', DIGITS, *ONE, *own, '--budget', '60s', code=5)['error']
    assert 'measurements are not kept' in error['what'] and time.monotonic() - begin < 30


def test_builds_begin_with_what_was_found(weft, own):
    build = 'opt', '--from', 'graph', '--to', 'choices', DIGITS, *ONE, *own, '--force', 'own'
    weft(*build, '-o', 'before.choices')
    weft('build', DIGITS, *ONE, *own, '--budget', '0', '--force', 'own', '-o', 'before.plan')
    weft('tune', DIGITS, *ONE, *own, '--budget', '4s', '--force', 'own')
    weft(*build, '-o', 'after.choices')
    before, after = ((weft.folder / f'{name}.choices').read_text() for name in ('before', 'after'))
    assert (before != after) == bool(best(own))
    x = {'image': np.random.default_rng(0).random((1, 1, 16, 16), np.float32)}
    y, = weft.run('before.plan', x, *own).values()
    z, = weft.run(DIGITS, x, *ONE, *own, '--force', 'own').values()
    assert within(z, y)


def test_an_interrupted_search_keeps_what_it_has(weft, own):
    command = [str(a) for a in (weft.binary, 'tune', DIGITS, *ONE, *own, '--budget', '10m', '--json')]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode in (0, 130) and (process.returncode or '"interrupted"' in out)


def test_bodies_that_are_not_tuned_are_named(weft, own):
    onnx = pytest.importorskip('onnx', reason='onnx is not installed')
    model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 17]>
        g (float[8,16] x, bool c) => (float[8,16] y) {
            a = Exp(x)
            [choice] y = If(c) <then_branch = t () => (float[8,16] p) { p = Softmax(a) },
                                else_branch = e () => (float[8,16] q) { q = Relu(a) }>
        }''')
    onnx.save(model, weft.folder / 'm.onnx')
    assert weft.json('tune', 'm.onnx', '--threads', '1', *own, '--budget', '2s')['nested'] == ['choice']
    assert 'not tuned: 1 node(s) whose bodies are built when they run, choice first' in weft.said
    assert weft.json('tune', DIGITS, *ONE, *own, '--budget', '1s')['nested'] == [] and 'not tuned' not in weft.said


def test_what_can_not_be_tuned(weft, own):
    assert 'only kernels for a CPU' in (weft('tune', DIGITS, *ONE, *own, '--target', 'cuda:sm_90', code=4) or weft.said)
    weft('tune', 'absent.onnx', *own, code=3)
    weft('tune', DIGITS, *ONE, '--cache-dir', '/dev/null/none', code=5)
