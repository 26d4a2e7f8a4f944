"""Small graphs, each one idea in one of the ways that exporters spell it; a compiler should see the idea in every one.

SPELLINGS maps a name to a function that returns a Builder; make_models.py writes them by name, and

    python models/spellings.py --out DIR     # writes them all

The names say idea_spelling: layer_norm_pow, gelu_tanh, attention_scale_query, old_opset_7 and so on. Inputs are called x
(and mask); symbolic dimensions batch and S.
"""

import argparse
import os

import numpy as np

import layers as L
from builder import Builder, f32, i64

WIDTH = 48


def over_features(name, body, opset=17, **how):
    """A graph around `body`, a function of a Builder and x: [batch, S, WIDTH], whose result has the same shape."""
    g = Builder(name, seed=sum(name.encode()), opset=opset, **how)
    x = g.input("x", ["batch", "S", WIDTH])
    g.output("y", body(g, x), ["batch", "S", WIDTH])
    return g


# ---- attention ----
def attention(name, opset=17, one_transpose=False, mask=None, **how):
    """Self-attention of 4 heads of 12; `mask`: added (an input), causal_where, causal_trilu, or None."""
    g = Builder(name, seed=sum(name.encode()), opset=opset)
    x = g.input("x", ["batch", "S", WIDTH])
    if mask == "added":
        how["mask"] = L.additive_mask(g, g.input("mask", ["batch", "S"], "int64"))
    elif mask:
        how["mask"] = causal_where(g, x) if mask == "causal_where" else causal_trilu(g, x)
    q, k, v = (L.heads(g, L.linear(g, x, WIDTH, WIDTH), 0, 0, 4, 12) for _ in range(3))
    y = (transposed_keys if one_transpose else L.attention)(g, q, k, v, 12, **how)
    g.output("y", L.linear(g, L.merge_heads(g, y, 0, 0, 4, 12), WIDTH, WIDTH), ["batch", "S", WIDTH])
    return g


def transposed_keys(g, q, k, v, width):
    """Keys go straight to [B, H, width, S]: the Transpose that makes heads does both."""
    made_heads = next(node for node in g.nodes if node.output[0] == k)
    made_heads.attribute[0].ints[:] = [0, 2, 3, 1]
    return g.MatMul(g.Softmax(g.Div(g.MatMul(q, k), f32(np.sqrt(width))), axis=-1), v)


def causal_where(g, x, limit=64):
    """A lower triangle kept in the file, cut to size; what lies above it is replaced."""
    length = L.unsqueeze(g, L.extent(g, x, 1), 0)
    triangle = g.weight(np.tril(np.ones((1, 1, limit, limit), bool)), "triangle")
    cut = g.Slice(g.Slice(triangle, i64(0), length, i64(2)), i64(0), length, i64(3))
    return lambda scores: g.Where(cut, scores, f32(L.LOWEST))


def causal_trilu(g, x):
    """Minus infinity above the diagonal, made at run time and added."""
    length = L.extent(g, x, 1)
    full = g.ConstantOfShape(L.shape_from(g, length, length), value=L.fill(np.array([-np.inf], np.float32)))
    return g.Trilu(full, np.array(1, np.int64), upper=1)


# ---- normalization of pictures ----
def over_picture(name, body, opset=17, **how):
    g = Builder(name, seed=sum(name.encode()), opset=opset, **how)
    x = g.input("x", ["batch", 8, 12, 12])
    g.output("y", body(g, x), ["batch", 8, 12, 12])
    return g


def group_norm(g, x, groups=4):
    """Groups become channels of an InstanceNormalization whose own scale does nothing."""
    rows = g.Reshape(x, i64(0, groups, -1))
    rows = g.InstanceNormalization(rows, np.ones(groups, np.float32), np.zeros(groups, np.float32), epsilon=1e-5)
    y = g.Reshape(rows, g.Shape(x))
    return g.Add(g.Mul(y, g.uniform([8, 1, 1], 0.8, 1.2)), g.normal([8, 1, 1], 0.1))


