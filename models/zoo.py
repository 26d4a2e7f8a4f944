"""Writes the zoo: small seeded graphs, each under a megabyte, in the style of real exports, for tests from end to end.

    python models/zoo.py --list               # every name, with the dimensions to try
    python models/zoo.py --out DIR [NAME...]  # writes NAME.onnx
    python models/zoo.py --check [NAME...]    # runs each in onnxruntime with those dimensions

The networks are in zoo_images.py and zoo_tokens.py. As a library: ZOO maps a name to (function returning a Builder, list of
bindings such as {"batch": 2, "S": 7}).
"""

import argparse
import os
import sys

import numpy as np
import onnx

import reference
from zoo_images import IMAGES
from zoo_tokens import TOKENS

BATCHES = [{"batch": 1}, {"batch": 3}]
LENGTHS = [{"batch": 1, "S": 1}, {"batch": 2, "S": 7}, {"batch": 3, "S": 16}]
LIMIT = 1 << 20

ZOO = ({name: (make, BATCHES) for name, make in IMAGES.items()} |
       {name: (make, BATCHES if name == "vit" else LENGTHS) for name, make in TOKENS.items()})


def check(name):
    """Builds a network and runs it: its size, its shapes against those it declares, and that its answers mean something."""
    make, bindings = ZOO[name]
    model = make().model()
    data = model.SerializeToString(deterministic=True)
    onnx.checker.check_model(data, full_check=True)
    assert len(data) < LIMIT, f"{name}: {len(data)} bytes"
    assert data == make().model().SerializeToString(deterministic=True), f"{name}: two builds differ"
    for dims in bindings:
        inputs = [reference.make_inputs(model, dims=dims, seed=seed) for seed in (1, 2)]
        first, second = (reference.run(data, x) for x in inputs)
        for value in model.graph.output:
            y, other = first[value.name], second[value.name]
            declared = [d.dim_value or dims[d.dim_param] for d in value.type.tensor_type.shape.dim]
            assert list(y.shape) == declared, f"{name}: {value.name} is {list(y.shape)}, declared {declared}"
            if y.dtype.kind == "f":
                assert np.isfinite(y).all() and 0.05 < y.std() < 20, f"{name}: {value.name} has deviation {y.std()}"
                change = np.abs(y - other).max() / np.abs(y).max()
                assert change > 0.01, f"{name}: {value.name} hardly depends on the input ({change})"
    print(f"{name}: {len(model.graph.node)} nodes, {len(data)} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--out", metavar="DIR")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in ZOO]
    if unknown or not (args.out or args.list or args.check):
        sys.exit(f"zoo: no such network: {', '.join(unknown)}" if unknown else "zoo: one of --list, --out, --check")
    for name in args.names or ZOO:
        if args.list:
            print(name, "; ".join(" ".join(f"{k}={v}" for k, v in dims.items()) for dims in ZOO[name][1]))
        if args.check:
            check(name)
        if args.out:
            os.makedirs(args.out, exist_ok=True)
            ZOO[name][0]().save(os.path.join(args.out, name + ".onnx"))


if __name__ == "__main__":
    main()
