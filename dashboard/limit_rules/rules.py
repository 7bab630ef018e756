"""All that a project states of what counts: what holds for every series, and the rules for some."""

from pydantic import Field

from warpwatch.dashboard.limit_rules.floor import WANTED, FloorValue
from warpwatch.dashboard.limit_rules.rule import LimitRule
from warpwatch.dashboard.limit_rules.table import Table
from warpwatch.dashboard.limit_rules.words import Listed


class GeneralLimits(Table):
    """Of all series, where no rule says otherwise."""

    threshold: float | None = Field(
        default=None, gt=0, lt=1, description="the smallest relative change that matters, a share such as 0.02"
    )
    floor: FloorValue | None = Field(default=None, description=WANTED)
    blocks: bool = Field(
        default=True, description="true or false: whether a regression fails the check, or is only told"
    )


class LimitRules(GeneralLimits):
    """By these each series is resolved when it is judged, so that benchmarks of tomorrow get theirs as well."""

    rules: Listed[LimitRule] = Field(default=(), description="a list of rules, of which the last that matches counts")
