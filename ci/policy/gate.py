"""`[gate]`: what a change has to be to count, and what the gate may spend on telling it."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from warpwatch.ci.policy.floor import WANTED, FloorValue
from warpwatch.ci.policy.table import Table
from warpwatch.ci.policy.words import Words
from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR


def _all_compile(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return patterns


class GateTable(Table):
    """Of all series, where no `[[rule]]` says otherwise."""

    threshold: float | None = Field(
        default=None, gt=0, lt=1, description="the smallest relative change that matters, a share such as 0.02"
    )
    floor: FloorValue | None = Field(default=None, description=WANTED)
    blocks: bool = Field(
        default=True, description="true or false: whether a regression fails the check, or is only told"
    )
    runs: int = Field(default=12, ge=2, le=24, description="runs of each commit at most, from 2 to 24")
    budget_minutes: float = Field(default=30.0, gt=0, description="minutes, such as 30")
    family_error: float = Field(
        default=FAMILY_ERROR, gt=0, le=0.05,
        description="the chance that any unchanged series of a pull request is called changed, up to 0.05",
    )  # fmt: skip
    bench: Annotated[Words, AfterValidator(_all_compile)] = Field(
        default=(), description='regular expressions as asv\'s --bench takes them, such as ["rope", "attention"]'
    )
