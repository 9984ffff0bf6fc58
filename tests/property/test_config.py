"""Any text is settings or a ConfigError; whatever can be set reads back as it was."""

import string
import time
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Literal, get_args, get_origin

from hypothesis import given
from hypothesis import strategies as st

from exporter.config.files import settings_from_text
from exporter.config.settings import PortRange, Settings
from exporter.config.text import yaml_from_settings
from exporter.config.types import Form, Size
from exporter.config.values import hints_of, kind_of, optional_part
from exporter.errors import ConfigError

KEYS = ["poll", "interval", "brokers", "ports", "known", "id", "host", "sources", "java", "url"]
PIECES = st.sampled_from(
    [
        *KEYS,
        *(": ", ":\n", "\n", "  ", "- ", ", ", "? ", "---\n", "%YAML 1.1\n", "\t"),
        *[
            "[",
            "]",
            "{",
            "}",
            "&a",
            "*a",
            "<<",
            "!!map",
            "!x",
            "|",
            ">",
            '"',
            "'",
            "#",
            "...",
            "\\x41",
            "\\U00110000",
            "null",
            "~",
            "0777",
            "1e400",
            ".nan",
        ],
        *("1s", "off", "9092-9098", "\u2028", "\ufeff", "\x85"),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(PIECES, max_size=60).map("".join),
    st.text(alphabet=string.printable, max_size=300),
)


def assert_settings_or_problems(text):
    began = time.perf_counter()
    problems = ()
    try:
        assert isinstance(settings_from_text(text, "f"), Settings)
    except ConfigError as error:
        problems = error.problems
        assert problems
    for problem in problems:
        assert str(problem).isprintable()
        assert len(str(problem)) < 1000
        assert problem.line is None or 1 <= problem.line <= len(text.splitlines()) + 2
    assert time.perf_counter() - began < 5


@given(TEXTS)
def test_any_text_is_settings_or_a_config_error(text):
    assert_settings_or_problems(text)


def values_for(hint):
    """Values of one field, as a file could set them."""
    inner, optional = optional_part(hint)
    values = _values(inner, optional=optional)
    return st.none() | values if optional else values


def _values(hint, *, optional):
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple:
        return st.lists(values_for(get_args(hint)[0]), max_size=3).map(tuple)
    if get_origin(hint) is dict:
        return st.dictionaries(st.text("abc.", min_size=1, max_size=8), TEXT, max_size=3)
    simple = {
        float: st.integers(10_000, 10**12).map(lambda micro: micro / 1e6),
        int: st.integers(1, 10**9),
        bool: st.booleans(),
        str: TEXT,
        PortRange: st.tuples(st.integers(1, 65535), st.integers(0, 9)).map(
            lambda pair: PortRange(pair[0], min(65535, sum(pair)))
        ),
    }
    if get_origin(hint) is Annotated:
        return FORMS[get_args(hint)[1]]
    if hint is float and optional:
        return st.just(0.0) | simple[float]
    return simple[hint] if hint in simple else sections(hint)


FORMS = {
    Form.SIZE: st.integers(1, 10**9),
    Form.PORT: st.integers(1, 65535),
    Form.BROKER_ID: st.integers(0, 2**31 - 1),
    Form.FILE_MODE: st.sampled_from([0o600, 0o620, 0o622, 0o660, 0o666]),
    Form.URL: st.sampled_from(["http://127.0.0.1:9404/a", "https://b"]),
}
TEXT = st.text(max_size=20, min_size=1).filter(str.isprintable)


def _made(section, values):
    """A section, or its defaults where the values break one of its rules."""
    try:
        return section(**values)
    except ValueError:
        return None


def sections(section):
    hints = hints_of(section)
    needed = {f.name for f in fields(section) if f.default is f.default_factory is MISSING}
    strategies = {name: values_for(hint) for name, hint in hints.items()}
    made = st.fixed_dictionaries(
        {name: strategies[name] for name in needed},
        optional={name: strategies[name] for name in strategies if name not in needed},
    ).map(lambda values: _made(section, values))
    assert is_dataclass(section)
    return made.filter(lambda value: value is not None)


@given(sections(Settings))
def test_what_is_written_reads_back(settings):
    assert settings == settings_from_text(yaml_from_settings(settings), "f")


@given(st.floats(0.000001, 86400 * 366, exclude_min=True).map(lambda value: round(value, 6)))
def test_a_duration_reads_back(seconds):
    kind = kind_of(float)
    assert seconds == kind.parse(kind.write(seconds))


@given(st.integers(1, 10**9))
def test_a_size_reads_back(size):
    kind = kind_of(Size)
    assert size == kind.parse(kind.write(size))


@given(sections(Settings), st.integers(0, 2000), TEXTS)
def test_a_right_file_with_something_put_in_is_settings_or_a_config_error(settings, at, text):
    whole = yaml_from_settings(settings)
    assert_settings_or_problems(whole[:at] + text + whole[at:])
