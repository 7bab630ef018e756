"""`python -m tools.screenshots`: the pictures of the READMEs and their tour, of the recorded results.

Imports `perf_suite/results` into a database of its own, serves it, and photographs pages with Chromium. Needs
playwright and Pillow: `pip install playwright pillow`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from requests import RequestException, get

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "dashboard" / "screenshots"
_PROJECT = "warpwatch"
_WIDTH, _HEIGHT = 1440, 1450
_PAGE_MS = 120_000.0  # the first page of a machine after an import computes its smallest detectable changes
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_TOUR = ("overview", "series", "regressions", "compare", "roofline", "kernel")
_TOUR_WIDTH, _TOUR_HEIGHT, _SECONDS_A_PAGE, _COLORS = 960, 600, 2.5, 96


def main() -> None:
    """Write every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=PICTURES)
    folder: Path = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch, _dashboard(Path(scratch)) as address:
        _photograph(address, folder)
    _tour(folder)


@contextmanager
def _dashboard(scratch: Path) -> Iterator[str]:
    """A dashboard of the recorded results; its address."""
    environment = {**os.environ, "WARPWATCH_DATABASE": f"sqlite:///{scratch / 'pictures.db'}"}
    command = [sys.executable, "-m", "warpwatch.ci.cli"]
    subprocess.run(
        [*command, "import", "perf_suite/results", "--project", _PROJECT, "--repository", "."],
        cwd=ROOT,
        env=environment,
        check=True,
    )
    subprocess.run([*command, "policy", "keep", "warpwatch.toml", "--project", _PROJECT], cwd=ROOT, env=environment)
    with subprocess.Popen(
        [*command, "serve", "--port", "0"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            found = next(filter(None, (re.search(r"http://127\.0\.0\.1:\d+", line) for line in server.stdout)))
            _wait_for(found.group())
            yield found.group()
        finally:
            server.terminate()


def _wait_for(address: str) -> None:
    for _ in range(60):
        try:
            if get(address, timeout=60).ok:
                return
        except RequestException:
            pass
        time.sleep(0.5)
    sys.exit(f"no page at {address}")


def _addresses(address: str) -> Mapping[str, str]:
    """Page addresses by picture, the newest changes for those that show one."""
    home = f"{address}/{_PROJECT}"
    changes = get(f"{home}/regressions?direction=better", timeout=60).text
    series = re.search(rf"/{_PROJECT}/series/[0-9a-f]+", changes)
    assert series is not None, "the recorded results have no improvement"
    return {
        "overview": f"{home}/",
        "series": f"{address}{series.group()}",
        "regressions": f"{home}/regressions",
        "compare": f"{home}/compare?by=implementation",
        "roofline": f"{home}/roofline?machine=nvidia-h200",
        "kernel": f"{home}/kernel/flash_attention?machine=nvidia-h200",
        "machine": f"{home}/machines/nvidia-h200",
    }


def _photograph(address: str, folder: Path) -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            size: Any = {"width": _WIDTH, "height": _HEIGHT}
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            for name, url in _addresses(address).items():
                if scheme == "dark" and name != "overview":
                    continue
                response = page.goto(url, wait_until="networkidle", timeout=_PAGE_MS)
                if response is None or not response.ok:
                    sys.exit(f"{url} is no page")
                page.wait_for_timeout(1000)  # plotly draws after the data has come
                picture = folder / f"{name}{'-dark' if scheme == 'dark' else ''}.png"
                page.screenshot(path=picture)
                with Image.open(picture) as taken:
                    taken.convert("RGB").quantize(256).save(picture, optimize=True)


def _tour(folder: Path) -> None:
    """The top of each page, one after the other."""
    from PIL import Image

    frames = []
    for name in _TOUR:
        with Image.open(folder / f"{name}.png") as picture:
            scale = _TOUR_WIDTH / picture.width
            whole = picture.convert("RGB").resize(
                (_TOUR_WIDTH, round(picture.height * scale)), Image.Resampling.LANCZOS
            )
            frames.append(whole.crop((0, 0, _TOUR_WIDTH, _TOUR_HEIGHT)).quantize(_COLORS))
    frames[0].save(
        folder / "tour.gif",
        save_all=True,
        append_images=frames[1:],
        duration=round(1000 * _SECONDS_A_PAGE),
        loop=0,
        optimize=True,
    )


if __name__ == "__main__":
    main()
