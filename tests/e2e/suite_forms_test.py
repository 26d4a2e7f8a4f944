"""Cases of the onnx package's suite in forms that change nothing of what they compute: with inputs of open extents or of
no known rank, and their nodes in a branch, a loop or a function. Each is built once and runs on natives and calls."""
import os
import re
import sys

import numpy as np
import pytest

pytest.importorskip('ml_dtypes', reason='weft.backend wants it')
onnx = pytest.importorskip('onnx', reason='the suite is part of onnx')
weft = pytest.importorskip('weft', reason='the Python package is not built')
from onnx import helper, numpy_helper  # noqa: E402
from onnx import TensorProto as T  # noqa: E402
from onnx.backend.test.runner import Runner  # noqa: E402
from tool import ROOT  # noqa: E402

sys.path.insert(0, str(ROOT / 'tools'))
import onnx_suite  # noqa: E402
import workers  # noqa: E402
from weft.backend import WeftRep  # noqa: E402

# What is refused where less is known than in the case itself, and is said: {reason: of cases}.
REFUSED = {'an unknown count or size of heads': r'flexattention',
           'rows of (an )?unknown rank': r'tfidfvectorizer|ml_tree_ensemble',
           'a tensor of unknown rank': r'ml_array_feature_extractor',
           'the rank of its scale or zero point is not known': r'quantizelinear_(e\dm\d|float4|u?int2)'}
# Natives round after each operator, where kernels round once.
UNITS = {np.dtype('float16'): 2**-10, np.dtype('bfloat16'): 2**-7}


def is_tensor(info):
    return info.type.WhichOneof('value') == 'tensor_type'


def opened(model):
    for info in model.graph.input:
        for i, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.dim_param = f'{info.name}_{i}'
    return {}


def unranked(model):
    for info in model.graph.input:
        info.type.tensor_type.ClearField('shape')
    return {}


def body_of(model, suffix):
    """(nodes, outputs) of the graph, for a subgraph: what is made there is named anew."""
    made = {o for node in model.graph.node for o in node.output if o}
    nodes, outputs = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node], []
    for node in nodes:
        node.input[:] = [n + suffix if n in made else n for n in node.input]
        node.output[:] = [n + suffix if n in made else n for n in node.output]
    for info in model.graph.output:
        outputs.append(helper.make_tensor_value_info(info.name + suffix, info.type.tensor_type.elem_type, None))
    return nodes, outputs


def put(model, *nodes):
    model.graph.ClearField('node')
    model.graph.node.extend(nodes)
    if not any(o.domain in ('', 'ai.onnx') for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid('', 22))


def branched(model):
    opened(model)
    names = [o.name for o in model.graph.output]
    branches = {f'{word}_branch': helper.make_graph(nodes, word, [], outputs) for word in ('then', 'else')
                for nodes, outputs in [body_of(model, f'_{word}')]}
    put(model, helper.make_node('If', ['which'], names, **branches))
    model.graph.input.append(helper.make_tensor_value_info('which', T.BOOL, []))
    return {'which': np.array(True)}


def looped(model):
    """Two trips, of which the second counts."""
    opened(model)
    names = [o.name for o in model.graph.output]
    nodes, outputs = body_of(model, '_once')
    states = [helper.make_tensor_value_info(n, T.BOOL, []) for n in ('goes', 'state', 'goes_on', 'next_state')]
    nodes += [helper.make_node('Identity', [a], [b]) for a, b in (('goes', 'goes_on'), ('state', 'next_state'))]
    body = helper.make_graph(nodes, 'body', [helper.make_tensor_value_info('trip', T.INT64, []), *states[:2]],
                             [*states[2:], *outputs])
    put(model, helper.make_node('Loop', ['trips', 'yes', 'yes'], ['last_state', *[f'{n}_all' for n in names]], body=body),
        *[helper.make_node('Gather', [f'{n}_all', 'second'], [n], axis=0) for n in names])
    model.graph.initializer.extend([numpy_helper.from_array(np.array(True), 'yes'), numpy_helper.from_array(np.array(1), 'second')])
    model.graph.input.append(helper.make_tensor_value_info('trips', T.INT64, []))
    return {'trips': np.array(2)}


