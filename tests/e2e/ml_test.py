"""Operators of ai.onnx.ml, against the onnx package's reference evaluator."""
import sys

import numpy as np
import pytest
from domains_test import ReferenceEvaluator, agree, model_of, onnx, rand, refused
from onnx import helper
from tool import ROOT, within

sys.path.insert(0, str(ROOT / 'models'))

ML = 'ai.onnx.ml'


def whole(*shape, low, high, dtype=np.int64, seed=0):
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def floats(*shape, **options):
    return rand(*shape, **options).ravel().tolist()


@pytest.mark.parametrize('dtype', [np.float32, np.float64, np.int64, np.int32])
def test_features(weft, dtype):
    x = whole(5, 4, low=-3, high=4, dtype=dtype)
    agree(weft, 'ArrayFeatureExtractor', ML, [x, np.array([[2, 0, 2]])])
    agree(weft, 'ArrayFeatureExtractor', ML, [x[0], np.array([3, 1])])
    agree(weft, 'Binarizer', ML, [x], threshold=1.0)
    agree(weft, 'OneHotEncoder', ML, [x], cats_int64s=[2, -3, 0])
    replaced = {'imputed_value_floats': floats(4), 'replaced_value_float': 2.0}
    agree(weft, 'Imputer', ML, [x], **replaced if x.dtype.kind == 'f' else
          {'imputed_value_int64s': [7, 8, 9, 10], 'replaced_value_int64': 2})


def test_what_is_missing(weft):
    x = rand(5, 4)
    x[1, 2] = x[0, 0] = np.nan
    agree(weft, 'Imputer', ML, [x], imputed_value_floats=[0.5], replaced_value_float=np.nan)


@pytest.mark.parametrize('norm', ['L1', 'L2'])
def test_scales(weft, norm):
    x = rand(5, 4)
    x[3] = 0
    agree(weft, 'Normalizer', ML, [x], norm=norm)
    agree(weft, 'Scaler', ML, [x], offset=floats(4, seed=1), scale=floats(4, seed=2))


def test_parts_of_the_largest_number(weft):
    x = np.float32([[1, -4, 2], [-1, -2, -4], [0, -1, 0], [0, 0, 0], [1e-35, 0, 0]])
    model, arrays = model_of('Normalizer', ML, [x], 1, norm='MAX')
    (weft.folder / 'model.onnx').write_bytes(model.SerializeToString())
    expected = np.float32([[0.5, -2, 1], [1, 2, 4], [0, -1, 0], [0, 0, 0], [1, 0, 0]])
    assert within(weft.run('model.onnx', arrays, '--force', 'own', '--strict')['y0'], expected, 1e-6)


def test_columns_side_by_side(weft):
    agree(weft, 'FeatureVectorizer', ML, [rand(3, 2), rand(3, 4), rand(3, 3)], inputdimensions=[2, 3, 5])


@pytest.mark.parametrize('before', [0, 1, 2, 5, 10, 13])  # values of which the graph then has many, and moves them
def test_features_of_vectors_are_rows(weft, before):
    nodes = [helper.make_node('Neg', [f'a{i}' if i else 'x'], [f'a{i + 1}']) for i in range(before)]
    last = f'a{before}' if before else 'x'
    nodes.append(helper.make_node('FeatureVectorizer', [last, 'z'], ['y'], domain=ML, inputdimensions=[1, 3]))
    graph = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info(n, 1, [s]) for n, s in (('x', 3), ('z', 2))],
                              [helper.make_tensor_value_info('y', 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17), helper.make_opsetid(ML, 3)], ir_version=8)
    given = {'x': np.array([1, 2, 3], np.float32), 'z': np.array([4, 5], np.float32)}
    first = 1 if before % 2 == 0 else -1
    onnx.save(model, weft.folder / 'm.onnx')
    np.savez(weft.folder / 'in.npz', **given)
    weft('run', 'm.onnx', '--inputs', 'in.npz', '-o', 'out.npz')
    np.testing.assert_array_equal(np.load(weft.folder / 'out.npz')['y'], [[first, 4, 5, 0]])


@pytest.mark.parametrize('key,value', [(np.int64, np.float32), (np.float32, np.int64), (np.int64, np.int64), (np.float64, np.int16)])
def test_labels(weft, key, value):
    keys, values = np.array([3, 1, 4, 1.5], key), np.array([10, 20, 30, 40], value)
    x = np.array([[4, 1, 9], [3, 1.5, -1]], key)
    if key == np.float64:
        tensors = {'keys': keys, 'values': values, 'default': np.array([-7], value)}
        agree(weft, 'LabelEncoder', ML, [x], version=4,
              **{f'{n}_tensor': helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(t.dtype), t.shape, t) for n, t in tensors.items()})
    else:
        named = {np.int64: 'int64', np.float32: 'float'}
        agree(weft, 'LabelEncoder', ML, [x], version=2, **{f'keys_{named[key]}s': keys.tolist(), f'values_{named[value]}s': values.tolist(),
                                                           f'default_{named[value]}': value(-7)})


