"""What people see of a gate: the verdict first, what moved, nothing that a stranger could slip in, never too long."""

import re
import shlex
from datetime import UTC, datetime
from html.parser import HTMLParser

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.ci.reports.examples import BASE, FULL, HEAD, QUIET, artefact, row
from tests.ci.reports.hostile import artefacts
from warpwatch.ci.gate.artefact import ArtefactAcceptance, GateArtefact, Source
from warpwatch.ci.reports.comment import check_run, markdown, size
from warpwatch.ci.reports.gate_labels import Links, reproduce
from warpwatch.dashboard.model.verdict import Verdict

LINKS = Links(dashboard="https://perf.example.org/")
ACCEPTED = ArtefactAcceptance(
    pattern="*", reason="twice as exact", by="ann", at=datetime(2026, 1, 1, tzinfo=UTC), source="comment 12"
)
_OURS = {
    "h3",
    "h4",
    "p",
    "strong",
    "code",
    "pre",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "a",
    "br",
    "ul",
    "li",
}


class _Page(HTMLParser):
    """What a browser would show: the elements, where links lead, and the text outside of code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.links: list[str] = []
        self.outside: list[str] = []
        self.comments: list[str] = []
        self._open: list[str] = []
        self.feed(cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE))  # GitHub's own parser
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag != "br":
            self._open.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"code", "pre"} & set(self._open):
            self.outside.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def test_the_verdict_comes_first_then_the_rows_that_moved() -> None:
    text = markdown([FULL], LINKS)
    first, second, *_ = text.split("\n\n")
    assert first == "### warpwatch: regressed"
    assert "is slower: **+4.1 % (+3.8 % … +4.4 %)**, 70.8 µs → 73.7 µs; `registers` 96 → 128" in second
    assert "**This blocks merging.**" in second
    shown, _, folded = text.partition("<details>")
    assert ["b1" in shown, "b2" in shown, "b4" in shown] == [True] * 3
    assert ["b3" in shown, "b5" in shown, "b6" in shown] == [False] * 3
    assert "1 inconclusive" in folded
    assert "needs 3 more runs of each" in folded
    assert "The machine `runner-1` drifted by +1.2 %" in text
    assert f"{BASE} → {HEAD}" in text
    assert "/warpwatch accept" in text
    assert f"https://perf.example.org/kernels/compare?base={BASE}&head={HEAD}" in text


def test_a_bar_in_a_name_is_a_bar_in_the_sentence_and_in_the_table() -> None:
    text = markdown([artefact(row(1, Verdict.REGRESSED, benchmark="kernel<a|b>.time_it"))], Links())
    html = cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE)
    assert html.count("<code>kernel&lt;a|b&gt;.time_it(cuda-fp16-b1, warpwatch) latency</code>") == 2


def test_a_quiet_gate_is_a_sentence() -> None:
    text = markdown([QUIET], Links())
    assert text.startswith("### warpwatch: no change\n\nNo change in 2 series on `Tesla T4`.\n")
    assert "/warpwatch accept" not in text
    assert "](" not in text


def test_of_several_machines_the_worst_comes_first() -> None:
    text = markdown([QUIET, FULL.model_copy(update={"gpu": "RTX 4090"})], Links())
    assert text.startswith("### warpwatch: regressed")
    assert text.index("#### `Tesla T4`: no change") < text.index("#### `RTX 4090`: regressed")


def test_accepted_and_non_blocking_regressions_do_not_fail() -> None:
    accepted = artefact(row(1, Verdict.REGRESSED, accepted=ACCEPTED), row(2, Verdict.UNCHANGED))
    assert "accepted by `ann` (`comment 12`): `twice as exact`" in markdown([accepted], Links())
    assert check_run(accepted, Links()).conclusion == "success"
    subject = artefact(row(1, Verdict.REGRESSED, blocks=False))
    assert check_run(subject, Links()).conclusion == "neutral"
    for each in (accepted, subject):
        assert "blocks merging" not in markdown([each], Links())


@pytest.mark.parametrize(
    ("subject", "conclusion", "title"),
    [
        (
            FULL,
            "failure",
            "1 benchmark fails at head: benchmarks.rope.Rope.track_latency(cuda-fp16-b2, warpwatch); "
            "1 series regressed, 1 inconclusive, 1 improved on Tesla T4",
        ),
        (QUIET, "success", "no change in 2 series on Tesla T4"),
        (artefact(row(1, Verdict.INCONCLUSIVE)), "neutral", "1 series inconclusive on Tesla T4"),
        (
            artefact(*(row(number, Verdict.INVALID, benchmark=f"b{number}", parameters={}) for number in range(5))),
            "failure",
            "5 benchmarks fail at head: b0, b1, b2 and 2 more on Tesla T4",
        ),
        (
            artefact(row(1, Verdict.MISSING, benchmark="gone", parameters={}), row(2, Verdict.UNCHANGED)),
            "failure",
            "1 benchmark fails at head: gone on Tesla T4",
        ),
        (
            artefact(row(1, Verdict.MISSING, base=None), row(2, Verdict.UNCHANGED)),
            "success",
            "no change in 1 series on Tesla T4",
        ),
        (
            artefact(row(1, Verdict.MISSING, accepted=ACCEPTED), row(2, Verdict.UNCHANGED)),
            "success",
            "1 series accepted as missing on Tesla T4",
        ),
        (
            artefact(row(1, Verdict.INVALID, blocks=False, benchmark="b", parameters={}), row(2, Verdict.UNCHANGED)),
            "success",
            "1 benchmark fails at head: b on Tesla T4",
        ),
        (
            artefact(row(1, Verdict.INCONCLUSIVE), inconclusive="failure"),
            "failure",
            "1 series inconclusive on Tesla T4",
        ),
        (
            artefact(row(1, Verdict.REGRESSED, blocks=False), row(2, Verdict.INCONCLUSIVE), inconclusive="failure"),
            "failure",
            "1 series regressed, 1 inconclusive on Tesla T4",
        ),
        (
            artefact(row(1, Verdict.UNCHANGED), fault="head's policy is invalid: [gate] has no key thresold"),
            "failure",
            "head's policy is invalid: [gate] has no key thresold on Tesla T4",
        ),
        (artefact(gpu=None, machine=None), "neutral", "nothing to compare"),
        (artefact(row(1, Verdict.REGRESSED, accepted=ACCEPTED)), "success", "1 series accepted as slower on Tesla T4"),
    ],
)
def test_a_check_run_concludes_what_the_gate_found(subject: GateArtefact, conclusion: str, title: str) -> None:
    check = check_run(subject, Links())
    assert (check.conclusion, check.title, check.head) == (conclusion, title, HEAD)


def test_no_artefact_can_take_the_name_of_the_check_that_a_branch_requires() -> None:
    for gpu, machine in ((None, None), ("", None), (None, ")")):
        quiet = QUIET.model_copy(update={"gpu": gpu, "machine": machine})
        assert check_run(quiet, Links()).name.startswith("warpwatch gate (")


def test_annotations_are_one_a_benchmark_at_its_line() -> None:
    source = Source(path="suite/rope.py", line=7)
    rows = [row(n, Verdict.REGRESSED, source=source) for n in range(30)]
    check = check_run(artefact(*rows, row(99, Verdict.IMPROVED, source=Source(path="suite/a.py", line=1))), Links())
    (remark,) = check.annotations
    assert (remark.path, remark.line, remark.level) == ("suite/rope.py", 7, "failure")
    assert remark.title.startswith("30 regressed: benchmarks.rope")
    assert remark.message.endswith("… and 10 more")


@pytest.mark.parametrize("most", [3_000, 65_000])
def test_long_reports_lose_whole_rows_and_count_them(most: int) -> None:
    wide = {"benchmark": "b" * 150 + "\U0001f600" * 50}
    changed = [row(n, Verdict.REGRESSED, **wide) for n in range(600)]
    quiet = [row(n, Verdict.UNCHANGED, **wide) for n in range(600, 1200)]
    text = markdown([artefact(*changed, *quiet)], LINKS, most)
    assert size(text) <= most
    cut = re.search(r"(\d+) more changed rows not shown", text)
    assert cut is not None
    assert int(cut[1]) == 600 - text.count("**regressed**") > 0
    assert "600 unchanged" in text
    _Page(text)


def test_many_machines_share_the_room() -> None:
    each = artefact(*(row(n, Verdict.REGRESSED) for n in range(200)))
    text = markdown([each] * 16, LINKS)
    assert size(text) <= 65_000
    assert text.count("#### `Tesla T4`: regressed") == 16


def test_a_command_measures_the_same_again() -> None:
    command = reproduce(FULL, FULL.rows[:1])
    assert command is not None
    name, gate, base, head, _, pattern = shlex.split(command)
    assert (name, gate, base, head) == ("warpwatch", "gate", BASE, HEAD)
    assert re.search(pattern, "benchmarks.rope.Rope.track_latency('cuda-fp16-b1', 'warpwatch')")
    foreign = row(1, Verdict.REGRESSED, measured_by_asv=False)
    assert reproduce(FULL, [foreign]) is None
    assert reproduce(FULL, [row(1, Verdict.REGRESSED, benchmark="cut…")]) is None


# Not shrunk: an artefact is large, and takes minutes to be made the smallest that fails.
@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(artefacts(), min_size=1, max_size=2))
def test_untrusted_texts_stay_texts(subject: list[GateArtefact]) -> None:
    text = markdown(subject, LINKS)
    page = _Page(text)
    assert set(page.elements) <= _OURS
    assert not page.comments
    assert all(link.startswith("https://perf.example.org/") for link in page.links)
    outside = " ".join(page.outside)
    assert "evil" not in outside
    assert "@" not in outside
    assert "#" not in outside

    for each in subject:
        command = reproduce(each, each.rows)
        if command is not None:
            words = shlex.split(command)
            assert words[:2] == ["warpwatch", "gate"]
            assert set(words[4::2]) == {"--bench"}
            assert "\n" not in command

    for each in subject:
        check = check_run(each, LINKS)
        assert len(check.title) <= 255
        assert size(check.summary) <= 65_535
        assert all(len(remark.title) <= 255 and len(remark.message) < 64_000 for remark in check.annotations)
