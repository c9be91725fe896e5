"""Files that say what they are: the one writer and the one reader of what a run or a study keeps.

An artefact is a JSON file, or an .npz file of arrays with such a record in it. The record names its kind, the version
of the step that wrote it, what it was made for (its identity), the checksums of what it was made from, the reason where
the step failed, and a checksum of all of it. A reader says what the artefact has to be. A file that is damaged
or something else is moved aside as ``<name>.damaged`` and named in one line, so that the next call makes it again.
"""

import errno
import hashlib
import json
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from implementations.infrastructure.files import Damaged, atomic_path, move_aside


class Failed(RuntimeError):
    """A file holds no result but the reason why there is none."""


Record = dict[str, Any]
Arrays = dict[str, np.ndarray]

#: Raise the number of a kind when the step that writes it gives other numbers: files of earlier versions are then made
#: again. Changes that move no number leave it alone.
VERSIONS = {
    "problem": 1,
    "reference": 1,
    "tuning": 1,
    "run": 1,
    "draws": 1,
    "checkpoint": 5,
    "metrics": 1,
    "curves": 1,
    "mark": 1,
    "timing": 1,
    "fetched": 1,
    "tracked": 1,
    "summary": 1,
    "features": 1,
}
#: The member of an .npz file that holds its record.
RECORD = "artefact"
#: A JSON file of the suite has some kilobytes.
MOST_JSON_BYTES = 2**26
#: The largest problem of the suite, ten million points, has a gigabyte of arrays.
MOST_ARRAY_BYTES = 2**33
#: Arrays of more than a gigabyte that were packed into a hundredth of it are no data but an attack on the memory.
LARGE_BYTES, MOST_PACKED = 2**30, 100
#: What keeps a file from being opened because of what stands in its place; other errors are the system's.
_NO_FILE = {errno.ELOOP, errno.EACCES, errno.ENXIO, errno.ENODEV, errno.EISDIR}
#: What zipfile, zlib and numpy raise on a damaged archive.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, ValueError, TypeError, AttributeError, LookupError, EOFError),
    *(RuntimeError, SyntaxError, OverflowError, RecursionError, SystemError),
)


def write_record(
    path: Path,
    kind: str,
    content: Mapping[str, Any],
    *,
    made_from: Mapping[str, str] | None = None,
    failure: str | None = None,
) -> Record:
    """Write a JSON artefact; the record as it is on file. Its identity is part of ``content``."""
    record = record_of(kind, content, made_from, failure)
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return record


def write_arrays(
    path: Path,
    kind: str,
    arrays: Mapping[str, Any],
    identity: Mapping[str, Any],
    *,
    made_from: Mapping[str, str] | None = None,
    failure: str | None = None,
    compress: bool = False,
) -> Record:
    """Write an .npz artefact; its record."""
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    sums = {"arrays": {name: _digest_of(array) for name, array in plain.items()}}
    record = record_of(kind, {**identity, **sums}, made_from, failure)
    text = np.array(json.dumps(record, allow_nan=False))
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        (np.savez_compressed if compress else np.savez)(file, allow_pickle=False, **{RECORD: text}, **plain)
    return record


def read_record(
    path: Path,
    kind: str,
    identity: Mapping[str, Any] | None = None,
    *,
    made_from: Mapping[str, str] | None = None,
    checksum: str | None = None,
) -> Record:
    """The record of an artefact, JSON or .npz, which has to be of this kind, identity, origin and checksum.

    Only what is given is compared. The arrays of an .npz file are not read.
    """
    with reading(path) as file:
        if path.suffix == ".npz":
            with _archive(file) as archive:
                record = _packed_record(archive)
        else:
            record = _parsed(file.read(MOST_JSON_BYTES + 1))
        check(record, kind, identity, made_from, checksum)
        return record


def read_arrays(
    path: Path,
    kind: str,
    identity: Mapping[str, Any] | None = None,
    *,
    made_from: Mapping[str, str] | None = None,
    checksum: str | None = None,
    moves: bool = True,
) -> tuple[Record, Arrays]:
    """The record of an .npz artefact and its arrays, all of them as they were written.

    Without ``moves`` a damaged file stays where it is: one that a person named may be anything.
    """
    with reading(path, moves=moves) as file, _archive(file) as archive:
        record = _packed_record(archive)
        check(record, kind, identity, made_from, checksum)
        arrays = dict(_unpacked(archive))
        del arrays[RECORD]
        if record.get("arrays") != {name: _digest_of(array) for name, array in arrays.items()}:
            raise Damaged("its arrays are not those that were written")
        return record, arrays


def read_npz(path: Path) -> Arrays:
    """All arrays of anybody's .npz file, never a pickle. Damaged, and left where it is, if it is none."""
    with reading(path, moves=False) as file, _archive(file) as archive:
        return dict(_unpacked(archive))


@contextmanager
def reading(path: Path, *, moves: bool = True) -> Iterator[BinaryIO]:
    """Open a file; move it aside where it, or the block, finds it damaged, and say so in one line."""
    try:
        with _opened(path) as file:
            yield file
    except Damaged as error:
        try:
            what = f"; moved to {move_aside(path).name}" if moves else ""
        except OSError as fault:
            what = f"; it cannot be moved aside ({fault.strerror})"
        raise Damaged(f"{path} is damaged: {error}{what}") from None


