"""Texts to records, each with the reason why it cannot be read, if so. Nothing is left out."""

from __future__ import annotations

__all__ = ["parse"]

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups import schemas
from spark_rollups.schemas import BUCKETS, COUNTERS, INTERVALS, LIFETIME_COLUMNS, STATES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BROKEN: Final = "broken"
_KEPT_CHARACTERS: Final = 65_536
_FIRST_MS, _END_MS = 1_577_836_800_000, 4_102_444_800_000
"""From 2020, before which there was no agent, to 2100: every other time would be a partition."""
_CLOCK_MS: Final = 3_600_000
_NAME: Final = '"schema_version"'
_GREATEST_SEQ: Final = 2**31 - 1


def parse(texts: DataFrame) -> DataFrame:
    """Turn `raw, source` into the record's fields and `reason, raw, raw_bytes, raw_sha256, source`.

    Those last are null in a good record, and all else is null in a bad one, so that the two can
    go through one aggregation: the text is parsed once.
    """
    record = F.from_json(
        "raw",
        schemas.record_type().add(_BROKEN, "string"),
        {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _BROKEN,
            "allowSingleQuotes": "false",
        },
    )
    read = texts.select("raw", "source", record.alias("record"))
    read = read.select("raw", "source", "record.*").withColumns(_buckets())
    read = read.withColumn("reason", _reason())
    good = F.col("reason").isNull()
    fields = [name for name in schemas.record_type().names if name != BUCKETS]
    return read.select(
        *(F.when(good, F.col(name)).alias(name) for name in (*fields, *LIFETIME_COLUMNS)),
        "reason",
        F.when(~good, F.substring("raw", 1, _KEPT_CHARACTERS)).alias("raw"),
        F.when(~good, F.octet_length("raw").cast("long")).alias("raw_bytes"),
        F.when(~good, F.sha2(F.col("raw").cast("binary"), 256)).alias("raw_sha256"),
        F.when(~good, F.col("source")).alias("source"),
    )


def _buckets() -> dict[str, Column]:
    return {name: F.get(BUCKETS, F.lit(at)) for at, name in enumerate(LIFETIME_COLUMNS)}


def _reason() -> Column:
    """Return the first thing that is wrong, in words that are the same for the same text."""
    numbers = [F.col(name) for name in (*COUNTERS, *INTERVALS, "seq", "at_ms", "since_ms")]
    states = [F.col(name) for name in STATES if name not in {"final", "active"}]
    version = F.col("schema_version")
    checks: list[tuple[Column, Column | str]] = [
        # What is cheap is asked first, of each text; almost none is asked the rest.
        (
            ~(F.col("raw").startswith("{") | F.col("raw").rlike(r"^\s*\{")),
            "not a JSON object",
        ),
        # The parser stops at the end of the first object and would drop the rest in silence.
        ((F.locate("{", "raw", 2) > 0) & (_records() > 1), "more than one record"),
        (F.col(_BROKEN).isNotNull(), "not JSON, or a field of the wrong type"),
        (~_is_one_object(), "more than one JSON object"),
        (version.isNull(), "no schema_version"),
        (
            version != schemas.SCHEMA_VERSION,
            F.concat(
                F.lit("schema_version "),
                version.cast("string"),
                F.lit(f", known is {schemas.SCHEMA_VERSION}"),
            ),
        ),
        (F.col("kind").isNull(), "no kind"),
        # Without the word itself: reasons are counted, and anybody may write any number of words.
        (~F.col("kind").isin(*schemas.KINDS), "unknown kind"),
        *_missing(),
        *(
            (~F.col(name).isin(*values), f"unknown {name}")
            for name, values in schemas.enumerations().items()
        ),
        # greatest and least leave nulls out, which is what is wanted here: null is "not known".
        (F.least(*numbers, *states) < 0, "a negative number"),
        (F.greatest(*numbers) > schemas.GREATEST_COUNT, "a number beyond 2^53"),
        (F.greatest(*states) > schemas.GREATEST_STATE, "a state beyond 2^32"),
        (F.col("seq") > _GREATEST_SEQ, "a seq beyond 2^31"),
        (~F.col("at_ms").between(_FIRST_MS, _END_MS), "at_ms is no time from 2020 to 2100"),
        # By a little it may be: a clock that goes back by up to a minute begins no new boot.
        (F.col("since_ms") > F.col("at_ms") + _CLOCK_MS, "since_ms is after at_ms"),
        (
            F.size(BUCKETS) != len(LIFETIME_COLUMNS),
            f"lifetime_buckets has not {len(LIFETIME_COLUMNS)} numbers",
        ),
    ]
    words = [(when, F.lit(then) if isinstance(then, str) else then) for when, then in checks]
    first, *rest = words
    return reduce(lambda chain, check: chain.when(*check), rest, F.when(*first))


def _records() -> Column:
    """Count the records in a text by a name that each has; a regular expression takes longer."""
    without = F.octet_length(F.replace(F.col("raw"), F.lit(_NAME), F.lit("")))
    return F.call_function("div", F.octet_length("raw") - without, F.lit(len(_NAME)))


def _is_one_object() -> Column:
    """Tell whether an object is all of a text, but for space.

    Nearly every record has one brace of each kind. For the others: what follows an object can go on
    neither within brackets nor within braces in a way that is JSON in both.
    """
    text = F.trim(F.col("raw"), F.lit(" \t\r\n"))
    plain = (F.locate("{", text, 2) == 0) & (F.locate("}", text) == F.length(text))
    elements = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    keys = F.json_object_keys(F.concat(F.lit('{"record":'), text, F.lit("}")))
    whole = (F.coalesce(elements, F.lit(0)) == 1) & (F.coalesce(F.size(keys), F.lit(0)) == 1)
    return F.when(plain, F.lit(True)).otherwise(whole)


def _missing() -> list[tuple[Column, str]]:
    """Return a check for each field that a record of its kind cannot do without."""
    kinds_of: dict[str, list[str]] = {}
    for kind, names in schemas.REQUIRED.items():
        for name in names:
            kinds_of.setdefault(name, []).append(kind)
    return [
        (F.col("kind").isin(*kinds) & F.col(name).isNull(), f"no {name}")
        for name, kinds in kinds_of.items()
    ]
