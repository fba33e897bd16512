"""The order that the words of a column have: low, medium, high; 1st, 2nd; 18-24, 25-34, 65+."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any

from fullpass.pipeline.authoring.rules import rule

_FEWEST_WORDS = 3
"""Words of an order; the effect of two is a line in any order."""
_SCALES = """
none < very low|lowest|minimal < low|l|lo < medium low|medium-low|below average < medium|med|mid|m|moderate|average
  |normal < medium high|medium-high|above average < high|h|hi < very high|highest|urgent < critical
none < trivial|minimal|cosmetic < minor|mild|slight|light < moderate|medium|normal < major|severe|serious|heavy
  < critical|extreme|very severe < blocker|fatal
xxs < xs|extra small|x-small < s|small < m|medium|regular|standard < l|large < xl|extra large|x-large < xxl|2xl
  < xxxl|3xl
tiny|very small < small < medium|mid|mid-size|midsize|average < big|large < very big|very large|huge < giant|enormous
very short < short < medium|average < long|tall < very long|very tall
never < almost never|hardly ever|very rarely < rarely|seldom < occasionally|sometimes < often|frequently|usually
  |regularly < very often|very frequently|almost always < always
never < yearly|annually < quarterly < monthly < fortnightly|biweekly|bi-weekly < weekly < daily < hourly
strongly disagree|totally disagree|completely disagree|sd < disagree < somewhat disagree|slightly disagree
  < neutral|neither|neither agree nor disagree|undecided < somewhat agree|slightly agree < agree
  < strongly agree|totally agree|completely agree|sa
very dissatisfied|very unsatisfied < dissatisfied|unsatisfied < somewhat dissatisfied
  < neutral|neither|neither satisfied nor dissatisfied < somewhat satisfied < satisfied < very satisfied
very unlikely < unlikely|not likely < somewhat unlikely < neutral|possible|possibly|neither < somewhat likely
  < likely|probable|probably < very likely|certain
very negative < negative < neutral < positive < very positive
not at all < slightly|a little|a little bit < somewhat|moderately < very|quite a bit|very much < extremely|a lot
very poor|very bad|terrible|awful < poor|bad|po < below average < fair|fa < average|ok|okay|acceptable|typical|ta
  < above average < good|gd < very good|vg < premium|excellent|great|ex < ideal|outstanding|exceptional|perfect
unacceptable|insufficient|fail < needs improvement|sufficient|pass < meets expectations|satisfactory
  < exceeds expectations|merit < outstanding|distinction
i3 < i2 < i1 < si2 < si1 < vs2 < vs1 < vvs2 < vvs1 < if < fl
freezing < very cold < cold < cool|chilly < mild|lukewarm < warm < hot < very hot|boiling
none < beginner|novice|basic|elementary < intermediate < advanced|proficient < expert|native|fluent
intern|trainee < junior|jr|entry|entry-level|entry level < mid|middle|mid-level|mid level|intermediate < senior|sr
  < lead|staff < principal|manager < director < executive
bronze < silver < gold < platinum < diamond
infant|baby < toddler < child|kid < teen|teenager|adolescent < young adult|youth < adult < middle-aged|middle aged
  < senior|elderly
first < second < third < fourth < fifth < sixth < seventh < eighth < ninth < tenth
i < ii < iii < iv < v < vi < vii < viii < ix < x
none|illiterate < preschool|kindergarten < 1st-4th < 5th-6th < primary|primary school|elementary school < 7th-8th
  < middle school|lower secondary < 9th < 10th < 11th < some high school < 12th
  < hs-grad|high school|high-school|high_school|secondary|upper secondary < vocational < some-college|some college
  |college < assoc-voc < assoc-acdm|associate|associates|associate's|associate degree|associate's degree
  < bachelors|bachelor|bachelor's|bachelor degree|bachelor's degree|undergraduate|tertiary
  < masters|master|master's|master degree|master's degree|postgraduate < prof-school < doctorate|doctoral|phd|ph.d.
