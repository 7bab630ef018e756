"""`warpwatch policy`: validate warpwatch.toml, have pages judge by it, accept regressions, apply a retention."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from warpwatch.ci.acceptance.command import accept
from warpwatch.ci.policy.matching import RuleMatches, faults, rule_matches, unknown_units
from warpwatch.ci.policy.policy import Policy
from warpwatch.ci.policy.reading import FILE_NAME, PolicyError, find_policy, read_policy
from warpwatch.ci.policy.stating import limits_stated_by
from warpwatch.dashboard.commands import choose_project
from warpwatch.dashboard.compact_command import retention
from warpwatch.dashboard.limit_rules.rule import LimitRule
from warpwatch.dashboard.opening import CannotTellError, open_store, read_settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.stated_limits import state_limits, stated_limits

_SHOWN = 3  # kernels of a rule, by name


@click.group()
def policy() -> None:
    """Validate warpwatch.toml, accept regressions, apply a retention."""


policy.add_command(accept)
policy.add_command(retention)


@policy.command()
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--project", metavar="NAME", help="Needed where the store holds several.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE.")
def check(path: Path | None, project: str | None, database: str | None) -> None:
    """Validate warpwatch.toml.

    PATH is the file, by default that of this folder or of one above it. Also prints which recorded series each rule
    matches. Exit status: 0 it can be used, 1 a rule or a key of it does nothing among the recorded series, 2 it cannot
    be read.
    """
    path = path or find_policy(Path.cwd())
    if path is None:
        raise CannotTellError(f"no {FILE_NAME} here or above, so the defaults hold; give its path")
    try:
        told = read_policy(path)
    except PolicyError as error:
        raise CannotTellError(str(error)) from error
    click.echo(f"{path} can be used: {_gate_words(told)}")
    store = _store(database)
    if store is None:
        click.echo("There is no store here, so nothing says what the rules match (--database, WARPWATCH_DATABASE).")
        raise SystemExit(int(_warn(unknown_units(told))))
    wrong = _tell(store, told, choose_project(store, project).name)
    store.close()
    raise SystemExit(int(wrong))


@policy.command()
@click.argument("path", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--project", metavar="NAME", help="Needed where the store holds several.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE.")
def keep(path: Path | None, project: str | None, database: str | None) -> None:
    """Store the limits of warpwatch.toml.

    Pages and API judge by them. PATH is the file, by default that of this folder or of one above it; it counts as its
    repository's HEAD has it. `warpwatch alert` and `warpwatch push` do the same by themselves. Exit status: 0 it holds,
    1 a newer commit's is kept already, 2 it cannot be read.
    """
    path = path or find_policy(Path.cwd())
    if path is None:
        raise CannotTellError(f"no {FILE_NAME} here or above; give its path")
    try:
        stated = limits_stated_by(path)
    except (PolicyError, OSError) as error:
        raise CannotTellError(str(error)) from error
    store = open_store(database)
    name = choose_project(store, project).name
    if not state_limits(store, name, stated, now_ms=time.time_ns() // 1_000_000):
        held = stated_limits(store, name)
        raise click.ClickException(f"{stated.name} is not the newest: {name} is judged by {held.name if held else '?'}")
    click.echo(f"{name} is judged by {stated.name}: {len(stated.rules)} rules")


def _store(database: str | None) -> Store | None:
    """None where opening it would only make an empty one."""
    url = database or read_settings().database
    file = url.removeprefix("sqlite:///") if url.startswith("sqlite:///") else None
    return None if file is not None and not Path(file).exists() else open_store(database)


def _tell(store: Store, told: Policy, project: str) -> bool:
    """Prints it; whether anything does nothing."""
    series = queries.find_series(store, project, listed=True, limit=10**9).series
    workloads = queries.project_workloads(store, project)
    judged = [one for one in series if one.metric.is_judged and one.is_watched]
    click.echo(f"Of {len(judged)} series that are judged in {project}:")
    matches = rule_matches(told, judged, workloads)
    for each in matches:
        click.echo(_rule_line(each))
    rest = len(judged) - len({one.key for each in matches for one in each.series})
    click.echo(f"  {rest} are matched by no rule")
    return _warn(faults(told, judged, matches))


def _warn(found: Sequence[str]) -> bool:
    for fault in found:
        click.echo(f"Warning: {fault}", err=True)
    return bool(found)


def _gate_words(told: Policy) -> str:
    gate = told.gate
    threshold = f"changes from {gate.threshold:.4g} on matter" if gate.threshold else "the default threshold"
    floor = f", {gate.floor} at least" if gate.floor else ""
    blocks = "" if gate.blocks else ", nothing blocks unless a rule says so"
    return f"{threshold}{floor}{blocks}; {gate.runs} runs, {gate.budget_minutes:g} min; {len(told.rule)} rules"


def _rule_line(each: RuleMatches) -> str:
    kernels = ", ".join(each.kernels[:_SHOWN]) + (", …" if len(each.kernels) > _SHOWN else "")
    many = f"{len(each.series)} series" + (f" ({kernels})" if kernels else "")
    return f"  [[rule]] number {each.number} ({_matching(each.rule)}): {many}: {_stating(each.rule)}"


def _matching(rule: LimitRule) -> str:
    told = [(key, getattr(rule, key)) for key in ("kernel", "benchmark", "metric", "machine")]
    told += sorted(rule.parameters.items())
    return "; ".join(f"{key} {' or '.join(globs)}" for key, globs in told if globs)


def _stating(rule: LimitRule) -> str:
    said = []
    for key, value in rule.stated.items():
        if key == "blocks":
            said.append("blocks" if value else "does not block")
        elif key == "owners":
            said.append(f"owned by {', '.join(value) or 'nobody'}")
        else:
            said.append(f"{key} {value:g}" if key == "threshold" else f"{key} {value}")
    return ", ".join(said)
