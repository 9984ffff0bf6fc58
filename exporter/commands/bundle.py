"""`brokerwire bundle`: everything that an agent says, in one file for a support ticket."""

from __future__ import annotations

__all__ = ["add_parser", "document_from_file"]

import json
import os
from typing import TYPE_CHECKING, Any

import exporter
from exporter.commands.answers import Document, document_from_answer, json_from_answer
from exporter.commands.output import talk
from exporter.errors import SourceError, UsageError
from exporter.text import printable

if TYPE_CHECKING:
    import argparse

    from exporter.commands.arguments import Commands

BUNDLE_VERSION = 1
LARGEST_FILE = 64 << 20
_CONNECTIONS = "/api/v1/connections"
_DOCUMENTS = ("/api/v1/history", "/api/v1/events")
_DEFAULT_AGENT = "http://127.0.0.1:10920"
_DEFAULT_FILE = "brokerwire-bundle.json"
_LONGEST_PATH = 4096

EPILOG = f"""\
examples:
  brokerwire bundle                        writes {_DEFAULT_FILE}
  brokerwire bundle --config brokerwire.yaml --output ticket-4711.json
  brokerwire inspect --from {_DEFAULT_FILE}  reads it, anywhere

It holds connections with their evidence, findings, sources, the last hours, the
metrics, and with --config the effective settings, in which passwords are named
by their files and never written. It does hold names of processes and clients,
and addresses. A file that exists is left alone."""


def add_parser(commands: Commands) -> None:
    """Add `bundle`."""
    parser = commands.add_parser(
        "bundle",
        help="save what an agent sees, for a support ticket",
        description="Save what a running agent sees in one JSON file.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--agent",
        metavar="URL",
        default=_DEFAULT_AGENT,
        help=f"the agent (default {_DEFAULT_AGENT})",
    )
    parser.add_argument("--config", metavar="FILE", help="the agent's configuration file (YAML)")
    parser.add_argument("--output", metavar="FILE", default=_DEFAULT_FILE, help="what to write")
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    bundle = _bundle(options)
    text = json.dumps(bundle, indent=1) + "\n"
    try:
        # Only for its owner: whoever sends it on decides who sees it.
        descriptor = os.open(options.output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"{options.output!r} exists: remove it, or choose another --output"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write {options.output!r}: {error.strerror}") from error
    talk(f"wrote {printable(options.output, _LONGEST_PATH)} ({len(text) // 1024} KiB)")
    return 0


def _bundle(options: argparse.Namespace) -> Document:
    from exporter.commands.arguments import settings_of
    from exporter.config.text import yaml_from_settings

    base = options.agent.rstrip("/").removesuffix(_CONNECTIONS)
    body, where = _fetched(base + _CONNECTIONS)
    documents: dict[str, Any] = {_CONNECTIONS: document_from_answer(body, where)}
    for path in _DOCUMENTS:
        try:
            documents[path] = json_from_answer(*_fetched(base + path))
        except SourceError as error:
            # An older agent has no such path: the rest is of use without it.
            documents[path] = {"error": str(error)}
    settings = None if options.config is None else settings_of(options)
    return {
        "bundle": BUNDLE_VERSION,
        "version": exporter.__version__,
        "from": where,
        "documents": documents,
        "metrics": _metrics(base),
        "configuration": None if settings is None else yaml_from_settings(settings),
    }


def _metrics(base: str) -> str | None:
    try:
        return _fetched(f"{base}/metrics")[0].decode(errors="replace")
    except SourceError:
        return None


def _fetched(url: str) -> tuple[bytes, str]:
    from exporter.commands.looking import ANSWER_SECONDS
    from exporter.http.fetch import fetch

    response = fetch(url, timeout_seconds=ANSWER_SECONDS, max_bytes=LARGEST_FILE)
    return response.body, response.where


def document_from_file(path: str) -> Document:
    """Return the connections document of a bundle, or of a saved answer of the API.

    Raises:
        UsageError: the file cannot be read, or is too large.
        SourceDecodeError: it is neither.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123  (a Path would say no more)
            body = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"--from: cannot read {path!r}: {error.strerror}") from error
    if len(body) > LARGEST_FILE:
        raise UsageError(f"--from: {path!r} has more than {LARGEST_FILE >> 20} MiB")
    where = printable(path, _LONGEST_PATH)
    document = json_from_answer(body, where)
    documents = document.get("documents")
    if isinstance(documents, dict):
        # Whoever made the file may be anybody: it is checked as an agent's answer is.
        body = json.dumps(documents.get(_CONNECTIONS)).encode()
    return document_from_answer(body, where)