def conv_norm(g, x, bias=0.1):
    return g.Relu(L.batch_norm(g, L.conv(g, x, 8, 8, kernel=3, gain=1, bias=bias), 8))


def conv_scale_shift(g, x):
    """BatchNormalization as a product and a sum of constants, as some exporters leave it."""
    y = L.conv(g, x, 8, 8, kernel=3, gain=1, bias=None)
    return g.Relu(g.Add(g.Mul(y, g.uniform([1, 8, 1, 1], 0.8, 1.2)), g.normal([1, 8, 1, 1], 0.1)))


def pad_conv(g, x):
    """Padding in a node of its own, as exporters of TensorFlow and Keras do."""
    x = g.Pad(x, i64(0, 0, 1, 1, 0, 0, 1, 1), f32(0), mode="constant")
    return g.Relu(L.conv(g, x, 8, 8, kernel=3, pad=0, gain=1))


def channels_last(g, x):
    """Every operator between two Transposes, as converters from channels-last formats do."""
    def last(v):
        return g.Transpose(v, perm=[0, 2, 3, 1])

    def first(v):
        return g.Transpose(v, perm=[0, 3, 1, 2])

    x = last(L.conv(g, first(last(x)), 8, 8, kernel=3, gain=1))
    x = g.Relu(g.Add(x, g.normal([8], 0.1)))
    return L.conv(g, first(x), 8, 8)


# ---- operators whose form changed ----
def old_opset(opset):
    """One small network whose every operator has another form in some opset from 7 to 18."""
    g = Builder(f"old_opset_{opset}", seed=opset, opset=opset)
    x = g.input("x", ["batch", 3, 16, 16])
    pads = [0, 0, 1, 1, 0, 0, 1, 1]
    x = g.Pad(x, i64(*pads), f32(0)) if opset >= 11 else g.Pad(x, pads=pads, mode="constant", value=0.0)
    x = L.clip(g, L.batch_norm(g, L.conv(g, x, 3, 8, kernel=3, pad=0, gain=1), 8), 0, 6)
    x = g.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])  # [batch, 8, 8, 8]
    a, b = L.split(g, x, 1, [4, 4]) if opset < 18 else g.Split(x, axis=1, num_outputs=2, outputs=2)
    x = g.Concat(g.Sigmoid(a), g.Tanh(b), axis=1)
    x = g.Add(x, twice(g, g.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2])))
    x = L.slice_(g, x, [1, 0], [7, -1], [2, 3])  # [batch, 8, 6, 7]
    x = g.Dropout(x) if opset >= 12 else g.Dropout(x, ratio=0.5)
    pooled = L.reduce(g, "ReduceSum", L.reduce(g, "ReduceMean", x, [3]), [2, 3], keepdims=0)  # [batch, 8]
    rows = L.unsqueeze(g, g.Mul(pooled, f32(0.1)), 1)  # [batch, 1, 8]
    rows = g.Concat(rows, g.Neg(rows), axis=1)
    # up to opset 12 a Softmax over axis 1 took all that follows as one row; [batch, 2, 8] shows the difference
    rows = g.Softmax(rows, axis=1)
    flat = L.squeeze(g, L.slice_(g, rows, [0], [1], [1]), 1)
    y = g.Gemm(flat, g.normal([10, 8], 1), g.normal([10], 0.1), transB=1)
    best = g.TopK(y, i64(3), axis=1, outputs=2)[0] if opset >= 10 else g.TopK(y, k=3, axis=1, outputs=2)[0]
    g.output("rows", rows, ["batch", 2, 8])
    g.output("y", y, ["batch", 10])
    g.output("best", best, ["batch", 3])
    return g


def twice(g, x):
    """Nearest-neighbour enlargement by two."""
    scales = np.array([1, 1, 2, 2], np.float32)
    if g.opset >= 11:
        region = None if g.opset >= 13 else np.zeros(0, np.float32)
        return g.Resize(x, region, scales, mode="nearest", coordinate_transformation_mode="asymmetric",
                        nearest_mode="floor")
    if g.opset == 10:
        return g.Resize(x, scales, mode="nearest")
    if g.opset == 9:
        return g.Upsample(x, scales, mode="nearest")
    return g.Upsample(x, mode="nearest", scales=scales.tolist())


