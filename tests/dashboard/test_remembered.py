"""What was worked out from the store is worked out anew after each write that it rests on, and only then."""

import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from warpwatch.dashboard.store import Store, tables
from warpwatch.dashboard.store.preparing import Preparing
from warpwatch.dashboard.store.remembered import Remembered
from warpwatch.dashboard.store.rows import insert_new


def _add(store: Store, name: str) -> None:
    with store.write("test") as connection:
        connection.execute(insert(tables.project).values(name=name))


def _count(store: Store) -> int:
    with store.read() as connection:
        return int(connection.execute(select(func.count()).select_from(tables.project)).scalar_one())


def test_a_write_of_this_or_another_process_is_seen_at_once(store: Store, database: str) -> None:
    other = Store(database)
    asked = []

    def make() -> int:
        asked.append(1)
        return _count(store)

    assert [store.remember(None, "projects", make) for _ in range(3)] == [0, 0, 0]
    assert len(asked) == 1
    for number, writer in enumerate((store, other, store, other), start=1):
        _add(writer, f"p{number}")
        assert store.remember(None, "projects", make) == number
        assert store.remember(None, "projects", make) == number
    assert len(asked) == 5
    other.close()


def _rename(connection: Connection) -> None:
    connection.execute(update(tables.project).where(tables.project.c.name == "a").values(repository="/elsewhere"))


def _say(connection: Connection) -> None:
    commit = connection.execute(select(tables.commit.c.id)).scalar_one()
    connection.execute(insert(tables.annotation).values(commit_id=commit, author="ann", text="driver", created_ms=1))


def _use_token(connection: Connection) -> None:
    connection.execute(update(tables.token).values(last_used_ms=5))


def _change_nothing(connection: Connection) -> None:
    connection.execute(update(tables.project).where(tables.project.c.name == "nobody").values(repository="/x"))
    connection.execute(delete(tables.commit).where(tables.commit.c.hash == "none"))
    insert_new(connection, tables.project, [{"name": "a"}])


@pytest.mark.parametrize(
    ("written_by", "forgets"),
    [(_rename, "found said"), (_say, "said"), (_use_token, ""), (_change_nothing, "")],
    ids=["imports", "people", "tokens", "nothing"],
)
def test_a_write_ends_what_rests_on_it_in_its_own_project_and_nothing_else(
    store: Store, written_by: Callable[[Connection], None], forgets: str
) -> None:
    for name in "ab":
        _add(store, name)
    with store.write("test") as connection:
        connection.execute(insert(tables.commit).values(project_id=1, hash="c", date_ms=0))
        connection.execute(
            insert(tables.token).values(project_id=1, name="t", scope="upload", digest="d", created_ms=0)
        )
    made: list[str] = []

    def ask() -> None:
        for project in "ab":
            store.remember(project, "x", lambda name=project: made.append(f"{name} found"))
            store.remember(project, "y", lambda name=project: made.append(f"{name} said"), said=True)

    ask()
    made.clear()
    with store.write("a", of_project=True) as connection:
        written_by(connection)
    ask()
    assert made == [f"a {what}" for what in forgets.split()]
    made.clear()
    with store.write("of nobody in particular") as connection:
        written_by(connection)
    ask()
    again = [] if written_by is _change_nothing else [f"{name} {what}" for name in "ab" for what in forgets.split()]
    assert made == again


def test_a_transaction_that_is_taken_back_ends_nothing(store: Store) -> None:
    before = store.written()
    with pytest.raises(IntegrityError), store.write("test") as connection:
        connection.execute(insert(tables.project), [{"name": "a"}, {"name": "a"}])
    assert store.written() == before


def test_a_project_that_is_dropped_and_made_again_counts_on(store: Store) -> None:
    _add(store, "a")
    with store.write("a", of_project=True) as connection:
        _rename(connection)
    before = store.written("a")
    with store.write("a", of_project=True) as connection:
        connection.execute(delete(tables.project))
    _add(store, "a")
    assert store.written("a").found > before.found


