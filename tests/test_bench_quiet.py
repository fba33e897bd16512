"""Figures of README are repeated only on a quiet machine."""

from types import SimpleNamespace

from benchmarks.bench_quiet import disturbance, markdown
from benchmarks.common import Ratio


def _times(user: float, system: float, steal: float) -> SimpleNamespace:
    return SimpleNamespace(user=user, nice=0.0, system=system, idle=0.0, iowait=0.0, irq=0.0, softirq=0.0, steal=steal)


def test_what_the_benchmark_did_not_use_is_foreign():
    # 10 seconds of 2 processors: 9 + 2 were used, 10 by the benchmark; 1 / 20 is the limit, more disturbs.
    found = disturbance(_times(5, 1, 0), _times(14, 3, 0), 10.0, 10.0, 2)
    assert (found.foreign, found.steal, bool(found)) == (0.05, 0.0, False)
    assert disturbance(_times(5, 1, 0), _times(14, 3, 0), 9.9, 10.0, 2)


def test_a_hypervisor_disturbs_though_no_process_does():
    found = disturbance(_times(0, 0, 1), _times(10, 0, 2), 10.0, 10.0, 2)
    assert (found.foreign, found.steal, bool(found)) == (0.0, 0.05, True)


def test_the_table_is_that_of_the_readme():
    lines = [Ratio("whole run, s", 178.8, 20.7), Ratio("rows/s", 5903.2, 56411.1, "rows/s", "higher")]
    assert markdown(lines).splitlines()[2:] == [
        "| whole run, s | 178.8 | 20.7 | 8.6 |",
        "| rows/s | 5,903 | 56,411 | 9.6 |",
    ]
