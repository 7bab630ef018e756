"""Tokens: shown once, kept as a hash, of one project, revocable."""

import hashlib
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from warpwatch.dashboard.store import Store, schema
from warpwatch.dashboard.store.tokens import Scope, create_token, revoke_token, tokens, use_token


def test_a_token_is_known_again_and_noted_as_used(store: Store) -> None:
    secret = create_token(store, "demo", name="t4 runner", now_ms=1_000)
    (made,) = tokens(store)
    assert (made.project, made.name, made.scope, made.last_used, made.ends) == (
        "demo",
        "t4 runner",
        Scope.UPLOAD,
        None,
        None,
    )
    assert made.created.timestamp() == 1.0
    for now_ms, noted in ((5_000, 5.0), (3_604_000, 5.0), (3_605_000, 3605.0)):  # to the hour
        used = use_token(store, secret, now_ms=now_ms)
        assert used is not None
        assert used.id == made.id
        last = tokens(store)[0].last_used
        assert last is not None
        assert last.timestamp() == noted


def test_a_name_that_no_database_takes_is_refused(sqlite_store: Store) -> None:
    for project, name in (("", "runner"), ("demo", "a\0b"), ("demo", "\ud800"), ("x" * 3000, "runner")):
        with pytest.raises(ValueError, match="is not a name"):
            create_token(sqlite_store, project, name=name, now_ms=1)
    assert tokens(sqlite_store) == ()


def test_only_a_hash_of_it_is_kept(sqlite_store: Store) -> None:
    secret = create_token(sqlite_store, "demo", name="runner", now_ms=1)
    with sqlite_store.read() as connection:
        (row,) = connection.execute(select(schema.token)).all()
    assert row.digest == hashlib.sha256(secret.encode()).hexdigest()
    assert not any(secret.removeprefix("warpwatch_") in str(value) for value in row)


def test_tokens_are_long_and_never_the_same(sqlite_store: Store) -> None:
    made = {create_token(sqlite_store, "demo", name="runner", now_ms=1) for _ in range(5)}
    assert len(made) == 5
    assert all(len(secret.removeprefix("warpwatch_")) == 43 for secret in made)  # 32 bytes


def test_what_is_no_token_is_none(store: Store) -> None:
    create_token(store, "demo", name="runner", now_ms=1)
    for wrong in ("", "warpwatch_", "warpwatch_" + "A" * 43, "\ud800", "a\0b"):
        assert use_token(store, wrong, now_ms=2) is None
    assert tokens(store)[0].last_used is None


def test_a_revoked_token_is_none_from_then_on(store: Store) -> None:
    secret = create_token(store, "demo", name="runner", now_ms=1)
    other = create_token(store, "demo", name="other", now_ms=1)
    token = tokens(store)[0]
    assert revoke_token(store, token.id, now_ms=7_000)
    assert use_token(store, secret, now_ms=8_000) is None
    assert use_token(store, other, now_ms=8_000) is not None
    revoked = tokens(store)[0].ends
    assert revoked is not None
    assert revoked.timestamp() == 7.0
    assert not revoke_token(store, token.id, now_ms=9_000)
    assert not revoke_token(store, 999, now_ms=9_000)


def test_tokens_are_listed_by_project(store: Store) -> None:
    for project in ("one", "two", "one"):
        create_token(store, project, name=project, now_ms=1)
    assert [token.project for token in tokens(store)] == ["one", "two", "one"]
    assert [token.project for token in tokens(store, project="two")] == ["two"]
    assert tokens(store, project="three") == ()


def test_a_token_that_expires_works_until_then(store: Store) -> None:
    secret = create_token(store, "demo", name="guest", scope=Scope.TRIAGE, now_ms=1_000, ends_ms=9_000)
    used = use_token(store, secret, now_ms=8_999)
    assert used is not None
    assert (used.scope, used.ends) == (Scope.TRIAGE, datetime.fromtimestamp(9, UTC))
    assert used.works(datetime.fromtimestamp(8.9, UTC))
    assert not used.works(datetime.fromtimestamp(9, UTC))
    assert use_token(store, secret, now_ms=9_000) is None
    assert not revoke_token(store, used.id, now_ms=9_000)
    assert revoke_token(store, used.id, now_ms=5_000)
    assert use_token(store, secret, now_ms=5_000) is None


def test_a_token_is_revoked_only_as_its_own_projects(store: Store) -> None:
    secret = create_token(store, "demo", name="runner", now_ms=1)
    create_token(store, "other", name="runner", now_ms=1)
    (token,) = tokens(store, project="demo")
    assert not revoke_token(store, token.id, project="other", now_ms=2)
    assert not revoke_token(store, token.id, project="nobody", now_ms=2)
    assert use_token(store, secret, now_ms=3) is not None
    assert revoke_token(store, token.id, project="demo", now_ms=4)
