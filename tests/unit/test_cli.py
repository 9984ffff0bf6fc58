"""Every mistake on the command line is one line on standard error and an exit code."""

import argparse
import subprocess
import sys

import pytest

import exporter
from exporter.cli import main
from exporter.commands import config
from exporter.commands.arguments import Parser as CommandParser
from exporter.commands.arguments import add_config_flags, settings_of
from exporter.config.settings import LogSettings, PortRange, Settings, WebSettings
from exporter.errors import BrokerwireError, SourceUnavailableError, UsageError

COMMANDS = ["run", "demo", "inspect", "explain", "check", "config"]


def options(*arguments):
    parser = CommandParser(prog="test")
    add_config_flags(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="nothing"),
        pytest.param(["fly"], id="unknown command"),
        pytest.param(["inspect", "--fro", "3s"], id="unknown flag"),
        pytest.param(["inspect", "--fo", "3s"], id="abbreviated flag"),
        pytest.param(["inspect", "--for", "3"], id="duration without unit"),
        pytest.param(["inspect", "--pid", "x"], id="pid that is none"),
        pytest.param(
            ["inspect", "--pid", "1", "--agent", "http://127.0.0.1:1"], id="pid and agent"
        ),
        pytest.param(["top", "--json"], id="top in JSON"),
        pytest.param(["inspect", "--ports", "9098-9092"], id="ports backwards"),
        pytest.param(["explain"], id="explain nothing"),
        pytest.param(["check", "--max", "zombies=0"], id="unknown class"),
        pytest.param(["check", "--max", "zombie"], id="class without number"),
        pytest.param(["check", "--max", "zombie=-1"], id="less than none"),
        pytest.param(["check", "--max", "zombie=²"], id="number that is none"),
        pytest.param(["check", "--min-efficiency", "80"], id="efficiency in percent"),
        pytest.param(["check", "--min-efficiency", "nan"], id="efficiency nan"),
        pytest.param(["run", "--log.level", "loud"], id="unknown level"),
        pytest.param(["run", "--web.telemetry-path", "metrics"], id="path without slash"),
        pytest.param(["run", "--web.listen-address", "10920"], id="address without port"),
        pytest.param(["run", "--config", "/nowhere/brokerwire.yaml"], id="file that is not there"),
        pytest.param(["config", "check"], id="check nothing"),
        pytest.param(["config", "check", "/nowhere\x1b[2J"], id="hostile file name"),
        pytest.param(["demo", "--for", "soon"], id="demo for soon"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys, arguments):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    line = err.removesuffix("\n")
    assert line.isprintable()
    assert line.startswith("brokerwire: ")


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS), ["config", "show"]])
def test_help_is_data(capsys, command):
    with pytest.raises(SystemExit) as left:
        main([*command, "--help"])
    out, err = capsys.readouterr()
    assert left.value.code == 0
    assert err == ""
    assert "usage: brokerwire" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(capsys, name):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert f"  brokerwire {name}" in capsys.readouterr().out


def test_the_exit_codes_are_documented(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    for code in ("0 done", "1 a bug", "2 usage", "3 nothing readable", "4 check failed"):
        assert code in out


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"brokerwire {exporter.__version__}\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (SourceUnavailableError("cannot look"), 3),
        (BrokerwireError("x"), 1),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(monkeypatch, capsys, error, code):
    def fail(_):
        raise error

    monkeypatch.setattr(config, "_show", fail)
    assert main(["config", "show"]) == code
    assert capsys.readouterr().out == ""


def test_a_bug_shows_where_it_is(monkeypatch, capsys):
    def fail(_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(config, "_show", fail)
    main(["config", "show"])
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("brokerwire: this is a bug")


def test_config_check_names_every_mistake_for_an_editor(tmp_path, capsys):
    file = tmp_path / "brokerwire.yaml"
    file.write_text("poll: {interval: soon}\nx: 1\n")
    assert main(["config", "check", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [f"{file}:1: ", f"{file}:2: "] == [line[: len(str(file)) + 4] for line in lines]


def test_config_check_says_ok(tmp_path, capsys):
    file = tmp_path / "brokerwire.yaml"
    file.write_text("poll: {interval: 2s}\n")
    assert main(["config", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: ok\n"


def test_config_show_is_a_configuration(tmp_path, capsys):
    """What it prints is checked by the very command that checks files."""
    file = tmp_path / "brokerwire.yaml"
    file.write_text("log: {level: warn}\n")
    arguments = ["config", "show", "--config", str(file), "--web.listen-address", ":1"]
    assert main([*arguments, "--log.format", "json"]) == 0
    shown = capsys.readouterr().out
    file.write_text(shown)
    assert main(["config", "check", str(file)]) == 0
    expected = Settings(
        web=WebSettings(listen_addresses=(":1",)), log=LogSettings(level="warn", format="json")
    )
    assert expected == settings_of(options("--config", str(file)))


def test_flags_come_after_the_file(tmp_path):
    file = tmp_path / "brokerwire.yaml"
    file.write_text("log: {level: warn}\nweb: {telemetry_path: /m}\nbrokers: {ports: [1]}\n")
    settings = settings_of(
        options(
            *("--config", str(file), "--log.level", "debug", "--ports", "9092", "--ports", "5-6"),
            *("--web.listen-address", "127.0.0.1:0", "--web.listen-address", "[::1]:0"),
            *("--web.config.file", "/w.yaml"),
        )
    )
    assert settings.log == LogSettings(level="debug")
    assert settings.brokers.ports == (PortRange(9092, 9092), PortRange(5, 6))
    assert settings.web == WebSettings(
        listen_addresses=("127.0.0.1:0", "[::1]:0"), telemetry_path="/m", config_file="/w.yaml"
    )


def test_without_flags_and_file_there_are_defaults():
    assert Settings() == settings_of(options())
    assert Settings() == settings_of(argparse.Namespace(config=None))


def test_little_is_loaded_before_it_is_needed():
    """`brokerwire --version` in a probe must not cost what the agent does."""
    code = (
        "import sys, exporter.cli; heavy = {'rich', 'psutil', 'confluent_kafka', 'asyncio', 'h11',"
        " 'prometheus_client', 'exporter.agent'}; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("pid", ["0", "-1", "99999999999999999999"])
def test_a_process_that_is_not_there_is_exit_code_5(capsys, pid):
    assert main(["inspect", "--pid", pid]) == 5
    assert f"there is no process {pid}" in capsys.readouterr().err
