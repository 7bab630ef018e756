"""`warpwatch policy`: validate warpwatch.toml, store its thresholds, accept regressions, apply a retention."""

import getpass
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from warpwatch.dashboard.cli.compact import retention
from warpwatch.dashboard.cli.output import database_option, project_option
from warpwatch.dashboard.cli.store_access import (
    CannotTellError,
    choose_project,
    open_store,
    read_settings,
    recorded_commit,
)
from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.model.naming import kernel_of
from warpwatch.dashboard.model.quantities import share
from warpwatch.dashboard.model.schema import first_fault
from warpwatch.dashboard.model.series import Series, Workloads, workload_of
from warpwatch.dashboard.model.thresholds import LimitRule
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.policy import record_acceptances, state_limits, stated_limits

from ..acceptance import SYNTAX, is_matched, parse_acceptance
from .committed_policy import limits_stated_by
from .policy_file import FILE_NAME, PolicyError, find_policy, read_policy
from .policy_model import Policy

# The series that each rule matches, and rules and keys without effect.


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatches:
    number: int  # in the file, from 1
    rule: LimitRule
    series: tuple[Series, ...]
    kernels: tuple[str, ...]  # of these series
    overridden: tuple[str, ...]  # keys that later rules set for each of its series


def rule_matches(policy: Policy, series: Sequence[Series], workloads: Workloads) -> tuple[RuleMatches, ...]:
    """Matches of every rule, in the file's order."""
    workload_of = {one.key: workloads.get((one.suite, one.workload or "")) for one in series}
    matched = [(rule, [one for one in series if rule.matches(one, workload_of[one.key])]) for rule in policy.rule]
    matches = []
    for number, (rule, own) in enumerate(matched, start=1):
        overridden = []
        for key in rule.stated:
            set_later = {one.key for later, others in matched[number:] if key in later.stated for one in others}
            if own and all(one.key in set_later for one in own):
                overridden.append(key)
        kernels = tuple(sorted({kernel_of(one, workload_of[one.key]) for one in own}))
        matches.append(
            RuleMatches(number=number, rule=rule, series=tuple(own), kernels=kernels, overridden=tuple(overridden))
        )
    return tuple(matches)


def unknown_units(policy: Policy) -> tuple[str, ...]:
    """A sentence for each floor whose unit warpwatch does not know; for use without a store."""
    floors = [("[gate]", policy.gate.floor)]
    floors += [(f"[[rule]] number {number}", rule.floor) for number, rule in enumerate(policy.rule, start=1)]
    return tuple(
        f"{where} has a floor of {floor}, whose unit is unknown; times are in s, ms, us or ns"
        for where, floor in floors
        if floor is not None and not floor.is_of_known_unit
    )


def faults(policy: Policy, series: Sequence[Series], matches: Sequence[RuleMatches]) -> tuple[str, ...]:
    """A sentence for each part of the policy without effect on these series."""
    sentences = []
    general = policy.gate.floor
    if general is not None and series and all(general.of(one.metric) is None for one in series):
        units = ", ".join(sorted({one.metric.unit for one in series}))
        sentences.append(f"[gate] has a floor of {general}, but the series are in {units}: it has no effect")
    for match in matches:
        where = f"[[rule]] number {match.number}"
        if not match.series:
            sentences.append(f"{where} matches no series")
        floor = match.rule.floor
        if match.series and floor is not None and all(floor.of(one.metric) is None for one in match.series):
            units = ", ".join(sorted({one.metric.unit for one in match.series}))
            sentences.append(f"{where} has a floor of {floor}, but its series are in {units}: it has no effect")
        sentences += [f"{where} sets {key}, which later rules override for all its series" for key in match.overridden]
    return tuple(sentences)


_SHOWN = 3  # kernels named per rule


@click.group()
def policy() -> None:
    """Validate warpwatch.toml, accept regressions, apply a retention."""


@policy.command()
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
@project_option
@database_option
def check(path: Path | None, project: str | None, database: str | None) -> None:
    """Validate warpwatch.toml.

    PATH is the file; default: that of this folder or of one above it. Also prints the recorded series that each rule
    matches. Exit status: 0 valid, 1 a rule or a key has no effect on the recorded series, 2 invalid.
    """
    path = path or find_policy(Path.cwd())
    if path is None:
        raise CannotTellError(f"no {FILE_NAME} here or above, so the defaults count; give its path")
    try:
        policy = read_policy(path)
    except PolicyError as error:
        raise CannotTellError(str(error)) from error
    click.echo(f"{path} is valid: {_gate_summary(policy)}")
    store = _store(database)
    if store is None:
        click.echo("Without a store the series that the rules match are unknown (--database, WARPWATCH_DATABASE).")
        raise SystemExit(int(_warn(unknown_units(policy))))
    has_faults = _print_matches(store, policy, choose_project(store, project).name)
    store.close()
    raise SystemExit(int(has_faults))


