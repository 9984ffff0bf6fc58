"""The configuration: every setting with its default, and the reader of the YAML file."""
