"""Artefacts that a stranger filled as badly as the schema lets them."""

from typing import Any

from hypothesis import strategies as st

from tests.ci.reports.examples import BASE, HEAD
from warpwatch.ci.gate.artefact import (
    Acceptance,
    ArtefactCommit,
    ArtefactRow,
    Canary,
    Change,
    CodeDifference,
    CodeFact,
    Cost,
    GateArtefact,
    MachineDrift,
    Parameter,
    Source,
    plain,
    verdict_of,
)
from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.noise import NoiseSource

EVIL = (
    "@evil",
    "evil.example",
    "https://evil.example/",
    "www.evil.example",
    "evil@evil.example",
    "[a](https://evil.example)",
    "<img src=x onerror=evil()>",
    "<script>evil()</script>",
    "</details>",
    "</summary>",
    "<!-- warpwatch:gate -->",
    "-->",
    "`",
    "``",
    "```",
    "|",
    "\\|",
    "\\",
    "\\`",
    "#1",
    "GH-1",
    "evil/evil#1",
    "$(evil)",
    "`evil`",
    "'; evil; '",
    "/close",
    "{0}",
    "![a](https://evil.example/a.png)",
    "&lt;evil&gt;",
    "]]>",
    "<a href='javascript:evil()'>",
    "**",
    "__",
    "~~",
    "$$",
    ":evil:",
    "[[evil]]",
    "^",
    "%0A::error::evil",
    "| --- |",
    "> ",
    "- [ ] ",
)
_PIECES = st.one_of(st.sampled_from(EVIL), st.text(max_size=5))


def _text(most: int) -> st.SearchStrategy[str]:
    """As bad as a schema's text can be: what it does not take at all is made such as its writer does."""
    return st.lists(_PIECES, min_size=1, max_size=4).map(lambda pieces: plain("".join(pieces), most) or "-")


_NAMES, _WORDS = _text(200), _text(1000)
_NUMBERS = st.floats(-1e30, 1e30)
_SHARES = st.floats(0, 1)
_COUNTS = st.integers(0, 1_000_000_000)
_ENDS = st.sampled_from(["told", "budget", "runs", "hopeless"])
_CHANGES = st.builds(
    Change,
    value=_NUMBERS,
    low=_NUMBERS,
    high=_NUMBERS,
    p_value=_SHARES,
    noise=st.floats(0, 1e30),
    noise_source=st.sampled_from(NoiseSource),
    base_runs=_COUNTS,
    head_runs=_COUNTS,
)
_FACTS = st.lists(
    st.builds(CodeFact, name=_NAMES, unit=st.sampled_from(["", "bytes", "share"]), before=_NUMBERS, after=_NUMBERS),
    max_size=2,
).map(tuple)


_MAY_BE_ACCEPTED = {Verdict.REGRESSED, Verdict.INCONCLUSIVE}


@st.composite
def _row(draw: st.DrawFn, number: int) -> ArtefactRow:
    verdict = draw(st.sampled_from(Verdict))
    accepted = st.none() | st.builds(Acceptance, by=_NAMES, reason=_WORDS, source=_NAMES)
    return ArtefactRow(
        key=f"{number:016x}",
        benchmark=draw(_NAMES),
        metric=draw(_NAMES),
        unit=draw(_text(40)),
        parameters=tuple(draw(st.lists(st.builds(Parameter, name=_NAMES, value=_WORDS), max_size=2))),
        better=draw(st.sampled_from(Better)),
        environment=draw(_WORDS),
        operator=draw(st.none() | _NAMES),
        implementation=draw(st.none() | _NAMES),
        measured_by_asv=draw(st.booleans()),
        source=draw(st.none() | st.builds(Source, path=st.just("suite/rope.py"), line=st.integers(1, 9))),
        verdict=verdict,
        reason=draw(st.none() | _WORDS),
        base=draw(st.none() | _NUMBERS),
        head=draw(st.none() | _NUMBERS),
        change=draw(st.none() | _CHANGES),
        control_change=draw(st.none() | _NUMBERS),
        runs_needed=draw(_COUNTS),
        blocks=draw(st.booleans()),
        counts_from=draw(st.none() | st.floats(0, 1e30)),
        accepted=draw(accepted) if verdict in _MAY_BE_ACCEPTED else None,
    )


@st.composite
def artefacts(draw: st.DrawFn) -> GateArtefact:
    """Any artefact that readers take."""
    rows = tuple(draw(_row(number)) for number in range(draw(st.integers(0, 4))))
    canaries = st.lists(st.builds(Canary, workload=_NAMES, change=_NUMBERS), max_size=2).map(tuple)
    drifts = st.builds(MachineDrift, change=_NUMBERS, controls=_COUNTS, canaries=canaries)
    operator = rows[0].operator if rows else None
    codes = st.builds(
        CodeDifference,
        operator=_NAMES if operator is None else st.just(operator),
        implementation=st.none() | _NAMES,
        kernel=_WORDS,
        architecture=_NAMES,
        state=st.sampled_from(["changed", "new", "gone"]),
        facts=_FACTS,
        instructions=_FACTS,
    )
    told: dict[str, Any] = {
        "project": draw(_NAMES),
        "base": ArtefactCommit(hash=BASE, subject=draw(st.none() | _NAMES)),
        "head": ArtefactCommit(hash=HEAD, subject=draw(st.none() | _NAMES)),
        "machine": draw(st.none() | _NAMES),
        "gpu": draw(st.none() | _NAMES),
        "verdict": verdict_of(rows),
        "threshold": draw(_SHARES),
        "family_error": draw(_SHARES),
        "rows": rows,
        "rows_left_out": draw(_COUNTS),
        "drift": draw(st.none() | drifts),
        "code": tuple(draw(st.lists(codes, max_size=2))),
        "notes": tuple(draw(st.lists(_WORDS, max_size=2))),
        "fault": draw(st.none() | _NAMES),
        "inconclusive": draw(st.sampled_from(["neutral", "failure"])),
        "code_left_out": draw(_COUNTS),
        "cost": Cost(runs=draw(_COUNTS), minutes=draw(st.floats(0, 1e6)), ended=draw(_ENDS)),
    }
    return GateArtefact(**told)
