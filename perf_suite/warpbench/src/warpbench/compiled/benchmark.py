"""asv's side of compiled code in any project: the kernels that its benchmarks name with `kernels=`. No torch here."""

import re
import subprocess
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from ..asv_metrics import AsvMetrics, Cache
from ..benchmark import KernelBenchmark
from ..implementation import implementations_of
from ..jobs import asv_name
from ..records import CompiledRecord, Status
from ..spool import Spool
from ..workload import ANY_DEVICE
from .architectures import compute_capability_of
from .code_metrics import CodeMetrics, Combination, ReadCode, compiled_record
from .cuda_binaries import NoToolsError, Tools, find_tools
from .library_file import NoLibraryError, find_library
from .machine_code import Instantiation, KernelCode, KernelKey, kernel_code, library_instantiations
from .triton_cache import read_triton_cache, triton_instantiations

_MOST_NAMES = 12  # of kernels in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedKernels:
    """The kernels that one implementation names."""

    kind: type[KernelBenchmark]
    implementation: str
    library: str | None  # None: they are Triton's
    patterns: tuple[str, ...]

    def matches(self, kernel: str) -> bool:
        """Whether a kernel is one of them."""
        return any(re.fullmatch(pattern, kernel) for pattern in self.patterns)


class CompiledCodeBenchmark(CodeMetrics):
    """Registers, spills, memory and instructions of the kernels that the project's benchmarks name.

    A parameter is an entry of `kernels=`: all kernels that it matches are taken together. Abstract, so that asv passes
    over it: a project's own class names its benchmark classes. Raises TypeError where these name no kernel.
    """

    architectures: ClassVar[Sequence[str]] = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, type[KernelBenchmark]]:
        """The benchmark classes by any name."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        patterns = dict.fromkeys(pattern for named in cls._named() for pattern in named.patterns)
        if not patterns:
            raise TypeError(f'{cls.__name__} has nothing to read: name kernels, as in @kernel(kernels=["rms_norm.*"])')
        cls.params = (list(patterns), list(cls.architectures))

    setup_cache = AsvMetrics.setup_cache  # the very same, so that asv runs one session for all

    def code(self, cache: Cache) -> ReadCode:
        """This class's part of the session."""
        name = asv_name(type(self))
        if name not in cache.code:
            return ReadCode(found={}, unavailable={(): "asv was asked for without warpbench's plugin"})
        return cache.code[name]

    @classmethod
    def _named(cls) -> tuple[NamedKernels, ...]:
        kinds: Any = cls.kinds
        return tuple(named for kind in kinds.values() for named in named_kernels(kind))

    @classmethod
    def read_code(cls, benchmark: str, cache: Cache, asked: Collection[Combination]) -> ReadCode:
        """Read the libraries, and in Triton's cache the kernels that the session compiled; write their records."""
        try:
            tools = find_tools()
        except NoToolsError as error:
            return ReadCode(found={}, unavailable={(): str(error)})
        architectures = [name for name in cls.architectures if any(name == each for _, each in asked)]
        named = [each for each in cls._named() if any(pattern in each.patterns for pattern, _ in asked)]
        read = {
            library: _read_library(library, named, architectures, tools)
            if library is not None
            else _read_triton(cache, architectures, tools)
            for library in dict.fromkeys(each.library for each in named)
        }
        found: dict[Combination, KernelCode] = {}
        unavailable: dict[Combination, str] = {(): "not asked for"}
        records: dict[KernelKey, CompiledRecord] = {}
        for pattern in dict.fromkeys(pattern for pattern, _ in asked):
            naming = [each for each in named if pattern in each.patterns]
            matched, why_not = _matched(pattern, naming, read, cache)
            for key, instantiations in matched.items():
                records[key] = compiled_record(
                    kernel_code(*key, instantiations),
                    benchmark=benchmark,
                    operator=naming[0].kind.operator,
                    implementation=naming[0].implementation,
                    run=cache.run.run,
                )
            for architecture in architectures:
                together = [each for key, several in matched.items() if key[1] == architecture for each in several]
                if together:
                    found[pattern, architecture] = kernel_code(pattern, architecture, together)
                unavailable[pattern, architecture] = why_not
        Spool(cache.run.run).append(*records.values())
        return ReadCode(found=found, unavailable=unavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What a library, or Triton, has of the named kernels."""

    instantiations: Mapping[KernelKey, Sequence[Instantiation]] = field(default_factory=dict)
    names: Collection[str] = ()  # of all its kernels
    where: str
    problem: str = ""


def named_kernels(kind: type[KernelBenchmark]) -> Iterator[NamedKernels]:
    """Of a class's implementations, those that name kernels."""
    for name, mark in implementations_of(kind).items():
        if mark.kernels:
            yield NamedKernels(
                kind=kind,
                implementation=name,
                library=mark.library,
                patterns=mark.kernels,
            )


def no_such_kernel(pattern: str, naming: NamedKernels, names: Collection[str], where: str) -> str:
    """The sentence for a pattern that matches no kernel."""
    shown = ", ".join(sorted(names)[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    return (
        f"kernels={pattern!r} of {naming.kind.__name__}.{naming.implementation} matches no kernel of {where}, "
        f"which has {shown or 'none'}; a name or an expression has to match the whole name"
    )


def _read_library(library: str, named: Sequence[NamedKernels], architectures: Sequence[str], tools: Tools) -> _Read:
    own = [each for each in named if each.library == library]
    names: set[str] = set()

    def is_wanted(kernel: str) -> bool:
        names.add(kernel)
        return any(each.matches(kernel) for each in own)

    try:
        path = find_library(library)
        return _Read(
            instantiations=library_instantiations(path, tools, architectures, is_wanted=is_wanted),
            names=names,
            where=str(path),
        )
    except NoLibraryError as error:
        return _Read(where=library, problem=str(error))
    except (subprocess.CalledProcessError, ValueError) as error:
        return _Read(where=library, problem=f"{path} cannot be read as a CUDA library: {error}")


def _read_triton(cache: Cache, architectures: Sequence[str], tools: Tools) -> _Read:
    """All that the session's kernels compiled, an architecture called as the class calls it."""
    files = sorted({file for files in cache.triton_files.values() for file in files})
    called = {compute_capability_of(name): name for name in architectures}
    kernels = [
        replace(kernel, architecture=called[capability])
        for kernel in read_triton_cache(map(Path, files))
        if (capability := compute_capability_of(kernel.architecture)) in called
    ]
    return _Read(
        instantiations=triton_instantiations(kernels, tools),
        names={kernel.function for kernel in kernels},
        where="what Triton compiled in this run",
    )


def _matched(
    pattern: str, naming: Sequence[NamedKernels], read: Mapping[str | None, _Read], cache: Cache
) -> tuple[dict[KernelKey, list[Instantiation]], str]:
    """The kernels of a pattern, and why there are none for some architecture."""
    matched: dict[KernelKey, list[Instantiation]] = {}
    why_not = ""
    for library in dict.fromkeys(each.library for each in naming):
        own = [each for each in naming if each.library == library]
        source = read[library]
        missing = source.problem or (_not_measured(own, cache) if library is None else "")
        if not missing and not any(re.fullmatch(pattern, name) for name in source.names):
            missing = no_such_kernel(pattern, own[0], source.names, source.where)
        why_not = missing or why_not or f"{source.where} has no {pattern!r} for this architecture"
        for key, instantiations in source.instantiations.items() if not missing else ():
            if re.fullmatch(pattern, key[0]):
                matched.setdefault(key, []).extend(instantiations)
    return matched, why_not


def _not_measured(naming: Sequence[NamedKernels], cache: Cache) -> str:
    """Why a run lacks some of a Triton kernel's configurations: a case that was not compiled."""
    if cache.run.device != "cuda":
        return "Triton compiles on a GPU, and this machine has none"
    for each in naming:
        for workload in each.kind.workloads():
            if workload.device not in ("cuda", ANY_DEVICE) or each.implementation not in workload.implementations:
                continue
            outcome = cache.outcomes.get((each.kind.source(), workload.name, each.implementation))
            status = outcome.measurement.status if outcome else None
            if status not in (Status.OK, Status.INVALID):
                return (
                    f"{workload.name} of {each.kind.operator} was not measured by {each.implementation} in this run"
                    f"{f' ({status})' if status else ''}: the configurations that Triton compiles for it are not known"
                )
    return ""
