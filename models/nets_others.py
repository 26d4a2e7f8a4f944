"""Recommenders, recurrent and causal networks over signals, and a network over a graph.

OTHERS maps a name to a function of the command line's options that returns a Builder.
"""

import numpy as np

import layers as L
from builder import Builder, i64


# ---- recommendation ----
def dlrm(options, bag=1, top=(1024, 1024, 512, 256), name="dlrm"):
    """13 dense and 26 sparse features; the products of all pairs of vectors go through the layers of `top`."""
    width, tables, rows = 64, 26, options.rows
    g = Builder(name, seed=26)

    def mlp(x, sizes, last_gain):
        for inner, outer in zip(sizes, sizes[1:]):
            gain = last_gain if outer == sizes[-1] else 2
            x = L.gemm(g, x, inner, outer, gain)
            x = g.Relu(x) if outer > 1 else x
        return x

    dense = g.input("dense", ["batch", 13])
    if bag == 1:
        sparse = g.input("sparse", ["batch", tables], "int64")
        picks = [g.Gather(sparse, np.array(k, np.int64), axis=1) for k in range(tables)]
    else:
        picks = [g.input(f"bag_{k}", ["batch", bag], "int64") for k in range(tables)]

    entry = width ** -0.25  # the product of two vectors of such entries is near 1
    with g.scope("bottom"):
        vectors = [mlp(dense, [13, 512, 256, width], 2 * entry * entry)]
    with g.scope("embeddings"):
        for k, pick in enumerate(picks):
            table = g.weight(g.normal([rows, width], entry / bag ** 0.5), f"embeddings.{k}.weight")
            rowset = g.Gather(table, pick, axis=0)
            vectors.append(rowset if bag == 1 else L.reduce(g, "ReduceSum", rowset, [1], keepdims=0))
    with g.scope("interaction"):
        size = tables + 1
        below, left = np.tril_indices(size, -1)
        stacked = g.Reshape(g.Concat(*vectors, axis=1), i64(-1, size, width))
        products = g.MatMul(stacked, g.Transpose(stacked, perm=[0, 2, 1]))
        if bag == 1:
            pairs = g.Gather(g.Reshape(products, i64(-1, size * size)), below * size + left, axis=1)
        else:
            pairs = g.GatherND(g.Transpose(products, perm=[1, 2, 0]), np.stack([below, left], 1).astype(np.int64))
            pairs = g.Transpose(pairs, perm=[1, 0])
        x = g.Concat(vectors[0], pairs, axis=1)
    with g.scope("top"):
        x = mlp(x, [width + len(below), *top, 1], 2)
    g.output("probability", g.Sigmoid(x), ["batch", 1])
    return g


# ---- signals ----
def lstm(options):
    """256 cells over x [100, batch, 256]; all states y [100, 1, batch, 256] and the last two."""
    cells = 256
    g = Builder("lstm", seed=100)
    x = g.input("x", [100, "batch", cells])
    weights = [g.normal([1, 4 * cells, cells], cells ** -0.5) for _ in range(2)]
    y, h, c = g.LSTM(x, *weights, g.normal([1, 8 * cells], 0.1), hidden_size=cells, outputs=3)
    g.output("y", y, [100, 1, "batch", cells])
    g.output("h", h, [1, "batch", cells])
    g.output("c", c, [1, "batch", cells])
    return g


def wavenet(options):
    """Ten gated layers of 32 channels with dilations 1 to 512, skips of 256; x [batch, 32, 4000] -> odds of 256 levels."""
    inner, skip, length = 32, 256, 4000
    g = Builder("wavenet", seed=10)
    x = g.input("x", ["batch", inner, length])

    def conv(x, features, outer, kernel=1, dilation=1):
        """Sees the present and the past only."""
        weight = g.he([outer, features, kernel], 1.5)
        return g.Conv(x, weight, g.normal([outer], 0.1), kernel_shape=[kernel], dilations=[dilation],
                      pads=[(kernel - 1) * dilation, 0])

    skips = None
    for layer in range(10):
        with g.scope(f"layers.{layer}"):
            gated = g.Mul(g.Tanh(conv(x, inner, inner, 2, 1 << layer)), g.Sigmoid(conv(x, inner, inner, 2, 1 << layer)))
            x = g.Add(x, conv(gated, inner, inner))
            y = conv(gated, inner, skip)
            skips = y if skips is None else g.Add(skips, y)
    y = g.Relu(conv(g.Relu(skips), skip, skip))
    g.output("odds", g.Softmax(conv(y, skip, skip), axis=1), ["batch", skip, length])
    return g


# ---- graphs ----
def gcn(options):
    """Two graph convolutions (means over neighbours); x [nodes, 256], edges [2, edges] from and to -> [nodes, 7]."""
    features, hidden, classes = 256, 128, 7
    g = Builder("gcn", seed=7, opset=18)
    x = g.input("x", ["nodes", features])
    edges = g.input("edges", [2, "edges"], "int64")
    source, sink = (g.Gather(edges, np.array(k, np.int64), axis=0) for k in range(2))
    sinks = L.unsqueeze(g, sink, 1)

    def summed(values, width):
        """Values of edges [edges, width], added up at the node that each goes to; [nodes, width]"""
        shape = L.shape_from(g, L.extent(g, x, 0), width)
        nothing = g.ConstantOfShape(shape, value=L.fill(np.zeros(1, np.float32)))
        return g.ScatterND(nothing, sinks, values, reduction="add")

    ones = g.Expand(np.ones((1, 1), np.float32), L.shape_from(g, L.extent(g, sink, 0), 1))
    degree = g.Add(summed(ones, 1), np.ones((1, 1), np.float32))

    def layer(x, inner, outer):
        y = L.linear(g, x, inner, outer, gain=2)
        return g.Div(g.Add(summed(g.Gather(y, source, axis=0), outer), y), degree)

    with g.scope("layers.0"):
        y = g.Relu(layer(x, features, hidden))
    with g.scope("layers.1"):
        g.output("logits", layer(y, hidden, classes), ["nodes", classes])
    return g


OTHERS = {
    "dlrm": dlrm, "dlrm_bags": lambda options: dlrm(options, bag=4, name="dlrm_bags"),
    "dlrm_small": lambda options: dlrm(options, top=(512, 256), name="dlrm_small"), "lstm": lstm, "wavenet": wavenet,
    "gcn": gcn,
}
