from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from . import tc as tc

__version__: str

class Error(Exception):
    code: int
    what: str
    where: str
    hint: str
    def __init__(self, code: int, what: str, where: str = ..., hint: str = ..., message: str = ...) -> None: ...

class Tensor(NamedTuple):
    name: str
    dtype: np.dtype
    shape: tuple[int, ...] | None
    element: str

class Step(NamedTuple):
    kind: Literal["own", "vendor", "native", "view", "plan"]
    name: str
    call: str
    nodes: list[str]
    reason: str

class Plan:
    @property
    def name(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def inputs(self) -> list[Tensor]: ...
    @property
    def outputs(self) -> list[Tensor]: ...
    @property
    def steps(self) -> list[Step]: ...
    @property
    def specializations(self) -> list[tuple[list[Tensor], list[Tensor]]]: ...
    def run(self, inputs: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike]) -> dict[str, np.ndarray]: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def cancel(self) -> None: ...

def build(
    path: str | PathLike[str],
    *,
    target: str = "cpu",
    threads: int = 0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    forms: Mapping[str, npt.ArrayLike | Sequence[npt.ArrayLike] | None] | None = None,
    values: Mapping[str, npt.ArrayLike] | None = None,
    budget: float = 0,
    force: Literal["own", "vendor", "calls"] | None = None,
    specialize: Literal["now", "background", "never"] = "now",
    cache_dir: str | PathLike[str] | None = None,
) -> Plan: ...
def shape_inputs(
    path: str | PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    forms: Mapping[str, npt.ArrayLike | Sequence[npt.ArrayLike] | None] | None = None,
) -> list[str]: ...
def load(
    path: str | PathLike[str],
    *,
    threads: int = 0,
    specialize: Literal["now", "background", "never"] = "now",
    cache_dir: str | PathLike[str] | None = None,
) -> Plan: ...

class Parameter(NamedTuple):
    name: str
    dtype: np.dtype | None
    rank: int | None

class TunedKernel(NamedTuple):
    name: str
    choice: str
    trials: int
    best_us: float
    start_us: float

class Comprehension:
    @property
    def source(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> list[Parameter]: ...
    def __call__(self, *args: Any, out: Any = ..., **kwargs: Any) -> Any: ...
    def infer(self, *args: Any, **kwargs: Any) -> dict[str, Any]: ...
    def tune(self, *args: Any, budget: float = 5.0, **kwargs: Any) -> list[TunedKernel]: ...

def comprehension(
    text: str,
    entry: str | None = None,
    *,
    target: str = "cpu",
    threads: int = 0,
    choices: str | None = None,
    file: str = "comprehension",
    cache_dir: str | PathLike[str] | None = None,
) -> Comprehension: ...
