"""Mail, to a real server on this machine."""

import email
import email.policy
import socket
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tests.ci.alerts.conftest import Scene
from tests.ci.alerts.test_lifecycle import SLOW, STEADY
from warpwatch.ci.alerts.alert_content import DeliveryError, Message
from warpwatch.ci.alerts.channels import deliver
from warpwatch.ci.alerts.channels.mail import account_of, send
from warpwatch.dashboard.store.outbox import undelivered


class Mailbox:
    """Received mails and their recipients; it refuses some recipients, and may be out of order."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.unknown = {"gone@kernels.org"}
        self.answer = "250 taken"
        self.farewell = "221 Bye"

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        return self.farewell

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.unknown:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.answer.startswith("250"):
            mail = email.message_from_bytes(bytes(envelope.content or b""), policy=email.policy.default)
            assert isinstance(mail, EmailMessage)
            self.mails.append(mail)
            self.recipients.append([*envelope.rcpt_tos])
        return self.answer


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def port(mailbox: Mailbox, free_port: int) -> Iterator[int]:
    def knows(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=(data.login, data.password) == (b"watch", b"s3cr3t"), handled=False)

    controller = Controller(mailbox, hostname="127.0.0.1", port=free_port, authenticator=knows, auth_require_tls=False)
    controller.start()
    yield free_port
    controller.stop()


def message(**other: Any) -> Message:
    given = {"key": "k-2", "thread": "k", "title": "slower\nby half", "text": "**text** – 2 µs", "payload": {}}
    return Message(**{**given, **other})


def test_an_alert_and_its_end_are_one_thread_of_mails_under_names_that_stay(
    scene: Scene, mailbox: Mailbox, port: int
) -> None:
    scene.to = (f"mailto://127.0.0.1:{port}?from=watch@kernels.org&to=ann@kernels.org",)
    scene.measure([*STEADY, *SLOW])
    mailbox.answer = "451 try later"
    scene.look()
    (waiting,) = undelivered(scene.store, "demo")
    assert waiting.error is not None
    assert "451 try later" in waiting.error
    mailbox.answer = "250 taken"
    scene.measure(STEADY, first=20)
    scene.look()
    opened, resolved = mailbox.mails
    assert opened["Message-ID"].startswith("<")
    assert opened["Message-ID"].endswith("@kernels.org>")
    assert resolved["In-Reply-To"] == opened["Message-ID"]
    assert resolved["Message-ID"] != opened["Message-ID"]
    assert "+30.0 % on box" in opened["Subject"]
    assert "First bad commit 0000000a" in opened.get_content()


def test_all_recipients_get_one_mail_and_a_refused_one_is_reported(mailbox: Mailbox, port: int) -> None:
    to = "ann@kernels.org,gone@kernels.org"
    address = f"mailto://watch:s3cr3t@127.0.0.1:{port}?from=watch@kernels.org&to={to}&cc=bo@kernels.org"
    done = deliver(message(html="<p>text</p>"), address)
    assert mailbox.recipients == [["ann@kernels.org", "bo@kernels.org"]]
    assert done.remark is not None
    assert "gone@kernels.org: 550 no such mailbox" in done.remark
    (mail,) = mailbox.mails
    assert (mail["Message-ID"], mail["References"]) == ("<k-2@kernels.org>", "<k@kernels.org>")
    assert mail["Subject"] == "slower by half"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
    body = mail.get_body(("plain",))
    assert body is not None
    assert body.get_content().splitlines() == ["**text** – 2 µs"]


def test_a_mail_that_was_taken_is_not_sent_again_for_what_comes_after_it(mailbox: Mailbox, port: int) -> None:
    mailbox.farewell = "421 too busy to say goodbye"
    deliver(message(), f"mailto://127.0.0.1:{port}?from=watch@kernels.org&to=ann@kernels.org")
    assert len(mailbox.mails) == 1


def test_the_servers_answer_is_reported_without_the_password(mailbox: Mailbox, port: int) -> None:
    with pytest.raises(DeliveryError, match="535") as wrong:
        deliver(message(), f"mailto://watch:wr0ng@127.0.0.1:{port}?from=watch@kernels.org&to=ann@kernels.org")
    assert "wr0ng" not in str(wrong.value)
    with pytest.raises(DeliveryError, match=r"gone@kernels\.org refused: 550"):
        deliver(message(), f"mailto://127.0.0.1:{port}?from=watch@kernels.org&to=gone@kernels.org")
    with pytest.raises(DeliveryError, match="ConnectionRefusedError"):
        deliver(message(), "mailto://127.0.0.1:9?from=watch@kernels.org&to=ann@kernels.org")
    assert mailbox.mails == []


def test_a_connection_that_cannot_be_secured_is_closed(free_port: int) -> None:
    with socket.create_server(("127.0.0.1", free_port)) as listener:
        ends: list[bytes] = []

        def refuse_tls() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 here\r\n")
                connection.recv(1000)
                connection.sendall(b"250-here\r\n250 STARTTLS\r\n")
                connection.recv(1000)
                connection.sendall(b"454 TLS not available\r\n")
                connection.settimeout(20)
                ends.append(connection.recv(1000))  # b"" is the end; without one it times out

        server = threading.Thread(target=refuse_tls)
        server.start()
        account = account_of(f"mailtos://w:p@127.0.0.1:{free_port}?mode=starttls&from=w@k.org&to=ann@k.org")
        assert account is not None
        with pytest.raises(DeliveryError, match="454") as held:  # which holds the frames of the call
            send(message(), account)
        server.join()
        assert held.value.__traceback__ is not None
        assert ends == [b""]
