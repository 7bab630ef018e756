"""Commits that misbehave, for the suite's processes to import."""

import pytest


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A commit whose warpwatch.kernels is the given source."""

    def install(source):
        kernels = tmp_path / "warpwatch" / "kernels"
        kernels.mkdir(parents=True)
        (kernels / "__init__.py").write_text(f"{source}\ndef extension_path(): return __file__\n")
        monkeypatch.syspath_prepend(tmp_path)  # of this process alone, as asv does it

    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    return install
