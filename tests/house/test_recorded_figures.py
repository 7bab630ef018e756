"""Every figure of the documents is that of the recorded run they name, and names rows that exist."""

import pytest

from perf_suite.catalogue import OPERATORS, workloads_of
from tests.house.recorded_figures import CELL, HOUSE, Recorded, commit_named, with_figures

DOCUMENTS = ("README.md", "perf_suite/FIGURES.md", "kernels/README.md", "kernels/csrc/attention_ladder/README.md")
ROWS = {f"{operator}/{row.name}": row for operator in OPERATORS for row in workloads_of(operator)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_figures_are_those_of_the_run(document: str) -> None:
    text = (HOUSE / document).read_text()
    assert text.count("<!--") == len(CELL.findall(text)), "a comment that is not understood"
    assert with_figures(text) == text, f"run `python -m tests.house.recorded_figures {document}`"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_figures_name_rows_of_the_catalogue(document: str) -> None:
    asked = 0
    for cell in CELL.finditer((HOUSE / document).read_text()):
        others = (cell["second"],) if cell["kind"] == "gain" else ()
        for row in (cell["first"], *others):
            assert row in ROWS, row
        if not others:
            assert cell["second"] in ROWS[cell["first"]].implementations, cell[0]
        asked += 1
    assert asked > 3


def test_a_figure_is_worked_out_of_what_was_recorded() -> None:
    run = Recorded(commit_named((HOUSE / "kernels/README.md").read_text()))
    row = "decode_attention/cuda-fp16-b8-h32-kv8-s1x16384-d128"
    slow, fast = (float(run.figure("us", row, name).removesuffix(" µs")) for name in ("eager", "warpwatch"))
    assert float(run.figure("speed", row, "eager").removesuffix("×")) == pytest.approx(slow / fast, rel=0.01)
    assert float(run.figure("gain", row, row).removesuffix("×")) == 1
    assert 50 < float(run.figure("share", row, "warpwatch").removesuffix(" %")) <= 101
    assert run.figure("speed", "rope/cuda-fp16-no-such-row", "eager") == "–"
    with pytest.raises(ValueError, match="no kind of figure 'watts'"):
        run.figure("watts", row, "eager")
