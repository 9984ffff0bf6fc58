"""What the chart says of values that cannot be right: what is wrong, where, what to do, and no secret."""

from __future__ import annotations

import json

import pytest
import yaml

from exporter.config.files import read_settings
from exporter.errors import ConfigError
from tests.helm.tools import CHART, run, tool

pytestmark = pytest.mark.helm

KINDS = json.loads((CHART / "files" / "config-kinds.json").read_text())


def refused(*settings):
    done = run(tool("helm"), "template", "bw", CHART, *(f"--set={each}" for each in settings))
    assert done.returncode != 0, done.stdout
    return done.stderr


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        pytest.param("podMonitr.enabled=true", "'podMonitr' not allowed", id="unknown"),
        pytest.param("config.poll.intervall=1s", "'intervall' not allowed", id="unknown-in-config"),
        pytest.param("config.sources.java[0].name=x", "missing property 'url'", id="needed"),
        pytest.param("sidecar.mode=webhook", "'auto', 'native', 'container'", id="mode"),
        pytest.param("inject.failurePolicy=Retry", "'Ignore', 'Fail'", id="policy"),
        pytest.param(
            "sidecar.runAsUser=0",
            "sidecar.runAsUser must be 1 or more, not 0: root without capabilities cannot look into"
            " another root's processes either; give the application's id, or leave it empty for"
            " 65532",
            id="root",
        ),
        pytest.param(
            "image.digest=sha256:abc",
            "image.digest must be sha256: and 64 hexadecimal digits, as the push prints it, or empty"
            ' for the tag, not "sha256:abc"',
            id="digest",
        ),
        pytest.param(
            "rollups.image.digest=abc", "rollups.image.digest must be sha256:", id="rollups-digest"
        ),
        pytest.param(
            "config.poll.interval=1",
            "config.poll.interval must be a duration such as 500ms, 15s or 5m, not 1",
            id="no-unit",
        ),
        pytest.param(
            "config.sources.java[0].name=x,config.sources.java[0].url=http://h/,"
            "config.sources.java[0].timeout=soon",
            'config.sources.java[0].timeout must be a duration such as 500ms, 15s or 5m, not "soon"',
            id="in-a-list",
        ),
        pytest.param(
            "config.clients.rules[0].connections_max_idle=false",
            "config.clients.rules[0].connections_max_idle must be a duration such as 500ms, 15s or"
            " 9m, or off, not false",
            id="off",
        ),
        pytest.param(
            "config.journal.file.path=/x,config.journal.file.max_bytes=1GB",
            'config.journal.file.max_bytes must be a size such as 64KiB or 16MiB, not "1GB"',
            id="size",
        ),
        pytest.param(
            "podMonitor.interval=30",
            "podMonitor.interval must be a duration such as 30s or 1m, not 30",
            id="interval",
        ),
        pytest.param(
            "sidecar.journalSize=5MB",
            'sidecar.journalSize must be a size as Kubernetes has it, such as 256Mi, not "5MB"',
            id="volume",
        ),
        pytest.param(
            "rollups.memory=2GB", "rollups.memory must be a heap as Java has it", id="heap"
        ),
        pytest.param(
            "rollups.schedule=hourly", "rollups.schedule must be five fields as in cron", id="cron"
        ),
        pytest.param("rollups.kafka=kafka", "rollups.kafka must be host:port", id="servers"),
        pytest.param(
            "networkPolicy.enabled=true", "networkPolicy.allowOtherPorts is needed: true", id="from"
        ),
        pytest.param(
            "inject.enabled=true",
            "image.repository is needed: build the image with tools/build_image.sh",
            id="image",
        ),
    ],
)
def test_a_value_that_cannot_be_right_is_told(setting, words):
    assert words in refused(setting)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        pytest.param(
            "web.basicAuthUsers.me=hunter2",
            "web.basicAuthUsers.me must be a bcrypt hash and is not: run `htpasswd -nBC 10 me`",
            id="user",
        ),
        pytest.param(
            "rollups.report.pushgateway=http://me:hunter2@pushgateway:9091",
            "rollups.report.pushgateway must be a URL such as http://pushgateway.monitoring:9091,"
            " without a user or a password",
            id="pushgateway",
        ),
        pytest.param(
            "rollups.kafkaOptions.sasl\\.jaas\\.config=hunter2",
            "rollups.kafkaOptions has sasl.jaas.config in clear text",
            id="jaas",
        ),
        pytest.param(
            "rollups.kafkaOptions.ssl\\.keystore\\.key=hunter2",
            "rollups.kafkaOptions has ssl.keystore.key in clear text",
            id="key",
        ),
        pytest.param(
            "rollups.kafkaOptions.ssl\\.key\\.passphrase=hunter2",
            "rollups.kafkaOptions has ssl.key.passphrase in clear text",
            id="passphrase",
        ),
        pytest.param(
            "rollups.sparkConf.spark\\.hadoop\\.fs\\.s3a\\.secret\\.key=hunter2",
            "rollups.sparkConf has spark.hadoop.fs.s3a.secret.key in clear text, which would stand"
            " in a ConfigMap",
            id="spark",
        ),
        pytest.param(
            "rollups.env[0].name=AWS_SECRET_ACCESS_KEY,rollups.env[0].value=hunter2",
            "rollups.env has AWS_SECRET_ACCESS_KEY in clear text",
            id="environment",
        ),
        pytest.param(
            "config.journal.kafka.bootstrap_servers=k:1,config.journal.kafka.spool_folder=/s,"
            "config.journal.kafka.client.sasl\\.password=hunter2",
            "config.journal.kafka.client.sasl.password is a secret in clear text",
            id="journal",
        ),
        pytest.param(
            "config.brokers.metadata.bootstrap_servers=k:1,"
            "config.brokers.metadata.client.ssl\\.certificate\\.pem=-----BEGIN PRIVATE KEY-----hunter2",
            "config.brokers.metadata.client.ssl.certificate.pem is a secret in clear text",
            id="PEM",
        ),
    ],
)
def test_a_secret_is_not_repeated(setting, words):
    rollups = ("rollups.kind=cronjob", "rollups.image.repository=x", "rollups.kafka=k:1")
    told = refused(*rollups, "rollups.claim=c", setting)
    assert words in told
    assert "hunter2" not in told


