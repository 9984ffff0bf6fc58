"""`python -m tests.lab.fetch`: fetch and compile everything the Kafka lab runs."""

from __future__ import annotations

import sys

from tests.lab.artifacts import cache_folder, fetch_artifacts
from tests.lab.errors import LabError

__all__ = ["main"]


def main() -> int:
    """Fill the cache; done twice, the second time only looks."""
    try:
        fetch_artifacts(say=print)
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"the lab is complete in {cache_folder() / 'lab'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