def test_a_key_that_is_nan(weft):
    x = np.array([np.nan, 1, 2], np.float32)
    model, arrays = model_of('LabelEncoder', ML, [x], 1, version=2, keys_floats=[np.nan, 1.0], values_int64s=[5, 6], default_int64=-1)
    (weft.folder / 'model.onnx').write_bytes(model.SerializeToString())
    assert weft.run('model.onnx', arrays)['y0'].tolist() == [5, 6, -1]


POST = ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT']


@pytest.mark.parametrize('post', POST)
def test_linear_models(weft, post):
    x = rand(6, 4, low=0.1)
    # Probabilities, so that PROBIT has a meaning.
    for classes, rows in ((3, 3), (2, 1)):
        if post == 'PROBIT' and rows == 1:
            continue
        agree(weft, 'LinearClassifier', ML, [x], 2, classlabels_ints=list(range(5, 5 + classes)), post_transform=post,
              coefficients=floats(rows, 4, low=0, high=0.2), intercepts=floats(rows, seed=1, low=0, high=0.1))
    agree(weft, 'LinearRegressor', ML, [x], coefficients=floats(2, 4), intercepts=floats(2, seed=1), targets=2)


def forest(seed, trees, depth, modes, leaf_name, targets, features=4, several=False):
    """Complete trees, as attributes of the older operators."""
    rng = np.random.default_rng(seed)
    nodes = {n: [] for n in ('treeids', 'nodeids', 'featureids', 'values', 'modes', 'truenodeids', 'falsenodeids',
                             'missing_value_tracks_true')}
    leaves = {n: [] for n in ('treeids', 'nodeids', 'ids', 'weights')}
    for tree in range(trees):
        for node in range(2 ** (depth + 1) - 1):
            leaf = node >= 2 ** depth - 1
            row = (tree, node, 0 if leaf else int(rng.integers(features)), 0.0 if leaf else float(rng.integers(-2, 3)),
                   'LEAF' if leaf else modes[rng.integers(len(modes))], 0 if leaf else 2 * node + 1, 0 if leaf else 2 * node + 2,
                   0 if leaf else int(rng.integers(2)))
            for n, v in zip(nodes.values(), row):
                n.append(v)
            for target in rng.permutation(targets)[:1 + several] if leaf else ():
                for n, v in zip(leaves.values(), (tree, node, int(target), float(rng.uniform(0, 1)))):
                    n.append(v)
    return {f'nodes_{n}': v for n, v in nodes.items()} | {f'{leaf_name}_{n}': v for n, v in leaves.items()}


MODES = ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GTE', 'BRANCH_GT', 'BRANCH_EQ', 'BRANCH_NEQ']


@pytest.mark.parametrize('modes', [MODES[:1], MODES])
@pytest.mark.parametrize('how', ['SUM', 'AVERAGE', 'MIN', 'MAX'])
def test_trees_that_regress(weft, how, modes):
    x = whole(7, 4, low=-2, high=3, dtype=np.float32)
    if modes != MODES:  # a NaN that differs from all numbers takes the true branch, whatever the evaluator says
        x[2, 1] = np.nan
    agree(weft, 'TreeEnsembleRegressor', ML, [x], version=3, n_targets=2, aggregate_function=how, base_values=[0.5, -1.0],
          **forest(1, 5, 3, modes, 'target', 2, several=how != 'AVERAGE'))


@pytest.mark.parametrize('post', POST[:-1])
def test_trees_that_classify(weft, post):
    x = whole(7, 4, low=-2, high=3, dtype=np.float32)
    agree(weft, 'TreeEnsembleClassifier', ML, [x], 2, version=3, classlabels_int64s=[4, 7, 9], post_transform=post,
          **forest(2, 5, 3, MODES, 'class', 3))


