"""Whose a kernel is, by a real repository's CODEOWNERS, and where its alerts go."""

import subprocess
from pathlib import Path

import pytest

from tests.asv_results import AsvResults
from tests.ci.alerts.conftest import Scene
from tests.ci.alerts.test_lifecycle import SLOW, STEADY
from tests.http_inbox import Inbox, listening
from warpwatch.ci.alerts.outbox_sender import Destinations, RoutingFacts, address_names, deliver_outbox, destinations
from warpwatch.ci.alerts.scan import MainBranch, Owners
from warpwatch.ci.policy.policy_file import PolicyError, parse_policy
from warpwatch.ci.policy.policy_model import AlertsTable, Destination, Route
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.outbox import queue_in_project, undelivered
from warpwatch.dashboard.store.schema import metadata

CODEOWNERS = """
*                        @org/all
/kernels/csrc/rope/      @ann @org/rope
attention*.cu            bo@kernels.org
/docs/
"""
FILES = ("kernels/csrc/rope/rope.cu", "kernels/operators/rope.py", "src/attention/attention_sm80.cu", "docs/gelu.md")


@pytest.fixture(params=["", "--bare"])
def main(request: pytest.FixtureRequest, tmp_path: Path) -> MainBranch:
    """A repository with a few kernels, and a bare clone of it."""
    folder = tmp_path / "work"
    for name, text in {**dict.fromkeys(FILES, ""), ".github/CODEOWNERS": CODEOWNERS}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "first"],
        ["commit", "-qm", "second", "--allow-empty"],
    ):
        subprocess.run([*git, *words], check=True)
    if not request.param:
        return MainBranch(str(folder))
    subprocess.run(["git", "clone", "-q", "--bare", str(folder), str(tmp_path / "bare")], check=True)
    return MainBranch(str(tmp_path / "bare"))


def test_the_owners_of_a_kernel_are_those_of_its_sources(main: MainBranch) -> None:
    owners = Owners(AlertsTable(), main)
    assert set(owners.of("rope")) == {"@ann", "@org/rope", "@org/all"}
    assert set(owners.of("benchmarks.rope")) == set(owners.of("rope"))
    assert owners.of("attention") == ("bo@kernels.org",)
    assert owners.of("gelu") == ()  # whose last line names no owner
    assert owners.of("unheard_of") == ()
    named = Owners(AlertsTable(sources={"flash_*": ("kernels/csrc/rope/",)}), main)
    assert named.of("flash_attention") == ("@ann", "@org/rope")


def test_a_rule_names_owners_and_code_owners_the_rest(store: Store, asv: AsvResults, main: MainBranch) -> None:
    for name in ("rope.Rope.track_latency", "attention.Attention.track_latency", "gelu.Gelu.track_latency"):
        asv.benchmark(name)
    names = ("rope.Rope.track_latency", "attention.Attention.track_latency", "gelu.Gelu.track_latency")
    asv.commit(0, {name: asv.row([1.0], started_at=1) for name in names})
    asv.load(store)
    series = {one.benchmark.partition(".")[0]: one for one in queries.find_series(store, "demo").series}
    rules = parse_policy(
        """
        [[rule]]
        benchmark = "*"
        machine = "other"
        owners = ["@nobody"]
        [[rule]]
        kernel = ["attention", "gelu"]
        owners = ["@first"]
        [[rule]]
        kernel = "attention"
        owners = ["@second", "@ann"]
        [[rule]]
        kernel = "gelu"
        owners = []
        """,
        "warpwatch.toml",
    ).rule
    owners = Owners(AlertsTable(), main, rules)
    assert set(owners.owners_of_series([series["rope"]], {})) == {"@ann", "@org/rope", "@org/all"}
    assert owners.owners_of_series([series["attention"]], {}) == ("@second", "@ann")
    assert owners.owners_of_series([series["gelu"]], {}) == ()
    assert owners.owners_of_series([series["attention"], series["rope"]], {})[:2] == ("@second", "@ann")


