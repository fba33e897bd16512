"""Checks against real servers on loopback, each a make target of its own: check-flink, check-s3, check-serving.

They need more than Python (Java, a server's program); what is missing is named, and the check fails. None is part of
`make test`, which finds no file here: none is named test_*.
"""
