"""The version, which `exporter/__init__.py` states and other files repeat.

python tools/version.py           print it; exit code 1 where a file has another one
python tools/version.py 0.2.0     write it everywhere, then run `make chart`
"""

from __future__ import annotations

__all__ = ["SOURCE", "main", "stated"]

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
SOURCE = "exporter/__init__.py"
_MODULE = r'(?m)^__version__ = "([^"]+)"'
_IMAGE = r"registry\.example/brokerwire(?:-rollups)?:([0-9][\w.+-]*)"
_DEPENDENCY = r"- name: brokerwire\n    version: (\S+)"
_PLACES = {
    SOURCE: _MODULE,
    "clients/python/brokerwire_client/__init__.py": _MODULE,
    "helm/brokerwire/Chart.yaml": r'(?m)^(?:version|appVersion): "?([^"\s]+)',
    "examples/helm/orders/Chart.yaml": _DEPENDENCY,
    "tests/kubernetes/client/Chart.yaml": _DEPENDENCY,
    "examples/kubernetes/kustomization.yaml": r"newTag: ([^}\s]+)",
    "examples/kubernetes/sidecar.yaml": _IMAGE,
    "docs/install.md": rf"{_IMAGE}|newTag: ([^}}\s]+)",
    "helm/brokerwire/tests/notes_test.yaml": _IMAGE,
}
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


def stated() -> Iterator[tuple[str, str]]:
    """Return each place that names a version, and the version."""
    for path, pattern in _PLACES.items():
        found = list(re.finditer(pattern, (ROOT / path).read_text("utf-8")))
        if not found:
            yield path, "none"
        for each in found:
            yield path, each[each.lastindex or 0]


def _write(version: str) -> None:
    for path, pattern in _PLACES.items():
        text = (ROOT / path).read_text("utf-8")
        for each in reversed(list(re.finditer(pattern, text))):
            start, end = each.span(each.lastindex or 0)
            text = text[:start] + version + text[end:]
        (ROOT / path).write_text(text, "utf-8")


def main(arguments: list[str]) -> int:
    """Print the version, or write a new one."""
    if arguments:
        if not _VERSION.fullmatch(arguments[0]):
            sys.exit(f"must be a version such as 0.2.0 or 0.2.0rc1, not {arguments[0]!r}")
        _write(arguments[0])
    found = list(stated())
    version = found[0][1]
    for path, other in found:
        if other != version:
            print(f"{path}: {other}, but {SOURCE} has {version}", file=sys.stderr)
    print(version)
    return 0 if all(other == version for _, other in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
