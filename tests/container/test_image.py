"""The image: small, closed, known to the last package, and the same each time it is built."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.container.pods import (
    CLOSED,
    IMAGE,
    REPOSITORY,
    agent_image,
    build,
    need_podman,
    podman,
)

pytestmark = [pytest.mark.container, pytest.mark.timeout(900)]
LARGEST = 90_000_000


@pytest.fixture(scope="module")
def image() -> dict:
    need_podman()
    return agent_image()


@pytest.fixture(scope="module")
def root(image, tmp_path_factory):
    """The image's root file system."""
    assert image["Size"]
    folder = tmp_path_factory.mktemp("root")
    container = podman("create", IMAGE)
    try:
        archive = folder / "root.tar"
        podman("export", "--output", str(archive), container)
        subprocess.run(["tar", "-x", "-C", folder, "-f", archive], check=True)
    finally:
        podman("rm", container)
    return folder


@pytest.mark.usefixtures("image")
def test_runs_closed():
    words = podman("run", "--rm", *CLOSED, IMAGE, "--version")
    assert re.fullmatch(r"brokerwire \d+\.\d+\.\d+", words)


def test_is_nobodys_root(image):
    assert image["Config"]["User"] == "65532:65532"
    assert image["Config"]["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_is_small(image):
    assert image["Size"] < LARGEST


def test_has_no_shell_and_no_package_manager(root):
    programs = {path.name for path in (root / "usr" / "bin").iterdir()}
    assert programs == {"python3.11", "brokerwire"}
    assert not (root / "bin").exists()
    setuid = [p for p in root.rglob("*") if p.is_file() and p.stat().st_mode & 0o6000]
    assert not setuid


def test_bill_of_materials_is_what_is_locked(root):
    document = json.loads((root / "usr/share/brokerwire/sbom.cdx.json").read_text())
    found = {
        each["purl"].removeprefix("pkg:pypi/")
        for each in document["components"]
        if each["purl"].startswith("pkg:pypi/")
    }
    locked = set(
        re.findall(
            r"^(\S+)==(\S+)", (REPOSITORY / "requirements/runtime.txt").read_text(), re.MULTILINE
        )
    )
    wanted = {f"{name}@{version}" for name, version in locked}
    ours = {each for each in found if each.startswith("brokerwire@")}
    assert {each.replace("_", "-") for each in found - ours} == wanted
    assert len(ours) == 1
    names = {each["name"] for each in document["components"]}
    assert {"libc6", "libssl3", "python3.11-minimal", "ca-certificates"} <= names


@pytest.mark.usefixtures("image")
def test_can_do_what_the_agent_does():
    """TLS, netlink, names: what a missing library would take away shows here, not in a pod."""
    code = (
        "import ssl, bcrypt, confluent_kafka, psutil, yaml, asyncio, socket, exporter.agent,"
        " exporter.web.server, exporter.commands.demo\n"
        "assert ssl.create_default_context().get_ca_certs()\n"
        "assert bcrypt.checkpw(b'x', bcrypt.hashpw(b'x', bcrypt.gensalt(4)))\n"
        "confluent_kafka.Producer({'bootstrap.servers': 'localhost:1'})\n"
        "print(socket.getaddrinfo('localhost', 80)[0][4][0])"
    )
    entry = ("--entrypoint", "/usr/bin/python3.11")
    words = podman("run", "--rm", *CLOSED, *entry, IMAGE, "-I", "-c", code)
    assert words in {"127.0.0.1", "::1"}


def test_two_builds_are_one_image(image):
    other = "localhost/brokerwire:again"
    again = build(other)
    # Named twice: the image, and the one of its names to take away, or it would lose all of them.
    podman("untag", other, other)
    assert again["RootFS"]["Layers"] == image["RootFS"]["Layers"]
    assert again["Id"] == image["Id"]
