"""Benchmarks: stock TFX and Fullpass do the same work on real data, each in a fresh process."""
