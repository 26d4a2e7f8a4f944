"""Runs models as the peer `torch` translates them, each operator at once: python torch_eager.py CLI_FOLDER FOLDER.

For every NAME.onnx in FOLDER, which has inputs in NAME.in.npz, it writes NAME.out.npz. Needs torch, but no compiler.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
import torch

sys.path.insert(0, sys.argv[1])
from peer_torch import Walk  # noqa: E402


def run(file):
    """Writes the outputs of one model."""
    model = onnx.load(file)
    with np.load(file.with_suffix('.in.npz')) as inputs:
        tensors = {name: torch.from_numpy(inputs[name]) for name in inputs.files}
    outputs = Walk(model, list(tensors))(*tensors.values())
    np.savez(file.with_suffix('.out.npz'), **{o.name: t.numpy() for o, t in zip(model.graph.output, outputs)})


if __name__ == '__main__':
    with torch.inference_mode():
        for path in sorted(Path(sys.argv[2]).glob('*.onnx')):
            run(path)
