"""All of warpwatch.toml, table by table."""

from pydantic import Field

from warpwatch.ci.policy.alerts import AlertsTable
from warpwatch.ci.policy.gate import GateTable
from warpwatch.dashboard.limit_rules.rule import LimitRule
from warpwatch.dashboard.limit_rules.rules import LimitRules
from warpwatch.dashboard.limit_rules.table import Table
from warpwatch.dashboard.limit_rules.words import Listed


class Policy(Table):
    """What a repository wants; without a file every table has its defaults. A further table is one line here."""

    gate: GateTable = Field(default_factory=GateTable)
    rule: Listed[LimitRule] = Field(default=(), description="[[rule]] tables")
    alerts: AlertsTable = Field(default_factory=AlertsTable)

    @property
    def limits(self) -> LimitRules:
        """What of it says which changes count."""
        gate = self.gate
        return LimitRules(threshold=gate.threshold, floor=gate.floor, blocks=gate.blocks, rules=self.rule)