@pytest.mark.filterwarnings('ignore::RuntimeWarning')  # of scores that are no probabilities
@pytest.mark.parametrize('base', [[], [0.1], [0.1, 0.3]])
@pytest.mark.parametrize('weights', [[0.2, 0.7], [-0.4, 0.6]])
@pytest.mark.parametrize('post', POST)
def test_trees_that_vote_for_one_of_two(weft, post, weights, base):
    """Labels as onnxruntime has them: the evaluator takes the larger of the scores that it has transformed."""
    def run(evaluate, ids, weights):
        nodes = {'class_treeids': [0] * len(ids), 'class_nodeids': [1, 2] * (len(ids) // 2), 'class_ids': ids, 'class_weights': weights}
        model, arrays = model_of('TreeEnsembleClassifier', ML, [np.array([[-1.0], [1.0]], np.float32)], 2, version=3,
                                 classlabels_int64s=[4, 7], post_transform=post, nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2],
                                 nodes_featureids=[0, 0, 0], nodes_values=[0.0, 0.0, 0.0], nodes_modes=['BRANCH_LEQ', 'LEAF', 'LEAF'],
                                 nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], **nodes, **{'base_values': base} if base else {})
        if evaluate:
            return ReferenceEvaluator(model).run(None, arrays)[1]
        (weft.folder / 'model.onnx').write_bytes(model.SerializeToString())
        found = weft.run('model.onnx', arrays)
        return found['y0'].tolist(), found['y1']

    threshold = 0.5 if min(weights) >= 0 else 0
    for label in (0, 1):
        s = np.float32(weights) + np.float32(base[min(label, len(base) - 1)] if base else 0)
        labels, scores = run(False, [label] * 2, weights)
        assert labels == np.where(s > threshold, 7, 4).tolist()
        if label == 1:  # scores of both labels, once weights of 0 are written out, as onnxruntime has it
            expected = run(True, [0, 0, 1, 1], [0.0, 0.0, *weights])
        elif post == 'NONE' and not threshold:  # as onnxruntime has it
            expected = np.stack([-s, s], 1)
        else:
            expected = run(True, [0, 0], weights)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def tensor(name, kind, values):
    return helper.make_tensor(name, kind, [len(values)], values)


def test_trees_with_sets_of_members(weft):
    # One branch asks for two sets: of feature 0, then of feature 1.
    options = dict(n_targets=2, tree_roots=[0], nodes_featureids=[0, 1], nodes_splits=tensor('s', 1, [0.0, 0.0]),
                   nodes_modes=tensor('m', 2, [6, 6]), nodes_truenodeids=[0, 1], nodes_falsenodeids=[1, 2], nodes_trueleafs=[1, 1],
                   nodes_falseleafs=[0, 1], leaf_targetids=[0, 1, 1], leaf_weights=tensor('w', 1, [1.0, 2.0, 4.0]),
                   membership_values=tensor('v', 1, [1.5, 7.0, np.nan, 3.0, np.nan]))
    x = np.array([[1.5, 0], [7, 3], [0, 3], [2, 4]], np.float32)
    agree(weft, 'TreeEnsemble', ML, [x], version=5, **options)
    model, _ = model_of('TreeEnsemble', ML, [x], 1, version=5, **options | {'nodes_falsenodeids': [1, 0], 'nodes_falseleafs': [0, 0]})
    refused(weft, model, 'node "it" (TreeEnsemble)', 'node 0 of a tree is its own descendant')
    model, _ = model_of('TreeEnsemble', ML, [x], 1, version=5, **options | {'nodes_featureids': [0, 2]})
    refused(weft, model, 'found feature 2 of 2')
    model, _ = model_of('TreeEnsemble', ML, [x], 1, version=5, **options | {'n_targets': 2 ** 40})
    refused(weft, model, 'the limit is', code=5)


@pytest.mark.parametrize('kernel', ['LINEAR', 'POLY', 'RBF', 'SIGMOID'])
def test_support_vectors(weft, kernel):
    x = rand(6, 4)
    options = dict(kernel_type=kernel, kernel_params=[0.4, 0.7, 3.0])
    agree(weft, 'SVMRegressor', ML, [x], coefficients=floats(5), support_vectors=floats(5, 4, seed=1), rho=[0.3], n_supports=5, **options)
    agree(weft, 'SVMClassifier', ML, [x], 2, classlabels_ints=[3, 5, 8], vectors_per_class=[2, 1, 3], coefficients=floats(2, 6),
          support_vectors=floats(6, 4, seed=1), rho=floats(3, seed=2), **options)
    agree(weft, 'SVMClassifier', ML, [x], 2, classlabels_ints=[3, 5], vectors_per_class=[2, 3], coefficients=floats(5),
          support_vectors=floats(5, 4, seed=1), rho=[0.1], **options)


