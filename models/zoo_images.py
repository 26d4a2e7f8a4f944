"""Small networks over pictures, each with the blocks of a known family, as torchvision's and timm's exports write them.

IMAGES maps a name to a function that returns a Builder. Input image [batch, 3, H, W], output logits [batch, 10].
"""

import numpy as np

import layers as L
from builder import Builder, f32, i64

CLASSES = 10


def start(name, size, opset=17, **how):
    g = Builder(name, seed=sum(name.encode()), opset=opset, **how)
    return g, g.input("image", ["batch", 3, size, size])


def finish(g, logits):
    g.output("logits", logits, ["batch", CLASSES])
    return g


def pool(g, x, kernel, stride, pad=0, **how):
    return g.MaxPool(x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, **how)


def conv_relu(g, x, *args, **kwargs):
    return g.Relu(L.conv(g, x, *args, **kwargs))


def flatten_view(g, x):
    """torch's x.view(x.size(0), -1)."""
    return L.view(g, x, L.extent(g, x, 0), -1)


# ---- plain chains and skips ----
def vgg():
    g, x = start("vgg", 32)
    channels = 3
    for outer in (16, "pool", 32, "pool", 32, 32, "pool"):
        if outer == "pool":
            x = pool(g, x, 2, 2)
        else:
            x, channels = conv_relu(g, x, channels, outer, kernel=3, gain=1 if channels == 3 else 2.9), outer
    x = g.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2])  # [batch, 32, 2, 2]
    x = g.Flatten(x, axis=1)
    x = g.Relu(L.gemm(g, x, 128, 96, gain=2))
    x = g.Relu(L.gemm(g, x, 96, 64, gain=2))
    return finish(g, L.gemm(g, x, 64, CLASSES, gain=2))


def resnet():
    """Basic blocks with BatchNormalization left in, as exports in training mode and Paddle's have it."""
    g, x = start("resnet", 32, opset=12)

    def conv(x, *args, **kwargs):
        return L.batch_norm(g, L.conv(g, x, *args, bias=None, **kwargs), args[1])

    x = pool(g, g.Relu(conv(x, 3, 16, kernel=7, stride=2, gain=1)), 3, 2, 1)
    channels = 16
    for stage, outer in enumerate((16, 32)):
        for block in range(2):
            stride = 2 if outer != channels else 1
            with g.scope(f"layer{stage + 1}.{block}"):
                y = conv(g.Relu(conv(x, channels, outer, kernel=3, stride=stride)), outer, outer, kernel=3, gain=1)
                x = conv(x, channels, outer, stride=stride) if stride == 2 else x
                x, channels = g.Relu(g.Add(y, x)), outer
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    return finish(g, L.gemm(g, x, 32, CLASSES, gain=4))


# ---- inverted residuals ----
def mobilenetv3(name="mobilenetv3", opset=17, spelling="op"):
    g, x = start(name, 32, opset)

    def swish(x):
        return L.hard_swish(g, x, spelling)

    def gate(x):
        if spelling == "op":
            return g.HardSigmoid(x, alpha=1 / 6)
        return g.Div(L.clip(g, g.Add(x, f32(3)), 0, 6), f32(6))

    x = swish(L.conv(g, x, 3, 16, kernel=3, stride=2, gain=1))
    channels = 16
    blocks = ((3, 16, 16, True, g.Relu, 2), (3, 48, 24, False, g.Relu, 2), (5, 64, 24, True, swish, 1))
    for index, (kernel, inner, outer, excite, act, stride) in enumerate(blocks):
        with g.scope(f"features.{index + 1}"):
            y = act(L.conv(g, x, channels, inner, gain=1)) if inner != channels else x
            y = act(L.conv(g, y, inner, inner, kernel=kernel, stride=stride, group=inner))
            if excite:
                y = L.squeeze_excite(g, y, inner, 8, g.Relu, gate)
            y = L.conv(g, y, inner, outer, gain=4)
            x, channels = (g.Add(x, y) if stride == 1 and outer == channels else y), outer
    x = swish(L.conv(g, x, channels, 96, gain=1))
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    x = swish(L.gemm(g, x, 96, 64, gain=4))
    return finish(g, L.gemm(g, x, 64, CLASSES, gain=4))


