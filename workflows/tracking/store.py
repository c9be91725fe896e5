"""The tracking store: its address, and the connection to it."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from implementations.infrastructure.files import atomic_path, clear_abandoned
from workflows.tracking.address import hide, scheme_of, without_secrets

if TYPE_CHECKING:
    from mlflow import MlflowClient


def chosen_store(results: Path) -> str:
    """The address of the tracking store: MLFLOW_TRACKING_URI, or a database in the folder of all results."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results / 'mlflow.db'}"


def reason_of(error: Exception, uri: str) -> str:
    """Why a store could not be written to, in a line without secrets."""
    # The last cause is the plainest, such as "connection refused"; what wraps it repeats addresses and retries.
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        if not isinstance(cause, Exception) or not str(cause).strip():
            break
        error = cause
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return hide(line, uri)[:300]


def connect(uri: str) -> "MlflowClient":
    from mlflow import MlflowClient
    from sqlalchemy import create_engine, make_url

    if is_database(uri):
        address = make_url(uri)
        if address.get_backend_name() == "sqlite" and address.database:
            _create(Path(address.database))
        # MLflow would try ten times, over minutes.
        engine = create_engine(address)
        engine.connect().close()
        engine.dispose()
    elif scheme_of(uri) not in ("http", "https"):
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
    from sqlalchemy import event, make_url
    from sqlalchemy.engine import Engine

    address = make_url(uri) if is_database(uri) else None
    if address is None or address.get_backend_name() != "sqlite" or not address.database:
        yield
        return
    event.listen(Engine, "connect", _leave_to_the_system)
    try:
        yield
    finally:
        event.remove(Engine, "connect", _leave_to_the_system)
        _flush(Path(address.database))


def _leave_to_the_system(connection: Any, _: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def _flush(path: Path) -> None:
    if path.exists():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _create(path: Path) -> None:
    """A database file where there is none. MLflow makes it in many steps and cannot go on from the middle of them."""
    from mlflow import MlflowClient

    clear_abandoned(path)
    if not path.exists():
        with atomic_path(path) as temporary:
            MlflowClient(tracking_uri=f"sqlite:///{temporary}")


def is_database(uri: str) -> bool:
    from mlflow.store.db.db_types import DATABASE_ENGINES

    return scheme_of(uri).partition("+")[0] in DATABASE_ENGINES


def is_beside(uri: str, artifacts: Path) -> bool:
    """Is the store a file in the folder of all results, as ``artifacts`` is, so that both move together?"""
    from sqlalchemy import make_url

    address = make_url(uri)
    is_file = address.get_backend_name() == "sqlite" and address.database
    return bool(is_file) and Path(str(address.database)).resolve().parent == artifacts.resolve().parent
