"""The page docs/onnx_coverage.md, from the outcomes of tools/onnx_suite.py."""
import collections
import re
import textwrap

KIND_TEXT = {
    'node': 'single operators', 'simple': 'small graphs', 'pytorch-converted': 'PyTorch modules',
    'pytorch-operator': 'PyTorch operators', 'real': 'known networks (light)'}

INTRO = """\
# What of ONNX runs

Every case of the backend suite of the onnx package {version}, through `weft.backend`, one thread, without measuring. Made by

```sh
.venv/bin/python tools/onnx_suite.py --write docs/onnx_coverage.md
```

A case counts as passed if the suite's own runner would say so. *Steps* says of what kinds a plan's steps are: `own`
kernels from comprehensions, `view`s (nothing to do), `vendor` calls of a library, `native` C++ kernels; a case without
steps was computed when its plan was built. *ULP* is the largest distance of an element of a float output from the
expected one, in units in the last place; expected values are float32 arithmetic of NumPy's, rounded once more for
narrower types, so a sum near zero may be many such units away. Inputs that decide shapes are bound when a plan is
built; all others are given when it runs.
"""

TYPES = {'float': 'f32', 'double': 'f64', 'float16': 'f16', 'bfloat16': 'bf16', 'uint': 'u', 'int': 'i'}


def short_type(type_proto):
    import onnx
    kind = type_proto.WhichOneof('value')
    if kind in ('tensor_type', 'sparse_tensor_type'):
        name = onnx.TensorProto.DataType.Name(getattr(type_proto, kind).elem_type).lower()
        name = TYPES.get(name, name)
        return re.sub(r'^(u?)int(\d+)$', lambda m: (m[1] or 'i') + m[2], name)
    if kind in ('sequence_type', 'optional_type'):
        return f'{kind.split("_")[0]}({short_type(getattr(type_proto, kind).elem_type)})'
    return kind or '?'


def row_of(name, case, model):
    """(operator, opset, types) that a case is about."""
    graph = model.graph
    opsets = {o.domain or 'ai.onnx': o.version for o in model.opset_import}
    ops = list(dict.fromkeys((n.domain or 'ai.onnx', n.op_type) for n in graph.node))
    if len(graph.node) == 1 or len(ops) == 1:
        operator = ops[0]
    elif '_expanded' in name:
        operator = ('ai.onnx', 'function body')
    else:
        operator = ('ai.onnx', f'graph of {len(graph.node)} nodes')
    domain, op = operator
    inputs = {i.name for i in graph.initializer}
    ins = list(dict.fromkeys(short_type(i.type) for i in graph.input if i.name not in inputs))
    outs = list(dict.fromkeys(short_type(o.type) for o in graph.output))
    types = ', '.join(ins) if ins == outs or not outs else f'{", ".join(ins)} → {", ".join(outs)}'
    return (op if domain in ('ai.onnx', '') else f'{domain}.{op}', opsets.get(domain, opsets.get('ai.onnx', 0)), types)


def bodies(cases, models):
    """The operator whose function body a case `…_expanded` is, by the case without it."""
    rows = {}
    for name in cases:
        base = re.sub(r'_expanded(_ver\d+)?$', '', name)
        if base != name and base in models and len({n.op_type for n in models[base].graph.node}) == 1:
            node = models[base].graph.node[0]
            rows[name] = (f'{node.domain}.' if node.domain else '') + node.op_type
    return rows


def table(head, rows):
    lines = [f'| {" | ".join(head)} |', f'|{"---|" * len(head)}']
    return '\n'.join(lines + [f'| {" | ".join(str(c).replace("|", "/") for c in row)} |' for row in rows]) + '\n'


def steps_text(outcomes):
    kinds = sorted({k for o in outcomes for k in o.steps})
    return ', '.join(kinds) or ('none' if any(o.passed for o in outcomes) else '')


