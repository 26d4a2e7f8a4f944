"""A page of text for the detector of PP-OCR: the demo's committed lines below each other, as the network wants them.

    models/page.py 640x480 --out page.npz      # x: f32[1, 3, 640, 480], (pixel/255 - mean) / deviation, in BGR

What a network answers to noise says little about how well two implementations agree on what it is for.
"""
import argparse
from pathlib import Path

import numpy as np
from PIL import Image

LINES = Path(__file__).resolve().parent.parent / 'tests' / 'data' / 'ocr'
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def page(height, width, margin=8):
    pixels = np.full((height, width, 3), 255, np.uint8)
    top = margin
    for path in sorted(LINES.glob('*.png')):
        line = Image.open(path).convert('RGB')
        line.thumbnail((width - 2 * margin, height))
        if top + line.height > height:
            break
        pixels[top:top + line.height, margin:margin + line.width] = np.asarray(line)
        top += line.height + margin
    x = (pixels[:, :, ::-1] / 255 - np.array(MEAN)) / np.array(DEVIATION)
    return np.ascontiguousarray(x.transpose(2, 0, 1)[None], dtype=np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('size', help='HEIGHTxWIDTH')
    parser.add_argument('--out', required=True)
    args = parser.parse_args()
    np.savez(args.out, x=page(*map(int, args.size.split('x'))))


if __name__ == '__main__':
    main()
