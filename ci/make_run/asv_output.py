"""Where `asv run` is, from what it prints: which commit, whether it builds or measures, how many benchmarks are done.

asv ends a line when it begins the next one, so a line is read when its work is done.
"""

import re
from dataclasses import dataclass, field

from warpwatch.dashboard.measurement import Count

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
