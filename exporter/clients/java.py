"""The metrics page of a Java client: Prometheus text in any dialect, or Jolokia."""

from __future__ import annotations

__all__ = ["JavaSource", "clients_from_prometheus"]

from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from exporter.clients.java_readings import CIPHERS, ClientFigures, ClientRows, NodeFigure, whole
from exporter.clients.jolokia import CONTENT_TYPE, bulk_read, clients_from_jolokia
from exporter.clients.one_at_a_time import PARSING
from exporter.clients.prometheus_dialects import DIALECTS, MEANINGS, PREFIX, Dialect, Meaning
from exporter.clients.prometheus_text import Sample, wanted_samples
from exporter.errors import SourceDecodeError
from exporter.http.fetch import Response, fetch
from exporter.model import SourceReading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exporter.config.credentials import Credentials
    from exporter.config.settings import JavaSourceSettings
    from exporter.model import ClientReading

# OpenMetrics is not asked for: the plain text is what every server has, and names differ less.
PROMETHEUS_HEADERS = {"Accept": "text/plain;version=0.0.4;q=1,*/*;q=0.1"}
# So often the whole page is read although asking by name works: another spelling may have come.
WHOLE_PAGE_EVERY = 60


class Fetch(Protocol):
    """What a JavaSource needs of `fetch`: a test hands in its own."""

    def __call__(
        self,
        url: str,
        *,
        timeout_seconds: float,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        credentials: Credentials = ...,
    ) -> Response: ...


def clients_from_prometheus(page: str, where: str = "the page") -> tuple[ClientReading, ...]:
    """Return the clients that a Prometheus or OpenMetrics page reports, in any dialect.

    Rows that are absent, or hold what no counter can be, are None. A page without Kafka clients
    is an empty answer.

    Raises:
        SourceDecodeError: a line about a client is malformed or cut off.
    """
    return _read_page(page, where)[0]


def _read_page(page: str, where: str) -> tuple[tuple[ClientReading, ...], frozenset[str]]:
    """Return the clients, and the names of the dialects that were met."""
    rows = ClientRows(where)
    dialects: set[str] = set()
    for sample in wanted_samples(page, PREFIX, MEANINGS, where):
        meaning = next(_fitting(sample), None)
        if meaning is not None:
            _take_sample(rows, sample, meaning)
            # The rows of nodes have a name of their own in each dialect, those of clients not.
            if isinstance(meaning.figure, NodeFigure):
                dialects.add(meaning.dialect.name)
    return rows.readings(), frozenset(dialects)


def _fitting(sample: Sample) -> Iterator[Meaning]:
    for meaning in MEANINGS[sample.name]:
        dialect = meaning.dialect
        if _label(sample, dialect.client_labels) is None:
            continue
        has_node = _label(sample, dialect.node_labels) is not None
        if has_node == isinstance(meaning.figure, NodeFigure):
            yield meaning


def _label(sample: Sample, names: tuple[str, ...]) -> str | None:
    for name in names:
        if name in sample.labels:
            return sample.labels[name]
    return None


def _take_sample(rows: ClientRows, sample: Sample, meaning: Meaning) -> None:
    dialect, labels = meaning.dialect, sample.labels
    if meaning.figure == CIPHERS and not {"protocol", "cipher"} <= labels.keys():
        return
    client_id = _label(sample, dialect.client_labels) or ""
    instance = labels.get(dialect.instance_label or "", "")
    key = (meaning.kind, client_id, instance)
    if dialect.version_label is not None and (not dialect.version or meaning.figure is None):
        rows.version(key, labels.get(dialect.version_label, ""))
    if isinstance(meaning.figure, NodeFigure):
        node_id = _label(sample, dialect.node_labels) or ""
        rows.node(key, node_id, meaning.figure, whole(sample.value))
    elif isinstance(meaning.figure, ClientFigures):
        rows.client(key, meaning.figure, whole(sample.value))
    elif meaning.figure == CIPHERS:
        rows.cipher(key, labels["protocol"], labels["cipher"], whole(sample.value))


