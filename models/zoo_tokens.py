"""Small transformers, as exports of timm and transformers write them: with the shapes computed in the graph.

TOKENS maps a name to a function that returns a Builder. Dimensions batch and S are symbolic.
"""

import math

import numpy as np

import layers as L
from builder import Builder, f32, i64


def split_heads(g, x, count, width):
    """x.view(x.size()[:-1] + (count, width)), two extents looked up for every use; [B, S, F] -> [B, S, count, width]"""
    return L.view(g, x, L.extent(g, x, 0), L.extent(g, x, 1), count, width)


def join_heads(g, x, features):
    """[B, count, S, width] -> [B, S, features]"""
    x = g.Transpose(x, perm=[0, 2, 1, 3])
    return L.view(g, x, L.extent(g, x, 0), L.extent(g, x, 1), features)


def rooted(g, q, k):
    """torch's scaled_dot_product_attention: the root of the scale, computed from q's shape, on either side."""
    width = g.Cast(g.Slice(g.Shape(q), i64(-1), i64(np.iinfo(np.int64).max)), to=1)
    root = g.Sqrt(g.Div(f32([1]), g.Sqrt(width)))
    return g.MatMul(g.Mul(q, root), g.Mul(g.Transpose(k, perm=[0, 1, 3, 2]), root))


def tokens_and_positions(g, ids, vocabulary, limit, features):
    """Word embeddings, and those of the first S positions from a list of positions that is kept in the file."""
    words = g.Gather(g.weight(g.normal([vocabulary, features], 0.7), "embeddings.word"), ids)
    length = L.unsqueeze(g, L.extent(g, ids, 1), 0)
    kept = g.weight(np.arange(limit)[None], "embeddings.position_ids")
    positions = g.Slice(kept, i64(0), length, i64(1), i64(1))
    return words, g.Gather(g.weight(g.normal([limit, features], 0.6), "embeddings.position"), positions)


def minilm():
    """A sentence encoder: BERT's layers, then the mean of the tokens that the mask keeps, scaled to length 1."""
    features, count, width = 48, 4, 12
    g = Builder("minilm", seed=1, opset=14)
    ids, mask = g.input("input_ids", ["batch", "S"], "int64"), g.input("attention_mask", ["batch", "S"], "int64")
    with g.scope("embeddings"):
        words, positions = tokens_and_positions(g, ids, 200, 64, features)
        # token types: a row of zeros kept in the file, expanded to [batch, S]
        zeros = g.weight(np.zeros((1, 64), np.int64), "embeddings.token_type_ids")
        zeros = g.Slice(zeros, i64(0), L.unsqueeze(g, L.extent(g, ids, 1), 0), i64(1), i64(1))
        types = L.expand(g, zeros, L.extent(g, ids, 0), L.extent(g, ids, 1))
        types = g.Gather(g.weight(g.normal([2, features], 0.4), "embeddings.type"), types)
        x = L.layer_norm(g, g.Add(g.Add(words, types), positions), features, "pow", 1e-12)
    added = L.additive_mask(g, mask)
    for layer in range(2):
        with g.scope(f"layer.{layer}"):
            q, k, v = (g.Transpose(split_heads(g, L.linear(g, x, features, features), count, width), perm=perm)
                       for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
            scores = g.Add(g.Div(g.MatMul(q, k), f32(math.sqrt(width))), added)
            y = join_heads(g, g.MatMul(g.Softmax(scores, axis=-1), v), features)
            x = L.layer_norm(g, g.Add(L.linear(g, y, features, features), x), features, "pow", 1e-12)
            y = L.linear(g, L.gelu(g, L.linear(g, x, features, 4 * features)), 4 * features, features, gain=2)
            x = L.layer_norm(g, g.Add(y, x), features, "pow", 1e-12)
    with g.scope("pooling"):
        wide = L.expand(g, L.unsqueeze(g, mask, -1), *(L.extent(g, x, axis) for axis in range(3)))
        wide = g.Cast(wide, to=1)
        total = L.reduce(g, "ReduceSum", g.Mul(x, wide), [1], keepdims=0)
        mean = g.Div(total, g.Clip(L.reduce(g, "ReduceSum", wide, [1], keepdims=0), f32(1e-9)))
        length = g.Clip(L.reduce(g, "ReduceL2", mean, [1]), f32(1e-12))
        sentence = g.Div(mean, g.Expand(length, g.Shape(mean)))
    g.output("last_hidden_state", x, ["batch", "S", features])
    g.output("sentence_embedding", sentence, ["batch", features])
    return g


def vit():
    """Patches by a convolution, a class token expanded to the batch, q, k and v from one MatMul."""
    features, count, width = 48, 4, 12
    g = Builder("vit", seed=2, opset=17)
    image = g.input("image", ["batch", 3, 32, 32])
    with g.scope("patch_embed"):
        x = L.conv(g, image, 3, features, kernel=8, stride=8, pad=0, gain=1)  # [batch, 48, 4, 4]
        start = g.Slice(g.Shape(x), i64(0), i64(2), i64(0))
        x = g.Transpose(g.Reshape(x, g.Concat(start, i64(-1), axis=0)), perm=[0, 2, 1])
    first = L.expand(g, g.weight(g.normal([1, 1, features], 1), "cls_token"), L.extent(g, x, 0), -1, -1)
    x = g.Add(g.Concat(first, x, axis=1), g.weight(g.normal([1, 17, features], 0.5), "pos_embed"))
    for block in range(2):
        with g.scope(f"blocks.{block}"):
            y = L.linear(g, L.layer_norm(g, x, features, epsilon=1e-6), features, 3 * features)
            y = L.view(g, y, L.extent(g, y, 0), L.extent(g, y, 1), 3, count, width)
            y = g.Transpose(y, perm=[2, 0, 3, 1, 4])
            q, k, v = (g.Gather(y, np.array(i, np.int64), axis=0) for i in range(3))
            y = join_heads(g, g.MatMul(g.Softmax(rooted(g, q, k), axis=-1), v), features)
            x = g.Add(x, L.linear(g, y, features, features))
            y = L.gelu(g, L.linear(g, L.layer_norm(g, x, features, epsilon=1e-6), features, 4 * features))
            x = g.Add(x, L.linear(g, y, 4 * features, features, gain=2))
    x = g.Gather(L.layer_norm(g, x, features, epsilon=1e-6), np.array(0, np.int64), axis=1)
    g.output("logits", L.gemm(g, x, features, 10), ["batch", 10])
    return g


# ---- gpt-2, the whole prompt at once ----
def sliced_triangle(g, q, k, limit):
    """The mask of transformers' older exports: a triangle in the file, cut to [queries, keys], then Where."""
    rows, columns = L.extent(g, q, -2), L.extent(g, k, -2)
    triangle = g.weight(np.tril(np.ones((1, 1, limit, limit), bool)), "bias")
    first = L.unsqueeze(g, g.Sub(columns, rows), 0)
    columns = L.unsqueeze(g, columns, 0)
    cut = g.Slice(g.Slice(triangle, first, columns, i64(2), i64(1)), i64(0), columns, i64(3), i64(1))

    scores = g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2]))
    root = g.Pow(g.Cast(L.extent(g, q, -1), to=1), f32(0.5))
    return g.Where(cut, g.Div(scores, root), f32(L.LOWEST))


