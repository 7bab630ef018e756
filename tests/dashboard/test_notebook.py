"""The example notebook runs on results that the repository ships."""

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.golden.histories import write_h200_excerpt
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.store import Store

HOUSE = Path(__file__).resolve().parents[2]
NOTEBOOK = HOUSE / "dashboard/examples/history.ipynb"


def test_the_example_notebook_runs_from_top_to_bottom(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_results(sqlite_store, open_folder(write_h200_excerpt(tmp_path / "h200"), project="warpwatch"))
    monkeypatch.setenv("WARPWATCH_DATABASE", sqlite_store.url.render_as_string())
    notebook, place = nbformat.read(NOTEBOOK, as_version=4), {"metadata": {"path": str(tmp_path)}}
    # Over unix sockets: of ports that are free now, another process may have taken one when the kernel has started.
    with TemporaryDirectory(prefix="kernel-") as sockets:
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/socket")
        NotebookClient(notebook, km=kernel, timeout=600, startup_timeout=300, resources=place).execute()
    shown = [cell.outputs[-1].data for cell in notebook.cells if cell.cell_type == "code"]
    rows, statuses, levels, figure = shown
    assert "cuda-" in rows["text/plain"]
    assert "unavailable" in statuses["text/plain"]
    assert "cuda-fp16-b1-h32-s2048-d128-causal" in levels["text/plain"]
    drawn = figure["application/vnd.plotly.v1+json"]
    assert {"warpwatch", "SDPA", "Triton"} <= {trace.get("name") for trace in drawn["data"]}


def test_the_example_notebook_is_kept_without_outputs() -> None:
    """They would be of a store that others do not have, and become outdated."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
