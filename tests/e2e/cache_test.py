"""The compilation cache and the tuning database, looked after by hand."""
import pytest
from tool import DIGITS

ONE = ('--shape', 'image=1x1x16x16')


@pytest.fixture
def own(tmp_path):
    """A cache that no other test fills."""
    return '--cache-dir', tmp_path / 'own'


def why(weft, own, *options):
    return weft.json('cache', 'why', DIGITS, *ONE, *own, *options)['specializations']


def test_why_tells_what_a_build_would_find(weft, own):
    found, = why(weft, own, '--budget', '0')
    assert not found['planned'] and 'nothing was built' in found['why'] and found['measured'] == 0 < found['steps']
    assert found['kernels'] and not any(k['compiled'] for k in found['kernels'])
    weft('build', DIGITS, *ONE, *own, '--budget', '0', '-o', 'd.plan')
    again, = why(weft, own, '--budget', '0')
    assert again['planned'] and again['key'] == found['key'] and all(k['compiled'] for k in again['kernels'])
    default, = why(weft, own)  # as `weft build` without options would
    assert not default['planned'] and default['key'] != found['key'] and 'built with --budget 0' in default['why']
    assert all(k['compiled'] for k in default['kernels'])
    profiles = [f'--profile=image={n}x1x16x16' for n in (1, 2)]
    two = weft.json('cache', 'why', DIGITS, *profiles, *own, '--budget', '0')['specializations']
    assert [s['planned'] for s in two] == [True, False]
    assert weft('cache', 'why', DIGITS, *ONE, *own, '--budget', '0').startswith('planned; ')
    weft('cache', 'why', 'absent.onnx', *own, code=3)


def test_a_budget_is_for_all_specializations(weft, own):
    profiles = [f'--profile=image={n}x1x16x16' for n in (1, 2)]
    weft('build', DIGITS, *profiles, *own, '--budget', '1s', '-o', 'd.plan')
    whole = weft.json('cache', 'why', DIGITS, *profiles, *own, '--budget', '1s')['specializations']
    half = weft.json('cache', 'why', DIGITS, profiles[1], *own, '--budget', '500ms')['specializations']
    alone = weft.json('cache', 'why', DIGITS, profiles[1], *own, '--budget', '1s')['specializations']
    assert [s['planned'] for s in (*whole, *half, *alone)] == [True, True, True, False]
    assert half[0]['key'] == whole[1]['key']


def test_what_takes_any_extents_takes_no_part_of_the_budget(weft, own):
    weft('build', DIGITS, '--shape', 'image=1..8@2x1x16x16', *own, '--budget', '1s', '-o', 'd.plan')
    alone, = weft.json('cache', 'why', DIGITS, '--profile', 'image=2x1x16x16', *own, '--budget', '1s')['specializations']
    assert alone['planned']


def test_stats_and_prune(weft, own):
    folder = own[1]
    assert weft.json('cache', 'stats', *own) == {'schema': 1, 'directory': str(folder), 'kinds': {}, 'measurements': 0}
    weft('build', DIGITS, *ONE, *own, '--budget', '0', '-o', 'd.plan')
    stats = weft.json('cache', 'stats', *own)
    files = sorted(folder.glob('*.so'))
    assert stats['kinds']['so'] == {'entries': len(files), 'bytes': sum(f.stat().st_size for f in files)}
    assert stats['kinds']['module']['entries'] == 1 and 'so: ' in weft('cache', 'stats', *own)
    entries = len(files) + 1
    files[0].write_bytes(files[0].read_bytes()[:-1] + b'?')
    pruned = weft.json('cache', 'prune', *own)
    assert pruned['damaged']['entries'] == 1 and pruned['old']['entries'] == 0 and not files[0].exists()
    assert pruned['kept']['entries'] == entries - 1 > 1
    half = weft.json('cache', 'prune', *own, '--max-size', str(pruned['kept']['bytes'] - 1))
    assert half['old']['entries'] == 1 and half['kept']['entries'] == entries - 2
    assert weft('cache', 'prune', *own, '--max-size', '0').startswith('0 damaged and ')
    assert weft.json('cache', 'stats', *own)['kinds'] == {}
    weft('cache', 'prune', *own, '--max-size', 'much', code=2)
    weft('run', 'd.plan', *own)  # compiles what is gone


def test_measurements_travel(weft, own, has_onednn):
    if not has_onednn:
        pytest.skip('without a library there is nothing to measure')
    weft('build', DIGITS, *ONE, *own, '--budget', '2s', '-o', 'd.plan')
    count = weft.json('cache', 'stats', *own)['measurements']
    assert count > 0 and why(weft, own, '--budget', '2s')[0]['measured'] > 0
    assert weft.json('cache', 'export', *own, '-o', 'a.db') == {'schema': 1, 'file': 'a.db', 'measurements': count}
    other = '--cache-dir', weft.folder / 'other'
    assert weft.json('cache', 'import', 'a.db', *other) == {'schema': 1, 'imported': count, 'measurements': count}
    assert weft.json('cache', 'import', 'a.db', *other)['imported'] == 0
    assert why(weft, other, '--budget', '2s')[0]['measured'] > 0
    weft('cache', 'export', '--cache-dir', weft.folder / 'empty', '-o', 'none.db')
    merged = weft('cache', 'merge', 'a.db', 'none.db', 'a.db', '-o', 'all.db')
    assert merged == f'all.db: {count} measurements\n'


def test_what_is_no_measurements_is_refused(weft, own):
    (weft.folder / 'bad.db').write_text('nothing')
    weft('cache', 'import', 'bad.db', *own, code=3)
    assert 'no database of measurements' in weft.said and 'bad.db' in weft.said
    weft('cache', 'merge', 'bad.db', '-o', 'all.db', code=3)
    weft('cache', 'merge', 'absent.db', '-o', 'all.db', code=3)
    assert not (weft.folder / 'all.db').exists() and not (weft.folder / 'absent.db').exists()
    weft('cache', 'export', *own, code=2)
    weft('cache', 'merge', '-o', 'all.db', code=2)
    weft('cache', code=2)
    weft('cache', 'stats', '--cache-dir', 'bad.db', code=3)
