"""What the API answers, on a socket: the same as the store and the commands say."""

import csv
import io
import json
import math
import re
from typing import Any

import pytest
import requests

from tests.dashboard.api.conftest import KERNELS, Api
from tests.dashboard.pages.browsing import HOSTILE
from tests.stored import stored_history
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.web.urls import project_in_path


def _get(api: Api, path: str, **more: Any) -> requests.Response:
    return requests.get(f"{api.url}/api{path}", timeout=60, **more)


def _json(api: Api, path: str) -> Any:
    answer = _get(api, path)
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise AssertionError(f"JSON has no {constant}")


def test_the_parts_of_a_list_are_the_whole_list(api: Api) -> None:
    whole = _json(api, f"/projects/{KERNELS}/series?limit=1000")
    assert whole["total"] == len(whole["items"]) == len({item["series"]["key"] for item in whole["items"]})
    assert whole["next"] is None
    found, onward = [], f"/api/projects/{KERNELS}/series?limit=37&machine=runner-t4"
    while onward:
        answer = requests.get(api.url + onward, timeout=60)
        part = answer.json()
        assert answer.headers.get("Link") == (f'<{part["next"]}>; rel="next"' if part["next"] else None)
        found += part["items"]
        onward = part["next"]
    assert found == [item for item in whole["items"] if item["series"]["machine"] == "runner-t4"]
    assert len(found) > 37


def test_filters_narrow_the_series_by_exact_names_and_by_words(api: Api) -> None:
    found = _json(api, f"/projects/{KERNELS}/series?q=ROPE%20s2048&metric=latency&implementation=warpwatch")
    assert [item["series"]["machine"] for item in found["items"]] == ["nvidia-h200", "runner-t4"]
    assert all("s2048" in item["series"]["workload"] for item in found["items"])
    assert _json(api, f"/projects/{KERNELS}/series?metric=late")["total"] == 0


def test_a_history_says_what_the_store_holds(api: Api) -> None:
    key = _key(api, "decode", "runner-t4")
    body = _json(api, f"/projects/{KERNELS}/series/{key}/history")
    history = stored_history(api.store, key)
    assert history is not None
    assert [point["value"] for point in body["points"]] == [point.value for point in history.points]
    (change,) = body["changes"]
    (known,) = history.changes
    assert (change["commit"], change["magnitude"]) == (known.commit.hash, known.magnitude)
    first, second = body["levels"]
    assert second["first_commit"] == known.commit.hash
    assert second["value"] / first["value"] - 1 == pytest.approx(known.magnitude, abs=0.01)
    assert first["commits"] + second["commits"] == len(body["points"])


def test_a_part_of_a_history_is_chosen_by_commits_or_by_days(api: Api) -> None:
    key = _key(api, "decode", "runner-t4")
    whole = _json(api, f"/projects/{KERNELS}/series/{key}/history")["points"]
    start, end = whole[4], whole[9]
    by_commit = _json(api, f"/projects/{KERNELS}/series/{key}/history?from={start['commit'][:10]}&to={end['commit']}")
    assert by_commit["points"] == whole[4:10]
    assert by_commit["changes"] == []
    assert len(by_commit["levels"]) == 1
    days = f"since={start['date'][:10]}&until={end['date'][:10]}"
    assert _json(api, f"/projects/{KERNELS}/series/{key}/history?{days}")["points"] == whole[4:10]
    assert _get(api, f"/projects/{KERNELS}/series/{key}/history?from=ffffffff").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/series?limit=50",
        "/overview",
        "/machines",
        "/commits",
        "/regressions",
        "/alerts",
        "/canaries",
        "/roofline?machine=runner-t4",
        "/series/{key}/history",
        "/series/{key}/compiled-code",
        "/commits/{commit}/values?limit=1000",
        "/comparison?base={base}&head={commit}",
    ],
)
def test_csv_has_a_row_for_each_item_and_the_same_values(api: Api, path: str) -> None:
    address = f"/projects/{KERNELS}" + path.format(
        key=_key(api, "decode", "runner-t4"), commit=api.commits[0], base=api.commits[-1]
    )
    body = _json(api, address)
    (rows,) = (body[name] for name in ("items", "points", "kernels", "rows") if name in body)
    by_header = _get(api, address, headers={"Accept": "text/csv"})
    by_query = _get(api, address + ("&" if "?" in address else "?") + "format=csv")
    assert by_header.headers["Content-Type"].startswith("text/csv")
    assert by_header.text == by_query.text
    read = list(csv.DictReader(io.StringIO(by_query.text)))
    assert len(read) == len(rows) > 0
    for cells, row in zip(read, rows, strict=True):
        for column, cell in cells.items():
            value = _at(row, column)
            if isinstance(value, float):
                assert math.isclose(float(cell), value)
            elif isinstance(value, str | None):
                assert cell == (value or "")


def test_a_comparison_is_that_of_the_command(api: Api) -> None:
    base, head = (queries.find_commit(api.store, KERNELS, api.commits[place]) for place in (12, 0))
    assert base is not None
    assert head is not None
    known = check(api.store, KERNELS, base, head, threshold=0.02)
    body = _json(api, f"/projects/{KERNELS}/comparison?base={base.hash}&head={head.hash[:12]}")
    assert body["outcome"] == known.outcome.name.lower()
    assert [(row["series"]["key"], row["verdict"]) for row in body["rows"]] == [
        (row.series.key, row.verdict.value) for row in known.rows
    ]
    assert sum(body["counts"].values()) == len(known.rows) > 0
    strict = check(api.store, KERNELS, base, head, threshold=0.5, machine="runner-t4")
    body = _json(
        api, f"/projects/{KERNELS}/comparison?base={base.hash}&head={head.hash}&threshold=0.5&machine=runner-t4"
    )
    assert [row["verdict"] for row in body["rows"]] == [row.verdict.value for row in strict.rows]
    assert len(strict.rows) < len(known.rows)


