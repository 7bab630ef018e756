"""What a project states of the changes that count, and where: which file, as which commit has it."""

from typing import Annotated

from pydantic import AwareDatetime, Field, field_validator

from warpwatch.dashboard.limit_rules.rule import LimitRule
from warpwatch.dashboard.limit_rules.rules import LimitRules
from warpwatch.dashboard.limit_rules.words import Word
from warpwatch.dashboard.store.incoming import LONGEST_NAME


class StatedLimits(LimitRules):
    """The rules, and where they stand."""

    source: Annotated[Word, Field(max_length=LONGEST_NAME // 4)] = Field(
        description="the path of the file, such as warpwatch.toml"
    )
    commit: Annotated[str, Field(pattern="^([0-9a-f]{40}|[0-9a-f]{64})$")] | None = Field(
        default=None, description="the full hash of the commit that changed the file last; null: no repository has it"
    )
    committed: AwareDatetime = Field(description="when that was, or when the file was written")

    @field_validator("rules")
    @classmethod
    def _without_owners(cls, rules: tuple[LimitRule, ...]) -> tuple[LimitRule, ...]:
        """Whom rules name is no page's business, and may be addresses of people."""
        judging = (rule for rule in rules if rule.stated.keys() - {"owners"})
        return tuple(rule.model_copy(update={"owners": None}) for rule in judging)

    @property
    def name(self) -> str:
        """As pages and messages call it: "warpwatch.toml of 1234abcd"."""
        return f"{self.source} of {self.commit[:8]}" if self.commit else self.source
