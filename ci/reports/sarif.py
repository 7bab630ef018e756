"""A gate as SARIF 2.1.0 (OASIS), for what collects findings: code scanning pages, editors.

A result stands at the line that defines its benchmark; the machine code that is slow has no line. What was accepted is
there too, suppressed with its reason.
"""

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from warpwatch.ci.gate.artefact import ArtefactRow, GateArtefact
from warpwatch.ci.reports import words
from warpwatch.ci.reports.links import Links
from warpwatch.dashboard.verdict import Verdict

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RULES = {
    Verdict.REGRESSED: ("performance-regression", "A series got worse by more than its noise and by enough to matter."),
    Verdict.INVALID: ("no-valid-number", "Measured at base; at head wrong, failed, throttled or gone."),
}
_ELSEWHERE = ("asv.conf.json", 1)  # where no file of the benchmark is known; code scanning wants a place


def sarif(artefacts: Sequence[GateArtefact], links: Links) -> str:
    """The JSON: a run a machine."""
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [_run(artefact, links) for artefact in artefacts]}
    return json.dumps(log, ensure_ascii=False, indent=1)


def _run(artefact: GateArtefact, links: Links) -> dict[str, Any]:
    rules = [
        {"id": name, "shortDescription": {"text": meaning}, "defaultConfiguration": {"level": "error"}}
        for name, meaning in _RULES.values()
    ]
    return {
        "tool": {"driver": {"name": "warpwatch", "semanticVersion": version("warpwatch"), "rules": rules}},
        "automationDetails": {"id": f"warpwatch/{artefact.project}/{artefact.machine or 'none'}/"},
        "columnKind": "unicodeCodePoints",
        "results": [_result(artefact, row, links) for row in artefact.rows if _rule_of(row) in _RULES],
        "properties": {
            "base": artefact.base.hash, "head": artefact.head.hash, "verdict": artefact.verdict.value,
            "gpu": artefact.gpu,
        },
    }  # fmt: skip


def _result(artefact: GateArtefact, row: ArtefactRow, links: Links) -> dict[str, Any]:
    path, line = (row.source.path, row.source.line) if row.source is not None else _ELSEWHERE
    said = [f"{words.name(row)}: {words.levels(row)}", words.moved(row) if row.change else "", words.remark(row)]
    result: dict[str, Any] = {
        "ruleId": _RULES[_rule_of(row)][0],
        "ruleIndex": list(_RULES).index(_rule_of(row)),
        "level": "error" if row.is_blocking else "warning",
        "message": {"text": _literal(", ".join(part for part in said if part))},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": path}, "region": {"startLine": line}}}],
        "partialFingerprints": {"warpwatchSeries/v1": row.key},
        "suppressions": [],
    }
    if row.accepted is not None:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": words.remark(row)}]
    if (address := links.series(artefact, row)) is not None:
        result["hostedViewerUri"] = address
    return result


def _rule_of(row: ArtefactRow) -> Verdict:
    return Verdict.INVALID if row.fails else row.verdict


def _literal(text: str) -> str:
    """SARIF's plain text has links in brackets (3.11.6); these are none."""
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
