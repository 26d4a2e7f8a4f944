"""tests/data/tolerances.def: how near results must be."""
import re

import numpy as np
from tool import ROOT

TEXT = (ROOT / 'tests/data/tolerances.def').read_text()
DTYPES = {'f16': np.float16, 'f32': np.float32, 'f64': np.float64}  # those that numpy has


def operators(of_class):
    """The names that a class lists."""
    listed = re.search(rf'^WEFT_CLASS\({of_class}, \w+,\s*((?:"[^"]*"\s*)+)\)', TEXT, re.M)[1]
    return set(''.join(re.findall(r'"([^"]*)"', listed)).split())


def tolerances(of_class):
    """numpy dtype -> (relative, absolute)."""
    rows = re.findall(rf'^WEFT_TOLERANCE\({of_class}, (\w+), ([^,]+), ([^)]+)\)', TEXT, re.M)
    return {np.dtype(DTYPES[dtype]): (float(relative), float(absolute)) for dtype, relative, absolute in rows if dtype in DTYPES}
