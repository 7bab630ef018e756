"""A gate as JUnit XML: a suite per machine, a case per series.

Failures: blocking rows. Errors: no valid value at head. Skipped: inconclusive (a failure if the policy says so) or
nothing to compare. An accepted or non-blocking regression passes, with a note in its output. Schema: junit-10.xsd of
Jenkins' xUnit plugin, which GitLab reads too.
"""

from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.text.comparison_labels import change_with_interval, levels, remark

from ..gate.artefact import ArtefactRow, GateArtefact
from ..policy.policy_model import Inconclusive
from . import gate_labels

_RESULTS = ("failure", "error", "skipped")


def junit(artefacts: Sequence[GateArtefact]) -> str:
    """The XML."""
    report = Element("testsuites", name="warpwatch gate")
    for artefact in artefacts:
        report.append(_suite(artefact))
    for count in ("tests", "failures", "errors"):
        report.set(count, str(sum(int(suite.get(count, "0")) for suite in report)))
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(report, encoding="unicode") + "\n"


def _suite(artefact: GateArtefact) -> Element:
    location = gate_labels.location(artefact) or "no machine"
    suite = Element("testsuite", name=f"warpwatch gate of {artefact.project} on {location}")
    properties = SubElement(suite, "properties")
    for name, value in (
        ("base", artefact.base.hash),
        ("head", artefact.head.hash),
        ("outcome", artefact.outcome.value),
        ("threshold", f"{artefact.threshold:g}"),
    ):
        SubElement(properties, "property", name=name, value=value)
    if artefact.fault is not None:
        policy = SubElement(suite, "testcase", classname="warpwatch", name="policy")
        SubElement(policy, "failure", type="policy", message=artefact.fault)
    suite.extend(_case(row, artefact.inconclusive) for row in artefact.rows)
    failures, errors, skipped = (len(suite.findall(f"testcase/{name}")) for name in _RESULTS)
    suite.attrib |= {
        "tests": str(len(suite.findall("testcase"))),
        "failures": str(failures),
        "errors": str(errors),
        "skipped": str(skipped),
        "time": f"{60 * artefact.cost.minutes:.3f}",  # of all cases, which are measured together
    }
    return suite


def _case(row: ArtefactRow, inconclusive: Inconclusive) -> Element:
    values = ", ".join(row.series.parameters.values())
    name = f"{row.series.metric}({values})" if values else row.series.metric
    case = Element("testcase", classname=row.series.benchmark, name=name)
    parts = (levels(row), change_with_interval(row) if row.estimate is not None else "", remark(row))
    text = ", ".join(part for part in parts if part)
    result = _result(row, inconclusive)
    if result is not None:
        SubElement(case, result, type=row.verdict.value, message=text)
    else:
        SubElement(case, "system-out").text = f"{row.verdict.value}: {text}"
    return case


def _result(row: ArtefactRow, inconclusive: Inconclusive) -> str | None:
    if row.fails and row.accepted is None:
        return "error"
    if row.is_blocking or (row.decides and row.verdict is Verdict.INCONCLUSIVE and inconclusive == "failure"):
        return "failure"
    if row.accepted is not None:
        return None
    return "skipped" if row.verdict in {Verdict.INCONCLUSIVE, Verdict.MISSING} else None
