"""`brokerwire rules`: what it reads, writes and refuses."""

from __future__ import annotations

import pytest
import yaml

from exporter.cli import main


def render(tmp_path, settings: str, *flags: str) -> int:
    (tmp_path / "s.yaml").write_text(settings)
    path = str(tmp_path / "s.yaml")
    return main(["rules", "render", "--settings", path, "--output", str(tmp_path / "out"), *flags])


def test_it_writes_both_files_and_then_finds_no_difference(tmp_path):
    assert render(tmp_path, "") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "alerts.yaml",
        "recording.yaml",
    ]
    assert render(tmp_path, "", "--check") == 0


def test_check_tells_what_differs_and_writes_nothing(tmp_path, capsys):
    assert render(tmp_path, "", "--check") == 4
    assert not (tmp_path / "out").exists()
    assert "alerts.yaml differs" in capsys.readouterr().err
    assert render(tmp_path, "") == 0
    assert render(tmp_path, "labels: {team: a}", "--check") == 4
    assert "recording.yaml" not in capsys.readouterr().err


def test_settings_are_printed_as_they_can_be_read(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(
        "thresholds: {gap: 2m, max_connections: 7}\nscope: ['a=\"b\"']\n"
    )
    assert main(["rules", "settings", "--settings", str(tmp_path / "s.yaml")]) == 0
    told = capsys.readouterr().out
    assert yaml.safe_load(told)["thresholds"]["max_connections"] == 7
    (tmp_path / "s.yaml").write_text(told)
    assert main(["rules", "settings", "--settings", str(tmp_path / "s.yaml")]) == 0
    assert capsys.readouterr().out == told


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param(
            "thresholds: {zombie_conections: 3}",
            "s.yaml:1: thresholds.zombie_conections: is not a known key; did you mean"
            " 'zombie_connections'?",
            id="a key that is misspelt",
        ),
        pytest.param(
            "alerts:\n- name: KafkaClientZombies\n",
            "s.yaml:2: alerts[0].name: is not an alert; did you mean 'KafkaClientZombieConnections'?",
            id="an alert that is misspelt",
        ),
        pytest.param(
            "alerts:\n- name: nothing at all\n",
            "s.yaml:2: alerts[0].name: is not an alert; rules/README.md lists them",
            id="an alert that is like none",
        ),
        pytest.param(
            "alerts:\n- name: BrokerwireAgentDown\n- name: BrokerwireAgentDown\n",
            "s.yaml:1: alerts: has the name 'BrokerwireAgentDown' more than once",
            id="an alert twice",
        ),
        pytest.param(
            "alerts:\n- name: BrokerwireAgentDown\n  severity: urgent\n",
            "s.yaml:3: alerts[0].severity: must be critical, warning or info",
            id="a severity that is none",
        ),
        pytest.param(
            "scope: ['namespace=shop']",
            "s.yaml:1: scope: must have matchers such as namespace=\"shop\", not 'namespace=shop'",
            id="a matcher without quotes",
        ),
        pytest.param(
            'scope: [\'a="b"} or vector(1) #"\']',
            "s.yaml:1: scope: must have matchers",
            id="a matcher that leaves its braces",
        ),
        pytest.param(
            "labels: {severity: page}",
            "s.yaml:1: labels: must not have a label 'severity'",
            id="a label that alerts have",
        ),
        pytest.param(
            "labels: {team: '{{ $labels.x }}'}",
            "s.yaml:1: labels: must not have a template",
            id="a label with a template",
        ),
        pytest.param(
            "service_labels: ['a) or up']",
            "s.yaml:1: service_labels: must name at least one label",
            id="a service label that is none",
        ),
        pytest.param(
            "thresholds: {efficiency_percent: 101}",
            "s.yaml:1: thresholds.efficiency_percent: must be a whole number from 1 to 100",
            id="more than all",
        ),
        pytest.param(
            "thresholds: {poll_age: 1m}",
            "s.yaml:1: thresholds.poll_age: must be longer than `gap`",
            id="a poll that is too old by a missed scrape",
        ),
        pytest.param(
            "thresholds: {efficiency_window: 9s}",
            "s.yaml:1: thresholds.efficiency_window: must be 10s or more",
            id="a window in which nothing is scraped",
        ),
        pytest.param(
            "links: {runbooks: https://x}",
            "s.yaml:1: links.runbooks: must have {alert} in it",
            id="one page for all alerts",
        ),
        pytest.param("a: [", "s.yaml:1: is not YAML", id="no YAML"),
    ],
)
def test_each_mistake_is_named_with_its_line(tmp_path, capsys, settings, told):
    assert render(tmp_path, settings) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_settings_that_cannot_be_read_are_said_so(tmp_path, capsys):
    assert main(["rules", "settings", "--settings", str(tmp_path / "none")]) == 2
    assert "none: cannot be read: No such file" in capsys.readouterr().err
    (tmp_path / "latin").write_bytes(b"labels: {a: \xe9}")
    assert main(["rules", "settings", "--settings", str(tmp_path / "latin")]) == 2
    assert "must be UTF-8 text" in capsys.readouterr().err
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"\n")
    assert main(["rules", "settings", "--settings", str(tmp_path / "large")]) == 2
    assert "more than 1 MiB" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path, capsys):
    (tmp_path / "out").write_text("a file")
    assert render(tmp_path, "") == 2
    assert "cannot use" in capsys.readouterr().err
