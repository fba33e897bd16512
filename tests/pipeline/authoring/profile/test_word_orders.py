import random

import pytest

from fullpass.pipeline.authoring.profile.word_orders import UNKNOWN, word_order

ADULT = (
    "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm Bachelors Masters "
    "Prof-school Doctorate"
)


@pytest.mark.parametrize(
    "in_order",
    [
        "low medium high",
        "Low Moderate Very_High",
        "S M L XL",
        "1st 2nd 3rd 10th",
        "1st_class 2nd_class 3rd_class",
        "never Sometimes Always",
        "Strongly_disagree Disagree Neutral Agree Strongly_agree",
        "Po Fa TA Gd Ex",
        "Fair Good Very_Good Premium Ideal",
        ADULT,
        "<18 18-24 25-34 65+",
        "under_5 5-9 10_or_more",
        "0 1 2 3+",
        "<_1_year 1_year 2_years 10+_years",
        "Less_than_$40K $40K_-_$60K $60K_-_$80K $120K_+",
        "9,999_or_less 10,000-19,999 20,000_and_over",
        "(-10.0,_0.0] (0.0,_10.0] (10.0,_20.5]",
        "18_to_64_years 65_to_79_years 80_and_over",
        "Level_1 Level_2 Level_10",
    ],
)
def test_words_with_an_order(in_order):
    words = [word.replace("_", " ") for word in in_order.split()]
    shuffled = random.Random(1).sample([*words, "Unknown"], len(words) + 1)
    assert word_order(shuffled) == tuple(words)


@pytest.mark.parametrize(
    "words",
    [
        "low high",  # two
        "red green blue",
        "1 2 3",
        "Zone_1 Zone_2 Zone_3",
        "low LOW medium high",  # one level twice
        "minor low high",
        "18-24 20-30 40+",  # overlap
        "1-0 2-1 0-2",  # results of games
        "12-A 13-B 14-C",
        "A10-20 A20-30 A30-40",
        "09:00-10:00 10:00-11:00 11:00-12:00",
        "2011-01 2011-02 2011-03",
        "192.168.0.1 192.168.0.2 192.168.0.3",
        "1st_floor 2nd_class 3rd_row",
        "10-20_kg 20-30_years 30-40_miles",
        "Monday Tuesday Friday",
        "- < >",
        " ".join(word.replace(" ", "_") for word in UNKNOWN),
        " ".join(f"{10 * i}-{10 * i + 9}" for i in range(41)),
    ],
)
def test_words_without_one(words):
    assert word_order([word.replace("_", " ") for word in words.split()]) == ()


def test_no_words_have_none():
    assert word_order([]) == word_order(["", " ", "\n"]) == ()
