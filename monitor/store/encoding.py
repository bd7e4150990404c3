"""How Python values become columns, and come back."""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from detectors.verdict import State

EVIDENCE_CAP = 16_384
"""Characters of JSON that the evidence of one finding may take."""
_TEXT_CAPS = (4_096, 512, 64)
_ITEMS_CAP = 256
_DEPTH_CAP = 8
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}

Value = npt.NDArray[np.generic] | float | int | str
Entry = tuple[str, str, bytes]
"""Key, kind and value of one entry of a state."""


def clean_text(text: str) -> str:
    """Text for a plain column: NUL survives, a lone surrogate, which UTF-8 cannot hold, becomes U+FFFD.

    >>> clean_text("a\\x00b\\ud800")
    'a\\x00b\ufffd'
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json(value: object) -> str:
    """JSON of pure ASCII: NUL and lone surrogates survive as escapes; NaN and infinities come back too."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def encode_evidence(evidence: Mapping[str, object]) -> str:
    """Evidence as strict JSON of at most `EVIDENCE_CAP` characters.

    What JSON lacks is put as text (NaN as `"NaN"`, unknown types by `str`); too much is cut: long texts
    first, with an ellipsis where they were cut; where that does not do, the keys alone remain, under `cut`.

    >>> encode_evidence({"clause": "locale = en-US", "score": float("nan")})
    '{"clause":"locale = en-US","score":"NaN"}'
    """
    for cap in (EVIDENCE_CAP, *_TEXT_CAPS):
        encoded = json.dumps(_plain(evidence, cap, _DEPTH_CAP), separators=(",", ":"), allow_nan=False)
        if len(encoded) <= EVIDENCE_CAP:
            return encoded
    return json.dumps({"cut": [str(key)[: _TEXT_CAPS[-1]] for key in list(evidence)[:_ITEMS_CAP]]})


def _plain(value: object, cap: int, depth: int) -> object:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return value if len(value) <= cap else value[: cap - 1] + "…"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")
    if depth == 0:
        return "…"
    if isinstance(value, BaseModel):
        value = value.model_dump()
    elif isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
        if not isinstance(value, list):
            return _plain(value, cap, depth - 1)
    if isinstance(value, Mapping):
        return {str(key)[:cap]: _plain(item, cap, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, AbstractSet)):
        return [_plain(item, cap, depth - 1) for item in value]
    return _plain(str(value), cap, depth)


def encode_state(state: State) -> list[Entry]:
    """Arrays in NumPy's own format without pickle, numbers and text to the bit.

    Raises:
        TypeError: an entry is no array of plain values, float, int, bool or str.
    """
    return [(key, *_encode_entry(key, value)) for key, value in state.items()]


def _encode_entry(key: str, value: object) -> tuple[str, bytes]:
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is np.ndarray and not value.dtype.hasobject:
        stream = io.BytesIO()
        np.save(stream, value, allow_pickle=False)
        return "array", stream.getvalue()
    if isinstance(value, bool):
        return "bool", b"1" if value else b""
    if isinstance(value, int):
        return "int", str(value).encode()
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, str):
        return "str", value.encode("utf-8", "surrogatepass")
    raise TypeError(
        f"state entry {key!r}: {type(value).__name__} is neither a plain array, a number nor text"
    )


def decode_state(entries: Iterable[Entry]) -> dict[str, Value]:
    """What `encode_state` was given.

    Raises:
        ValueError: an entry is damaged.
    """
    return {key: _decode_entry(kind, value) for key, kind, value in entries}


def _decode_entry(kind: str, value: bytes) -> Value:
    try:
        match kind:
            case "array":
                array: npt.NDArray[np.generic] = np.load(io.BytesIO(value), allow_pickle=False)
                return array
            case "bool":
                return bool(value)
            case "int":
                return int(value)
            case "float":
                (number,) = struct.unpack("<d", value)
                return float(number)
            case "str":
                return value.decode("utf-8", "surrogatepass")
    except (struct.error, EOFError) as error:
        raise ValueError(str(error)) from error
    raise ValueError(f"unknown kind {kind!r}")
