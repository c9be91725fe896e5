"""The address of a tracking store as it may be shown and kept: without passwords and tokens, however they are written.

Programs disagree on where a password with ``/``, ``#`` or ``?`` in it ends. Where that is in doubt, more is hidden.
"""

import re
from collections.abc import Iterator
from types import TracebackType
from typing import Self, TextIO
from urllib.parse import quote, unquote

HIDDEN = "***"
#: What a password may have been cut at by somebody who tried to read the address.
_CUTS = re.compile(r"[/?#@:&=]")
#: A shorter piece of a secret tells little, and is a part of many words.
_SHORTEST_PIECE = 3


def scheme_of(uri: str) -> str:
    """``postgresql+psycopg2`` of ``postgresql+psycopg2://…``; nothing where there is none."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", uri)
    return match[1].lower() if match else ""


def without_secrets(uri: str) -> str:
    """The address without its password, user and values of options; of a database the user stays."""
    scheme, rest = scheme_of(uri), uri.partition("://")[2]
    if _is_open(uri):
        shown = uri
    elif not scheme:
        shown = HIDDEN
    elif scheme in ("http", "https"):
        shown = f"{scheme}://{_shown_server(rest)}"
    else:
        shown = _shown_database(uri) or f"{scheme}://{HIDDEN}"
    return "".join(character if character.isprintable() else "?" for character in shown)


def _is_open(uri: str) -> bool:
    """Has it no place for a secret? The file of an sqlite database may have any name."""
    return not any(mark in uri for mark in ("?" if scheme_of(uri) == "sqlite" else "@?#"))


def _shown_server(rest: str) -> str:
    before, mark, host = rest.rpartition("@")
    if "?" in before or "#" in before:
        # This @ may be in an option, and then what follows it is no host.
        return HIDDEN
    place, options, _ = _partition(host)
    return (f"{HIDDEN}@" if mark else "") + place + (f"{options}{HIDDEN}" if options else "")


def _partition(text: str) -> tuple[str, str, str]:
    """The text before the first ``?`` or ``#``, that mark, and the rest."""
    match = re.search(r"[?#]", text)
    return (text[: match.start()], match[0], text[match.end() :]) if match else (text, "", "")


def _shown_database(uri: str) -> str | None:
    # Not at the top: Snakemake's own process needs it only for such addresses.
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        address = make_url(uri)
    except (ArgumentError, ValueError):
        return None
    if "@" in f"{address.username}{address.host}{address.database}":
        return None
    return address.set(query={}).render_as_string(hide_password=True) + (f"?{HIDDEN}" if address.query else "")


def hide(text: str, uri: str) -> str:
    """The text without the secrets of an address, which errors repeat in whole or in part."""
    text = text.replace(uri, without_secrets(uri))
    for secret in sorted(set(_secrets(uri)), key=len, reverse=True):
        # Hosts are written small, and a secret may be taken for one.
        text = re.sub(re.escape(secret), HIDDEN, text, flags=re.IGNORECASE)
    return text


def _secrets(uri: str) -> Iterator[str]:
    if _is_open(uri):
        return
    rest = uri.partition("://")[2] or uri
    user, mark, host = rest.rpartition("@")
    if scheme_of(uri) not in ("http", "https"):
        # The user of a database is no secret; the only word before an @ may be a token.
        user = user.partition(":")[2] or user
    options = _partition(host if mark else rest)[2]
    # The first of an option is its name.
    values = [value for option in re.split("[&;]", options) for value in option.split("=")[1:] or [option]]
    for secret in (user, *values):
        for piece in (secret, *_CUTS.split(secret), *_CUTS.split(unquote(secret))):
            for form in (piece, unquote(piece), quote(piece, safe="")):
                if len(form) >= _SHORTEST_PIECE:
                    yield form


class Hiding:
    """A stream that hides the secrets of an address in whole lines on their way to another one."""

    def __init__(self, stream: TextIO, uri: str) -> None:
        self.stream, self.uri, self.line = stream, uri, ""

    def write(self, text: str) -> int:
        *lines, self.line = (self.line + text).split("\n")
        self.stream.writelines(hide(line, self.uri) + "\n" for line in lines)
        return len(text)

    def flush(self) -> None:
        self.stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stream.write(hide(self.line, self.uri))
        self.stream.flush()
