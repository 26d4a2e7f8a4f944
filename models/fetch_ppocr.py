"""Fetches the three PP-OCR networks that the OCR demo and the benchmarks use, by way of pip.

They travel inside a Python package, rapidocr-onnxruntime; its wheel is downloaded and unpacked, and nothing of it is
imported or installed. Each network must have the SHA-256 that stands below, else nothing is written.

    python models/fetch_ppocr.py --out DIR

writes ppocr_det.onnx (finds lines), ppocr_rec.onnx (reads one line), ppocr_cls.onnx (is it upside down?) and
ppocr_keys.txt: the 6,623 characters that ppocr_rec.onnx knows, one a line, as its metadata lists them. Its 6,625 classes
are: 0 the blank of CTC, 1..6623 those lines, 6624 a space.
"""

import argparse
import hashlib
import os
import sys

import onnx

import wheels
from builder import write_bytes

PACKAGE = "rapidocr-onnxruntime==1.4.4"
KEYS = "ppocr_keys.txt"
KEY_COUNT = 6623
MODELS = {
    "ppocr_det.onnx": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                       "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"),
    "ppocr_rec.onnx": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                       "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"),
    "ppocr_cls.onnx": ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                       "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
}


def check(name, data):
    found, expected = hashlib.sha256(data).hexdigest(), MODELS[name][1]
    if found != expected:
        sys.exit(f"fetch_ppocr: {name}: expected sha256 {expected}, found {found}")


def present(path, digest):
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest() == digest


def keys(model_bytes):
    """The characters from the model's metadata; split at line feeds only, as some of them are spaces of other kinds."""
    model = onnx.load_from_string(model_bytes)
    (text,) = (p.value for p in model.metadata_props if p.key == "character")
    characters = text.split("\n")
    if len(characters) != KEY_COUNT:
        sys.exit(f"fetch_ppocr: expected {KEY_COUNT} characters in the metadata, found {len(characters)}")
    return characters


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--out", required=True, metavar="DIR")
    folder = args.parse_args().out
    wanted = all(present(os.path.join(folder, name), digest) for name, (_, digest) in MODELS.items())
    if wanted and os.path.exists(os.path.join(folder, KEYS)):
        print(f"{folder}: already complete")
        return
    found = wheels.members(PACKAGE, [member for member, _ in MODELS.values()])
    files = {name: found[member] for name, (member, _) in MODELS.items()}
    for name, data in files.items():
        check(name, data)
    os.makedirs(folder, exist_ok=True)
    for name, data in files.items():
        write_bytes(os.path.join(folder, name), data)
        print(f"{os.path.join(folder, name)}: {len(data)} bytes")
    characters = keys(files["ppocr_rec.onnx"])
    write_bytes(os.path.join(folder, KEYS), ("\n".join(characters) + "\n").encode())
    print(f"{os.path.join(folder, KEYS)}: {len(characters)} characters")


if __name__ == "__main__":
    main()
