"""What a network that is to be exported is: a module, its inputs, and the sizes at which to try it.

    Network(make, {"image": floats("batch", 3, "h", "w")}, [{"batch": 2, "h": 32, "w": 48}, ...])

An extent that is a word is dynamic, and bound by each of `sizes`. The first size is the example that the exporter sees,
so there every dynamic extent is at least 2: to torch an extent of 1 is a constant.
"""

import dataclasses
import json
from collections.abc import Callable

import numpy as np

TORCH = ("torchscript", "dynamo")  # its exporters


@dataclasses.dataclass(frozen=True)
class Input:
    """Drawn from a normal distribution; or integers from 0 to `limit` - 1; or all `value`."""
    extents: tuple
    dtype: str = "float32"
    limit: int | None = None
    value: float | None = None

    def shape(self, size):
        return [size[e] if isinstance(e, str) else e for e in self.extents]


def floats(*extents):
    return Input(extents)


def indices(limit, *extents, dtype="int64"):
    return Input(extents, dtype, limit)


def value(number, dtype, *extents):
    return Input(extents, dtype, value=number)


def mask(*extents):
    """One that hides nothing."""
    return value(1, "int64", *extents)


@dataclasses.dataclass(frozen=True)
class Network:
    make: Callable
    inputs: dict[str, Input]
    sizes: list[dict[str, int]] = dataclasses.field(default_factory=lambda: [{}])
    exporters: tuple = TORCH
    opset: int | None = None  # None: each exporter's own
    source: str = "by hand"

    def shapes(self):
        """{input: extents} for each size."""
        return [{name: i.shape(size) for name, i in self.inputs.items()} for size in self.sizes]


def describe(path, exporter, source, inputs, shapes):
    """Writes the file beside a network that says where it comes from, what its inputs are, and which extents to try."""
    said = {"exporter": exporter, "source": source, "shapes": shapes,
            "inputs": {n: {"dtype": i.dtype, "limit": i.limit, "value": i.value} for n, i in inputs.items()}}
    with open(path.removesuffix(".onnx") + ".json", "w") as file:
        json.dump(said, file, indent=1)
        file.write("\n")


def draw(described, shapes, seed=0):
    """Seeded arrays for `inputs` of such a file."""
    rng = np.random.Generator(np.random.PCG64(seed))
    arrays = {}
    for name, shape in shapes.items():
        about = described[name]
        if about["value"] is not None:
            array = np.full(shape, about["value"])
        elif about["limit"] is not None:
            array = rng.integers(0, about["limit"], shape)
        else:
            array = rng.standard_normal(shape)
        arrays[name] = np.asarray(array).astype(about["dtype"])
    return arrays
