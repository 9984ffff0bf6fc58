"""The report: what the tables say, for people in two minutes and for Prometheus in one file."""
