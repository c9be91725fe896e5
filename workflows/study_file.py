"""A study's file as plain values: YAML, read so that no file can exhaust memory or time, nor run anything."""

import re
import reprlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from implementations.infrastructure.errors import SettingError, unknown

#: The most that a study may have. Its author is not trusted: whatever the file, the answer comes in a moment.
MAX_BYTES, MAX_VALUES, MAX_DEPTH, MAX_RUNS = 100_000, 10_000, 20, 20_000


class _Loader(yaml.SafeLoader):
    """YAML in which a key written twice is an error, and numbers are what people write: 1e-4, but not 0x10 or 1:30."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"the key {reprlib.repr(key.value)} stands twice"
                    raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # PyYAML takes the word of a tag such as !!bool, and of a date such as 2024-13-01.
            problem = f"{reprlib.repr(node.value)} is not a valid {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark) from None


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("int", "float")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(0|[1-9][0-9]*)\Z", re.ASCII), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\Z|[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z", re.ASCII
    ),
    list("-+.0123456789"),
)


def read_study(path: Path) -> Any:
    try:
        return _parse(_text(path))
    except FileNotFoundError:
        siblings = sorted(other.name for other in path.parent.glob("*.yaml"))
        raise SettingError(unknown("study file", path.name, siblings)) from None
    except OSError as error:
        raise SettingError(f"cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingError(where + ", ".join(filter(None, [error.context, error.problem]))) from None
    except yaml.YAMLError as error:
        raise SettingError(f"is not YAML: {' '.join(str(error).split())}") from None


def _text(path: Path) -> str:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise SettingError("is not a file")
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise SettingError(f"is larger than {MAX_BYTES:,} bytes, which is more than a study needs")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise SettingError(f"line {line}: is not UTF-8 text; save it as UTF-8") from None


def _parse(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_extent(node)
        return loader.construct_document(node)
    except RecursionError:
        raise SettingError(f"is nested deeper than {MAX_DEPTH} levels") from None
    finally:
        loader.dispose()


def _check_extent(top: yaml.Node) -> None:
    """An alias stands for all that it names, and a page of them can be more than a memory holds: count first."""
    count, waiting = 0, [(top, 1)]
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if count > MAX_VALUES:
            raise SettingError(f"has more than {MAX_VALUES:,} keys and values, counting what aliases stand for")
        if depth > MAX_DEPTH:
            raise SettingError(f"line {node.start_mark.line + 1}: is nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, yaml.MappingNode):
            waiting += [(part, depth + 1) for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(part, depth + 1) for part in node.value]
