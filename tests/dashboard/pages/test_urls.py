"""Addresses made outside a request are those the application serves."""

from pathlib import Path

import pytest
from flask import url_for

from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.urls import commit_address


@pytest.mark.parametrize("project", ["warpwatch", "owner/name", "a ~ b", "100 %?#", "é"])
def test_a_message_links_to_the_commit_page(project: str, tmp_path: Path) -> None:
    app = create_app(Settings(database=str(tmp_path / "history.db")))
    with app.test_request_context():
        served = url_for("commits.show", project=project, prefix="a" * 40)
    assert commit_address("https://perf.example.org/", project, "a" * 40) == f"https://perf.example.org{served}"
    app.extensions["store"].close()
