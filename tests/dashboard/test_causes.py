"""Causes of a change: which evidence is named, in which order, and the sentence on machine or code."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from warpwatch.dashboard.analysis.causes import cause_sentence, lead_over_baseline, likely_causes
from warpwatch.dashboard.model.changepoint import ControlShare, SeriesChange
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Commit, Origin, Series
from warpwatch.dashboard.model.verdict import ChangeKind, Control
from warpwatch.dashboard.store.queries.change_evidence import ChangeEvidence, ReferenceValues
from warpwatch.dashboard.text.change_words import certainty, direction, later_sentence, levels

LATENCY = metric("latency", "seconds")
MEMORY = metric("peak_memory", "bytes")


def _commit(position: int) -> Commit:
    return Commit(
        hash=f"{position:040x}",
        date=datetime(2026, 1, 1 + position, tzinfo=UTC),
        subject=None,
        author=None,
        position=position,
        unmeasured_before=0,
    )


def _change(before: float, after: float, **more: Any) -> SeriesChange:
    magnitude = after / before - 1
    common: dict[str, Any] = {
        "index": 1,
        "commit": _commit(1),
        "previous_commit": _commit(0),
        "range_start": _commit(0),
        "range_end": _commit(1),
        "before": before,
        "after": after,
        "magnitude": magnitude,
        "ci_low": magnitude,
        "ci_high": magnitude,
        "p_value": 0.001,
        "is_worse": magnitude > 0,
        "q_value": 0.0001,
    }
    return SeriesChange(**{**common, **more})


def _origin(driver: str = "580", **measuring: Any) -> Origin:
    return Origin(
        run="r", started_at=None, gpu={"driver": driver}, cpu={}, software={"torch": "2.11"}, measuring=measuring
    )


def _series(implementation: str, *, is_baseline: bool = False) -> Series:
    return Series(
        key="0" * 16,
        project="p",
        benchmark="b.S.track_latency",
        parameters=(),
        metric=LATENCY,
        machine="m",
        environment="e",
        workload="w",
        implementation=implementation,
        is_baseline=is_baseline,
        listed=True,
    )


def _evidence(before: Origin | None, after: Origin | None, *, baseline: tuple[float, float] | None = None) -> Any:
    theirs = () if baseline is None else (_values("sdpa", *baseline, is_baseline=True),)
    return ChangeEvidence(
        own=_values("warpwatch", 100e-6, 60e-6),
        origin_before=before,
        origin_after=after,
        suite_before="a",
        suite_after="a",
        compiled_before=(),
        compiled_after=(),
        baselines=theirs,
        canaries=(),
    )


def _values(implementation: str, before: float, after: float, *, is_baseline: bool = False) -> ReferenceValues:
    return ReferenceValues(series=_series(implementation, is_baseline=is_baseline), before=before, after=after)


def _texts(change: SeriesChange, evidence: ChangeEvidence) -> list[str]:
    return [cause.text for cause in likely_causes(change, LATENCY, evidence, {"sdpa": "SDPA"}.__getitem__)]


def test_another_kernel_is_named_first_and_an_unmoved_baseline_last() -> None:
    before = _origin(launched={"attention_sm80": 1}, sm_cycles=200_000, code_sha256="a", sm_clock_hz=[1.78e9])
    after = _origin(launched={"attention_sm90a": 1}, sm_cycles=120_000, code_sha256="b", sm_clock_hz=[1.80e9])
    assert _texts(_change(100e-6, 60e-6), _evidence(before, after, baseline=(80e-6, 80.1e-6))) == [
        "different kernel launched: attention_sm80 → attention_sm90a",
        "SM cycles −40.0 %",
        "machine code changed",
        "SDPA on the same GPUs +0.1 %",
    ]


def test_a_lower_clock_and_a_baseline_that_slowed_as_much_come_before_other_code() -> None:
    before, after = (_origin(sm_clock_hz=[clock], code_sha256=code) for clock, code in ((1.8e9, "a"), (1.6e9, "b")))
    texts = _texts(_change(100e-6, 112.5e-6), _evidence(before, after, baseline=(80e-6, 90e-6)))
    assert set(texts[:2]) == {"SM clock 1.80 GHz → 1.60 GHz", "SDPA on the same GPUs +12.5 %"}
    assert texts[2:] == ["machine code changed"]


def test_driver_and_harness_are_named_with_both_versions_and_equal_code_as_evidence_against_code() -> None:
    before = _origin(driver="570", timer="nvbench 0.2", code_sha256="a")
    after = _origin(driver="580", timer="nvbench 0.3", code_sha256="a")
    texts = _texts(_change(100e-6, 110e-6), _evidence(before, after))
    assert set(texts[:2]) == {"driver 570 → 580", "measured differently: timer nvbench 0.2 → nvbench 0.3"}
    assert texts[2:] == ["machine code identical at both commits"]


def test_files_of_the_suite_are_a_cause_only_if_no_baseline_stood_still() -> None:
    changed = replace(_evidence(_origin(), _origin()), suite_after="b")
    still = replace(_evidence(_origin(), _origin(), baseline=(80e-6, 80e-6)), suite_after="b")
    assert _texts(_change(100e-6, 110e-6), changed) == ["files of the benchmark suite changed"]
    assert _texts(_change(100e-6, 110e-6), still) == ["SDPA on the same GPUs 0.0 %"]


def test_clock_and_cycles_explain_no_bytes() -> None:
    before, after = (_origin(sm_clock_hz=[clock], sm_cycles=clock) for clock in (1.8e9, 1.2e9))
    assert likely_causes(_change(1e6, 2e6), MEMORY, _evidence(before, after)) == ()


def test_without_context_files_nothing_is_claimed() -> None:
    assert _texts(_change(100e-6, 60e-6), _evidence(None, None)) == []


def test_the_lead_over_the_fastest_baseline_is_known_before_and_after() -> None:
    lead = lead_over_baseline(_evidence(None, None, baseline=(80e-6, 81e-6)))
    assert lead is not None
    assert (lead.before, lead.now) == (pytest.approx(0.8), pytest.approx(1.35))
    assert lead_over_baseline(_evidence(None, None)) is None


def _share(low: float, high: float, control: Control = Control.OTHERS) -> ControlShare:
    return ControlShare(control=control, value=(low + high) / 2, ci_low=low, ci_high=high)


@pytest.mark.parametrize(
    ("share", "sentence"),
    [
        (_share(-0.1, 0.1), "Other benchmarks on this machine did not change, so the code is the likely cause."),
        (_share(-0.6, -0.1), "Other benchmarks on this machine changed in the opposite direction, so the machine is"),
        (_share(-0.5, 1.9), "Unclear: other benchmarks on this machine may have moved too; the whole change may be"),
        (_share(-0.1, 0.6), "Unclear: other benchmarks on this machine may have moved too; up to 60 % of the change"),
        (_share(0.7, 0.9, Control.CANARIES), "The canaries on this machine moved too: about 80 % of the change is the"),
        (_share(0.1, 0.3, Control.BASELINES), "The baselines on this machine moved too, but by less: about 20 %"),
        (_share(0.3, 0.9), "Unclear: other benchmarks on this machine moved too; about 60 % of the change is"),
        (None, "No reference benchmark ran, so machine and code cannot be distinguished."),
    ],
)
def test_the_cause_is_one_plain_sentence(share: ControlShare | None, sentence: str) -> None:
    assert cause_sentence(_change(1.0, 1.1, share=share), LATENCY).startswith(sentence)


def test_exact_values_confirmed_steps_and_adjusted_values_need_no_control() -> None:
    assert cause_sentence(_change(1e6, 2e6), MEMORY) == "Exact value: the code caused it."
    assert "measured again in turns" in cause_sentence(_change(1.0, 1.1, is_confirmed=True), LATENCY)
    assert "difference between GPUs" in cause_sentence(_change(1.0, 1.1, gpus=2, is_across_gpus=True), LATENCY)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "significant (false-discovery rate below 0.1 %)"),
        ({"q_value": 0.04}, "significant (false-discovery rate 4 %)"),
        (
            {"is_across_gpus": True, "gpus": 4},
            "significant (false-discovery rate below 0.1 %); seen across GPUs, held on 4",
        ),
        ({"is_confirmed": True}, "confirmed by further runs of both commits in turns"),
        (
            {"kind": ChangeKind.NOT_SIGNIFICANT, "q_value": 0.542},
            "not confirmed: false-discovery rate 54 %, too weak to report",
        ),
        ({"kind": ChangeKind.MACHINE_STATE}, "caused by the machine, not by a commit"),
        ({"kind": ChangeKind.UNJUDGED}, "not yet classified"),
        ({"q_value": None}, "not yet classified"),
    ],
)
def test_certainty_is_stated_in_words(more: dict[str, Any], words: str) -> None:
    assert certainty(_change(1.0, 1.1, **more), LATENCY) == words


def test_direction_and_levels_are_those_of_the_metric() -> None:
    faster = _change(114e-6, 69.4e-6)
    assert (direction(faster, LATENCY), levels(faster, LATENCY)) == ("Faster", "114 µs → 69.4 µs, −39.1 %")
    assert direction(_change(1e6, 2e6), MEMORY) == "Larger"
    assert direction(faster, LATENCY, is_ours=False) == "Changed"
    assert later_sentence(_change(1.0, 1.02, kind=ChangeKind.NOT_SIGNIFICANT, q_value=0.3), LATENCY) == (
        "Since then +2.0 % at 00000000; not confirmed: false-discovery rate 30 %, too weak to report."
    )