# ---- the table ----
def _features(name, piece, *args, opset=17, **how):
    return lambda: over_features(name, lambda g, x: piece(g, x, *args), opset, **how)


def _picture(name, piece, *args, opset=17, **how):
    return lambda: over_picture(name, lambda g, x: piece(g, x, *args), opset, **how)


def _table():
    t = {}
    for spelling in ("op", "pow", "mul", "folded"):
        t[f"layer_norm_{spelling}"] = _features(f"layer_norm_{spelling}", L.layer_norm, WIDTH, spelling)
    t["layer_norm_pow_opset_11"] = _features("layer_norm_pow_opset_11", L.layer_norm, WIDTH, "pow", opset=11)
    t["layer_norm_pow_opset_18"] = _features("layer_norm_pow_opset_18", L.layer_norm, WIDTH, "pow", opset=18)
    for spelling in ("reciprocal", "div", "one_over"):
        t[f"rms_norm_{spelling}"] = _features(f"rms_norm_{spelling}", L.rms_norm, WIDTH, spelling)
    for spelling in ("erf", "erf_half_first", "sigmoid", "tanh", "tanh_cube"):
        t[f"gelu_{spelling}"] = _features(f"gelu_{spelling}", L.gelu, spelling)
    t["gelu_op"] = _features("gelu_op", L.gelu, "op", opset=20)
    t["silu"], t["mish"] = _features("silu", L.silu), _features("mish", L.mish)
    for spelling in ("op", "hard_sigmoid", "div", "mul"):
        t[f"hard_swish_{spelling}"] = _features(f"hard_swish_{spelling}", L.hard_swish, spelling)
    t["hard_swish_div_opset_7"] = _features("hard_swish_div_opset_7", L.hard_swish, "div", opset=7)
    for spelling in ("op", "max", "plain"):
        t[f"softmax_{spelling}"] = _features(f"softmax_{spelling}", L.softmax, spelling)
    t["linear"] = _features("linear", L.linear, WIDTH, WIDTH)
    t["linear_constant_nodes"] = _features("linear_constant_nodes", L.linear, WIDTH, WIDTH, constants="nodes")
    for scale in ("div", "mul", "query", "both", "none"):
        t[f"attention_scale_{scale}"] = lambda scale=scale: attention(f"attention_scale_{scale}", scale=scale)
    t["attention_one_transpose"] = lambda: attention("attention_one_transpose", one_transpose=True)
    t["attention_masked"] = lambda: attention("attention_masked", mask="added")
    t["attention_masked_opset_11"] = lambda: attention("attention_masked_opset_11", opset=11, mask="added")
    t["attention_guarded"] = lambda: attention("attention_guarded", scale="both", mask="causal_trilu", guard=True)
    t["attention_causal_where"] = lambda: attention("attention_causal_where", mask="causal_where")
    t["attention_causal_trilu"] = lambda: attention("attention_causal_trilu", mask="causal_trilu")
    t["group_norm"] = _picture("group_norm", group_norm)
    t["conv_norm"] = _picture("conv_norm", conv_norm)
    t["conv_norm_without_bias"] = _picture("conv_norm_without_bias", conv_norm, None)
    t["conv_norm_constant_nodes"] = _picture("conv_norm_constant_nodes", conv_norm, constants="nodes")
    t["conv_scale_shift"] = _picture("conv_scale_shift", conv_scale_shift)
    t["pad_conv"] = _picture("pad_conv", pad_conv)
    t["channels_last"] = _picture("channels_last", channels_last)
    for opset in (7, 8, 9, 10, 11, 12, 13, 18):
        t[f"old_opset_{opset}"] = lambda opset=opset: old_opset(opset)
    return t


SPELLINGS = _table()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="DIR")
    folder = parser.parse_args().out
    os.makedirs(folder, exist_ok=True)
    for name, make in SPELLINGS.items():
        make().save(os.path.join(folder, name + ".onnx"))
    print(f"{folder}: {len(SPELLINGS)} graphs")


if __name__ == "__main__":
    main()
