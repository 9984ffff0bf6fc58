"""The journal's fields by what they are, read from the one description of a record."""

from __future__ import annotations

__all__ = [
    "BUCKETS",
    "COUNTERS",
    "DIMENSIONS",
    "GREATEST_COUNT",
    "GREATEST_STATE",
    "INTERVALS",
    "KINDS",
    "LIFETIME_BOUNDS_MS",
    "LIFETIME_COLUMNS",
    "MINUTES",
    "NULLABLE",
    "REQUIRED",
    "SCHEMA_VERSION",
    "STATES",
    "enumerations",
    "record_type",
    "silver_type",
]

from typing import TYPE_CHECKING, Any, Final

from journal_schema import definitions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_DEFINITIONS: Final = definitions()

KINDS: Final = ("agent", "connections", "finding")
SCHEMA_VERSION: Final[int] = 1

# Beyond this a JSON number is no longer exact in half of the world's parsers; as milliseconds it is
# 285,000 years, so it is a mistake.
GREATEST_COUNT: Final = 2**53
# A state shares 64 bits with its `seq`: see transforms/lattice.py.
GREATEST_STATE: Final = 2**32 - 2


def _fields() -> dict[str, dict[str, Any]]:
    """Return every field of any kind; those of the same name have the same type."""
    fields: dict[str, dict[str, Any]] = {}
    for definition in ("envelope", *KINDS):
        for name, field in _DEFINITIONS[definition]["properties"].items():
            if name != "kind" or definition == "envelope":
                fields.setdefault(name, field)
    return fields


_FIELDS: Final = _fields()


def _named(what: str) -> tuple[str, ...]:
    return tuple(name for name, field in _FIELDS.items() if field.get("x-is") == what)


BUCKETS: Final = "lifetime_buckets"
LIFETIME_BOUNDS_MS: Final[tuple[int, ...]] = tuple(_FIELDS[BUCKETS]["x-bounds-ms"])
LIFETIME_COLUMNS: Final = tuple(
    f"lifetime_bucket_{number}" for number in range(len(LIFETIME_BOUNDS_MS) + 1)
)
"""Silver's columns, one for each bucket: an array has no greatest by element."""

DIMENSIONS: Final = _named("dimension")
COUNTERS: Final = (*(name for name in _named("counter") if name != BUCKETS), *LIFETIME_COLUMNS)
NULLABLE: Final = tuple(
    name for name in COUNTERS if "null" in _FIELDS.get(name, {"type": ""})["type"]
)
"""Counters that an agent may not know for a time; they go on from their last known value."""
INTERVALS: Final = _named("interval")
MINUTES: Final = 60

STATES: Final = ("final", *_named("state"))

REQUIRED: Final = {
    "agent": ("agent_id", "boot_id", "seq", "at_ms", "since_ms"),
    "connections": ("agent_id", "boot_id", "seq", "at_ms", "since_ms", "series", "class"),
    "finding": ("agent_id", "boot_id", "seq", "at_ms", "since_ms", "series", "finding"),
}
"""Without these a record cannot be placed; every other field may be absent, and is null then."""


def enumerations() -> dict[str, tuple[str, ...]]:
    """Return the fields whose unknown values would be misread, with the values that are known."""
    return {"class": tuple(_DEFINITIONS["connections"]["properties"]["class"]["enum"])}


def record_type() -> StructType:
    """Return the record as Spark reads it: all kinds in one, whole numbers of 64 bits."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, _type(field)) for name, field in _FIELDS.items()])


def silver_type() -> StructType:
    """Return the columns of `silver`, which follow from the journal's fields."""
    from pyspark.sql.types import ArrayType, LongType, StringType, StructType, TimestampType

    texts = ("agent_id", "boot_id", "kind")
    longs = (*COUNTERS, *INTERVALS, "seq_greatest", "at_greatest")
    longs = (*longs, *(f"state_{name}" for name in STATES))
    columns = StructType().add("hour", TimestampType())
    for name in texts:
        columns.add(name, StringType())
    for name in ("series", *longs):
        columns.add(name, LongType())
    for name in DIMENSIONS:
        columns.add(name, _type(_FIELDS[name]))
    for name in ("since_ms", "seq_least", "at_least", "minutes"):
        columns.add(name, LongType())
    return columns.add("minute_peaks", ArrayType(LongType()))


def _type(field: dict[str, Any]) -> Any:
    from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType

    if "const" in field:
        return LongType() if isinstance(field["const"], int) else StringType()
    types = field["type"]
    name = types if isinstance(types, str) else next(each for each in types if each != "null")
    simple = {"integer": LongType(), "boolean": BooleanType(), "string": StringType()}
    return ArrayType(_type(field["items"])) if name == "array" else simple[name]
