"""Pages of projects without a context: archives, alike rows, improvements, machines described by hand."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest

from tests.dashboard.pages.browsing import Tab, serving_app
from tests.dashboard.pages.plain_project import commit_hash, serve_plain, steps, write_plain
from warpwatch.dashboard.model.machine import further_facts, gpu_of
from warpwatch.dashboard.model.naming import software_version

NOW = datetime.now(UTC).replace(microsecond=0)


def _plain(page: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def test_a_project_whose_machines_all_fell_silent_long_ago_is_an_archive_and_no_alarm(tmp_path: Path) -> None:
    values = {"suite.Sort.time_it": steps((8, 0.001))}
    machines = {f"box{number}": {} for number in range(7)}
    old = write_plain(tmp_path / "old", values, newest=NOW - timedelta(days=200), machines=machines)
    late = write_plain(tmp_path / "late", values, newest=NOW - timedelta(days=60), machines={"box": {}})
    client = serve_plain(tmp_path / "store.db", {"old": old, "late": late})
    page = client.get("/old/").text
    assert "Archived : 7 machines, no data for more than 90 days" in _plain(page)
    assert '<details class="ww-archived">' in page
    assert "Overdue" not in page
    assert "ww-runners-alert" not in page
    projects = _plain(client.get("/").text)
    assert re.search(r"old none – 7 archived", projects)
    assert "Overdue" not in client.get("/old/machines").text + client.get("/old/machines/box0").text
    waiting = client.get("/late/").text
    assert "Overdue" in waiting
    assert "ww-runners-alert" in waiting


def test_a_project_of_one_module_is_listed_by_suite_and_offers_no_page_without_data(tmp_path: Path) -> None:
    values = {f"suite.{suite}.time_it": steps((8, 0.001)) for suite in ("Sort", "Copy")}
    client = serve_plain(tmp_path / "store.db", {"p": write_plain(tmp_path / "results", values, newest=NOW)})
    page = client.get("/p/").text
    assert re.findall(r'class="ww-opens"[^>]*>(\w+)<', page) == ["Copy", "Sort"]
    assert "All suites" in page
    assert "Roofline</a>" not in page
    assert "Matrix</a>" not in page
    assert client.get("/p/?kernel=suite").text.count("ww-workload") == 2  # the module, as search and policies name it
    compare = client.get("/p/compare?by=commit").text
    assert not re.search(r">\s*(Machines|Implementations)\s*</a>\s*</nav>", compare)


def test_suites_and_modules_have_a_heat_map_of_their_benchmarks(tmp_path: Path) -> None:
    names = ("one.Sort.time_it", "one.Sort.time_again", "one.time_alone", "two.time_alone")
    values = {name: steps((8, 0.001)) for name in names}
    client = serve_plain(tmp_path / "store.db", {"p": write_plain(tmp_path / "results", values, newest=NOW)})
    pages = {}
    for link in re.findall(r'href="([^"]*/kernel/[^"]*)" aria-label="All', client.get("/p/").text):
        answer = client.get(unescape(link))
        assert answer.status_code == 200, link
        page = _plain(answer.text)
        pages[re.search(r"/kernel/([^?]*)", link)[1]] = re.search(r"(\d+) benchmarks? on", page)[1]  # type: ignore[index]
        assert "workload" not in page.lower()
    assert pages == {"one": "3", "two": "1"}
    assert "2 benchmarks on" in _plain(client.get("/p/kernel/one.Sort").text)


def test_a_module_with_more_benchmarks_than_a_page_has_says_how_many(tmp_path: Path) -> None:
    values = {f"one.time_{number}": steps((2, 0.001)) for number in range(201)}
    client = serve_plain(tmp_path / "store.db", {"p": write_plain(tmp_path / "results", values, newest=NOW)})
    assert "200 of 201 benchmarks on" in _plain(client.get("/p/kernel/one").text)


def test_one_machine_that_still_measures_keeps_the_others_an_alarm(tmp_path: Path) -> None:
    values = {"suite.Sort.time_it": steps((8, 0.001))}
    results = write_plain(tmp_path / "results", values, newest=NOW - timedelta(days=200), machines={"gone": {}})
    more = write_plain(tmp_path / "more", values, newest=NOW - timedelta(hours=3), machines={"here": {}})
    (more / "here").rename(results / "here")
    page = serve_plain(tmp_path / "store.db", {"p": results}).get("/p/").text
    assert "Archived" not in page
    assert "Overdue" in page


def test_rows_that_differ_only_in_environment_name_it(tmp_path: Path) -> None:
    values = {"suite.Sort.time_it": steps((12, 0.001), (12, 0.0015)), "suite.Copy.time_it": steps((24, 0.002))}
    both = write_plain(tmp_path / "both", values, newest=NOW, environments=("py3.11-numpy1", "py3.11-numpy2"))
    one = write_plain(tmp_path / "one", values, newest=NOW)
    client = serve_plain(tmp_path / "store.db", {"both": both, "one": one})
    moved = commit_hash(12)
    for path in (
        "regressions?state=all",
        f"commit/{moved}",
        f"compare?base={commit_hash(11)}&head={moved}&show=all",
        "?kernel=suite",
    ):
        page = client.get(f"/both/{path}").text
        for environment in ("py3.11-numpy1", "py3.11-numpy2"):
            assert f'<span class="ww-subject ww-long">in {environment}</span>' in page, path
        assert 'ww-long">in py3.11' not in client.get(f"/one/{path}").text, path


def test_improvements_have_a_list_of_their_own(tmp_path: Path) -> None:
    values = {
        "suite.Sort.time_it": steps((12, 0.002), (12, 0.001)),
        "suite.Copy.time_it": steps((12, 0.001), (12, 0.002)),
        "other.Still.time_it": steps((24, 0.001)),
    }
    client = serve_plain(tmp_path / "store.db", {"p": write_plain(tmp_path / "results", values, newest=NOW)})
    better = client.get("/p/regressions?direction=better").text
    assert "<h1>Improvements</h1>" in better
    assert "Sort" in better
    assert "Copy.time_it" not in _plain(better)
    assert re.search(r"−50\.\d % faster", _plain(better))
    worse = client.get("/p/regressions").text
    assert "Copy.time_it" in _plain(worse)
    assert "Sort" not in worse
    assert "direction=better" in worse
    assert "Sort" not in client.get("/p/regressions?direction=better&q=Copy").text
    assert "No improvement" not in better
    assert client.get("/p/regressions?direction=better&kind=drift").status_code == 200


def test_a_run_before_its_commits_date_is_remarked(tmp_path: Path) -> None:
    values = {"suite.Sort.time_it": steps((6, 0.001))}
    early = write_plain(tmp_path / "early", values, newest=NOW, started=timedelta(hours=-1))
    usual = write_plain(tmp_path / "usual", values, newest=NOW)
    client = serve_plain(tmp_path / "store.db", {"early": early, "usual": usual})
    for project, expected in (("early", True), ("usual", False)):
        (key,) = set(re.findall(rf"/{project}/series/([0-9a-f]+)\"", client.get(f"/{project}/series").text))
        for path in (f"series/{key}", f"series/{key}/point", f"commit/{commit_hash(5)}"):
            assert ("before the commit’s date" in client.get(f"/{project}/{path}").text) is expected, path


def test_machines_of_other_models_differ_by_what_was_measured(tmp_path: Path) -> None:
    values = {f"suite.Sort.time_{number}": steps((12, 0.001)) for number in range(6)}
    for each in values.values():  # far too noisy for any test
        each[:] = [value * (1 + 0.4 * ((place * 5) % 7)) for place, value in enumerate(each)]
    machines = {
        "7581d8f4": {"gpu": "NVIDIA NVIDIA L40S"},
        "a100": {"gpu": "NVIDIA A100"},
        "twin": {"gpu": "NVIDIA A100"},
    }
    results = write_plain(
        tmp_path / "results",
        values,
        newest=NOW,
        machines=machines,
        value_of=lambda value, machine, _: value * {"7581d8f4": 1.3, "a100": 1.0, "twin": 1.1}[machine],
    )
    client = serve_plain(tmp_path / "store.db", {"p": results})
    page = _plain(client.get("/p/compare?by=machine&base=a100&head=7581d8f4&show=all", follow_redirects=True).text)
    assert "Inconclusive" not in page
    assert "more run" not in page
    assert "Worse 6" in page
    assert "7581d8f4 NVIDIA L40S against a100" in page
    alike = _plain(client.get("/p/compare?by=machine&base=a100&head=twin&show=all", follow_redirects=True).text)
    assert "Inconclusive" in alike
    assert "too noisy to compare" in alike
    assert not [count for count in re.findall(r"(\d+) more runs? of each", alike) if int(count) > 30]


def test_a_gpu_in_machine_json_is_named_on_every_page_of_its_machine(tmp_path: Path) -> None:
    details = {"gpu": "NVIDIA NVIDIA RTX PRO 6000", "ram": "62GB", "python": "/opt/venv/bin/python3", "cpu": "Xeon"}
    values = {"suite.Sort.time_it": steps((6, 0.001))}
    results = write_plain(
        tmp_path / "results", values, newest=NOW, machines={"7581d8f4": details, "nvidia-l40s": {"gpu": "NVIDIA L40S"}}
    )
    client = serve_plain(tmp_path / "store.db", {"p": results})
    listing = _plain(client.get("/p/machines").text)
    assert "GPU NVIDIA RTX PRO 6000" in listing
    assert "NVIDIA NVIDIA" not in listing
    assert "gpu" not in listing.replace("GPU", "")
    assert "Memory 62.0 GB" in listing
    assert "Python’s path /opt/venv/bin/python3" in listing
    assert "NVIDIA RTX PRO 6000 · Xeon" in _plain(client.get("/p/machines/7581d8f4").text)
    for path in ("?kernel=suite", "compare?by=machine"):
        page = _plain(client.get(f"/p/{path}", follow_redirects=True).text)
        assert "NVIDIA RTX PRO 6000" in page, path
        assert "NVIDIA L40S" not in page, path  # its name states it


@pytest.mark.parametrize(
    ("details", "gpu"),
    [
        ({"gpu": "NVIDIA NVIDIA L40S"}, "NVIDIA L40S"),
        ({"GPU": "AMD amd MI300X"}, "AMD MI300X"),
        ({"gpu_name": "NVIDIA H200"}, "NVIDIA H200"),
        ({"gpu": " "}, None),
        ({"cpu": "Xeon"}, None),
        ({"gpu": "Tesla T4, Tesla T4"}, "Tesla T4, Tesla T4"),
    ],
)
def test_a_gpus_name_has_no_word_twice(details: dict[str, str], gpu: str | None) -> None:
    assert gpu_of(details) == gpu


@pytest.mark.parametrize(
    ("ram", "os", "shown"),
    [
        ("62GB", "Linux", "62.0 GB"),
        ("62 GiB", "Linux", "66.6 GB"),
        ("65831472", "Linux 6.1", "67.4 GB"),
        ("512 MB", "", "512 MB"),
        ("plenty", "", "plenty"),
        ("1.2.3GB", "", "1.2.3GB"),
    ],
)
def test_memory_is_in_one_unit_however_it_was_written(ram: str, os: str, shown: str) -> None:
    assert dict(further_facts({"ram": ram, "os": os}))["Memory"] == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("91900", "9.19.0"),
        ("91002", "9.10.2"),
        ("8902", "8.9.2"),
        ("8500", "8.5.0"),
        ("9.19", "9.19"),
        ("", ""),
        ("919", "919"),
    ],
)
def test_cudnns_number_is_a_version(number: str, shown: str) -> None:
    assert software_version("cudnn", number) == shown


def test_what_was_recorded_at_a_commit_is_folded_by_kernel(tmp_path: Path) -> None:
    values = {f"kernel{kernel}.Suite.time_{number}": steps((4, 0.001)) for kernel in range(30) for number in range(20)}
    client = serve_plain(tmp_path / "store.db", {"p": write_plain(tmp_path / "results", values, newest=NOW)})
    address = f"/p/commit/{commit_hash(3)}"
    page = client.get(address).text
    recorded = page[page.index("recorded-heading") :]
    assert len(re.findall(r'<details class="ww-recorded">', recorded)) == 30
    assert recorded.count("<tr>") <= 30 * 9
    assert "All 20 series of kernel7" in _plain(recorded)
    one = client.get(f"{address}?kernel=kernel7").text
    assert all(f"kernel7.<wbr>Suite.<wbr>time_<wbr>{number}<" in one for number in range(20))
    assert "kernel8" not in one[one.index("recorded-heading") :]
    found = client.get(f"{address}?q=kernel7.Suite.time_1").text
    assert '<details class="ww-recorded" open>' in found


def test_facts_of_a_machine_in_machine_json_alone_are_known(tmp_path: Path) -> None:
    results = write_plain(tmp_path / "results", {"suite.Sort.time_it": steps((6, 0.001))}, newest=NOW)
    (results / "box" / "machine.json").write_text(json.dumps({"machine": "box", "gpu": "NVIDIA L40S", "version": 1}))
    client = serve_plain(tmp_path / "store.db", {"p": results})
    assert "GPU NVIDIA L40S" in _plain(client.get("/p/machines").text)


@pytest.mark.parametrize("width", [390, 800, 1440])
def test_lists_of_changes_have_the_same_columns_and_room_for_the_kind(
    tmp_path: Path, new_tab: Callable[..., Tab], width: int
) -> None:
    values = {
        "suite.Sort.time_it": steps((12, 0.002), (12, 0.003)),
        "suite.a_very_long_module_name.AndAClassWithALongName.time_what_takes_long": steps((6, 2e-6), (18, 8.5e-3)),
    }
    results = write_plain(tmp_path / "results", values, newest=NOW)
    client = serve_plain(tmp_path / "store.db", {"p": results})
    with serving_app(client.application) as url:
        tab = new_tab(width)
        for path in ("regressions?state=all", f"commit/{commit_hash(12)}", f"commit/{commit_hash(6)}"):
            tab.open(f"{url}/p/{path}")
            tables = tab.page.evaluate(
                """[...document.querySelectorAll('.ww-moved')].map(t => [...t.querySelectorAll('thead th')].map(h =>
                   Math.round(h.getBoundingClientRect().left)))"""
            )
            assert tables
            assert len({tuple(lefts) for lefts in tables}) == 1
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
            heights = tab.page.evaluate("[...document.querySelectorAll('.ww-moved tbody tr')].map(r => r.clientHeight)")
            assert max(heights) < (400 if width < 768 else 130)
            over = tab.page.evaluate(
                """[...document.querySelectorAll('.ww-moved tbody td')].filter(c => c.scrollWidth > c.clientWidth + 1)
                   .map(c => c.textContent)"""
            )
            assert over == []
