"""Functions that damage the bytes of a file at random, reproducibly by seed."""

import random
from collections.abc import Callable

Way = Callable[[bytearray, random.Random], bytes]


def flip(data: bytearray, rng: random.Random) -> bytes:
    """Flips up to 20 bits."""
    for _ in range(rng.randint(1, 20)):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def flip_one(data: bytearray, rng: random.Random) -> bytes:
    """Flips one bit, so that code after the first check runs too."""
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def cut_file(data: bytearray, rng: random.Random) -> bytes:
    """Cuts the file and keeps its beginning."""
    return bytes(data[: rng.randrange(len(data) + 1)])


def cut_lines(data: bytearray, rng: random.Random) -> bytes:
    """Truncates up to 10 lines."""
    lines = bytes(data).split(b"\n")
    for _ in range(rng.randint(1, 10)):
        i = rng.randrange(len(lines))
        lines[i] = lines[i][: rng.randrange(len(lines[i]) + 1)]
    return b"\n".join(lines)


def insert(*what: bytes) -> Way:
    """Returns a function that inserts elements of `what` at up to 15 places."""

    def insert_some(data: bytearray, rng: random.Random) -> bytes:
        for _ in range(rng.randint(1, 15)):
            at = rng.randrange(len(data) + 1)
            data[at:at] = rng.choice(what)
        return bytes(data)

    return insert_some


def remove(data: bytearray, rng: random.Random) -> bytes:
    """Removes up to 15 ranges of up to 30 bytes."""
    for _ in range(rng.randint(1, 15)):
        if data:
            at = rng.randrange(len(data))
            del data[at : at + rng.randint(1, 30)]
    return bytes(data)


def overwrite(data: bytearray, rng: random.Random) -> bytes:
    """Overwrites up to four places with extreme numbers of one to eight bytes."""
    for _ in range(rng.randint(1, 4)):
        extreme = rng.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * rng.choice((1, 2, 4, 8))
        at = rng.randrange(len(data) + 1)
        data[at : at + len(extreme)] = extreme
    return bytes(data)


def swap(data: bytearray, rng: random.Random) -> bytes:
    """Copies a byte range to another place."""
    begin, size = rng.randrange(len(data) + 1), rng.randint(1, 200)
    at = rng.randrange(len(data) + 1)
    data[at:at] = data[begin : begin + size]
    return bytes(data)


OF_BINARY: tuple[Way, ...] = (flip, flip, cut_file, remove, overwrite, overwrite, swap)


def damaged(data: bytes, rng: random.Random, ways: tuple[Way, ...] = OF_BINARY, *, least: int = 1) -> bytes:
    """Returns the bytes damaged by `least` to four of the functions in `ways`."""
    for _ in range(rng.randint(least, 4)):
        data = rng.choice(ways)(bytearray(data), rng)
    return data
