"""The rollups' command line: a user's mistake is one line that helps, and nothing tells a secret."""

import builtins
import stat

import pytest

from spark_rollups.cli import main
from spark_rollups.commands import batch, report
from spark_rollups.commands.kafka import options_of
from spark_rollups.errors import MissingPartError, RollupsError, UsageError

KAFKA = ["batch", "--kafka", "kafka:9092", "--topic", "t1", "--tables", "tables"]
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required password="hunter2";'
JAVA = "An error occurred while calling o45.load.\n: "


class AnalysisException(Exception):  # noqa: N818 -- PySpark's name
    """As PySpark's: what it is called is in no module that is imported here."""


class Py4JJavaError(Exception):
    """As Py4J's."""


@pytest.fixture
def fails(monkeypatch):
    def arrange(error, module=batch):
        def fail(*_):
            raise error

        monkeypatch.setattr(module, "open_tables", fail)

    return arrange


def told(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("brokerwire-rollups: ")
    return lines[0].removeprefix("brokerwire-rollups: ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (MissingPartError("x"), 3),
        (RollupsError("x"), 1),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(fails, error, code):
    fails(error)
    assert main(KAFKA) == code


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(
            AnalysisException(
                "[PATH_NOT_FOUND] Path does not exist: file:/data/nowhere. SQLSTATE: 42K03"
            ),
            ["file:/data/nowhere:", "--input"],
            id="no such input",
        ),
        pytest.param(
            Py4JJavaError(
                f"{JAVA}java.util.concurrent.ExecutionException:"
                " org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node"
                " assignment. Call: describeTopics\n\tat java.base/java.util"
            ),
            ["--kafka kafka:9092", "security.protocol"],
            id="no broker there",
        ),
        pytest.param(
            Py4JJavaError(
                f"{JAVA}org.apache.kafka.common.KafkaException: Failed to create new"
                " KafkaAdminClient\n\tat x\nCaused by:"
                " org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls"
                " given in bootstrap.servers\n\tat y"
            ),
            ["--kafka kafka:9092", "host names"],
            id="no such host",
        ),
        pytest.param(
            Py4JJavaError(
                f"{JAVA}org.apache.kafka.common.config.ConfigException: Invalid value X for"
                " configuration security.protocol: String must be one of: PLAINTEXT"
            ),
            ["security.protocol", "--kafka-option"],
            id="unknown setting",
        ),
        pytest.param(
            Py4JJavaError(
                f"{JAVA}org.apache.spark.SparkException: Could not parse Master URL: 'bogus'"
            ),
            ["--master bogus", "spark://"],
            id="no such master",
        ),
        pytest.param(
            Py4JJavaError(f"{JAVA}java.lang.OutOfMemoryError: Java heap space"),
            ["--memory"],
            id="too little memory",
        ),
        pytest.param(
            Py4JJavaError(
                f"{JAVA}org.apache.spark.sql.delta.DeltaIOException: [DELTA_CANNOT_CREATE_LOG_PATH]"
                " Cannot create file:/proc/x/tables/inputs/_delta_log\n\tat org.apache.spark"
            ),
            ["cannot write file:/proc/x/tables/inputs/_delta_log:", "--tables"],
            id="tables that cannot be made",
        ),
        pytest.param(
            Py4JJavaError(
                f"{JAVA}java.lang.RuntimeException: java.lang.ClassNotFoundException: Class"
                " org.apache.hadoop.fs.s3a.S3AFileSystem not found\n\tat org.apache.hadoop"
            ),
            ["org.apache.hadoop.fs.s3a.S3AFileSystem", "hadoop-aws"],
            id="a store without its library",
        ),
        pytest.param(
            Py4JJavaError(
                f"{JAVA}org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for"
                ' scheme "foo"\n\tat org.apache.hadoop'
            ),
            ["foo://"],
            id="no such store",
        ),
        pytest.param(
            Py4JJavaError(
                f"{JAVA}org.apache.kafka.common.KafkaException: Failed to create new"
                " KafkaAdminClient\n\tat x\nCaused by: java.lang.IllegalArgumentException:"
                " Login module control flag not specified in JAAS config\n\tat y"
            ),
            ["sasl.jaas.config", "one line"],
            id="a login that is none",
        ),
        pytest.param(
            AnalysisException(
                "\nKafka option 'auto.offset.reset' is not supported.\nInstead set the source option"
            ),
            ["auto.offset.reset", "--kafka-option"],
            id="a setting that is Spark's",
        ),
        pytest.param(
            AnalysisException('Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got {}'),
            ["--from-offsets", '{"t1": {"0": 23'],
            id="offsets of another shape",
        ),
        pytest.param(
            AnalysisException(
                "[STREAM_FAILED] Query [id = af68, runId = 29e1] terminated with exception:"
                " org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node"
                " assignment. Call: listNodes SQLSTATE: XXKST\n=== Streaming Query ===\n"
            ),
            ["--kafka kafka:9092 answered"],
            id="a stream without brokers",
        ),
        pytest.param(
            Py4JJavaError(f"{JAVA}java.io.IOException: Mkdirs failed to create file:/proc/x\n\tat"),
            ["cannot read or write", "file:/proc/x"],
            id="tables that cannot be written",
        ),
        pytest.param(
            PermissionError(13, "Permission denied", "/root/report.html"),
            ["/root/report.html: Permission denied"],
            id="a file that cannot be written",
        ),
    ],
)
def test_a_users_mistake_is_one_line_that_names_it(fails, capsys, error, words):
    fails(error)
    assert main(KAFKA) == 2
    line = told(capsys)
    for word in words:
        assert word in line


