"""Latency of pages under load: requests over several connections on `warpwatch serve`.

    python -m tools.load_pages history.db --requests 200

Several addresses of each page are requested in turn, by default over 20 connections at once. *first*: the server's time
for the slowest of the addresses when it is requested for the first time, alone; the server's cache is filled then.
*server*: wall time from when a thread takes a request up to its answer, as `Server-Timing` states it; waiting for the
other threads included, waiting for a free thread not. *client*: the whole time that a client waits: with 20 connections
about the time for 20 requests. *cpu*: processor time of the server's thread, which other work on the machine hardly
changes.
"""

import gzip
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click

LIMIT_MS = 300.0  # of the 95th percentile of the server's time
_OF_A_PAGE = 20  # addresses at most
_TIMES = re.compile(r"app;dur=([\d.]+), cpu;dur=([\d.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One page under load; times in milliseconds."""

    page: str
    addresses: int
    requests: int
    first_ms: float
    server_p50_ms: float
    server_p95_ms: float
    client_p95_ms: float
    cpu_mean_ms: float
    cpu_p95_ms: float
    requests_per_s: float
    largest: int  # bytes of an answer, compressed
    refused: int  # answers other than 200


@click.command()
@click.argument("database", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--requests", "count", default=200, show_default=True, help="For each page.")
@click.option("--connections", default=20, show_default=True)
@click.option("--only", default="", help="Pages whose name contains this.")
@click.option("--threads", help="Of the server, if not its default.")
@click.option("--json", "as_json", is_flag=True)
def main(database: Path, count: int, connections: int, only: str, threads: str | None, as_json: bool) -> None:
    """Load every page of the store's newest project; exit with 1 if one exceeds its limit."""
    results = []
    with _serving(database, threads) as url:
        for page, paths in _addresses(url).items():
            if only in page:
                results.append(_load(url, page, paths, count, connections))
                if not as_json:
                    click.echo(_line(results[-1]))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in results], indent=1))
    beyond = [one.page for one in results if one.server_p95_ms > LIMIT_MS or one.refused]
    if beyond:
        click.echo(f"beyond the limit, or refused: {', '.join(beyond)}", err=True)
        sys.exit(1)


