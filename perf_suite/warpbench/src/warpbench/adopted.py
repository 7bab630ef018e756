"""The class of a benchmark that `warpbench adopt` wrote: cases and calls of another benchmark file. No torch here."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from .benchmark import KernelBenchmark
from .case import Case
from .implementation import baseline, kernel
from .prepared import Prepared, UnavailableError
from .workload import Workload

if TYPE_CHECKING:
    import torch

    from .draw import Draw
    from .inputs import Inputs

_NO_GPU = ("Torch not compiled with CUDA enabled", "Found no NVIDIA driver", "No CUDA GPUs are available")


class AdoptedCase(Case):
    """A case of which only a name and a shape are known, not what a call costs."""

    def __init__(
        self,
        name: str,
        shape: Mapping[str, int | float | bool | str],
        *,
        dtype: str | None = None,
        implementations: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, dtype=dtype, tolerance=0, bytes=None, implementations=implementations)
        self.shape = dict(shape)  # it may have a "name" or a "device" of its own


class AdoptedBenchmark(KernelBenchmark):
    """One function of a benchmark file, unchanged. The file makes the inputs and the calls; warpbench times the calls.

    A subclass has `file`, relative to its own module, `sweep`, the name of the function there, `kernels` and
    `baselines`, the file's providers, and `cases`. "NAME#2" is the second call that the function times for NAME.
    The right result is unknown, so each number is recorded with "no correctness gate", and no bytes and FLOPs.
    """

    sweep: ClassVar[str]
    kernels: ClassVar[Sequence[str]] = ()
    baselines: ClassVar[Sequence[str]] = ()

    @property
    @abstractmethod
    def file(self) -> str:
        """The benchmark file, relative to this class's module."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        for name in (*cls.kernels, *cls.baselines):
            if hasattr(AdoptedBenchmark, name):
                raise TypeError(f'{cls.__name__}: a class has a {name!r} of its own: write "{name}#1" for the provider')
        for name in cls.kernels:
            setattr(cls, name, kernel(binds=True)(_provider(name)))
        for name in cls.baselines:
            setattr(cls, name, baseline(binds=True)(_provider(name)))
        super().__init_subclass__(**keywords)

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """None: the file's function makes its own."""
        return {}

    def reference(self, **inputs: Any) -> None:
        """None is known."""

    @classmethod
    def code_sha256(cls, implementation: str, compute_capability: str | None) -> None:
        """Not known: what a call runs is up to the file."""

    def make_inputs(self, workload: Workload, generator: torch.Generator) -> Inputs:
        """No tensors: each call of the file's function draws its own."""
        from .inputs import DeclaredInputs

        return DeclaredInputs({}, frozenset(), self.reference, in_float64=False)

    def prepare(self, workload: Workload, implementation: str, inputs: Inputs) -> Prepared:
        """Call the file's function up to the call that it times.

        Raises what the file raises, UnavailableError for a missing import or GPU.
        """
        from .adoption.call import prepare

        cls = type(self)
        module = sys.modules[cls.__module__].__file__
        assert module is not None, "asv imports benchmarks from files"
        file = (Path(module).parent / str(self.file)).resolve()
        try:
            return prepare(file, cls.sweep, workload, implementation)
        except ImportError as missing:
            raise UnavailableError(f"{implementation} is not available here: {missing}") from missing
        except (AssertionError, RuntimeError) as error:
            if workload.device == "cpu" and any(words in str(error) for words in _NO_GPU):
                raise UnavailableError(f"{file.name} needs a GPU: {str(error).splitlines()[0]}") from error
            raise


def _provider(name: str) -> Any:
    def provider(self: AdoptedBenchmark) -> None:
        raise AssertionError("prepare() takes the call from the file")

    provider.__name__ = name
    return provider