def test_what_leads_to_a_secret_is_let_through():
    done = run(
        tool("helm"),
        "template",
        "bw",
        CHART,
        "--set=rollups.sparkConf.spark\\.hadoop\\.fs\\.s3a\\.secret\\.key=${env.S3_KEY}",
        "--set=config.journal.kafka.client.sasl\\.password=file:/run/secrets/password",
        "--set=config.journal.kafka.client.ssl\\.key\\.location=/run/secrets/key.pem",
        "--set=config.journal.kafka.bootstrap_servers=k:1,config.journal.kafka.spool_folder=/s",
    )
    assert done.returncode == 0, done.stderr


def test_all_of_them_are_told_at_once():
    told = refused("image.digest=x", "sidecar.runAsGroup=0", "config.poll.interval=1")
    for word in ("image.digest must", "sidecar.runAsGroup must", "config.poll.interval must"):
        assert word in told


def test_the_agent_says_the_same_of_a_duration(tmp_path):
    """One sentence, whoever looks first."""
    file = tmp_path / "brokerwire.yaml"
    file.write_text("poll: {interval: soon}")
    with pytest.raises(ConfigError, match=KINDS["kinds"]["duration"]["words"]):
        read_settings(str(file))


def test_annotations_are_whole():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    found = chart["annotations"]
    known = {"category", "license", "prerelease", "operator", "containsSecurityUpdates", "changes"}
    assert {name.removeprefix("artifacthub.io/") for name in found} == known
    assert all(isinstance(each, str) for each in found.values())
    assert found["artifacthub.io/category"] == "monitoring-logging"
    assert found["artifacthub.io/prerelease"] == ("true" if chart["version"] < "1" else "false")
    changes = yaml.safe_load(found["artifacthub.io/changes"])
    kinds = {"added", "changed", "deprecated", "removed", "fixed", "security"}
    assert all(set(each) == {"kind", "description"} for each in changes)
    assert all(each["kind"] in kinds for each in changes)
    told = " ".join(each["description"] for each in changes)
    # What a first version has: all that can be switched on.
    for word in (
        "Sidecar", "MutatingAdmissionPolicy", "PodMonitor", "ServiceMonitor", "PrometheusRule",
        "dashboards", "NetworkPolicy", "TLS", "basic auth", "Alertmanager", "DaemonSet",
        "Journals", "Rollups", "CronJob", "SparkApplication",
    ):  # fmt: skip
        assert word in told, word


def test_annotations_name_the_license_and_the_version_of_the_project():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    root = CHART.parents[1]
    assert f'__version__ = "{chart["appVersion"]}"' in (root / "exporter/__init__.py").read_text()
    license_line = f'license = "{chart["annotations"]["artifacthub.io/license"]}"'
    assert license_line in (root / "pyproject.toml").read_text()
