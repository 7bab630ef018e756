"""How long each page takes the server while others are asked for too: wrk's connections on `warpwatch serve`.

    python -m warpwatch.dashboard.trials.load_pages history.db --seconds 5

wants wrk (apt-get install wrk). Of each page several addresses are asked in turn, by default over 20 connections at
once, in two loads. In the first the same addresses come again and again, so that their answers are *kept*. In the
second each request's address has a number of its own behind it, which pages make nothing of: no answer can be kept for
the next, and all are *made*, by the server as it comes.

The *server time* is what the server says in `Server-Timing`: wall time from when a thread takes a request up to
its answer, waiting for the other threads included, waiting for a free thread not. Beside it is wrk's own time, which
has that as well: with 20 connections it is the time for 20 requests, whatever one of them takes. *cpu* is the processor
time that the server's thread took, which other work on the machine does not change. Each address is asked once before,
alone, and that time is told as *first*: what pages remember until the next import is worked out then, where the server
has not done so by itself, which is waited for.
"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

PAGE_LIMIT_MS, DATA_LIMIT_MS = 100.0, 50.0  # of the 95th percentile
_KEPT, _MADE = "kept", "made"
_LOOK_EVERY_S, _IDLE_S = 3.0, 0.1
_OF_A_PAGE = 20  # addresses at most
_ASK = """
local paths, asked, first = {}, 0, nil
told = {}
init = function(arguments)
  for path in io.lines(arguments[1]) do paths[#paths + 1] = path end
  first = tonumber(arguments[2])
end
request = function()
  local path = paths[asked % #paths + 1]
  asked = asked + 1
  if first then
    path = path .. (string.find(path, "?", 1, true) and "&" or "?") .. string.format("nth=%.0f", first + asked)
  end
  return wrk.format("GET", path, {["Accept-Encoding"] = "gzip"})
end
response = function(status, headers, body)
  local timing = headers["Server-Timing"] or ""
  local time, cpu = string.match(timing, "app;dur=([%d.]+)") or "nan", string.match(timing, "cpu;dur=([%d.]+)") or "nan"
  told[#told + 1] = status .. " " .. time .. " " .. cpu .. " " .. #body
end
done = function(summary, latency, requests)
  for _, thread in ipairs(threads) do
    for _, line in ipairs(thread:get("told")) do print("told " .. line) end
  end
  print(string.format("waited %f", latency:percentile(95) / 1000))
end
threads = {}
setup = function(thread) threads[#threads + 1] = thread end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One page under one load; times in milliseconds."""

    page: str
    answers: str  # "kept" or "made"
    first_ms: float  # the slowest of the first requests
    p50_ms: float
    p95_ms: float
    cpu_p95_ms: float  # of the server's thread
    waited_ms: float  # 95th percentile at wrk
    requests_per_s: float
    largest: int  # bytes of an answer, compressed
    refused: int  # answers other than 200


@click.command()
@click.argument("database", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--seconds", default=5, show_default=True, help="Load on each page.")
@click.option("--connections", default=20, show_default=True)
@click.option("--only", default="", help="Pages whose name has this.")
@click.option("--threads", help="Of the server, other than it comes with.")
@click.option("--json", "as_json", is_flag=True)
def main(database: Path, seconds: int, connections: int, only: str, threads: str | None, as_json: bool) -> None:
    """Load every page of the store's newest project; exit status 1 if one is beyond its limit."""
    results = []
    with _serving(database, threads) as url:
        for page, paths in _addresses(url).items():
            if only not in page:
                continue
            for answers in (_KEPT, _MADE):
                result = _load(url, page, paths, answers, seconds, connections)
                results.append(result)
                if not as_json:
                    click.echo(_line(result))
    if as_json:
        click.echo(json.dumps([{name: getattr(one, name) for name in one.__slots__} for one in results], indent=1))
    beyond = [f"{one.page} ({one.answers})" for one in results if one.p95_ms > _limit(one.page) or one.refused]
    if beyond:
        click.echo(f"beyond its limit, or refused: {', '.join(beyond)}", err=True)
        sys.exit(1)


@contextmanager
def _serving(database: Path, threads: str | None) -> Iterator[str]:
    command = [sys.executable, "-u", "-c", "from warpwatch.dashboard.serving import serve; serve()"]
    command += ["--threads", threads] if threads is not None else []
    with subprocess.Popen(
        [*command, "--database", f"sqlite:///{database.resolve()}", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"(http://\S+)/", line)
            if not found:
                raise click.ClickException(f"the server did not start: {line}{process.stdout.read()}")
            _settle(process.pid)
            yield found[1]
        finally:
            process.terminate()


def _settle(server: int) -> None:
    """Waits until the process has nothing to do by itself any more: what pages remember is worked out by then."""
    worked, before = _worked_s(server), -1.0
    while worked - before > _IDLE_S:
        time.sleep(_LOOK_EVERY_S)
        worked, before = _worked_s(server), worked


def _worked_s(process: int) -> float:
    """Its processor time, as Linux tells it."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _addresses(url: str) -> Mapping[str, Sequence[str]]:
    """What to ask for, by page, as a reader finds it: from links, a list's different pages and its filters."""
    _, front = _get(url + "/")
    project = _found(r'class="ww-tabs".*?href="(/[^"/]+)/regressions"', front) or _found(r'href="(/[^"/]+)/"', front)
    root = project[0]
    series: list[str] = []
    for number in (1, 40, 80, 120):
        series += _found(rf'href="({root}/series/[0-9a-f]+)"', _get(f"{url}{root}/series?page={number}")[1])[:5]
    commits = _found(rf'href="({root}/commit/[0-9a-f]+)"', _get(f"{url}{root}/commits")[1])
    hashes = [path.rpartition("/")[2] for path in commits]
    words = ("a", "time", "track mem", "2048", "latency", hashes[0][:6], "nothingatall", "tmie", "er")
    near = list(zip(hashes[1:], hashes, strict=False))[:: max(1, len(hashes) // 8)]
    pages = {
        "overview": [f"{root}/", f"{root}/?q=a", f"{root}/?page=2", f"{root}/?verdict=regressed"],
        "series list": [f"{root}/series", f"{root}/series?page=9", *(f"{root}/series?q={_quoted(w)}" for w in words)],
        "series": series,
        "series data": [f"{path}/data.json" for path in series],
        "roofline": [f"{root}/roofline", f"{root}/roofline?shapes=all&dtype="],
        "regressions": [f"{root}/regressions", f"{root}/regressions?period=365", f"{root}/regressions?q=time",
                        f"{root}/regressions?page=2", f"{root}/regressions?kind=drift"],
        "compare": [f"{root}/compare?base={base}&head={head}" for base, head in near],
        "commits": [f"{root}/commits"],
        "commit": commits[:: max(1, len(commits) // 10)],
        "machines": [f"{root}/machines"],
        "machine": _found(rf'href="({root}/machines/[^"]+)"', _get(f"{url}{root}/machines")[1]),
        "search": [f"{root}/search?q={_quoted(word)}" for word in words],
        "search, live": [f"{root}/search?q={_quoted(word)}&live=1" for word in words],
    }  # fmt: skip
    return {
        page: kept for page, paths in pages.items() if (kept := [p for p in paths[:_OF_A_PAGE] if _is_there(url + p)])
    }


def _load(url: str, page: str, paths: Sequence[str], answers: str, seconds: int, connections: int) -> Loaded:
    firsts = [_get(url + path)[0] for path in paths]
    with tempfile.TemporaryDirectory() as folder:
        script, listed = Path(folder, "ask.lua"), Path(folder, "paths")
        script.write_text(_ASK)
        listed.write_text("".join(f"{path}\n" for path in paths))
        numbers = [str(time.time_ns() // 1_000_000)] if answers == _MADE else []  # none of an earlier load
        arguments = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s", "-s", str(script)]
        try:
            done = subprocess.run(
                ["wrk", *arguments, url, "--", str(listed), *numbers], capture_output=True, text=True, check=False
            )  # fmt: skip
        except FileNotFoundError as error:
            raise click.ClickException("wrk is not installed: apt-get install wrk") from error
    told = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("told ")]
    if not told and seconds < 60:
        return _load(url, page, paths, answers, 4 * seconds, connections)  # it takes longer than that
    if not told:
        raise click.ClickException(f"wrk got no answer from {page}: {done.stdout}{done.stderr}")
    times = sorted(float(wall) for _, wall, *_ in told)
    cpu = sorted(float(own) for _, _, own, _ in told)
    return Loaded(
        page=page, answers=answers, first_ms=max(firsts), p50_ms=_quantile(times, 0.5), p95_ms=_quantile(times, 0.95),
        cpu_p95_ms=_quantile(cpu, 0.95),
        waited_ms=float(_found(r"waited ([\d.]+)", done.stdout)[0]), requests_per_s=len(told) / seconds,
        largest=max(int(size) for *_, size in told), refused=sum(status != "200" for status, *_ in told),
    )  # fmt: skip


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def _get(address: str) -> tuple[float, str]:
    """The server's own time for an address in milliseconds, and the text; redirects are followed."""
    request = urllib.request.Request(address, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        body = answer.read()
        told = re.search(r"app;dur=([\d.]+)", answer.headers.get("Server-Timing", ""))
        plain = gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body
    return float(told[1]) if told else float("nan"), plain.decode()


def _is_there(address: str) -> bool:
    try:
        _get(address)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


def _found(pattern: str, text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(pattern, text, re.DOTALL)))


def _quoted(words: str) -> str:
    return urllib.parse.quote_plus(words)


def _limit(page: str) -> float:
    return DATA_LIMIT_MS if page in {"series data", "search, live"} else PAGE_LIMIT_MS


def _line(one: Loaded) -> str:
    mark = "beyond" if one.p95_ms > _limit(one.page) else "within"
    return (
        f"{one.page:14} {one.answers} p50 {one.p50_ms:7.1f} ms  p95 {one.p95_ms:7.1f} ms, {mark} {_limit(one.page):.0f}"
        f"  cpu p95 {one.cpu_p95_ms:6.1f} ms  first {one.first_ms:7.1f} ms"
        f"  at wrk p95 {one.waited_ms:7.0f} ms  {one.requests_per_s:6.0f} /s"
        f"  {one.largest / 1000:6.1f} kB" + (f"  {one.refused} REFUSED" if one.refused else "")
    )


if __name__ == "__main__":
    main()
