"""Reads damaged files until the time is up: `python -m tests.fuzz --minutes 10`.

Every module of `tests/fuzz/targets` is a target. Its function `try_one(seed, folder)` writes a damaged file into an
empty folder, processes it as the program does, returns the outcome in one word, and raises AssertionError if a
guarantee is broken. Other defects are any other exception, a crash of the process, a started subprocess, an attempt of
more than 20 seconds, and memory above 6 GB. To add a target, add a module.
"""

import argparse
import collections
import os
import sys

from tests.fuzz.attempts import attempts, target_names


def main() -> int:
    """Runs all targets in turn and prints the outcomes; returns the number of defects."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="for all targets together (default: 2)")
    parser.add_argument("--files", type=int, default=10**9, help="most attempts per target")
    parser.add_argument("--only", choices=target_names(), action="append", help="a target; may be given several times")
    parser.add_argument("--seed", type=int, default=0, help="the first seed, to repeat an attempt (default: 0)")
    given = parser.parse_args()
    chosen = given.only or target_names()
    defects: list[str] = []
    for target in chosen:
        kinds = collections.Counter[str]()
        for seed, told, is_defect in attempts(target, given.seed, 60 * given.minutes / len(chosen), given.files):
            kinds["DEFECT" if is_defect else told] += 1
            if is_defect:
                defects.append(f"{target} --seed {seed}: {told}")
                print(defects[-1], flush=True)
        ends = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        print(f"{target}: {sum(kinds.values()):,} files: {ends}", flush=True)
    print(f"{len(defects)} defects")
    return min(len(defects), 1)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main())
