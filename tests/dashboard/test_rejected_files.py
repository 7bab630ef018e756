"""Files that an import rejected are listed on the machines' page, for users who may act on them."""

import json
from pathlib import Path

from click.testing import CliRunner

from tests.asv_results import AsvResults
from tests.dashboard.pages.browsing import local_client
from warpwatch.dashboard.cli.import_ import import_
from warpwatch.dashboard.settings import AccessSettings, Settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.rejected_files import record_rejected_files, rejected_files
from warpwatch.dashboard.web.app import create_app


def _import(folder: Path, database: str) -> int:
    return CliRunner().invoke(import_, [str(folder), "--project", "demo", "--database", database]).exit_code


def _page(database: str, **access: str) -> str:
    app = create_app(Settings(database=database, access=AccessSettings(**access)))  # type: ignore[arg-type]
    page = local_client(app).get("/demo/machines").text
    app.extensions["store"].close()
    return page


def test_a_rejected_file_is_listed_with_its_reason_until_it_is_imported(asv: AsvResults, database: str) -> None:
    asv.benchmark("suite.Time.time_it")
    asv.commit(1, {"suite.Time.time_it": asv.row([1e-3])})
    broken = asv.commit(2, {"suite.Time.time_it": asv.row([1e-3])})
    whole = broken.read_text()
    broken.write_text(whole[:-20])
    assert _import(asv.folder, database) == 3
    page = _page(database, served_on="127.0.0.1")
    assert broken.name in page
    assert "not JSON" in page or "JSON" in page
    assert str(asv.folder) in page
    # An anonymous reader does not learn the names of the server's folders.
    page = _page(database)
    assert "1 file could not be read" in page
    assert str(asv.folder) not in page
    assert broken.name not in page
    broken.write_text(json.dumps(json.loads(whole)))
    assert _import(asv.folder, database) == 0
    assert "Rejected files" not in _page(database, served_on="127.0.0.1")


def test_each_source_has_its_own_and_the_newest_counts(store: Store, asv: AsvResults) -> None:
    record_rejected_files(store, "demo", "/a", ["a.json: empty"], now_ms=1)
    assert rejected_files(store, "demo") == ()  # nothing went in, so there is no project
    asv.benchmark("suite.Time.time_it")
    asv.commit(1, {"suite.Time.time_it": asv.row([1e-3])})
    asv.load(store)
    record_rejected_files(store, "demo", "/a", ["a.json: empty"], now_ms=1)
    record_rejected_files(store, "demo", "/b", [f"{number}.json: cut off" for number in range(250)], now_ms=2)
    record_rejected_files(store, "demo", "/a", ["c.json: empty", "d.json: empty"], now_ms=3)
    found = rejected_files(store, "demo")
    assert [(each.source, len(each.messages)) for each in found] == [("/a", 2), ("/b", 100)]
    assert found[0].messages == ("c.json: empty", "d.json: empty")
    assert found[1].messages[-1] == "… and 151 more files"
    record_rejected_files(store, "demo", "/b", [], now_ms=4)
    assert [each.source for each in rejected_files(store, "demo")] == ["/a"]
