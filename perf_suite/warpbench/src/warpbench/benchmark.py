"""The class that one operator's benchmark derives from: cases, inputs, reference and implementations in one place.

No torch here: asv imports the benchmark modules in processes that measure nothing.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .asv_metrics import AsvMetrics
from .case import Case
from .implementation import implementations_of
from .prepared import Prepared, UnavailableError
from .workload import ANY_DEVICE, Workload

DEFAULT_DTYPE = {"cuda": "fp16", "cpu": "fp32"}

if TYPE_CHECKING:
    import torch

    from .draw import Draw
    from .inputs import Inputs


class KernelBenchmark(AsvMetrics, ABC):
    """One operator. asv finds the class in its benchmark directory and records each case × implementation.

    A subclass has `cases`, `inputs`, `reference`, and a method for each implementation, decorated as `kernel` or
    `baseline`. Further, where they apply:

    - `writes`: names of the inputs that the operator writes in place. Its implementations return them or None, and a
      second call must not change what the first left. `decode` turns them into values, where they hold codes.
    - `case(device, dtype, **shape)`: a static method that makes a case of any shape, for `warpbench run`.
    - `smallest`: the shape of the smallest case, of which the host overhead is measured.
    - `reference_in_float64 = False`: the reference takes the inputs as they are, without float64 copies.

    An ImportError in an implementation means that it is not available here. Raises TypeError for a class that cannot
    be measured.
    """

    cases: ClassVar[Sequence[Case]] = ()
    case: ClassVar[Callable[..., Case] | None] = None
    smallest: ClassVar[Mapping[str, Any] | None] = None
    writes: ClassVar[tuple[str, ...]] = ()
    reference_in_float64: ClassVar[bool] = True
    operator: ClassVar[str] = ""

    @abstractmethod
    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """The arguments of one call by name. Tensors of `draw.weight` and `draw.constant` stay from call to call."""

    @abstractmethod
    def reference(self, *unnamed: Any, **inputs: Any) -> Any:  # mypy: with both, a subclass may name its inputs
        """The output, or several, in float64. Called with float64 copies of the floating-point inputs.

        None where no reference is known: then each number is recorded with "no correctness gate".
        """

    decode: ClassVar[Callable[..., Any] | None] = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "operator" not in vars(cls):
            cls.operator = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        if cls.cases and not implementations_of(cls):
            raise TypeError(f"{cls.__name__} has cases and no implementation: decorate a method with @kernel")
        names = [case.name for case in cls.cases]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise TypeError(f"{cls.__name__} has several cases named {', '.join(twice)}: each name is a series")
        for case in cls.cases:
            unknown = set(case.implementations or ()) - set(implementations_of(cls))
            if unknown:
                raise TypeError(
                    f"{cls.__name__}: case {case.name!r} names {', '.join(sorted(unknown))}; "
                    f"the class has {', '.join(implementations_of(cls))}"
                )
        cls.set_parameters()

    @classmethod
    def source(cls) -> str:
        """Where other processes find the class: "package.module:Class"."""
        return f"{cls.__module__}:{cls.__qualname__}"

    @classmethod
    def workloads(cls) -> tuple[Workload, ...]:
        """All cases, of any device."""
        return tuple(cls.workload_of(case) for case in cls.cases)

    @classmethod
    def workload_named(cls, name: str) -> Workload:
        """The workload of one case. Raises KeyError with the names there are."""
        for case in cls.cases:
            if case.name == name:
                return cls.workload_of(case)
        raise KeyError(f"no workload {name!r} of {cls.operator}; it has {', '.join(case.name for case in cls.cases)}")

    @classmethod
    def workload_of(cls, case: Case) -> Workload:
        """A case of this operator, listed in `cases` or not, as the engine takes it."""
        marks = implementations_of(cls)
        chosen = tuple(
            name
            for name in (case.implementations or marks)
            if case.device == ANY_DEVICE or case.device in marks[name].devices
        )
        return Workload(
            operator=cls.operator,
            name=case.name,
            device=case.device,
            dtype=case.dtype,
            parameters=case.shape,
            cost=case.cost,
            implementations=chosen,
            tolerance=case.tolerance,
            source=cls.source(),
            baselines=tuple(name for name in chosen if marks[name].role == "baseline"),
            controls=tuple(name for name in chosen if marks[name].role == "control"),
            seed=case.seed,
            arithmetic=case.arithmetic,
            replayed=case.replayed,
            energy_of=case.energy_of,
        )

    @classmethod
    def smallest_case(cls, device: str) -> Case:
        """The case whose host overhead is measured. Raises ValueError where the class names none."""
        if cls.case is None or cls.smallest is None:
            raise ValueError(f"{cls.__name__} has no smallest case: it needs `case` and `smallest`")
        return cls.case(device, DEFAULT_DTYPE[device], **cls.smallest)

    @classmethod
    def code_sha256(cls, implementation: str, compute_capability: str | None) -> str | None:
        """One hash of the project's code that a kernel runs on a GPU such as "9.0", or (None) on the CPU.

        None where that is not known, and of baselines. This one follows the method's own import statements.
        """
        from .code_digest import digest_of_imports
        from .compiled.library_file import NoLibraryError, find_library

        del compute_capability  # Python and whole libraries are hashed, whatever the GPU
        mark = implementations_of(cls).get(implementation)
        if mark is None or mark.role != "kernel":
            return None
        try:
            library = None if mark.library is None else find_library(mark.library)
        except NoLibraryError:
            return None
        return digest_of_imports(getattr(cls, implementation), library)

    def make_inputs(self, workload: Workload, generator: torch.Generator) -> Inputs:
        """Draw the inputs of a workload on the generator's device."""
        from .draw import Draw
        from .inputs import DeclaredCodedInputs, DeclaredInputs, DeclaredWrittenInputs

        draw = Draw(workload, generator)
        values = self.inputs(case_of(workload), draw)
        constants = frozenset(name for name, value in values.items() if draw.is_constant(value))
        unknown = [name for name in self.writes if name not in values or name in constants]
        if unknown:
            raise TypeError(f"{type(self).__name__}.writes names {', '.join(unknown)}, which `inputs` does not draw")
        common = (values, constants, self.reference)
        if self.decode is not None:
            return DeclaredCodedInputs(
                *common, in_float64=self.reference_in_float64, writes=self.writes, decode=self.decode
            )
        if self.writes:
            return DeclaredWrittenInputs(*common, in_float64=self.reference_in_float64, writes=self.writes)
        return DeclaredInputs(*common, in_float64=self.reference_in_float64)

    def prepare(self, workload: Workload, implementation: str, inputs: Inputs) -> Prepared:
        """Bind an implementation to inputs. Raises UnavailableError where it is missing here."""
        from .inputs import DeclaredInputs, DeclaredWrittenInputs

        assert isinstance(inputs, DeclaredInputs)
        mark = implementations_of(type(self)).get(implementation)
        if mark is None or workload.device not in mark.devices:
            raise UnavailableError(f"{workload.operator} has no implementation {implementation} on {workload.device}")
        method = getattr(self, implementation)
        try:
            if mark.binds:
                run = method(**inputs.values)
                if isinstance(run, Prepared):
                    return run
            else:
                run = _calling(method, inputs.values)
                run()
        except ImportError as missing:
            raise UnavailableError(f"{implementation} is not available here: {missing}") from missing
        if isinstance(inputs, DeclaredWrittenInputs):
            run = _returning_written(run, inputs)
        return Prepared(run=run, capturable=mark.capturable)


def declared_class(source: str) -> type[KernelBenchmark]:
    """The class named "package.module:Class". Raises ImportError or AttributeError where there is none."""
    module, _, name = source.partition(":")
    found: type[KernelBenchmark] = getattr(importlib.import_module(module), name)
    return found


def case_of(workload: Workload) -> Case:
    """The case that a workload was made of, in another process."""
    return Case(
        workload.name,
        dtype=workload.dtype,
        tolerance=workload.tolerance,
        bytes=workload.cost.bytes or None,
        flops=workload.cost.flops,
        device=workload.device,
        arithmetic=workload.arithmetic,
        implementations=workload.implementations,
        energy_of=workload.energy_of,
        replayed=workload.replayed,
        seed=workload.seed,
        **workload.parameters,
    )


def _calling(method: Callable[..., Any], values: Mapping[str, Any]) -> Callable[[], Any]:
    return lambda: method(**values)


def _returning_written(run: Callable[[], Any], inputs: Any) -> Callable[[], Any]:
    """The call, with the written inputs as its output where it returns None."""
    written = inputs.written()  # collected once, untimed

    def call() -> Any:
        out = run()
        return written if out is None else out

    return call
