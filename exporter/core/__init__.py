"""Pure decisions: readings in, classes and findings out. Nothing in here does I/O."""
