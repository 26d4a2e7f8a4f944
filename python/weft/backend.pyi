from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend, BackendRep

from . import Plan

class WeftRep(BackendRep):
    input_names: list[str]
    output_names: list[str]
    def __init__(self, model: ModelProto, **options: Any) -> None: ...
    def run(self, inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray], **kwargs: Any) -> tuple[np.ndarray, ...]: ...
    def plan(self, inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray]) -> Plan: ...

class WeftBackend(Backend):
    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = ..., **options: Any) -> bool: ...
    @classmethod
    def prepare(cls, model: ModelProto, device: str = ..., **options: Any) -> WeftRep: ...
    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = ..., **options: Any) -> tuple[np.ndarray, ...]: ...
    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = ...,
        outputs_info: Any = ...,
        opset_version: int | None = ...,
        **options: Any,
    ) -> tuple[np.ndarray, ...]: ...
    @classmethod
    def supports_device(cls, device: str) -> bool: ...

is_compatible = WeftBackend.is_compatible
prepare = WeftBackend.prepare
run_model = WeftBackend.run_model
run_node = WeftBackend.run_node
supports_device = WeftBackend.supports_device
