"""Whole numbers by series, for metrics and journal. Pure."""
