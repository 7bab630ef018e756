"""How much of the kernels ninja has compiled: from what it prints, or where asv keeps that, from the log it writes."""

import re
from pathlib import Path

from warpwatch.dashboard.measurement import Count

_STATUS = re.compile(r"^\[(\d+)/(\d+)\] ")


def printed_count(line: str) -> Count | None:
    """The count of a line such as `[43/112] cuda kernels/csrc/rope/rope.cu`; None of any other line."""
    found = _STATUS.match(line)
    return Count(done=int(found[1]), total=int(found[2])) if found else None


def logged_count(environments: Path, since_s: float) -> Count | None:
    """The count of the build that asv has under way in one of its environments, begun after `since_s` (Unix time).

    asv empties a commit's checkout before it builds, so that the log holds this build alone. None before ninja has
    finished a first source.
    """
    logs = list(environments.glob("*/project/build/kernels/*/.ninja_log"))
    newest = max(logs, key=_modified_s, default=None)
    if newest is None or _modified_s(newest) < since_s:
        return None
    try:
        finished = {line.split("\t")[3] for line in newest.read_text().splitlines() if line.count("\t") == 4}
        total = sum(line.startswith("build ") for line in newest.with_name("build.ninja").read_text().splitlines())
    except OSError:  # asv empties the folder just now
        return None
    return Count(done=min(len(finished), total), total=total) if finished and total else None


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