def test_alerts_go_to_the_owners_of_a_rule(scene: Scene) -> None:
    rules = parse_policy('[[rule]]\nbenchmark = "*"\nowners = ["@org/suite"]', "warpwatch.toml").rule
    with listening() as theirs:
        scene.policy = AlertsTable(
            destination=(Destination(name="theirs", url_env="THEIRS"),),
            route=(Route(owner=("@org/*",), to=("theirs",)),),
        )
        scene.to, scene.environment, scene.rules = (), {"THEIRS": theirs.url}, rules
        scene.measure([*STEADY, *SLOW])
        scene.look()
        assert [message["owners"] for message in theirs.received] == [["@org/suite"]]


def test_commits_of_main_are_counted_and_nothing_is_known_without_a_repository(main: MainBranch) -> None:
    assert main.commits_since("HEAD~1") == 1
    assert main.commits_since("f" * 40) is None
    nowhere = MainBranch(None)
    assert (nowhere.commits_since("HEAD"), nowhere.files, nowhere.codeowners(None)) == (None, (), "")


PLACES = tuple(Destination(name=name, url_env=name.upper()) for name in ("chat", "mail", "rest"))
POLICY = AlertsTable(
    destination=PLACES,
    to=("rest",),
    route=(
        Route(kernel=("rope*", "gelu"), machine=("h200*",), to=("chat",)),
        Route(owner=("@org/*",), kind=("regression",), to=("mail", "chat")),
    ),
)


@pytest.mark.parametrize(
    ("kind", "machine", "kernels", "owners", "expected"),
    [
        ("regression", "h200-a", ["rope"], [], ("chat",)),
        ("regression", "t4", ["rope"], [], ("rest",)),
        ("regression", "h200-a", ["norm", "gelu"], ["@org/x"], ("chat", "mail")),
        ("failed check", "t4", ["rope"], ["@org/x"], ("rest",)),
        ("missing data", "h200-a", [], [], ("rest",)),
    ],
)
def test_every_matching_route_counts_and_the_rest_has_its_place(
    kind: str, machine: str, kernels: list[str], owners: list[str], expected: tuple[str, ...]
) -> None:
    matter = RoutingFacts(kind=kind, machine=machine, kernels=kernels, owners=owners)
    assert destinations(matter, POLICY, ()) == expected
    assert destinations(matter, POLICY, ("http://hook",)) == ("http://hook", *expected)


