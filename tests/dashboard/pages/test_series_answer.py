"""The series page answers at its top, opens the changed point, and can be shared; the chart has several units."""

import html
import json
import re

import pytest
from flask.testing import FlaskClient

from tests.dashboard.pages.whole_history import as_page
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.figures.history import history_figure
from warpwatch.dashboard.web.figures.history_view import HistoryView, Scale


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


def _page(client: FlaskClient, key: str, **query: str) -> str:
    answer = client.get(f"/kernels/series/{key}", query_string=query)
    assert answer.status_code == 200
    return answer.text


def _words(part: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", part)))


def _answer(page: str) -> str:
    (answer,) = re.findall(r'<div class="ww-answer">(.*?)</div>', page, re.DOTALL)
    return _words(answer)


def test_the_answer_names_change_commit_certainty_lead_and_causes(
    client: FlaskClient, addresses: dict[str, str]
) -> None:
    answer = _answer(_page(client, addresses["slowed"]))
    assert re.search(r"Slower .* → .*, \+[34]\.\d % at [0-9a-f]{8} ?, ", answer)
    assert addresses["slow_commit"][:8] in answer
    assert "Significant (false-discovery rate" in answer
    assert re.search(r"\d× as fast as .* now \(.*× before the change\)", answer)
    assert "of peak" in answer
    assert "so the code is the likely cause" in answer
    causes = answer.partition("strongest first")[2]
    assert re.match(r" SM cycles \+3\.\d % machine code identical at both commits SDPA on the same GPUs", causes)


def test_without_a_change_the_answer_says_so(client: FlaskClient, addresses: dict[str, str]) -> None:
    young = client.get(f"/young/series/{addresses['young']}").text
    assert "One value so far" in _answer(young)
    assert re.search(r"No change in \d+ points", _answer(_page(client, addresses["throttled"])))


def test_the_changed_point_is_open_and_another_can_be_chosen(client: FlaskClient, addresses: dict[str, str]) -> None:
    page = _page(client, addresses["slowed"])
    point = re.search(r'data-run="(\w+)">\s*<h2 id="point-heading">Point at (.*?)</h2>', page, re.DOTALL)
    assert point is not None
    assert addresses["slow_commit"][:8] in point[2]
    newest = client.get(f"/api/projects/kernels/series/{addresses['slowed']}/history").json["points"][-1]
    other = _page(client, addresses["slowed"], run=newest["run"])
    assert f'data-run="{newest["run"]}"' in other
    assert ">Newest</a>" in page
    assert ">Newest</a>" not in other


def test_changepoints_are_directly_below_the_chart(client: FlaskClient, addresses: dict[str, str]) -> None:
    page = _page(client, addresses["slowed"])
    places = [page.index(f'id="{name}-heading"') for name in ("history", "changes", "point", "siblings")]
    assert places == sorted(places)


def test_compiled_code_of_the_gpu_that_ran_is_first_and_the_rest_folded(
    client: FlaskClient, addresses: dict[str, str]
) -> None:
    page = _page(client, addresses["slowed"])
    part = page.partition("Compiled code of ")[2]
    assert part.startswith("sm_75")
    shown, _, folded = part.partition("for other GPUs")
    assert "sm_90a" not in shown.partition("<details")[0]
    assert "sm_90a" in folded


def _figure(store_settings: Settings, key: str, unit: str, scale: Scale = Scale.LINEAR) -> dict[str, object]:
    store = Store(store_settings.database)
    shown = queries.shown_history(store, key, queries.HistoryRequest())
    store.close()
    assert shown is not None
    return as_page(history_figure(shown, HistoryView(unit=unit, scale=scale)))


def _line(figure: dict[str, object], name: str) -> list[float]:
    return next(trace["y"] for trace in figure["data"] if trace.get("name") == name)  # type: ignore[attr-defined]


def test_the_axis_is_in_per_cent_of_the_first_commit(history_store: Settings, addresses: dict[str, str]) -> None:
    measured = _line(_figure(history_store, addresses["slowed"], ""), "warpwatch")
    figure = _figure(history_store, addresses["slowed"], "percent", Scale.LOG)
    shown = _line(figure, "warpwatch")
    assert shown[0] == pytest.approx(0, abs=1e-4)
    assert shown == pytest.approx([100 * (value / measured[0] - 1) for value in measured], abs=1e-3)
    axis = figure["layout"]["yaxis"]  # type: ignore[index]
    assert axis["type"] == "linear"  # a logarithm has no negative values
    assert "(%)" in axis["title"]["text"]


def test_the_axis_is_relative_to_a_baseline_at_the_same_commit(
    history_store: Settings, client: FlaskClient, addresses: dict[str, str]
) -> None:
    key = addresses["slowed"]
    assert 'href="/kernels/series/' + key + '?unit=sdpa"' in _page(client, key)
    plain, relative = (_figure(history_store, key, unit) for unit in ("", "sdpa"))
    own, theirs = _line(plain, "warpwatch"), _line(plain, "SDPA")
    assert _line(relative, "warpwatch") == pytest.approx(
        [other / value for value, other in zip(own, theirs, strict=True)], rel=1e-4
    )
    assert set(_line(relative, "SDPA")) == {1.0}
    assert "level" not in {trace.get("name") for trace in relative["data"]}  # type: ignore[attr-defined]
    assert relative["layout"]["yaxis"]["title"]["text"] == "speedup over SDPA (×)"  # type: ignore[index]


def test_an_unknown_unit_is_as_recorded(history_store: Settings, addresses: dict[str, str]) -> None:
    key = addresses["slowed"]
    assert _figure(history_store, key, "no-such") == _figure(history_store, key, "")


def test_the_page_is_shared_as_markdown_files_and_a_permanent_link(
    client: FlaskClient, addresses: dict[str, str]
) -> None:
    key = addresses["slowed"]
    page = _page(client, key)
    (markdown,) = re.findall(r'<code id="share-markdown">(.*?)</code>', page, re.DOTALL)
    lines = html.unescape(markdown).splitlines()
    assert re.search(r"`.*`: \*\*Slower .*\*\* at `[0-9a-f]{8}`", lines[0])
    assert lines[-1] == f"http://localhost/s/{key}"
    for address in re.findall(r'<a href="(/api/[^"]+)">(?:CSV|JSON)</a>', page):
        assert client.get(html.unescape(address)).status_code == 200
    short = client.get(f"/s/{key}")
    assert (short.status_code, short.headers["Location"]) == (302, f"/kernels/series/{key}")
    missing = client.get("/s/0000000000000000")
    assert missing.status_code == 404
    assert "There is no series" in missing.text
    assert client.get("/s/commits").status_code == 404  # of a project named s


def test_the_history_has_adjusted_values_of_series_of_several_gpus(
    client: FlaskClient, addresses: dict[str, str]
) -> None:
    history = client.get(f"/api/projects/kernels/series/{addresses['profiled']}/history").json
    gpus = {point["gpu"] for point in history["points"]}
    adjusted = [point for point in history["points"] if point["adjusted_value"] is not None]
    assert len(gpus) > 1
    assert adjusted
    newest = history["points"][-1]
    assert newest["adjusted_value"] == pytest.approx(newest["value"], rel=0.05)
    as_csv = client.get(f"/api/projects/kernels/series/{addresses['profiled']}/history?format=csv").text
    assert "adjusted_value" in as_csv.splitlines()[0]


def test_changes_say_whether_further_runs_confirm_them(client: FlaskClient, addresses: dict[str, str]) -> None:
    history = client.get(f"/api/projects/kernels/series/{addresses['slowed']}/history").json
    assert [change["is_confirmed"] for change in history["changes"]] == [False]
    assert json.dumps(history["changes"]).count("is_confirmed") == 1
