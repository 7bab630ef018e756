"""`warpwatch policy retention`: drop old data by a retention policy, and shrink the database."""

import tomllib
from pathlib import Path
from typing import Any

import click
from sqlalchemy.exc import OperationalError

from ..analysis.series_analysis import analyse
from ..store import Store, queries
from ..store.retention import Compaction, RetentionPolicy, compact, drop_project, reclaim
from .output import database_option
from .store_access import database_failed, open_store


@click.command("retention")
@click.argument(
    "policy_file", required=False, metavar="[FILE]", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--project", metavar="NAME", help="Only this project.")
@click.option("--drop-project", metavar="NAME", help="Remove this project and all its data.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and change nothing.")
@database_option
def retention(
    policy_file: Path | None, project: str | None, drop_project: str | None, dry_run: bool, database: str | None
) -> None:
    """Apply a retention policy and shrink the database.

    FILE is TOML with samples_days, thin_after_days, thin_every and unlisted_days; without it nothing is dropped, and
    chunks are only joined. May be killed and repeated at any time, also during imports.
    """
    policy = _policy(policy_file)
    store = open_store(database)
    try:
        _compact(store, project, policy, drop_project, dry_run)
    except OperationalError as error:
        raise database_failed(error, to_go_on="run it again to do the rest") from error


def _compact(store: Store, project: str | None, policy: RetentionPolicy, dropped: str | None, dry_run: bool) -> None:
    names = [row.name for row in queries.projects(store)]
    for name in filter(None, (project, dropped)):
        if name not in names:
            raise click.ClickException(f"no project {name!r} in the store; it holds: {', '.join(names) or 'none'}")
    if dropped is not None:
        _drop(store, dropped, dry_run)
        names.remove(dropped)
    for name in names if project is None else [project]:
        if not dry_run and policy.thin_after_days is not None:
            analyse(store, only=name)  # thinning keeps commits around changepoints, which must be current
        _report(name, compact(store, name, policy, dry_run=dry_run), dry_run)
    if not dry_run:
        analyse(store)
        reclaim(store)


def _policy(file: Path | None) -> RetentionPolicy:
    if file is None:
        return RetentionPolicy()
    try:
        values: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        return RetentionPolicy(**values)
    except (TypeError, ValueError) as error:
        raise click.ClickException(f"{file} is not a retention policy: {error}") from error


def _drop(store: Store, name: str, dry_run: bool) -> None:
    if not dry_run:
        drop_project(store, name)
    click.echo(f"{name}: {'would be' if dry_run else 'is'} removed with all its data")


def _report(name: str, done: Compaction, dry_run: bool) -> None:
    removed, joined = ("would remove", "would join") if dry_run else ("removed", "joined")
    click.echo(
        f"{name}: {removed} {done.points_removed} points, {done.samples_removed} samples and {done.series_removed}"
        f" series; {joined} {done.chunks_joined} chunks"
    )
