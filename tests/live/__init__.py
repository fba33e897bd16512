"""Checks against real servers and a real browser: check-flink, check-spark, check-s3, check-serving, check-report.

They need more than Python (Java, a server program, Chromium). A check fails with the name of a missing requirement.
None is part of `make test`, because pytest only collects files named test_*.
"""

import pytest

pytest.register_assert_rewrite("tests.live.taxi")  # its tests are imported, and pytest only explains collected files