def plain(model):
    """Without strings, sequences, optionals or control flow."""
    types = ' '.join(short_type(v.type) for v in [*model.graph.input, *model.graph.output])
    return not re.search(r'string|sequence|optional|map', types) and not any(
        n.op_type in ('If', 'Loop', 'Scan') or n.op_type.startswith('Sequence') for n in model.graph.node)


def page(cases, outcomes, known):
    import onnx
    from onnx_suite import model_of, reason_of
    models = {name: model_of(case) for name, case in cases.items()}
    own_only = lambda o: o.passed and bool(o.steps) and set(o.steps) <= {'own', 'view'}
    parts = [INTRO.format(version=onnx.__version__)]

    totals = []
    for kind, text in [*KIND_TEXT.items(), (None, 'all')]:
        of = [o for n, o in outcomes.items() if kind in (None, cases[n].kind)]
        if of:
            totals.append((text, len(of), sum(o.passed for o in of), f'{100 * sum(o.passed for o in of) / len(of):.1f} %',
                           sum(own_only(o) for o in of), sum(o.passed and 'vendor' in o.steps for o in of),
                           sum(o.passed and 'native' in o.steps for o in of), sum(o.passed and not o.steps for o in of)))
    parts.append('## Totals\n\n' + table(('cases', 'all', 'passed', '', 'own and views alone', 'with a library', 'with a native step',
                                          'without steps'), totals))
    of = [o for n, o in outcomes.items() if plain(models[n])]
    share = sum(own_only(o) for o in of)
    parts.append(f'Of the {len(of)} cases without strings, sequences, optionals and control flow, {share} '
                 f'({100 * share / len(of):.1f} %) run as own kernels and views alone.\n')

    natives = collections.defaultdict(lambda: [0, set()])
    for o in outcomes.values():
        for op, why in o.natives.items():
            natives[op][0] += 1
            natives[op][1].add(cause(why))
    parts.append('## Native operators\n\nPlain C++ kernels, in the cases that need one, with why no comprehension says it there.\n\n' +
                 table(('operator', 'cases', 'reason'),
                       [(op, count, '; '.join(sorted(whys))) for op, (count, whys) in sorted(natives.items())]))

    failed = collections.defaultdict(list)
    for n, o in outcomes.items():
        if not o.passed:
            failed[reason_of(n, o, known)].append(n.removeprefix('test_'))
    lines = []
    for reason, names in sorted(failed.items(), key=lambda item: (-len(item[1]), item[0])):
        text = f'- {", ".join(names)}: {reason}'
        lines.append(textwrap.fill(text, 120, subsequent_indent='  ', break_long_words=False, break_on_hyphens=False))
    parts.append('## Failures\n\nWhy, in the words of `tests/data/onnx_suite_failures.txt`.\n\n' + '\n'.join(lines) + '\n')

    body_of = bodies(cases, models)
    rows = collections.defaultdict(list)
    for n, o in outcomes.items():
        op, opset, types = row_of(n, cases[n], models[n])
        rows[(f'{body_of[n]} (body)' if n in body_of else op, opset, types)].append(o)
    parts.append('## By operator, opset and types\n\n' + table(
        ('operator', 'opset', 'types', 'passed', 'ULP', 'steps'),
        [(op, opset, types, f'{sum(o.passed for o in of)}/{len(of)}', highest(of), steps_text(of))
         for (op, opset, types), of in sorted(rows.items())]))
    return '\n'.join(parts)


def highest(outcomes):
    found = [o.ulp for o in outcomes if o.passed and o.ulp is not None]
    return max(found) if found else ''


def cause(reason):
    """A reason without the names of the case that it is about."""
    reason = re.sub(r'\d+ node\(s\) cannot be built: ', '', reason)
    reason = re.sub(r'node (of )?"[^"]*" \(([\w.:]+)\): ', r'\2: ', reason)
    reason = re.sub(r'"[^"]*"|\'[^\']*\'', '…', reason)
    reason = re.sub(r'a member has no comprehension \((.*?)\)$', r'\1', reason)
    return reason if len(reason) <= 160 else reason[:157] + '…'
