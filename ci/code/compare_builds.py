"""`python -m warpwatch.ci.code.compare_builds BASE`: builds another commit and compares its compiled code with ours.

For projects that are built by `setup.py build_ext --inplace` and read by perf_suite, as warpwatch is.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from warpwatch.dashboard.cli.output import OutputFile
from warpwatch.dashboard.cli.store_access import CannotTellError

from .code_comparison import CodeComparison, CommitFacts, compare_code, read_facts
from .code_report import as_markdown, headline

_NO_COMMIT = "0" * 40  # GitHub's base of a branch's first push


@click.command()
@click.argument("base")
@click.option("--output", type=OutputFile(), required=True, help="Write the comparison as JSON.")
@click.option("--summary", type=OutputFile(), help="Append the comparison as Markdown.")
def against(base: str, output: Path, summary: Path | None) -> None:
    """Compare the compiled code of this checkout, which must be built, with that of its merge base with BASE."""
    checkout = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        head = _facts(checkout, checkout, Path(folder) / "head.json")
        with _worktree(checkout, merge_base(checkout, base), Path(folder) / "base") as other:
            _run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], other)
            comparison = compare_code(_facts(checkout, other, Path(folder) / "base.json"), head)
    _write(comparison, output, summary)
    click.echo(headline(comparison))


def merge_base(checkout: Path, base: str) -> str:
    """The merge base of HEAD and `base`; HEAD's parent if that is HEAD itself, or for a branch's first push."""
    head = _git(checkout, "rev-parse", "HEAD")
    commit = head if base == _NO_COMMIT else _git(checkout, "merge-base", base, "HEAD")
    return commit if commit != head else _git(checkout, "rev-parse", "HEAD~1")


@contextmanager
def _worktree(checkout: Path, commit: str, folder: Path) -> Iterator[Path]:
    _git(checkout, "worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield folder
    finally:
        _git(checkout, "worktree", "remove", "--force", str(folder))


def _facts(suite: Path, checkout: Path, file: Path) -> CommitFacts:
    """Compiled code of a checkout, read by the perf_suite of `suite`."""
    _run([sys.executable, "-m", "perf_suite.compiled", str(file), "--checkout", str(checkout)], suite)
    return read_facts(file)


def _write(comparison: CodeComparison, output: Path, summary: Path | None) -> None:
    output.write_text(comparison.model_dump_json(by_alias=True) + "\n", encoding="utf-8")
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write(as_markdown(comparison))


def _git(checkout: Path, *words: str) -> str:
    return _run(["git", *words], checkout).strip()


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        last_lines = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise CannotTellError(f"{' '.join(command)} in {folder} ended with {done.returncode}:\n{last_lines}")
    return done.stdout


if __name__ == "__main__":
    against()
