"""Translates regular expressions of RE2, which TensorFlow has, to those of Python, which the steps have."""

import re

_NOT_A_CHARACTER = r"\udc80-\udcff"
"""Bytes that are not UTF-8, as `text_steps` reads them: they fit no class of RE2, not even a negated one."""
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_WORD = f"[{_CLASSES['w']}]"
_OF_RE2 = {
    **{name: f"[{inside}]" for name, inside in _CLASSES.items()},
    **{name.upper(): f"[^{inside}{_NOT_A_CHARACTER}]" for name, inside in _CLASSES.items()},
    "C": r"[\s\S]",
    "z": r"\Z",
    "b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
}
"""Letter behind a backslash of RE2 -> an expression of Python with its meaning; `d`, `s`, `w` are ASCII there."""
_PART = re.compile(r"(\(\?[A-Za-z-]+[:)])|\\(.)|\[(\^?)(\]?(?:\\.|[^]\\])*)\]|[.$]", re.DOTALL)
"""Flags, an escape, a class, or a sign: the parts of an expression that differ between RE2 and Python."""


def python_pattern(pattern: str) -> str:
    """Returns a regular expression of RE2 as one of Python that fits the same texts, as `text_steps` reads them.

    Raises:
        re.error: It has flags behind its beginning, a class with a name, or another part that has no translation.
    """
    given = (re.match(r"\(\?([ims]+)\)", pattern) or ("", ""))[1]

    def translated(part: re.Match[str]) -> str:
        whole = part[0]
        flags, escape, negated, inside = part.groups()
        if flags and part.start() or re.search(r"\[:|\\[DSWpP]", inside or ""):
            raise re.error(f"{whole} has no translation", pattern)
        if inside is not None:
            inside = re.sub(r"\\([dws])|[\[&~|]", lambda m: _CLASSES[m[1]] if m[1] else "\\" + m[0], inside)
            return f"[^{inside}{_NOT_A_CHARACTER}]" if negated else f"[{inside}]"
        if whole == ".":
            return f"[^{_NOT_A_CHARACTER}]" if "s" in given else rf"[^\n{_NOT_A_CHARACTER}]"
        if whole == "$" and "m" not in given:
            return r"\Z"
        return _OF_RE2.get(escape, whole)

    translation = _PART.sub(translated, pattern)
    re.compile(translation)
    return translation


def python_template(rewrite: str) -> str:
    r"""Returns what replaces a match, with `\g<1>` in place of RE2's `\1`."""
    return re.sub(r"\\(\d)", r"\\g<\1>", rewrite)
