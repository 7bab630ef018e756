"""Which series each rule of a policy speaks of, and what of the policy does nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpwatch.ci.policy.policy import Policy
from warpwatch.dashboard.limit_rules.rule import LimitRule
from warpwatch.dashboard.limit_rules.series_limits import Workloads
from warpwatch.dashboard.naming import kernel_of
from warpwatch.dashboard.store.records import Series


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
