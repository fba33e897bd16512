"""Finds and removes the artifacts, files and records that no kept run, model or window needs."""