def test_while_it_is_prepared_pages_show_what_was_before_and_others_wait_for_what_is(store: Store) -> None:
    _add(store, "a")
    may_go_on, begun = threading.Event(), threading.Event()

    def value(*, may_be_former: bool = True) -> int:
        return store.remember("a", "commits", lambda: _commits(store), may_be_former=may_be_former)

    def prepare(project: str) -> None:
        assert project == "a"
        begun.set()
        assert may_go_on.wait(60)
        value()

    assert value() == 0
    preparing = Preparing(store, prepare)
    preparing.start()
    try:
        assert begun.wait(60)
        assert not preparing.is_done("a")
        _add_commit(store, "a")
        assert value() == 0
        assert value(may_be_former=False) == 1
        assert value() == 1  # as soon as anybody has it
        begun.clear()
        _add_commit(store, "b")
        may_go_on.set()
        assert begun.wait(60)
        _until(lambda: value() == 2)
        _until(lambda: preparing.is_done("a"))
    finally:
        may_go_on.set()
        preparing.stop()
    _add_commit(store, "c")
    assert value() == 3


def test_what_cannot_be_prepared_is_worked_out_by_who_asks(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    _add(store, "a")
    failed = threading.Event()

    def prepare(project: str) -> None:
        failed.set()
        raise ValueError("of no use")

    value = lambda: store.remember("a", "commits", lambda: _commits(store), may_be_former=True)  # noqa: E731
    assert value() == 0
    preparing = Preparing(store, prepare)
    preparing.start()
    try:
        _add_commit(store, "a")
        assert failed.wait(60)
        _until(lambda: value() == 1)
    finally:
        preparing.stop()
    assert "a could not be worked out before: ValueError: of no use" in caplog.text


def _commits(store: Store) -> int:
    with store.read() as connection:
        return int(connection.execute(select(func.count()).select_from(tables.commit)).scalar_one())


def _add_commit(store: Store, name: str) -> None:
    with store.write("a", of_project=True) as connection:
        connection.execute(insert(tables.commit).values(project_id=1, hash=name, date_ms=0))


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_nobody_asked_for_lately_goes_first() -> None:
    remembered = Remembered(most=2)
    made: list[str] = []

    def get(key: str) -> None:
        remembered.get("state", key, lambda: made.append(key))

    for key in "abacab":
        get(key)
    assert made == ["a", "b", "c", "b"]


def test_threads_that_want_the_same_wait_for_one_and_others_do_not() -> None:
    remembered = Remembered()
    begun, goes_on = threading.Event(), threading.Event()
    made: list[str] = []

    def slow() -> str:
        begun.set()
        assert goes_on.wait(30)
        made.append("slow")
        return "slow"

    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(remembered.get("state", "slow", slow)), daemon=True)
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    assert remembered.get("state", "other", lambda: "quick") == "quick"
    goes_on.set()
    for thread in threads:
        thread.join(30)
    assert found == ["slow"] * 4
    assert made == ["slow"]


def test_a_failure_is_not_remembered() -> None:
    remembered = Remembered()
    for _ in range(2):
        try:
            remembered.get("state", "key", lambda: 1 // 0)
        except ZeroDivisionError:
            continue
        raise AssertionError
    assert remembered.get("state", "key", lambda: 1) == 1


def test_heavy_values_leave_room_for_few_and_one_too_heavy_is_not_kept() -> None:
    remembered = Remembered(room=5)
    made: list[str] = []

    def get(name: str) -> str:
        def make() -> str:
            made.append(name)
            return name

        return remembered.get("state", name, make, len)

    for name in ("aa", "bb", "aa", "cc", "aa", "bb"):  # bb is the longest unasked when cc comes
        assert get(name) == name
    assert made == ["aa", "bb", "cc", "bb"]
    assert [get("too heavy"), get("too heavy")] == ["too heavy"] * 2
    assert get("bb") == "bb"
    assert made[4:] == ["too heavy", "too heavy"]
