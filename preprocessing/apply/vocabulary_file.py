"""Reads a vocabulary file that the configuration names."""

from fullpass.base.errors import UserError
from fullpass.preprocessing.token_spelling import distinct_tokens

_ACCEPTED = "Accepted: one token per line, in UTF-8."


def read_vocabulary_file(path: str) -> tuple[str, ...]:
    """Returns the tokens of a vocabulary file, in its order.

    Raises:
        UserError: The file cannot be read, or `vocabulary_tokens` refuses its content.
    """
    import tensorflow as tf  # `check` uses `vocabulary_tokens` without TensorFlow

    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            content = file.read()
    except tf.errors.OpError as error:
        raise UserError(f"vocabulary file {path!r} cannot be read: {error.message}") from error
    return vocabulary_tokens(path, content)


def vocabulary_tokens(path: str, content: bytes) -> tuple[str, ...]:
    """Returns the tokens in the content of a vocabulary file, in their order.

    As in TensorFlow's own tables, a line ends with a line feed, or with a carriage return and a line feed. Other
    Unicode line separators are part of a token.

    Raises:
        UserError: The content is empty or not UTF-8, or has an empty or a repeated line.
    """
    lines = content.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")
    if lines == [b""]:
        raise UserError(f"vocabulary file {path!r} is empty. {_ACCEPTED}")
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        token = _token(path, number, line.removesuffix(b"\r"))
        if token in seen:
            raise UserError(f"vocabulary file {path!r}: {token!r} is on lines {seen[token]} and {number}. Keep one.")
        seen[token] = number
    return tuple(seen)


def category_tokens(path: str, lines: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the tokens of the lines of a category's vocabulary file; see `token_spelling`.

    Raises:
        UserError: Two lines are the same token.
    """
    try:
        return distinct_tokens(lines)
    except ValueError as error:
        raise UserError(f"vocabulary file {path!r}: {error}. Keep one line.") from None


def _token(path: str, number: int, line: bytes) -> str:
    try:
        token = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"vocabulary file {path!r}, line {number}: {line!r} is not UTF-8 ({error.reason}). {_ACCEPTED} "
            "Save it as UTF-8."
        ) from error
    if not token:
        raise UserError(f"vocabulary file {path!r}, line {number}: empty. {_ACCEPTED}")
    return token