def trilu_triangle(g, q, k, limit):
    """The mask of scaled_dot_product_attention: ones expanded to [queries, keys], Trilu, zeros to minus infinity."""
    def extents(x):
        return g.Slice(g.Shape(x), i64(-2), i64(-1))

    ones = g.Expand(f32(1), g.Concat(extents(q), extents(k), axis=0))
    lower = g.Trilu(ones, upper=0)
    return g.Add(rooted(g, q, k), g.Where(g.Equal(lower, f32(0)), f32(-np.inf), f32(0)))


def gpt2(name, opset, norm, scores_of):
    features, count, width, vocabulary, limit = 48, 4, 12, 160, 64
    g = Builder(name, seed=len(name), opset=opset)
    ids = g.input("input_ids", ["batch", "S"], "int64")
    ids = L.view(g, ids, -1, L.extent(g, ids, 1))
    table = g.weight(g.normal([vocabulary, features], 0.7), "wte")
    with g.scope("positions"):
        length = L.extent(g, ids, 1)
        positions = g.Range(np.array(0, np.int64), length, np.array(1, np.int64))
        positions = L.view(g, L.unsqueeze(g, positions, 0), -1, length)
        positions = g.Gather(g.weight(g.normal([limit, features], 0.6), "wpe"), positions)
    x = g.Add(g.Gather(table, ids), positions)

    def conv1d(x, inner, outer, gain=1.0):
        """transformers' Conv1D: a Gemm on rows, between two Reshapes whose targets are looked up."""
        batch, length = L.extent(g, x, 0), L.extent(g, x, 1)
        rows = L.view(g, x, -1, L.extent(g, x, 2))
        y = g.Gemm(rows, g.normal([inner, outer], math.sqrt(gain / inner)), g.normal([outer], 0.05))
        return L.view(g, y, batch, length, outer)

    for layer in range(2):
        with g.scope(f"h.{layer}"):
            with g.scope("attn"):
                parts = L.split(g, conv1d(L.layer_norm(g, x, features, norm), features, 3 * features), 2, [features] * 3)
                q, k, v = (g.Transpose(split_heads(g, p, count, width), perm=[0, 2, 1, 3]) for p in parts)
                y = g.MatMul(g.Softmax(scores_of(g, q, k, limit), axis=-1), v)
                x = g.Add(conv1d(join_heads(g, y, features), features, features), x)
            with g.scope("mlp"):
                y = L.gelu(g, conv1d(L.layer_norm(g, x, features, norm), features, 4 * features), "tanh")
                x = g.Add(x, conv1d(y, 4 * features, features, gain=2))
    x = L.layer_norm(g, x, features, norm)
    logits = g.MatMul(x, g.Transpose(table, perm=[1, 0]))  # the table of the words, used again
    last = g.Gather(logits, np.array(-1, np.int64), axis=1)
    g.output("logits", logits, ["batch", "S", vocabulary])
    g.output("next", g.ArgMax(last, axis=-1, keepdims=0), ["batch"], "int64")
    return g


TOKENS = {
    "minilm": minilm, "vit": vit, "gpt2": lambda: gpt2("gpt2", 13, "pow", sliced_triangle),
    "gpt2_trilu": lambda: gpt2("gpt2_trilu", 17, "op", trilu_triangle),
}
