"""Values computed from the store are computed again after each write that they depend on, and only then."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from tests.asv_results import AsvResults
from tests.http_inbox import listening
from warpwatch.dashboard.model.alert import TriageFilter, TriageState
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.store.cache import Cache
from warpwatch.dashboard.store.statements import insert_new
from warpwatch.dashboard.store.tokens import Scope, create_token, use_token


def _add(store: Store, name: str) -> None:
    with store.write(name, of_project=True) as connection:
        connection.execute(insert(schema.project).values(name=name))


def _count(store: Store) -> int:
    with store.read() as connection:
        return int(connection.execute(select(func.count()).select_from(schema.project)).scalar_one())


def test_a_write_through_this_or_another_connection_is_seen_at_once(store: Store, database: str) -> None:
    other = Store(database)
    computed = []

    def compute() -> int:
        computed.append(1)
        return _count(store)

    assert [store.cached(None, "projects", compute) for _ in range(3)] == [0, 0, 0]
    assert len(computed) == 1
    for number, writer in enumerate((store, other, store, other), start=1):
        _add(writer, f"p{number}")
        assert store.cached(None, "projects", compute) == number
        assert store.cached(None, "projects", compute) == number
    assert len(computed) == 5
    other.close()


def _rename(connection: Connection) -> None:
    connection.execute(update(schema.project).where(schema.project.c.name == "a").values(repository="/elsewhere"))


def _change_nothing(connection: Connection) -> None:
    connection.execute(update(schema.project).where(schema.project.c.name == "nobody").values(repository="/x"))
    connection.execute(delete(schema.commit).where(schema.commit.c.hash == "none"))
    insert_new(connection, schema.project, [{"name": "a"}])


@pytest.mark.parametrize(("write", "invalidated"), [(_rename, ["a"]), (_change_nothing, [])])
def test_a_write_invalidates_its_own_project_and_only_if_it_changes_a_row(
    store: Store, write: Callable[[Connection], None], invalidated: list[str]
) -> None:
    for name in "ab":
        _add(store, name)
    computed: list[str] = []

    def read() -> None:
        for project in "ab":
            store.cached(project, "x", lambda name=project: computed.append(name))

    read()
    computed.clear()
    with store.write("a", of_project=True) as connection:
        write(connection)
    read()
    assert computed == invalidated


def test_one_moment_sees_no_write_of_others_and_its_own_at_once(store: Store, database: str) -> None:
    other = Store(database)
    _add(store, "a")

    def seen() -> int:
        return store.cached("a", "projects", lambda: _count(store))

    with store.one_moment():
        assert seen() == 1
        _add(other, "b")
        with other.write("a", of_project=True) as connection:
            _rename(connection)
        assert seen() == 1
        with store.write("a", of_project=True) as connection:
            connection.execute(insert(schema.project).values(name="c"))
        assert seen() == 3
    with other.write("a", of_project=True) as connection:
        connection.execute(insert(schema.project).values(name="d"))
    assert seen() == 4
    other.close()


def test_several_values_are_computed_at_once_where_one_is_missing(store: Store) -> None:
    _add(store, "a")
    computed: list[str] = []

    def values(names: str) -> list[str]:
        def compute(chosen: Sequence[str]) -> list[str]:
            computed.append("".join(chosen))
            return [name.upper() for name in chosen]

        return store.cached_each("a", names, lambda name: name if name != "-" else None, compute)

    assert values("xy") == values("yx")[::-1] == ["X", "Y"]
    assert values("xyz") == ["X", "Y", "Z"]
    assert values("") == []
    assert computed == ["xy", "xyz"]
    assert values("x-y-") == ["X", "-", "Y", "-"]  # without a key, so computed each time
    assert computed == ["xy", "xyz", "--"]


def test_values_read_together_are_of_the_generation_before_them(store: Store) -> None:
    _add(store, "a")
    before = store.generation("a")

    def compute(names: Sequence[str]) -> list[int]:
        generation = store.generation("a")
        with store.write("a", of_project=True) as connection:
            _rename(connection)
        return [generation] * len(names)

    assert store.cached_each("a", ["x", "y"], str, compute) == [before, before]
    assert store.cached("a", "y", lambda: store.generation("a")) == store.generation("a") > before


def test_a_moment_within_another_ends_alone(store: Store) -> None:
    _add(store, "a")
    with store.one_moment():
        before = store.generation("a")
        with store.one_moment():
            pass
        assert store.generation("a") == before


def test_a_transaction_that_is_rolled_back_invalidates_nothing(store: Store) -> None:
    before = store.generation()
    with pytest.raises(IntegrityError), store.write("a", of_project=True) as connection:
        connection.execute(insert(schema.project), [{"name": "a"}, {"name": "a"}])
    assert store.generation() == before


def test_a_project_that_is_dropped_and_made_again_counts_on(store: Store) -> None:
    _add(store, "a")
    before = store.generation("a")
    with store.write("a", of_project=True) as connection:
        connection.execute(delete(schema.project))
    _add(store, "a")
    assert store.generation("a") == before + 2


def test_the_use_of_a_token_invalidates_nothing(store: Store) -> None:
    _add(store, "a")
    secret = create_token(store, "a", name="ci", scope=Scope.READ, now_ms=1)
    before = store.generation("a")
    assert use_token(store, secret, now_ms=10_000_000) is not None
    assert store.generation("a") == before


def _run(*arguments: str) -> None:
    command = [sys.executable, "-m", "warpwatch.ci.cli", *arguments]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout


def test_writes_of_other_processes_are_seen_by_the_one_that_reads(store: Store, database: str, asv: AsvResults) -> None:
    """An import and the alert process, on both databases, while this process has cached what it read before."""
    asv.benchmark("suite.Bench.track_latency")

    def bring(values: list[float], first: int) -> None:
        for number, value in enumerate(values, start=first):
            row = asv.row([value], started_at=number + 1, spread=0.002)
            asv.commit(number, {"suite.Bench.track_latency": row})
        _run("import", str(asv.folder), "--project", "p", "--database", database)

    def seen() -> tuple[int, int, list[bool]]:
        """Machines, regressions, and of each triage item whether an alert holds it."""
        cards = queries.triage_items(store, "p", TriageFilter(states=tuple(TriageState))).items
        return len(queries.machines(store, "p")), len(queries.regressions(store, "p")), [bool(c.alert) for c in cards]

    assert seen() == (0, 0, [])
    bring([1.0, 1.01, 0.99] * 4, 0)
    assert seen() == (1, 0, [])
    bring([2.0, 2.01, 1.99] * 2, 12)
    assert seen() == (1, 1, [False])
    before = store.generation("p")
    with listening() as inbox:
        _run("alert", "--to", inbox.url, "--database", database)
        assert len(inbox.received) == 1
    assert store.generation("p") > before
    assert seen() == (1, 1, [True])


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    cache = Cache(2000)
    made: list[str] = []

    def get(key: str) -> None:
        cache.get(key, 1, lambda: made.append(key))

    for key in "abacab":
        get(key)
    assert made == ["a", "b", "c", "b"]


def test_threads_with_the_same_key_wait_for_one_and_others_do_not() -> None:
    cache = Cache()
    begun, goes_on = threading.Event(), threading.Event()
    made: list[str] = []

    def slow() -> str:
        begun.set()
        assert goes_on.wait(30)
        made.append("slow")
        return "slow"

    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(cache.get("slow", 1, slow)), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    assert cache.get("other", 1, lambda: "quick") == "quick"
    goes_on.set()
    for thread in threads:
        thread.join(30)
    assert found == ["slow"] * 4
    assert made == ["slow"]


def test_a_failure_is_not_cached() -> None:
    cache = Cache()
    for _ in range(2):
        try:
            cache.get("key", 1, lambda: 1 // 0)
        except ZeroDivisionError:
            continue
        raise AssertionError
    assert cache.get("key", 1, lambda: 1) == 1


def test_heavy_values_leave_room_for_few_and_one_too_heavy_is_not_kept() -> None:
    cache = Cache(8000)
    made: list[str] = []

    def get(name: str) -> str:
        def make() -> str:
            made.append(name)
            return name

        return cache.get(name, 1, make, lambda value: 1000 * len(value))

    for name in ("aa", "bb", "aa", "cc", "aa", "bb"):  # bb is the longest unasked when cc comes
        assert get(name) == name
    assert made == ["aa", "bb", "cc", "bb"]
    assert [get("too heavy"), get("too heavy")] == ["too heavy"] * 2
    assert get("bb") == "bb"
    assert made[4:] == ["too heavy", "too heavy"]
