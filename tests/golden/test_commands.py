"""What commands print, as text, JSON and Markdown."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from syrupy.assertion import SnapshotAssertion

from tests.ci.reports.examples import FULL, QUIET
from tests.http_inbox import Inbox, listening
from tests.stored import copy_database
from warpwatch.ci.cli import main
from warpwatch.ci.gate.artefact_builder import write_artefact

COMMITS = ("0aec5df1", "787295a5")


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with listening() as server:
        yield server


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("check_table", ("check", "--project", "h200", *COMMITS)),
        ("check_json", ("check", "--project", "h200", *COMMITS, "--format", "json")),
        ("check_markdown", ("check", "--project", "h200", *COMMITS, "--format", "markdown")),
        ("check_regressed_json", ("check", "--project", "kernels", "main~8", "main", "--format", "json")),
        ("check_unknown_commit", ("check", "--project", "h200", "0aec5df1", "ffffffff")),
        ("report", ("report", "--project", "h200")),
        ("report_json", ("report", "--project", "kernels", "--json")),
        ("alert", ("alert", "--project", "kernels", "--to", "https://example.org/hook", "--dry-run")),
        ("digest", ("alert", "--digest", "--project", "kernels", "--dry-run")),
        ("export_csv", ("export", "--project", "kernels", "--format", "csv")),
        ("compare_commits", ("compare", "--project", "kernels", "main~8", "main")),
        ("compare_implementations", ("compare", "--project", "h200", "--by", "implementation", "baselines", "ours")),
        (
            "compare_machines_markdown",
            ("compare", "--project", "kernels", "--by", "machine", "nvidia-h200", "runner-t4", "--format", "markdown"),
        ),
        (
            "compare_unknown_machine",
            ("compare", "--project", "kernels", "--by", "machine", "nvidia-h200", "elsewhere"),
        ),
        ("compare_json", ("compare", "--project", "h200", *COMMITS, "--format", "json")),
    ],
)
def test_output(run: Callable[..., str], snapshot: SnapshotAssertion, name: str, arguments: tuple[str, ...]) -> None:
    lines = _rounded(run(*arguments)).splitlines()
    assert "\n".join(lines[:400]) == snapshot(name=name)


def test_webhook_payloads(
    database: str, repository: Path, tmp_path: Path, inbox: Inbox, snapshot: SnapshotAssertion
) -> None:
    """What `warpwatch alert` posts for both projects; of a copy of the store, in which it records that it did."""
    copy = copy_database(database, tmp_path / "copy.db")
    for project in ("h200", "kernels"):
        arguments = ["alert", "--project", project, "--to", inbox.url, "--database", copy]
        assert CliRunner().invoke(main, arguments).exit_code == 0
    assert _rounded(json.dumps(inbox.received, indent=1)) == snapshot


def _rounded(text: str) -> str:
    """Numbers of more than six digits after the point: as far as the mathematics of all machines agree."""
    return re.sub(r"-?\d+\.\d{7,}(?:e-?\d+)?", lambda found: f"{float(found.group()):.6g}", text)


def test_gate_artefact(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    for name, artefact in {"full": FULL, "quiet": QUIET}.items():
        path = tmp_path / f"{name}.json"
        write_artefact(artefact, path)
        assert json.dumps(json.loads(path.read_text()), indent=1) == snapshot(name=name)
