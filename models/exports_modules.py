"""Modules of torch written by hand, one for each habit of exporters that the packages' networks do not show.

MODULES maps a name to an exports.Network. Weights are those that torch draws after manual_seed.
"""

import torch
import torch.nn.functional as F
from torch import nn

from exports import Network, floats, indices


class Recurrent(nn.Module):
    """Words to classes by a bidirectional LSTM, GRU or RNN of two layers."""

    def __init__(self, kind):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.cells = getattr(nn, kind)(16, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, words):
        return self.head(self.cells(self.words(words))[0].mean(1))


class Stateful(nn.Module):
    """One frame of a speech detector: its state goes in and out."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 16)
        self.head = nn.Linear(16, 1)

    def forward(self, frame, h, c):
        h, c = self.cell(frame, (h, c))
        return torch.sigmoid(self.head(F.relu(h))), h, c


class Bags(nn.Module):
    """Recommendation: bags of look-ups, and the products of all pairs."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(40, 8, mode=mode) for mode in ("sum", "mean", "max"))
        self.dense = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
        self.top = nn.Linear(8 + 6, 1)

    def forward(self, dense, bags):
        x = self.dense(dense)
        vectors = torch.stack([x] + [table(bags[:, k]) for k, table in enumerate(self.tables)], 1)
        pairs = torch.bmm(vectors, vectors.transpose(1, 2))
        low, left = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.top(torch.cat([x, pairs[:, low, left]], 1)))


def block(inner, outer):
    return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Segmentation; `up` is by transposed convolution, or bilinear with the odd row padded."""

    def __init__(self, bilinear):
        super().__init__()
        self.down = nn.ModuleList([block(3, 8), block(8, 16), block(16, 32)])
        self.up = nn.ModuleList([nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if bilinear
                                 else nn.ConvTranspose2d(c, c, 2, stride=2) for c in (32, 16)])
        self.join = nn.ModuleList([block(48, 16), block(24, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, image):
        kept = []
        x = image
        for k, down in enumerate(self.down):
            x = down(x)
            if k < 2:
                kept.append(x)
                x = F.max_pool2d(x, 2)
        for up, join in zip(self.up, self.join):
            x, skip = up(x), kept.pop()
            dy, dx = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            x = join(torch.cat([skip, x], 1))
        return self.head(x)


class Pyramid(nn.Module):
    """A detector's neck and head: resizing to another map's size, anchors from its extents, boxes decoded."""

    def __init__(self):
        super().__init__()
        self.stem = nn.ModuleList([nn.Conv2d(3, 16, 3, 4, 1), nn.Conv2d(16, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, 2, 1)])
        self.side = nn.ModuleList([nn.Conv2d(16, 16, 1) for _ in range(3)])
        self.head = nn.Conv2d(16, 9, 3, 1, 1)

    def forward(self, image):
        maps, x = [], image
        for conv in self.stem:
            x = F.silu(conv(x))
            maps.append(x)
        top, boxes = None, []
        for k in (2, 1, 0):
            x = self.side[k](maps[k])
            top = x if top is None else x + F.interpolate(top, size=x.shape[2:], mode="nearest")
            y = self.head(top)
            height, width = y.shape[2], y.shape[3]
            rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
            grid = torch.stack([columns, rows], 2).view(1, height, width, 2).float()
            y = y.view(y.shape[0], 9, height * width).permute(0, 2, 1)
            xy = (torch.sigmoid(y[..., :2]) * 2 - 0.5 + grid.view(1, -1, 2)) * 4 * 2 ** k
            boxes.append(torch.cat([xy, torch.exp(y[..., 2:4].clamp(max=4)), torch.sigmoid(y[..., 4:])], 2))
        return torch.cat(boxes, 1)


class Generator(nn.Module):
    """Noise to an image: transposed convolutions, instance norms, leaky and parametric rectifiers, shuffled pixels."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.ConvTranspose2d(16, 32, 4), nn.InstanceNorm2d(32, affine=True), nn.LeakyReLU(0.2),
                                  nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.GroupNorm(4, 16), nn.PReLU(16),
                                  nn.Conv2d(16, 12, 3, padding=1, padding_mode="reflect"), nn.PixelShuffle(2), nn.Tanh())

    def forward(self, noise):
        return self.body(noise[:, :, None, None])


class Transformed(nn.Module):
    """A spatial transformer: an affine grid from a small network, and sampling at it."""

    def __init__(self):
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(1, 4, 7, 2), nn.MaxPool2d(2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                   nn.Linear(4, 6))
        self.head = nn.Linear(16 * 16, 10)

    def forward(self, image):
        theta = self.where(image).view(-1, 2, 3) * 0.3 + torch.tensor([[1.0, 0, 0], [0, 1, 0]])
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
        base = torch.stack([xs, ys, torch.ones_like(xs)], 2).view(1, 256, 3)
        grid = torch.matmul(base, theta.transpose(1, 2)).view(-1, 16, 16, 2)
        return self.head(F.grid_sample(image, grid, align_corners=False).flatten(1))


