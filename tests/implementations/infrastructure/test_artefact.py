"""Artefacts: what was written is read, and whatever else stands in its place is moved aside and named in one line."""

import io
import json
import os
import signal
import socket
import struct
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from implementations.infrastructure import artefact
from implementations.infrastructure.artefact import read_arrays, read_npz, read_record, write_arrays, write_record
from implementations.infrastructure.files import Damaged

IDENTITY = {"task": "linear", "seed": 0, "settings": {"step_size": 0.1, "chains": 4}}
ARRAYS = {"draws": np.arange(60.0).reshape(3, 20), "name": np.array("some text"), "none": np.zeros((2, 0, 3), np.int32)}


@pytest.fixture(params=["json", "npz"])
def path(request, tmp_path) -> Path:
    """An artefact of the kind ``metrics``."""
    path = tmp_path / f"one.{request.param}"
    write(path)
    return path


def write(path: Path, kind: str = "metrics", **other: object) -> None:
    if path.suffix == ".json":
        write_record(path, kind, {**IDENTITY, **other, "number": 0.5}, made_from={"run": "abc"})
    else:
        write_arrays(path, kind, ARRAYS, {**IDENTITY, **other}, made_from={"run": "abc"})


def read(path: Path, identity=IDENTITY, **wanted: object) -> None:
    (read_record if path.suffix == ".json" else read_arrays)(path, "metrics", identity, **wanted)


def test_what_was_written_is_read(tmp_path):
    written = write_record(tmp_path / "one.json", "run", {"number": 0.5}, made_from={"draws": "abc"}, failure="no")
    assert read_record(tmp_path / "one.json", "run", {"number": 0.5}, made_from={"draws": "abc"}) == written
    assert written["failure"] == "no"
    for compress in (False, True):
        record = write_arrays(tmp_path / "two.npz", "draws", ARRAYS, IDENTITY, compress=compress)
        again, arrays = read_arrays(tmp_path / "two.npz", "draws", IDENTITY, checksum=record["sha256"])
        assert again == record == read_record(tmp_path / "two.npz", "draws")
        assert arrays.keys() == ARRAYS.keys()
        assert all(arrays[name].dtype == array.dtype for name, array in ARRAYS.items())
        assert all(np.array_equal(arrays[name], array) for name, array in ARRAYS.items())
    # numpy alone reads them too.
    with np.load(tmp_path / "two.npz") as archive:
        assert np.array_equal(archive["draws"], ARRAYS["draws"])


def test_the_same_content_is_the_same_file(tmp_path):
    for name in ("one.npz", "two.npz"):
        write(tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"identity": IDENTITY | {"seed": 1}}, "it belongs elsewhere: seed is 0, not 1"),
        ({"identity": {"settings": {"step_size": 0.2, "chains": 4}}}, "step_size is 0.1, not 0.2"),
        ({"identity": {"settings": {"step_size": 0.1}}}, "chains is 4, not None"),
        ({"identity": {"weight": 5.0}}, "weight is None, not 5.0"),
        ({"made_from": {"run": "abd"}}, "it was made from something else: run is 'abc', not 'abd'"),
        ({"checksum": "0" * 64}, "it is not the one that was recorded"),
    ],
)
def test_a_whole_file_that_is_something_else_is_moved_aside(path, wanted, why):
    with pytest.raises(Damaged) as refused:
        read(path, **wanted)
    assert why in str(refused.value) and str(refused.value).startswith(f"{path} is damaged: ")
    assert "\n" not in str(refused.value) and f"moved to {path.name}.damaged" in str(refused.value)
    assert not path.exists() and path.with_name(f"{path.name}.damaged").exists()


def test_another_kind_and_another_version_are_refused(path, monkeypatch):
    write(path, "curves")
    with pytest.raises(Damaged, match="it is of the kind 'curves', not 'metrics'"):
        read(path)
    write(path)
    monkeypatch.setitem(artefact.VERSIONS, "metrics", 2)
    with pytest.raises(Damaged, match="it is of version 1"):
        read(path)


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 4
    path.write_bytes(content)


def test_any_flipped_bit_is_noticed_or_changes_nothing(path):
    """Nothing but what is read: a bit of a date in the archive's directory may be another."""
    before = path.read_bytes()
    expected = read_record(path, "metrics") if path.suffix == ".json" else read_arrays(path, "metrics")
    for position in range(0, len(before), 7 if path.suffix == ".json" else 13):
        flip(path, position)
        try:
            found = read_record(path, "metrics") if path.suffix == ".json" else read_arrays(path, "metrics")
        except Damaged:
            pass
        else:
            assert repr(found) == repr(expected)
        path.write_bytes(before)


@pytest.mark.parametrize(
    "content", [b"", b"[7]", b"{}", b"null", b"[" * 100_000, b"\x00" * 100, b"PK\x03\x04", b"\xff"]
)
def test_what_is_no_artefact_is_damaged(path, content):
    path.write_bytes(content)
    with pytest.raises(Damaged, match="is damaged: "):
        read(path)


