"""Reading a line of text with ppocr_rec.onnx (see fetch_ppocr.py): what happens before and after the network.

Before: a picture of one line, 48 pixels high, its aspect kept; blue, green, red; (x / 255 - 0.5) / 0.5; zeros to the right
up to a fixed width, so that one plan serves many lines. After: at each of width / 8 places the network gives 6,625
probabilities; greedy CTC takes the best class of each place, drops repetitions, then blanks (class 0).

As a library: load_image, preprocess, load_keys, greedy_decode, read_lines. As a program:

    python models/ocr.py prepare --width 320 -o x.npz             # the test lines of that width as input "x": [N, 3, 48, 320]
    weft run ppocr_rec.onnx --inputs x.npz -o y.npz               # or anything else that runs the network
    python models/ocr.py compare --width 320 --keys ppocr_keys.txt y.npz     # exit 0: every line was read as it is written
    python models/ocr.py check --model ppocr_rec.onnx --keys ppocr_keys.txt  # all of it with onnxruntime
"""

import argparse
import json
import os
import sys

import numpy as np
from PIL import Image

HEIGHT = 48
LINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "ocr")


def load_image(path):
    """A picture as uint8 [H, W, 3], red first."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def preprocess(image, width):
    """uint8 [H, W, 3] -> float32 [1, 3, 48, width]; a line too long for `width` is squeezed into it."""
    scaled = min(width, max(1, round(image.shape[1] * HEIGHT / image.shape[0])))
    if image.shape[:2] != (HEIGHT, scaled):
        image = np.asarray(Image.fromarray(image).resize((scaled, HEIGHT), Image.Resampling.BILINEAR))
    x = np.zeros((1, 3, HEIGHT, width), np.float32)
    blue_first = image[:, :, ::-1].transpose(2, 0, 1).astype(np.float32)
    x[0, :, :, :scaled] = (blue_first / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    return x


def load_keys(path):
    """The text of every class: the blank, the file's lines, a space."""
    with open(path, encoding="utf-8", newline="\n") as file:
        return [""] + file.read().removesuffix("\n").split("\n") + [" "]


def greedy_decode(probabilities, keys):
    """float32 [places, classes] -> the text."""
    best = probabilities.argmax(1)
    starts = np.append(True, best[1:] != best[:-1])  # the first place of each run of one class
    return "".join(keys[c] for c in best[starts])


def load_lines(folder=LINES, width=None):
    """The test lines, sorted by file: [(path, text, width)], all or those of one width."""
    with open(os.path.join(folder, "lines.json"), encoding="utf-8") as file:
        lines = json.load(file)
    return [(os.path.join(folder, name), line["text"], line["width"]) for name, line in sorted(lines.items())
            if width in (None, line["width"])]


def batch(lines):
    """Lines of one width -> the network's input, float32 [N, 3, 48, width]."""
    return np.concatenate([preprocess(load_image(path), width) for path, _, width in lines])


def read_lines(run, keys, lines):
    """Reads every line by `run`, which maps the input of one line to [1, places, classes]: [(path, expected, found)]."""
    return [(path, text, greedy_decode(run(batch([(path, text, width)]))[0], keys)) for path, text, width in lines]


def report(results):
    """Prints what was read; the exit code: 0 if every line is right."""
    wrong = 0
    for path, expected, found in results:
        wrong += found != expected
        print(f"{os.path.basename(path)}: {found}" + ("" if found == expected else f"   (expected {expected})"))
    print(f"{len(results) - wrong} of {len(results)} lines right")
    return int(wrong > 0)


def prepare(args):
    np.savez(args.output, x=batch(load_lines(args.lines, args.width)))


def compare(args):
    with np.load(args.outputs) as file:
        (probabilities,) = file.values()
    lines = load_lines(args.lines, args.width)
    if probabilities.ndim != 3 or len(probabilities) != len(lines):
        sys.exit(f"ocr: expected [{len(lines)}, places, classes], found {list(probabilities.shape)}")
    keys = load_keys(args.keys)
    return report([(path, text, greedy_decode(p, keys)) for (path, text, _), p in zip(lines, probabilities)])


def check(args):
    import onnxruntime
    session = onnxruntime.InferenceSession(args.model, providers=["CPUExecutionProvider"])
    return report(read_lines(lambda x: session.run(None, {"x": x})[0], load_keys(args.keys), load_lines(args.lines)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb in (prepare, compare, check):
        sub = verbs.add_parser(verb.__name__)
        sub.set_defaults(run=verb)
        sub.add_argument("--lines", default=LINES, metavar="DIR")
        if verb is not check:
            sub.add_argument("--width", type=int, required=True, choices=(320, 1280))
        if verb is not prepare:
            sub.add_argument("--keys", required=True, metavar="FILE")
        if verb is prepare:
            sub.add_argument("-o", "--output", required=True, metavar="F.npz")
        if verb is compare:
            sub.add_argument("outputs", metavar="F.npz")
        if verb is check:
            sub.add_argument("--model", required=True)
    args = parser.parse_args()
    sys.exit(args.run(args))


if __name__ == "__main__":
    main()
