"""Builds the networks that benchmarks and tests run: real architectures, seeded weights, the same bytes every time.

    python models/make_models.py --list
    python models/make_models.py --out DIR resnet50 bert_base --layers 2 --external

The networks are in nets_images.py, nets_tokens.py and nets_others.py, and every small graph of spellings.py is here by its
name too. Weights keep activations near 1 through the depth and let the answer depend on the input, so that comparisons
mean something; the answers themselves mean nothing.
"""

import argparse
import os
import sys

import spellings
from nets_images import IMAGES
from nets_others import OTHERS
from nets_tokens import TOKENS

NETWORKS = IMAGES | TOKENS | OTHERS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: every network, no spelling")
    parser.add_argument("--out", default=".", metavar="DIR")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--layers", type=int, help="layers of a transformer, whose name then ends in _N")
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
        file = f"{name}_{args.layers}" if name in TOKENS and args.layers else name
        path = os.path.join(args.out, file + ".onnx")
        makers[name](args).save(path, args.external)
        print(path)


if __name__ == "__main__":
    main()
