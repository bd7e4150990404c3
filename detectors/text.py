"""Reading answers as text: sentences, words, claims, citations, refusals. Pure functions, no model, no
language data."""

from __future__ import annotations

import re

_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_]+(?:['’.,:/-][^\W_]+)*")
"""A word keeps its inner punctuation (`9.5`, `opt-in`, `10:30`); scripts without spaces count by the
character."""
_BOUNDARY = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+|(?<=[。！？])|\n+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|vs|etc|e\.g|i\.e|no|fig|approx|jr|sr|inc|ltd|co)|\b[a-z])\.$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8
_BULLET = re.compile(r"^\s*(?:[-*•–]|\d{1,2}[.)])\s+")
_CITATION = re.compile(r"\s*\[\^?(?:[\w.:#/-]*\d[\w.:#/-]*)(?:\s*[,;]\s*[\w.:#/-]*\d[\w.:#/-]*)*\]")
_CLAUSE = re.compile(r"[,;:]?\s+(?:but|however|aber|mais|pero)[,\s]+|;\s+|\s+[—–]\s+", re.IGNORECASE)

_REFUSAL = re.compile(
    r"\b(?:i|we)(?:\s+\w+)?\s+(?:do\s+not|don['’]?t)\s+(?:know|have)\b"
    r"|\b(?:i|we)(?:['’]m|['’]re|\s+am|\s+are)\s+(?:not\s+(?:able|sure|certain|aware)|unable)\b"
    r"|\b(?:i|we)\s+(?:can\s?not|can['’]?t|could\s+not|couldn['’]?t|won['’]?t|did\s+not|didn['’]?t)\s+"
    r"(?:\w+\s+)?(?:answer|find|help|assist|provide|determine|tell|locate|see|access|share|discuss|say|comply)\b"
    r"|\bunable\s+to\s+(?:answer|find|help|assist|provide|determine|locate)\b"
    r"|\b(?:context|documents?|passages?|sources?|articles?|information|text)\b[^.!?]{0,60}"
    r"\b(?:do(?:es)?\s+not|don['’]?t|doesn['’]?t)\s+(?:\w+\s+)?"
    r"(?:contain|mention|include|provide|say|specify|answer|address|cover|state|have)\b"
    r"|\b(?:no|not\s+enough|insufficient)\s+(?:\w+\s+)?(?:information|context|documents?|answer|details?)\b"
    r"|\b(?:cannot|can['’]t|could\s+not)\s+be\s+(?:answered|determined|found)\b"
    r"|\b(?:ich\s+weiß\s+(?:es\s+)?(?:leider\s+)?nicht|weiß\s+ich\s+(?:leider\s+)?nicht|keine\s+(?:\w+\s+)?informationen|nicht\s+beantworten)\b"
    r"|\b(?:je\s+ne\s+sais\s+pas|je\s+ne\s+(?:peux|trouve)\s+pas|aucune\s+information)\b"
    r"|\b(?:no\s+lo\s+sé|no\s+sé|no\s+(?:puedo|tengo|encuentro)\b[^.!?]{0,30}(?:información|responder|respuesta))\b",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"^\W*(?:i['’]?m\s+(?:very\s+|so\s+)?(?:sorry|afraid)|i\s+am\s+(?:sorry|afraid)|(?:my\s+)?apologies|i\s+apologi[sz]e"
    r"|sorry|unfortunately|please\s+(?:\w+\s+)?(?:contact|try|ask|reach|consult|check|provide|rephrase|let)"
    r"|let\s+me\s+know|feel\s+free|you\s+(?:may|might|can|could)\s+(?:\w+\s+)?(?:contact|try|ask|consult|check|reach)"
    r"|thank\s+you|thanks|is\s+there\s+anything|if\s+you\s+have\s+(?:any\s+)?(?:other|more|further)"
    r"|leider|entschuldigung|es\s+tut\s+mir\s+leid|désolé|je\s+suis\s+désolé|lo\s+siento)\b",
    re.IGNORECASE,
)

CLAIM_WORDS = 3
"""A sentence of fewer words ("Yes.", "Of course.") states nothing that a context could be asked about."""


def words(text: str) -> list[str]:
    """The words in order, as written.

    >>> words("It costs 9.5 euros; opt-in only.")
    ['It', 'costs', '9.5', 'euros', 'opt-in', 'only']
    """
    return _WORD.findall(text)


def sentences(text: str) -> list[str]:
    """Sentences in order, without list bullets; a line break always ends one.

    >>> sentences("Dr. Ito pays 3.50. Really?\\n- One more")
    ['Dr. Ito pays 3.50.', 'Really?', 'One more']
    """
    found: list[str] = []
    for line in text.splitlines():
        pending: list[str] = []
        for piece in filter(None, _BOUNDARY.split(_BULLET.sub("", line).strip())):
            pending.append(piece)
            if not _ABBREVIATION.search(piece[-_LONGEST_ABBREVIATION:]):
                found.append(" ".join(pending))
                pending = []
        if pending:
            found.append(" ".join(pending))
    return found


def claims(text: str) -> list[str]:
    """The sentences that state something: at least three words, and no question.

    >>> claims("Yes. Refunds take five days. Anything else that you need?")
    ['Refunds take five days.']
    """
    return [
        s
        for s in sentences(text)
        if len(words(s)) >= CLAIM_WORDS and not s.rstrip("\"'”’) ").endswith(("?", "？"))
    ]


def without_citations(text: str) -> str:
    """The text without citation marks, which no context repeats: `[1]`, `[kb-101]`, `[d3, d4]`, `[doc-1::2]`.

    >>> without_citations("Refunds take five days [kb-101]. See [1, 2].")
    'Refunds take five days. See.'
    """
    return _CITATION.sub("", text)


def is_refusal_only(text: str) -> bool:
    """Whether the answer declines and says nothing else: every clause is a refusal or a courtesy, and one
    is a refusal.

    A refusal phrase alone does not suffice: of the refusal-like answers in RAGTruth's question answering,
    45 % go on to make claims that the context does not hold (30 % of the others do), so those must be
    judged.

    >>> is_refusal_only("I'm sorry, but I don't know. Please contact support.")
    True
    >>> is_refusal_only("I don't know the exact fee, but refunds usually take ten days.")
    False
    """
    clauses = [clause for s in sentences(text) for clause in _CLAUSE.split(s) if words(clause)]
    refusals = [bool(_REFUSAL.search(clause)) for clause in clauses]
    return any(refusals) and all(
        refused or _COURTESY.search(clause) is not None
        for clause, refused in zip(clauses, refusals, strict=True)
    )
