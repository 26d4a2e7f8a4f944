"""Operators of the domains beside ai.onnx, against the onnx package's reference evaluator."""
import numpy as np
import pytest
from tool import within

onnx = pytest.importorskip('onnx', reason='the models are written with onnx')
from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

TRAINING, PREVIEW = 'ai.onnx.preview.training', 'ai.onnx.preview'


def rand(*shape, seed=0, low=-1.0, high=1.0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


def info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model_of(op, domain, inputs, outputs, version=1, opset=None, **attributes):
    """One node of `outputs` outputs on arrays; no opset of ai.onnx unless one is asked for."""
    arrays = {f'x{i}': np.asarray(a) for i, a in enumerate(inputs)}
    names = [f'y{i}' for i in range(outputs)]
    node = helper.make_node(op, list(arrays), names, name='it', domain=domain, **attributes)
    graph = helper.make_graph([node], 'g', [info(n, a) for n, a in arrays.items()],
                              [onnx.ValueInfoProto(name=n) for n in names])
    opsets = [helper.make_opsetid(d, v) for d, v in ((domain, version), ('', opset)) if v]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11), arrays


def agree(weft, op, domain, inputs, outputs=1, tolerance=1e-5, **options):
    model, arrays = model_of(op, domain, inputs, outputs, **options)
    onnx.save(model, weft.folder / 'model.onnx')
    found = weft.run('model.onnx', arrays, '--force', 'own', '--strict')
    for i, expected in enumerate(ReferenceEvaluator(model).run(None, arrays)):
        expected = np.asarray(expected)
        assert within(found[f'y{i}'], expected, tolerance), (op, i, found[f'y{i}'], expected)


def refused(weft, model, *words, code=3):
    onnx.save(model, weft.folder / 'model.onnx')
    weft('check', 'model.onnx', code=code)
    for word in words:
        assert word in weft.said, weft.said


def tensors(kinds, dtype=np.float32):
    """Two tensors of unlike shapes, of each kind; the last kind sums up squares."""
    return [rand(*shape, seed=k, low=0 if k == kinds - 1 else -1, dtype=dtype) for k in range(kinds) for shape in ((3, 5), (4,))]


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
@pytest.mark.parametrize('updates', [0, 3])
def test_optimizers(weft, updates, dtype):
    r, t = dtype(0.1), np.int64(updates)
    agree(weft, 'Adagrad', TRAINING, [r, t, *tensors(3, dtype)], 4, norm_coefficient=0.01, epsilon=1e-5, decay_factor=0.1)
    if dtype == np.float32:  # whatever the type, that is what the evaluator's Adam gives
        agree(weft, 'Adam', TRAINING, [r, t, *tensors(4)], 6, norm_coefficient=0.01, alpha=0.9, beta=0.99, epsilon=1e-5,
              norm_coefficient_post=0.02)
    for mode in ('standard', 'nesterov'):
        agree(weft, 'Momentum', TRAINING, [r, t, *tensors(3, dtype)], 4, norm_coefficient=0.01, alpha=0.9, beta=0.4, mode=mode)


def test_optimizers_of_too_few_tensors(weft):
    model, _ = model_of('Adam', TRAINING, [np.float32(0.1), np.int64(1), *tensors(4)[:7]], 3)
    refused(weft, model, 'node "it" (Adam)', 'found 9 inputs, expected 2 and 4 for each tensor')
    model, _ = model_of('Momentum', TRAINING, [np.float32(0.1), np.int64(1), *tensors(3)], 2, alpha=0.5, beta=0.5, norm_coefficient=0.0,
                        mode='fast')
    refused(weft, model, 'node "it" (Momentum)', 'neither')


def changed(op, factor, inner=(), name='s'):
    """A subgraph of one input, with a value of each of the names `inner` in it."""
    made = [name, *inner, 'out']
    value = helper.make_node('Constant', [], ['c'], value_float=factor)
    nodes = [helper.make_node(op if i == 0 else 'Identity', [a, 'c'] if i == 0 else [a], [b])
             for i, (a, b) in enumerate(zip(made, made[1:]))]
    return helper.make_graph([value, *nodes], 'mod', [helper.make_tensor_value_info(name, 1, None)],
                             [helper.make_tensor_value_info('out', 1, None)])


@pytest.mark.parametrize('heads', [1, 2, 4])
def test_attention_with_subgraphs(weft, heads):
    q, k, v = rand(2, 4, 3, 8), rand(2, heads, 5, 8, seed=1), rand(2, heads, 5, 6, seed=2)
    # The names of values around the node are taken inside of it, too.
    agree(weft, 'FlexAttention', PREVIEW, [q, k, v], opset=28, scale=0.3,
          score_mod=changed('Mul', 1.5, ['y0_part', 'y0_part_1', 'y0_part_2', 'y0_part_3', 'y0_part_4']),
          prob_mod=changed('Add', 0.1, name='p'))


