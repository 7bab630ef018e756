"""Cards of regressions and improvements: a chart of the step, its cause, the command that measures it again."""

import html
import re
from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from sqlalchemy import update

from tests.asv_results import AsvResults
from tests.stored import stored_history
from warpwatch.dashboard.model.changepoint import Regression
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.figures.inline_charts import STEP_CHART, step_chart

LIST = "/kernels/regressions"


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


@pytest.fixture(scope="module")
def store(history_store: Settings) -> Iterator[Store]:
    opened = Store(history_store.database)
    yield opened
    opened.close()


@pytest.mark.parametrize("path", [LIST, f"{LIST}?direction=better", f"{LIST}?state=all"])
def test_every_card_has_a_chart_with_its_levels_in_words(client: FlaskClient, path: str) -> None:
    page = client.get(path).text
    cards = re.split(r'<article |<section class="ww-card" ', page)[1:]
    assert cards
    for card in cards:
        (chart,) = re.findall(r'<svg class="ww-step .*?</svg>', card, re.S)
        assert 'role="img"' in chart
        assert re.search(r'aria-label="[^"]+ over \d+ commits: [^"]+ before [0-9a-f]{8}, [^"]+ from there on"', chart)
        assert "style=" not in chart


def test_a_card_says_its_cause_and_how_to_measure_it_again(client: FlaskClient, addresses: dict[str, str]) -> None:
    for path in (LIST, f"{LIST}/{addresses['card']}"):
        page = client.get(path).text
        assert "did not change, so the code is the likely cause." in page
        (command, *_) = re.findall(r'id="([\w-]+)-reproduce">(.*?)</code>', page)
        assert re.fullmatch(r"warpwatch gate [0-9a-f]{40} [0-9a-f]{40} --bench .*", html.unescape(command[1]))
        assert f'data-copy="#{command[0]}-reproduce"' in page


def test_both_directions_are_one_switch_apart_and_shared_alike(client: FlaskClient) -> None:
    for path, other in ((LIST, f"{LIST}?direction=better"), (f"{LIST}?direction=better", LIST)):
        page = client.get(path).text
        assert f'href="{other}">' in page
        (markdown,) = re.findall(r'<code id="share-markdown">(.*?)</code>', page, re.S)
        assert re.match(r"- \*\*(Slower|Faster|Larger|More|Fewer)\*\* ", markdown)
        for address in re.findall(r'<a href="(/api/[^"]+)">(?:CSV|JSON|All regressions as CSV)</a>', page):
            answer = client.get(html.unescape(address))
            assert answer.status_code == 200
            assert answer.get_data()


def test_the_api_lists_improvements(client: FlaskClient) -> None:
    items = client.get("/api/projects/kernels/regressions?direction=better").json["items"]
    assert items
    assert all(not item["change"]["is_worse"] for item in items)
    assert all(item["change"]["is_worse"] for item in client.get("/api/projects/kernels/regressions").json["items"])
    assert client.get("/api/projects/kernels/regressions?direction=sideways").status_code == 422


def test_the_chart_of_a_step_has_values_on_both_sides_within_its_box(store: Store, addresses: dict[str, str]) -> None:
    history = stored_history(store, addresses["slowed"])
    assert history is not None
    (change,) = history.changes
    one = Regression(series=history.series, change=change)
    (line, missing) = queries.step_lines(
        store, "kernels", [one, Regression(series=history.canaries[0].series, change=change)]
    )
    assert line is not None
    assert missing is not None  # of the canary, which was measured at that commit
    assert 0 < line.first < len(line.values)
    before, after = line.values[: line.first], line.values[line.first :]
    assert sum(after) / len(after) > sum(before) / len(before)
    assert len(line.baseline) == len(line.values)
    chart = step_chart(line, change)
    assert chart.before_y > chart.after_y  # slower is higher
    assert all(0 <= x <= STEP_CHART.width and 0 <= y <= STEP_CHART.height for x, y in chart.dots)


def test_a_confirmed_step_says_so_on_its_pages(asv: AsvResults, tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path_factory.mktemp('own') / 'own.db'}")
    asv.benchmark("suite.Bench.track_latency", unit="seconds")
    for number in range(20):
        row = asv.row([26.0 if number < 10 else 27.5], started_at=number + 1, spread=0.002)
        asv.commit(number, {"suite.Bench.track_latency": row})
    store = Store(settings.database)
    asv.load(store)
    with store.write("demo") as connection:
        connection.execute(update(schema.changepoint).values(is_confirmed=True))
    key = queries.find_series(store, "demo").series[0].key
    store.close()
    client = create_app(settings).test_client()
    series, listed = client.get(f"/demo/series/{key}").text, client.get("/demo/regressions").text
    assert "Confirmed by further runs of both commits in turns" in series
    for page in (series, listed):
        assert "· confirmed</span>" in page
        assert "measured again in turns and differ, so the code is the cause" in page
    (item,) = client.get("/api/projects/demo/regressions").json["items"]
    assert item["change"]["is_confirmed"] is True
