import subprocess
import sys
from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.running.execution import failure

HERE = Path(__file__)


class SchemaMismatch(UserError):
    """A user's error with a name of its own."""


def caught(function) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def line_of(text: str) -> int:
    lines = HERE.read_text().splitlines()
    return next(i for i, line in enumerate(lines, start=1) if text in line)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UserError('label: no column "tip".\nColumns are: fare.'), 'label: no column "tip".\nColumns are: fare.'),
        (UserError("row 3: bad\nuse DD [while running 'Parse'] [while running 'Read/It']"), "row 3: bad\nuse DD"),
        (MemoryError(), "MemoryError"),
    ],
    ids=["as written", "without Beam's suffix", "without a message, its type"],
)
def test_an_error_is_shown(error, told):
    assert failure.explain(error) == told


def stands_behind_another_exception():
    try:
        raise SchemaMismatch("features.fare: no such column")
    except SchemaMismatch as error:
        raise RuntimeError("cannot build") from error


def adds_to_another_one():
    try:
        raise UserError("no such column")
    except UserError as error:
        raise UserError("features.fare: no such column") from error


def replaces_another_one():
    try:
        raise UserError("no such column")
    except UserError as error:
        raise UserError(f"features.fare: {error}") from None


@pytest.mark.parametrize("fails", [stands_behind_another_exception, adds_to_another_one, replaces_another_one])
def test_the_user_error_that_says_most_is_shown(fails):
    assert failure.explain(caught(fails)) == "features.fare: no such column"


def test_a_user_error_that_was_dealt_with_is_not_blamed():
    def fails():
        try:
            raise UserError("no sidecar file")
        except UserError:
            {}["weights"]

    assert failure.explain(caught(fails)).startswith("KeyError: 'weights'\n")


def test_a_wrapped_repetition_gives_way_to_the_original():
    def fails():
        try:
            raise UserError("features.fare: bad\nfix it")
        except UserError as error:
            text = f"Exception encountered when calling L.call().\n\n\x1b[1m{error}\x1b[0m\n\nArguments: x"
            raise UserError(text)  # noqa: B904

    assert failure.explain(caught(fails)) == "features.fare: bad\nfix it"


def raises_itself():
    raise ZeroDivisionError("by the number of rows\nsecond line")


def lets_a_library_raise():
    subprocess.run(["/no/such/program"], check=True)


def raises_a_cause():
    try:
        raise KeyError("vocabulary")
    except KeyError as error:
        raise RuntimeError("cannot size the embedding") from error


@pytest.mark.parametrize(
    ("fails", "told", "line"),
    [
        (raises_itself, "ZeroDivisionError: by the number of rows", "by the number of rows"),
        (lets_a_library_raise, "FileNotFoundError: [Errno 2]", '["/no/such/program"]'),
        (raises_a_cause, "RuntimeError: cannot size the embedding", "cannot size the embedding"),
    ],
)
def test_any_other_error_shows_type_first_line_and_the_place_in_own_code(fails, told, line):
    first, where = failure.explain(caught(fails)).splitlines()
    assert first.startswith(told) and where == f"  at {HERE}:{line_of(line)} in {fails.__name__}"


def test_the_place_may_be_in_an_explicit_cause():
    outer = RuntimeError("cannot size the embedding")
    outer.__cause__ = caught(raises_itself)
    assert failure.explain(outer).splitlines()[1].endswith("in raises_itself")


def test_a_printed_chain_is_read():
    """The form in which Beam's workers report: a RuntimeError whose message is the traceback."""
    text = f"""Traceback (most recent call last):
  File "{HERE}", line 7, in process
    int('a')
ValueError: invalid literal for int() with base 10: 'a'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "apache_beam/runners/common.py", line 1495, in apache_beam.runners.common.DoFnRunner.process
  File "{HERE}", line 9, in process
    raise UserError(...) from e
fullpass.base.errors.UserError: row 3: bad
fix it: do this

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "apache_beam/runners/common.py", line 1585, in apache_beam.runners.common.DoFnRunner._reraise_augmented
fullpass.base.errors.UserError: row 3: bad
fix it: do this [while running 'Bad Step']
"""
    assert failure.explain(RuntimeError(text)) == "row 3: bad\nfix it: do this"