def test_attention_of_heads_that_do_not_match(weft):
    model, _ = model_of('FlexAttention', PREVIEW, [rand(2, 4, 3, 8), rand(2, 3, 5, 8), rand(2, 3, 5, 8)], 1)
    refused(weft, model, 'node "it" (FlexAttention)', 'found 4 heads of size 8 for queries, 3 of 8 for keys')
    twice = changed('Mul', 2.0)
    twice.output.append(twice.output[0])
    twice.output[1].name = 'c'
    model, _ = model_of('FlexAttention', PREVIEW, [rand(1, 1, 3, 8)] * 3, 1, opset=28, score_mod=twice)
    refused(weft, model, 'graph "score_mod" has 1 inputs and 2 outputs')


def test_no_opset_of_a_domain_that_is_used(weft):
    model, _ = model_of('Momentum', TRAINING, [np.float32(0.1), np.int64(1), *tensors(3)], 2, alpha=0.5, beta=0.5, norm_coefficient=0.0,
                        mode='standard')
    model.graph.node.append(helper.make_node('Relu', ['y0'], ['z']))
    refused(weft, model, 'node of "z" (Relu)', 'domain "ai.onnx" is not imported')


@pytest.mark.parametrize('op', ['Sum', 'Mean', 'Max', 'Min'])
def test_many_operands(weft, op):
    agree(weft, op, '', [rand(4, seed=k) for k in range(300)], version=13)


@pytest.mark.parametrize('mode,dtype', [('TF', np.int32), ('IDF', np.int64), ('TFIDF', np.int64)])
def test_ngrams(weft, mode, dtype):
    rows = np.random.default_rng(0).integers(1, 4, (3, 9)).astype(dtype)
    options = dict(version=9, ngram_counts=[0, 3, 9], pool_int64s=[1, 2, 3, 1, 2, 2, 2, 3, 1, 1, 2, 3])
    weights, columns = np.float32([0.5, 2, 3, 4, 5, 6, 7]), [6, 0, 2, 5, 1, 3, 7]
    for x, low, high, skips in ((rows, 1, 3, 0), (rows[0], 2, 3, 2), (rows, 1, 2, 6), (rows, 1, 1, 3), (rows[:, :2], 1, 3, 1)):
        lengths = dict(min_gram_length=low, max_gram_length=high, max_skip_count=skips)
        model, arrays = model_of('TfIdfVectorizer', '', [x], 1, mode='TF', ngram_indexes=range(7), **options, **lengths)
        # The evaluator takes weights by column, against the text and onnxruntime.
        each = ReferenceEvaluator(model).run(None, arrays)[0]
        each = (each > 0 if mode == 'IDF' else each) * (1 if mode == 'TF' else weights)
        for places in (columns, *([[6, 0, 2, 0, 1, 0, 2]] if mode != 'IDF' else [])):  # several n-grams of one column
            expected = np.zeros((*each.shape[:-1], max(places) + 1), np.float32)
            np.add.at(expected, (..., places), each)
            model, arrays = model_of('TfIdfVectorizer', '', [x], 1, mode=mode, ngram_indexes=places, weights=weights, **options, **lengths)
            onnx.save(model, weft.folder / 'model.onnx')
            assert within(weft.run('model.onnx', arrays, '--force', 'own', '--strict')['y0'], expected)


@pytest.mark.parametrize('changes,words', [
    (dict(ngram_counts=[0, 2]), 'n-grams of 2 elements lie from 2 to 5'), (dict(ngram_counts=[0, 9]), 'lie from 0 to 9 in a pool of 5'),
    (dict(ngram_indexes=[0, 1]), 'found 2 ngram_indexes for 4 n-grams'), (dict(mode='DF'), 'attribute "mode" is "DF"'),
    (dict(weights=[1.0]), 'found 1 weights for 4 n-grams'), (dict(ngram_indexes=[0, 1, 0, 2]), 'two n-grams of one column'), (dict(max_gram_length=0), 'found n-grams of 1 to 0 elements'),
    (dict(ngram_indexes=[0, 1, 2, 2 ** 40]), 'the limit is')])
def test_ngrams_that_are_wrong(weft, changes, words):
    options = dict(mode='IDF', ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3], pool_int64s=[1, 2, 3, 1, 2], min_gram_length=1,
                   max_gram_length=2, max_skip_count=0)
    model, _ = model_of('TfIdfVectorizer', '', [np.arange(4)], 1, version=9, **options | changes)
    refused(weft, model, 'node "it" (TfIdfVectorizer)', words, code=(3, 4, 5))
