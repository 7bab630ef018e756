"""What was worked out from the store is worked out anew after each write, by whomever, and only then."""

import threading

from sqlalchemy import func, insert, select

from warpwatch.dashboard.store import Store, tables
from warpwatch.dashboard.store.remembered import Remembered


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

    assert [store.remember("projects", make) for _ in range(3)] == [0, 0, 0]
    assert len(asked) == 1
    for number, writer in enumerate((store, other, store, other), start=1):
        _add(writer, f"p{number}")
        assert store.remember("projects", make) == number
        assert store.remember("projects", make) == number
    assert len(asked) == 5
    other.close()


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
