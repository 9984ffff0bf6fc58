"""YAML to `WebConfig`: read whole, checked whole, every mistake with its line.

Imported only where there is such a file. No message repeats a secret.
"""

from __future__ import annotations

__all__ = ["read_web_config"]

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from exporter.config.nodes import Problems, compose
from exporter.config.reader import read_section
from exporter.http.web_config import WebConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

# One more costs twice the time: 16 takes some seconds for each new password.
_CHEAPEST_COST, _DEAREST_COST = 4, 16
_BCRYPT = re.compile(r"\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}")


def read_web_config(text: str, file: str) -> WebConfig:
    """Return what a web config file says.

    Raises:
        ConfigError: with every mistake, each with its line.
    """
    problems = Problems(file)
    root = compose(text, problems)
    problems.raise_if_any()
    if root is None:
        return WebConfig()
    hidden = dict(_hide(root))
    _check_users(hidden, problems)
    config = read_section(WebConfig, root, problems)
    problems.raise_if_any()
    if config is None:
        raise AssertionError("a section was refused and no reason given")
    return _shown(config, {path: value for path, (value, _) in hidden.items()})


# PEM has many lines, and what is secret must not be quoted in a message: both are taken out of
# the nodes before the reader sees them, and put back afterwards.
_PEM = ("cert", "key", "client_ca")
_STRING = "tag:yaml.org,2002:str"


def _hide(root: yaml.Node) -> Iterator[tuple[str, tuple[str, int]]]:
    for section, key, node in _entries(root):
        if isinstance(node, yaml.ScalarNode) and (
            (section == "tls_server_config" and key in _PEM) or section == "basic_auth_users"
        ):
            if node.tag.endswith(":null"):
                continue
            yield f"{section}.{key}", (node.value, node.start_mark.line + 1)
            node.value, node.tag = "hidden", _STRING


def _entries(root: yaml.Node) -> Iterator[tuple[str, str, yaml.Node]]:
    for name, section in root.value if isinstance(root, yaml.MappingNode) else ():
        for key, node in section.value if isinstance(section, yaml.MappingNode) else ():
            yield str(name.value), str(key.value), node


def _check_users(hidden: dict[str, tuple[str, int]], problems: Problems) -> None:
    for path, (value, line) in hidden.items():
        if not path.startswith("basic_auth_users."):
            continue
        match = _BCRYPT.fullmatch(value)
        if match is None:
            problems.add(line, path, "must be a bcrypt hash ($2y$10$...), as htpasswd -B makes it")
        elif not _CHEAPEST_COST <= int(match[1]) <= _DEAREST_COST:
            problems.add(
                line,
                path,
                f"must have a cost from {_CHEAPEST_COST} to {_DEAREST_COST}; 10 is usual",
            )


def _shown(config: WebConfig, hidden: dict[str, str]) -> WebConfig:
    users = {
        path.removeprefix("basic_auth_users."): value
        for path, value in hidden.items()
        if path.startswith("basic_auth_users.")
    }
    tls = config.tls_server_config
    if tls is not None:
        pem = {
            name: hidden[path] for name in _PEM if (path := f"tls_server_config.{name}") in hidden
        }
        tls = replace(tls, **pem)  # type: ignore[arg-type]
    return replace(config, tls_server_config=tls, basic_auth_users=users)
