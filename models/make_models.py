"""Builds the networks that benchmarks and tests run: real architectures, seeded weights, the same bytes every time.

    python models/make_models.py --list
    python models/make_models.py --out DIR resnet50 bert_base --layers 2 --external

resnet50       v1.5, BatchNormalization folded into the convolutions; image [batch, 3, 224, 224] -> logits [batch, 1000]
resnet50_bn    the same with its 53 BatchNormalization nodes
mobilenetv2    inverted residuals with Clip(0, 6); image [batch, 3, 224, 224] -> logits [batch, 1000]
bert_base      12 layers of 768; input_ids, attention_mask, token_type_ids, all int64 [batch, S]
dlrm           13 dense and 26 sparse features, one look-up each; dense [batch, 13], sparse [batch, 26]
dlrm_bags      the same with 26 inputs bag_K [batch, 4], each four look-ups added up

and every small graph of spellings.py by its name. Weights keep activations near 1 through the depth and let the answer
depend on the input, so that comparisons mean something; the answers themselves mean nothing.
"""

import argparse
import os
import sys

import numpy as np

import layers as L
import spellings
from builder import Builder, i64


# ---- convolutional networks ----
def resnet50(options, folded=True):
    g = Builder("resnet50", seed=50)
    x = g.input("image", ["batch", 3, 224, 224])

    def conv(x, *args, **kwargs):
        if folded:
            return L.conv(g, x, *args, **kwargs)
        y = L.conv(g, x, *args, bias=None, **kwargs)
        return L.batch_norm(g, y, args[1])

    x = g.Relu(conv(x, 3, 64, kernel=7, stride=2, gain=1))
    x = g.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            with g.scope(f"layer{stage + 1}"), g.scope(f"{stage + 1}.{block}"):
                y = g.Relu(conv(x, channels, width))
                y = g.Relu(conv(y, width, width, kernel=3, stride=stride))
                y = conv(y, width, width * 4, gain=0.6)
                if block == 0:
                    with g.scope("downsample"):
                        x = conv(x, channels, width * 4, stride=stride)
                x = g.Relu(g.Add(y, x))
                channels = width * 4
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    g.output("logits", L.gemm(g, x, 2048, 1000, gain=4), ["batch", 1000])
    return g


def mobilenetv2(options):
    g = Builder("mobilenetv2", seed=2)
    x = g.input("image", ["batch", 3, 224, 224])

    def relu6(x):
        return L.clip(g, x, 0, 6)

    x = relu6(L.conv(g, x, 3, 32, kernel=3, stride=2, gain=1))
    channels = 32
    settings = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for ratio, outer, repeats, first_stride in settings:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            inner, residual = channels * ratio, repeat > 0
            with g.scope(f"features.{outer}.{repeat}"):
                y = relu6(L.conv(g, x, channels, inner, gain=1)) if ratio > 1 else x
                y = relu6(L.conv(g, y, inner, inner, kernel=3, stride=stride, group=inner))
                y = L.conv(g, y, inner, outer, gain=1 if residual else 2.9)
                x = g.Add(x, y) if residual else y
                channels = outer
    x = relu6(L.conv(g, x, channels, 1280, gain=1))
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    g.output("logits", L.gemm(g, x, 1280, 1000, gain=4), ["batch", 1000])
    return g


# ---- bert ----
def bert_base(options):
    width, count, layers = 768, 12, options.layers or 12
    g = Builder("bert_base", seed=12)
    ids, mask, types = (g.input(name, ["batch", "S"], "int64")
                        for name in ("input_ids", "attention_mask", "token_type_ids"))
    mask = L.additive_mask(g, mask)
    with g.scope("embeddings"):
        length = L.unsqueeze(g, L.extent(g, ids, 1), 0)
        positions = g.Slice(g.weight(np.arange(512)[None], "embeddings.position_ids"), i64(0), length, i64(1))
        x = g.Add(g.Gather(g.weight(g.normal([30522, width], 0.7), "embeddings.word"), ids),
                  g.Gather(g.weight(g.normal([2, width], 0.4), "embeddings.type"), types))
        x = g.Add(x, g.Gather(g.weight(g.normal([512, width], 0.6), "embeddings.position"), positions))
        x = L.layer_norm(g, x, width, epsilon=1e-12)
    for layer in range(layers):
        with g.scope(f"layer.{layer}"):
            with g.scope("attention"):
                q, k, v = (L.heads(g, L.linear(g, x, width, width), 0, 0, count, 64) for _ in range(3))
                y = L.merge_heads(g, L.attention(g, q, k, v, 64, mask), 0, 0, count, 64)
                x = L.layer_norm(g, g.Add(L.linear(g, y, width, width), x), width, epsilon=1e-12)
            with g.scope("mlp"):
                y = L.linear(g, L.gelu(g, L.linear(g, x, width, width * 4)), width * 4, width, gain=2)
                x = L.layer_norm(g, g.Add(y, x), width, epsilon=1e-12)
    with g.scope("pooler"):
        first = g.Gather(x, np.array(0, np.int64), axis=1)
        pooled = g.Tanh(L.gemm(g, first, width, width))
    g.output("last_hidden_state", x, ["batch", "S", width])
    g.output("pooler_output", pooled, ["batch", width])
    return g


# ---- recommendation ----
def dlrm(options, bag=1):
    width, tables, rows = 64, 26, options.rows
    g = Builder("dlrm", seed=26)

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
        x = mlp(x, [width + len(below), 1024, 1024, 512, 256, 1], 2)
    g.output("probability", g.Sigmoid(x), ["batch", 1])
    return g


NETWORKS = {
    "resnet50": resnet50, "resnet50_bn": lambda options: resnet50(options, folded=False), "mobilenetv2": mobilenetv2,
    "bert_base": bert_base, "dlrm": dlrm, "dlrm_bags": lambda options: dlrm(options, bag=4),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: every network, no spelling")
    parser.add_argument("--out", default=".", metavar="DIR")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--layers", type=int, help="layers of bert_base, which is then called bert_base_N")
    parser.add_argument("--rows", type=int, default=10000, help="rows of each of dlrm's tables (default 10000)")
    parser.add_argument("--external", action="store_true", help="weights in a file of their own, NAME.onnx.data")
    args = parser.parse_args()
    makers = NETWORKS | {name: lambda options, make=make: make() for name, make in spellings.SPELLINGS.items()}
    if args.list:
        print("\n".join(makers))
        return
    unknown = [name for name in args.names if name not in makers]
    if unknown:
        sys.exit(f"make_models: no such network: {', '.join(unknown)}; --list names all")
    os.makedirs(args.out, exist_ok=True)
    for name in args.names or NETWORKS:
        file = f"{name}_{args.layers}" if name == "bert_base" and args.layers else name
        path = os.path.join(args.out, file + ".onnx")
        makers[name](args).save(path, args.external)
        print(path)


if __name__ == "__main__":
    main()
