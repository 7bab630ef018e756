"""`warpwatch policy`: validate warpwatch.toml, have pages judge by it, accept regressions, apply a retention."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from warpwatch.dashboard.cli.compact import retention
from warpwatch.dashboard.cli.project_choice import choose_project
from warpwatch.dashboard.cli.store_access import CannotTellError, open_store, read_settings
from warpwatch.dashboard.model.naming import kernel_of
from warpwatch.dashboard.model.series import Series, Workloads
from warpwatch.dashboard.model.thresholds import LimitRule
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.policy import state_limits, stated_limits

from ..acceptance.accept_command import accept
from .committed_policy import limits_stated_by
from .policy_file import FILE_NAME, PolicyError, find_policy, read_policy
from .policy_model import Policy

# Which series each rule of a policy speaks of, and what of the policy does nothing.


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatches:
    """One rule beside the series that it matches."""

    number: int  # in the file, from 1 on
    rule: LimitRule
    series: tuple[Series, ...]
    kernels: tuple[str, ...]  # of these, by name
    overruled: tuple[str, ...]  # keys that it states and a later rule states for each of its series


def rule_matches(policy: Policy, series: Sequence[Series], workloads: Workloads) -> tuple[RuleMatches, ...]:
    """Of every rule, in the file's order."""
    workload_of = {one.key: workloads.get((one.suite, one.workload or "")) for one in series}
    matched = [[one for one in series if rule.matches(one, workload_of[one.key])] for rule in policy.rule]
    found = []
    for place, (rule, mine) in enumerate(zip(policy.rule, matched, strict=True)):
        later = list(zip(policy.rule, matched, strict=True))[place + 1 :]
        overruled = []
        for key in rule.stated:
            again = {one.key for other, its in later if key in other.stated for one in its}
            if mine and all(one.key in again for one in mine):
                overruled.append(key)
        kernels = tuple(sorted({kernel_of(one, workload_of[one.key]) for one in mine}))
        found.append(
            RuleMatches(number=place + 1, rule=rule, series=tuple(mine), kernels=kernels, overruled=tuple(overruled))
        )
    return tuple(found)


def unknown_units(policy: Policy) -> tuple[str, ...]:
    """The floors whose unit is none that warpwatch knows, a sentence each: without a store nobody can say more."""
    floors = [("[gate]", policy.gate.floor)]
    floors += [(f"[[rule]] number {number}", rule.floor) for number, rule in enumerate(policy.rule, start=1)]
    return tuple(
        f"{where} has a floor of {floor}, a unit that warpwatch does not know; times are in s, ms, us or ns"
        for where, floor in floors
        if floor is not None and not floor.is_of_known_unit
    )


def faults(policy: Policy, series: Sequence[Series], matches: Sequence[RuleMatches]) -> tuple[str, ...]:
    """What of the policy does nothing among these series, a sentence each."""
    told = []
    general = policy.gate.floor
    if general is not None and series and all(general.of(one.metric) is None for one in series):
        units = ", ".join(sorted({one.metric.unit for one in series}))
        told.append(f"[gate] has a floor of {general}, and the series are in {units}: it does nothing")
    for each in matches:
        where = f"[[rule]] number {each.number}"
        if not each.series:
            told.append(f"{where} matches no series")
        floor = each.rule.floor
        if each.series and floor is not None and all(floor.of(one.metric) is None for one in each.series):
            units = ", ".join(sorted({one.metric.unit for one in each.series}))
            told.append(f"{where} has a floor of {floor}, and its series are in {units}: it does nothing")
        told += [f"{where} states {key}, which later rules state anew for all its series" for key in each.overruled]
    return tuple(told)


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
    judged = [one for one in series if one.metric.is_judged and one.is_ours]
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
