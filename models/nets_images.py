"""Networks over pictures, detectors and clips of pictures, at the sizes that are published.

IMAGES maps a name to a function of the command line's options that returns a Builder. Classifiers take image
[batch, 3, 224, 224] and give logits [batch, 1000].
"""

import layers as L
from builder import Builder, f32, i64

CLASSES = 1000


def start(name, seed, size=224):
    g = Builder(name, seed=seed)
    return g, g.input("image", ["batch", 3, size, size])


def finish(g, x, features, gain=4.0):
    """Global pooling and a linear classifier."""
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    g.output("logits", L.gemm(g, x, features, CLASSES, gain=gain), ["batch", CLASSES])
    return g


def pool(g, x, kernel, stride, pad=0):
    return g.MaxPool(x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)


# ---- plain chains and skips ----
def vgg16(options):
    g, x = start("vgg16", 16)
    channels = 3
    for stage, (outer, repeats) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))):
        for repeat in range(repeats):
            with g.scope(f"features.{stage}.{repeat}"):
                x = g.Relu(L.conv(g, x, channels, outer, kernel=3, gain=1 if channels == 3 else 2.9))
                channels = outer
        x = pool(g, x, 2, 2)
    x = g.Flatten(x, axis=1)
    with g.scope("classifier"):
        x = g.Relu(L.gemm(g, x, 512 * 7 * 7, 4096, gain=2))
        x = g.Relu(L.gemm(g, x, 4096, 4096, gain=2))
        g.output("logits", L.gemm(g, x, 4096, CLASSES, gain=2), ["batch", CLASSES])
    return g


def stem(g, x, conv):
    return pool(g, g.Relu(conv(x, 3, 64, kernel=7, stride=2, gain=1)), 3, 2, 1)


def resnet18(options):
    g, x = start("resnet18", 18)

    def conv(x, *args, **kwargs):
        return L.conv(g, x, *args, **kwargs)

    x, channels = stem(g, x, conv), 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            with g.scope(f"layer{stage + 1}.{block}"):
                y = g.Relu(conv(x, channels, width, kernel=3, stride=stride))
                y = conv(y, width, width, kernel=3, gain=0.6)
                if stride == 2:
                    with g.scope("downsample"):
                        x = conv(x, channels, width, stride=2)
                x, channels = g.Relu(g.Add(y, x)), width
    return finish(g, x, 512)


def resnet50(options, folded=True):
    g, x = start("resnet50", 50)

    def conv(x, *args, **kwargs):
        if folded:
            return L.conv(g, x, *args, **kwargs)
        y = L.conv(g, x, *args, bias=None, **kwargs)
        return L.batch_norm(g, y, args[1])

    x, channels = stem(g, x, conv), 64
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
    return finish(g, x, 2048)


# ---- inverted residuals ----
def mobilenetv2(options):
    g, x = start("mobilenetv2", 2)

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
    return finish(g, x, 1280)


