"""The web config file in use: reloaded when it changes, replaced only by a valid one."""

from __future__ import annotations

__all__ = ["Security"]

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.errors import ConfigError, ConfigProblem
from exporter.http.tls import Material, TlsError, server_context
from exporter.http.users import Users
from exporter.http.web_config import TlsServerConfig, WebConfig

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from concurrent.futures import Executor

    from exporter.metrics.families import Reading

_LOG = logging.getLogger(__name__)

_CHECK_SECONDS = 1.0
_LARGEST_FILE = 1 << 20
_LABELS = ("web",)

Signature = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class _InForce:
    config: WebConfig
    context: ssl.SSLContext | None
    certificate_end: float | None
    users: Users


class Security:
    """TLS, users and rate limit of the server.

    The file and those that it names are looked at again at most once a second, when somebody
    comes. An invalid version is counted and logged once; the last valid one stays in use.
    """

    def __init__(
        self,
        path: str | None,
        executor: Executor,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._executor = executor
        self._clock = clock
        self._wall_clock = wall_clock
        self._files: tuple[Path, ...] = () if self._path is None else (self._path,)
        self._signature: Signature = self._look()
        self._looked_at = clock()
        self._in_force = self._load()
        self._good = True
        self._good_since = wall_clock()
        self.failures = 0
        self._limiter = _Limiter(self._in_force.config, clock)

    @property
    def config(self) -> WebConfig:
        """The last good version."""
        self._refresh()
        return self._in_force.config

    @property
    def users(self) -> Users:
        """Who may come in; false where everybody may."""
        self._refresh()
        return self._in_force.users

    def context(self) -> ssl.SSLContext | None:
        """Return the context for the next connection; None for plain HTTP."""
        self._refresh()
        return self._in_force.context

    def welcomes(self, certificate: dict[str, Any] | None) -> bool:
        """Return whether a client may speak: one name of its certificate must be listed."""
        tls = self._in_force.config.tls_server_config
        allowed = tls.client_allowed_sans if tls is not None else ()
        if not allowed or not certificate:
            # Without a certificate at all OpenSSL has let in only whom the file lets in.
            return True
        names = {str(value) for _, value in certificate.get("subjectAltName", ())}
        return not names.isdisjoint(allowed)

    def within_rate(self) -> bool:
        """Take one request from what `rate_limit` allows."""
        return self._limiter.take()

    def readings(self) -> list[Reading]:
        """Return how the file does, for the metrics."""
        if self._path is None:
            return []
        end = self._in_force.certificate_end
        return [
            ("brokerwire_config_last_reload_successful", _LABELS, self._good),
            ("brokerwire_config_last_reload_success_timestamp_seconds", _LABELS, self._good_since),
            ("brokerwire_config_reload_failures_total", _LABELS, self.failures),
            *([("brokerwire_certificate_expiry_timestamp_seconds", (), end)] if end else []),
        ]

    def _refresh(self) -> None:
        now = self._clock()
        if self._path is None or now - self._looked_at < _CHECK_SECONDS:
            return
        self._looked_at = now
        # The signature is taken before the files are read: a change in between is seen next time.
        signature = self._look()
        if signature == self._signature:
            return
        self._signature = signature
        try:
            loaded = self._load()
            self._refuse_worse(loaded)
        except ConfigError as error:
            self._good = False
            self.failures += 1
            _LOG.error("invalid web config file, keeping the last valid one: %s", error)
            return
        if loaded.config != self._in_force.config:
            self._limiter = _Limiter(loaded.config, self._clock)
        self._in_force = loaded
        self._good = True
        self._good_since = self._wall_clock()
        _LOG.info("web config file reloaded")

    def _refuse_worse(self, loaded: _InForce) -> None:
        """Refuse what opens the server: a file that is being written is empty for a moment."""
        last = self._in_force
        if last.context is not None and loaded.context is None:
            raise self._error("", "has no tls_server_config any more: restart to switch TLS off")
        if last.users and not loaded.users:
            raise self._error("", "has no basic_auth_users any more: restart to let everybody in")
        end, last_end = loaded.certificate_end, last.certificate_end
        if end is not None and last_end is not None and end <= self._wall_clock() < last_end:
            raise self._error("tls_server_config", "the certificate has ended already")

    def _look(self) -> Signature:
        return tuple(map(_signature, self._files))

    def _load(self) -> _InForce:
        if self._path is None:
            return _InForce(WebConfig(), None, None, Users({}, self._executor))
        from exporter.http.web_config_reader import read_web_config

        config = read_web_config(self._read(self._path), str(self._path))
        users = Users(config.basic_auth_users, self._executor)
        tls = config.tls_server_config
        if tls is None:
            self._watch(())
            return _InForce(config, None, None, users)
        self._watch((tls.cert_file, tls.key_file, tls.client_ca_file))
        try:
            context, end = server_context(tls, self._material(tls))
        except TlsError as error:
            raise self._error("tls_server_config", str(error)) from error
        return _InForce(config, context, end, users)

    def _watch(self, names: tuple[str | None, ...]) -> None:
        assert self._path is not None  # noqa: S101  (asked only by _load)
        files = (self._path, *(self._path.parent / name for name in names if name is not None))
        if files != self._files:
            self._files = files
            self._signature = self._look()

    def _material(self, tls: TlsServerConfig) -> Material:
        return Material(
            certificate=self._text(tls.cert, tls.cert_file) or "",
            key=self._text(tls.key, tls.key_file) or "",
            client_ca=self._text(tls.client_ca, tls.client_ca_file),
            certificate_name=tls.cert_file or "cert",
            key_name=tls.key_file or "key",
            client_ca_name=tls.client_ca_file or "client_ca",
        )

    def _text(self, inline: str | None, name: str | None) -> str | None:
        if name is None or self._path is None:
            return inline
        return self._read(self._path.parent / name)

    def _read(self, path: Path) -> str:
        try:
            # Without O_NONBLOCK the open of a FIFO would wait for ever.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(_LARGEST_FILE + 1) or b""
            text = data.decode()
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else "is not text"
            raise self._error("", f"cannot read {path}: {words}") from error
        if len(data) > _LARGEST_FILE:
            raise self._error("", f"{path} has more than 1 MiB")
        return text

    def _error(self, key: str, message: str) -> ConfigError:
        return ConfigError((ConfigProblem(str(self._path), None, key, message),))


def _signature(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class _Limiter:
    """A token bucket, as the toolkit's."""

    def __init__(self, config: WebConfig, clock: Callable[[], float]) -> None:
        limit = config.rate_limit
        self._interval = (limit.interval or 0.0) if limit is not None else 0.0
        self._burst = float(limit.burst if limit is not None else 0)
        self._tokens = self._burst
        self._clock = clock
        self._at = clock()

    def take(self) -> bool:
        if not self._interval:
            return True
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) / self._interval)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