@contextmanager
def _serving(database: Path, threads: str | None) -> Iterator[str]:
    command = [sys.executable, "-u", "-c", "from warpwatch.ci.cli import main; main()", "serve"]
    command += ["--threads", threads] if threads is not None else []
    with subprocess.Popen(
        [*command, "--database", f"sqlite:///{database.resolve()}", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "WARPWATCH_REQUESTS_PER_MINUTE": "0"},
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            address = re.search(r"(http://\S+)/", line)
            if not address:
                raise click.ClickException(f"the server did not start: {line}{process.stdout.read()}")
            yield address[1]
        finally:
            process.terminate()


def _addresses(url: str) -> Mapping[str, Sequence[str]]:
    """Addresses by page, from links, pages of lists, and filters."""
    _, front = _get(url + "/")
    project = _matches(r'class="ww-tabs".*?href="(/[^"/]+)/regressions"', front) or _matches(
        r'href="(/[^"/]+)/"', front
    )
    root = project[0]
    series: list[str] = []
    for number in (1, 40, 80, 120):
        series += _matches(rf'href="({root}/series/[0-9a-f]+)"', _get(f"{url}{root}/series?page={number}")[1])[:5]
    commits = _matches(rf'href="({root}/commit/[0-9a-f]+)"', _get(f"{url}{root}/commits")[1])
    hashes = [path.rpartition("/")[2] for path in commits]
    words = ("a", "time", "track mem", "2048", "latency", hashes[0][:6], "nothingatall", "tmie", "er")
    near = list(zip(hashes[1:], hashes, strict=False))[:: max(1, len(hashes) // 8)]
    pages = {
        "overview": [f"{root}/", f"{root}/?q=a", f"{root}/?page=2", f"{root}/?verdict=regressed"],
        "series list": [f"{root}/series", f"{root}/series?page=9", *(f"{root}/series?q={_quoted(w)}" for w in words)],
        "series": series,
        "series history (API)": [f"/api/projects{path}/history" for path in series],
        "roofline": [f"{root}/roofline", f"{root}/roofline?shapes=all&dtype="],
        "regressions": [
            f"{root}/regressions",
            f"{root}/regressions?period=365",
            f"{root}/regressions?q=time",
            f"{root}/regressions?page=2",
            f"{root}/regressions?kind=drift",
        ],
        "compare": [f"{root}/compare?base={base}&head={head}" for base, head in near],
        "commits": [f"{root}/commits"],
        "commit": commits[:: max(1, len(commits) // 10)],
        "machines": [f"{root}/machines"],
        "machine": _matches(rf'href="({root}/machines/[^"]+)"', _get(f"{url}{root}/machines")[1]),
        "search": [f"{root}/search?q={_quoted(word)}" for word in words],
        "search, live": [f"{root}/search?q={_quoted(word)}&live=1" for word in words],
    }
    return {page: paths[:_OF_A_PAGE] for page, paths in pages.items()}


def _load(url: str, page: str, paths: Sequence[str], count: int, connections: int) -> Loaded:
    asked = [(path, _first(url + path)) for path in paths]
    paths = [path for path, first in asked if first is not None]
    firsts = [first for _, first in asked if first is not None]
    numbers = iter(range(count))
    answers: list[tuple[int, float, str, int]] = []  # status, client's time, Server-Timing, bytes

    def ask() -> None:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=120)
        for number in numbers:
            begun = time.perf_counter()
            connection.request("GET", paths[number % len(paths)], headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            size = len(answer.read())
            took_ms = (time.perf_counter() - begun) * 1000
            answers.append((answer.status, took_ms, answer.headers.get("Server-Timing", ""), size))
        connection.close()

    clients = [threading.Thread(target=ask) for _ in range(connections)]
    begun = time.perf_counter()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    took_s = time.perf_counter() - begun
    times = [(float(match[1]), float(match[2])) for _, _, timing, _ in answers if (match := _TIMES.search(timing))]
    server, cpu = sorted(wall for wall, _ in times), sorted(own for _, own in times)
    return Loaded(
        page=page,
        addresses=len(paths),
        requests=len(answers),
        first_ms=max(firsts),
        server_p50_ms=_quantile(server, 0.5),
        server_p95_ms=_quantile(server, 0.95),
        client_p95_ms=_quantile(sorted(took for _, took, _, _ in answers), 0.95),
        cpu_mean_ms=statistics.fmean(cpu),
        cpu_p95_ms=_quantile(cpu, 0.95),
        requests_per_s=len(answers) / took_s,
        largest=max(size for *_, size in answers),
        refused=sum(status != 200 for status, *_ in answers),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Smallest value that at least this share of the values does not exceed."""
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def _get(address: str) -> tuple[float, str]:
    """The server's own time for an address in milliseconds, and the text; redirects are followed."""
    request = urllib.request.Request(address, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        body = answer.read()
        match = re.search(r"app;dur=([\d.]+)", answer.headers.get("Server-Timing", ""))
        plain = gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body
    return float(match[1]) if match else float("nan"), plain.decode()


def _first(address: str) -> float | None:
    """The server's time for an address; None if there is nothing."""
    try:
        return _get(address)[0]
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return None


def _matches(pattern: str, text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(pattern, text, re.DOTALL)))


def _quoted(words: str) -> str:
    return urllib.parse.quote_plus(words)


def _line(one: Loaded) -> str:
    return (
        f"{one.page:14} first {one.first_ms:7.1f} ms  server p50 {one.server_p50_ms:6.1f}"
        f" p95 {one.server_p95_ms:6.1f} ms"
        f"  client p95 {one.client_p95_ms:6.0f} ms  cpu mean {one.cpu_mean_ms:6.1f} p95 {one.cpu_p95_ms:6.1f} ms"
        f"  {one.requests_per_s:5.0f} /s  {one.largest / 1000:6.1f} kB"
        + (f"  {one.refused} REFUSED" if one.refused else "")
    )


if __name__ == "__main__":
    main()
