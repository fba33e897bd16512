"""Extracts the message for the user from the exception of a failed node.

Exceptions reach the runner wrapped. Beam appends " [while running 'X']", or turns the whole traceback into the message
of a RuntimeError. Keras and AutoGraph put the original into a longer text. Exceptions and printed tracebacks are
converted to `_RaisedError`, in which the cause is searched.
"""

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import fullpass
from fullpass.base.errors import UserError
from fullpass.base.redact import redact
from fullpass.pipeline.exit_codes import of_full_disk

_BEAM_SUFFIX = re.compile(r"( \[while running '[^']*'\])+$")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_HEADER = "Traceback (most recent call last):"
_LINK = re.compile(
    r"\n\n(The above exception was the direct cause of the following exception|"
    r"During handling of the above exception, another exception occurred):\n\n"
)
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+?)(?:  \*+)?$')
_GENERATED = "__autograph_generated_file"
_RAISED_LINE = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.DOTALL)
_AUTOGRAPH = "in user code:"
_WRAPPERS = ("Exception encountered when calling", _AUTOGRAPH)
_UNINFORMATIVE = (*_WRAPPERS, "Graph execution error", "Detected at node", "File ", "<stack traces unavailable>")
_RUNNER_FILES = ("launch.py", "node_process.py", "runner.py")


@dataclass(frozen=True)
class _Frame:
    file: str
    line: int
    function: str


@dataclass(frozen=True)
class _RaisedError:
    """One exception of a chain: `cause` comes from `raise ... from`; `context` was being handled.

    A context counts only if the outer exception repeats it. A context hidden by `from None` is kept too, since
    AutoGraph hides the original exception in this way.
    """

    type_name: str
    is_user_error: bool
    message: str
    frames: tuple[_Frame, ...]
    cause: "_RaisedError | None" = None
    context: "_RaisedError | None" = None


def explain(error: BaseException) -> str:
    """Returns the error message to show for an exception.

    It is the message of a `UserError` anywhere in the chain, or names the full disk. Otherwise it is `TypeName: first
    informative line` and, on a second line, the innermost frame in the code of the project or the user.

    Example:
        Beam raises `UserError("row 3: bad date [while running 'Parse']")`: the result is `row 3: bad date`.
    """
    return redact(_explain(_from_exception(error)))


def causes(error: BaseException) -> tuple[list[str], bool]:
    """Returns the class names of an exception and of its explicit causes, and whether one of them is a `UserError`."""
    chain = tuple(_explicit_chain(_from_exception(error)))
    return [raised.type_name for raised in chain], any(raised.is_user_error for raised in chain)


def explain_text(printed: str) -> str:
    """Returns the error message of a printed traceback, or the first informative line of any other text."""
    raised = _from_text(printed)
    return redact(_explain(raised) if raised else _first_informative_line(printed))


def _explain(outermost: _RaisedError) -> str:
    chain = tuple(_explicit_chain(outermost))
    for raised in chain:
        if raised.is_user_error:
            return _clean(raised.message).strip()
    for raised in chain:
        if (told := of_full_disk(raised.message)) is not None:
            return told
    summary = f"{chain[0].type_name}: {_first_informative_line(chain[0].message)}".removesuffix(": ")
    frames = (frame for raised in chain for frame in reversed(raised.frames))
    own = next((frame for frame in frames if _is_project_or_user_file(frame.file)), None)
    return f"{summary}\n  at {own.file}:{own.line} in {own.function}" if own else summary


def _explicit_chain(outermost: _RaisedError) -> Iterator[_RaisedError]:
    """Yields `outermost` and its explicit causes, unwrapped."""
    raised: _RaisedError | None = outermost
    while raised:
        while raised.cause is None and raised.context and _wraps(raised, raised.context):
            raised = replace(raised.context, frames=raised.frames + raised.context.frames)
        yield raised
        raised = raised.cause


def _wraps(outer: _RaisedError, inner: _RaisedError) -> bool:
    """Returns whether `outer` only repeats `inner`: with Beam's suffix, or in a text of Keras or AutoGraph."""
    wrapped, original = _clean(outer.message), _clean(inner.message)
    if outer.type_name == inner.type_name and wrapped == original:
        return True
    return wrapped.startswith(_WRAPPERS) and original.partition("\n")[0] in wrapped


def _from_exception(error: BaseException) -> _RaisedError:
    message = str(error)
    if printed := _from_text(message):
        return printed
    frames = [_Frame(f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(error.__traceback__)]
    if message.startswith(_AUTOGRAPH):
        frames += _printed_frames(message.splitlines())
    return _RaisedError(
        type_name=type(error).__name__,
        is_user_error=isinstance(error, UserError),
        message=message,
        frames=tuple(frames),
        cause=_from_exception(error.__cause__) if error.__cause__ else None,
        context=_from_exception(error.__context__) if error.__context__ else None,
    )


def _from_text(text: str) -> _RaisedError | None:
    """Returns the exception chain of a printed traceback, whose last exception is the outermost; None without one."""
    if _HEADER not in text:
        return None
    first, *rest = _LINK.split(text[text.index(_HEADER) :])
    raised = _from_block(first, cause=None, context=None)
    for link, block in zip(rest[::2], rest[1::2], strict=True):
        explicit = link.startswith("The above")
        raised = _from_block(block, cause=raised if explicit else None, context=None if explicit else raised)
    return raised


def _from_block(block: str, *, cause: _RaisedError | None, context: _RaisedError | None) -> _RaisedError:
    """Returns the exception of one 'Traceback ...' block: indented frames, then `TypeName: message` to the end."""
    lines = block.splitlines()[1:]
    start = next((i for i, line in enumerate(lines) if line and not line.startswith("  ")), len(lines))
    raised = _RAISED_LINE.match("\n".join(lines[start:]))
    qualified = raised["type"] if raised else ""
    return _RaisedError(
        type_name=qualified.rpartition(".")[2] or "Error",
        is_user_error=_names_user_error(qualified),
        message=(raised["message"] or "") if raised else "\n".join(lines[start:]),
        frames=_printed_frames(lines),
        cause=cause,
        context=context,
    )


def _printed_frames(lines: Iterable[str]) -> tuple[_Frame, ...]:
    found = filter(None, map(_FRAME.match, lines))
    return tuple(_Frame(frame["file"], int(frame["line"]), frame["function"]) for frame in found)


def _names_user_error(qualified: str) -> bool:
    """Returns whether a printed class name, such as `package.module.SizeError`, names a loaded `UserError` class."""
    module, _, name = qualified.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and issubclass(found, UserError)


def _clean(message: str) -> str:
    return _BEAM_SUFFIX.sub("", _ANSI.sub("", message).rstrip())


def _first_informative_line(message: str) -> str:
    lines = [line.strip() for line in _clean(message).splitlines()]
    return next((line for line in lines if line and not line.startswith(_UNINFORMATIVE)), "")


def _is_project_or_user_file(file: str) -> bool:
    """Returns whether a source file belongs to the project or the user, not to Python or an installed library."""
    path = Path(file)
    if path.is_relative_to(Path(fullpass.__file__).parent):
        return path.parent != Path(__file__).parent or path.name not in _RUNNER_FILES
    installed = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    if not (path.is_absolute() and path.exists()) or path.name.startswith(_GENERATED):
        return False
    return not any(map(path.is_relative_to, installed))