class JavaSource:
    """Reads one page again and again, and learns how to ask for less of it.

    A whole page costs the client 25 to 30 ms and 125 kB, the wanted names under 2 kB: so the
    first page shows the dialect, and from then on its names are asked for. If that finds nothing
    where the whole page finds clients, the server does not understand and is not asked again.
    Not for several threads at once.
    """

    kind = "java"

    def __init__(self, settings: JavaSourceSettings, get: Fetch = fetch) -> None:
        self._settings = settings
        self._get = get
        self._is_jolokia = settings.format == "jolokia"
        self._query = ""
        self._asked_in_vain = False
        self._reads = 0

    @property
    def name(self) -> str:
        """The source's name in the configuration."""
        return self._settings.name

    def read(self) -> SourceReading:
        """Read the page once.

        Raises:
            SourceUnavailableError: it is not to be had.
            SourceDecodeError: it is no metrics page.
        """
        if self._is_jolokia:
            return self._read_jolokia()
        self._reads += 1
        query = self._query
        if self._reads % WHOLE_PAGE_EVERY == 0:
            query = ""
            self._asked_in_vain = False
        response = self._fetch(_with_query(self._settings.url, query), PROMETHEUS_HEADERS)
        if self._settings.format == "auto" and response.body.lstrip()[:1] in (b"{", b"["):
            self._is_jolokia = True
            return self._read_jolokia()
        return self._read_prometheus(response, by_name=bool(query))

    def _read_prometheus(self, response: Response, *, by_name: bool) -> SourceReading:
        if response.content_type == "text/html":
            raise SourceDecodeError(
                f"{response.where} answered with HTML; give the URL of the metrics themselves"
            )
        with PARSING:
            clients, dialects = _read_page(response.text(), response.where)
        if by_name and not clients:
            # The clients are gone, or asking by name does not work here: the next, whole page
            # tells which.
            self._query = ""
            self._asked_in_vain = True
        elif not by_name and not clients:
            self._asked_in_vain = False
        elif not by_name and not self._asked_in_vain:
            self._query = _query_for(dialects)
        return self._reading(response, clients)

    def _read_jolokia(self) -> SourceReading:
        response = self._fetch(self._settings.url, {"Content-Type": CONTENT_TYPE}, bulk_read())
        with PARSING:
            clients = clients_from_jolokia(response.body, response.where)
        return self._reading(response, clients)

    def _fetch(self, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Response:
        settings = self._settings
        return self._get(
            url,
            timeout_seconds=settings.timeout,
            max_bytes=settings.max_bytes,
            headers=headers,
            body=body,
            credentials=settings,
        )

    def _reading(self, response: Response, clients: tuple[ClientReading, ...]) -> SourceReading:
        return SourceReading(
            source=self.name,
            begun_at=response.begun_at,
            ended_at=response.ended_at,
            clients=clients,
        )


def _query_for(dialects: frozenset[str]) -> str:
    """Return the query that asks for the names of these dialects, of every kind of client."""
    met = [dialect for dialect in DIALECTS if dialect.name in dialects]
    parameters = {dialect.ask_by_name for dialect in met}
    if len(parameters) != 1:
        return ""
    parameter = next(iter(parameters))
    names = sorted(name for name, meanings in MEANINGS.items() if _one_of(meanings, met))
    if parameter is None:
        return ""
    if parameter.endswith("[]"):
        return "&".join(f"{quote(parameter)}={name}" for name in names)
    return f"{parameter}={','.join(names)}"


def _one_of(meanings: tuple[Meaning, ...], dialects: list[Dialect]) -> bool:
    return any(meaning.dialect in dialects for meaning in meanings)


def _with_query(url: str, query: str) -> str:
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{query}"
