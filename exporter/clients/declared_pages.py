"""Metrics pages that a JVM declares itself: the `-javaagent` option of jmx_exporter or Jolokia.

Whoever starts a process chooses its command line, so a declaration is a hint and no permission:
only loopback addresses are asked, only where the kernel shows that the same process listens
(`Puller`), and only so many. No port is ever probed.
"""

from __future__ import annotations

__all__ = ["DeclaredPage", "DeclaredPages", "page_of_options"]

import ipaddress
import logging
import re
from typing import TYPE_CHECKING, NamedTuple

from exporter.config.settings import HIGHEST_PORT, JavaSourceSettings
from exporter.model import Library, OwnerRung
from exporter.processes.facts import process_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from exporter.model import Owner

log = logging.getLogger("brokerwire.sources")

# A pod has one JVM or a few; each page costs a thread.
MOST_PAGES = 16
# How often it is checked that the processes still run.
CHECK_SECONDS = 10.0

_MOST_BYTES = 256 * 1024
_LONGEST_OPTION = 4096
_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_AGENT = re.compile(r"-javaagent:(?:[^=]*/)?([^/=]+\.jar)=(.+)")
_JMX_EXPORTER = re.compile(r"jmx_prometheus_javaagent|jmx[_-]exporter")
_JMX_EXPORTER_OPTIONS = re.compile(r"(?:([\w.-]+|\[[0-9A-Fa-f:.]+\]):)?([0-9]{1,5}):.+")
_JOLOKIA_PORT = "8778"
_CONTEXT = re.compile(r"/[A-Za-z0-9_./-]{0,64}")
# What a server binds to when it listens on every address, the loopback ones included.
_EVERY_ADDRESS = ("", "*", "0.0.0.0", "::", "localhost")  # noqa: S104 - compared, never bound


class Declared(NamedTuple):
    """A page as an option declares it."""

    agent: str
    host: str
    port: int
    path: str


class DeclaredPage(NamedTuple):
    """A page to read, the process that must listen there if one declares it, and why."""

    settings: JavaSourceSettings
    pid: int | None
    found_by: str


def page_of_options(options: Iterable[str]) -> Declared | None:
    """Return the first page on a loopback address that these JVM options declare."""
    for option in options:
        found = _AGENT.fullmatch(option) if len(option) <= _LONGEST_OPTION else None
        if found is None:
            continue
        jar, arguments = found.groups()
        if _JMX_EXPORTER.search(jar):
            declared = _jmx_exporter(arguments)
        elif jar.startswith("jolokia"):
            declared = _jolokia(arguments)
        else:
            continue
        if declared is not None:
            return declared
    return None


def _jmx_exporter(arguments: str) -> Declared | None:
    """Read `[host:]port:config`. Without a host it listens on every address."""
    found = _JMX_EXPORTER_OPTIONS.fullmatch(arguments)
    if found is None:
        return None
    return _declared("jmx_exporter", found[1] or "", found[2], "/metrics")


def _jolokia(arguments: str) -> Declared | None:
    """Read `key=value,...`. A page with TLS or a user needs what only a configuration can hold."""
    given = dict(each.partition("=")[::2] for each in arguments.split(","))
    context = given.get("agentContext", "/jolokia")
    if given.get("protocol", "http") != "http" or "user" in given:
        return None
    if not _CONTEXT.fullmatch(context):
        return None
    host, port = given.get("host", ""), given.get("port", _JOLOKIA_PORT)
    return _declared("jolokia", host, port, f"{context.rstrip('/')}/")


def _declared(agent: str, host: str, port: str, path: str) -> Declared | None:
    host = host.strip("[]")
    if host in _EVERY_ADDRESS:
        host = "127.0.0.1"
    try:
        if not ipaddress.ip_address(host).is_loopback or not 0 < int(port) <= HIGHEST_PORT:
            return None
    except ValueError:
        return None
    return Declared(agent, f"[{host}]" if ":" in host else host, int(port), path)


class DeclaredPages:
    """Follows the JVMs that hold connections to brokers, and the pages that they declare."""

    def __init__(self, clock: Callable[[], float], *, proc: str = "/proc") -> None:
        self._clock = clock
        self._proc = proc
        self._check_at = float("-inf")
        self._latest: Mapping[int, Owner] | None = None
        self._seen: set[str] = set()
        self._names: dict[str, Owner] = {}
        """The process of each page, by the source's name."""

    @property
    def any(self) -> bool:
        """Whether a page is followed."""
        return bool(self._names)

    def gone(self) -> list[str]:
        """Return the names of the pages whose processes have ended; they are followed no longer."""
        now = self._clock()
        if now < self._check_at:
            return []
        self._check_at = now + CHECK_SECONDS
        gone = [name for name, owner in self._names.items() if not self._runs(owner)]
        for name in gone:
            log.info("a declared metrics page is gone", extra={"source": name})
            del self._names[name]
        return gone

    def new(self, owners: Mapping[int, Owner]) -> list[DeclaredPage]:
        """Return the pages of the JVMs among the owners that were not there before."""
        if owners is self._latest:
            return []
        self._latest = owners
        jvms = {
            owner.key: owner
            for owner in owners.values()
            if owner.library is Library.JAVA and owner.rung is OwnerRung.PROC_FD
        }
        found = [self._page(jvms[key]) for key in jvms.keys() - self._seen]
        self._seen = set(jvms)
        return [page for page in found if page is not None]

    def _page(self, owner: Owner) -> DeclaredPage | None:
        if owner.pid is None or owner in self._names.values():
            return None
        place, declared = self._look(owner.pid)
        # Not before now is it certain whose options these were.
        if declared is None or not self._runs(owner):
            return None
        name = f"{declared.agent}:{declared.port}"
        if name in self._names or len(self._names) >= MOST_PAGES:
            log.warning(
                "a declared metrics page is not read: its port is taken, or there are too many",
                extra={"source": name, "client_process": owner.name, "pid": owner.pid},
            )
            return None
        url = f"http://{declared.host}:{declared.port}{declared.path}"
        found_by = f"-javaagent option in the {place} of {owner.name} (pid {owner.pid})"
        log.info(
            "a process declares a metrics page",
            extra={"source": name, "url": url, "found_by": found_by},
        )
        self._names[name] = owner
        settings = JavaSourceSettings(
            name=name, url=url, format="jolokia" if declared.agent == "jolokia" else "prometheus"
        )
        return DeclaredPage(settings, owner.pid, found_by)

    def _look(self, pid: int) -> tuple[str, Declared | None]:
        declared = page_of_options(self._entries(pid, "cmdline"))
        if declared is not None:
            return "command line", declared
        for entry in self._entries(pid, "environ"):
            variable, _, value = entry.partition("=")
            if variable in _OPTION_VARIABLES:
                declared = page_of_options(value.split())
                if declared is not None:
                    return variable, declared
        return "", None

    def _entries(self, pid: int, name: str) -> list[str]:
        """Return the strings of a file of /proc; the last one may be cut short."""
        try:
            with open(f"{self._proc}/{pid}/{name}", "rb") as file:  # noqa: PTH123 - as in facts.py
                return file.read(_MOST_BYTES).decode(errors="replace").split("\0")
        except OSError:
            # The process ended, or it may not be read: then its page has to be configured.
            return []

    def _runs(self, owner: Owner) -> bool:
        return owner.pid is not None and process_key(owner.pid, proc=self._proc) == owner.key
