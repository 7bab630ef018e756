"""Where PyTorch's CPU build comes from: its own index where that answers, else pip's."""

import importlib.metadata
import re
import runpy
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
options = runpy.run_path(str(ROOT / "kernels/building/torch_index.py"))["options"]


class _Index(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/whl/cpu/torch/" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_index_that_answers_is_used_too(index: str) -> None:
    assert options(f"{index}/whl/cpu") == ["--extra-index-url", f"{index}/whl/cpu"]


def test_an_index_without_pytorch_or_without_a_server_is_left_out(index: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        closed_port = f"http://127.0.0.1:{closed.getsockname()[1]}"
    assert options(f"{index}/another") == options(f"{closed_port}/whl/cpu") == []


def test_a_host_that_takes_connections_and_never_answers_is_left_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert options(f"http://127.0.0.1:{silent.getsockname()[1]}/whl/cpu", patience_s=0.05) == []


@pytest.mark.parametrize(("has_gpu", "requests_it"), [("yes", False), ("", True)])
def test_only_a_machine_without_a_gpu_requests_the_cpu_build(has_gpu: str, requests_it: bool) -> None:
    assert ("torch_index.py" in _set_up(has_gpu)) is requests_it


def test_the_pinned_triton_is_the_one_that_the_pinned_pytorch_of_pypi_requires() -> None:
    """Else pip finds no versions where only PyPI is reachable. The CPU build of PyTorch itself requires no Triton."""
    pins = dict(re.findall(r"(torch|triton)==(\S+)", _set_up("")))
    assert pins == {"torch": "2.13.0", "triton": "3.7.1"}  # https://pypi.org/pypi/torch/2.13.0: triton==3.7.1
    required = [Requirement(each) for each in importlib.metadata.requires("torch") or ()]
    assert all(pins["triton"] in each.specifier for each in required if each.name == "triton")


def _set_up(has_gpu: str) -> str:
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", f"HAS_GPU={has_gpu}", ".venv/.torch"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
