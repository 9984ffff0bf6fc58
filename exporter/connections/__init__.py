"""Connections over time: lifecycle, role, class, what is expected and what is wasted. Pure."""