def test_a_record_without_its_checksum_is_damaged(tmp_path):
    path = tmp_path / "one.json"
    write(path)
    record = json.loads(path.read_text())
    del record["sha256"]
    path.write_text(json.dumps(record))
    with pytest.raises(Damaged, match="checksum is missing or wrong"):
        read(path)


@pytest.fixture
def in_a_moment():
    """No test here may wait for a file."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(10)
    yield
    signal.alarm(0)


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


IN_ITS_PLACE = {
    "a folder": lambda path: path.mkdir(),
    "a folder with a file": lambda path: (path.mkdir(), (path / "x").touch()),
    "a FIFO": os.mkfifo,
    "a socket": socket_at,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a link loop": lambda path: path.symlink_to(path.name),
    "a file nobody may read": lambda path: (path.touch(), path.chmod(0)),
}


@pytest.mark.parametrize("what", IN_ITS_PLACE)
def test_what_is_no_file_is_moved_aside_at_once(path, what, in_a_moment, monkeypatch):
    monkeypatch.chdir(path.parent)
    path = Path(path.name)
    path.unlink()
    # Also when something lies there already.
    for _ in range(2):
        IN_ITS_PLACE[what](path)
        with pytest.raises(Damaged, match=f"moved to {path.name}.damaged"):
            read(path)
        assert not os.path.lexists(path)


def test_a_file_takes_the_place_of_a_folder_that_is_moved_aside(path):
    for _ in range(2):
        path.unlink()
        path.mkdir()
        write(path)
        read(path)
    assert path.with_name(f"{path.name}.damaged").is_dir()


def test_a_link_to_a_whole_file_is_read(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    read(path)


def test_a_file_that_a_person_named_stays_where_it_is(tmp_path):
    path = tmp_path / "mine.npz"
    path.write_text("mine")
    for refuse in (lambda: read_npz(path), lambda: read_arrays(path, "reference", moves=False)):
        with pytest.raises(Damaged, match=r"mine\.npz is damaged"):
            refuse()
    assert path.read_text() == "mine"


def header(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": dtype})
    return file.getvalue()


def archive(path: Path, packing: int = zipfile.ZIP_DEFLATED, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", packing) as file:
        for name, content in members.items():
            file.writestr(name.replace("_npy", ".npy"), content)


HOSTILE = {
    "a shape of 10^15": lambda path: archive(path, a_npy=header((10**15,))),
    "a negative shape": lambda path: archive(path, a_npy=header((-1, -8)) + bytes(64)),
    "a member that is no array": lambda path: archive(path, readme=b"text"),
    "pickled objects": lambda path: np.savez(path, a=np.array([{"a": 1}], dtype=object)),
    "objects said to be numbers": lambda path: archive(path, a_npy=header((1,), "|O") + bytes(8)),
    "a single array": lambda path: (
        np.save(path.with_suffix(".npy"), np.zeros(3)),
        path.with_suffix(".npy").rename(path),
    ),
    "text that is no text": lambda path: archive(path, artefact_npy=header((), "<U1") + b"\xff\xff\xff\x7f"),
    "half a character": lambda path: archive(path, artefact_npy=header((), "<U1") + b"\x00\xd8\x00\x00"),
    "another compression": lambda path: archive(path, zipfile.ZIP_LZMA, a_npy=header((1,)) + bytes(8)),
    "a directory that lies": lambda path: (archive(path, a_npy=header((2**29,))), claim(path, 2**31, 2**32 - 1)),
    "an encrypted member": lambda path: (np.savez(path, a=np.zeros(3)), flip_flag(path)),
}


def claim(path: Path, *sizes: int) -> None:
    """Write other sizes, packed and unpacked, into the directory at the end of an archive."""
    content = bytearray(path.read_bytes())
    struct.pack_into("<II", content, content.index(b"PK\x01\x02") + 20, *sizes)
    path.write_bytes(content)


def flip_flag(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + offset] |= 1
    path.write_bytes(content)


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_archives_are_refused_at_once(tmp_path, what, in_a_moment):
    HOSTILE[what](tmp_path / "a.npz")
    with pytest.raises(Damaged, match=r"a\.npz is damaged: "):
        read_npz(tmp_path / "a.npz")
        read_arrays(tmp_path / "a.npz", "draws")


def test_a_small_file_of_gigabytes_is_refused_before_it_is_unpacked(tmp_path, in_a_moment):
    path = tmp_path / "bomb.npz"
    archive(path, a_npy=header((2**28,)) + bytes(1000))
    # The directory at the end says that there are two gigabytes in it.
    claim(path, 100, 2**31)
    started = time.monotonic()
    with pytest.raises(Damaged, match="2,147,483,648 bytes of arrays are packed into"):
        read_npz(path)
    assert time.monotonic() - started < 1


def test_errors_of_the_system_are_no_damage(path, monkeypatch):
    def full(*arguments: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(artefact.os, "open", full)
    with pytest.raises(OSError, match="Too many open files"):
        read(path)
    monkeypatch.undo()
    assert path.exists()
    with pytest.raises(FileNotFoundError):
        read(path.with_name("missing" + path.suffix))
