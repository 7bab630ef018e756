"""Mail. apprise parses the address (`mailtos://user:password@host?to=…`, with the settings of known providers).

The mail itself is ours. Its Message-ID is the same at every attempt, so that mail servers and readers drop duplicates;
its references put an alert's messages into one thread.
"""

import smtplib
import ssl
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime, formataddr, localtime
from typing import Any

import apprise
from apprise.plugins.email.base import NotifyEmail
from apprise.plugins.email.smtp import SMTPSecureMode

from warpwatch.dashboard.text.markdown import without_links_in_spans

from ..alert_content import DeliveryError, Message

_TIMEOUT_S = 10.0  # for each answer of the server


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Server, sender and recipients."""

    host: str
    port: int
    secure_mode: str  # SMTPSecureMode
    verifies: bool  # the server's certificate
    user: str
    password: str
    sender: tuple[str, str]  # name, address
    to: tuple[tuple[str, str], ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]


def account_of(address: str) -> Account | None:
    """The mail account of an apprise address; None for other services."""
    found = apprise.Apprise.instantiate(address, suppress_exceptions=True)
    if type(found) is not NotifyEmail:
        return None
    settings: Any = found  # whose attributes have no types
    name, sender = settings.from_addr
    return Account(
        host=settings.smtp_host,
        port=int(settings.port or 0),
        secure_mode=settings.secure_mode,
        verifies=bool(settings.verify_certificate),
        user=settings.user or "",
        password=settings.password or "",
        sender=(name or "warpwatch", sender),
        to=tuple((name or "", each) for name, each in settings.targets),
        cc=tuple(sorted(settings.cc)),
        bcc=tuple(sorted(settings.bcc)),
    )


def send(message: Message, account: Account) -> str | None:
    """Send once to all recipients; returns a sentence on those that the server refused, None if it accepted all.

    Raises DeliveryError if it accepted the message for none.
    """
    recipients = [*(each for _, each in account.to), *account.cc, *account.bcc]
    try:
        with closing(_connect(account)) as server:
            if account.user and account.password:
                server.login(account.user, account.password)
            refused = server.send_message(_mail(message, account), account.sender[1], recipients)
            with suppress(OSError, smtplib.SMTPException):  # the message is accepted; errors of QUIT do not matter
                server.quit()
    except (OSError, smtplib.SMTPException) as error:
        raise DeliveryError(f"mail through {account.host}: {_words(error)}") from error
    if not refused:
        return None
    reasons = "; ".join(f"{to}: {code} {text.decode(errors='replace')}" for to, (code, text) in refused.items())
    return f"mail through {account.host}: refused for {reasons}"


def _connect(account: Account) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if not account.verifies:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if account.secure_mode == SMTPSecureMode.SSL:
        return smtplib.SMTP_SSL(account.host, account.port, timeout=_TIMEOUT_S, context=context)
    server = smtplib.SMTP(account.host, account.port, timeout=_TIMEOUT_S)
    try:
        if account.secure_mode == SMTPSecureMode.STARTTLS:
            server.starttls(context=context)
    except BaseException:
        server.close()
        raise
    return server


def _mail(message: Message, account: Account) -> EmailMessage:
    domain = account.sender[1].rpartition("@")[2]
    mail = EmailMessage()
    mail["Subject"] = " ".join(message.title.split())
    mail["From"] = formataddr(account.sender)
    mail["To"] = ", ".join(map(formataddr, account.to))
    if account.cc:
        mail["Cc"] = ", ".join(account.cc)
    mail["Date"] = format_datetime(localtime())
    mail["Message-ID"] = f"<{message.key}@{domain}>"
    if message.thread and message.thread != message.key:
        mail["In-Reply-To"] = mail["References"] = f"<{message.thread}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office replies
    mail.set_content(without_links_in_spans(message.text))
    if message.html is not None:
        mail.add_alternative(message.html, subtype="html")
    return mail


def _words(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "; ".join(
            f"{to} refused: {code} {text.decode(errors='replace')}" for to, (code, text) in error.recipients.items()
        )
    if isinstance(error, smtplib.SMTPResponseException):
        text = error.smtp_error
        return f"{error.smtp_code} {text.decode(errors='replace') if isinstance(text, bytes) else text}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