def efficientnet():
    g, x = start("efficientnet", 32)

    def swish(x):
        return L.silu(g, x)

    x = swish(L.conv(g, x, 3, 16, kernel=3, stride=2, gain=1))
    channels = 16
    for index, (ratio, outer, kernel, stride) in enumerate(((1, 16, 3, 1), (4, 24, 3, 2), (4, 24, 5, 1), (4, 32, 3, 2))):
        inner = channels * ratio
        with g.scope(f"blocks.{index}"):
            y = swish(L.conv(g, x, channels, inner, gain=1.5)) if ratio > 1 else x
            y = swish(L.conv(g, y, inner, inner, kernel=kernel, stride=stride, group=inner))
            y = L.squeeze_excite(g, y, inner, 4, swish, g.Sigmoid, pool="mean")
            y = L.conv(g, y, inner, outer, gain=8)
            x, channels = (g.Add(y, x) if stride == 1 and outer == channels else y), outer
    x = swish(L.conv(g, x, channels, 128, gain=1.5))
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    return finish(g, L.gemm(g, x, 128, CLASSES, gain=4))


# ---- many edges ----
def densenet():
    """Each layer reads all before it; BatchNormalization stands before Relu, so that nothing can fold it forwards."""
    g, x = start("densenet", 32, opset=13)
    x = pool(g, conv_relu(g, x, 3, 16, kernel=7, stride=2, gain=1), 3, 2, 1)
    channels, growth = 16, 8
    for block in range(2):
        parts = [x]
        for layer in range(3):
            with g.scope(f"denseblock{block + 1}"), g.scope(f"denselayer{layer + 1}"):
                y = g.Concat(*parts, axis=1) if len(parts) > 1 else parts[0]
                y = L.conv(g, g.Relu(L.batch_norm(g, y, channels)), channels, 32, bias=0.1)
                parts.append(L.conv(g, g.Relu(y), 32, growth, kernel=3, bias=None))
                channels += growth
        x = g.Relu(L.batch_norm(g, g.Concat(*parts, axis=1), channels))
        if block == 0:
            with g.scope("transition1"):
                x = g.AveragePool(L.conv(g, x, channels, channels // 2, bias=None), kernel_shape=[2, 2], strides=[2, 2])
                channels //= 2
    x = flatten_view(g, g.GlobalAveragePool(x))
    return finish(g, L.gemm(g, x, channels, CLASSES, gain=4))


def inception():
    """Branches of many kernels, factored 1x7 and 7x1 convolutions, and the input's channels normalized one by one."""
    g, x = start("inception", 35)
    channels = []
    for k, (scale, shift) in enumerate(((0.458, -0.030), (0.448, -0.088), (0.450, -0.188))):
        one = L.unsqueeze(g, g.Gather(x, np.array(k, np.int64), axis=1), 1)
        channels.append(g.Add(g.Mul(one, f32(scale * 2)), f32(shift)))
    x = g.Concat(*channels, axis=1)
    x = conv_relu(g, x, 3, 16, kernel=3, stride=2, pad=0, gain=1.2)  # [batch, 16, 17, 17]
    x = conv_relu(g, x, 16, 24, kernel=3)
    with g.scope("mixed_a"):
        a = conv_relu(g, x, 24, 16)
        b = conv_relu(g, conv_relu(g, x, 24, 12), 12, 16, kernel=5)
        c = conv_relu(g, conv_relu(g, conv_relu(g, x, 24, 12), 12, 16, kernel=3), 16, 16, kernel=3)
        d = g.AveragePool(x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1], count_include_pad=1)
        x = g.Concat(a, b, c, conv_relu(g, d, 24, 8), axis=1)
    with g.scope("mixed_b"):
        a = conv_relu(g, x, 56, 16, kernel=3, stride=2, pad=0)
        b = conv_relu(g, conv_relu(g, x, 56, 12), 12, 16, kernel=(1, 7))
        b = conv_relu(g, conv_relu(g, b, 16, 16, kernel=(7, 1)), 16, 16, kernel=3, stride=2, pad=0)
        x = g.Concat(a, b, pool(g, x, 3, 2), axis=1)  # [batch, 88, 8, 8]
    with g.scope("mixed_c"):
        a = conv_relu(g, x, 88, 16)
        b = g.Concat(conv_relu(g, a, 16, 12, kernel=(1, 3)), conv_relu(g, a, 16, 12, kernel=(3, 1)), axis=1)
        x = g.Concat(conv_relu(g, x, 88, 16), b, axis=1)
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    return finish(g, L.gemm(g, x, 40, CLASSES, gain=4))


def squeezenet():
    g, x = start("squeezenet", 32, opset=11)
    x = conv_relu(g, x, 3, 16, kernel=3, stride=2, pad=0, gain=1)
    x = pool(g, x, 3, 2, ceil_mode=1)
    channels = 16
    for index, (inner, outer) in enumerate(((8, 16), (8, 24))):
        with g.scope(f"fire{index + 2}"):
            s = conv_relu(g, x, channels, inner)
            x = g.Concat(conv_relu(g, s, inner, outer), conv_relu(g, s, inner, outer, kernel=3), axis=1)
            channels = 2 * outer
        x = pool(g, x, 3, 2, ceil_mode=1)
    x = conv_relu(g, x, channels, CLASSES)
    return finish(g, flatten_view(g, g.GlobalAveragePool(x)))


def shufflenetv2():
    """Halves of the channels, by Split and by Slice with computed ends; channels shuffled by Reshape and Transpose."""
    g, x = start("shufflenetv2", 32, opset=13)

    def shuffle(x):
        batch, channels, height, width = (L.extent(g, x, axis) for axis in range(4))
        half = g.Cast(g.Cast(g.Div(channels, np.array(2, np.int64)), to=7), to=7)
        y = g.Transpose(L.view(g, x, batch, 2, half, height, width), perm=[0, 2, 1, 3, 4])
        return L.view(g, y, batch, -1, height, width)

    def halves(x, by_split):
        if by_split:
            return L.split(g, x, 1, [16, 16])
        middle = g.Div(g.Add(L.extent(g, x, 1), np.array(1, np.int64)), np.array(2, np.int64))
        first, last = g.Mul(middle, i64(1)), g.Mul(middle, i64(2))
        return g.Slice(x, i64(0), first, i64(1)), g.Slice(x, first, last, i64(1))

    def branch(x, inner, stride):
        y = conv_relu(g, x, inner, 16)
        return conv_relu(g, L.conv(g, y, 16, 16, kernel=3, stride=stride, group=16, gain=2), 16, 16, gain=1)

    x = pool(g, conv_relu(g, x, 3, 12, kernel=3, stride=2, gain=1), 3, 2, 1)  # [batch, 12, 8, 8]
    with g.scope("stage2.0"):
        skip = L.conv(g, x, 12, 12, kernel=3, stride=2, group=12, gain=2)
        x = shuffle(g.Concat(conv_relu(g, skip, 12, 16, gain=1), branch(x, 12, 2), axis=1))
    for unit in (1, 2):
        with g.scope(f"stage2.{unit}"):
            kept, moved = halves(x, by_split=unit == 1)
            x = shuffle(g.Concat(kept, branch(moved, 16, 1), axis=1))
    x = conv_relu(g, x, 32, 64)
    x = L.reduce(g, "ReduceMean", x, [2, 3], keepdims=0)
    return finish(g, L.gemm(g, x, 64, CLASSES, gain=4))


IMAGES = {
    "vgg": vgg, "resnet": resnet, "mobilenetv3": mobilenetv3,
    "mobilenetv3_spelled": lambda: mobilenetv3("mobilenetv3_spelled", 11, "div"), "efficientnet": efficientnet,
    "densenet": densenet, "inception": inception, "squeezenet": squeezenet, "shufflenetv2": shufflenetv2,
}
