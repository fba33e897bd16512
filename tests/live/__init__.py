"""Checks against real servers and a real browser: check-flink, check-s3, check-serving, check-report.

They need more than Python (Java, a server's program, Chromium); what is missing is named, and the check fails. None is
part of `make test`, which finds no file here: none is named test_*.
"""
