"""Artefacts that a stranger filled as badly as the schema lets them."""

from datetime import UTC
from typing import Any

from hypothesis import strategies as st

from tests.ci.reports.examples import BASE, HEAD
from warpwatch.ci.gate.artefact import (
    ArtefactAcceptance,
    ArtefactCanary,
    ArtefactCommit,
    ArtefactDrift,
    ArtefactEstimate,
    ArtefactRow,
    ArtefactSeries,
    CodeDifference,
    CodeFact,
    Cost,
    GateArtefact,
    Source,
    plain,
)
from warpwatch.ci.gate.gate_loop import StopReason
from warpwatch.dashboard.model.comparison import outcome_of
from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.result_file import storable_name
from warpwatch.dashboard.model.verdict import NoiseSource, Verdict

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


def _is_acceptable(text: str) -> bool:
    return bool(text.strip()) and storable_name(text)


_NAMES, _WORDS = _text(200), _text(1000)
_NUMBERS = st.floats(-1e30, 1e30)
_SHARES = st.floats(0, 1)
_COUNTS = st.integers(0, 1_000_000_000)
_REASONS = st.sampled_from(StopReason)
_ESTIMATES = st.builds(
    ArtefactEstimate,
    change=_NUMBERS,
    ci_low=_NUMBERS,
    ci_high=_NUMBERS,
    p_value=_SHARES,
    noise=st.floats(0, 1e30),
    noise_source=st.sampled_from(NoiseSource),
    degrees_of_freedom=st.none() | _COUNTS,
    base_runs=_COUNTS,
    head_runs=_COUNTS,
    runs_needed=_COUNTS,
    equivalence_bound=st.none() | st.floats(0, 1e30),
)
_ACCEPTED = st.builds(
    ArtefactAcceptance,
    pattern=_WORDS.filter(_is_acceptable),
    reason=_WORDS.filter(_is_acceptable),
    by=_NAMES.filter(_is_acceptable),
    at=st.datetimes(timezones=st.just(UTC)),
    source=_NAMES.filter(_is_acceptable),
    at_most=st.none() | st.floats(0, 1e30),
)
_FACTS = st.lists(
    st.builds(CodeFact, name=_NAMES, unit=st.sampled_from(["", "bytes", "share"]), before=_NUMBERS, after=_NUMBERS),
    max_size=2,
).map(tuple)


@st.composite
def _series(draw: st.DrawFn, number: int) -> ArtefactSeries:
    return ArtefactSeries(
        key=f"{number:016x}",
        benchmark=draw(_NAMES),
        parameters=draw(st.dictionaries(_NAMES, _WORDS, max_size=2)),
        workload=draw(st.none() | _WORDS),
        implementation=draw(st.none() | _NAMES),
        metric=draw(_NAMES),
        unit=draw(_text(40)),
        better=draw(st.sampled_from(Better)),
        machine=draw(_NAMES),
        environment=draw(_WORDS),
        measured_by_asv=draw(st.booleans()),
    )


@st.composite
def _row(draw: st.DrawFn, number: int) -> ArtefactRow:
    verdict = draw(st.sampled_from(Verdict))
    fails = verdict is Verdict.INVALID or (verdict is Verdict.MISSING and draw(st.booleans()))
    may_be_accepted = verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE} or (verdict is Verdict.MISSING and fails)
    return ArtefactRow(
        series=draw(_series(number)),
        kernel=draw(_NAMES),
        dtype=draw(st.none() | _NAMES),
        source=draw(st.none() | st.builds(Source, path=st.just("suite/rope.py"), line=st.integers(1, 9))),
        verdict=verdict,
        reason=draw(st.none() | _WORDS),
        fails=fails,
        base=draw(st.none() | _NUMBERS),
        head=None if fails else draw(st.none() | _NUMBERS),
        estimate=draw(st.none() | _ESTIMATES),
        control_change=draw(st.none() | _NUMBERS),
        blocks=draw(st.booleans()),
        min_relative_change=draw(st.none() | st.floats(0, 1e30)),
        accepted=draw(st.none() | _ACCEPTED) if may_be_accepted else None,
    )


@st.composite
def artefacts(draw: st.DrawFn) -> GateArtefact:
    """Any artefact that readers take."""
    rows = tuple(draw(_row(number)) for number in range(draw(st.integers(0, 4))))
    canaries = st.lists(st.builds(ArtefactCanary, workload=_NAMES, change=_NUMBERS), max_size=2).map(tuple)
    drifts = st.builds(ArtefactDrift, machine=_NAMES, change=_NUMBERS, controls=_COUNTS, canaries=canaries)
    operator = rows[0].kernel if rows else None
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
    fields: dict[str, Any] = {
        "project": draw(_NAMES),
        "base": ArtefactCommit(hash=BASE, subject=draw(st.none() | _NAMES)),
        "head": ArtefactCommit(hash=HEAD, subject=draw(st.none() | _NAMES)),
        "machine": draw(st.none() | _NAMES),
        "gpu": draw(st.none() | _NAMES),
        "outcome": outcome_of(rows),
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
        "cost": Cost(runs=draw(_COUNTS), minutes=draw(st.floats(0, 1e6)), stopped=draw(_REASONS)),
    }
    return GateArtefact(**fields)
