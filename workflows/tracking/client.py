"""The MLflow store: its address, the connection to it, and the experiment of a study.

What is shown or kept of an address has no password, token or option in it.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote, unquote

from implementations.infrastructure.files import atomic_path, clear_abandoned

if TYPE_CHECKING:
    from mlflow import MlflowClient

HIDDEN = "***"
#: A server that does not answer costs seconds. Environment variables override these limits.
LIMITS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "PGCONNECT_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}

#: Where a server may keep the files of runs: with itself, or in an object store.
REMOTE_PLACES = ("mlflow-artifacts", "http", "https", "s3", "gs", "wasbs", "abfss")


def chosen_store(results: Path) -> str:
    """The address of the tracking store: MLFLOW_TRACKING_URI, or a database in the folder of all results."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results / 'mlflow.db'}"


# Addresses without secrets


def without_secrets(uri: str) -> str:
    """The address without password, token and options; no more than its scheme if a password's end is in doubt."""
    scheme, mark, rest = uri.partition("://") if "://" in uri else ("", "", uri)
    scheme = scheme.lower()
    # The file of an sqlite database may have any name.
    if not any(sign in uri for sign in ("?" if scheme == "sqlite" else "@?#")):
        return uri
    hidden = f"{scheme}{mark}{HIDDEN}"
    if scheme in ("", "http", "https"):
        return hidden if not scheme or re.search("[?#]", rest) else f"{hidden}@{rest.rpartition('@')[2]}"
    # Not at the top: Snakemake's own process needs it only for such addresses.
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        address = make_url(uri)
    except (ArgumentError, ValueError):
        return hidden
    if "@" in f"{address.username}{address.host}{address.database}":
        return hidden
    return address.set(query={}).render_as_string(hide_password=True) + (f"?{HIDDEN}" if address.query else "")


def hide(text: str, uri: str) -> str:
    """The text without the secrets of an address, which errors repeat in whole, in part or in other letters."""
    shown = without_secrets(uri)
    text = text.replace(uri, shown)
    words, open_words = (re.split("[/?#@:&=;]+", one) for one in (f"{uri}/{unquote(uri)}", f"{shown}/{unquote(shown)}"))
    is_open = {word.lower() for word in open_words}
    # A shorter piece of a secret tells little, and is a part of many words.
    secrets = {word for word in words if len(word) > 2 and word.lower() not in is_open} if shown != uri else ()
    for secret in sorted(secrets, key=len, reverse=True):
        for form in (secret, unquote(secret), quote(secret, safe="")):
            text = re.sub(re.escape(form), HIDDEN, text, flags=re.IGNORECASE)
    return text


def reason_of(error: Exception, uri: str) -> str:
    """Why a store could not be written to, in a line without secrets."""
    # The last cause is the plainest, such as "connection refused"; what wraps it repeats addresses and retries.
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        if not isinstance(cause, Exception) or not str(cause).strip():
            break
        error = cause
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return hide(line, uri)[:300]


class Hiding:
    """A stream that hides the secrets of an address in whole lines on their way to another stream."""

    def __init__(self, stream: TextIO, uri: str) -> None:
        self.stream, self.uri, self.line = stream, uri, ""

    def write(self, text: str) -> int:
        *lines, self.line = (self.line + text).split("\n")
        self.stream.writelines(hide(line, self.uri) + "\n" for line in lines)
        return len(text)

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        """Write what is left; the other stream stays open."""
        self.stream.write(hide(self.line, self.uri))
        self.stream.flush()


# The connection


def is_database(uri: str) -> bool:
    from mlflow.store.db.db_types import DATABASE_ENGINES

    return uri.partition("://")[0].lower().partition("+")[0] in DATABASE_ENGINES


def _database_file(uri: str) -> Path | None:
    """The file of an sqlite database; None for any other store."""
    from sqlalchemy import make_url

    address = make_url(uri) if is_database(uri) else None
    is_file = address is not None and address.get_backend_name() == "sqlite" and address.database
    return Path(str(address.database)) if address is not None and is_file else None


