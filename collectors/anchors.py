"""Which spans of a trace are one request, and which span stands for it.

Spans hang together by parent ids; spans that share a parent which never came hang together through it. In each such
tree the topmost workflow, chain or agent is the anchor, so that an HTTP server span above it changes nothing; a tree
without one is named after its top. Where one trace holds several requests, some of them in pieces whose parents never
came, pieces are put together by time: a retrieval, and what follows it until the next request begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from collectors.conventions import ANCHOR_KINDS, SpanKind, Spoken
from collectors.span import Span

WHOLE_TRACE = "*"
"""The parent of what belongs to a trace and no span of it: it goes to the trace's last request."""


class Node(NamedTuple):
    """A span in the tree of a trace: its key, the key that it hangs on, what it did, and what can be said of it."""

    key: str
    parent: str | None
    span: Span
    kind: SpanKind | None
    spoken: Spoken


@dataclass(slots=True, frozen=True)
class Request:
    """The spans of one request. `anchor` is a span id of the trace, perhaps of a span that never came."""

    anchor: str
    keys: frozenset[str]
    has_root: bool
    orphaned: bool


def requests_in(nodes: Mapping[str, Node]) -> list[Request]:
    """The requests of a trace, every span in at least one of them, by the start of their anchors.

    Linear in the number of spans. The order of `nodes` does not matter.
    """
    plain = _plain(nodes)
    return taken_apart(nodes) if plain is None else [plain]


def taken_apart(nodes: Mapping[str, Node]) -> list[Request]:
    """As `requests_in`, of any trace."""
    loose = frozenset(key for key, node in nodes.items() if node.parent == WHOLE_TRACE)
    if loose and len(loose) < len(nodes):
        *others, last = requests_in({key: node for key, node in nodes.items() if key not in loose})
        return [*others, replace(last, keys=last.keys | loose)]
    trees = _trees(nodes)
    requests = [request for top, members in trees for request in _split(nodes, top, members)]
    anchored = [one for one in requests if _is_anchored(nodes, one)]
    if len(anchored) == 1 and len(requests) > 1:
        return [_joined(anchored[0], requests)]
    ordered = sorted(requests, key=lambda one: (_start(nodes, one), one.anchor))
    return ordered if len(ordered) < 2 else _pieced(nodes, ordered, {one.anchor for one in anchored})


def _plain(nodes: Mapping[str, Node]) -> Request | None:
    """What nearly every trace is: one root that may stand for a request, and everything else below it. None for any
    other, which takes longer to take apart."""
    roots = [key for key, node in nodes.items() if node.parent is None]
    if len(roots) != 1 or nodes[roots[0]].kind not in ANCHOR_KINDS:
        return None
    tied = set(roots)
    for start in nodes:
        key, climbed = start, list[str]()
        while key not in tied:
            node = nodes.get(key)
            if node is None or node.parent is None or len(climbed) > len(nodes):  # an orphan, or a ring
                return None
            climbed.append(key)
            key = node.parent
        tied.update(climbed)
    return Request(roots[0], frozenset(nodes), has_root=True, orphaned=False)


@dataclass(slots=True)
class _Members:
    tops: list[str]
    children: Mapping[str, list[str]]
    keys: frozenset[str]
    """All of the tree."""


def _trees(nodes: Mapping[str, Node]) -> list[tuple[str, _Members]]:
    """The disjoint trees, each under the key of its root or of the parent that never came."""
    children: dict[str, list[str]] = {}
    tops: dict[str, list[str]] = {}
    for key, node in nodes.items():
        if node.parent is None:
            tops[key] = [key]
        elif node.parent not in nodes:
            tops.setdefault(node.parent, []).append(key)
        else:
            children.setdefault(node.parent, []).append(key)
    trees = [
        (top, _Members(sorted(keys), children, frozenset(_below(keys, children))))
        for top, keys in tops.items()
    ]
    return trees + _cycles(nodes, children, trees)


def _cycles(
    nodes: Mapping[str, Node], children: Mapping[str, list[str]], trees: Iterable[tuple[str, _Members]]
) -> list[tuple[str, _Members]]:
    """Spans that are their own ancestors belong to no tree: each ring is cut above its smallest key."""
    cut: list[tuple[str, _Members]] = []
    if sum(len(members.keys) for _, members in trees) == len(nodes):
        return cut
    left = set(nodes).difference(*(members.keys for _, members in trees))
    while left:
        ring = _ring(nodes, min(left))
        top = min(ring)
        acyclic = {key: [child for child in below if child != top] for key, below in children.items()}
        members = _Members([top], acyclic, frozenset(_below([top], acyclic)))
        cut.append((top, members))
        left -= members.keys
    return cut


