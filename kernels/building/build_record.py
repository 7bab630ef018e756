"""What a build tells of itself, as JSON beside the extension: how long each source took to compile, and the host code.

Machine code for the GPU can be read from the extension later; these two cannot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from .host_code import host_code_sha256
from .ninja_file import TIMES

SCHEMA = 1


def build_record(root: Path, objects: Mapping[Path, Path]) -> str:
    """JSON of {"schema", "sources": {source below kernels/csrc: {"compile_s", "host_sha256"}}}.

    compile_s is CPU time, which a busy machine does not lengthen, of the compilation that the object comes from.
    host_sha256 is of what the CPU runs: it launches the kernels, and tells grids and tiles their sizes.
    """
    sources = {
        str(source.relative_to("kernels/csrc")): {
            "compile_s": _compile_s(root / target),
            "host_sha256": host_code_sha256(root / target),
        }
        for source, target in objects.items()
    }
    return json.dumps({"schema": SCHEMA, "sources": dict(sorted(sources.items()))}, indent=1) + "\n"


def _compile_s(target: Path) -> float | None:
    spent = re.findall(r"(\d+)m(\d+)[.,](\d+)s", target.with_name(target.name + TIMES).read_text())
    if len(spent) != 4:  # user and system time of the shell, then of its children
        return None
    return round(sum(60 * int(minutes) + float(f"{whole}.{part}") for minutes, whole, part in spent[2:]), 3)
