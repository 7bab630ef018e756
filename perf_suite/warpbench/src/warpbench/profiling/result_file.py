"""The context file that a profile belongs into: that of asv's results of the same kernels. No torch here."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import spool
from ..project import Project
from ..records import ProfileRecord, RunRecord, to_line


class NoResultFileError(Exception):
    """No file can be named for this profile; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """A context file, and the commit and environment that the profile's run is recorded for."""

    path: Path
    commit: str
    environment: str


def of_results(commits: Sequence[str], results: Path) -> ResultFile:
    """The context file of the first commit that has asv results. Raises NoResultFileError for none or several."""
    for commit in commits:
        files = sorted(results.glob(f"*/{commit[:8]}-*.json"))
        if len(files) > 1:
            names = ", ".join(str(file.with_suffix(".context.jsonl")) for file in files)
            raise NoResultFileError(f"asv has several results of {commit[:8]}; choose with --into: {names}")
        if files:
            result = json.loads(files[0].read_text())
            return ResultFile(
                path=files[0].with_suffix(".context.jsonl"),
                commit=result["commit_hash"],
                environment=result["env_name"],
            )
    raise NoResultFileError(
        f"{results} has no results of the installed kernels ({commits[0][:8]}); measure them with `asv run HEAD^!`, "
        "or name a file with --into"
    )


def named(path: Path, commits: Sequence[str]) -> ResultFile:
    """A file of the caller's choice: of the commit and environment of the runs in it, if it has any.

    `commits` are those the installed kernels may be of, none if unknown. Raises NoResultFileError if the file's
    results are of none of them.
    """
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    run = next((line for line in reversed(lines) if line["record"] == "run" and line["commit"]), None)
    if run is None:
        return ResultFile(path=path, commit=commits[0] if commits else "", environment="")
    if commits and run["commit"] not in commits:
        raise NoResultFileError(
            f"{path} holds results of {run['commit'][:8]}, whose kernels are not those installed here "
            f"({commits[0][:8]}); check that commit out and build it, or name another file"
        )
    return ResultFile(path=path, commit=run["commit"], environment=run["environment"])


def append(file: ResultFile, run: RunRecord, profiles: Sequence[ProfileRecord]) -> None:
    """Add the run and its profiles to the file in one step."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        lines = [to_line(run), *(to_line(profile) for profile in profiles), ""]
        (Path(folder) / f"{run.run}.jsonl").write_text("\n".join(lines))
        spool.move(Path(folder), file.path, commit=file.commit, environment=file.environment)


def installed_commits(project: Project) -> tuple[str, ...]:
    """The commits that the installed kernels may be of, newest first. Raises NoResultFileError if unknown.

    In an environment that asv built, the one that asv noted; else those of the project's checkout.
    """
    status = Path(sys.prefix) / "asv-install-status.json"  # asv's own note in the environments that it builds
    if status.exists():
        return (str(json.loads(status.read_text())["commit_hash"]),)
    return checkout_commits(project.folder, project.benchmarks)


def checkout_commits(folder: Path, benchmarks: Path) -> tuple[str, ...]:
    """HEAD of a checkout, and the commits before it that differ in benchmarks and Markdown alone."""
    built = (".", ":!*.md", f":!{benchmarks.name}")
    try:
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", *built)
        oldest = _git(folder, "rev-list", "--max-count=1", "HEAD", "--", *built)
        newer = _git(folder, "rev-list", f"{oldest}..HEAD").split()
    except (OSError, subprocess.CalledProcessError):
        raise NoResultFileError(f"{folder} is no checkout of a commit; name a file with --into") from None
    if changed:
        raise NoResultFileError("the checkout has uncommitted changes; commit them, or name a file with --into")
    return (*newer, oldest)


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()
