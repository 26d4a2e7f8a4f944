"""Transformers at the sizes that are published.

TOKENS maps a name to a function of the command line's options that returns a Builder; dimensions batch, S (tokens) and, of
a decoder, P (tokens that were seen before) are symbolic.
"""

import math

import numpy as np

import layers as L
from builder import Builder, f32, i64


def embeddings(g, ids, types, width):
    """Words, kinds of segments and positions, normalized; [batch, S, width]"""
    with g.scope("embeddings"):
        length = L.unsqueeze(g, L.extent(g, ids, 1), 0)
        positions = g.Slice(g.weight(np.arange(512)[None], "embeddings.position_ids"), i64(0), length, i64(1))
        x = g.Add(g.Gather(g.weight(g.normal([30522, width], 0.7), "embeddings.word"), ids),
                  g.Gather(g.weight(g.normal([2, width], 0.4), "embeddings.type"), types))
        x = g.Add(x, g.Gather(g.weight(g.normal([512, width], 0.6), "embeddings.position"), positions))
        return L.layer_norm(g, x, width, epsilon=1e-12)


def encoder(g, layers, width, count):
    """BERT's layers, normalized after each half; (last hidden state [batch, S, width], attention mask)"""
    ids, mask, types = (g.input(name, ["batch", "S"], "int64")
                        for name in ("input_ids", "attention_mask", "token_type_ids"))
    added, each = L.additive_mask(g, mask), width // count
    x = embeddings(g, ids, types, width)
    for layer in range(layers):
        with g.scope(f"layer.{layer}"):
            with g.scope("attention"):
                q, k, v = (L.heads(g, L.linear(g, x, width, width), 0, 0, count, each) for _ in range(3))
                y = L.merge_heads(g, L.attention(g, q, k, v, each, added), 0, 0, count, each)
                x = L.layer_norm(g, g.Add(L.linear(g, y, width, width), x), width, epsilon=1e-12)
            with g.scope("mlp"):
                y = L.linear(g, L.gelu(g, L.linear(g, x, width, width * 4)), width * 4, width, gain=2)
                x = L.layer_norm(g, g.Add(y, x), width, epsilon=1e-12)
    return x, mask


def bert_base(options):
    g = Builder("bert_base", seed=12)
    x, _ = encoder(g, options.layers or 12, 768, 12)
    with g.scope("pooler"):
        first = g.Gather(x, np.array(0, np.int64), axis=1)
        pooled = g.Tanh(L.gemm(g, first, 768, 768))
    g.output("last_hidden_state", x, ["batch", "S", 768])
    g.output("pooler_output", pooled, ["batch", 768])
    return g


def minilm(options):
    """A sentence encoder: the mean of the tokens that the mask keeps, scaled to length 1."""
    g = Builder("minilm", seed=6)
    x, mask = encoder(g, options.layers or 6, 384, 12)
    with g.scope("pooling"):
        kept = g.Cast(L.unsqueeze(g, mask, -1), to=1)
        mean = g.Div(L.reduce(g, "ReduceSum", g.Mul(x, kept), [1], keepdims=0),
                     g.Clip(L.reduce(g, "ReduceSum", kept, [1], keepdims=0), f32(1e-9)))
        length = g.Clip(L.reduce(g, "ReduceL2", mean, [1]), f32(1e-12))
        sentence = g.Div(mean, length)
    g.output("sentence_embedding", sentence, ["batch", 384])
    return g


