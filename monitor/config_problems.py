"""What is wrong with a configuration: where, in which line or variable, and what was perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

KeyPath = tuple[str | int, ...]


@dataclass(slots=True, frozen=True)
class Problem:
    """One thing that is wrong: where in the configuration (`alerting.webhooks[0].url`), what, and where it stands."""

    path: str
    message: str
    line: int | None = None
    variable: str | None = None

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        place = f"{self.variable}: " if self.variable is not None else place
        return f"{place}{self.path}: {self.message}" if self.path else f"{place}{self.message}"


class ConfigError(ValueError):
    """The configuration cannot be used; says all that is wrong with it, one problem a line."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            text = f"{source}: {self.problems[0]}"
        else:
            text = f"{source}: {len(self.problems)} problems\n" + "\n".join(
                f"  {item}" for item in self.problems
            )
        super().__init__(text)


def dotted(path: KeyPath) -> str:
    """A path as people write it.

    >>> dotted(("alerting", "webhooks", 0, "url"))
    'alerting.webhooks[0].url'
    """
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The models that an annotation names: itself, or inside Optional, tuple, Mapping, Annotated.

    >>> from monitor.sampling import SamplingSettings
    >>> [model.__name__ for model in models_in(tuple[SamplingSettings, ...] | None)]
    ['SamplingSettings']
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(model for argument in get_args(annotation) for model in models_in(argument))


def path_of(error: ErrorDetails, values: object) -> KeyPath:
    """Where the error is in the values: pydantic also names the members of unions it has tried, which are nowhere."""
    path: list[str | int] = []
    for position, part in enumerate(error["loc"], start=1):
        absent_key = error["type"] == "missing" and position == len(error["loc"])
        if _has(values, part):
            values = values[part]  # type: ignore[index]
            path.append(part)
        elif absent_key:
            path.append(part)
    return tuple(path)


def _has(values: object, part: str | int) -> bool:
    if isinstance(values, Mapping):
        return part in values
    return (
        isinstance(values, Sequence)
        and isinstance(part, int)
        and not isinstance(values, str)
        and part < len(values)
    )


def holds(values: object, path: KeyPath) -> bool:
    """Whether these values are where the path leads."""
    for part in path:
        if not _has(values, part):
            return False
        values = values[part]  # type: ignore[index]
    return bool(path)


def model_at(path: KeyPath, model: type[BaseModel]) -> type[BaseModel]:
    """The model that stands there in one of `model`: list positions and free keys stay with that of their items."""
    for part in path:
        field = model.model_fields.get(str(part))
        if field is not None:
            model = next(iter(models_in(field.annotation)), model)
    return model


def unknown_key(key: str, model: type[BaseModel]) -> str:
    """What to say of a key that the model does not know."""
    (nearest,) = difflib.get_close_matches(key, model.model_fields, n=1, cutoff=0.0)
    return f"unknown key; the nearest known one is `{nearest}`"
