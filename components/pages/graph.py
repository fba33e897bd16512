"""The graph of a run's nodes, as inline SVG: layers from top to bottom, with arrows to the nodes that wait for others.

The layout is that of Sugiyama et al. 1981: a node stands below all that it waits for, an arrow takes a place of its own
in each layer that it passes, and the places of a layer are ordered by the mean of their neighbors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

_WIDTH, _HEIGHT, _PASS = 150, 38, 26
"""Pixels of a node, and of an arrow that passes a layer."""
_ACROSS, _DOWN = 14, 26
"""Pixels between two places of a layer, and between two layers."""
_LONGEST = 19
"""Characters of a name that fit into a node."""
_SWEEPS = 8

Place = tuple[str, ...]
"""A node, or an arrow in a layer that it passes: (from, to, layer)."""


@dataclass(frozen=True)
class GraphNode:
    """A node of the graph.

    Attributes:
        words: Its outcome and its time.
        hint: What is shown while the mouse points at it.
        style: A class of the style sheet: good, bad or quiet.
        after: The nodes that it waits for, which come before it.
        link: The address that a click opens; empty for none.
    """

    id: str
    words: str
    hint: str
    style: str
    seconds: float
    after: tuple[str, ...]
    link: str = ""


def critical_path(nodes: Sequence[GraphNode]) -> tuple[str, ...]:
    """Returns the nodes, each of which waits for the one before, that take longest together; as few as possible.

    Example:
        >>> made = [GraphNode("a", "", "", "", 2.0, ()), GraphNode("b", "", "", "", 1.0, ())]
        >>> critical_path([*made, GraphNode("c", "", "", "", 1.0, ("a", "b"))])
        ('a', 'c')
    """
    longest: dict[str, tuple[float, tuple[str, ...]]] = {}
    nothing: tuple[float, tuple[str, ...]] = (0.0, ())

    def rank(way: tuple[float, tuple[str, ...]]) -> tuple[float, int]:
        return way[0], -len(way[1])

    for node in nodes:
        seconds, path = max([nothing, *(longest[other] for other in node.after)], key=rank)
        longest[node.id] = (seconds + node.seconds, (*path, node.id))
    return max(longest.values(), default=nothing, key=rank)[1]


def graph(nodes: Sequence[GraphNode], marked: Sequence[str]) -> Markup:
    """Returns the graph.

    Args:
        nodes: In an order in which each comes after those that it waits for.
        marked: Those that are drawn thick, with the arrows from one to the next.
    """
    after = _without_detours(nodes)
    depth: dict[str, int] = {}
    for node in nodes:
        depth[node.id] = 1 + max((depth[other] for other in after[node.id]), default=-1)
    routes = [_route(other, node, depth) for node, others in after.items() for other in others]
    layers = _layers(depth, routes)
    widths = [sum(_room(place) for place in layer) + _ACROSS * (len(layer) - 1) for layer in layers]
    middle: dict[Place, float] = {}
    for layer, width in zip(layers, widths, strict=True):
        left = (max(widths) - width) / 2
        for place in layer:
            middle[place] = left + _room(place) / 2
            left += _room(place) + _ACROSS
    top = {place: 2 + level * (_HEIGHT + _DOWN) for level, layer in enumerate(layers) for place in layer}
    thick = {*pairwise(marked)}
    arrows = Markup("").join(
        Markup('<path class="{}" marker-end="url(#arrow)" d="{}"/>').format(
            "thick" if (route[0][0], route[-1][0]) in thick else "", _line(route, middle, top)
        )
        for route in routes
    )
    boxes = Markup("").join(_box(one, middle[(one.id,)], top[(one.id,)], thick=one.id in marked) for one in nodes)
    size = (round(max(widths)) + 4, len(layers) * (_HEIGHT + _DOWN) - _DOWN + 4)
    return Markup(
        '<svg class="graph" role="group" aria-label="the nodes, each below those that it waits for" width="{0}" '
        'height="{1}" viewBox="-2 0 {0} {1}"><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z"/></marker>{2}{3}</svg>'
    ).format(*size, arrows, boxes)


def _without_detours(nodes: Sequence[GraphNode]) -> dict[str, list[str]]:
    """Returns node -> the nodes that it waits for, without those that another of them waits for."""
    before: dict[str, set[str]] = {}
    direct: dict[str, list[str]] = {}
    for node in nodes:
        earlier = {one for other in node.after for one in before[other]}
        before[node.id] = earlier | {*node.after}
        direct[node.id] = [other for other in node.after if other not in earlier]
    return direct


def _route(start: str, end: str, depth: Mapping[str, int]) -> list[Place]:
    passed = [(start, end, str(level)) for level in range(depth[start] + 1, depth[end])]
    return [(start,), *passed, (end,)]


def _layers(depth: Mapping[str, int], routes: Sequence[Sequence[Place]]) -> list[list[Place]]:
    """Returns the places of each layer from left to right, with few crossings of arrows."""
    layers: list[list[Place]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node, level in depth.items():
        layers[level].append((node,))
    near: dict[Place, list[list[Place]]] = {}
    """Place -> those that it is joined with in the layer above, and in the one below."""
    for route in routes:
        for level, place in enumerate(route[1:-1], depth[route[0][0]] + 1):
            layers[level].append(place)
        for upper, lower in pairwise(route):
            near.setdefault(lower, [[], []])[0].append(upper)
            near.setdefault(upper, [[], []])[1].append(lower)
    for sweep in range(_SWEEPS):
        side = sweep % 2
        for layer in layers if side == 0 else layers[::-1]:
            at = {place: (i + 0.5) / len(one) for one in layers for i, place in enumerate(one)}
            wanted = {place: [at[other] for other in near.get(place, [[], []])[side]] or [at[place]] for place in layer}
            layer.sort(key=lambda place: sum(wanted[place]) / len(wanted[place]))  # noqa: B023
    return layers


def _room(place: Place) -> int:
    return _WIDTH if len(place) == 1 else _PASS


def _line(route: Sequence[Place], middle: Mapping[Place, float], top: Mapping[Place, float]) -> str:
    """Returns the path of an arrow: down from each place, in a curve to the next one."""
    line = f"M{middle[route[0]]:.0f} {top[route[0]] + _HEIGHT:.0f}"
    for upper, lower in pairwise(route):
        start, end = top[upper] + _HEIGHT, top[lower]
        half = (start + end) / 2
        line += f"C{middle[upper]:.0f} {half:.0f} {middle[lower]:.0f} {half:.0f} {middle[lower]:.0f} {end:.0f}"
        line += "" if len(lower) == 1 else f"v{_HEIGHT}"
    return line


def _box(node: GraphNode, middle: float, top: float, *, thick: bool) -> Markup:
    name = node.id if len(node.id) <= _LONGEST else f"{node.id[: _LONGEST - 1]}…"
    drawn = Markup(
        '<g class="{}"><title>{}</title><rect x="{:.0f}" y="{:.0f}" width="{}" height="{}" rx="5"/>'
        '<text x="{:.0f}" y="{:.0f}">{}</text><text class="said" x="{:.0f}" y="{:.0f}">{}</text></g>'
    ).format(
        f"{node.style}{' thick' if thick else ''}",
        node.hint,
        *(middle - _WIDTH / 2, top, _WIDTH, _HEIGHT),
        *(middle, top + 16, name),
        *(middle, top + 31, node.words),
    )
    return Markup('<a href="{}">{}</a>').format(node.link, drawn) if node.link else drawn
