"""The chart: every supported shape against real schemas, and what it makes of good and bad values."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from exporter.clients.pod_annotations import NAMES
from exporter.config.files import read_settings
from exporter.http.web_config_reader import read_web_config
from tests.e2e.monitoring import tool as prometheus_tool
from tests.helm.tools import (
    CHART,
    NEWEST,
    OLDEST,
    REPOSITORY,
    SHAPES,
    application_chart,
    conform,
    deployment_in,
    objects_of,
    render,
    run,
    sidecar_of,
    tool,
    write_schemas,
)

pytestmark = pytest.mark.helm

# The policy is of 1.36; an older API server does not know its kind.
NEW_ONLY = {"inject"}
IMAGE = ("--set", "image.repository=registry.example/brokerwire")
shapes = pytest.mark.parametrize(
    "shape", SHAPES, ids=lambda path: path.name[: -len("-values.yaml")]
)
versions = pytest.mark.parametrize("version", [OLDEST, NEWEST])


@pytest.fixture(scope="module")
def schemas(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("schemas")
    for version in (OLDEST, NEWEST):
        write_schemas(folder, version)
    return folder


@pytest.fixture(scope="module")
def application(tmp_path_factory) -> Path:
    return application_chart(tmp_path_factory.mktemp("charts"))


def as_dependency(shape: Path, folder: Path) -> Path:
    """Write the values of a shape as those of an application's chart."""
    values = folder / "values.yaml"
    mine = yaml.safe_load(shape.read_text()) or {}
    if shape.name.startswith("default"):
        mine = {"image": {"repository": "registry.example/brokerwire"}}
    values.write_text(yaml.safe_dump({"brokerwire": mine}))
    return values


def config_of(deployment: dict, folder: Path):
    text = deployment["spec"]["template"]["metadata"]["annotations"]["brokerwire/config"]
    file = folder / "brokerwire.yaml"
    file.write_text(text)
    return read_settings(str(file))