def test_the_roofline_has_ceilings_and_units_in_its_names(api: Api) -> None:
    body = _json(api, f"/projects/{KERNELS}/roofline?machine=nvidia-h200")
    assert body["peaks"]["bandwidth_bytes_per_s"] == 4.8e12
    assert body["ceilings"]["throughput_flop_per_s"]["fp16"] == 6.7e14
    for point in body["points"]:
        assert point["throughput_flop_per_s"] == pytest.approx(point["flop"] / point["latency_s"])
        assert point["intensity_flop_per_byte"] == pytest.approx(point["flop"] / point["least_bytes"])


def test_an_alert_is_listed_with_its_series_and_its_lifecycle(api: Api) -> None:
    body = _json(api, f"/projects/{KERNELS}/alerts?state=open&kind=regression")
    assert body["total"] > 0
    for alert in body["items"]:
        assert [event["state"] for event in alert["events"]] == ["open"]
        assert alert["regression"]["series"]
        assert alert["finding"] is None
    assert _json(api, f"/projects/{KERNELS}/alerts?state=resolved")["total"] == 0


def test_a_health_alert_is_an_alert_of_its_kind(api: Api) -> None:
    (alert,) = _json(api, f"/projects/{KERNELS}/alerts?state=open&kind=missing+data")["items"]
    assert (alert["machine"], alert["finding"]["summary"]) == ("runner-t4", "no results for 3 days")
    assert alert["regression"] is None
    assert [event["state"] for event in alert["events"]] == ["open"]
    assert _json(api, f"/projects/{KERNELS}/alerts?state=expected")["total"] == 0


def test_compiled_code_is_available_at_any_commit(api: Api) -> None:
    key = _key(api, "decode", "runner-t4")
    newest = _json(api, f"/projects/{KERNELS}/series/{key}/compiled-code")
    assert {(each["architecture"], each["registers"]) for each in newest["kernels"]} == {
        ("sm_75", 128),
        ("sm_90a", 128),
    }
    before = _json(api, f"/projects/{KERNELS}/series/{key}/compiled-code?commit={api.commits[-1]}")
    assert {each["registers"] for each in before["kernels"]} == {96}


def test_a_cached_answer_need_not_be_loaded_again(api: Api) -> None:
    for path in (f"/projects/{KERNELS}/overview", f"/projects/{KERNELS}/commits?format=csv", "/openapi.json"):
        first = _get(api, path)
        again = _get(api, path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["ETag"] == first.headers["ETag"]
        assert "no-cache" in first.headers["Cache-Control"]
        assert _get(api, path, headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/projects/nobody/overview", 404),
        ("DELETE", "/projects", 405),
        ("GET", "/projects?limit=0", 422),
        ("GET", "/projects?limit=1&limit=2", 422),
        ("GET", "/projects?lmit=1", 422),
        ("GET", "/projects/kernels/series?q=%00", 422),
        ("GET", "/projects/kernels/commits/zz", 404),
        ("GET", "/projects/kernels/comparison?base=abcd", 422),
        ("POST", "/projects/kernels/results", 401),
    ],
)
def test_every_error_is_one_shape(api: Api, method: str, path: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {api.token}"} if status == 405 else {}  # what changes something wants one
    answer = requests.request(method, f"{api.url}/api{path}", timeout=60, headers=headers)
    body = answer.json()
    assert (answer.status_code, body["status"]) == (status, status)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert set(body) == {"type", "title", "status", "detail", "faults"}
    assert body["detail"]
    assert bool(body["faults"]) == (status == 422)
    assert (status == 405) == ("Allow" in answer.headers)


def test_a_hostile_project_name_is_returned_unchanged(api: Api) -> None:
    path = f"/projects/{project_in_path(HOSTILE)}"
    assert _json(api, path)["name"] == HOSTILE
    (item,) = _json(api, f"{path}/series")["items"]
    assert list(item["series"]["parameters"]) == [HOSTILE]
    assert item["series"]["machine"] == HOSTILE
    assert _json(api, f"{path}/series?q={project_in_path(HOSTILE[:20])}")["total"] == 1
    page = _get(api, f"{path}/series")
    assert page.headers["Content-Type"] == "application/json"
    assert page.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_documents_every_operation_and_field(api: Api) -> None:
    page = requests.get(f"{api.url}/api/", timeout=60).text
    document = _json(api, "/openapi.json")
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in page
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r' id="([^"]+)"', page)) | {"main"}
    for name in document["components"]["schemas"]["SeriesStateSchema"]["properties"]:
        assert f"<code>{name}</code>" in page


def _key(api: Api, words: str, machine: str) -> str:
    found = queries.find_series(api.store, KERNELS, search=f"{words} warpwatch track_latency", machine=machine)
    return found.series[0].key


def _at(row: Any, column: str) -> Any:
    for name in column.split("."):
        row = row[name] if row is not None else None
    return row