class Points(nn.Module):
    """PointNet: a network on each point, the largest over all."""

    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(32, 16), nn.ELU(), nn.Linear(16, 4), nn.LogSoftmax(1))

    def forward(self, points):
        return self.head(self.each(points.transpose(1, 2)).max(2)[0])


class Graphs(nn.Module):
    """Two layers of messages along edges: gathered, weighed, and added up by scatter."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 4)])

    def forward(self, nodes, edges):
        x = nodes
        for layer in self.layers:
            sent = layer(x)
            got = torch.zeros_like(sent).index_add(0, edges[1], sent[edges[0]])
            degree = torch.zeros(x.shape[0]).scatter_add(0, edges[1], torch.ones(edges.shape[1]))
            x = torch.relu(got / degree.clamp(min=1)[:, None] + sent)
        return x


class Dilated(nn.Module):
    """A stack of causal, dilated and gated convolutions over samples."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(8, 16, 2, dilation=2 ** k) for k in range(4)])
        self.first, self.last = nn.Conv1d(1, 8, 1), nn.Conv1d(8, 3, 1)

    def forward(self, samples):
        x = self.first(samples)
        for conv in self.convs:
            a, b = conv(F.pad(x, [conv.dilation[0], 0])).chunk(2, 1)
            x = x + torch.tanh(a) * torch.sigmoid(b)
        return self.last(x)


class Spectrum(nn.Module):
    """Samples to log mel-like energies, normalized over time, with deltas."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("bands", torch.rand(33, 12, generator=torch.Generator().manual_seed(1)))

    def forward(self, samples):
        frames = torch.stft(samples, 64, 32, window=self.window, return_complex=False, center=False)
        power = frames.pow(2).sum(-1).transpose(1, 2) @ self.bands
        x = torch.log(power + 1e-6)
        x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
        return torch.cat([x, F.pad(x[:, 1:] - x[:, :-1], [0, 0, 0, 1])], 2)


class Experts(nn.Module):
    """A mixture: the best two of four experts, by their gates."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(4)])

    def forward(self, x):
        gates, places = torch.softmax(self.gate(x), -1).topk(2, -1)
        all_of = torch.stack([expert(x) for expert in self.experts], 2)
        picked = torch.gather(all_of, 2, places[..., None].expand(-1, -1, -1, 16))
        return (picked * (gates / gates.sum(-1, keepdim=True))[..., None]).sum(2)


class Capsules(nn.Module):
    """Routing by agreement: einsum, squashing by norms, three unrolled rounds."""

    def __init__(self):
        super().__init__()
        self.votes = nn.Parameter(torch.randn(10, 6, 4, 8) * 0.3)

    def forward(self, capsules):
        u = torch.einsum("bni,nmoi->bnmo", capsules, self.votes)
        logits = torch.zeros_like(u[..., 0])
        for _ in range(3):
            s = torch.einsum("bnm,bnmo->bmo", torch.softmax(logits, 2), u)
            norm = s.norm(dim=-1, keepdim=True)
            v = s * norm / (1 + norm ** 2)
            logits = logits + torch.einsum("bnmo,bmo->bnm", u, v)
        return v.norm(dim=-1)


class Windows(nn.Module):
    """Attention within shifted windows, with the relative bias gathered and the image padded to whole windows."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.size = nn.Linear(16, 48), nn.Linear(16, 16), 4
        self.bias = nn.Parameter(torch.randn(49, 2) * 0.1)
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        self.register_buffer("index", ((at[:, :, None] - at[:, None] + 3) * torch.tensor([7, 1])[:, None, None]).sum(0))

    def forward(self, x):
        batch, height, width, _ = x.shape
        n = self.size
        x = F.pad(x, [0, 0, 0, -width % n, 0, -height % n])
        rows, columns = x.shape[1] // n, x.shape[2] // n
        y = torch.roll(x, (-2, -2), (1, 2))
        y = y.view(batch, rows, n, columns, n, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, 16)
        q, k, v = self.qkv(y).view(-1, n * n, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = q @ k.transpose(2, 3) / 8 ** 0.5 + self.bias[self.index].permute(2, 0, 1)
        y = self.out((y.softmax(-1) @ v).transpose(1, 2).reshape(-1, n * n, 16))
        y = y.view(batch, rows, columns, n, n, 16).permute(0, 1, 3, 2, 4, 5).reshape(batch, rows * n, columns * n, 16)
        return (x + torch.roll(y, (2, 2), (1, 2)))[:, :height, :width]


class Cached(nn.Module):
    """One step of a decoder: keys and values of the past are inputs, and longer ones are outputs."""

    def __init__(self):
        super().__init__()
        self.words, self.qkv, self.out = nn.Embedding(60, 16), nn.Linear(16, 48), nn.Linear(16, 60)

    def forward(self, words, past):
        x = self.words(words)
        q, k, v = self.qkv(x).view(x.shape[0], x.shape[1], 3, 2, 8).permute(2, 0, 3, 1, 4)
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        ahead = torch.arange(k.shape[2])[None] > torch.arange(q.shape[2])[:, None] + past.shape[3]
        scores = (q @ k.transpose(2, 3) / 8 ** 0.5).masked_fill(ahead, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.out(x + y), torch.stack([k, v])


class Codes(nn.Module):
    """A vector-quantizing autoencoder: the nearest of 32 codes at each place."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 4, 2, 1))
        self.codes = nn.Parameter(torch.randn(32, 8))
        self.decode = nn.Sequential(nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))

    def forward(self, image):
        z = self.encode(image).permute(0, 2, 3, 1)
        nearest = (z.pow(2).sum(-1, keepdim=True) - 2 * z @ self.codes.t() + self.codes.pow(2).sum(1)).argmin(-1)
        return self.decode(F.embedding(nearest, self.codes).permute(0, 3, 1, 2)), nearest


