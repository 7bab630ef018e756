"""What the pages answer, read without a browser: statuses, sentences, headers, data."""

import json
import re
import time
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from tests.dashboard.pages.recorded import SLOWER_FROM, write_recorded
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.web.app import create_app


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


@pytest.fixture
def empty(tmp_path: Path) -> FlaskClient:
    return create_app(Settings(database=f"sqlite:///{tmp_path / 'empty.db'}")).test_client()


def test_several_projects_are_listed_and_a_single_one_is_opened(client: FlaskClient, tmp_path: Path) -> None:
    page = client.get("/").text
    assert 'href="/kernels/"' in page
    assert 'href="/young/"' in page


def test_an_empty_store_says_what_to_do(empty: FlaskClient) -> None:
    page = empty.get("/")
    assert page.status_code == 200
    assert "warpwatch import" in page.text


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/nobody/", "no project named “nobody”"),
        ("/kernels/series/feedfeedfeedfeed", "no series “feedfeedfeedfeed”"),
        ("/kernels/commit/feedfeed", "starts with “feedfeed”"),
        ("/kernels/roofline?machine=toaster", "no roofline of a machine “toaster”"),
        ("/kernels/nothing/here", "no page at this URL"),
    ],
)
def test_what_is_not_there_is_a_404_with_a_sentence(client: FlaskClient, path: str, sentence: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert sentence in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/kernels/?page=0",
        "/kernels/?page=-3",
        "/kernels/?page=99999999999999999999",
        "/kernels/?page=x",
        "/kernels/series?page=99999999999999999999",
        "/kernels/?verdict=nonsense",
        "/kernels/?machine=nobody",
        "/kernels/regressions?period=x&page=7",
    ],
)
def test_a_nonsense_query_is_no_error(client: FlaskClient, path: str) -> None:
    assert client.get(path).status_code == 200


def test_a_project_may_be_called_owner_slash_name(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'slash.db'}")
    store = Store(settings.database)
    _, results = write_recorded(tmp_path, commits=1)
    for name in ("owner/na~me", "other"):
        import_results(store, open_folder(results, project=name))
    store.close()
    client = create_app(settings).test_client()
    (link,) = re.findall(r'<a href="(/owner[^"]+)"', client.get("/").text)
    page = client.get(link)
    assert page.status_code == 200
    assert "owner/na~me" in page.text
    assert client.get(f"{link}series").status_code == 200


def test_a_series_of_another_project_is_not_shown(client: FlaskClient, addresses: dict[str, str]) -> None:
    assert client.get(f"/young/series/{addresses['slowed']}").status_code == 404


def test_a_short_hash_leads_to_the_whole_one(client: FlaskClient, addresses: dict[str, str]) -> None:
    commit = addresses["slow_commit"]
    answer = client.get(f"/kernels/commit/{commit[:8]}")
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"/kernels/commit/{commit}"


def test_each_page_has_a_policy_of_our_own_files_and_no_inline_script_or_style(client: FlaskClient) -> None:
    for path in ("/", "/kernels/roofline", "/kernels/regressions"):
        answer = client.get(path)
        policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        inline = re.findall(r"<script(?![^>]*\bsrc=)([^>]*)>", answer.text)
        assert all('type="application/json"' in attributes for attributes in inline)
        assert not re.search(r"<[^>]*\son[a-z]+=", answer.text)
        # its own permanent links, as text to copy, are no sources
        assert "http://" not in re.sub(r"http://(www\.w3\.org/2000/svg|localhost/)", "", answer.text)
        assert "https://" not in answer.text
        assert "<style" not in answer.text


def test_our_files_are_kept_a_year_and_have_their_time_in_the_url(client: FlaskClient) -> None:
    (url,) = re.findall(r'href="(/static/warpwatch\.css\?v=[0-9a-f]+)"', client.get("/").text)
    assert "max-age=31536000" in client.get(url).headers["Cache-Control"]


def test_the_overview_states_the_regression_in_words_with_sign_and_interval(client: FlaskClient) -> None:
    page = client.get("/kernels/?machine=runner-t4&q=decode+warpwatch").text
    assert re.search(r"\+[34]\.\d %", page)
    assert "slower" in page
    assert "Regressed" in page
    assert re.search(r"\d\.\d\d×</span> <span class=\"ww-word\">SDPA", page)


def test_regressions_name_series_commit_magnitude_and_interval(client: FlaskClient, addresses: dict[str, str]) -> None:
    page = client.get("/kernels/regressions").text
    assert addresses["slow_commit"][:8] in page
    assert f"/kernels/series/{addresses['slowed']}" in page
    assert re.search(r"\+\d\.\d % to \+\d\.\d %", page)