def test_lint_is_content():
    done = run(tool("helm"), "lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout + done.stderr


def test_unit_tests_pass():
    done = run(tool("helm-unittest"), CHART)
    assert done.returncode == 0, done.stdout


def test_readme_is_what_helm_docs_makes():
    done = run(tool("helm-docs"), "-c", CHART, "--sort-values-order", "file", "--dry-run")
    assert done.stdout.rstrip() == (CHART / "README.md").read_text().rstrip(), "run make chart"


def test_readme_names_the_helm_that_the_tests_run():
    version = run(tool("helm"), "version", "--template", "{{.Version}}").stdout.removeprefix("v")
    assert f"Tested with Helm {version.rpartition('.')[0]};" in (CHART / "README.md").read_text()


def test_no_dashboard_needs_the_recording_rules():
    """As values.yaml says of `prometheusRule.recording`."""
    rules = yaml.safe_load((REPOSITORY / "rules" / "recording.yaml").read_text())
    names = [rule["record"] for group in rules["groups"] for rule in group["rules"]]
    boards = "".join(path.read_text() for path in (REPOSITORY / "dashboards").glob("*.json"))
    assert names
    assert [name for name in names if name in boards] == []


def test_every_value_is_described_and_in_the_schema():
    done = run(tool("helm-docs"), "-c", CHART, "--documentation-strict-mode", "--dry-run")
    assert done.returncode == 0, done.stderr
    # An image's repository may be without a word there; here it may not.
    assert "|  |" not in done.stdout


@versions
@shapes
def test_shape_conforms(shape, version, schemas):
    if version == OLDEST and any(shape.name.startswith(name) for name in NEW_ONLY):
        done = run(tool("helm"), "template", "bw", CHART, "--kube-version", version, "-f", shape)
        assert "inject.enabled needs Kubernetes 1.36" in done.stderr
        return
    done = conform(render(CHART, "-f", shape, version=version), schemas, version)
    assert done.returncode == 0, done.stdout


@versions
@shapes
def test_application_with_the_shape_conforms(shape, version, schemas, application, tmp_path):
    values = as_dependency(shape, tmp_path)
    arguments = ["-f", values, "--set", "brokerwire.inject.enabled=false"]
    text = render(application, *arguments, version=version)
    done = conform(text, schemas, version)
    assert done.returncode == 0, done.stdout
    deployment = deployment_in(text)
    is_native = version == NEWEST and "librdkafka" not in shape.name
    sidecar = sidecar_of(deployment, "initContainers" if is_native else "containers")
    assert sidecar.get("restartPolicy") == ("Always" if is_native else None)
    assert config_of(deployment, tmp_path) is not None


def test_schemas_tell_good_from_bad(schemas):
    bad = render(CHART, "-f", CHART / "ci" / "operator-values.yaml")
    bad = bad.replace("podMetricsEndpoints:", "podMetricEndpoints:")
    assert conform(bad, schemas, NEWEST).returncode == 1


def test_sidecar_is_closed(application, tmp_path):
    text = render(application, "-f", as_dependency(SHAPES[0], tmp_path))
    context = sidecar_of(deployment_in(text), "initContainers")["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_policy_and_include_make_the_same_container(application, tmp_path):
    """What is decided for each pod by the policy is two ids; all else is one text."""
    shape = CHART / "ci" / "inject-values.yaml"
    text = render(application, "-f", as_dependency(shape, tmp_path))
    sidecar = sidecar_of(deployment_in(text), "initContainers")
    policy = next(each for each in objects_of(text) if each["kind"] == "MutatingAdmissionPolicy")
    variables = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
    plain = re.sub(r"dyn\(|\)", "", variables["sidecar"])
    injected = yaml.safe_load(re.sub(r"variables\.[ug]id", "1000", plain))
    assert injected == sidecar


def test_an_application_brings_its_sidecar_and_nothing_else(application):
    """What a cluster needs once is the business of a release of its own."""
    text = render(application)
    named = [(each["kind"], each["metadata"]["name"]) for each in objects_of(text)]
    # The rules for the JVM are the application's own.
    assert named == [("ConfigMap", "bw-jmx-rules"), ("Deployment", "bw")]
    spec = deployment_in(text)["spec"]["template"]["spec"]
    assert [each["name"] for each in spec["initContainers"]] == ["brokerwire", "jmx-exporter"]
    assert [each["name"] for each in spec["containers"]] == ["orders"]
    assert [each["name"] for each in spec["volumes"]] == ["jmx", "jmx-rules", "brokerwire-config"]
    alone = {each["kind"] for each in objects_of(render(CHART))}
    assert alone == {"ConfigMap"}


def test_what_an_application_asks_for_is_about_its_own_pods(application, tmp_path):
    """Two applications in one namespace: each pod is scraped once, and each has one policy."""
    shape = CHART / "ci" / "librdkafka-values.yaml"
    arguments = [
        "-f",
        as_dependency(shape, tmp_path),
        "--set",
        "brokerwire.podMonitor.enabled=true",
    ]
    found = {each["kind"]: each for each in objects_of(render(application, *arguments))}
    assert set(found) == {"ConfigMap", "Deployment", "PodMonitor", "NetworkPolicy"}
    wanted = {"brokerwire/agent": "true", "brokerwire/release": "bw"}
    assert found["PodMonitor"]["spec"]["selector"]["matchLabels"] == wanted
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == wanted
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert wanted.items() <= labels.items()
    # A Deployment's selector can never be changed: it must not have them.
    assert not wanted.keys() & found["Deployment"]["spec"]["selector"]["matchLabels"].keys()


def test_dashboards_come_with_an_application_that_asks_for_them(application):
    found = objects_of(render(application, "--set", "brokerwire.dashboards.enabled=true"))
    labelled = [each for each in found if "grafana_dashboard" in each["metadata"].get("labels", {})]
    assert len(labelled) == len(list((REPOSITORY / "dashboards").glob("*.json")))


def test_registry_secrets_stand_beside_the_applications_own(application, tmp_path):
    values = tmp_path / "values.yaml"
    secrets = [{"name": "registry"}, {"name": "orders"}]
    given = {"image": {"repository": "registry.example/brokerwire"}, "imagePullSecrets": secrets}
    values.write_text(yaml.safe_dump({"brokerwire": given}))
    broken = tmp_path / "orders"
    shutil.copytree(application, broken)
    template = broken / "templates" / "deployment.yaml"
    own = "spec:\n  imagePullSecrets: [{name: orders}]\n  securityContext:\n    runAsUser"
    text = template.read_text().replace("spec:\n  securityContext:\n    runAsUser", own)
    template.write_text(text)
    spec = deployment_in(render(broken, "-f", values))["spec"]["template"]["spec"]
    assert spec["imagePullSecrets"] == [{"name": "orders"}, {"name": "registry"}]


def test_shared_settings_reach_the_agent(application, tmp_path):
    shape = CHART / "ci" / "librdkafka-values.yaml"
    text = render(application, "-f", as_dependency(shape, tmp_path))
    deployment = deployment_in(text)
    settings = config_of(deployment, tmp_path)
    assert settings.brokers.max_connections == 2_000_000
    assert settings.sources.librdkafka.unix_socket == "/run/brokerwire/statistics.sock"
    assert settings.sources.librdkafka.unix_socket_mode == 0o666
    spec = deployment["spec"]["template"]["spec"]
    assert all(
        {"name": "brokerwire-run", "mountPath": "/run/brokerwire"} in each["volumeMounts"]
        for each in spec["containers"]
    )


@pytest.mark.parametrize(
    ("cleared", "asks_clients", "users"),
    [
        pytest.param((), True, {"prometheus"}, id="all"),
        pytest.param(("web.tls.clientAuth=false",), False, {"prometheus"}, id="no-client-auth"),
        pytest.param(("web.basicAuthUsers=null",), True, set(), id="no-users"),
        pytest.param(("web.tls.secretName=",), None, {"prometheus"}, id="no-tls"),
    ],
)
def test_web_file_is_what_the_agent_reads(cleared, asks_clients, users):
    """The agent's own reader takes it, and what it names is where the sidecar has it."""
    shape = CHART / "ci" / "tls-values.yaml"
    settings = [part for each in cleared for part in ("--set", f"{each}")]
    text = render(CHART, "-f", shape, *settings)
    (secret,) = [each for each in objects_of(text) if each["kind"] == "Secret"]
    web = read_web_config(secret["stringData"]["web.yaml"], "web.yaml")
    assert set(web.basic_auth_users) == users
    tls = web.tls_server_config
    assert (None if tls is None else tls.asks_clients) is asks_clients
    if tls is not None:
        named = {tls.cert_file, tls.key_file, tls.client_ca_file} - {None}
        assert named <= {f"/etc/brokerwire-tls/{name}" for name in ("tls.crt", "tls.key", "ca.crt")}


def test_web_file_and_certificate_are_mounted_where_they_are_looked_for(application, tmp_path):
    text = render(application, "-f", as_dependency(CHART / "ci" / "tls-values.yaml", tmp_path))
    deployment = deployment_in(text)
    sidecar = sidecar_of(deployment, "initContainers")
    mounts = {each["mountPath"]: each["name"] for each in sidecar["volumeMounts"]}
    volumes = {each["name"]: each for each in deployment["spec"]["template"]["spec"]["volumes"]}
    (made,) = [each for each in objects_of(text) if each["kind"] == "Secret"]
    file = Path(config_of(deployment, tmp_path).web.config_file)
    assert file.name in made["stringData"]
    assert volumes[mounts[str(file.parent)]]["secret"]["secretName"] == made["metadata"]["name"]
    tls = read_web_config(made["stringData"][file.name], file.name).tls_server_config
    folder = str(Path(tls.cert_file).parent)
    assert volumes[mounts[folder]]["secret"]["secretName"] == "orders-tls"


def test_the_pods_annotations_are_the_files_that_the_agent_reads(application, tmp_path):
    deployment = deployment_in(render(application))
    folder = Path(config_of(deployment, tmp_path).sources.pod_annotations)
    mounts = {
        each["mountPath"]: each["name"]
        for each in sidecar_of(deployment, "initContainers")["volumeMounts"]
    }
    volumes = {each["name"]: each for each in deployment["spec"]["template"]["spec"]["volumes"]}
    shown = {
        each["path"]: each["fieldRef"]["fieldPath"]
        for each in volumes[mounts[str(folder.parent)]]["downwardAPI"]["items"]
    }
    assert {
        f"{folder.name}/{name}": f"metadata.annotations['prometheus.io/{name}']" for name in NAMES
    }.items() <= shown.items()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--set", "sidecar.readPodAnnotations=false", "--set", "inject.enabled=true"]),
        pytest.param(["--set", "daemonset.enabled=true"]),
    ],
    ids=["switched off", "a node's agent, whose own pod has no clients"],
)
def test_a_pods_annotations_are_left_alone(arguments):
    text = render(CHART, *IMAGE, *arguments)
    assert "brokerwire/config" in text
    assert "prometheus.io/" not in text
    assert "pod_annotations" not in text


