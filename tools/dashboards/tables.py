"""Tables: the rows of one or several queries as of now, side by side where their labels agree."""

from __future__ import annotations

__all__ = ["Column", "table"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.builders import common, prometheus
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.models.common import TableCellHeight
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tools.dashboards.variables import DATASOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: a label, or the value of a query if that is given.

    `words` replaces values by texts, `link` is a title and an address.
    """

    title: str
    label: str = ""
    query: str = ""
    unit: str = ""
    width: int = 0
    words: Mapping[str, str] | None = None
    link: tuple[str, str] | None = None
    colours: ThresholdsConfig | None = None
    wrap: bool = False


def table(title: str, text: str, *columns: Column, sort: str) -> Table:
    """Return a table, sorted by a column with the greatest on top."""
    asked = [column for column in columns if column.query]
    letters = {column.title: chr(ord("A") + number) for number, column in enumerate(asked)}
    fields = {
        column.title: column.label
        or (f"Value #{letters[column.title]}" if len(asked) > 1 else "Value")
        for column in columns
    }
    panel = (
        Table()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets([_target(column.query, letters[column.title]) for column in asked])
        .cell_height(TableCellHeight.SM)
        .sort_by([common.TableSortByFieldState().display_name(sort).desc(desc=True)])
        .unit("short")
        .no_value("-")
    )
    if len(asked) > 1:
        panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(
        DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": {field: index for index, field in enumerate(fields.values())},
                "renameByName": {field: name for name, field in fields.items()},
            },
        )
    )
    for column in columns:
        if properties := _properties(column):
            panel.override_by_name(column.title, properties)
    return panel


def _properties(column: Column) -> list[DynamicConfigValue]:
    """Say how a column looks, where it is not as all others."""
    told: dict[str, Any] = {}
    if column.unit:
        told["unit"] = column.unit
    if column.width:
        told["custom.width"] = column.width
    if column.words:
        texts = {
            value: {"text": text, "index": n}
            for n, (value, text) in enumerate(column.words.items())
        }
        told["mappings"] = [{"type": "value", "options": texts}]
    if column.link:
        title, url = column.link
        told["links"] = [{"title": title, "url": url}]
    if column.colours:
        told["thresholds"] = column.colours.build()
        told["custom.cellOptions"] = {"type": "color-text"}
    if column.wrap:
        told["custom.cellOptions"] = {"type": "auto", "wrapText": True}
    return [DynamicConfigValue(id_val=name, value=value) for name, value in told.items()]


def _target(expression: str, letter: str) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .datasource(DATASOURCE)
        .expr(expression)
        .instant()
        .format(PromQueryFormat.TABLE)
        .ref_id(letter)
    )
