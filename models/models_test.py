"""What the scripts here promise: every small graph runs in onnxruntime, builds are reproducible, names survive."""

import os

import numpy as np
import onnx
import pytest

import make_models
import reference
import spellings
import zoo
from builder import Builder

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "tests", "data")


@pytest.mark.parametrize("name", zoo.ZOO)
def test_zoo(name):
    zoo.check(name)


@pytest.mark.parametrize("name", spellings.SPELLINGS)
def test_spelling(name):
    model = spellings.SPELLINGS[name]().model()
    data = model.SerializeToString(deterministic=True)
    assert data == spellings.SPELLINGS[name]().model().SerializeToString(deterministic=True)
    onnx.checker.check_model(data, full_check=True)
    outputs = reference.run(data, reference.make_inputs(model, dims={"batch": 2, "S": 5}))
    assert all(np.isfinite(y).all() for y in outputs.values())


def pieces(family):
    """The outputs, on the same input, of every spelling whose weights are drawn alike or absent."""
    dims = {"batch": 2, "S": 5}
    for name, make in spellings.SPELLINGS.items():
        if name.startswith(family):
            model = make().model()
            yield name, reference.run(model.SerializeToString(), reference.make_inputs(model, dims=dims))["y"]


@pytest.mark.parametrize("family, tolerance", [("gelu", 0.03), ("hard_swish", 1e-6), ("softmax", 1e-6)])
def test_spellings_mean_the_same(family, tolerance):
    (_, first), *others = pieces(family)
    for name, y in others:
        assert np.abs(y - first).max() <= tolerance, name


def test_digits():
    with np.load(os.path.join(DATA, "digits_io.npz")) as data:
        found = reference.run(os.path.join(HERE, "digits.onnx"), {"image": data["image"]})["probabilities"]
        assert np.abs(found - data["probabilities"]).max() < 1e-5
        assert (found.argmax(1) == data["labels"]).mean() > 0.95


def test_external_weights_are_the_same(tmp_path):
    inside, outside = str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")
    for path, external in ((inside, False), (outside, True)):
        make_models.NETWORKS["mobilenetv2"](None).save(path, external)
    assert os.path.getsize(outside) < os.path.getsize(inside) / 10
    a, b = onnx.load(inside), onnx.load(outside)
    assert [t.raw_data for t in a.graph.initializer] == [t.raw_data for t in b.graph.initializer]


def test_any_name_survives_npz(tmp_path):
    arrays = {"/a/b.0": np.arange(3), "file": np.float32(1), "x.npy": np.zeros((0, 2)), "S + P": np.array([True])}
    reference.save_npz(tmp_path / "x.npz", arrays)
    with np.load(tmp_path / "x.npz") as back:
        assert back.files == list(arrays)
        for name, array in arrays.items():
            assert back[name].dtype == np.asarray(array).dtype and np.array_equal(back[name], array)


def test_scalars_stay_scalars():
    g = Builder("scalar")
    g.output("y", g.Add(g.input("x", [2]), np.array(1, np.float32)), [2])
    assert list(g.model().graph.initializer[0].dims) == []


def test_greedy_decode():
    ocr = pytest.importorskip("ocr", reason="needs pillow", exc_type=ImportError)
    keys = ["", "a", "b", " "]
    assert ocr.greedy_decode(np.eye(4)[[0, 1, 1, 0, 1, 3, 2, 2, 0]], keys) == "aa b"


def test_lines_fit_their_width():
    ocr = pytest.importorskip("ocr", reason="needs pillow", exc_type=ImportError)
    lines = ocr.load_lines()
    assert len(lines) >= 12 and {width for _, _, width in lines} == {320, 1280}
    for path, _, width in lines:
        image = ocr.load_image(path)
        assert image.shape[0] == ocr.HEIGHT and image.shape[1] <= width, path
