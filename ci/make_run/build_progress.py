"""Progress of a build and of `asv run`, from what they print."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from warpwatch.dashboard.web.measurement import Count

# Where `asv run` is, from what it prints: which commit, whether it builds or measures, how many benchmarks are done.
#
# asv ends a line when it begins the next one, so a line is read when its work is done.

_TOTAL = re.compile(r"· Running (\d+) total benchmarks \((\d+) commits \*")
_SHARE = re.compile(r"^\[\s*(\d+\.\d+)%\] ·")
_COMMIT = re.compile(r"·+ For \S+ commit ([0-9a-f]+)")
_BUILDS = re.compile(r"·+ (Uninstalling from|Building) ")
_MEASURES = re.compile(r"·+ Benchmarking ")
_NOT_BUILT = re.compile(r"^\[\s*\d+\.\d+%\] ·+ Skipping ")


@dataclass(slots=True)
class AsvOutput:
    """The state after the lines read so far."""

    commits: int | None = None
    commit: int | None = None  # from 1, in asv's order
    is_building: bool = False
    measured: Count | None = None  # benchmarks of this commit
    not_built: list[str] = field(default_factory=list)  # hashes of commits that did not compile
    _benchmarks: int = 0
    _hash: str = ""

    def read(self, line: str) -> None:
        """Takes one line; what is no line of asv's own changes nothing."""
        if _BUILDS.search(line):
            self.is_building = True
            self.commit = self.commit or 1  # to find the benchmarks asv builds a first commit
        elif total := _TOTAL.search(line):
            self.commits = int(total[2])
            self._benchmarks = int(total[1]) // self.commits
            self.is_building = False
        elif _MEASURES.search(line):
            self.is_building = False
        elif _NOT_BUILT.search(line):
            self.not_built.append(self._hash)
            self.is_building = False
        share = _SHARE.match(line)
        if share is None or not self.commits or not self._benchmarks:
            return
        done = round(float(share[1]) / 100 * self.commits * self._benchmarks)
        if commit := _COMMIT.search(line):  # those that were measured before are passed over without a line
            self.commit = done // self._benchmarks + 1
            self._hash, self.is_building = commit[1], True
        if self.commit is not None:
            of_commit = done - (self.commit - 1) * self._benchmarks
            self.measured = None if self.is_building else Count(done=of_commit, total=self._benchmarks)


# How much of the kernels ninja has compiled: from what it prints, or where asv keeps that, from the log it writes.

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
