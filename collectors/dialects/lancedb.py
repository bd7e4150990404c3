"""LanceDB filters, which are SQL conditions: `tenant = 'acme' AND year IN (2023, 2024)`.

Sources: LanceDB documentation, "Metadata Filtering" and "Operators and literals" (Apache DataFusion's SQL); answers
were checked against LanceDB (0.40) itself.

- SQL's three values: a comparison with a null is unknown, and so is its negation, so `!=` and `NOT IN` pass only what
  has the field; a null among the values of `NOT IN` lets nothing pass.
- Columns have types, so a number and a text are never compared; texts are ordered by code points.
- Texts stand in single quotes, doubled to be meant; other names than words in backticks or double quotes.

Not read: `LIKE` with other patterns than `%text%`, `ILIKE`, `CAST`, regular expressions, arithmetic.
"""

from __future__ import annotations

import re

from collectors.dialects.expression import read_expression
from collectors.dialects.lexicon import Lexicon
from collectors.predicate import Predicate, UnparsedFilter

_QUOTED = r"""(?:`[^`]+`|"[^"]+")"""
_NAME = rf"(?:[A-Za-z_]\w*|{_QUOTED})"
_QUOTES = re.compile('[`"]')
_PATTERN = re.compile(
    rf"""\s*(?:
        (?P<string>'(?:[^']|'')*')
      | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<quoted_name>{_NAME}(?:\.{_NAME})+|{_QUOTED})
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign><=|>=|<>|!=|==|::|\|\||[][<>=!(),+*/%~.;-])
    )""",
    re.VERBOSE,
)


def _string(token: str) -> str:
    return token[1:-1].replace(token[0] * 2, token[0])


_LEXICON = Lexicon(
    pattern=_PATTERN,
    string=_string,
    quoted_name=lambda token: _QUOTES.sub("", token),
    contains={
        "array_has": "item",
        "array_contains": "item",
        "list_has": "item",
        "list_contains": "item",
        "array_has_all": "all",
        "array_has_any": "any",
    },
    times=frozenset({"date", "timestamp"}),
    equal=frozenset({"=", "=="}),
    unequal=frozenset({"!=", "<>"}),
    brackets="()",
    bare=True,
)


def parse_lancedb(value: object) -> Predicate:
    """The predicate of a LanceDB `where`; None and the empty text ask nothing. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_lancedb("tenant = 'acme' AND (year BETWEEN 2020 AND 2024 OR draft IS NULL)"))
    'tenant = acme and (2020 <= year <= 2024 or not (draft exists))'
    """
    if value is None:
        value = ""
    if not isinstance(value, str):
        raise UnparsedFilter(f"no condition: {value!r:.200}")
    return read_expression(value, _LEXICON).true