def test_the_series_page_shows_the_origin_of_its_value_and_how_to_repeat_it(
    client: FlaskClient, addresses: dict[str, str]
) -> None:
    page = client.get(f"/kernels/series/{addresses['slowed']}").text
    for said in ("Tesla T4", "550.54.15", "2.13.0", "1.98 GHz", "sm_75", "128"):
        assert said in page, said
    assert "asv run --record-samples --bench" in page
    assert "throttled" in client.get(f"/kernels/series/{addresses['throttled']}").text


def test_the_series_page_leads_to_the_other_metrics_and_shows_the_profile(
    client: FlaskClient, addresses: dict[str, str]
) -> None:
    page = client.get(f"/kernels/series/{addresses['profiled']}").text
    for said in (
        "kernels launched",
        "warm latency",
        "not judged: restates the latency",
        "28.9 mJ",
        "% of ceiling",
        "Nsight Compute 2025.3.1",
        "322 MB",
        "1.20× the least",
        "long scoreboard 6.20",
    ):
        assert said in page, said
    assert f"/kernels/series/{addresses['share']}" in page
    assert "Profile at" not in client.get(f"/kernels/series/{addresses['slowed']}").text


def test_the_origin_of_any_runs_value_is_shown(client: FlaskClient, addresses: dict[str, str]) -> None:
    url = f"/kernels/series/{addresses['throttled']}"
    points = client.get(f"/api/projects{url}/history").json["points"]
    newest = client.get(url).text
    for said in (
        "GPU-c0ffee42",
        "power cap for 400 µs",
        "32 s into the run",
        "1× kernel, 1× memset",
        "Other GPU processes",
        "SHA-256",
        "over 2 windows of 520 ms",
    ):
        assert said in newest, said
    throttled = client.get(f"{url}?run={points[21]['run']}").text
    point = throttled[throttled.index('id="point-heading"') : throttled.index('id="siblings-heading"')]
    assert points[21]["commit"][:8] in point[:300]
    assert ">invalid: throttled" in point
    assert "GPU-5f1c" in client.get(f"{url}?run={points[3]['run']}").text
    assert client.get(f"{url}?run=nonsense").status_code == 200


def test_an_unmeasured_point_names_the_commit_that_stands_for_it(
    client: FlaskClient, addresses: dict[str, str]
) -> None:
    words = r"not measured: code unchanged since [0-9a-f]{8}"
    overview = client.get("/kernels/?machine=runner-t4&kernel=rope").text
    assert len(re.findall(f"{words}</span>", overview)) == 2
    assert "ww-verdict-invalid" not in overview[overview.index("<tbody") :]
    assert re.search(words, client.get(f"/kernels/series/{addresses['unmeasured']}").text)


def test_metrics_that_moved_with_a_latency_are_named_on_its_row(client: FlaskClient, addresses: dict[str, str]) -> None:
    page = client.get("/kernels/?machine=nvidia-h200&kernel=rope&verdict=regressed").text
    assert f"/kernels/series/{addresses['launches']}" in page
    assert "regressed, now 3 launches" in page
    # One row a workload and implementation, whatever it is measured by.
    assert client.get("/kernels/?machine=nvidia-h200&kernel=rope").text.count("ww-workload") == 2 * 2


def test_the_roofline_has_both_roofs_and_says_which_one_is_missing(client: FlaskClient) -> None:
    both = client.get("/kernels/roofline?machine=nvidia-h200").text
    for said in ("Of peak", "Of ceiling", "Thin roofs", "L2 11.0 TB/s", "DRAM bytes that a profiler measured"):
        assert said in both, said
    one = client.get("/kernels/roofline?machine=runner-t4").text
    assert "warpbench calibrate" in one
    assert "Of ceiling" not in one
    assert "warpbench profile WORKLOAD" in one


def test_the_machines_page_shows_gpus_canaries_and_the_spread_of_equal_code(client: FlaskClient) -> None:
    page = re.sub(r"\s+", " ", client.get("/kernels/machines").text)
    _, h200, t4 = page.split("<section")[1:]
    assert "GPU-c0ffee42</span> 10 runs, " in h200
    assert "GPU-5f1c</span> 14 runs" in h200
    assert "GPUs, each with its own levels" not in t4
    assert h200.count("4 measurements within 0.") == 2
    assert re.search(r"median 0\.\d\d %, 95 % within \d\.\d\d % \(\d+ pairs\)", h200)
    assert "regress" not in page.lower().replace('href="/kernels/regressions">regressions', "")


