"""Operators whose cases, inputs, reference and implementations lie in a folder each."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpbench import KernelBenchmark
from warpbench.inputs import Inputs
from warpbench.prepared import Prepared
from warpbench.workload import Workload

from ..workloads import workloads_of

if TYPE_CHECKING:
    import torch


class CatalogueBenchmark(KernelBenchmark):
    """One operator of the catalogue."""

    @property
    @abstractmethod
    def operator(self) -> str:  # type: ignore[override]
        """Its name in the catalogue."""

    @classmethod
    def workloads(cls) -> tuple[Workload, ...]:
        return workloads_of(cls.operator) if isinstance(cls.operator, str) else ()

    @classmethod
    def code_sha256(cls, implementation: str, compute_capability: str | None) -> str | None:
        from ..compiled.code_digest import code_digest

        return code_digest(implementation, cls.operator, compute_capability)

    def inputs(self, case: Any, draw: Any) -> Mapping[str, Any]:
        raise NotImplementedError

    def reference(self, **inputs: Any) -> Any:
        raise NotImplementedError

    def make_inputs(self, workload: Workload, generator: "torch.Generator") -> Inputs:
        from ..inputs import make_inputs

        return make_inputs(workload, generator)

    def prepare(self, workload: Workload, implementation: str, inputs: Inputs) -> Prepared:
        from ..implementations import prepare

        return prepare(workload, implementation, inputs)
