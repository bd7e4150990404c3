"""Milvus boolean expressions: `tenant == "acme" and year in [2023, 2024]`.

Sources: Milvus documentation, "Filtering Explained" (basic, JSON and ARRAY operators); the grammar, `Plan.g4` of
milvus-io/milvus; its issue 50699 for nulls. Answers were checked against milvus-lite's (3.2) own evaluator.

- A comparison with a missing or null field is unknown, and so is its negation: `!=` and `not in` pass only what has
  the field. Servers before that issue (2.6.8 and earlier) let a missing JSON key pass `!=`.
- Fields have types, so a number and a text are never compared; texts are ordered by code points.
- `meta["a"]["b"]` is the field `meta.a.b`; `$meta["a"]`, a dynamic field, is `a`.

Not read: `like` with other patterns than `%text%`, `text_match`, arithmetic, array indices and lengths, templates.
"""

from __future__ import annotations

import re

from collectors.dialects.escapes import unescape
from collectors.dialects.expression import read_expression
from collectors.dialects.lexicon import Lexicon
from collectors.predicate import Predicate, UnparsedFilter

_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_PART = re.compile(rf"\[\s*({_QUOTED})\s*\]", re.DOTALL)
_PATTERN = re.compile(
    rf"""\s*(?:
        (?P<string>(?:u8|[uULrR])?{_QUOTED})
      | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<quoted_name>(?:\$meta|[A-Za-z_]\w*)(?:\[\s*{_QUOTED}\s*\])+)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign>&&|\|\||\*\*|<<|>>|<=|>=|==|!=|=~|!~|[][<>!(),+*/%&|^~$.{{}}=-])
    )""",
    re.VERBOSE | re.DOTALL,
)


def _string(token: str) -> str:
    quoted = token.lstrip("u8ULrR")
    return quoted[1:-1] if token[0] in "rR" else unescape(quoted[1:-1])


def _path(token: str) -> str:
    root = token.partition("[")[0]
    parts = [_string(part) for part in _PART.findall(token)]
    return ".".join(parts if root == "$meta" else [root, *parts])


_LEXICON = Lexicon(
    pattern=_PATTERN,
    string=_string,
    quoted_name=_path,
    contains={
        f"{kind}_contains{suffix}": which
        for kind in ("json", "array")
        for suffix, which in (("", "item"), ("_all", "all"), ("_any", "any"))
    },
    times=frozenset({"iso"}),
    equal=frozenset({"=="}),
    unequal=frozenset({"!="}),
    brackets="[]",
    bare=False,
)


def parse_milvus(value: object) -> Predicate:
    """The predicate of a Milvus expression; None and the empty text ask nothing. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_milvus('tenant == "acme" and not (locale == "de" or 5 < meta["year"] <= 9)'))
    'tenant = acme and locale exists and locale != de and (meta.year <= 5 or meta.year > 9)'
    """
    if value is None:
        value = ""
    if not isinstance(value, str):
        raise UnparsedFilter(f"no expression: {value!r:.200}")
    return read_expression(value, _LEXICON).true
