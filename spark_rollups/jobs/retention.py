"""Deletes what the tables keep no longer; what is made from it stays, and is not made again."""

from __future__ import annotations

__all__ = ["first_kept", "retain"]

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rollups.tables import Tables

_HOURLY: Final = ("hourly", "brokers", "coverage", "findings")
_DAILY: Final = ("daily", "savings", "forecast")
_BEGINS: Final = "brokerwire.begins"
_HOURS_OF_DAY: Final = 24


def first_kept(tables: Tables) -> int | None:
    """Return the first hour of silver that `retain` has left, None if it has deleted none.

    It is there for the differences of the hour after it: made again, it would have no base.
    """
    value = tables.properties("silver").get(_BEGINS)
    return None if value is None else int(value)


def retain(
    tables: Tables,
    *,
    now: int,
    silver: int | None,
    hourly: int | None,
    daily: int | None,
    say: Callable[[str], None],
) -> list[str]:
    """Delete what is older than so many days before an hour, `now`; None keeps all.

    Where silver begins is written down first: a run that is killed in between has only stopped to
    make again what is still there.
    """
    done = []
    if silver is not None and tables.exists("silver"):
        begins = max(now - silver * _HOURS_OF_DAY, first_kept(tables) or 0)
        tables.set_property("silver", _BEGINS, str(begins))
        tables.delete_before("silver", "hour", begins)
        done.append("silver")
    for names, column, days in ((_HOURLY, "hour", hourly), (_DAILY, "day", daily)):
        if days is None:
            continue
        for name in filter(tables.exists, names):
            tables.delete_before(name, column, now - days * _HOURS_OF_DAY)
            done.append(name)
    for name in done:
        say(f"{name}: deleted what is older")
    return done
