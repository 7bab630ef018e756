"""`warpwatch runner measure`: what a runner's timer does: the newest commits that were not measured here yet."""

import subprocess
import sys
import tempfile
from pathlib import Path

import click

_FAILED_SOME = 2  # asv's status when a benchmark failed, which is recorded and shown


@click.command()
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".",
              help="Of asv.conf.json; default: here.")  # fmt: skip
@click.option("--commits", default=10, show_default=True, type=click.IntRange(1),
              help="So many of the newest, where they were not measured here yet.")  # fmt: skip
@click.option(
    "--rerun-newest", is_flag=True, help="Measure the newest also if it was: runs of one commit tell the noise."
)
@click.option("--bench", "patterns", multiple=True, metavar="REGEX", help="As asv's; may be given several times.")
@click.option("--no-fetch", is_flag=True, help="The commits that are here, without asking the remote.")
def measure(folder: Path, commits: int, rerun_newest: bool, patterns: tuple[str, ...], no_fetch: bool) -> None:
    """Update the checkout and measure its newest commits.

    Results go to .asv/results; `warpwatch push` sends them.
    """
    if not no_fetch:
        _git(folder, "fetch", "--quiet")
        _git(folder, "merge", "--quiet", "--ff-only", "@{upstream}")
    newest = _git(folder, "rev-list", "--first-parent", f"--max-count={commits}", "HEAD").split()
    benches = [word for pattern in patterns for word in ("--bench", pattern)]
    if rerun_newest:
        _asv(folder, "run", "--record-samples", *benches, f"{newest[0]}^!")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(newest) + "\n")
        file.flush()
        _asv(folder, "run", "--record-samples", "--skip-existing", *benches, f"HASHFILE:{file.name}")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)
    if done.returncode:
        raise click.ClickException(f"git {' '.join(words)} in {folder}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _asv(folder: Path, *words: str) -> None:
    """Its words go where ours go: into the journal."""
    done = subprocess.run([sys.executable, "-m", "asv", *words], cwd=folder)
    if done.returncode not in (0, _FAILED_SOME):
        raise click.ClickException(f"asv {words[0]} ended with {done.returncode}")
