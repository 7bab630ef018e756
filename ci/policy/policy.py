"""All of warpwatch.toml, table by table."""

from pydantic import Field

from warpwatch.ci.policy.alerts import AlertsTable
from warpwatch.ci.policy.gate import GateTable
from warpwatch.ci.policy.rule import Rule
from warpwatch.ci.policy.table import Table
from warpwatch.ci.policy.words import Listed


class Policy(Table):
    """What a repository wants; without a file every table has its defaults. A further table is one line here."""

    gate: GateTable = Field(default_factory=GateTable)
    rule: Listed[Rule] = Field(default=(), description="[[rule]] tables")
    alerts: AlertsTable = Field(default_factory=AlertsTable)
