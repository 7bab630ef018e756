"""The list of machines says at a glance what needs attention."""

import re
from datetime import UTC, datetime, timedelta

import lxml.html
import pytest

from warpwatch.dashboard.model.machine import HardwareLimits, Machine
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.pages.machines import RunnerSummary, _problem
from warpwatch.dashboard.web.pages.runner_status import Runner


def test_a_machine_has_one_row_with_its_figures_and_what_to_do(history_store: Settings) -> None:
    page = lxml.html.fromstring(create_app(history_store).test_client().get("/kernels/machines").text)
    rows = page.xpath('//section[@aria-label="Machines at a glance"]//tbody/tr')
    assert [row.xpath("string(th/a)") for row in rows] == page.xpath("//section//h2/a/text()")
    for row in rows:
        cells = {cell.get("data-label"): cell.text_content().strip() for cell in row.xpath("td")}
        assert re.fullmatch(r"\d+ of \d+|unknown", cells["Throttled runs"])
        assert re.fullmatch(r"\+\d+(\.\d+)? %|[\d.]+×|> 10×|unknown", cells["Smallest detectable change"])
        assert cells["To do"] == "nothing" or row.xpath(".//code")


def test_a_machines_page_begins_with_how_far_it_can_be_trusted(history_store: Settings) -> None:
    page = lxml.html.fromstring(create_app(history_store).test_client().get("/kernels/machines/nvidia-h200").text)
    (line,) = page.xpath('//p[@class="ww-verdict-line"]')
    assert re.search(r"detects changes of\s+\+\d+(\.\d+)? %\s+with one run", line.text_content())


@pytest.mark.parametrize(
    ("throttled", "assumed", "command"),
    [(5, 0, "warpwatch doctor"), (1, 0, ""), (0, 60, "asv run --record-samples HEAD^!"), (0, 10, "")],
)
def test_the_first_problem_that_applies_names_its_command(throttled: int, assumed: int, command: str) -> None:
    runner = Runner(
        name="t4",
        newest=datetime(2030, 1, 1, tzinfo=UTC),
        usual_pause=None,
        patience=timedelta(days=2),
        is_overdue=False,
        is_archived=False,
        stopped=0,
        invalid=0,
    )
    machine = Machine(
        name="t4",
        gpu=None,
        cpu=None,
        details={},
        limits=HardwareLimits(peaks=None, measured=None),
        gpus=(),
        runs=1,
        newest_run=None,
        newest_commit=None,
    )
    summary = RunnerSummary(
        machine=machine,
        runner=runner,
        conditions=20,
        throttled=throttled,
        drift=None,
        detectable=0.02,
        assumed=assumed,
    )
    assert _problem(summary, 100)[1] == command