def test_a_journal_has_a_volume_and_says_whose_it_is(application, tmp_path):
    shape = CHART / "ci" / "journal-values.yaml"
    text = render(application, "-f", as_dependency(shape, tmp_path))
    deployment = deployment_in(text)
    journal = config_of(deployment, tmp_path).journal
    assert journal.labels == {
        "cluster": "prod",
        "namespace": "file:/etc/brokerwire/namespace",
        "pod": "file:/etc/brokerwire/pod",
        "service": "file:/etc/brokerwire/service",
    }
    volumes = {each["name"]: each for each in deployment["spec"]["template"]["spec"]["volumes"]}
    told = {each["path"] for each in volumes["brokerwire-config"]["downwardAPI"]["items"]}
    annotations = {f"annotations/{name}" for name in NAMES}
    assert told == {"brokerwire.yaml", "namespace", "pod", "service", *annotations}
    assert volumes["brokerwire-journal"] == {
        "name": "brokerwire-journal",
        "emptyDir": {"sizeLimit": "512Mi"},
    }
    mounts = sidecar_of(deployment, "initContainers")["volumeMounts"]
    folder = next(each["mountPath"] for each in mounts if each["name"] == "brokerwire-journal")
    assert journal.kafka.spool_folder.startswith(f"{folder}/")


