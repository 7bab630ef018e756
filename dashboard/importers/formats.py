"""Which format a result file has, told by its content: asv, pytest-benchmark, NVBench or Google Benchmark."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..model.result_file import ResultFile
from . import google_benchmark, nvbench, pytest_benchmark
from .asv import read_result
from .import_overrides import Beside, Given
from .input_files import BrokenFileError, read_json


class UnknownFormatError(BrokenFileError):
    """A file of no format that is known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    name: str
    recognises: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], Given, Beside], tuple[ResultFile, ...]]


# pytest-benchmark and Google Benchmark both have a list "benchmarks"; NVBench's has "states" in it.
_FORMATS = tuple(
    _Format(name=name, recognises=module.recognises, read=module.read)
    for name, module in (
        ("NVBench", nvbench),
        ("pytest-benchmark", pytest_benchmark),
        ("Google Benchmark", google_benchmark),
    )
)
_NOT_AS_WRITTEN = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
KNOWN = "asv, pytest-benchmark, NVBench and Google Benchmark"


def refuse_if_no_json(start: bytes) -> None:
    """Raises UnknownFormatError if a file that starts so is no JSON object: it need not be read any further."""
    if not start.lstrip()[:1] == b"{":
        raise UnknownFormatError(f"no result file: it begins with {start[:12]!r}; wanted JSON of {KNOWN}")


def read_any(text: bytes, file_name: str, given: Given, beside: Beside) -> tuple[ResultFile, ...]:
    """Reads a result file of any format: a record for each machine that was measured.

    Raises UnknownFormatError if its content is none of them, BrokenFileError if it cannot be understood or lacks a fact
    that is not given.
    """
    refuse_if_no_json(text[:512])
    data = read_json(text)
    if "commit_hash" in data and "results" in data:
        try:
            result = read_result(text, file_name)
        except _NOT_AS_WRITTEN as error:
            raise BrokenFileError(f"not as asv writes it: {type(error).__name__}: {error}") from error
        if not result.machine and not given.machine:
            raise BrokenFileError("no machine is named; give it (--machine, or machine= in a URL)")
        return (replace(result, machine=result.machine or given.machine),)
    found = next((known for known in _FORMATS if known.recognises(data)), None)
    if found is None:
        shown = ", ".join(repr(key)[:30] for key in list(data)[:6]) or "nothing"
        raise UnknownFormatError(f"JSON of no known format (it has {shown}); wanted that of {KNOWN}")
    try:
        return found.read(data, given, beside)
    except _NOT_AS_WRITTEN as error:
        said = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise BrokenFileError(f"not as {found.name} writes it: {said}") from error
