"""Tables of warpwatch.toml."""

import re
from datetime import time
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from warpwatch.dashboard.model.alert import AlertKind
from warpwatch.dashboard.model.thresholds import GeneralLimits, LimitRule, LimitRules, Table, TupleOf, Words
from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR
from warpwatch.dashboard.statistics.distributions import SIGNIFICANT_Q

Inconclusive = Literal["neutral", "failure"]


# `[gate]`: which changes matter, and the limits of a gate.


def _all_compile(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return patterns


class GateTable(GeneralLimits):
    """Defaults of every `[[rule]]`, and the limits of a gate."""

    runs: int = Field(default=12, ge=2, le=24, description="runs of each commit at most, from 2 to 24")
    budget_minutes: float = Field(default=30.0, gt=0, description="minutes, such as 30")
    family_error: float = Field(
        default=FAMILY_ERROR,
        gt=0,
        le=0.05,
        description="family-wise error rate: the probability of any false alarm of a pull request, up to 0.05",
    )
    inconclusive: Inconclusive = Field(
        default="neutral",
        description='"neutral" or "failure": the conclusion of an inconclusive check',
    )
    bench: Annotated[Words, AfterValidator(_all_compile)] = Field(
        default=(), description='regular expressions as asv\'s --bench takes them, such as ["rope", "attention"]'
    )


# `[confirm]`: what a runner measures again.


class ConfirmTable(Table):
    """The limit of `warpwatch runner measure --confirm`."""

    minutes_per_day: float = Field(
        default=120.0,
        ge=0,
        le=24 * 60,
        description="minutes of each GPU's day that confirmations may take, such as 120",
    )


# `[alerts]`: alerts of the main branch and their destinations. Secrets are in the environment; the file names them.

_GLOBS = 'a glob or several, such as "rope*" or ["rope", "*attention*"]'
KINDS = (*AlertKind, "digest")
MOST_DAYS = 36_500  # earlier dates overflow datetime
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


def _kinds(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if word not in KINDS:
            raise ValueError(f"{word!r} is not one of {', '.join(KINDS)}")
    return words


def _is_repository(name: str) -> str:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ValueError("not OWNER/NAME")
    return name


def _is_utc(moment: time) -> time:
    if moment.tzinfo is not None:
        raise ValueError("it has a time zone; times are in UTC")
    return moment


class Destination(Table):
    """A destination of messages: an address in an environment variable, or issues of a GitHub repository."""

    name: str = Field(pattern=r"^[\w-]+$", description='a unique name, such as "kernels-chat"')
    url_env: str | None = Field(
        default=None,
        pattern=_VARIABLE,
        description="the name of the environment variable with the address (https://…, slack://…, mailtos://…)",
    )
    github: Annotated[str, AfterValidator(_is_repository)] | None = Field(
        default=None, description='a repository such as "org/kernels", in which each alert is an issue'
    )
    token_env: str = Field(
        default="GITHUB_TOKEN", pattern=_VARIABLE, description="the name of the environment variable with the token"
    )
    labels: Words = Field(default=("warpwatch",), min_length=1, description='labels such as ["warpwatch", "perf"]')
    api: str = Field(
        default="https://api.github.com", pattern=r"^https?://", description="the API's address (GitHub Enterprise)"
    )

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.url_env is None) == (self.github is None):
            raise ValueError("expected either url_env or github")
        return self


class Route(Table):
    """Sends alerts that match every given key to these destinations; one of several globs suffices."""

    kernel: Words = Field(default=(), description=f"{_GLOBS}: the operator, or the benchmark's module if it is unknown")
    machine: Words = Field(default=(), description=_GLOBS)
    owner: Words = Field(default=(), description='globs of CODEOWNERS\' names, such as "@org/attention"')
    kind: Annotated[Words, AfterValidator(_kinds)] = Field(default=(), description=f"some of {', '.join(KINDS)}")
    to: Words = Field(min_length=1, description="names of destinations")


class AlertsTable(Table):
    """Which findings are alerts, and where messages go."""

    threshold: float = Field(
        default=0.0, ge=0, lt=1, description="the smallest change that is an alert, without the machine's part, a share"
    )
    max_false_discovery_rate: float = Field(
        default=SIGNIFICANT_Q, gt=0, le=1, description="a false discovery rate such as 0.05"
    )
    recent_days: float = Field(
        default=30.0, ge=0, le=MOST_DAYS, description="days, 36500 at most; older commits open no alerts"
    )
    recovered_within: float = Field(
        default=0.02, gt=0, lt=1, description="a share: distance from the former level at which a series has recovered"
    )
    dashboard: str | None = Field(default=None, pattern=r"^https?://", description="the dashboard's address, for links")
    missing_days: float | None = Field(
        default=None,
        gt=0,
        le=MOST_DAYS,
        description="days without results; default: three of the machine's usual pauses, and two days",
    )
    missing_commits: int = Field(default=20, ge=1, description="commits on main without results")
    retired: Words = Field(default=(), description=f"{_GLOBS}: machines without further results")
    invalid_share: float = Field(default=0.05, gt=0, le=1, description="the largest accepted share of invalid values")
    throttled_share: float = Field(
        default=0.2, gt=0, le=1, description="the largest accepted share of throttled measurements of a run"
    )
    false_alarms: float = Field(
        default=0.01, gt=0, le=1, description="the largest accepted share of false alarms of equal code"
    )
    codeowners: str | None = Field(
        default=None, description="the path of CODEOWNERS; default: where GitHub and GitLab look for it"
    )
    sources: dict[str, Words] = Field(
        default_factory=dict,
        description='kernel globs with the paths of their sources, such as "rope*" = ["kernels/csrc/rope/"]',
    )
    digest: Literal["none", "daily", "weekly"] = Field(default="none", description='"daily", "weekly" or "none"')
    digest_at: Annotated[time, AfterValidator(_is_utc)] = Field(
        default=time(7), strict=False, description='a time of day (UTC) such as "07:00"'
    )
    give_up_days: float = Field(default=7.0, gt=0, description="days until a message is abandoned")
    to: Words = Field(default=(), description="names of destinations of alerts that no route matches")
    destination: TupleOf[Destination] = Field(default=(), description="[[alerts.destination]] tables")
    route: TupleOf[Route] = Field(default=(), description="[[alerts.route]] tables")

    @model_validator(mode="after")
    def _all_are_known(self) -> Self:
        names = [destination.name for destination in self.destination]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"several [[alerts.destination]] have the name {min(twice)!r}")
        for name in (*self.to, *(name for route in self.route for name in route.to)):
            if name not in names:
                known = ", ".join(names) or "none"
                raise ValueError(f"no [[alerts.destination]] has the name {name!r}; there are: {known}")
        return self


class Policy(Table):
    """All tables of warpwatch.toml; without a file each has its defaults."""

    gate: GateTable = Field(default_factory=GateTable)
    rule: TupleOf[LimitRule] = Field(default=(), description="[[rule]] tables")
    alerts: AlertsTable = Field(default_factory=AlertsTable)
    confirm: ConfirmTable = Field(default_factory=ConfirmTable)

    @property
    def limits(self) -> LimitRules:
        """The rules on which changes matter."""
        gate = self.gate
        return LimitRules(threshold=gate.threshold, floor=gate.floor, blocks=gate.blocks, rules=self.rule)
