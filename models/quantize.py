"""Quantizes networks of make_models.py to eight bits by onnxruntime's own tool: QuantizeLinear and DequantizeLinear around
convolutions and products, weights by channel, activations in the ranges that seeded inputs show.

    python models/quantize.py --out DIR NAME_int8 ...

writes DIR/NAME_int8.onnx, and DIR/NAME.onnx where that is missing.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

SUFFIX = "_int8"
EXTENTS = {"batch": 1, "S": 128}
SAMPLES = 4


class Drawn(CalibrationDataReader):
    """Normal floats, a batch of one; of integers masks of ones, types, and indices of tokens."""

    def __init__(self, path):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        numbers = np.random.default_rng(0)
        self.rest = [{i.name: self.draw(numbers, i) for i in session.get_inputs()} for _ in range(SAMPLES)]

    @staticmethod
    def draw(numbers, given):
        shape = [EXTENTS.get(extent, extent) for extent in given.shape]
        if given.type == "tensor(float)":
            return numbers.standard_normal(shape, dtype=np.float32)
        if "mask" in given.name:
            return np.ones(shape, np.int64)
        return numbers.integers(0, 2 if "type" in given.name else 30000, shape)

    def get_next(self):
        return self.rest.pop() if self.rest else None


def quantize(source, target):
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "plain.onnx")
        quant_pre_process(source, plain, skip_symbolic_shape=True)  # normalizations become part of convolutions
        quantize_static(plain, target, Drawn(plain), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                        op_types_to_quantize=["Conv", "Gemm", "MatMul", "Add", "MaxPool", "GlobalAveragePool"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME" + SUFFIX)
    parser.add_argument("--out", default=".", metavar="DIR")
    args = parser.parse_args()
    for name in args.names:
        plain = name.removesuffix(SUFFIX)
        if plain == name:
            sys.exit(f"quantize: {name} does not end in {SUFFIX}")
        source = os.path.join(args.out, plain + ".onnx")
        if not os.path.exists(source):
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_models.py")
            subprocess.run([sys.executable, script, "--out", args.out, plain], check=True)
        target = os.path.join(args.out, name + ".onnx")
        quantize(source, target)
        print(target)


if __name__ == "__main__":
    main()
