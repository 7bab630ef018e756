"""All that one commit did, on its page."""

import re
from collections.abc import Iterator
from html import unescape

import pytest
from flask.testing import FlaskClient

from warpwatch.dashboard.app import create_app
from warpwatch.dashboard.check import check
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.annotations import add_annotation, delete_annotation
from warpwatch.dashboard.verdict import Verdict

THRESHOLD = 0.02


@pytest.fixture(scope="module")
def client(history_store: Settings) -> FlaskClient:
    return create_app(history_store).test_client()


@pytest.fixture(scope="module")
def store(history_store: Settings) -> Iterator[Store]:
    opened = Store(history_store.database)
    yield opened
    opened.close()


def test_a_commits_page_begins_with_its_verdict_and_says_all_it_did(
    client: FlaskClient, store: Store, addresses: dict[str, str]
) -> None:
    slow = addresses["slow_commit"]
    note = add_annotation(store, "kernels", slow, author="Ada", text="driver <b>updated</b>", now_ms=1_770_000_000_000)
    page = client.get(f"/kernels/commit/{slow}").text
    delete_annotation(store, "kernels", note)
    parts = ("against", "What moved here", "Compiled code against", "Measured on", "Notes", "Recorded here")
    order = [page.index(said) for said in parts]
    assert order == sorted(order)
    commits = queries.commits(store, "kernels")
    base = next(commits[n + 1] for n, commit in enumerate(commits) if commit.hash == slow)
    judged = check(store, "kernels", base, next(c for c in commits if c.hash == slow), threshold=THRESHOLD)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for verdict in (Verdict.UNCHANGED, Verdict.MISSING):
        if judged.count(verdict):
            assert f"{judged.count(verdict)} {verdict.value}" in text
    assert "96 → 128" in page
    assert "Tesla" not in page.split("Measured on")[0]
    assert {"runner-t4", "nvidia-h200", "550.54.15", "580.65.06"} <= set(re.findall(r"[\w.-]+", text))
    assert "driver &lt;b&gt;updated&lt;/b&gt;" in page
    assert f"compare?base={base.hash}&amp;head={slow}" in page


def test_what_failed_at_a_commit_stands_with_its_reason(client: FlaskClient, store: Store) -> None:
    newest = queries.commits(store, "kernels", limit=1)[0]
    page = unescape(client.get(f"/kernels/commit/{newest.hash}").text)
    assert "failed: CompilationError: shared memory, 98304 bytes wanted, 65536 there" in page
    first = queries.commits(store, "kernels")[-1]
    assert "nothing to compare with" in client.get(f"/kernels/commit/{first.hash}").text
