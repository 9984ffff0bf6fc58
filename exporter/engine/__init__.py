"""One reading after the other: owns the state of the core. Pure."""
