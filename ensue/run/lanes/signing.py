"""Signed orders: who can write the directory of a stream is not yet who may change its patterns.

The last line of a signed order is an HMAC-SHA256 of the order's name and its other lines, under a
secret that writer and stream share. An order that somebody else wrote or changed, or that has
another name (and so another number), is refused, counted and shown, and the stream goes on.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from ensue import errors

SHORTEST = 16  # bytes of a secret
_MARK = "-- signed "


def check_secret(secret: object) -> bytes:
    """A secret as bytes; one that is easily guessed is refused, and never shown."""
    told = secret.encode() if isinstance(secret, str) else secret
    if not isinstance(told, bytes) or len(told) < SHORTEST:
        raise errors.QueryError(
            f"the secret for edits is not a text of at least {SHORTEST} bytes",
            remedy="make one with secrets.token_hex(), and keep it out of the code",
        )
    return told


def signed(name: str, text: str, secret: bytes) -> str:
    """The order's text with its signature as the last line."""
    text = text.rstrip("\n")
    return f"{text}\n{_MARK}{_signature(name, text, secret)}\n"


def authentic(
    orders: Sequence[str], secret: bytes | None
) -> tuple[list[str], list[dict[str, str]]]:
    """Orders without their signatures, and those that are refused, with the reason."""
    if secret is None:
        return list(orders), []
    taken, refused = [], []
    for order in orders:
        name, _, text = order.partition("\n")
        body, _, last = text.rstrip("\n").rpartition("\n")
        # As bytes: what stands there is anybody's text.
        told = last.removeprefix(_MARK).encode(errors="replace")
        if last.startswith(_MARK) and hmac.compare_digest(
            told, _signature(name, body, secret).encode()
        ):
            taken.append(f"{name}\n{body}")
        else:
            problem = errors.UntrustedError(
                "the edit is not signed with the secret of this stream",
                remedy="write it with Control(folder, secret=...)",
            )
            refused.append({"order": name[:200], "error": str(problem)})
    return taken, refused


def _signature(name: str, text: str, secret: bytes) -> str:
    return hmac.digest(secret, f"{name}\n{text}".encode(errors="replace"), "sha256").hex()