def outlined(model):
    opened(model)
    names, inputs = [o.name for o in model.graph.output], [i.name for i in model.graph.input]
    inputs += [i.name for i in model.graph.initializer if i.name not in inputs]
    model.functions.append(helper.make_function('of.mine', 'F', inputs, names, list(model.graph.node), list(model.opset_import)))
    put(model, helper.make_node('F', inputs, names, domain='of.mine'))
    model.opset_import.append(helper.make_opsetid('of.mine', 1))
    model.ir_version = max(model.ir_version, 8)
    return {}


FORMS = {'open': opened, 'unranked': unranked, 'branch': branched, 'loop': looped, 'function': outlined}
HAS_BODIES = {form for form in FORMS if form not in ('open', 'unranked')}
# What ONNX's Gather takes, which tells the trips of a loop apart.
GATHERED = {T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.BOOL, T.STRING, T.INT8, T.INT16, T.INT32, T.INT64, T.UINT8, T.UINT16,
            T.UINT32, T.UINT64}


def takes(form, model):
    """Whether the form is one of this model."""
    if not all(map(is_tensor, [*model.graph.input, *model.graph.output])):
        return False
    if form == 'loop' and not all(o.type.tensor_type.elem_type in GATHERED for o in model.graph.output):
        return False
    has_graphs = any(a.HasField('g') for n in model.graph.node for a in n.attribute)
    return form not in HAS_BODIES or not (has_graphs or model.functions)


class OnePlan(WeftRep):
    """The plan for all shapes, where a WeftRep builds one for each."""

    def _ready(self, inputs):
        arrays, _ = self._tensors(inputs)
        plan = weft.build(self._path, **self._options)
        return plan, {name: self._bits(name, array) for name, array in arrays.items()}


def run_in(form):
    def run(case):
        """What is wrong, or nothing."""
        model = onnx_suite.model_of(case)
        inputs, expected = onnx_suite.data_of(case, model)[0]
        more = FORMS[form](model)
        for info in model.graph.output:
            info.type.tensor_type.ClearField('shape')
        model.graph.ClearField('value_info')
        rep = OnePlan(model, threads=1, specialize='never')
        try:
            found = list(rep.run(dict(zip(rep.input_names, inputs)) | more))
            units = max([UNITS.get(e.dtype, 0) for e in expected], default=0)
            Runner.assert_similar_outputs(expected, found, max(case.rtol, 2 * units), case.atol)
        except Exception as error:  # weft's, and the suite's assertions
            return re.sub(r'\s+', ' ', f'{type(error).__name__}: {error}')[:300]
        return ''
    return run


def reasons_of(name, said):
    return [why for why, of in REFUSED.items() if re.search(why, said) and re.search(of, name)]


@pytest.fixture(scope='module')
def cases():
    known = onnx_suite.known_failures()
    return {name: case for name, case in onnx_suite.load_cases().items() if case.kind == 'node' and name not in known}


@pytest.mark.parametrize('form', FORMS)
def test_form(form, cases, cache):
    taken = {name: case for name, case in cases.items() if takes(form, onnx_suite.model_of(case))}
    outcomes = workers.run_all(taken, run_in(form), lambda why: why, jobs=min(2, len(os.sched_getaffinity(0))))
    wrong = [f'{name}: {said}' for name, said in outcomes.items() if said and not reasons_of(name, said)]
    assert not wrong, '\n'.join(wrong)
    assert len(taken) > 1600
    if form == 'unranked':  # where least is known
        assert {why for name, said in outcomes.items() for why in reasons_of(name, said)} == set(REFUSED)
