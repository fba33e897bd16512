"""Byte-pair encoding: an example computed by hand, and a reference learner that recounts all after every merge."""

import random
from collections import Counter

from fullpass.preprocessing.apply.learn_subwords import learn_pieces

HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def learn(counts, size=100, min_count=1):
    words = [(count, word.encode()) for word, count in counts.items()]
    return [piece.decode() for piece in learn_pieces(words, size=size, min_count=min_count)]


def test_merges_worked_out_by_hand():
    # Characters: u 36, g 20, p 17, n 16, h 15, s 5, b 4. Then u+g occurs 10 + 5 + 5 times, u+n 12 + 4, h+ug 10 + 5,
    # p+un 12; p+ug and hug+s 5 each, of which hugs is alphabetically first; b+un 4.
    characters = ["##u", "##g", "p", "##n", "h", "##s", "b"]
    merged = ["##ug", "##un", "hug", "pun", "hugs", "pug", "bun"]
    assert learn(HUGS) == characters + merged
    assert learn(HUGS, size=10) == characters + merged[:3]
    assert learn(HUGS, size=3) == characters[:3]
    assert learn(HUGS, min_count=5) == characters[:-1] + merged[:-1]
    assert learn({}) == [] and learn({"a": 1}, min_count=2) == []


def test_an_overlapping_pair_is_merged_from_the_beginning():
    # a aa aa; the next merge gives aaaa. The pair after the first letter merges first, because it occurs three times.
    assert learn({"aaaaa": 1}) == ["##a", "a", "##aa", "##aaaa", "aaaaa"]


def test_rare_characters_and_long_pieces_are_left_out():
    # 日 is one of 2,001 characters: 99.95 % are covered without it.
    assert "日" not in learn({"ab": 1000, "日": 1}) and "日" in learn({"ab": 998, "日": 1})
    pieces = learn({"x" * 40: 3})
    assert max(len(piece.removeprefix("##")) for piece in pieces) == 16


def test_the_merges_are_those_of_counting_anew():
    random.seed(3)
    words = ["".join(random.choices("abcdé", [5, 4, 3, 2, 1], k=random.randint(1, 9))) for _ in range(400)]
    assert learn(Counter(words), size=150, min_count=2) == _counted_anew(Counter(words), 150, 2)


def _counted_anew(counts, size, min_count):
    words = {word: [word[0], *("##" + c for c in word[1:])] for word in counts}
    characters = Counter(piece for word in words for piece in words[word] for _ in range(counts[word]))
    pieces = sorted(characters, key=lambda piece: (-characters[piece], piece))
    while len(pieces) < size:
        pairs = Counter()
        for word, of in words.items():
            for pair in zip(of, of[1:], strict=False):
                pairs[pair] += counts[word]
        best, _, (one, other) = min((-n, a + b[2:], (a, b)) for (a, b), n in pairs.items())
        if -best < min_count:
            break
        if one + other[2:] not in pieces:
            pieces.append(one + other[2:])
        for of in words.values():
            for i in range(len(of)):
                if of[i : i + 2] == [one, other]:
                    of[i : i + 2] = [one + other[2:]]
    return pieces
