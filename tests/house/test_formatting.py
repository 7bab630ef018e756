"""The formatter decides how code looks: no file opts out of it."""

from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
FOLDERS = ("dashboard", "ci", "tools", "tests/dashboard", "tests/ci", "tests/house", "tests/golden")
OPT_OUT = "# fmt" + ": "


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_code_is_kept_from_the_formatter(folder: str) -> None:
    found = [str(path.relative_to(HOUSE)) for path in (HOUSE / folder).rglob("*.py") if OPT_OUT in path.read_text()]
    assert found == []
