"""A configuration written out with its comments, from the descriptions of the models' fields."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from monitor.config_problems import models_in

_WIDTH = 100
_REQUIRED = "..."


def documented_yaml(settings: BaseModel) -> str:
    """YAML of these settings, each key under its description; what is off is shown as a comment."""
    text = "\n".join(_section(type(settings), settings))
    return re.sub("\n{3,}", "\n\n", text).strip() + "\n"


def _section(model: type[BaseModel], settings: BaseModel | None) -> Iterator[str]:
    """The keys of a model with the values of `settings`, else its defaults."""
    for name, field in model.model_fields.items():
        yield from (f"# {line}" for line in textwrap.wrap(field.description or "", _WIDTH))
        value = (
            getattr(settings, name) if settings is not None else field.get_default(call_default_factory=True)
        )
        yield from _entry(name, field, value)
        if settings is not None and models_in(field.annotation):
            yield ""


def _entry(name: str, field: FieldInfo, value: Any) -> Iterator[str]:
    inner = models_in(field.annotation)
    if isinstance(value, BaseModel):
        yield f"{name}:"
        yield from _indented(_section(type(value), value))
    elif inner and value:
        yield f"{name}:"
        yield from _indented(_items(value))
    elif field.is_required() and not isinstance(value, (str, int)):
        yield f"{name}: {_REQUIRED}"
    else:
        yield f"{name}: {_scalar(value)}"
        if inner:
            yield from _commented(name, field, inner[0])


def _items(values: tuple[BaseModel, ...]) -> Iterator[str]:
    """The first item with every key explained, the others with what they set."""
    first, *others = values
    yield from _item(_section(type(first), first))
    for other in others:
        set_keys = other.model_dump(mode="json", exclude_defaults=True)
        yield from _item(f"{key}: {_scalar(value)}" for key, value in set_keys.items())


def _item(lines: Iterator[str]) -> Iterator[str]:
    """Lines as a list item: the dash stands before the first of them."""
    for number, line in enumerate(_indented(lines)):
        yield f"- {line[2:]}" if number == 0 else line


def _commented(name: str, field: FieldInfo, model: type[BaseModel]) -> Iterator[str]:
    """How a section that is off would look."""
    body = _section(model, None)
    if _is_mapping(field.annotation):
        body = iter(["<name>:", *_indented(body)])
    elif _is_list(field.annotation):
        body = _item(body)
    yield from (f"# {line}".rstrip() for line in (f"{name}:", *_indented(body)))


def _is_mapping(annotation: Any) -> bool:
    return _origin_is(annotation, Mapping)


def _is_list(annotation: Any) -> bool:
    return _origin_is(annotation, (tuple, list))


def _origin_is(annotation: Any, kinds: Any) -> bool:
    origin = getattr(annotation, "__origin__", None)
    return isinstance(origin, type) and issubclass(origin, kinds)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)


def _scalar(value: Any) -> str:
    """A value in YAML's flow style; JSON is YAML."""
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in the example")