def gpt2(options):
    """The smallest GPT-2 with its cache: S tokens after P; the mask allows those before a token and itself.

    Inputs input_ids [batch, S] and, for each layer, past.K.key and past.K.value [batch, 12, P, 64]; outputs logits
    [batch, S, 50257] and present.K.key, present.K.value [batch, 12, P + S, 64]."""
    width, count, each, words = 768, 12, 64, 50257
    g = Builder("gpt2", seed=2)
    ids = g.input("input_ids", ["batch", "S"], "int64")
    layers = options.layers or 12
    past = [[g.input(f"past.{k}.{part}", ["batch", count, "P", each]) for part in ("key", "value")] for k in range(layers)]
    seen, fresh = L.extent(g, past[0][0], 2), L.extent(g, ids, 1)
    total = g.Add(seen, fresh)
    table = g.weight(g.normal([words, width], 0.3), "wte")
    with g.scope("positions"):
        positions = g.Range(seen, total, np.array(1, np.int64))
        x = g.Add(g.Gather(table, ids), g.Gather(g.weight(g.normal([1024, width], 0.2), "wpe"), positions))
    with g.scope("mask"):  # [S, P + S]
        keys = g.Range(np.array(0, np.int64), total, np.array(1, np.int64))
        allowed = g.LessOrEqual(L.unsqueeze(g, keys, 0), L.unsqueeze(g, positions, 1))
        mask = g.Where(allowed, f32(0), f32(L.LOWEST))

    def conv1d(x, inner, outer, gain=1.0):
        """transformers' Conv1D: a Gemm on rows between two Reshapes."""
        y = g.Gemm(g.Reshape(x, i64(-1, inner)), g.normal([inner, outer], math.sqrt(gain / inner)), g.normal([outer], 0.05))
        return L.view(g, y, -1, fresh, outer)

    presents = []
    for layer in range(layers):
        with g.scope(f"h.{layer}"):
            with g.scope("attn"):
                q, k, v = (L.heads(g, part, 0, 0, count, each) for part in
                           L.split(g, conv1d(L.layer_norm(g, x, width), width, 3 * width), 2, [width] * 3))
                k, v = (g.Concat(old, new, axis=2) for old, new in zip(past[layer], (k, v)))
                presents.append((k, v))
                y = L.merge_heads(g, L.attention(g, q, k, v, each, mask), 0, 0, count, each)
                x = g.Add(conv1d(y, width, width), x)
            with g.scope("mlp"):
                y = L.gelu(g, conv1d(L.layer_norm(g, x, width), width, 4 * width), "tanh")
                x = g.Add(x, conv1d(y, 4 * width, width, gain=2))
    x = L.layer_norm(g, x, width)
    g.output("logits", g.MatMul(x, g.Transpose(table, perm=[1, 0])), ["batch", "S", words])  # the words' table, again
    for layer, pair in enumerate(presents):
        for part, value in zip(("key", "value"), pair):
            g.output(f"present.{layer}.{part}", value, ["batch", count, "P + S", each])
    return g


def vit_b16(options):
    """Patches of 16 by a convolution, a class token, q, k and v from one MatMul; image [batch, 3, 224, 224]."""
    width, count, each = 768, 12, 64
    g = Builder("vit_b16", seed=16)
    with g.scope("patch_embed"):
        x = L.conv(g, g.input("image", ["batch", 3, 224, 224]), 3, width, kernel=16, stride=16, pad=0, gain=1)
        x = g.Transpose(g.Reshape(x, i64(0, width, -1)), perm=[0, 2, 1])
    first = L.expand(g, g.weight(g.normal([1, 1, width], 1), "cls_token"), L.extent(g, x, 0), -1, -1)
    x = g.Add(g.Concat(first, x, axis=1), g.weight(g.normal([1, 197, width], 0.5), "pos_embed"))
    for block in range(options.layers or 12):
        with g.scope(f"blocks.{block}"):
            y = L.linear(g, L.layer_norm(g, x, width, epsilon=1e-6), width, 3 * width)
            y = g.Transpose(g.Reshape(y, i64(0, 0, 3, count, each)), perm=[2, 0, 3, 1, 4])
            q, k, v = (g.Gather(y, np.array(i, np.int64), axis=0) for i in range(3))
            y = L.merge_heads(g, L.attention(g, q, k, v, each, scale="both"), 0, 0, count, each)
            x = g.Add(x, L.linear(g, y, width, width))
            y = L.gelu(g, L.linear(g, L.layer_norm(g, x, width, epsilon=1e-6), width, 4 * width))
            x = g.Add(x, L.linear(g, y, 4 * width, width, gain=2))
    x = g.Gather(L.layer_norm(g, x, width, epsilon=1e-6), np.array(0, np.int64), axis=1)
    g.output("logits", L.gemm(g, x, width, 1000), ["batch", 1000])
    return g


TOKENS = {"bert_base": bert_base, "minilm": minilm, "gpt2": gpt2, "vit_b16": vit_b16}
