"""A git repository with a recorded history that is quiet up to base, and a head that is slower: what `check` judges."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.asv_results import AsvResults
from tests.commands import run_command
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store

QUIET = (1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.001)
LEVELS_S = {
    ("rope.Rope.track_latency", "fp16"): 100e-6,
    ("rope.Rope.track_latency", "fp32"): 2e-6,
    ("sum.Sum.track_latency", "fp16"): 50e-6,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRepository:
    """The checkout, its store, and the two commits."""

    folder: Path
    database: str
    base: str
    head: str

    def warpwatch(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """A command of ours in the checkout."""
        return run_command(*words, "--database", self.database, folder=self.folder)

    def check(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """`warpwatch check` of base and head."""
        return self.warpwatch("check", self.base, self.head, *words)


def judged_repository(
    root: Path,
    *,
    database: str,
    slower: Mapping[tuple[str, str], float],
    policy: str | None = None,
    head_policy: str | bytes | None = None,
    message: str = "head",
    broken: Mapping[tuple[str, str], float | None] | None = None,
) -> JudgedRepository:
    """Series of LEVELS_S, of which head has some slower by a share; warpwatch.toml at base and at head.

    What is `broken` has no number at head: None is asv's for a failure, NaN for what it skips.
    """
    folder = root / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet")
    results = AsvResults(root / "results")
    for name in {name for name, _ in LEVELS_S}:
        results.benchmark(name, dtype=["'fp16'", "'fp32'"])
    if policy is not None:
        (folder / "warpwatch.toml").write_text(policy)
    hashes = [_commit(folder, f"change {number}") for number in range(len(QUIET) - 1)]
    if head_policy is not None:
        content = head_policy.encode() if isinstance(head_policy, str) else head_policy
        (folder / "warpwatch.toml").write_bytes(content)
    hashes.append(_commit(folder, message))
    for number, (commit, wobble) in enumerate(zip(hashes, QUIET, strict=True)):
        rows = {}
        for name in {name for name, _ in LEVELS_S}:
            values = [
                LEVELS_S[name, dtype] * wobble * (1 + (slower.get((name, dtype), 0) if commit == hashes[-1] else 0))
                if (name, dtype) in LEVELS_S
                else None
                for dtype in ("fp16", "fp32")
            ]
            if commit == hashes[-1] and broken:
                values = [
                    broken.get((name, dtype), value) for dtype, value in zip(("fp16", "fp32"), values, strict=True)
                ]
            rows[name] = results.row(values, [["'fp16'", "'fp32'"]], started_at=number + 1, spread=0.002)
        results.commit(number, rows, commit=commit)
    store = Store(database)
    import_results(store, open_folder(results.folder, project="demo", repository=folder), workers=1)
    store.close()
    return JudgedRepository(folder=folder, database=database, base=hashes[-2], head=hashes[-1])


def _commit(folder: Path, message: str) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def git(folder: Path, *words: str) -> str:
    """What git prints in the checkout."""
    identity = ["-c", "user.name=Ann Author", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()