def _ring(nodes: Mapping[str, Node], start: str) -> list[str]:
    seen: dict[str, int] = {}
    key = start
    while key not in seen:
        seen[key] = len(seen)
        parent = nodes[key].parent
        if parent is None:
            raise AssertionError("a span without a parent is in a tree")
        key = parent
    return [one for one, place in seen.items() if place >= seen[key]]


def _below(tops: Iterable[str], children: Mapping[str, Sequence[str]]) -> set[str]:
    """The keys of the subtrees, tops included."""
    found: set[str] = set()
    waiting = list(tops)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting.extend(children.get(key, ()))
    return found


def _split(nodes: Mapping[str, Node], top: str, members: _Members) -> list[Request]:
    """One tree as one request, or as several where it holds several that are whole by themselves."""
    everything = members.keys
    has_root = top in nodes and nodes[top].parent is None
    anchors = _topmost_anchors(nodes, members)
    whole = (
        anchors if len(anchors) == 1 else [key for key in anchors if _is_whole(nodes, key, members.children)]
    )
    if len(whole) < 2:
        anchor = whole[0] if whole else members.tops[0] if len(members.tops) == 1 else top
        return [Request(anchor, everything, has_root, top not in nodes)]
    subtrees = {key: _below([key], members.children) for key in whole}
    shared = everything.difference(*subtrees.values())
    if top not in nodes:
        # What only shares a parent that never came is a piece of its own, of whichever request it fits.
        pieces = [
            key
            for key in members.tops
            if key not in subtrees and subtrees.keys().isdisjoint(_below([key], members.children))
        ]
        loose = [Request(key, frozenset(_below([key], members.children)), False, True) for key in pieces]
        shared = shared.difference(*(one.keys for one in loose))
    else:
        loose = []
    above = {key: _ancestors(nodes, key) for key in whole}
    stray = shared.difference(*above.values())
    first = min(whole, key=lambda key: (nodes[key].span.start_ns, key))
    return loose + [
        Request(
            key,
            frozenset(subtrees[key] | above[key] | (stray if key == first else set())),
            has_root,
            top not in nodes,
        )
        for key in whole
    ]


def _topmost_anchors(nodes: Mapping[str, Node], members: _Members) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    waiting = list(members.tops)
    while waiting:
        key = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        if nodes[key].kind in ANCHOR_KINDS:
            found.append(key)
        else:
            waiting.extend(members.children.get(key, ()))
    return sorted(found)


def _is_whole(nodes: Mapping[str, Node], key: str, children: Mapping[str, Sequence[str]]) -> bool:
    """Whether this subtree is a request by itself: steps of one request (a chain that retrieves beside a chain that
    answers) must not be taken for several."""
    kinds = {nodes[below].kind for below in _below([key], children)}
    if SpanKind.RETRIEVER not in kinds:
        return False
    return nodes[key].kind is SpanKind.WORKFLOW or SpanKind.LLM in kinds


def _ancestors(nodes: Mapping[str, Node], key: str) -> set[str]:
    found: set[str] = set()
    parent = nodes[key].parent
    while parent is not None and parent in nodes and parent not in found:
        found.add(parent)
        parent = nodes[parent].parent
    return found


def _is_anchored(nodes: Mapping[str, Node], request: Request) -> bool:
    anchor = nodes.get(request.anchor)
    return anchor is not None and (anchor.kind in ANCHOR_KINDS or request.has_root)


def _pieced(
    nodes: Mapping[str, Node], ordered: Sequence[Request], anchored: Collection[str]
) -> list[Request]:
    """The requests with orphaned pieces put together: a piece belongs to the retrieval before it, unless a request
    has begun between them or both have a retrieval of their own. `ordered` is by start."""
    given: list[Request] = []
    latest: int | None = None
    for one in ordered:
        if not one.orphaned or one.anchor in anchored:
            latest = None
            given.append(one)
        elif latest is None or _retrieves(nodes, one):
            latest = len(given)
            given.append(one)
        else:
            before = given[latest]
            given[latest] = Request(before.anchor, before.keys | one.keys, False, True)
    return given


def _retrieves(nodes: Mapping[str, Node], request: Request) -> bool:
    return any(nodes[key].kind is SpanKind.RETRIEVER for key in request.keys)


def _joined(main: Request, requests: Iterable[Request]) -> Request:
    """One request whose middle is missing: everything else in its trace is part of it."""
    keys = frozenset[str]().union(*(one.keys for one in requests))
    return Request(main.anchor, keys, main.has_root, orphaned=True)


def _start(nodes: Mapping[str, Node], request: Request) -> int:
    return min(nodes[key].span.start_ns for key in request.keys)
