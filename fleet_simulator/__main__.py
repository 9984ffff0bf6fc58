"""`python -m fleet_simulator`: in a source checkout, with nothing installed."""

from __future__ import annotations

__all__: list[str] = []

import argparse
import sys

from fleet_simulator import command

# Its worker processes read this file, too.
if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m fleet_simulator", description=command.__doc__)
    command.add_arguments(parser)
    sys.exit(command.run(parser.parse_args()))
