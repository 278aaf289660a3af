"""Say in one sentence what an object store refused, and what to do: its own texts are long, and name no remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.redaction import redact_secrets, secrets_of

LONGEST_DETAIL_CHARACTERS = 300
# Parts of the errors of AWS's library, in the order in which they are looked for.
NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|Bucket '[^']*' not found", re.IGNORECASE)
WRONG_KEY = re.compile(
    r"INVALID_ACCESS_KEY_ID|InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|INVALID_CLIENT_TOKEN_ID"
    r"|EXPIRED_TOKEN|ExpiredToken|INVALID_TOKEN|InvalidToken|UNRECOGNIZED_CLIENT|invalid_grant",
    re.IGNORECASE,
)
# The answer to a HEAD request has no body: S3 answers 400 to it when the credentials have expired.
NO_IDENTITY = re.compile(r"\b401\b|UNAUTHENTICATED|HTTP status 400\) during Head\w+ operation", re.IGNORECASE)
# The library has tried again before.
OVERLOADED = re.compile(
    r"SLOW_DOWN|SlowDown|TooManyRequests|Too Many Requests|\b(?:HTTP status|code:?) (?:429|503)\b", re.I
)
SKEWED = re.compile(r"REQUEST_TIME_TOO_SKEWED|RequestTimeTooSkewed", re.IGNORECASE)
# Stores that do not know the checksums which newer libraries of AWS send after the content.
CHECKSUMS = re.compile(r"NotImplemented|XAmzContentSHA256Mismatch|STREAMING-|x-amz-(?:trailer|checksum)", re.IGNORECASE)
DENIED = re.compile(r"ACCESS_DENIED|AccessDenied|HTTP status 40[13]\b|Permission denied", re.IGNORECASE)
UNREACHABLE = re.compile(r"NETWORK_CONNECTION|REQUEST_TIMEOUT|curlCode|timed? ?out", re.IGNORECASE)
TLS = re.compile(r"curlCode: (35|60)\b")
ELSEWHERE = re.compile(
    r"PERMANENT_REDIRECT|PermanentRedirect|HTTP status 30[127]|Illegal location constraint|AuthorizationHeaderMalformed"
)
NO_STORE = re.compile(r"HTTP status (400|404|405|501)\b|XML|parse", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """How errors name the target. ``url`` and ``endpoint`` hold no secret; ``endpoint`` is "" for the scheme's own."""

    url: str
    bucket: str
    endpoint: str = ""

    @property
    def store(self) -> str:
        return self.endpoint or "the store"

    def said(self, error: BaseException) -> str:
        """Return the sentence for an error of the store."""
        text = " ".join(str(error).split())
        if NO_BUCKET.search(text):
            return f"There is no bucket {self.bucket} at {self.store}: create it, or look at --to and --endpoint."
        if SKEWED.search(text):
            return "The clock of this machine is wrong: the store refuses its signatures. Set it, and run it again."
        if OVERLOADED.search(text):
            status = "429" if "429" in text else "503"
            return f"{self.store} refuses so many requests ({status}): run it again later."
        if WRONG_KEY.search(text) or NO_IDENTITY.search(text):
            return (
                f"The credentials for {self.url} are wrong or expired: look at AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or at AWS_PROFILE and its file."
            )
        if DENIED.search(text) and self.url.startswith("file:"):
            return f"{self.url} cannot be written: permission denied; look at the rights of the folder."
        if DENIED.search(text):
            return (
                f"Access to {self.url} is denied: give credentials in the environment or in AWS's files, "
                "with the right to list, get, put and delete objects there."
            )
        if TLS.search(text):
            return (
                f"The TLS connection to {self.store} failed: look whether --endpoint begins with http:// or "
                "https:// as its server does, and at its certificate."
            )
        if UNREACHABLE.search(text):
            return f"{self.store} cannot be reached: look at --endpoint, the region and the network, and run it again."
        if ELSEWHERE.search(text):
            return f"The bucket {self.bucket} is in another region: set AWS_REGION to its region."
        if CHECKSUMS.search(text):
            return (
                f"{self.store} does not know the checksums that AWS's library sends: set "
                "AWS_REQUEST_CHECKSUM_CALCULATION=when_required and AWS_RESPONSE_CHECKSUM_VALIDATION=when_required, "
                "and run it again; publish compares the content itself."
            )
        detail = redact_secrets(text, secrets_of())[:LONGEST_DETAIL_CHARACTERS]
        if NO_STORE.search(text):
            return f"{self.store} does not answer as an object store does: look at --endpoint. It said: {detail}"
        return f"{self.url} cannot be read or written: {detail}"


@contextmanager
def store_errors(address: StoreAddress) -> Iterator[None]:
    """Convert the errors of pyarrow's file systems in the block to PipelineError."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(address.said(error)) from None
