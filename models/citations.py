"""Inputs of nets_others.py's gcn: a random graph of the extents of Cora, 2,708 papers and 10,556 citations.

    python models/citations.py --out FILE.npz
"""

import argparse

import numpy as np

NODES, EDGES, FEATURES = 2708, 10556, 256


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="FILE.npz")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    np.savez(args.out, x=rng.standard_normal((NODES, FEATURES), dtype=np.float32),
             edges=rng.integers(0, NODES, (2, EDGES), dtype=np.int64))


if __name__ == "__main__":
    main()
