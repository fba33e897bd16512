"""Cron lines as Kubeflow reads them: six fields, the first of them seconds."""


def six_fields(cron: str) -> str:
    """Returns a checked cron line of five fields in the form of Kubeflow.

    It counts days of the week from 0, Sunday, to 6; a 7 is written as the days that it means.

    Example:
        >>> six_fields("30 3 * * 5-7")
        '0 30 3 * * 0,5,6'
    """
    *others, weekdays = cron.split()
    if "7" in weekdays:
        weekdays = ",".join(
            str(day) for day in sorted({day % 7 for item in weekdays.split(",") for day in _days(item)})
        )
    return " ".join(["0", *others, weekdays])


def _days(item: str) -> range:
    """Returns the days of one item of a list: a number or name, a range, a step over either."""
    days, _, step = item.partition("/")
    first, _, last = days.partition("-")
    if first == "*":
        return range(0, 7, int(step))
    start = _day(first)
    end = _day(last) if last else (max(start, 6) if step else start)
    return range(start, end + 1, int(step or 1))


def _day(text: str) -> int:
    names = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
    return names.index(text.lower()) if text.lower() in names else int(text)
