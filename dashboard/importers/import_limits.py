"""Limits of one import or upload. Known projects need a tenth of them at most.

A few bytes of an archive, or of JSON, can expand to gigabytes of memory or minutes of work. Input beyond a limit is
refused before that.
"""

from dataclasses import dataclass

MIB = 1024 * 1024

# Of an archive
ARCHIVE_BYTES = 4096 * MIB  # unpacked, members that are left out and headers included
ARCHIVE_BYTES_PER_UPLOAD_BYTE = 8  # of an uploaded archive, the usual compression of results
ARCHIVE_FILE_BYTES = 512 * MIB  # of one member; an upload's limit where that is smaller
ARCHIVE_ENTRIES = 20_000  # members, and folders made for them
ARCHIVE_PATH_PARTS = 32  # folders of a member's path and its name
ARCHIVE_HEADER_BYTES = 64 * 1024  # of a tar member's extended header: long name, times, attributes
ARCHIVE_HEADERS_IN_A_ROW = 8  # extended headers of one tar member
LEFT_OUT_NAMED = 100  # members left out that an answer names; it counts the rest

# Of one file
RESULT_FILE_BYTES = 256 * MIB
SAMPLES_FILE_BYTES = 4 * MIB  # of NVBench's --jsonbin: a million launches of one state
JSON_MEMORY_BYTES = 512 * MIB  # of its objects, estimated from its punctuation
CONTEXT_FILE_BYTES = 64 * MIB
CONTEXT_RECORDS = 200_000  # lines of a context file
FILE_VALUES = 500_000  # one null may stand for all combinations of a benchmark's parameters
FILE_SAMPLES = 5_000_000
FILE_BENCHMARKS = 10_000
VALUE_SAMPLES = 2**31 - 1  # that a file may state for a value: the limit of an INTEGER column
BENCHMARK_COMBINATIONS = 100_000  # of one benchmark's parameters
BENCHMARK_PARAMETERS = 64
FILE_PROBLEMS = 100  # parts left out of a file that warnings name


# Of an upload; an import on the server has no such limits
UPLOAD_VALUES = 3_000_000
UPLOAD_NEW_SERIES = 50_000
UPLOAD_PROJECT_SERIES = 100_000  # of a project, through uploads


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportLimits:
    """Limits that are narrower for an upload than for an import on the server."""

    archive_bytes: int = ARCHIVE_BYTES
    file_bytes: int = ARCHIVE_FILE_BYTES
    archive_entries: int = ARCHIVE_ENTRIES
    values: int | None = None  # None: unlimited, also below
    new_series: int | None = None
    project_series: int | None = None


def upload_limits(body_bytes: int) -> ImportLimits:
    """The limits of an upload with a body of up to `body_bytes`."""
    return ImportLimits(
        archive_bytes=body_bytes * ARCHIVE_BYTES_PER_UPLOAD_BYTE,
        file_bytes=min(body_bytes, ARCHIVE_FILE_BYTES),
        values=UPLOAD_VALUES,
        new_series=UPLOAD_NEW_SERIES,
        project_series=UPLOAD_PROJECT_SERIES,
    )


REST_REFUSED = f"the upload has more than {UPLOAD_VALUES:,} values, the limit of one: send the rest in another one"


@dataclass(slots=True, kw_only=True)
class Allowance:
    """What one import may still add; None: unlimited."""

    values: int | None = None
    series: int | None = None  # of the project after the import
    is_used_up: bool = False  # a file was refused: the rest is not worth reading

    def refusal(self, values: int) -> str | None:
        """Subtract a file's values; return the reason if fewer are left."""
        if self.values is None:
            return None
        if values > self.values:
            self.is_used_up = True
            return REST_REFUSED
        self.values -= values
        return None