def test_a_part_that_is_missing_says_how_to_get_it(fails, capsys):
    fails(ModuleNotFoundError("No module named 'delta'", name="delta.tables"))
    assert main(KAFKA) == 3
    assert "pip install -e '.[spark]'" in told(capsys)


def test_a_module_of_our_own_that_is_missing_is_a_bug(fails, capsys):
    fails(ModuleNotFoundError("No module named 'x'", name="spark_rollups.x"))
    assert main(KAFKA) == 1
    assert "this is a bug" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["hunter2", f"odd: {JAAS}", "Mkdirs failed to create hunter2"])
def test_what_is_told_of_an_error_holds_no_secret(fails, capsys, text):
    """Neither a line for the user nor the traceback of a bug shows a password."""
    fails(Py4JJavaError(f"{JAVA}{text}"))
    assert main([*KAFKA, "--kafka-option", f"sasl.jaas.config={JAAS}"]) != 0
    err = capsys.readouterr().err
    assert "hunter2" not in err
    assert "[hidden]" in err or "sasl.jaas.config among" in err


@pytest.mark.spark
def test_a_secret_that_came_from_a_file_is_hidden_too(monkeypatch, capsys, tmp_path):
    (tmp_path / "jaas").write_text(JAAS, "utf-8")

    def load(_):
        raise Py4JJavaError(f"{JAVA}odd: hunter2")

    def open_tables(options):
        load(options_of(options))

    monkeypatch.setattr(batch, "open_tables", open_tables)
    assert main([*KAFKA, "--kafka-option", f"sasl.jaas.config=file:{tmp_path}/jaas"]) == 1
    assert "hunter2" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["batch", "--tables", "t"], id="neither files nor topic"),
        pytest.param([*KAFKA, "--input", "x"], id="files and a topic"),
        pytest.param(["stream", "--tables", "t", "--checkpoint", "c"], id="no brokers"),
        pytest.param(["report", "--tables", "t"], id="nothing to write"),
    ],
)
def test_flags_that_do_not_go_together_are_one_line(capsys, arguments):
    assert main(arguments) == 2
    told(capsys)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([*KAFKA, "--from-offsets", "x"], "earliest"),
        ([*KAFKA, "--from-offsets", '{"t1": 3}'], "earliest"),
        ([*KAFKA, "--to-offsets", '{"t1": {"0": "3"}}'], "earliest"),
        ([*KAFKA, "--to-offsets", "[]"], "earliest"),
        ([*KAFKA, "--kafka-option", "x"], "KEY=VALUE"),
        (["stream", "--tables", "t", "--checkpoint", "c", "--every", "soon"], "30 seconds"),
        (["stream", "--tables", "t", "--checkpoint", "c", "--refresh-every", "-1"], "seconds"),
    ],
)
def test_a_flag_that_cannot_be_is_refused_before_spark_starts(capsys, arguments, word):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert word in capsys.readouterr().err.splitlines()[-1]


def test_a_report_that_cannot_be_written_is_one_line(fails, capsys):
    fails(OSError(30, "Read-only file system", "/usr/report.html"), report)
    assert main(["report", "--tables", "t", "--out", "/usr/report.html"]) == 2
    assert "/usr/report.html: Read-only file system" in told(capsys)


def java(folder, version):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("version", "word"), [("1.8.0_402", "not 8"), ("11.0.22", "not 11"), ("?", "not unknown")]
)
def test_a_java_that_is_too_old_is_named(monkeypatch, tmp_path, version, word):
    from spark_rollups.session import check_java

    java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingPartError, match=rf"{word}: apt-get install openjdk-17"):
        check_java()


def test_a_java_that_will_do_is_taken(monkeypatch, tmp_path):
    from spark_rollups.session import check_java

    java(tmp_path, "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


def test_no_java_at_all_says_how_to_get_one(monkeypatch, tmp_path):
    from spark_rollups.session import check_java

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPartError, match="there is none: apt-get install openjdk-17"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(MissingPartError, match="there is none"):
        check_java()


def test_jars_that_nobody_can_fetch_say_how_to_bring_them(monkeypatch, tmp_path):
    from spark_rollups.jars import jar_paths

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("BROKERWIRE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MissingPartError, match=r"apt-get install maven, or copy them .*/cache/"):
        jar_paths()


@pytest.mark.parametrize(
    "arguments", [KAFKA, ["report", "--tables", "t", "--out", "x"]], ids=["batch", "report"]
)
def test_without_pyspark_it_says_what_to_install(monkeypatch, capsys, arguments):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.partition(".")[0] == "pyspark":
            raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(arguments) == 3
    assert "pip install -e '.[spark]'" in told(capsys)