def connect(uri: str) -> "MlflowClient":
    from mlflow import MlflowClient
    from sqlalchemy import create_engine

    for name, value in LIMITS.items():
        os.environ.setdefault(name, value)
    if is_database(uri):
        if path := _database_file(uri):
            clear_abandoned(path)
            # MLflow makes a database in many steps and cannot go on from the middle of them.
            if not path.exists():
                with atomic_path(path) as temporary:
                    MlflowClient(tracking_uri=f"sqlite:///{temporary}")
        # MLflow would try ten times, over minutes.
        engine = create_engine(uri)
        engine.connect().close()
        engine.dispose()
    elif not uri.lower().startswith(("http://", "https://")):
        raise ValueError(
            f"'{without_secrets(uri)}' is no address of a server (http://…) or of a database (sqlite:///…, postgresql://…)"
        )
    return MlflowClient(tracking_uri=uri)


@contextmanager
def flushed_once(uri: str) -> Iterator[None]:
    """Let a database that is a file reach the disk once, at the end of the block, not with each of MLflow's commits.

    A process that is killed loses nothing by it, because the system has what was committed. A computer that loses its
    power in these seconds may leave a damaged file, of which only a person's own notes cannot be made again.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    path = _database_file(uri)
    if path is None:
        yield
        return
    event.listen(Engine, "connect", _leave_to_the_system)
    try:
        yield
    finally:
        event.remove(Engine, "connect", _leave_to_the_system)
        if path.exists():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _leave_to_the_system(connection: Any, _: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def check_place(place: str, uri: str) -> None:
    """Refuse a place for files that a server on the network may not choose: a folder of this machine."""
    if is_database(uri) or place.partition(":")[0].lower() in REMOTE_PLACES:
        return
    raise ValueError(
        f"the server keeps the files of runs in {place[:100]!r}, on this machine, and a server may not choose a folder "
        "here; start it with --serve-artifacts"
    )


# The experiment


def experiment_of(client: "MlflowClient", uri: str, study: str, artifacts: Path) -> str:
    """The id of the study's experiment; one that a person has deleted is restored."""
    # Not at the top: Snakemake's own process needs only the address.
    from workflows.tracking.entries import EXPERIMENT_TAGS

    # A server has a place of its own for files.
    location = (artifacts / study).resolve().as_uri() if is_database(uri) else None
    experiment = client.get_experiment_by_name(study)
    if experiment is None:
        return str(client.create_experiment(study, location, EXPERIMENT_TAGS))
    found = str(experiment.artifact_location)
    # In the folder of other results? A place that a person chose is left alone.
    is_of_results = found.startswith("file:") and found.endswith(f"/{artifacts.name}/{study}")
    if location and is_of_results and found != location:
        path = _database_file(uri)
        if path is None or path.resolve().parent != artifacts.resolve().parent:
            raise ValueError(
                f"the experiment {study} there has its files with other results, in {found}; "
                "rename it, or choose another MLFLOW_TRACKING_URI"
            )
        _move_files(uri, found, location)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    for name, value in EXPERIMENT_TAGS.items():
        if experiment.tags.get(name) != value:
            client.set_experiment_tag(experiment.experiment_id, name, value)
    return str(experiment.experiment_id)


def _move_files(uri: str, old: str, new: str) -> None:
    """Let a database in results that were moved or copied find its files in the same results.

    MLflow keeps whole paths only, and would read and write the files of the original.
    """
    from sqlalchemy import create_engine, text

    engine = create_engine(uri)
    with engine.begin() as connection:
        values = {"old": old, "new": new, "start": len(old) + 1, "length": len(old)}
        for command in (
            "UPDATE experiments SET artifact_location = :new WHERE artifact_location = :old",
            "UPDATE runs SET artifact_uri = :new || substr(artifact_uri, :start)"
            " WHERE substr(artifact_uri, 1, :length) = :old",
        ):
            connection.execute(text(command), values)
    engine.dispose()
