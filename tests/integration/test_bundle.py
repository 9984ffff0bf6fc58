"""One file for a ticket: made of a running agent, read anywhere, believed nowhere."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from exporter.cli import main
from exporter.history import ConnectionEvent
from tests.integration.web_support import Agent, port_of, serving
from tests.unit.payloads import PAYLOADS
from tests.unit.snapshots import AT, page_sample

EVENT = ConnectionEvent(
    AT - 5,
    "class",
    11,
    ("orders-producer", "producer", "orders", "1", "10.2.0.1:9092"),
    "10.1.0.7:40011",
    "bootstrap",
    "zombie",
    "idle closing is off",
)


@pytest.fixture(scope="module")
def url():
    sample = page_sample()
    sample = replace(sample, history=replace(sample.history, events=(EVENT,)))
    with serving(Agent(sample)) as server:
        yield f"http://127.0.0.1:{port_of(server)}"


@pytest.fixture
def bundle(url, tmp_path):
    path = tmp_path / "bundle.json"
    assert main(["bundle", "--agent", url, "--output", str(path)]) == 0
    return path


def test_a_bundle_shows_what_the_agent_showed(url, bundle, capsys):
    assert main(["inspect", "--agent", url]) == 0
    of_agent = capsys.readouterr().out
    assert main(["inspect", "--from", str(bundle)]) == 0
    assert capsys.readouterr().out == of_agent
    assert main(["check", "--from", str(bundle)]) == 4
    assert main(["explain", "zombie", "--from", str(bundle)]) == 0


def test_a_bundle_has_history_events_and_metrics(bundle):
    content = json.loads(bundle.read_text())
    assert content["documents"]["/api/v1/events"]["events"][0]["class"] == "zombie"
    assert content["documents"]["/api/v1/history"]["series"] == []
    assert "kafka_client_connections{" in content["metrics"]
    assert content["configuration"] is None
    assert bundle.stat().st_mode & 0o077 == 0


def test_a_bundle_has_the_configuration_without_its_secrets(url, tmp_path):
    config = tmp_path / "brokerwire.yaml"
    (tmp_path / "password").write_text("s3cret")
    config.write_text(
        "sources:\n  java:\n    - name: orders\n      url: http://127.0.0.1:9404/metrics\n"
        f"      username: agent\n      password_file: {tmp_path / 'password'}\n"
    )
    path = tmp_path / "bundle.json"
    arguments = ["bundle", "--agent", url, "--config", str(config), "--output", str(path)]
    assert main(arguments) == 0
    assert 'name: "orders"' in json.loads(path.read_text())["configuration"]
    assert "s3cret" not in path.read_text()


def test_a_file_that_exists_is_left_alone(url, bundle, capsys):
    before = bundle.read_bytes()
    assert main(["bundle", "--agent", url, "--output", str(bundle)]) == 2
    assert "exists" in capsys.readouterr().err
    assert bundle.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(None, 2, id="no file"),
        pytest.param(b"", 3, id="empty"),
        pytest.param(b"[1]", 3, id="a list"),
        pytest.param(b"[" * 100_000, 3, id="deep"),
        pytest.param(b'{"documents": {}}', 3, id="no connections"),
        pytest.param(b'{"documents": {"/api/v1/connections": [1]}}', 3, id="a list within"),
        pytest.param(b'{"documents": NaN}', 3, id="no JSON"),
        pytest.param(b"\xff\xfe\x00", 3, id="bytes"),
    ],
)
@pytest.mark.parametrize("command", [["inspect"], ["top"]])
def test_a_file_that_is_no_bundle_is_an_error_of_one_line(content, code, command, tmp_path, capsys):
    path = tmp_path / "given.json"
    if content is not None:
        path.write_bytes(content)
    assert main([*command, "--from", str(path)]) == code
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "bug" not in error


@pytest.mark.parametrize("field", ["class", "process", "client_id", "evidence", "cookie", "local"])
def test_no_value_in_a_bundle_is_a_bug_or_controls_the_terminal(field, bundle, tmp_path, capsys):
    content = json.loads(bundle.read_text())
    connections = content["documents"]["/api/v1/connections"]["connections"]
    given = tmp_path / "given.json"
    values = (None, 1, [], {}, ["x"], "x" * 100_000, "\x1b]0;x\x07", "\x9b31m", PAYLOADS[0])
    for value in values:
        connections[3][field] = value
        given.write_text(json.dumps(content))
        for command in (["inspect"], ["explain", "orders"]):
            assert main([*command, "--from", str(given)]) in {0, 3, 5}
            shown = capsys.readouterr()
            assert all(line.isprintable() for line in (shown.out + shown.err).splitlines())


def test_history_is_lines_that_can_be_searched(url, capsys):
    assert main(["history", "--agent", url]) == 0
    line = capsys.readouterr().out
    assert "bootstrap -> zombie" in line
    assert "(idle closing is off)" in line
    assert main(["history", "--agent", url, "half"]) == 0
    assert capsys.readouterr().out == ""


def test_history_for_scripts_is_a_line_of_fields_for_each_event(url, capsys):
    assert main(["history", "--agent", url, "--output", "tsv", "zombie"]) == 0
    head, line = (each.split("\t") for each in capsys.readouterr().out.splitlines())
    values = dict(zip(head, line, strict=True))
    assert (values["class_before"], values["class"]) == ("bootstrap", "zombie")
    assert values["detail"] == "idle closing is off"
    assert main(["history", "--agent", url, "--output", "tsv", "half"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
