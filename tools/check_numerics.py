#!/usr/bin/env python3
"""docs/numerics.md: its table of tolerances is the one of tests/data/tolerances.def; --write makes it so."""
import re
import sys

import tree

DOCUMENT, DATA = 'docs/numerics.md', 'tests/data/tolerances.def'
PLACE = re.compile(r'(<!-- tools/check_numerics.py --write -->\n).*?(<!-- end -->)', re.S)
DTYPES = {'f64': 'float64', 'f32': 'float32', 'f16': 'float16', 'bf16': 'bfloat16'}


def table(data: str) -> str:
    """A row a class: its operators, and relative and absolute parts by element type."""
    rows = [f'| class | operators | of | {" | ".join(DTYPES.values())} |', '|---|---|---|' + '---|' * len(DTYPES)]
    for name, of, listed in re.findall(r'^WEFT_CLASS\((\w+), (\w+),\s*((?:"[^"]*"\s*)+)\)', data, re.M):
        operators = ' '.join(''.join(re.findall(r'"([^"]*)"', listed)).split())
        found = dict((dtype, (relative, absolute)) for dtype, relative, absolute in
                     re.findall(rf'^WEFT_TOLERANCE\({name}, (\w+), ([^,]+), ([^)]+)\)', data, re.M))
        cells = ['exactly' if found.get(d) == ('0', '0') else ' + '.join(p for p in found[d] if p != '0') if d in found else ''
                 for d in DTYPES]
        rows.append(f'| {name} | {operators or "all others" if name == "computed" else operators} | {of} | {" | ".join(cells)} |')
    return '\n'.join(rows) + '\n'


def main() -> int:
    path = tree.ROOT / DOCUMENT
    document = path.read_text()
    right = PLACE.sub(lambda m: m[1] + table((tree.ROOT / DATA).read_text()) + m[2], document)
    if '--write' in sys.argv[1:]:
        path.write_text(right)
    elif right != document:
        print(f'{DOCUMENT}: its table is not that of {DATA}; tools/check_numerics.py --write')
        return 1
    print(f'numerics: the table is that of {DATA}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
