"""Learns the pieces of words from the counts of words: byte-pair encoding on characters, in one process.

Each word starts as its characters. The most frequent pair of adjacent pieces is merged into one piece, repeatedly. A
piece that continues a word begins with `##`.
Source: Sennrich, Haddow and Birch, Neural Machine Translation of Rare Words with Subword Units (2016). The continuation
marks are from WordPiece; the share of characters kept is from SentencePiece (Kudo and Richardson, 2018).
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

CONTINUES = "##"
"""Prefix of a piece that does not begin a word."""
LONGEST_PIECE = 16
"""Length in characters of the longest learned piece, without continuation marks."""
MOST_WORDS = 100_000
"""Number of words, the most frequent ones, that pieces are learned from."""
_COVERED = 0.9995
"""Share of all characters of the text that the alphabet covers, as SentencePiece's default."""
_UNKNOWN = LONGEST_PIECE  # The length of text that is not a piece: too long for any pair.

Pair = tuple[str, str]


def learn_pieces(words: Sequence[tuple[int, bytes]], *, size: int, min_count: int) -> list[bytes]:
    """Returns the pieces: characters by descending count, then merged pieces in the order in which they were learned.

    Ties are broken alphabetically.

    Args:
        words: (count, word in UTF-8), each word once.
        min_count: Rarer characters and rarer pairs do not become pieces.
    """
    spelled = [(count, _characters(word.decode("utf-8", "replace"))) for count, word in words]
    characters = _common_characters(spelled, size, min_count)
    merges = _Merges(spelled, characters)
    while len(merges.pieces) < size and (pair := merges.most_frequent(min_count)):
        merges.merge(pair)
    return [piece.encode() for piece in merges.pieces]


def merged_piece(pair: Pair) -> str:
    """Returns two adjacent pieces as one piece.

    Example:
        >>> merged_piece(("th", "##e"))
        'the'
    """
    return pair[0] + pair[1].removeprefix(CONTINUES)


def _characters(word: str) -> list[str]:
    return [*word[:1], *(CONTINUES + character for character in word[1:])]


def _common_characters(spelled: Iterable[tuple[int, list[str]]], size: int, min_count: int) -> list[str]:
    """Returns the fewest characters that make up nearly all text; the rest are from scripts that are rare in it."""
    counts = Counter[str]()
    for count, characters in spelled:
        for character in characters:
            counts[character] += count
    wanted, covered, chosen = _COVERED * counts.total(), 0, []
    for count, character in sorted((-count, character) for character, count in counts.items())[:size]:
        if covered >= wanted or -count < min_count:
            break
        covered -= count
        chosen.append(character)
    return chosen


class _Merges:
    """Words as their pieces, and counts of adjacent pairs, which are updated with every merge.

    Args:
        words: (count, pieces).
        characters: The initial pieces; other characters are never merged.

    Attributes:
        pieces: Piece -> its length in characters, in the order in which they were learned.
    """

    def __init__(self, words: Iterable[tuple[int, list[str]]], characters: Iterable[str]):
        self.pieces = dict.fromkeys(characters, 1)
        # Each place holds a piece until the piece is merged into the one before it. -1 is beyond the end of a word.
        self._at: list[str] = []
        self._before: list[int] = []
        self._behind: list[int] = []
        self._weight: list[int] = []
        self._counts = Counter[Pair]()
        self._places = defaultdict[Pair, list[int]](list)
        for count, pieces in words:
            self._add(count, pieces)
        self._queue = [_entry(count, pair) for pair, count in self._counts.items()]
        heapq.heapify(self._queue)

    def _add(self, count: int, pieces: Sequence[str]) -> None:
        first, last = len(self._at), len(self._at) + len(pieces) - 1
        self._at += pieces
        self._before += [-1, *range(first, last)][: len(pieces)]
        self._behind += [*range(first + 1, last + 1), -1][: len(pieces)]
        self._weight += [count] * len(pieces)
        for place in range(first, last):
            self._count(place, self._counts)

    def most_frequent(self, min_count: int) -> Pair | None:
        """Returns the most frequent pair; None if no pair reaches `min_count`."""
        while self._queue:
            count, _, pair = heapq.heappop(self._queue)
            now = self._counts[pair]
            if now == -count:
                return pair if now >= min_count else None
            if 0 < now < -count:  # Merges reduced its count. Pairs that gained have a new entry.
                heapq.heappush(self._queue, _entry(now, pair))
        return None

    def merge(self, pair: Pair) -> None:
        """Merges a pair into one piece at all its places; overlapping pairs are merged from left to right."""
        merged = merged_piece(pair)
        self.pieces.setdefault(merged, self.pieces[pair[0]] + self.pieces[pair[1]])
        more = Counter[Pair]()
        for place in sorted(self._places.pop(pair)):
            second = self._behind[place]
            if self._at[place] != pair[0] or second < 0 or self._at[second] != pair[1]:
                continue
            before, behind = self._before[place], self._behind[second]
            self._discount(before, place)
            self._discount(second, behind)
            self._at[place], self._at[second] = merged, ""
            self._behind[place] = behind
            if behind >= 0:
                self._before[behind] = place
                self._count(place, more)
            if before >= 0:
                self._count(before, more)
        del self._counts[pair]
        self._counts.update(more)
        for other in more:
            heapq.heappush(self._queue, _entry(self._counts[other], other))

    def _count(self, place: int, counts: Counter[Pair]) -> None:
        pair = self._at[place], self._at[self._behind[place]]
        if self.pieces.get(pair[0], _UNKNOWN) + self.pieces.get(pair[1], _UNKNOWN) <= LONGEST_PIECE:
            counts[pair] += self._weight[place]
            self._places[pair].append(place)

    def _discount(self, place: int, behind: int) -> None:
        """Removes the pair of two places from the counts; one of the places may be beyond the end of the word."""
        if place >= 0 and behind >= 0 and (pair := (self._at[place], self._at[behind])) in self._places:
            self._counts[pair] -= self._weight[place]


def _entry(count: int, pair: Pair) -> tuple[int, str, Pair]:
    return -count, merged_piece(pair), pair