@policy.command()
@click.argument("path", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@project_option
@database_option
def keep(path: Path | None, project: str | None, database: str | None) -> None:
    """Store the thresholds of warpwatch.toml, which pages and API use.

    PATH is the file; default: that of this folder or of one above it. The version of its repository's HEAD is stored.
    `warpwatch alert` and `warpwatch push` do the same. Exit status: 0 stored, 1 a newer commit's is stored already, 2
    invalid.
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
        newer = stated_limits(store, name)
        raise click.ClickException(f"{stated.name} is not the newest: {name} uses {newer.name if newer else '?'}")
    click.echo(f"{name} uses {stated.name}: {len(stated.rules)} rules")


def _store(database: str | None) -> Store | None:
    """The store; None if there is none, since opening it would create an empty one."""
    url = database or read_settings().database
    file = url.removeprefix("sqlite:///") if url.startswith("sqlite:///") else None
    return None if file is not None and not Path(file).exists() else open_store(database)


def _print_matches(store: Store, policy: Policy, project: str) -> bool:
    """Prints the series of each rule. Returns whether a part of the policy has no effect."""
    series = queries.find_series(store, project, listed=True, limit=10**9).series
    workloads = queries.project_workloads(store, project)
    judged = [one for one in series if one.metric.is_judged and one.is_ours]
    click.echo(f"Of {len(judged)} series with verdicts in {project}:")
    matches = rule_matches(policy, judged, workloads)
    for match in matches:
        click.echo(_rule_line(match))
    rest = len(judged) - len({one.key for match in matches for one in match.series})
    click.echo(f"  {rest} are matched by no rule")
    return _warn(faults(policy, judged, matches))


def _warn(sentences: Sequence[str]) -> bool:
    for sentence in sentences:
        click.echo(f"Warning: {sentence}", err=True)
    return bool(sentences)


def _gate_summary(policy: Policy) -> str:
    gate = policy.gate
    threshold = f"changes of at least {gate.threshold:.4g} matter" if gate.threshold else "the default threshold"
    floor = f", {gate.floor} at least" if gate.floor else ""
    blocks = "" if gate.blocks else ", nothing blocks without a rule"
    return f"{threshold}{floor}{blocks}; {gate.runs} runs, {gate.budget_minutes:g} min; {len(policy.rule)} rules"


def _rule_line(match: RuleMatches) -> str:
    kernels = ", ".join(match.kernels[:_SHOWN]) + (", …" if len(match.kernels) > _SHOWN else "")
    series = f"{len(match.series)} series" + (f" ({kernels})" if kernels else "")
    return f"  [[rule]] number {match.number} ({_conditions(match.rule)}): {series}: {_settings(match.rule)}"


def _conditions(rule: LimitRule) -> str:
    conditions = [(key, getattr(rule, key)) for key in ("kernel", "benchmark", "metric", "machine")]
    conditions += sorted(rule.parameters.items())
    return "; ".join(f"{key} {' or '.join(globs)}" for key, globs in conditions if globs)


def _settings(rule: LimitRule) -> str:
    settings = []
    for key, value in rule.stated.items():
        if key == "blocks":
            settings.append("blocks" if value else "does not block")
        elif key == "owners":
            settings.append(f"owned by {', '.join(value) or 'no one'}")
        else:
            settings.append(f"{key} {value:g}" if key == "threshold" else f"{key} {value}")
    return ", ".join(settings)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("base")
@click.argument("head")
@click.argument("words", nargs=-1, required=True, metavar="GLOB [<= 5 %] REASON")
@click.option("--by", metavar="NAME", help="Name of the person who accepts; default: this user.")
@click.option("--source", metavar="WHERE", help="Source of the acceptance, such as a URL; default: this command.")
@project_option
@database_option
def accept(
    base: str,
    head: str,
    words: tuple[str, ...],
    by: str | None,
    source: str | None,
    project: str | None,
    database: str | None,
) -> None:
    """Accept regressions between two commits.

    Accepts regressions from BASE to HEAD of the series that GLOB matches, for the REASON. GLOB matches kernels,
    benchmarks or whole titles of series. `warpwatch check` and `gate` of the same two commits then show them as
    accepted and do not fail. The acceptance does not cover another range of commits.
    """
    pattern, *rest = words
    quoted = f'"{pattern}"' if " " in pattern else pattern
    try:
        line = parse_acceptance(" ".join([quoted, *rest]))
        store = open_store(database)
        chosen = choose_project(store, project)
        ends = [recorded_commit(store, chosen, name) for name in (base, head)]
        acceptance = Acceptance(
            pattern=line.pattern,
            reason=line.reason,
            at_most=line.at_most,
            by=by or getpass.getuser(),
            at=datetime.now(UTC),
            source=source or "warpwatch policy accept",
        )
    except ValueError as error:
        fault = first_fault(error)
        raise CannotTellError(fault if SYNTAX in fault else f"{fault}; expected {SYNTAX}") from error
    workloads = queries.project_workloads(store, chosen.name)
    series = queries.find_series(store, chosen.name, limit=10**9).series
    if not any(is_matched(line.pattern, each, kernel_of(each, workload_of(each, workloads))) for each in series):
        raise CannotTellError(
            f"“{line.pattern}” matches no series of {chosen.name}; give a kernel, a benchmark or a whole title as "
            "`warpwatch check` prints it, or a glob of them"
        )
    base_hash, head_hash = (commit.hash for commit in ends)
    record_acceptances(store, chosen.name, base_hash, head_hash, [acceptance], now_ms=time.time_ns() // 1_000_000)
    at_most = f" up to {share(acceptance.at_most)}" if acceptance.at_most is not None else ""
    between = f"from {base_hash[:8]} to {head_hash[:8]}"
    click.echo(f"“{acceptance.pattern}” is accepted{at_most} {between}, by {acceptance.by}")
    store.close()


policy.add_command(accept)
policy.add_command(retention)
