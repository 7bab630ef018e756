"""Recognise a result file's format by its content: asv, pytest-benchmark, NVBench or Google Benchmark."""

from dataclasses import replace

from ..model.result_file import ResultFile
from . import google_benchmark, nvbench, pytest_benchmark
from .asv import read_result
from .input_files import BrokenFileError, ImportOverrides, ReadSibling, read_json


class UnknownFormatError(BrokenFileError):
    """A file of no known format."""


# Each has `recognises` and `read`. pytest-benchmark and Google Benchmark both have a list "benchmarks"; NVBench's has
# "states" in it.
_FORMATS = {"NVBench": nvbench, "pytest-benchmark": pytest_benchmark, "Google Benchmark": google_benchmark}
_MALFORMED = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
KNOWN = "asv, pytest-benchmark, NVBench and Google Benchmark"


def refuse_if_no_json(start: bytes) -> None:
    """Raise UnknownFormatError if the first bytes of a file cannot begin a JSON object."""
    if not start.lstrip()[:1] == b"{":
        raise UnknownFormatError(f"no result file: it begins with {start[:12]!r}; expected JSON of {KNOWN}")


def read_any(
    text: bytes, file_name: str, overrides: ImportOverrides, read_sibling: ReadSibling
) -> tuple[ResultFile, ...]:
    """Read a result file of any known format; return a record for each machine.

    Raises UnknownFormatError for other content, BrokenFileError for malformed content and for a fact that is in neither
    the file nor `overrides`.
    """
    refuse_if_no_json(text[:512])
    data = read_json(text)
    if "commit_hash" in data and "results" in data:
        try:
            result = read_result(text, file_name)
        except _MALFORMED as error:
            raise BrokenFileError(f"malformed asv result: {type(error).__name__}: {error}") from error
        if not result.machine and not overrides.machine:
            raise BrokenFileError("the file names no machine; give it (--machine, or machine= in a URL)")
        return (replace(result, machine=result.machine or overrides.machine),)
    name = next((name for name, module in _FORMATS.items() if module.recognises(data)), None)
    if name is None:
        shown = ", ".join(repr(key)[:30] for key in list(data)[:6]) or "nothing"
        raise UnknownFormatError(f"JSON of no known format (it has {shown}); expected that of {KNOWN}")
    try:
        return _FORMATS[name].read(data, overrides, read_sibling)
    except _MALFORMED as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise BrokenFileError(f"malformed {name} result: {reason}") from error
