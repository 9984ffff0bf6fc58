"""A fleet to try the rollups on: journals of simulated agents, and the exact truth beside them."""
