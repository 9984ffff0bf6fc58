"""The variables on top of a dashboard: each is a label, narrowed down by those before it."""

from __future__ import annotations

__all__ = ["DATASOURCE", "RUNBOOKS", "data_source", "label_variables", "runbooks"]

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from exporter.alerts.settings import LinkSettings
from tools.dashboards.queries import series

if TYPE_CHECKING:
    from collections.abc import Iterator

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
RUNBOOKS = "runbooks"

# The metric that has the label, so that the list shows what there is to see.
_SOURCES = {
    "cluster": ("Cluster", "brokerwire_build_info"),
    "namespace": ("Namespace", "brokerwire_build_info"),
    "job": ("Job", "brokerwire_build_info"),
    "pod": ("Pod", "brokerwire_build_info"),
    "instance": ("Agent", "brokerwire_build_info"),
    "process": ("Process", "kafka_client_connections"),
    "client_id": ("Client", "kafka_client_connections"),
    "broker": ("Broker", "kafka_client_connections"),
}
# On the fleet's dashboard, where no agent is asked.
_SOURCES_OF_FLEET = {
    "cluster": ("Cluster", "kafka_client_fleet_service_wasted_connections"),
    "namespace": ("Namespace", "kafka_client_fleet_service_wasted_connections"),
    "kafka_cluster": ("Kafka cluster", "kafka_client_fleet_broker_peak_connections"),
}
_ALL = model.VariableOption(selected=True, text="All", value="$__all")


def data_source() -> build.DatasourceVariable:
    """Return the choice of a Prometheus."""
    return build.DatasourceVariable("datasource").label("Data source").type("prometheus")


def label_variables(
    labels: tuple[str, ...], *, of_fleet: bool = False
) -> Iterator[build.QueryVariable]:
    """Yield a variable for each label.

    `All` is `.*` and not a list of values: it matches also what has no such label.
    """
    sources = _SOURCES_OF_FLEET if of_fleet else _SOURCES
    for number, label in enumerate(labels):
        title, metric = sources[label]
        # A Kafka cluster is in no namespace.
        above = () if label == "kafka_cluster" else labels[:number]
        yield (
            build.QueryVariable(label)
            .label(title)
            .datasource(DATASOURCE)
            .query(
                {
                    "qryType": 1,
                    "query": f"label_values({series(metric, above)}, {label})",
                    "refId": "PrometheusVariableQueryEditor-VariableQuery",
                }
            )
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(model.VariableSort.ALPHABETICAL_CASE_INSENSITIVE_ASC)
            .multi(multi=True)
            .include_all(include_all=True)
            .all_value(".*")
            .current(_ALL)
        )


def runbooks() -> build.TextBoxVariable:
    """Return where the runbooks are: not shown, to be set once (docs/dashboards.md)."""
    place = LinkSettings().runbooks.partition("{alert}")[0]
    return (
        build.TextBoxVariable(RUNBOOKS)
        .label("Runbooks")
        .description("Address of the folder of runbooks, with a slash at its end.")
        .default_value(place)
        .current(model.VariableOption(text=place, value=place))
        .hide(model.VariableHide.HIDE_VARIABLE)
    )
