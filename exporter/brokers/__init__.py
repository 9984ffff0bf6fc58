"""Brokers: which id has which address, learned, configured or asked for once."""
