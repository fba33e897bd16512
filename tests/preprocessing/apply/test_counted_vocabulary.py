"""The combiner of `coverage`, against counting by hand."""

import pytest

from fullpass.preprocessing.apply.counted_vocabulary import Limits, _CountCoder, _MostFrequent


def chosen(counts, parts=1, **limits):
    """Combines counts in `parts` parts, as workers do."""
    combiner = _MostFrequent(Limits(**{"coverage": 1.0, "top_k": None, "min_count": 1} | limits))
    accumulators = [combiner.create_accumulator() for _ in range(parts)]
    for index, (token, count) in enumerate(counts.items()):
        accumulators[index % parts] = combiner.add_input(accumulators[index % parts], (token.encode(), count))
    return [token.decode() for _, token in combiner.extract_output(combiner.merge_accumulators(accumulators))]


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"coverage": 0.0}, ""),
        ({"coverage": 0.5}, "e"),
        ({"coverage": 0.51}, "ed"),
        ({"coverage": 0.9}, "edcb"),
        ({"coverage": 1.0}, "edcba"),
        # For equal counts, the later token comes first.
        ({"coverage": 0.81}, "edc"),
        ({"coverage": 1.0, "top_k": 1}, "e"),
        ({"coverage": 1.0, "top_k": 2}, "ed"),
        # Rare tokens are dropped, but still count in the total of the coverage.
        ({"coverage": 0.9, "min_count": 3}, "ed"),
        ({"coverage": 0.5, "min_count": 20}, ""),
    ],
)
def test_tokens_that_cover_a_share(limits, expected, parts):
    assert "".join(chosen({"a": 2, "b": 2, "c": 2, "d": 6, "e": 12}, parts, **limits)) == expected


def test_trimming_keeps_the_most_frequent():
    counts = {f"{i:04d}": (i * 7919) % 1000 for i in range(1000)}
    best = sorted(counts, key=lambda token: (counts[token], token), reverse=True)[:5]
    assert chosen(counts, parts=4, top_k=5) == best


def test_cached_counts_keep_any_bytes():
    for pair in ((b"\xff\x00\n", 3), ("日".encode(), 2**40)):
        assert _CountCoder().decode_cache(_CountCoder().encode_cache(pair)) == pair
