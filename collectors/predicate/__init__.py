"""The filter AST: what a service's metadata filter asked of a document.

`nodes` are the AST, `evaluation` is its one semantics, `algebra` takes predicates apart and puts them together,
`printing` writes them as a person would and `reading` reads that back. Every other notation is a file in
`collectors.dialects`, which says by construction of these nodes what its store would have answered.
"""

from collectors.predicate.algebra import (
    clauses,
    conjunction,
    disjunction,
    fields,
    negation,
    parse_equalities,
    split,
    without_prefix,
)
from collectors.predicate.evaluation import Metadata, evaluate
from collectors.predicate.nodes import (
    ALL,
    NOTHING,
    And,
    Contains,
    Eq,
    Exists,
    In,
    Leaf,
    Ne,
    Not,
    Or,
    Other,
    Predicate,
    Range,
    Scalar,
    UnparsedFilter,
    as_scalar,
)
from collectors.predicate.printing import to_text
from collectors.predicate.reading import parse_text

__all__ = [
    "ALL",
    "NOTHING",
    "And",
    "Contains",
    "Eq",
    "Exists",
    "In",
    "Leaf",
    "Metadata",
    "Ne",
    "Not",
    "Or",
    "Other",
    "Predicate",
    "Range",
    "Scalar",
    "UnparsedFilter",
    "as_scalar",
    "clauses",
    "conjunction",
    "disjunction",
    "evaluate",
    "fields",
    "negation",
    "parse_equalities",
    "parse_text",
    "split",
    "to_text",
    "without_prefix",
]