@contextmanager
def parsing() -> Iterator[None]:
    """Damaged for whatever a library raises in the block on a file that is not what it should be."""
    try:
        yield
    except Damaged:
        raise
    except OSError as error:
        # A place before the beginning of the file is an error of the file's; others are the system's.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise Damaged(_line_of(error)) from None
    except _BROKEN as error:
        raise Damaged(_line_of(error)) from None


def _line_of(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file, or Damaged at once for anything else in its place: a FIFO would wait for ever for a writer."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NO_FILE or (isinstance(error, FileNotFoundError) and path.is_symlink()):
            raise Damaged(f"it cannot be opened ({error.strerror})") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Damaged("it is no regular file")
    with os.fdopen(handle, "rb") as file:
        yield file


def record_of(
    kind: str,
    content: Mapping[str, Any],
    made_from: Mapping[str, str] | None = None,
    failure: str | None = None,
) -> Record:
    """The record of an artefact that is to be written, in plain JSON values, with the checksum of all of it."""
    about = {"kind": kind, "version": VERSIONS[kind], "made_from": dict(made_from or {}), "failure": failure}
    record = json.loads(json.dumps({**content, **about}, allow_nan=False))
    record.pop("sha256", None)
    return {**record, "sha256": _digest(record)}


def check(
    record: Record,
    kind: str,
    identity: Mapping[str, Any] | None = None,
    made_from: Mapping[str, str] | None = None,
    checksum: str | None = None,
) -> None:
    """Damaged where a record is not what it was, or not what was asked for."""
    rest = {name: value for name, value in record.items() if name != "sha256"}
    if record.get("sha256") != _digest(rest):
        raise Damaged("its checksum is missing or wrong")
    if record.get("kind") != kind:
        raise Damaged(f"it is of the kind {record.get('kind')!r}, not {kind!r}")
    if record.get("version") != VERSIONS[kind]:
        raise Damaged(f"it is of version {record.get('version')}, not {VERSIONS[kind]}")
    if difference := first_difference(record, identity or {}):
        raise Damaged(f"it belongs elsewhere: {difference}")
    if difference := first_difference(record.get("made_from") or {}, made_from or {}):
        raise Damaged(f"it was made from something else: {difference}")
    if checksum is not None and record["sha256"] != checksum:
        raise Damaged("it is not the one that was recorded")


def first_difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """``step_size is 0.1, not 0.2``: the first of the wanted values that is another; nothing where all are the same."""
    for name, value in json.loads(json.dumps(wanted)).items():
        there = found.get(name)
        if isinstance(there, dict) and isinstance(value, dict):
            others = dict.fromkeys(there.keys() - value.keys())
            if difference := first_difference(there, value | others):
                return difference
        elif there != value:
            return f"{name} is {there!r}, not {value!r}"
    return ""


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _digest_of(array: np.ndarray) -> str:
    head = f"{array.dtype.str} {array.shape} ".encode()
    digest = hashlib.sha256(head)
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()


def _parsed(text: bytes) -> Record:
    if len(text) > MOST_JSON_BYTES:
        raise Damaged(f"it has more than {MOST_JSON_BYTES:,} bytes")
    with parsing():
        record = json.loads(text)
    if not isinstance(record, dict):
        raise Damaged(f"it holds no object but {type(record).__name__}")
    return record


@contextmanager
def _archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    with parsing():
        archive = zipfile.ZipFile(file)
        members = archive.infolist()
        if any(one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for one in members):
            raise Damaged("it is packed in a way that numpy does not use")
        if sum(one.compress_size for one in members) > os.fstat(file.fileno()).st_size:
            raise Damaged("its directory names more bytes than the file has")
    with archive:
        yield archive


def _packed_record(archive: zipfile.ZipFile) -> Record:
    member = next((one for one in archive.infolist() if one.filename == f"{RECORD}.npy"), None)
    if member is None:
        raise Damaged("it does not say what it is")
    array = _array(archive, member, MOST_JSON_BYTES)
    with parsing():
        text = str(array).encode()
    return _parsed(text)


def _unpacked(archive: zipfile.ZipFile) -> Iterator[tuple[str, np.ndarray]]:
    members = archive.infolist()
    total, packed = sum(one.file_size for one in members), sum(one.compress_size for one in members)
    if total > MOST_ARRAY_BYTES or (total > LARGE_BYTES and total > MOST_PACKED * packed):
        raise Damaged(f"its {total:,} bytes of arrays are packed into {packed:,}")
    for member in members:
        if not member.filename.endswith(".npy"):
            raise Damaged(f"{member.filename} in it is no array")
        yield member.filename.removesuffix(".npy"), _array(archive, member, MOST_ARRAY_BYTES)


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most_bytes: int) -> np.ndarray:
    """One array, read when its header agrees with its size."""
    with parsing(), archive.open(member) as file:
        read_header = np.lib.format.read_array_header_1_0
        if np.lib.format.read_magic(file) != (1, 0):
            read_header = np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        num_bytes = file.tell() + math.prod(shape) * dtype.itemsize
        if dtype.hasobject or num_bytes != member.file_size or num_bytes > most_bytes:
            raise Damaged(f"the header of {member.filename} in it, {dtype} {shape}, is not that of its content")
    with parsing(), archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
