"""Things out of files that are not the suite's: ``path/to/file.py:NAME`` or ``package.module:NAME``.

The file is executed, so its author is trusted like that of any program. Who only names it is not, as the author of a
study: what imports nothing of the suite has nothing for it, and is read but not run. A mistake in it is named with file
and line.
"""

import ast
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from implementations.infrastructure.errors import SettingError, unknown

T = TypeVar("T")

#: What a card or a task is made of.
SUITE = ("implementations", "pbnn_bench")


def is_plugin(text: str) -> bool:
    """Does this name something in a file or module, and not a row of a table?"""
    return ":" in text


def absolute(plugin: str, folder: Path) -> str:
    """The same plug-in from any working directory; a relative path is one from ``folder``."""
    where, _, name = plugin.rpartition(":")
    return f"{(folder / where).resolve()}:{name}" if where.endswith(".py") else plugin


def load(plugin: str, kind: type[T]) -> T:
    """The object of a plug-in's path, which has to be a ``kind``. Raises SettingError."""
    where, _, name = plugin.rpartition(":")
    _check_source(where, kind)
    module = _module(where, checksum(plugin))
    found = {key: value for key, value in vars(module).items() if isinstance(value, kind)}
    if name not in found:
        if hasattr(module, name):
            raise SettingError(f"{where}: {name} is a {type(getattr(module, name)).__name__}, not a {kind.__name__}")
        hint = unknown(kind.__name__, name, found) if found else f"the file has no {kind.__name__}"
        raise SettingError(f"{where}: {hint}")
    return found[name]


def checksum(plugin: str) -> str | None:
    """SHA-256 of a plug-in's file, so that a changed file is another method; None where there is no file."""
    path = _file(plugin.rpartition(":")[0])
    return hashlib.sha256(path.read_bytes()).hexdigest() if path else None


def _check_source(where: str, kind: type[Any]) -> None:
    """Can the file have a ``kind`` in it? Nothing of it is executed. Raises SettingError."""
    path = _file(where)
    if path is None:
        raise SettingError(f"no file {where}" if where.endswith(".py") else f"No module named {where!r}")
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        raise SettingError(f"{path}, line {error.lineno or 1}: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise SettingError(f"{where}: is not Python: {error}") from None
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    if not any(module.partition(".")[0] in SUITE for module in imported):
        raise SettingError(f"{where}: has no {kind.__name__}, for it imports nothing of the suite; it was not run")


def _file(where: str) -> Path | None:
    """The file of a path or of a module, if it is there. Nothing is imported to find it."""
    origin = where if where.endswith(".py") else _origin(where)
    path = Path(origin).resolve() if origin else None
    return path if path and path.suffix == ".py" and path.is_file() else None


def _origin(module: str) -> str | None:
    """Where a module's source is. Unlike importlib's own look-up, this leaves the packages around it alone."""
    place: Sequence[str] | None = None
    origin, names = None, module.split(".")
    for number, name in enumerate(names, start=1):
        if not name.isidentifier() or (number > 1 and place is None):
            return None
        full = ".".join(names[:number])
        specs = (finder.find_spec(full, place) for finder in sys.meta_path)
        spec = next(filter(None, specs), None)
        if spec is None:
            return None
        place, origin = spec.submodule_search_locations, spec.origin if spec.has_location else None
    return origin


@cache
def _module(where: str, version: str | None) -> ModuleType:
    """The module, a file's once for each ``version`` of it."""
    try:
        if not where.endswith(".py"):
            return importlib.import_module(where)
        path = Path(where).resolve()
        # What it imports may stand beside it; last, so that it hides nothing.
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        # A name of its own, so that two files called alike do not meet.
        name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Where pickles and dataclasses look for it.
        sys.modules[name] = module
        # Not by the loader: it would take old bytecode for a file that was changed within a second.
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except SettingError as error:
        raise SettingError(f"{line_of(error, where)}: {error}" if where not in str(error) else str(error)) from None
    except Exception as error:
        raise SettingError(f"{line_of(error, where)}: {type(error).__name__}: {error}") from None
    return module


def line_of(error: BaseException, where: str) -> str:
    """``my_file.py, line 12``: the last line of the user's own file that led to an error."""
    path = _file(where)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path]
    return f"{where}, line {lines[-1]}" if lines else where