@pytest.mark.parametrize('classes', [2, 3, 5])
def test_probabilities_of_support_vectors(weft, classes):
    """Against onnxruntime: of more than two classes the evaluator's are others."""
    reference = pytest.importorskip('reference', reason='onnxruntime is not installed', exc_type=ImportError)
    pairs = classes * (classes - 1) // 2
    model, arrays = model_of('SVMClassifier', ML, [rand(7, 4)], 2, opset=20, classlabels_ints=list(range(classes)),
                             vectors_per_class=[2] * classes, coefficients=floats(classes - 1, 2 * classes, low=-3, high=3),
                             support_vectors=floats(2 * classes, 4, seed=1), rho=floats(pairs, seed=2),
                             prob_a=floats(pairs, seed=3, low=-6, high=-2), prob_b=floats(pairs, seed=4), kernel_type='RBF',
                             kernel_params=[0.4, 0.0, 3.0])
    onnx.save(model, weft.folder / 'model.onnx')
    found = weft.run('model.onnx', arrays)
    for name, expected in reference.run(model.SerializeToString(), arrays).items():
        assert within(found[name], expected, 1e-5), (found[name], expected)


def test_machines_of_more_pairs_than_memory_holds(weft):
    classes = 600
    model, _ = model_of('SVMClassifier', ML, [rand(1, 2)], 2, classlabels_ints=list(range(classes)),
                        vectors_per_class=[1] + [0] * (classes - 1), coefficients=[1.0] * (classes - 1), support_vectors=[1.0, 2.0],
                        rho=[0.5] * (classes * (classes - 1) // 2))
    refused(weft, model, 'node "it" (SVMClassifier)', 'the limit is', code=5)


@pytest.mark.parametrize('labels', [dict(classlabels_int64s=[7, 3, 5]), dict(classlabels_strings=['b', 'a', 'c'])])
def test_maps(weft, labels):
    x = rand(4, 3)
    model, arrays = model_of('ZipMap', ML, [x], 1, **labels)
    onnx.save(model, weft.folder / 'model.onnx')
    assert np.array_equal(weft.run('model.onnx', arrays)['y0'], x)


def test_categories_that_are_not_known(weft):
    model, arrays = model_of('OneHotEncoder', ML, [np.int64([[5, 2], [3, 5]])], 1, cats_int64s=[2, 3, 5], zeros=0)
    onnx.save(model, weft.folder / 'model.onnx')
    assert weft.run('model.onnx', arrays)['y0'].tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 0, 1]]]
    np.savez(weft.folder / 'x.npz', x0=np.int64([[5, 2], [4, 5]]))
    weft('run', 'model.onnx', '--inputs', 'x.npz', code=3)
    assert 'node "it"' in weft.said or '"it"' in weft.said, weft.said


def test_a_novelty(weft):
    agree(weft, 'SVMRegressor', ML, [rand(6, 4)], coefficients=floats(3), support_vectors=floats(3, 4, seed=1), rho=[0.05], n_supports=3,
          one_class=1, kernel_type='RBF', kernel_params=[0.4, 0.7, 3.0])


@pytest.mark.parametrize('op,options,words', [
    ('LabelEncoder', dict(version=2, keys_int64s=[1, 2], values_floats=[1.0]), 'found 2 keys and 1 values'),
    ('LabelEncoder', dict(version=2, values_floats=[1.0]), 'found 0 lists of keys'),
    ('LabelEncoder', dict(default_int64=1), '"classes_strings" is absent or empty'),
    ('CategoryMapper', dict(cats_strings=['a', 'b'], cats_int64s=[1]), 'found 2 strings and 1 integers'),
    ('LinearRegressor', dict(coefficients=[1.0, 2.0, 3.0], targets=2), 'found 3 coefficients for 2 results'),
    ('Normalizer', dict(norm='L3'), 'attribute "norm" is "L3"'),
    ('SVMRegressor', dict(coefficients=[1.0], n_supports=2, support_vectors=[1.0, 2.0], rho=[0.0]), 'for 2 support vectors'),
    ('SVMClassifier', dict(classlabels_ints=[1, 2], vectors_per_class=[2 ** 62, 2 ** 62], rho=[0.0], support_vectors=[1.0]),
     '"vectors_per_class" has'),
    ('OneHotEncoder', dict(cats_int64s=[1, 1]), 'has one twice'),
    ('ZipMap', dict(classlabels_int64s=[1, 2, 3]), 'found 4 columns for 3 labels'),
    ('TreeEnsembleRegressor', dict(nodes_treeids=[0], nodes_nodeids=[0], nodes_featureids=[0], nodes_values=[0.0], nodes_modes=['LEAF?'],
                                   nodes_truenodeids=[0], nodes_falsenodeids=[0]), 'among the modes of nodes')])
def test_wrong_attributes(weft, op, options, words):
    model, _ = model_of(op, ML, [rand(3, 4)], 1, **options)
    refused(weft, model, f'node "it" ({op})', words)
