"""Flags of the rollups that need no Spark: secrets in files, and where metrics are pushed to."""

from __future__ import annotations

import pytest

from spark_rollups.cli import main
from spark_rollups.commands.kafka import with_files
from spark_rollups.errors import UsageError


def test_a_value_in_a_file_is_read_and_others_stand(tmp_path):
    secret = tmp_path / "jaas"
    secret.write_text('org.Module required username="a" password="b=c";\n')
    given = ["security.protocol=SASL_SSL", f"sasl.jaas.config=file:{secret}", "empty="]
    assert with_files(given) == [
        "security.protocol=SASL_SSL",
        'sasl.jaas.config=org.Module required username="a" password="b=c";',
        "empty=",
    ]


def test_a_certificate_keeps_its_lines(tmp_path):
    pem = tmp_path / "tls.crt"
    pem.write_text("-----BEGIN-----\nabc=\n-----END-----\n")
    assert with_files([f"ssl.keystore.certificate.chain=file:{pem}"]) == [
        "ssl.keystore.certificate.chain=-----BEGIN-----\nabc=\n-----END-----"
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "cannot read '{path}': No such file or directory", id="absent"),
        pytest.param(b"\n", "'{path}' is empty", id="empty"),
        pytest.param(b"\xfe\xed\xfe\xed", "ssl.keystore.location, without file:", id="keystore"),
    ],
)
def test_a_file_that_is_no_value_is_named(tmp_path, content, words):
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as found:
        with_files([f"ssl.keystore.password=file:{path}"])
    assert "--kafka-option ssl.keystore.password: " in str(found.value)
    assert words.format(path=path) in str(found.value)


@pytest.mark.parametrize("url", ["pushgateway:9091", "file:///etc/passwd", "http://"])
def test_only_a_web_address_is_pushed_to(url, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["report", "--tables", "tables", "--push", url])
    assert repr(url) in capsys.readouterr().err


def test_a_password_in_an_address_is_not_repeated(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["report", "--tables", "tables", "--push", "http://me:hunter2@pushgateway:9091"])
    told = capsys.readouterr().err
    assert "without a password" in told
    assert "hunter2" not in told
