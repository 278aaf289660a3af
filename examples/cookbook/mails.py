"""Mails at the rate of the provider, whoever sends them, and the important ones first."""

from datetime import timedelta
from smtplib import SMTPDataError, SMTPRecipientsRefused

from django.core.mail import send_mail

from django_pgqueue import Defer, Delivery, Limit, Reject, enqueue, handler

provider = Limit("mail provider", rate="14/s", max_concurrency=10)


def mail(to: str, subject: str, text: str, *, urgent: bool = False) -> None:
    """A larger priority comes first within its channel."""
    payload = {"to": to, "subject": subject, "text": text}
    enqueue("mail.send", payload, priority=10 if urgent else 0)


@handler("mail.send", limits=[provider], timeout=timedelta(seconds=60), max_attempts=8)
def send(delivery: Delivery) -> Defer | Reject | None:
    mail = delivery.payload
    try:
        send_mail(mail["subject"], mail["text"], None, [mail["to"]])
    except SMTPRecipientsRefused as error:
        return Reject("refused", str(error))
    except SMTPDataError as error:
        if error.smtp_code != 454:  # the provider's word for "too many"; other answers are failures
            raise
        return Defer(delay=timedelta(minutes=1))
    return None
