"""Trains the small network in models/digits.onnx, by gradients written out in numpy.

Data: the 1,797 handwritten digits bundled with scikit-learn (8x8, 17 grey levels), each pixel doubled to 16x16, scaled to
0..1. Every fifth sample (359 of them) is held out; the others are shifted by up to two pixels while training.

    image [N, 1, 16, 16] -> Conv 3x3, 16 -> Relu -> MaxPool 2 -> Conv 3x3, 32 -> BatchNormalization -> Relu -> MaxPool 2
                         -> Flatten -> Gemm -> Softmax -> probabilities [N, 10]

BatchNormalization stays a node of its own, with the statistics of training, so that a compiler has something to fold.
Held-out accuracy of the committed file: 0.9916.

    python models/train_digits.py            # needs scikit-learn; rewrites models/digits.onnx and tests/data/digits_io.npz
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one order of additions: the same bytes from every run on one machine
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import onnxruntime
from sklearn.datasets import load_digits

from builder import Builder

HERE = os.path.dirname(os.path.abspath(__file__))
EPSILON = 1e-5


# ---- layers: forward returns (result, what backward needs); backward returns (gradient of x, gradients of weights) ----
def windows(x):
    """[N, C, H, W] -> every 3x3 neighbourhood, zero padded: [N, H, W, C * 9]"""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # [N, C, H, W, 3, 3]
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv(x, weight, bias):
    columns = windows(x)
    y = columns @ weight.reshape(len(weight), -1).T + bias
    return y.transpose(0, 3, 1, 2), (columns, weight)


def conv_backward(dy, saved):
    columns, weight = saved
    rows = dy.transpose(0, 2, 3, 1).reshape(-1, dy.shape[1])
    dweight = (rows.T @ columns.reshape(len(rows), -1)).reshape(weight.shape)
    flipped = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)  # the gradient of x is a convolution with the turned kernel
    dx = windows(dy) @ flipped.reshape(len(flipped), -1).T
    return dx.transpose(0, 3, 1, 2), dweight, rows.sum(0)


def norm(x, scale, shift):
    mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    inverse = 1 / np.sqrt(var + EPSILON)
    hat = (x - mean) * inverse
    return hat * scale[:, None, None] + shift[:, None, None], (hat, inverse, scale), mean.ravel(), var.ravel()


def norm_backward(dy, saved):
    hat, inverse, scale = saved
    axes = (0, 2, 3)
    dhat = dy * scale[:, None, None]
    dx = inverse * (dhat - dhat.mean(axes, keepdims=True) - hat * (dhat * hat).mean(axes, keepdims=True))
    return dx, (dy * hat).sum(axes), dy.sum(axes)


def pool(x):
    n, c, h, w = x.shape
    cells = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    best = cells.argmax(-1)[..., None]
    return np.take_along_axis(cells, best, -1)[..., 0], (best, x.shape)


def pool_backward(dy, saved):
    best, (n, c, h, w) = saved
    cells = np.zeros((n, c, h // 2, w // 2, 4), dy.dtype)
    np.put_along_axis(cells, best, dy[..., None], -1)
    return cells.reshape(n, c, h // 2, w // 2, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h, w)


# ---- the network ----
def initial(rng):
    def he(*shape):
        return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)

    def full(n, value):
        return np.full(n, value, np.float32)

    return {"conv1.weight": he(16, 1, 3, 3), "conv1.bias": full(16, 0), "conv2.weight": he(32, 16, 3, 3),
            "conv2.bias": full(32, 0), "norm.weight": full(32, 1), "norm.bias": full(32, 0),
            "fc.weight": he(10, 512), "fc.bias": full(10, 0)}


def loss_gradients(p, image, label, running):
    """Cross entropy's gradients for one batch; `running` (mean, var of the norm) is moved towards the batch's."""
    a, conv1 = conv(image, p["conv1.weight"], p["conv1.bias"])
    b, pool1 = pool(np.maximum(a, 0))
    c, conv2 = conv(b, p["conv2.weight"], p["conv2.bias"])
    d, norm1, mean, var = norm(c, p["norm.weight"], p["norm.bias"])
    e, pool2 = pool(np.maximum(d, 0))
    flat = e.reshape(len(e), -1)
    logits = flat @ p["fc.weight"].T + p["fc.bias"]
    running[0] += 0.05 * (mean - running[0])
    running[1] += 0.05 * (var - running[1])

    dlogits = softmax(logits)
    dlogits[np.arange(len(label)), label] -= 1
    dlogits /= len(label)
    g = {"fc.weight": dlogits.T @ flat, "fc.bias": dlogits.sum(0)}
    dd = pool_backward((dlogits @ p["fc.weight"]).reshape(e.shape), pool2) * (d > 0)
    dc, g["norm.weight"], g["norm.bias"] = norm_backward(dd, norm1)
    db, g["conv2.weight"], g["conv2.bias"] = conv_backward(dc, conv2)
    _, g["conv1.weight"], g["conv1.bias"] = conv_backward(pool_backward(db, pool1) * (a > 0), conv1)
    return g


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def shifted(rng, image):
    """Moves every image by up to two pixels in each direction, over zeros."""
    padded = np.pad(image, ((0, 0), (0, 0), (2, 2), (2, 2)))
    offsets = rng.integers(0, 5, (len(image), 2))
    return np.stack([m[:, y:y + 16, x:x + 16] for m, (y, x) in zip(padded, offsets)])


def train(image, label, epochs, rng):
    """Adam with a learning rate that falls along a cosine; returns the weights and the norm's running statistics."""
    p = initial(rng)
    running = [np.zeros(32, np.float32), np.ones(32, np.float32)]
    first = {k: np.zeros_like(v) for k, v in p.items()}
    second = {k: np.zeros_like(v) for k, v in p.items()}
    batch, step, steps = 64, 0, epochs * (len(image) // 64)
    for _ in range(epochs):
        order = rng.permutation(len(image))
        for start in range(0, len(image) - batch + 1, batch):
            pick = order[start:start + batch]
            grads = loss_gradients(p, shifted(rng, image[pick]), label[pick], running)
            rate = 0.003 * 0.5 * (1 + np.cos(np.pi * step / steps))
            step += 1
            for k, g in grads.items():
                first[k] += 0.1 * (g - first[k])
                second[k] += 0.001 * (g * g - second[k])
                p[k] -= (rate * (first[k] / (1 - 0.9 ** step)) /
                         (np.sqrt(second[k] / (1 - 0.999 ** step)) + 1e-8)).astype(np.float32)
    return p, running


def export(p, running, accuracy):
    g = Builder("digits", opset=17)
    w = {k: g.weight(v, k) for k, v in p.items()}
    w["norm.running_mean"] = g.weight(running[0].astype(np.float32), "norm.running_mean")
    w["norm.running_var"] = g.weight(running[1].astype(np.float32), "norm.running_var")
    same = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    half = dict(kernel_shape=[2, 2], strides=[2, 2])
    x = g.input("image", ["batch", 1, 16, 16])
    x = g.MaxPool(g.Relu(g.Conv(x, w["conv1.weight"], w["conv1.bias"], **same)), **half)
    x = g.Conv(x, w["conv2.weight"], w["conv2.bias"], **same)
    x = g.BatchNormalization(x, w["norm.weight"], w["norm.bias"], w["norm.running_mean"], w["norm.running_var"],
                             epsilon=EPSILON)
    x = g.Flatten(g.MaxPool(g.Relu(x), **half), axis=1)
    x = g.Gemm(x, w["fc.weight"], w["fc.bias"], transB=1)
    g.output("probabilities", g.Softmax(x, axis=1), ["batch", 10])
    g.metadata = {"accuracy": f"{accuracy:.4f}", "accuracy_on": "359 held-out samples, every fifth of load_digits",
                  "classes": "0123456789"}
    return g


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--epochs", type=int, default=40)
    args.add_argument("--out", default=os.path.join(HERE, "digits.onnx"))
    args.add_argument("--io", default=os.path.join(HERE, "..", "tests", "data", "digits_io.npz"))
    args = args.parse_args()

    digits = load_digits()
    image = np.repeat(np.repeat(digits.images, 2, 1), 2, 2)[:, None].astype(np.float32) / 16
    label = digits.target
    held_out = np.arange(len(image)) % 5 == 4
    p, running = train(image[~held_out], label[~held_out], args.epochs, np.random.Generator(np.random.PCG64(7)))

    test, truth = image[held_out], label[held_out]
    export(p, running, 0).save(args.out)
    accuracy = np.mean(predict(args.out, test).argmax(1) == truth)
    export(p, running, accuracy).save(args.out)  # now with the accuracy in its metadata
    print(f"{args.out}: {os.path.getsize(args.out)} bytes, held-out accuracy {accuracy:.4f} on {len(test)}")

    few = test[:32]
    np.savez(args.io, image=few, probabilities=predict(args.out, few), labels=truth[:32].astype(np.int64))


def predict(path, image):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(["probabilities"], {"image": image})[0]


if __name__ == "__main__":
    main()
