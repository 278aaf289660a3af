"""Answer requests: find the key, check the body, run the operation. Errors are JSON, too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.core.signing import BadSignature
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from django_pgqueue import __version__, exceptions
from django_pgqueue.http.models import Key, digest_of
from django_pgqueue.http.operations import OPERATIONS, Operation, Refusal

STATUSES = {
    exceptions.ChannelNotFound: 404,
    exceptions.InvalidMessage: 422,
    exceptions.ChannelFull: 429,
    exceptions.ChannelBusy: 503,
    exceptions.CodecUnavailable: 503,
}
KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}
MOST_BODY_BYTES = 2_621_440  # where DATA_UPLOAD_MAX_MEMORY_SIZE is None


def view(operations: Mapping[str, Operation]) -> Callable[..., HttpResponse]:
    """Return the view of one path. ``operations``: by their methods. No cookie opens the door, so there is no CSRF."""

    @csrf_exempt
    @never_cache
    def answer(request: HttpRequest, **place: Any) -> HttpResponse:
        operation = operations.get(request.method or "")
        if operation is None:
            return error(405, "method_not_allowed", f"This address takes {', '.join(operations)}.")
        try:
            key = key_of(request, operation.verb) if operation.verb else None
            status, value = operation.run(key, body_of(request, operation), **place)
        except Refusal as refusal:
            return error(*refusal.args)
        except BadSignature:
            return error(404, "not_found", "The token is forged, or too old.")
        except exceptions.PgQueueError as failure:
            word = re.sub(r"(?<!^)(?=[A-Z])", "_", type(failure).__name__).lower()
            return error(STATUSES.get(type(failure), 409), word, failure.message)
        return JsonResponse(value, status=status)

    return answer


def error(status: int, code: str, text: str) -> JsonResponse:
    """Return an error. After 429 and 503 the client may try again."""
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}.get(status)
    return JsonResponse({"error": {"code": code, "message": text}}, status=status, headers=headers)


def key_of(request: HttpRequest, verb: str) -> Key:
    """Return the key of the request. Raises Refusal if it has none, or one without the verb."""
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    key = Key._base_manager.filter(digest=digest_of(secret.strip())).first() if kind.lower() == "bearer" else None
    if key is None:
        raise Refusal(401, "no_key", "Send a valid key in the header Authorization: Bearer …")
    if verb not in key.verbs:
        raise Refusal(403, "verb_not_allowed", f"The key does not allow the verb {verb}.")
    return key


def body_of(request: HttpRequest, operation: Operation) -> dict[str, Any]:
    """Return the fields of the body. Raises Refusal for one that is too large, no JSON, or does not fit."""
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or MOST_BODY_BYTES
    text = request.read(most + 1) if operation.method == "POST" else b""
    if len(text) > most:
        raise Refusal(413, "too_large", f"The body has more than {most} bytes.")
    try:
        given = json.loads(text or b"{}", parse_constant=int)  # int() refuses NaN, which is no JSON
    except (ValueError, RecursionError):
        raise Refusal(400, "not_json", "The body is not JSON.") from None
    if not isinstance(given, dict):
        raise Refusal(422, "invalid", "The body is no JSON object.")
    for name in {**given, **dict.fromkeys(operation.required)}:
        if name not in operation.fields:
            raise Refusal(422, "invalid", f"{name[:100]!r} is not among the fields: {', '.join(operation.fields)}.")
        if name not in given or not fits(given[name], operation.fields[name]):
            raise Refusal(422, "invalid", f"{name} does not fit {json.dumps(operation.fields[name])}.")
    return given


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value fits the schema of a field."""
    if "type" not in schema:
        return True
    if isinstance(value, bool) or not isinstance(value, KINDS[schema["type"]]):
        return False
    size = len(value) if isinstance(value, str) else value
    return bool(schema.get("minimum", size) <= size <= schema.get("maximum", schema.get("maxLength", size)))


@never_cache
def openapi(request: HttpRequest) -> JsonResponse:
    """Describe the door in OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        address = "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", each.path)
        paths.setdefault(address, {})[each.method.lower()] = described(each)
    info = {"title": "django_pgqueue", "version": __version__}
    components = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}
    place = [{"url": request.path.rpartition("/")[0]}]
    document = {"openapi": "3.1.0", "info": info, "servers": place, "paths": paths, "components": components}
    return JsonResponse(document)


def described(operation: Operation) -> dict[str, Any]:
    """Return what OpenAPI says of an operation."""
    inside = re.findall(r"<(\w+):(\w+)>", operation.path)
    answers = {str(status): {"description": text} for status, text in operation.answers.items()}
    schema = {"type": "object", "properties": operation.fields, "required": operation.required}
    content = {"application/json": {"schema": {**schema, "additionalProperties": False}}}
    return {
        "operationId": operation.run.__name__,
        "summary": operation.run.__doc__,
        "security": [{"key": []}] if operation.verb else [],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if kind == "int" else "string"}}
            for kind, name in inside
        ],
        "responses": {**answers, "default": {"description": 'An error: {"error": {"code": …, "message": …}}.'}},
        **({"requestBody": {"required": bool(operation.required), "content": content}} if operation.fields else {}),
    }
