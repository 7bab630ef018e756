"""What an alert says of a recorded history: who is to blame, what the compiler made of it, whose it is."""

from datetime import UTC, datetime

import pytest

from tests.dashboard.pages.recorded import write_recorded
from warpwatch.ci.alerts.alert_content import Message
from warpwatch.ci.alerts.regression_scan import scan_regressions
from warpwatch.ci.alerts.scan import new_scan
from warpwatch.ci.policy.policy_model import AlertsTable
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store, queries


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> list[Message]:
    """Of attention that got slower on one machine with more registers."""
    folder = tmp_path_factory.mktemp("recorded")
    repository, results = write_recorded(folder)
    store = Store(str(folder / "history.db"))
    import_results(store, open_folder(results, project="demo", repository=repository))
    analyse(store)
    project = queries.project(store, "demo")
    assert project is not None
    policy = AlertsTable(dashboard="https://perf.example.org", recent_days=1000)
    scan = new_scan(store, project, policy, (), now=datetime.now(UTC), dry_run=True)
    scan_regressions(scan)
    store.close()
    return scan.result.messages


def test_an_alert_carries_the_compiled_code_s_difference(messages: list[Message]) -> None:
    (message,) = [each for each in messages if each.payload["machine"] == "runner-t4"]
    assert "flash_attention_kernel" in message.text
    assert "registers 96 → 128" in message.text
    assert any("registers 96 → 128" in line for line in message.payload["compiled_code"])
    assert "First bad commit" in message.text
    assert "Reproduce: `warpwatch gate" in message.text
    assert message.text.rstrip().endswith(message.payload["first_bad_commit"]["hash"])


def test_what_others_wrote_is_no_markdown(messages: list[Message]) -> None:
    """A subject that mentions a user notifies no one, and a template's <half> is no HTML."""
    (message,) = [each for each in messages if each.payload["machine"] == "runner-t4"]
    subject = message.payload["first_bad_commit"]["subject"]
    assert f"“`{subject}`”" in message.text
    lines = [line for line in message.text.splitlines() if line.startswith("- ")]
    assert len(lines) >= 2
    assert all(line.startswith("- `") for line in lines)