def test_example_brings_the_java_metrics_that_it_names(application, tmp_path):
    """From the init container's copy to the page that the sidecar asks: one path, one port."""
    text = render(application)
    deployment = deployment_in(text)
    spec = deployment["spec"]["template"]["spec"]
    sidecar, bringer = spec["initContainers"]
    (client,) = [each for each in spec["containers"] if each["name"] == "orders"]
    (option,) = [e["value"] for e in client["env"] if e["name"] == "JAVA_TOOL_OPTIONS"]
    jar, address, rules = re.fullmatch(
        r"-javaagent:(/[^=]+)=(127\.0\.0\.1:\d+):(/.+)", option
    ).groups()
    (source,) = config_of(deployment, tmp_path).sources.java
    assert source.url == f"http://{address}/metrics"
    volumes = {each["name"]: each for each in spec["volumes"]}
    brought = {each["mountPath"]: each["name"] for each in bringer["volumeMounts"]}
    mounted = {each["mountPath"]: each["name"] for each in client["volumeMounts"]}
    _, copied, target = bringer["command"]
    assert Path(target, Path(copied).name) == Path(jar)
    assert brought[str(Path(jar).parent)] == mounted[str(Path(jar).parent)]
    name = volumes[mounted[str(Path(rules).parent)]]["configMap"]["name"]
    (made,) = [each for each in objects_of(text) if each["metadata"]["name"] == name]
    ours = (REPOSITORY / "examples" / "jmx_exporter" / "brokerwire.yaml").read_text()
    assert yaml.safe_load(made["data"][Path(rules).name]) == yaml.safe_load(ours)
    assert sidecar["name"] == "brokerwire"


def test_image_is_named_by_digest(application, tmp_path):
    shape = CHART / "ci" / "operator-values.yaml"
    text = render(application, "-f", as_dependency(shape, tmp_path))
    image = sidecar_of(deployment_in(text), "initContainers")["image"]
    assert image == f"registry.example/brokerwire@sha256:{'0123456789abcdef' * 4}"


def test_rendered_rules_are_rules(tmp_path):
    text = render(CHART, "-f", CHART / "ci" / "operator-values.yaml")
    rules = [each for each in objects_of(text) if each["kind"] == "PrometheusRule"]
    files = []
    for rule in rules:
        files.append(tmp_path / f"{rule['metadata']['name']}.yaml")
        files[-1].write_text(yaml.safe_dump(rule["spec"]))
    done = run(prometheus_tool("promtool"), "check", "rules", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    ours = [
        yaml.safe_load((REPOSITORY / "rules" / f"{name}.yaml").read_text())
        for name in ("alerts", "recording")
    ]
    assert [group["name"] for rule in rules for group in rule["spec"]["groups"]] == [
        group["name"] for file in ours for group in file["groups"]
    ]


def test_mode_without_quotes_is_refused(tmp_path):
    """Helm reads it as 438, which is no mode that anybody meant."""
    values = tmp_path / "values.yaml"
    values.write_text("config: {sources: {librdkafka: {unix_socket_mode: 0666}}}")
    done = run(tool("helm"), "template", "bw", CHART, "-f", values)
    assert done.returncode != 0
    assert "config/sources/librdkafka/unix_socket_mode" in done.stderr
    values.write_text(values.read_text().replace("0666", '"0666"'))
    done = run(tool("helm"), "template", "bw", CHART, "-f", values)
    assert done.returncode == 0, done.stderr


def test_old_cluster_is_told_what_to_do(application, tmp_path):
    values = as_dependency(SHAPES[0], tmp_path)
    done = run(
        tool("helm"), "template", "bw", application, "-f", values,
        "--set", "brokerwire.sidecar.mode=native", "--kube-version", "1.28.0",
    )  # fmt: skip
    assert "set sidecar.mode=container" in done.stderr


def test_pod_template_that_is_none_is_named(application, tmp_path):
    deployment = application / "templates" / "deployment.yaml"
    broken = tmp_path / "orders"
    shutil.copytree(application, broken)
    text = deployment.read_text().replace('(include "orders.podTemplate" .)', '"metadata: {}"')
    (broken / "templates" / "deployment.yaml").write_text(text)
    done = run(tool("helm"), "template", "bw", broken)
    assert "must be a pod template as YAML" in done.stderr
