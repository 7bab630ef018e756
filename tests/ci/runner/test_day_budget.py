"""The time that confirmations may take on a GPU in a day."""

import time
from pathlib import Path

import pytest

from warpwatch.ci.host_lock import HostLockError
from warpwatch.ci.runner.confirmation import DayBudget, day_budget


def test_spent_time_counts_for_every_process_of_the_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_LOCK_FOLDER", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    budget = day_budget(2)
    assert budget.path == tmp_path / "warpwatch-machine.confirmations"
    assert budget.remaining_s() == 120
    budget.spend(50)
    day_budget(2).spend(100)
    assert budget.remaining_s() == pytest.approx(-30)
    assert budget.path.stat().st_mode & 0o777 == 0o666  # jobs run as users of their own
    tomorrow = time.time() + 24 * 3600
    monkeypatch.setattr(time, "time", lambda: tomorrow)
    assert budget.remaining_s() == 120


@pytest.mark.parametrize("content", ["", "{", "[]", '{"day": "today"}', '{"seconds": null, "day": 0}'])
def test_a_damaged_file_counts_as_a_new_day_s(tmp_path: Path, content: str) -> None:
    path = tmp_path / "spent"
    path.write_text(content)
    assert DayBudget(path=path, seconds=60).remaining_s() == 60


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    budget = DayBudget(path=tmp_path / "none" / "spent", seconds=60)
    with pytest.raises(HostLockError, match=r"cannot open .*/none/spent: No such file or directory; see WARPWATCH_"):
        budget.spend(1)