def test_the_data_behind_a_figure_is_json(client: FlaskClient, addresses: dict[str, str]) -> None:
    data = client.get(f"/api/projects/kernels/series/{addresses['slowed']}/history").json
    assert data["series"]["unit"] == "seconds"
    assert len(data["points"]) == 24
    (change,) = data["changes"]
    assert change["commit"] == data["points"][SLOWER_FROM]["commit"] == addresses["slow_commit"]
    assert change["ci_low"] < change["magnitude"] < change["ci_high"]


def test_a_project_without_context_has_no_columns_for_it(client: FlaskClient) -> None:
    listing = client.get("/").text
    (hostile,) = {link for link in re.findall(r'href="(/[^"]+/)"', listing) if "img" in link}
    page = client.get(hostile).text
    assert "Speed of light" not in page
    assert "baseline" not in page


def test_what_a_machine_does_not_have_is_listed_only_on_request(client: FlaskClient) -> None:
    listed = client.get("/kernels/?machine=runner-t4&kernel=rope").text
    assert "Triton" not in listed
    missing = client.get("/kernels/?machine=runner-t4&kernel=rope&verdict=missing").text
    assert missing.count("Triton is not installed") >= 2


def test_thousands_of_series_are_a_page_that_can_be_read(tmp_path: Path) -> None:
    client = _with_many_series(tmp_path)
    first = client.get("/many/").text
    assert (first.count("ww-line"), first.count("ww-workload")) == (1, 0)
    opened = client.get("/many/?open=Many%40machine").text
    assert opened.count("ww-workload") == 41  # the first forty, and where the others are
    assert 'href="/many/?kernel=Many&amp;machine=machine"' in opened
    whole = client.get("/many/?kernel=Many").text
    assert whole.count("ww-workload") == 200
    assert "Page 1 of 15" in whole
    assert client.get("/many/?kernel=Many&page=15").text.count("ww-workload") == 200
    assert client.get("/many/?kernel=Many&page=16").status_code == 200
    assert len(first) < 20_000
    assert len(opened) < 100_000


def _with_many_series(folder: Path) -> FlaskClient:
    params = [[str(i) for i in range(60)], [str(i) for i in range(50)]]
    name = "suite.Many.time_it"
    machine = folder / "results" / "machine"
    machine.mkdir(parents=True)
    (folder / "results" / "benchmarks.json").write_text(
        json.dumps(
            {name: {"name": name, "param_names": ["a", "b"], "params": params, "type": "time", "unit": "seconds"}}
        )
    )
    (machine / "machine.json").write_text(json.dumps({"machine": "machine", "version": 1}))
    result = {
        "commit_hash": "a" * 40,
        "env_name": "e",
        "date": 1767225600000,
        "params": {},
        "version": 2,
        "result_columns": ["result", "params", "version"],
        "results": {name: [[0.001] * 3000, params, "1"]},
    }
    (machine / "aaaaaaaa-e.json").write_text(json.dumps(result))
    settings = Settings(database=f"sqlite:///{folder / 'many.db'}")
    store = Store(settings.database)
    import_results(store, open_folder(folder / "results", project="many"))
    analyse(store)
    store.close()
    return create_app(settings).test_client()


def test_health_reports_that_the_store_answers(client: FlaskClient) -> None:
    assert client.get("/healthz").json == {"status": "ok", "projects": 3}


def test_an_improvement_stands_above_the_tables_with_its_commit(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'faster.db'}")
    results = tmp_path / "results" / "m"
    results.mkdir(parents=True)
    name = "suite.Sort.time_it"
    (results.parent / "benchmarks.json").write_text(
        json.dumps({name: {"name": name, "param_names": [], "params": [], "type": "time", "unit": "seconds"}})
    )
    (results / "machine.json").write_text(json.dumps({"machine": "m", "version": 1}))
    start = int(time.time() * 1000) - 20 * 60_000
    for index in range(16):
        value = (2.0 if index < 8 else 1.0) * (1 + 0.003 * (index % 3))
        result = {
            "commit_hash": f"{index:x}" * 40,
            "env_name": "e",
            "date": start + index * 60_000,
            "version": 2,
            "params": {"machine": "m"},
            "result_columns": ["result", "params", "version"],
            "results": {name: [[value], [], "1"]},
        }
        (results / f"{index:x}-e.json").write_text(json.dumps(result))
    store = Store(settings.database)
    import_results(store, open_folder(results.parent, project="sorting"))
    analyse(store)
    store.close()
    page = create_app(settings).test_client().get("/sorting/").text
    news = page[page.index("Newest improvements") : page.index("data-filters")]
    assert re.search(r"−\d\d\.\d %", news)
    assert "/commit/" + "8" * 40 in news
