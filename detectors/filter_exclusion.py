"""Filter false exclusion: did the relevance filter remove every document that is known to answer the query?

Per query, the eligible gold are the known relevant documents that the caller is entitled to see. The query
counts when there is at least one; it is excluded when none of them survives the relevance filter.
Entitlement is never relaxed and never blamed, and gold is never rebuilt after filtering (which would always
read 100 %).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from collectors.predicate import ALL, Predicate, clauses, evaluate, to_text
from collectors.trace import RagTrace
from detectors.finding import Finding, Outcome, scored, unscored


class Catalogue(Protocol):
    """Which documents exist, and their metadata as the filters see it."""

    def metadata(self, document_id: str) -> Mapping[str, object] | None:
        """The document's metadata; None if the catalogue does not hold it."""
        ...


class GoldenSet(Protocol):
    """Which documents are known to answer which queries."""

    def gold(self, trace: RagTrace) -> tuple[str, ...] | None:
        """Ids of the documents that answer this trace's query; None if it is not in the set; empty if the
        set says that nothing answers it."""
        ...


@dataclass(slots=True, frozen=True)
class _Filter:
    """One retrieval's filter, whose relevance part is known."""

    entitlement: Predicate
    relevance: Predicate

    def blockers(self, metadata: Mapping[str, object]) -> frozenset[str]:
        """The relevance clauses that this document fails: removing exactly these lets it through."""
        return frozenset(to_text(c) for c in clauses(self.relevance) if not evaluate(c, metadata))


class FilterExclusionCheck:
    """Value 1.0: no eligible gold document survives the relevance filter of any retrieval; 0.0: at least
    one does.

    `not_applicable`: `no_retrieval`, `unanswerable` (the gold is known to be empty), `no_eligible_gold`.
    `not_scorable`: `no_gold` (the answer is not known), `filter_unknown` (some retrieval does not tell its
    relevance filter; scoring only where the known ones suffice would bias the rate),
    `gold_not_in_catalogue` (no gold document is; single missing ones are left out and named). `error`:
    `knowledge_failed`.

    Evidence: `gold` (eligible ids), `excluded` (those that no retrieval lets through), `partial` (their
    share), `blamed` (texts of the clauses each of which alone, if removed, lets a gold document through;
    else the smallest set of clauses that together would), `missing`.
    """

    name = "filter_exclusion"
    scorer = "catalogue-1"

    def __init__(self, catalogue: Catalogue, golden: GoldenSet) -> None:
        self._catalogue = catalogue
        self._golden = golden

    def check(self, traces: Sequence[RagTrace]) -> list[Finding]:
        return [self._check(trace) for trace in traces]

    def _check(self, trace: RagTrace) -> Finding:
        if not trace.retrievals:
            return unscored(self.name, trace, Outcome.NOT_APPLICABLE, "no_retrieval")
        try:
            gold = (
                trace.gold_document_ids if trace.gold_document_ids is not None else self._golden.gold(trace)
            )
            known = {document: self._catalogue.metadata(document) for document in sorted(set(gold or ()))}
        except Exception as error:  # a catalogue may be remote: its failure is one query's outcome
            return unscored(
                self.name, trace, Outcome.ERROR, "knowledge_failed", detail=f"{type(error).__name__}: {error}"
            )
        if gold is None:
            return unscored(self.name, trace, Outcome.NOT_SCORABLE, "no_gold")
        if not gold:
            return unscored(self.name, trace, Outcome.NOT_APPLICABLE, "unanswerable")
        filters = _filters(trace)
        if filters is None:
            return unscored(self.name, trace, Outcome.NOT_SCORABLE, "filter_unknown", gold=list(known))
        return self._judge(trace, filters, known)

    def _judge(
        self, trace: RagTrace, filters: Sequence[_Filter], known: Mapping[str, Mapping[str, object] | None]
    ) -> Finding:
        missing = [document for document, metadata in known.items() if metadata is None]
        if len(missing) == len(known):
            return unscored(self.name, trace, Outcome.NOT_SCORABLE, "gold_not_in_catalogue", missing=missing)
        blockers: dict[str, list[frozenset[str]]] = {}
        for document, metadata in known.items():
            if metadata is None:
                continue
            entitled = [f.blockers(metadata) for f in filters if evaluate(f.entitlement, metadata)]
            if entitled:
                blockers[document] = entitled
        if not blockers:
            return unscored(self.name, trace, Outcome.NOT_APPLICABLE, "no_eligible_gold", missing=missing)
        excluded = [document for document, sets in blockers.items() if all(sets)]
        is_excluded = len(excluded) == len(blockers)
        return scored(
            self.name,
            trace,
            float(is_excluded),
            gold=list(blockers),
            excluded=excluded,
            partial=len(excluded) / len(blockers),
            blamed=_blamed([s for sets in blockers.values() for s in sets]) if is_excluded else [],
            missing=missing,
        )


def _filters(trace: RagTrace) -> list[_Filter] | None:
    """Every retrieval's filter; None if one of them is not known."""
    found: list[_Filter] = []
    for retrieval in trace.retrievals:
        applied = retrieval.filter
        if applied is None or applied.relevance is None:
            return None
        found.append(
            _Filter(applied.entitlement if applied.entitlement is not None else ALL, applied.relevance)
        )
    return found


def _blamed(blockers: Sequence[frozenset[str]]) -> list[str]:
    """Leave one clause out: removing a set of clauses lets a document through exactly when it holds the
    document's blockers, so the single culprits are the sets of one, and the minimal set is the smallest.

    >>> _blamed([frozenset({"locale = en-US"}), frozenset({"year >= 2026", "kind = faq"})])
    ['locale = en-US']
    >>> _blamed([frozenset({"year >= 2026", "kind = faq"})])
    ['kind = faq', 'year >= 2026']
    """
    singles = {clause for s in blockers if len(s) == 1 for clause in s}
    return sorted(singles) if singles else min((sorted(s) for s in blockers), key=lambda s: (len(s), s))
