"""weft opt: what is asked for is there, and what a text says is what is done."""
import re

import pytest
from tool import DIGITS

ONE = ('--shape', 'image=1x1x16x16')
TO = ('opt', '--from', 'graph', '--to')


@pytest.fixture
def forms(weft):
    """One network as text, by form."""
    def form(name):
        weft(*TO, name, DIGITS, *ONE, '-o', f'whole.{name}')
        return (weft.folder / f'whole.{name}').read_text()
    return form


def groups(text):
    return re.findall(r'^  (?:own|vendor|native|view) (\w+)', text, re.M)


def test_one_group_of_each_form(weft, forms):
    text = forms('call')
    for form in ('groups', 'choices', 'sched', 'loops', 'call', 'll'):
        own, = re.findall(r'^  own (\w+)', text, re.M)[:1]
        weft(*TO, form, DIGITS, *ONE, '--group', own, '-o', 'one')
        assert (weft.folder / 'one').read_text()
        assert not re.search(r'^=== loops (?!%s\n)' % own, (weft.folder / 'one').read_text(), re.M)


@pytest.mark.parametrize('form', ('groups', 'choices', 'sched', 'loops', 'call', 'll'))
def test_a_group_that_there_is_not(weft, form):
    weft(*TO, form, DIGITS, *ONE, '--group', 'nobody', '-o', 'one', code=2)
    assert re.search(r'--group nobody: found the (own )?groups \w+, ', weft.said), weft.said
    assert not (weft.folder / 'one').exists()


@pytest.mark.parametrize('form', ('graph', 'tc', 'plan'))
def test_a_form_without_groups(weft, form):
    weft(*TO, form, DIGITS, *ONE, '--group', 'softmax', '-o', 'one', code=2)
    assert f'--group softmax: {form} has no text of one group' in weft.said
    assert not (weft.folder / 'one').exists()


@pytest.mark.parametrize('form', ('choices', 'plan', 'll'))
def test_choices_for_nobody(weft, form):
    (weft.folder / 'c.choices').write_text('nobody: cluster m\n')
    weft(*TO, form, DIGITS, *ONE, '--choices', 'c.choices', '-o', 'one', code=2)
    assert "a choice is for 'nobody', found the own groups " in weft.said
    assert not (weft.folder / 'one').exists()


def test_choices_where_none_are_made(weft, forms):
    forms('sched')
    (weft.folder / 'c.choices').write_text('nobody: cluster m\n')
    for way in (('--from', 'graph', '--to', 'groups', DIGITS, *ONE), ('--from', 'sched', '--to', 'loops', 'whole.sched')):
        weft('opt', *way, '--choices', 'c.choices', '-o', 'one', code=2)
        assert '--choices c.choices: no choice is made' in weft.said


def test_choices_of_a_text_give_way(weft, forms):
    text = forms('choices')
    line, = re.findall(r'^softmax: .*$', text, re.M)
    clusters = [part for part in line.removeprefix('softmax: ').split(' | ') if part.startswith('cluster')]
    statements = ' '.join(clusters).replace('cluster ', '').split()
    (weft.folder / 'c.choices').write_text('softmax: ' + ' | '.join(f'cluster {s}' for s in statements) + '\n')
    weft('opt', '--from', 'choices', '--to', 'sched', 'whole.choices', '--choices', 'c.choices', '-o', 'forced.sched')
    assert (weft.folder / 'c.choices').read_text() in (weft.folder / 'forced.sched').read_text()


def test_one_document_with_json(weft, forms):
    text = forms('graph')
    assert weft.json(*TO, 'graph', DIGITS, *ONE, '-o', 'again.graph') == {'schema': 1, 'output': 'again.graph'}
    assert weft.json('opt', '--from', 'graph', '--to', 'plan', DIGITS, *ONE, '-o', 'd.plan')['output'] == 'd.plan'
    assert (weft.folder / 'again.graph').read_text() == text
    (weft.folder / 'small.graph').write_text('graph g (x: f32[4]) -> (y) {\ny = Relu(x)\n}\n')
    assert weft.json(*TO, 'loops', 'small.graph')['text'] == weft(*TO, 'loops', 'small.graph')


def test_a_changed_text_is_refused_with_its_line(weft, forms):
    text = forms('groups')
    line = 1 + text[:text.index('  own softmax')].count('\n')
    (weft.folder / 'whole.groups').write_text(text.replace('  own softmax', '  view softmax'))
    error = weft.json('opt', '--from', 'groups', '--to', 'plan', 'whole.groups', '-o', 'one', code=3)['error']
    assert error['where'].startswith(f'whole.groups:{line}:3: node ') and 'view' in error['what']
    assert not (weft.folder / 'one').exists()
