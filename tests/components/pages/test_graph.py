"""The graph of nodes: every wait is an arrow or a way of arrows, and arrows go down."""

import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from fullpass.components.pages.graph import GraphNode, critical_path, graph


@st.composite
def graphs(draw) -> list[GraphNode]:
    """Nodes with wild names and whole seconds, each of which waits for some of those before it."""
    names = draw(st.lists(st.text(min_size=1, max_size=30), unique=True, min_size=1, max_size=9))
    return [
        GraphNode(name, "", "", "good", draw(st.integers(0, 9)), tuple(draw(st.sets(st.sampled_from(names[:i])))))
        if i
        else GraphNode(name, "", "", "good", draw(st.integers(0, 9)), ())
        for i, name in enumerate(names)
    ]


def ways(nodes: list[GraphNode]) -> list[tuple[str, ...]]:
    """Returns every way of waiting from a node to one that waits for nothing."""
    by_name = {node.id: node for node in nodes}

    def up(name: str) -> list[tuple[str, ...]]:
        return [(*way, name) for other in by_name[name].after for way in up(other)] or [(name,)]

    return [way for node in nodes for way in up(node.id)]


@given(graphs())
def test_the_longest_way_is_the_longest_of_all_ways(nodes):
    seconds = {node.id: node.seconds for node in nodes}
    found = critical_path(nodes)
    assert found in {way[i:] for way in ways(nodes) for i in range(len(way))} | {*ways(nodes)}
    assert all(seconds[end] for end in {found[0], found[-1]}) or len(found) == 1, "no node that took no time begins it"
    assert sum(map(seconds.get, found)) == max(sum(map(seconds.get, way)) for way in ways(nodes))


@given(graphs())
def test_arrows_go_down_boxes_lie_apart_and_every_wait_is_a_way_of_arrows(nodes):
    drawn = str(graph(nodes, critical_path(nodes)))
    found = re.findall(r'<rect x="(-?\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', drawn)
    boxes = [tuple(map(int, box)) for box in found]
    assert len(boxes) == len(nodes)
    for i, (x, y, wide, tall) in enumerate(boxes):
        assert all(abs(x - a) > wide or abs(y - b) > tall for a, b, *_ in boxes[:i])
    middle = {(x + w // 2, y): node.id for node, (x, y, w, _) in zip(nodes, boxes, strict=True)}
    bottom = {(x, y + boxes[0][3]): name for (x, y), name in middle.items()}
    joined: dict[str, set[str]] = {node.id: set() for node in nodes}
    for line in re.findall(r' d="(M[^"]+)"', drawn)[1:]:  # the first is the head of an arrow
        x, y, *rest = (int(number) for number in re.findall(r"-?\d+", line.partition("C")[0]))
        *_, end_x, end_y = map(int, re.findall(r"-?\d+", line))
        joined[near(middle, end_x, end_y)].add(near(bottom, x, y))
        assert end_y > y
    reached: dict[str, set[str]] = {}
    for node in nodes:
        reached[node.id] = joined[node.id].union(*(reached[other] for other in joined[node.id]))
        assert {*node.after} <= reached[node.id]
        assert all(other not in reached[one] for one in joined[node.id] for other in joined[node.id])


def near(places: dict[tuple[int, int], str], x: int, y: int) -> str:
    """Returns the box at a point, whose numbers are rounded."""
    return places[min(places, key=lambda place: abs(place[0] - x) + abs(place[1] - y))]


def test_names_are_text():
    hostile = GraphNode("<script>x", "<b>", "<i>", "bad", 1.0, (), 'a"><img>')
    drawn = unescape(str(graph([hostile], ())).replace("&lt;", "LESS"))
    assert not re.search("<(script|b|i|img)>", drawn) and "LESSscript>x" in drawn
