"""The statistics' socket has one path and lets clients in, wherever it is named."""

from __future__ import annotations

import re
from pathlib import Path

from exporter.config.files import read_settings

ROOT = Path(__file__).parents[2]
PATH = "/run/brokerwire/statistics.sock"
PLACES = ("README.md", "clients", "docs", "examples", "exporter", "helm")
TEXTS = {".md", ".py", ".go", ".js", ".cs", ".yaml", ".tpl", ".json", ".txt"}
NAMED = re.compile(r"/run/brokerwire/[\w.-]+\.sock\b")
# What people copy from; each of them has to name it.
NAMERS = (
    "clients/python/brokerwire_client/__init__.py",
    "docs/client-metrics.md",
    "examples/brokerwire.yaml",
    "examples/systemd/brokerwire.yaml",
    "examples/statistics/dotnet/Brokerwire.cs",
    "examples/statistics/go/brokerwire.go",
    "examples/statistics/node/brokerwire.js",
    "examples/statistics/python/producer.py",
    "helm/brokerwire/templates/_sidecar.tpl",
)


def files():
    for place in PLACES:
        top = ROOT / place
        for path in (top,) if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and path.suffix in TEXTS:
                yield path


def test_nobody_names_another_path():
    named = {
        (found, str(path.relative_to(ROOT)))
        for path in files()
        for found in NAMED.findall(path.read_text("utf-8"))
    }
    assert {found for found, _ in named} == {PATH}, named
    assert set(NAMERS) <= {path for _, path in named}


def test_unit_and_its_configuration_let_other_uids_send():
    """The unit's agent has a uid that no client has."""
    unit = (ROOT / "examples" / "systemd" / "brokerwire.service").read_text("utf-8").splitlines()
    pushed = read_settings(
        str(ROOT / "examples" / "systemd" / "brokerwire.yaml")
    ).sources.librdkafka
    assert "DynamicUser=yes" in unit
    assert f"RuntimeDirectory={Path(PATH).parent.name}" in unit
    assert (pushed.unix_socket, pushed.unix_socket_mode) == (PATH, 0o666)
