"""Benchmarks: each is run by hand, none is part of the tests."""
