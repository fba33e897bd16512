import numpy as np
import pytest

from fullpass.pipeline.authoring.profile.number_profile import missing_tokens, profile_numbers
from tests.pipeline.authoring.tables import values_of as values

NAN = np.nan


def rows(numbers, placeholder, count, total=1000):
    """`count` placeholders among numbers."""
    return [str(numbers[i % len(numbers)]) for i in range(total - count)] + [placeholder] * count


def test_range_and_skew_of_numbers_are_exact():
    numbers = profile_numbers(np.array([NAN, *range(101), -1.0]))
    assert (numbers.low, numbers.high, numbers.median, numbers.whole) == (-1, 100, 49.5, True)
    assert numbers.negative == pytest.approx(1 / 102)
    assert abs(numbers.skew) < 0.1
    assert numbers.outliers == (None, None)
    assert profile_numbers(np.array([NAN])) is None


def test_skew_is_the_third_standardized_moment():
    numbers = np.array([1.0, 2.0, 3.0, 10.0, np.nan])
    clipped = np.clip(numbers[:4], *np.quantile(numbers[:4], (0.001, 0.999)))
    assert profile_numbers(numbers).skew == pytest.approx(((clipped - clipped.mean()) ** 3).mean() / clipped.std() ** 3)
    assert profile_numbers(np.array([4.0, 4.0])).skew == 0


def test_far_values_are_outliers():
    random = np.random.default_rng(1)
    numbers = profile_numbers(np.append(random.lognormal(size=20_000), [1e6, -1e6]))
    assert numbers.skew > 2
    below, above = numbers.outliers
    assert -1e6 < below < 0 < above < 1e6


@pytest.mark.parametrize(
    ("texts", "tokens"),
    [
        (["1"] * 50 + ["2"] * 49 + ["?"], ("?",)),
        (["1", "2", "3", "4"] * 9 + ["n/a", "none"], ("n/a", "none")),
        (["1", "2", "3", "4"] * 9 + ["closed"], ("closed",)),
        (["1", "2", "3", "4"] * 9 + ["not available"] * 30, ("not available",)),
        (["$1", "$2", "$3", "$4"] * 9 + ["#N/A"] * 30, ("#N/A",)),
        (["1", "2"] * 9 + ["none"] * 30, ()),
        (["1", "2", "3", "4"] * 9 + ["10+", "a", "b", "c", "d"], ()),
        ([str(i) for i in range(50)] + ["-999"] * 3, ("-999",)),
        (["-1200", "-999", "5"], ()),
        (["0.5", "-99.0", "0.7"], ("-99.0",)),
        (["-5", "-99", "3", "7"], ("-99",)),
        (["a", "b", "?", "NA"], ("?", "NA")),
        (["AF", "EU", "NA", "SA"], ()),
        (["ZA", "BW", "AO", "ZM", "NA", "001", "419"], ()),
        (["NYSE", "XETRA", "EU", "NA"], ("NA",)),
        (["Nan", "na", "none", "-"], ()),
        ([], ()),
        (["0"] * 85 + ["a"] * 9 + ["b"] * 3 + ["c"] * 3, ()),
        ([*map(str, range(1, 13))] * 9 + ["K"] * 9, ()),
        (rows([f"{i}M" for i in range(40)], "Varies", 150), ("Varies",)),
        (rows([i / 10 for i in range(400)], "-200", 170), ("-200",)),
        (rows(range(18, 80), "999", 50), ("999",)),
        (rows(range(1000, 5000, 7), "99999", 50), ("99999",)),
        (rows(range(20_000, 150_000, 500), "10000000", 20), ("10000000",)),
        (rows(range(28), "999", 960), ("999",)),  # days since a contact that most never had
        (rows(range(1990, 2021), "9999", 9), ("9999",)),
        (rows([x / 10 for x in range(-90, 90)], "-999", 9) + ["-998"] * 9, ("-998", "-999")),
        (rows([1, 2, 5, 10, 20, 50, 100, 200], "500", 90), ()),
        (rows(range(5000, 7000), "0", 400), ()),  # nothing was paid
        (rows(range(1000), "50000", 1), ()),  # an outlier
        (rows(range(18, 80), "-1", 100), ()),  # not far
        (rows([i / 1000 for i in range(200)], "1", 110), ()),  # the whole share
    ],
)
def test_words_and_placeholders_mean_missing(texts, tokens):
    assert set(missing_tokens(values(texts))) == set(tokens)