def test_a_printed_error_that_is_not_the_users_shows_type_and_place():
    text = f"""Bundle failed: Traceback (most recent call last):
  File "{HERE}", line 7, in process
    int('a')
    ^^^^^^^^
  File "{sys.modules["json"].__file__}", line 8, in loads
tensorflow.python.framework.errors_impl.NotFoundError: no such table [while running 'Look up']
"""
    assert failure.explain_text(text) == f"NotFoundError: no such table\n  at {HERE}:7 in process"


@pytest.mark.integration
def test_a_full_disk_is_named_whichever_library_reports_it():
    def of_tensorflow():
        import tensorflow as tf

        with tf.io.TFRecordWriter("/dev/full") as writer:
            writer.write(b"x" * 1_000_000)

    def of_python():
        with open("/dev/full", "wb", buffering=0) as file:
            file.write(b"x")

    def of_a_step():
        raise RuntimeError("OSError: [Errno 28] No space left on device: '/root/a b' [while running 'Write']")

    for fails, file in ((of_tensorflow, "/dev/full"), (of_python, "a file or the output"), (of_a_step, "/root/a b")):
        told = failure.explain(caught(fails))
        assert told.startswith(f"{file}: the disk is full.\n") and told.endswith("or free space there.")
    saved = "RESOURCE_EXHAUSTED: /root/Trainer/a.tempstate1; No space left on device [Op:SaveV2]"
    assert failure.explain(ValueError(saved)).startswith("/root/Trainer/a.tempstate1: the disk is full.")


def test_text_without_a_traceback_gives_its_first_line():
    assert failure.explain_text("\n\nthe disk is full\nmore") == "the disk is full"


@pytest.mark.parametrize(
    ("message", "first"),
    [
        (
            "Graph execution error:\n\nDetected at node Parse defined at (most recent call last):\n"
            '  File "x.py", line 16, in <module>\n\nName: <unknown>, Feature: a is required.\n\t [[{{n}}]]',
            "Name: <unknown>, Feature: a is required.",
        ),
        (
            "Exception encountered when calling L.call().\n\n\x1b[1mInput 0 is incompatible\x1b[0m\n\nArg",
            "Input 0 is incompatible",
        ),
    ],
)
def test_headings_of_tensorflow_and_keras_are_passed_over(message: str, first: str):
    assert failure.explain(ValueError(message)) == f"ValueError: {first}"


@pytest.mark.integration
@pytest.mark.parametrize("options", [[], ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]])
def test_a_user_error_comes_out_of_a_real_beam_pipeline(options: list[str]):
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    def check(row: int) -> int:
        if row == 2:
            raise UserError(f"row {row}: bad\nfix it")
        return row

    def run() -> None:
        with beam.Pipeline(options=PipelineOptions(options)) as p:
            p | beam.Create([1, 2]) | "Check rows" >> beam.Map(check)

    assert failure.explain(caught(run)) == "row 2: bad\nfix it"


@pytest.mark.integration
def test_a_user_error_comes_out_of_autograph_and_keras():
    import keras
    import tensorflow as tf

    @tf.function
    def traced(x):
        if x > 1:
            raise UserError("features.fare: bad\nfix it")
        return x

    @tf.function
    def shapes(x):
        if x > 1:
            x = tf.constant(1)
        return tf.stack([x, [1, 2]])

    class Layer(keras.layers.Layer):
        def call(self, x):
            raise UserError("model.layers[0]: bad\nfix it")

    assert failure.explain(caught(lambda: traced(tf.constant(2)))) == "features.fare: bad\nfix it"
    told, where = failure.explain(caught(lambda: shapes(tf.constant(2)))).splitlines()
    assert told == "ValueError: Shapes must be equal rank, but are 0 and 1"
    assert where == f"  at {HERE}:{line_of('tf.stack([x')} in shapes"
    assert failure.explain(caught(lambda: Layer()(tf.zeros([1, 2])))) == "model.layers[0]: bad\nfix it"
