"""Any mistake in a file is one problem with its line and a remedy; whatever is right is taken."""

import os
import re
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import get_args, get_origin

import pytest

from exporter.config.files import LARGEST_FILE, read_settings, settings_from_text
from exporter.config.settings import (
    LARGEST_PAGE,
    LARGEST_STATISTICS,
    BrokerSettings,
    ClientRule,
    JavaSourceSettings,
    KnownBroker,
    MetadataCallSettings,
    PollSettings,
    PortRange,
    Settings,
    StatisticsSettings,
    WebSettings,
)
from exporter.config.text import yaml_from_settings
from exporter.config.values import hints_of, kind_of, optional_part
from exporter.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "config"
CASES = sorted(GOLDEN.glob("*.yaml"))


def read(text: str) -> Settings:
    return settings_from_text(text, "brokerwire.yaml")


def problems_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_each_mistake_is_told_as_expected(path):
    """UPDATE_GOLDEN=1 writes the expected texts anew."""
    with pytest.raises(ConfigError) as caught:
        read_settings(str(path))
    told = "".join(f"{problem}\n" for problem in caught.value.problems)
    told = told.replace(str(path), path.name)
    expected = path.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(told)
    assert expected.read_text() == told


def test_no_expected_text_is_without_its_file():
    assert {path.stem for path in CASES} == {path.stem for path in GOLDEN.glob("*.txt")}


def test_no_secret_is_told():
    for path in CASES:
        assert "hunter2" not in path.with_suffix(".txt").read_text()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("\ufeff", id="byte order mark"),
        pytest.param("# only a comment\n", id="comment"),
        pytest.param("---\n...\n", id="empty document"),
        pytest.param("{}\n", id="empty mapping"),
        pytest.param("poll:\nbrokers:\n  known:\nweb: {}\n", id="empty sections"),
    ],
)
def test_nothing_said_is_all_defaults(tmp_path, text):
    file = tmp_path / "brokerwire.yaml"
    file.write_text(text)
    assert Settings() == read_settings(str(file))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10ms", 0.01),
        ("0.5s", 0.5),
        ("15s", 15.0),
        ("1.5m", 90.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ('"15s"', 15.0),
    ],
)
def test_a_duration_has_a_unit(text, seconds):
    assert PollSettings(interval=seconds) == read(f"poll: {{interval: {text}}}").poll


@pytest.mark.parametrize(("text", "seconds"), [("off", 0.0), ('"off"', 0.0), ("9m", 540.0)])
def test_off_is_no_idle_limit(text, seconds):
    rules = read(f"clients: {{rules: [{{connections_max_idle: {text}}}]}}").clients.rules
    assert (ClientRule(connections_max_idle=seconds),) == rules


def test_ports_are_single_or_ranges():
    ports = read("brokers: {ports: [9092, 9095-9098, '19092']}").brokers.ports
    assert (PortRange(9092, 9092), PortRange(9095, 9098), PortRange(19092, 19092)) == ports


@pytest.mark.parametrize(
    ("text", "size"), [("128B", 128), ("64KiB", 65536), ("16MiB", 1 << 24), ("1000000000B", 10**9)]
)
def test_a_size_has_a_unit(text, size):
    settings = read(f"journal: {{file: {{path: /j.jsonl, max_bytes: {text}}}}}")
    assert settings.journal.file is not None
    assert size == settings.journal.file.max_bytes


@pytest.mark.parametrize("text", ["0666", '"0666"', "'0666'"])
def test_a_mode_is_octal_with_quotes_and_without(text):
    """YAML takes 0666 for the number 438; what counts is what stands there."""
    settings = read(f"sources: {{librdkafka: {{unix_socket_mode: {text}}}}}")
    assert settings.sources.librdkafka.unix_socket_mode == 0o666
    assert read(yaml_from_settings(settings)) == settings


@pytest.mark.parametrize("text", ["438", "666", "0777", "0466", '"rw-rw-rw-"', "0o666", "06666"])
def test_a_mode_that_is_none_is_told_how_one_is_written(text):
    (told,) = problems_of(f"sources: {{librdkafka: {{unix_socket_mode: {text}}}}}")
    assert "must be a file mode for reading and writing, from 0600 to 0666" in told


def test_sections_lists_and_mappings_nest():
    settings = read(
        "brokers:\n"
        "  known: [{id: 0, host: b0, port: 9092}]\n"
        "  metadata:\n"
        "    bootstrap_servers: b0:9092\n"
        "    client: {sasl.password: file:/run/secret}\n"
        "web: {listen_addresses: ['127.0.0.1:0', '[::1]:80']}\n"
    )
    assert (
        BrokerSettings(
            known=(KnownBroker(id=0, host="b0", port=9092),),
            metadata=MetadataCallSettings(
                bootstrap_servers="b0:9092", client={"sasl.password": "file:/run/secret"}
            ),
        )
        == settings.brokers
    )
    assert WebSettings(listen_addresses=("127.0.0.1:0", "[::1]:80")) == settings.web


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines():
    told = problems_of("web: {max_connections: no}\npoll: {interval: 1}\nx: 1\n")
    assert [int(line.split(":")[1]) for line in told] == [1, 2, 3]


