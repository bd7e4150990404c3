"""A YAML file as plain values, with the line of every key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from monitor.config_problems import ConfigError, KeyPath, Problem, dotted

_MOST_VALUES = 100_000
"""An alias costs a line and may stand for a million values; nobody's configuration comes near this."""
_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


@dataclass(slots=True, frozen=True)
class ConfigFile:
    """What a file holds. `lines` has the line, from 1, of every key and list item by its path."""

    values: dict[str, object]
    lines: dict[KeyPath, int]

    def line(self, path: KeyPath) -> int | None:
        """The line of the path, or of the nearest of what encloses it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def read_config_file(path: Path) -> ConfigFile:
    """Read one YAML document, a mapping at its top; an empty file holds nothing.

    Raises:
        ConfigError: it cannot be read, is no YAML, holds a key twice, or is no mapping.
    """
    try:
        return parse_config(path.read_text(encoding="utf-8-sig"), str(path))
    except OSError as error:
        raise ConfigError(str(path), [Problem("", f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            str(path), [Problem("", f"is no UTF-8 text: {error.reason} at byte {error.start}")]
        ) from error


def parse_config(text: str, source: str) -> ConfigFile:
    """The same from text; `source` names it in errors."""
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return ConfigFile({}, {})
            index = _Index()
            index.visit(node, ())
            if index.values > _MOST_VALUES:
                raise ConfigError(
                    source, [Problem("", f"holds more than {_MOST_VALUES:,} values, aliases counted")]
                )
            if index.problems:
                raise ConfigError(source, index.problems)
            values = loader.construct_document(node)
        finally:
            loader.dispose()
    except RecursionError as error:
        raise ConfigError(source, [Problem("", "is nested too deeply")]) from error
    except yaml.MarkedYAMLError as error:
        raise ConfigError(source, [_syntax_problem(error)]) from error
    except yaml.YAMLError as error:  # a character that YAML forbids
        raise ConfigError(source, [Problem("", f"is no YAML: {' '.join(str(error).split())}")]) from error
    if not isinstance(values, dict):
        raise ConfigError(source, [Problem("", "must be a mapping of sections at its top", line=1)])
    return ConfigFile(values, index.lines)


class _Index:
    """Lines by path, keys that come twice, and aliases that contain themselves."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self.values = 0
        self._open: set[int] = set()

    def visit(self, node: yaml.Node, path: KeyPath) -> None:
        self.values += 1
        if self.values > _MOST_VALUES:
            return
        if id(node) in self._open:
            self.problems.append(Problem(dotted(path), "an alias that contains itself", self.lines.get(path)))
            return
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self.lines[*path, position] = item.start_mark.line + 1
                self.visit(item, (*path, position))
        self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> None:
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = str(key.value)
            if key.tag not in _KEY_TAGS:
                self.problems.append(
                    Problem(dotted((*path, name)), "a key must be text: put it in quotes", line)
                )
            elif name in seen:
                message = f"the key stands twice, first in line {seen[name]}"
                self.problems.append(Problem(dotted((*path, name)), message, line))
                continue
            seen[name] = self.lines[*path, name] = line
            self.visit(value, (*path, name))


def _syntax_problem(error: yaml.MarkedYAMLError) -> Problem:
    message = " ".join(part for part in (error.context, error.problem) if part)
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem("", f"is no YAML: {message}")
    return Problem("", f"column {mark.column + 1}: is no YAML: {message}", line=mark.line + 1)