def encoder():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def pooled():
    return nn.Sequential(nn.Conv2d(3, 8, 5, stride=2, groups=1), nn.Softplus(), nn.AvgPool2d(3, 2, 1, ceil_mode=True),
                         nn.Conv2d(8, 16, 3, dilation=2), nn.Hardswish(), nn.LPPool2d(2, 2), nn.AdaptiveMaxPool2d(1),
                         nn.Flatten(), nn.Linear(16, 7), nn.Softmax(1))


LENGTHS = [{"batch": 2, "S": 7}, {"batch": 1, "S": 12}, {"batch": 3, "S": 5}]
IMAGES = [{"batch": 2, "h": 32, "w": 48}, {"batch": 1, "h": 36, "w": 32}, {"batch": 3, "h": 40, "w": 44}]
BATCHES = [{"batch": 2}, {"batch": 1}, {"batch": 5}]
IMAGE = {"image": floats("batch", 3, "h", "w")}

MODULES = {
    **{kind.lower(): Network(lambda kind=kind: Recurrent(kind), {"words": indices(50, "batch", "S")}, LENGTHS)
       for kind in ("LSTM", "GRU")},
    # dynamo writes as many steps as the example has
    "rnn": Network(lambda: Recurrent("RNN"), {"words": indices(50, "batch", "S")}, LENGTHS, ("torchscript",)),
    "lstm_cell": Network(Stateful, {"frame": floats("batch", 8), "h": floats("batch", 16), "c": floats("batch", 16)}, BATCHES),
    "bags": Network(Bags, {"dense": floats("batch", 6), "bags": indices(40, "batch", 3, 4)}, BATCHES),
    "unet": Network(lambda: UNet(False), IMAGE, IMAGES),
    "unet_bilinear": Network(lambda: UNet(True), IMAGE, IMAGES),
    "pyramid": Network(Pyramid, IMAGE, IMAGES),
    "generator": Network(Generator, {"noise": floats("batch", 16)}, BATCHES),
    "transformed": Network(Transformed, {"image": floats("batch", 1, 28, 28)}, BATCHES),
    "points": Network(Points, {"points": floats("batch", "S", 3)}, LENGTHS),
    "graphs": Network(Graphs, {"nodes": floats("n", 8), "edges": indices(6, 2, "e")},
                      [{"n": 6, "e": 9}, {"n": 8, "e": 3}, {"n": 11, "e": 20}]),
    "dilated": Network(Dilated, {"samples": floats("batch", 1, "S")}, [{"batch": 2, "S": 40}, {"batch": 1, "S": 33}, {"batch": 3, "S": 64}]),
    "spectrum": Network(Spectrum, {"samples": floats("batch", "S")}, [{"batch": 2, "S": 256}, {"batch": 1, "S": 192}, {"batch": 3, "S": 500}]),
    "experts": Network(Experts, {"x": floats("batch", "S", 16)}, LENGTHS),
    "capsules": Network(Capsules, {"capsules": floats("batch", 10, 8)}, BATCHES),
    "windows": Network(Windows, {"x": floats("batch", "h", "w", 16)},
                       [{"batch": 2, "h": 10, "w": 9}, {"batch": 1, "h": 8, "w": 8}, {"batch": 3, "h": 5, "w": 14}]),
    "cached": Network(Cached, {"words": indices(60, "batch", "S"), "past": floats(2, "batch", 2, "P", 8)},
                      [{"batch": 2, "S": 3, "P": 5}, {"batch": 1, "S": 1, "P": 9}, {"batch": 3, "S": 6, "P": 2}]),
    "codes": Network(Codes, IMAGE, IMAGES),
    "encoder": Network(encoder, {"x": floats("batch", "S", 32)}, LENGTHS, ("dynamo",)),
    "pooled": Network(pooled, IMAGE, IMAGES),
}
