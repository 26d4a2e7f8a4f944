"""Makes the test lines in tests/data/ocr: pictures of printed text, and lines.json, which says what is written there.

Every line is set in one font of Debian's, 48 pixels high, and kept only if ppocr_rec.onnx, run by onnxruntime, reads it
exactly, and with a margin: at each place the best class leads the second by 0.2 or more, so that rounding decides nothing.
A line that is no longer read right ends the script, as the committed pictures are what the tests use.

    python models/make_ocr_lines.py --model ppocr_rec.onnx --keys ppocr_keys.txt

Fonts: apt-get install fonts-dejavu-core fonts-liberation fonts-wqy-zenhei fonts-noto-cjk.
"""

import argparse
import json
import os
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

import ocr

FONTS = "/usr/share/fonts/"
SANS, SANS_BOLD = "truetype/dejavu/DejaVuSans.ttf", "truetype/dejavu/DejaVuSans-Bold.ttf"
MONO = "truetype/dejavu/DejaVuSansMono.ttf"
LIBERATION = "truetype/liberation/LiberationSans-Regular.ttf"
LIBERATION_SERIF = "truetype/liberation/LiberationSerif-Regular.ttf"
ZENHEI, NOTO = "truetype/wqy/wqy-zenhei.ttc", "opentype/noto/NotoSansCJK-Regular.ttc"
NOTO_SERIF = "opentype/noto/NotoSerifCJK-Regular.ttc"
BLACK, WHITE, NAVY, CREAM, MAROON = (0, 0, 0), (255, 255, 255), (20, 30, 90), (250, 244, 225), (120, 20, 30)

# name: (text, font, its size, ink, paper); the width of the network's input follows from the picture's
LINES = {
    "digits": ("3141592653", SANS, 34, BLACK, WHITE),
    "date": ("2024-11-21 09:30", MONO, 30, BLACK, WHITE),
    "price": ("EUR 1,299.95", LIBERATION, 36, MAROON, CREAM),
    "letter": ("W", SANS_BOLD, 36, NAVY, WHITE),
    "word": ("Polyhedra", SANS_BOLD, 38, BLACK, WHITE),
    "inverse": ("warp & weft", SANS_BOLD, 36, WHITE, NAVY),
    "chinese": ("你好，世界", ZENHEI, 36, BLACK, WHITE),
    "chinese_serif": ("编译与优化", NOTO_SERIF, 36, NAVY, CREAM),
    "percent": ("100% of 4,096 tiles; 12.5 ms", SANS, 34, BLACK, WHITE),
    "formula": ("sum(i) += A(i, k) * B(k, j)", LIBERATION_SERIF, 34, BLACK, WHITE),
    "address": ("17 Harbour Street, Flat 4B, Rivertown", SANS_BOLD, 30, BLACK, WHITE),
    "sentence": ("Each thread crosses over and under another.", MONO, 32, BLACK, CREAM),
    "long": ("A loom weaves many threads into one cloth; the pattern is in the order.", LIBERATION, 34, BLACK, WHITE),
    "chinese_long": ("经线与纬线交织成布，图案藏在次序之中。", NOTO, 36, BLACK, WHITE),
    "mixed": ("第12章：深度学习编译器与多面体模型", ZENHEI, 38, MAROON, WHITE),
}


def draw(text, font, size, ink, paper):
    font = ImageFont.truetype(os.path.join(FONTS, font), size)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (right - left + 16, ocr.HEIGHT), paper)
    ImageDraw.Draw(image).text((8 - left, (ocr.HEIGHT - (bottom - top)) // 2 - top), text, ink, font)
    # few colours, so that the file is small; what is checked below is what the tests will load
    return image.quantize(16, dither=Image.Dither.NONE).convert("RGB")


def margin(probabilities):
    """The least lead of a best class over the second best, over all places of float32 [places, classes]."""
    two = np.sort(probabilities, 1)[:, -2:]
    return float((two[:, 1] - two[:, 0]).min())


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--model", required=True)
    args.add_argument("--keys", required=True)
    args.add_argument("--out", default=ocr.LINES, metavar="DIR")
    args = args.parse_args()
    session = onnxruntime.InferenceSession(args.model, providers=["CPUExecutionProvider"])
    keys = ocr.load_keys(args.keys)
    os.makedirs(args.out, exist_ok=True)

    lines, bad = {}, 0
    for name, (text, *style) in LINES.items():
        image = draw(text, *style)
        width = 320 if image.width <= 320 else 1280
        (probabilities,) = session.run(None, {"x": ocr.preprocess(np.asarray(image), width)})
        found, lead = ocr.greedy_decode(probabilities[0], keys), margin(probabilities[0])
        good = found == text and lead >= 0.2 and image.width <= width
        bad += not good
        print(f"{'ok ' if good else 'BAD'} {name}: {image.width} of {width} pixels, margin {lead:.2f}: {found}")
        if good:
            image.save(os.path.join(args.out, name + ".png"), optimize=True)
            lines[name + ".png"] = {"text": text, "width": width}
    with open(os.path.join(args.out, "lines.json"), "w", encoding="utf-8") as file:
        json.dump(lines, file, ensure_ascii=False, indent=1, sort_keys=True)
        file.write("\n")
    sys.exit(int(bad > 0))


if __name__ == "__main__":
    main()
