"""Taking predicates apart and putting them together, meaning kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from collectors.predicate.nodes import And, Eq, In, Not, Or, Predicate, UnparsedFilter, as_scalar


def clauses(predicate: Predicate) -> tuple[Predicate, ...]:
    """The top-level conjuncts, nested conjunctions flattened; `ALL` has none.

    >>> from collectors.predicate.printing import to_text
    >>> [to_text(clause) for clause in clauses(parse_equalities({"tenant": "acme", "locale": "en-US"}))]
    ['tenant = acme', 'locale = en-US']
    """
    if isinstance(predicate, And):
        return tuple(clause for item in predicate.items for clause in clauses(item))
    return (predicate,)


def conjunction(items: Sequence[Predicate]) -> Predicate:
    """All of the items as one flat predicate: `ALL` for none, the item itself for one."""
    flat = clauses(And(items=tuple(items)))
    return flat[0] if len(flat) == 1 else And(items=flat)


def disjunction(items: Sequence[Predicate]) -> Predicate:
    """Any of the items as one flat predicate: `NOTHING` for none, the item itself for one."""
    flat = tuple(inner for item in items for inner in (item.items if isinstance(item, Or) else (item,)))
    return flat[0] if len(flat) == 1 else Or(items=flat)


def negation(predicate: Predicate) -> Predicate:
    """Not the predicate; of a negation, what it negates."""
    return predicate.item if isinstance(predicate, Not) else Not(item=predicate)


def fields(predicate: Predicate) -> frozenset[str]:
    """The names of all metadata fields that the predicate reads."""
    return frozenset(_fields(predicate))


def split(predicate: Predicate, entitlement_fields: Collection[str]) -> tuple[Predicate, Predicate]:
    """The predicate as (entitlement, relevance); both together mean what it meant.

    A clause that reads any of the entitlement fields is entitlement as a whole: relaxing it might show a
    caller what the caller may not see.

    >>> from collectors.predicate.printing import to_text
    >>> both = parse_equalities({"tenant": "acme", "locale": "en-US"})
    >>> [to_text(part) for part in split(both, {"tenant"})]
    ['tenant = acme', 'locale = en-US']
    """
    entitled: list[Predicate] = []
    relevant: list[Predicate] = []
    for clause in clauses(predicate):
        (relevant if fields(clause).isdisjoint(entitlement_fields) else entitled).append(clause)
    return conjunction(entitled), conjunction(relevant)


def without_prefix(predicate: Predicate, prefix: str) -> Predicate:
    """With the prefix taken off the names of fields that have it: what a framework calls its documents' metadata.

    LangChain keeps metadata in Qdrant under `metadata.`, Haystack under `meta.`; the documents that it hands on know
    the bare names.

    >>> without_prefix(Eq(field="metadata.tenant", value="acme"), "metadata.").field
    'tenant'
    """
    match predicate:
        case And(items=items) | Or(items=items):
            return predicate.model_copy(
                update={"items": tuple(without_prefix(item, prefix) for item in items)}
            )
        case Not(item=item):
            return Not(item=without_prefix(item, prefix))
        case _:
            return predicate.model_copy(update={"field": predicate.field.removeprefix(prefix)})


def parse_equalities(mapping: Mapping[str, object]) -> Predicate:
    """A plain map of field to value, all of which must hold; a list of values means any of them.

    Raises `UnparsedFilter` for a value that is neither a scalar nor a list of scalars, and for a name that is an
    operator of some notation.

    >>> from collectors.predicate.printing import to_text
    >>> to_text(parse_equalities({"tenant": "acme", "product": ["api", "auth"]}))
    'tenant = acme and product in (api, auth)'
    """
    parsed: list[Predicate] = []
    for field, value in mapping.items():
        if not isinstance(field, str) or field.startswith("$"):
            raise UnparsedFilter(f"not the name of a field: {field!r:.200}")
        if isinstance(value, list | tuple):
            parsed.append(In(field=field, values=tuple(as_scalar(item) for item in value)))
        else:
            parsed.append(Eq(field=field, value=as_scalar(value)))
    return conjunction(parsed)


def _fields(predicate: Predicate) -> Iterator[str]:
    match predicate:
        case And(items=items) | Or(items=items):
            for item in items:
                yield from _fields(item)
        case Not(item=item):
            yield from _fields(item)
        case _:
            yield predicate.field