def test_a_hopeless_file_does_not_fill_the_screen():
    assert len(problems_of("".join(f"key{number}: 1\n" for number in range(500)))) == 100


def test_a_hostile_key_cannot_drive_a_terminal():
    (told,) = problems_of('poll:\n  interval: "\\e[2J\\u202e15s"\n')
    assert told.isprintable()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        pytest.param(lambda path: path.mkdir(), "must be a plain file", id="folder"),
        pytest.param(os.mkfifo, "must be a plain file", id="fifo"),
        pytest.param(lambda path: path.symlink_to(path), "circle of symbolic links", id="circle"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "plain file", id="device"),
        pytest.param(lambda _: None, "does not exist", id="absent"),
        pytest.param(
            lambda path: path.write_bytes(b"#" * (LARGEST_FILE + 1)), "more than 1 MiB", id="huge"
        ),
    ],
)
def test_what_is_no_plain_file_is_refused_at_once(tmp_path, make, told):
    path = tmp_path / "brokerwire.yaml"
    make(path)
    with pytest.raises(ConfigError, match=told) as caught:
        read_settings(str(path))
    assert caught.value.problems[0].line is None


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, ""], ids=["nul", "long", "empty"])
def test_an_impossible_name_is_a_problem_of_its_own(path):
    with pytest.raises(ConfigError):
        read_settings(path)


def test_a_file_that_may_not_be_read_says_so(tmp_path):
    """Root may read every file, so the reading is done as somebody else."""
    path = tmp_path / "brokerwire.yaml"
    path.touch(mode=0o000)
    before = os.geteuid()
    try:
        if before == 0:
            os.seteuid(65534)
        with pytest.raises(ConfigError, match="permission denied"):
            read_settings(str(path))
    finally:
        os.seteuid(before)


def test_a_config_map_is_read_through_its_links(tmp_path):
    """Kubernetes mounts a ConfigMap as links into a folder that is swapped."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "brokerwire.yaml").write_text("poll: {interval: 2s}")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "brokerwire.yaml").symlink_to("..data/brokerwire.yaml")
    assert read_settings(str(tmp_path / "brokerwire.yaml")).poll.interval == 2


def test_the_example_is_right():
    assert read_settings(str(ROOT / "examples" / "brokerwire.yaml")) != Settings()


def test_defaults_read_back():
    assert Settings() == read(yaml_from_settings(Settings()))


def test_the_example_reads_back():
    settings = read_settings(str(ROOT / "examples" / "brokerwire.yaml"))
    assert settings == read(yaml_from_settings(settings))


def all_fields(section):
    for field in fields(section):
        hint = hints_of(section)[field.name]
        inner, _ = optional_part(hint)
        if get_origin(inner) is tuple:
            inner = get_args(inner)[0]
        if kind_of(inner) is None and is_dataclass(inner):
            yield from all_fields(inner)
        elif get_origin(inner) is not dict:
            yield section.__name__, field.name, inner


@pytest.mark.parametrize("field", list(all_fields(Settings)), ids=lambda field: ".".join(field[:2]))
def test_there_is_a_way_to_write_every_setting(field):
    """A field of a new type must fail here, not when somebody first sets it."""
    hint = field[2]
    assert kind_of(hint) is not None


def test_the_reference_page_is_up_to_date():
    import importlib.util

    path = ROOT / "tools" / "configuration_reference.py"
    spec = importlib.util.spec_from_file_location("configuration_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.render() == (ROOT / "docs" / "configuration.md").read_text()
    for line in module.render().splitlines():
        assert not line.startswith("| `") or not line.endswith("|  |"), f"no text: {line}"


def test_the_example_has_every_section():
    example = ROOT / "examples" / "brokerwire.yaml"
    sections = re.findall(r"^(\w+):", example.read_text(), re.MULTILINE)
    assert sorted(sections) == sorted(field.name for field in fields(Settings))


@pytest.mark.parametrize(
    ("make", "largest"),
    [
        (StatisticsSettings, LARGEST_STATISTICS),
        (partial(JavaSourceSettings, name="a", url="http://127.0.0.1:9404/"), LARGEST_PAGE),
    ],
)
def test_what_others_may_send_at_once_has_a_largest_size(make, largest):
    assert make(max_bytes=largest).max_bytes == largest
    with pytest.raises(ValueError, match=r"`max_bytes` must be \d+MiB or less"):
        make(max_bytes=largest + 1)