def mobilenetv3_large(options):
    g, x = start("mobilenetv3_large", 3)

    def swish(x):
        return L.hard_swish(g, x)

    def gate(x):
        return g.HardSigmoid(x, alpha=1 / 6)

    x, channels = swish(L.conv(g, x, 3, 16, kernel=3, stride=2, gain=1)), 16
    blocks = ((3, 16, 16, False, g.Relu, 1), (3, 64, 24, False, g.Relu, 2), (3, 72, 24, False, g.Relu, 1),
              (5, 72, 40, True, g.Relu, 2), (5, 120, 40, True, g.Relu, 1), (5, 120, 40, True, g.Relu, 1),
              (3, 240, 80, False, swish, 2), (3, 200, 80, False, swish, 1), (3, 184, 80, False, swish, 1),
              (3, 184, 80, False, swish, 1), (3, 480, 112, True, swish, 1), (3, 672, 112, True, swish, 1),
              (5, 672, 160, True, swish, 2), (5, 960, 160, True, swish, 1), (5, 960, 160, True, swish, 1))
    for index, (kernel, inner, outer, excite, act, stride) in enumerate(blocks):
        residual = stride == 1 and outer == channels
        with g.scope(f"features.{index + 1}"):
            y = act(L.conv(g, x, channels, inner, gain=1)) if inner != channels else x
            y = act(L.conv(g, y, inner, inner, kernel=kernel, stride=stride, group=inner))
            if excite:
                y = L.squeeze_excite(g, y, inner, (inner // 4 + 4) // 8 * 8, g.Relu, gate)
            y = L.conv(g, y, inner, outer, gain=1 if residual else 4)
            x, channels = (g.Add(x, y) if residual else y), outer
    x = swish(L.conv(g, x, channels, 960, gain=1))
    x = g.Flatten(g.GlobalAveragePool(x), axis=1)
    x = swish(L.gemm(g, x, 960, 1280, gain=4))
    g.output("logits", L.gemm(g, x, 1280, CLASSES, gain=4), ["batch", CLASSES])
    return g


def efficientnet_b0(options):
    g, x = start("efficientnet_b0", 4)

    def swish(x):
        return L.silu(g, x)

    x, channels = swish(L.conv(g, x, 3, 32, kernel=3, stride=2, gain=1)), 32
    settings = ((1, 16, 3, 1, 1), (6, 24, 3, 2, 2), (6, 40, 5, 2, 2), (6, 80, 3, 2, 3), (6, 112, 5, 1, 3),
                (6, 192, 5, 2, 4), (6, 320, 3, 1, 1))
    for stage, (ratio, outer, kernel, first_stride, repeats) in enumerate(settings):
        for repeat in range(repeats):
            stride, inner, residual = (first_stride if repeat == 0 else 1), channels * ratio, repeat > 0
            with g.scope(f"blocks.{stage}.{repeat}"):
                y = swish(L.conv(g, x, channels, inner, gain=1.5)) if ratio > 1 else x
                y = swish(L.conv(g, y, inner, inner, kernel=kernel, stride=stride, group=inner))
                y = L.squeeze_excite(g, y, inner, channels // 4, swish, g.Sigmoid, pool="mean")
                y = L.conv(g, y, inner, outer, gain=1 if residual else 8)
                x, channels = (g.Add(y, x) if residual else y), outer
    x = swish(L.conv(g, x, channels, 1280, gain=1.5))
    return finish(g, x, 1280)


# ---- detection ----
def yolov8n(options):
    """Splits and concatenations in every block, three scales, boxes as expectations over 16 distances; [batch, 84, boxes]."""
    g, x = start("yolov8n", 8, size=320)

    def conv(x, inner, outer, kernel=1, stride=1):
        return L.silu(g, L.conv(g, x, inner, outer, kernel=kernel, stride=stride, gain=3 if inner > 3 else 1))

    def c2f(x, inner, outer, repeats, residual):
        half = outer // 2
        parts = L.split(g, conv(x, inner, outer), 1, [half, half])
        for repeat in range(repeats):
            with g.scope(f"m.{repeat}"):
                y = conv(conv(parts[-1], half, half, kernel=3), half, half, kernel=3)
                parts.append(g.Add(parts[-1], y) if residual else y)
        return conv(g.Concat(*parts, axis=1), half * len(parts), outer)

    def up(x):
        return g.Resize(x, None, f32([1, 1, 2, 2]), mode="nearest", coordinate_transformation_mode="asymmetric",
                        nearest_mode="floor")

    with g.scope("backbone"):
        x = c2f(conv(conv(x, 3, 16, 3, 2), 16, 32, 3, 2), 32, 32, 1, True)
        fine = c2f(conv(x, 32, 64, 3, 2), 64, 64, 2, True)  # [batch, 64, 40, 40]
        middle = c2f(conv(fine, 64, 128, 3, 2), 128, 128, 2, True)
        x = c2f(conv(middle, 128, 256, 3, 2), 256, 256, 1, True)
        with g.scope("sppf"):
            pooled = [conv(x, 256, 128)]
            for _ in range(3):
                pooled.append(pool(g, pooled[-1], 5, 1, 2))
            coarse = conv(g.Concat(*pooled, axis=1), 512, 256)  # [batch, 256, 10, 10]
    with g.scope("neck"):
        middle = c2f(g.Concat(up(coarse), middle, axis=1), 384, 128, 1, False)
        fine = c2f(g.Concat(up(middle), fine, axis=1), 192, 64, 1, False)
        middle = c2f(g.Concat(conv(fine, 64, 64, 3, 2), middle, axis=1), 192, 128, 1, False)
        coarse = c2f(g.Concat(conv(middle, 128, 128, 3, 2), coarse, axis=1), 384, 256, 1, False)
    rows = []
    for scale, (x, channels) in enumerate(((fine, 64), (middle, 128), (coarse, 256))):
        with g.scope(f"head.{scale}"):
            box = conv(conv(x, channels, 64, kernel=3), 64, 64, kernel=3)
            kind = conv(conv(x, channels, 80, kernel=3), 80, 80, kernel=3)
            row = g.Concat(L.conv(g, box, 64, 64), L.conv(g, kind, 80, 80), axis=1)
            rows.append(g.Reshape(row, i64(0, 144, -1)))
    box, kind = L.split(g, g.Concat(*rows, axis=2), 1, [64, 80])
    with g.scope("boxes"):
        anchors, strides = anchor_points(320)
        odds = g.Softmax(g.Transpose(g.Reshape(box, i64(0, 4, 16, -1)), perm=[0, 2, 1, 3]), axis=1)
        bins = g.weight(f32([[[[k]] for k in range(16)]]), "dfl.weight")  # [1, 16, 1, 1]
        distance = g.Reshape(g.Conv(odds, bins, kernel_shape=[1, 1]), i64(0, 4, -1))
        near, far = L.split(g, distance, 1, [2, 2])
        low, high = g.Sub(anchors, near), g.Add(anchors, far)
        centre = g.Div(g.Add(low, high), f32(2))
        box = g.Mul(g.Concat(centre, g.Sub(high, low), axis=1), strides)
    count = sum((320 // s) ** 2 for s in (8, 16, 32))
    g.output("boxes", g.Concat(box, g.Sigmoid(kind), axis=1), ["batch", 84, count])
    return g


def anchor_points(size):
    """Centres of cells [1, 2, boxes] in units of their stride, and the strides [1, boxes]."""
    points, strides = [], []
    for stride in (8, 16, 32):
        side = size // stride
        points += [(x + 0.5, y + 0.5) for y in range(side) for x in range(side)]
        strides += [stride] * side * side
    return f32([[[x for x, _ in points], [y for _, y in points]]]), f32([strides])


# ---- clips ----
def resnet3d18(options):
    """Three-dimensional convolutions over clip [batch, 3, 8, 112, 112]."""
    g = Builder("resnet3d18", seed=318)
    x = g.input("clip", ["batch", 3, 8, 112, 112])

    def conv(x, inner, outer, kernel, stride, gain=2.0):
        weight = g.he([outer, inner, *kernel], gain)
        weight -= weight.mean((1, 2, 3, 4), keepdims=True)
        pads = [k // 2 for k in kernel] * 2
        return g.Conv(x, weight, g.normal([outer], 0.1), kernel_shape=kernel, pads=pads, strides=stride)

    x, channels = g.Relu(conv(x, 3, 64, [3, 7, 7], [1, 2, 2], gain=1)), 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = [2, 2, 2] if stage > 0 and block == 0 else [1, 1, 1]
            with g.scope(f"layer{stage + 1}.{block}"):
                y = g.Relu(conv(x, channels, width, [3, 3, 3], stride, gain=2.9))
                y = conv(y, width, width, [3, 3, 3], [1, 1, 1], gain=0.6)
                if stride[0] == 2:
                    with g.scope("downsample"):
                        x = conv(x, channels, width, [1, 1, 1], stride, gain=2.9)
                x, channels = g.Relu(g.Add(y, x)), width
    return finish(g, x, 512)


IMAGES = {
    "vgg16": vgg16, "resnet18": resnet18, "resnet50": resnet50,
    "resnet50_bn": lambda options: resnet50(options, folded=False), "mobilenetv2": mobilenetv2,
    "mobilenetv3_large": mobilenetv3_large, "efficientnet_b0": efficientnet_b0, "yolov8n": yolov8n,
    "resnet3d18": resnet3d18,
}
