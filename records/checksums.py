"""Lists of checksums beside results that have no place for one, in the form that ``sha256sum --check`` reads."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from implementations.infrastructure.files import Damaged, atomic_path, sha256_of


@contextmanager
def listed(path: Path, files: Callable[[], Iterable[Path]]) -> Iterator[None]:
    """List at ``path`` the checksums of the files that are made in the block.

    Interrupted, it leaves none: files without a list are better than files beside that of others.
    """
    path.unlink(missing_ok=True)
    yield
    with atomic_path(path) as temporary:
        lines = [f"{sha256_of(file)}  {file.relative_to(path.parent)}\n" for file in files()]
        temporary.write_text("".join(lines), encoding="utf-8")


def check_list(path: Path, *needed: str) -> None:
    """Damaged where a file is not what it was when it was listed, or one of ``needed`` is not listed."""
    try:
        sums = {name: digest for digest, name in (line.split("  ", 1) for line in path.read_text("utf-8").splitlines())}
    except ValueError as error:
        raise Damaged(f"{path} is damaged: {error}") from None
    if absent := [name for name in needed if name not in sums]:
        raise Damaged(f"{path} is damaged: it does not list {absent[0]}")
    for name, digest in sums.items():
        file = path.parent / name
        try:
            is_same = sha256_of(file) == digest
        except FileNotFoundError:
            raise Damaged(f"{file} is missing") from None
        except (OSError, ValueError) as error:
            raise Damaged(f"{file} cannot be read: {error}") from None
        if not is_same:
            raise Damaged(f"{file} is damaged: its SHA-256 is not the one in {path.name}")


def list_of(path: Path) -> Path:
    """Where the list for a single file is."""
    return path.with_suffix(".sha256")


def made_from(
    problem: Path, run: Path, reference: Path | None, digest: Callable[[Path], str] = sha256_of
) -> dict[str, str]:
    """Checksums of the files that the evaluation of a run is made from."""
    files = {"problem": problem, "run": run, "reference": reference}
    return {name: digest(path) for name, path in files.items() if path is not None}
