"""`[gate]`: what a change has to be to count, and what the gate may spend on telling it."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from warpwatch.ci.gate.artefact import Inconclusive
from warpwatch.dashboard.limit_rules.rules import GeneralLimits
from warpwatch.dashboard.limit_rules.words import Words
from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR


def _all_compile(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return patterns


class GateTable(GeneralLimits):
    """What counts where no `[[rule]]` says otherwise, and what a gate may spend."""

    runs: int = Field(default=12, ge=2, le=24, description="runs of each commit at most, from 2 to 24")
    budget_minutes: float = Field(default=30.0, gt=0, description="minutes, such as 30")
    family_error: float = Field(
        default=FAMILY_ERROR, gt=0, le=0.05,
        description="the chance that any unchanged series of a pull request is called changed, up to 0.05",
    )  # fmt: skip
    inconclusive: Inconclusive = Field(
        default="neutral",
        description='"neutral" or "failure": what the check of a pull request is that could not be told',
    )
    bench: Annotated[Words, AfterValidator(_all_compile)] = Field(
        default=(), description='regular expressions as asv\'s --bench takes them, such as ["rope", "attention"]'
    )