def test_an_alert_goes_where_its_kernel_s_route_leads_and_its_address_stays_out_of_the_store(scene: Scene) -> None:
    with listening() as rope, listening() as rest:
        scene.to = ()
        scene.policy = AlertsTable(
            destination=(Destination(name="rope", url_env="ROPE"), Destination(name="rest", url_env="REST")),
            to=("rest",),
            route=(Route(kernel=("*rope*",), to=("rope",)),),
        )
        scene.environment = {"ROPE": f"{rope.url}/?key=s3cr3t", "REST": rest.url}
        scene.measure([*STEADY, *SLOW], name="rope.Rope.track_latency", machine="a")
        scene.measure([*STEADY, *SLOW], name="gelu.Gelu.track_latency", machine="b")
        scene.look()
        scene.measure(STEADY, first=20, name="rope.Rope.track_latency", machine="a")
        scene.look()
        assert [(message["action"], message["machine"]) for message in rope.received] == [
            ("opened", "a"),
            ("resolved", "a"),
        ]
        assert [(message["action"], message["machine"]) for message in rest.received] == [("opened", "b")]
    path = scene.store.sqlite_file
    assert path is None or b"s3cr3t" not in path.read_bytes() + path.with_name(path.name + "-wal").read_bytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[alerts]\nto = ["chat"]', r"no \[\[alerts.destination\]\] has the name 'chat'; there are: none"),
        ('[[alerts.destination]]\nname = "a"', "number 1 expected either url_env or github"),
        ('[[alerts.destination]]\nname = "a"\ngithub = "kernels"', 'a repository such as "org/kernels"'),
        ('[[alerts.destination]]\nname = "a"\nurl_env = "https://x"', "the name of the environment variable"),
        ('[[alerts.route]]\nkind = "slow"\nto = "a"', "'slow' is not one of regression, missing data"),
        ('[alerts]\ndigest = "hourly"', '"daily", "weekly" or "none"'),
    ],
)
def test_a_fault_of_the_file_is_reported_by_table_and_key(text: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        parse_policy(text, "warpwatch.toml")


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://hooks.example.org/", "https://hooks.example.org/"),  # an address without secrets is its own name
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        (f"https://hooks.slack.com/services/T0/B0/{SECRET}", "https://hooks.slack.com"),
        (f"https://hooks.example.org/?key={SECRET}", "https://hooks.example.org"),
        (f"https://watch:{SECRET}@hooks.example.org:8443/", "https://hooks.example.org:8443"),
        (f"https://hooks.example.org/#{SECRET}", "https://hooks.example.org"),
        (f"slack://{SECRET}/{SECRET}/{SECRET}/#perf", "slack://"),
        (f"discord://123/{SECRET}", "discord://"),
        ("mailto://smtp.org?from=a@w.org&to=b@w.org", "mailto://smtp.org?from=a@w.org&to=b@w.org"),
        (
            f"mailtos://watch:{SECRET}@smtp.org:587/bo@w.org?to=b@w.org",
            "mailtos://watch@smtp.org:587/bo@w.org?to=b@w.org",
        ),
        (f"mailtos://smtp.org?user=w&pass={SECRET}&to=b@w.org", "mailtos://smtp.org?to=b@w.org"),
        (f"mailtos://watch:x/{SECRET}@smtp.org", "mailtos://"),
    ],
)
def test_a_destination_is_called_by_what_is_no_secret_of_its_address(address: str, name: str) -> None:
    assert address_names([address]) == {name: address}
    rotated = address.replace(SECRET, "an0ther")
    assert address_names([rotated]) == {name: rotated}


def test_addresses_that_differ_in_secrets_alone_are_distinguished_by_their_order() -> None:
    first, second, third = (f"https://hooks.slack.com/services/{which}" for which in "abc")
    names = ["https://hooks.slack.com", "https://hooks.slack.com (2)"]
    assert list(address_names([first, second, first])) == names
    assert address_names([third, second])["https://hooks.slack.com"] == third


def test_no_secret_of_an_address_is_stored_and_a_new_one_gets_what_follows(
    scene: Scene, inbox: Inbox, tmp_path: Path
) -> None:
    scene.to = (f"{inbox.url}/hook/{SECRET}?key={SECRET}",)
    scene.measure([*STEADY, *SLOW])
    inbox.answer = 503
    scene.look()
    with scene.store.read() as connection:
        kept = [str(tuple(row)) for table in metadata.sorted_tables for row in connection.execute(table.select())]
    assert any(inbox.url in row for row in kept)
    assert not [row for row in kept if SECRET in row]
    inbox.answer = 204
    scene.to = (f"{inbox.url}/hook/rotated",)
    scene.measure(STEADY, first=20)
    scene.look()
    assert inbox.received[0]["action"] == "opened"
    assert [message["action"] for message in inbox.received[1:]] == ["opened", "resolved"]


def test_messages_of_another_project_are_not_sent_to_this_ones_address(scene: Scene, inbox: Inbox) -> None:
    """Whose names may be the same without their secrets."""
    scene.to = (f"{inbox.url}/of/demo",)
    scene.measure([*STEADY, *SLOW])
    (name,) = address_names(scene.to)
    scene.asv.load(scene.store, project="other")
    queue_in_project(scene.store, "other", "t", 1, {name: "{}"}, now_ms=1)
    places = Destinations(scene.policy, scene.to, {})
    sent = deliver_outbox(scene.store, places, give_up_days=7, only_due=False, now_ms=lambda: 2, project="demo")
    assert (sent.sent, sent.failed) == (0, 0)
    assert len(undelivered(scene.store, "other")) == 1
