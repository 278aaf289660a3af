from __future__ import annotations

import hashlib
import secrets

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Key(models.Model):
    """A key of the HTTP door: who has it may do the verbs in one channel. Only a digest of it is stored; the row is
    deleted to revoke it. ``verbs``: a list of :class:`Verb`."""

    class Verb(models.TextChoices):
        ENQUEUE = "enqueue", _("enqueue messages")
        STATUS = "status", _("see where messages are")
        RESULT = "result", _("read results")
        CANCEL = "cancel", _("cancel messages")
        REDRIVE = "redrive", _("redrive dead letters")
        PAUSE = "pause", _("pause and resume the channel")

    name = models.CharField(_("name"), max_length=200, help_text=_("Who has the key, and for what."))
    queue = models.CharField(_("queue"), max_length=100, default="default")
    channel = models.CharField(_("channel"), max_length=200)
    verbs = models.JSONField(_("verbs"), default=list)
    handlers = models.TextField(
        _("handlers"), blank=True, help_text=_("One name a line. The key enqueues messages for these handlers alone.")
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(_("created at"), default=timezone.now, editable=False)

    class Meta:
        db_table = "django_pgqueue_http_key"  # no table of the queue: the roles of its database know nothing of it
        verbose_name = _("HTTP key")
        verbose_name_plural = _("HTTP keys")

    def __str__(self) -> str:
        return f"{self.name} ({self.queue}/{self.channel})"

    def renew(self) -> str:
        """Put the digest of a new key into the row, without saving it, and return the key."""
        secret = f"pgq_{secrets.token_urlsafe(32)}"
        self.digest = digest_of(secret)
        return secret


def digest_of(secret: str) -> str:
    """Return what is stored of a key. It has 256 random bits, so a fast hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()