"""
"""Scales, from the lowest to the highest level; words of one level mean the same."""
_LEVELS = [
    {word: place for place, level in enumerate(scale.split("<")) for word in level.strip().split("|")}
    for scale in _SCALES.replace("\n  ", "").strip().split("\n")
]
UNKNOWN = frozenset(
    "unknown,other,others,missing,unspecified,n/a,na,not stated,not specified,not available,refused,don't know,dk,"
    "prefer not to say,no answer,not sure,not applicable".split(",")
)
"""Words beside an order that say nothing."""
_MOST_WORDS = 40
"""Words of an order at most; more are codes."""
_NUMBERED = re.compile(r"(\d{1,3})(?:st|nd|rd|th)\b(.*)")
_NUMBER = re.compile(r"((?:(?:^|(?<=[(\[ ,]))-)?(?<![\w.])\d+(?:\.\d+)?)(?: ?([km])\b)?")
_TIMES = {"": 1.0, "k": 1e3, "m": 1e6}
_LESS = frozenset("< ≤ under below less fewer younger".split())
_MORE = frozenset("> ≥ + over above more older plus up higher".split())
_BETWEEN = frozenset("to or and than between from equal of".split())
_RANKED = frozenset("level grade tier stage year phase degree step".split())
"""Words before a number that is a rank, where a zone or a store has none."""
_SPELLINGS = 2
"""Units of intervals: year and years."""
Interval = tuple[float, float]


@rule("ordered words", otherwise=())
def word_order(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the words of a column that have an order, the lowest first, beside words for unknown; () without one.

    Example:
        >>> word_order(["High", "Low", "unknown", "Medium"]), word_order(["<18", "65+", "18-64"])
        (('Low', 'Medium', 'High'), ('<18', '18-64', '65+'))
    """
    plain = {text: text.strip().lower() for text in texts}
    known = {text: word for text, word in plain.items() if word not in UNKNOWN}
    words = set(known.values())
    if not _FEWEST_WORDS <= len(known) <= _MOST_WORDS or len(words) < len(known):
        return ()
    placed: list[Mapping[str, Any]] = [*_of_scales(words), _numbered(words), _intervals(words)]
    found = {tuple(sorted(known, key=lambda text: places[known[text]])) for places in placed if places}
    return found.pop() if len(found) == 1 else ()


def _of_scales(words: set[str]) -> Iterator[Mapping[str, float]]:
    """Yields the scales that have all words, each at a level of its own."""
    for levels in _LEVELS:
        if words <= levels.keys() and len({levels[word] for word in words}) == len(words):
            yield levels


def _numbered(words: set[str]) -> Mapping[str, float]:
    """Returns the numbers of 1st, 2nd, 3rd, with equal words behind; empty for others."""
    ranks = {word: (match[2], float(match[1])) for word in words if (match := _NUMBERED.fullmatch(word))}
    same = len({behind for behind, _ in ranks.values()}) == 1
    return {word: rank for word, (_, rank) in ranks.items()} if same and len(ranks) == len(words) else {}


def _intervals(words: set[str]) -> Mapping[str, Interval]:
    """Returns the ends of intervals of numbers that do not overlap, such as <18, 18-24, 25+; empty for others."""
    ends: dict[str, Interval] = {}
    units: set[frozenset[str]] = set()
    for word in words:
        if (read := _interval(word)) is None:
            return {}
        ends[word], unit = read
        units.add(unit)
    in_order = sorted(ends.values())
    apart = all(one[1] <= other[0] and one != other for one, other in pairwise(in_order))
    intervals = any(low < high for low, high in in_order) and len(units) <= _SPELLINGS
    return ends if apart and (intervals or (len(units) == 1 and units.pop() & _RANKED)) else {}


def _interval(word: str) -> tuple[Interval, frozenset[str]] | None:
    """Returns the ends of an interval, equal ones of a number, and the words of its unit; None for another text."""
    text = re.sub(r"(?<=\d),(?=\d{3}\b)|[$€£¥%]", "", word.replace("up to", "<").replace("at least", ">"))
    numbers = [float(number) * _TIMES[times] for number, times in _NUMBER.findall(text)]
    words = frozenset(re.findall(r"[^\W\d]+|[<>≤≥+]", _NUMBER.sub(" ", text)))
    less, more, unit = words & _LESS, words & _MORE, words - _LESS - _MORE - _BETWEEN
    if len(numbers) == 2 and numbers[0] < numbers[1]:  # noqa: PLR2004 both ends
        return (numbers[0], numbers[1]), unit
    if len(numbers) != 1 or (less and more):
        return None
    return (-inf if less else numbers[0], inf if more else numbers[0]), unit
