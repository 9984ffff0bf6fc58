"""What a release publishes can be built here, installs alone, and is one version everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import exporter
from tools import version

ROOT = Path(__file__).parents[2]
PACKAGES = ("exporter", "journal_schema", "spark_rollups")


def run(*command: object, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )


def release(to: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run(ROOT / "tools" / "release.sh", "--to", to, "--no-chart", *options, timeout=120)


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    done = release(folder)
    assert done.returncode == 0, done.stderr
    return folder


def wheel_of(dist: Path) -> Path:
    (wheel,) = dist.glob("brokerwire-*.whl")
    return wheel


def environment(folder: Path, *arguments: object) -> Path:
    """Install into an environment that has nothing; return its folder of programs."""
    venv.create(folder, with_pip=False)
    assert pip(folder, "install", "-q", *arguments) == ""
    return folder / "bin"


def pip(folder: Path, *arguments: object) -> str:
    python = folder / "bin" / "python"
    done = run(sys.executable, "-m", "pip", "--python", python, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_checksums_are_those_of_the_files(dist):
    assert run("sha256sum", "--check", "SHA256SUMS", cwd=dist).returncode == 0
    assert len((dist / "SHA256SUMS").read_text().splitlines()) == 4


def test_the_same_commit_gives_the_same_files(dist, tmp_path):
    assert release(tmp_path).returncode == 0
    assert (tmp_path / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def test_the_wheel_has_every_file_of_its_packages_and_no_other(dist):
    with zipfile.ZipFile(wheel_of(dist)) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tracked = run("git", "ls-files", "--", *PACKAGES, cwd=ROOT).stdout.split()
    assert packed == {name for name in tracked if (ROOT / name).exists()}


def test_the_wheel_made_from_the_sdist_is_the_wheel(dist, tmp_path):
    (sdist,) = dist.glob("brokerwire-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (top,) = tmp_path.iterdir()
    done = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "made",
               cwd=top)  # fmt: skip
    assert done.returncode == 0, done.stderr
    with (
        zipfile.ZipFile(wheel_of(tmp_path / "made")) as made,
        zipfile.ZipFile(wheel_of(dist)) as of,
    ):
        assert {e.filename: e.CRC for e in made.infolist()} == {
            e.filename: e.CRC for e in of.infolist()
        }


def test_the_wheel_runs_without_the_checkout(dist, tmp_path):
    """Its libraries are those of this environment; brokerwire itself is only the wheel."""
    programs = environment(tmp_path, "--no-index", "--no-deps", wheel_of(dist))
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    options = {"cwd": tmp_path, "env": {"PYTHONPATH": libraries}, "timeout": 60}
    assert run(programs / "brokerwire", "--version", **options).stdout == (
        f"brokerwire {exporter.__version__}\n"
    )
    where = "import exporter.web.page, sys; sys.stdout.write(exporter.web.page.__file__)"
    found = run(programs / "python", "-c", where, **options).stdout
    assert found.startswith(str(tmp_path))


@pytest.mark.ondemand
@pytest.mark.parametrize("pattern", ["brokerwire-*.whl", "brokerwire-*.tar.gz"])
def test_it_installs_with_its_dependencies_and_runs(dist, pattern, tmp_path):
    (file,) = dist.glob(pattern)
    locked = ROOT / "requirements" / "runtime.txt"
    programs = environment(tmp_path, "--require-hashes", "-r", locked)
    # Whatever else it declares would be fetched now, and what is not declared is missing then.
    pip(tmp_path, "install", "-q", file)
    assert "No broken requirements" in pip(tmp_path, "check")
    shown = run(programs / "brokerwire", "config", "show", cwd=tmp_path, timeout=60)
    assert shown.returncode == 0, shown.stderr


def test_a_tag_that_is_not_the_version_is_refused(tmp_path):
    done = release(tmp_path, "--tag", "v99.0.0")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert f"exporter/__init__.py has {exporter.__version__}" in done.stderr


def test_a_version_without_a_changelog_is_refused(tmp_path):
    has_section = f"## [{exporter.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    done = release(tmp_path, "--tag", f"v{exporter.__version__}")
    assert (done.returncode == 0, any(tmp_path.iterdir())) == (has_section, has_section)
    assert ("CHANGELOG.md has no section" in done.stderr) != has_section


def test_there_is_one_version():
    assert {exporter.__version__} == {found for _, found in version.stated()}


def test_no_file_names_an_image_of_another_version():
    """Also in files that `tools/version.py` does not list."""
    named = re.compile(r"registry\.example/brokerwire(?:-rollups)?:([0-9][\w.+-]*)")
    tracked = run("git", "ls-files", "--", "README.md", "docs", "examples", "helm", cwd=ROOT)
    found = {
        (name, each)
        for name in tracked.stdout.split()
        if name.endswith((".md", ".yaml"))
        for each in named.findall((ROOT / name).read_text("utf-8"))
    }
    assert found
    assert {each for _, each in found} == {exporter.__version__}, found


def test_the_workflow_runs_the_gate_and_the_same_script():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    jobs = workflow["jobs"]
    scripts = {
        name: " ".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()
    }
    assert scripts["test"].strip() == ".ci/run"
    assert "tools/release.sh --tag" in scripts["build"]
    assert "tools/build_image.sh" in scripts["image"]
    assert set(jobs["publish"]["needs"]) == {"test", "build", "image"}
    # Nobody but the job that publishes may sign or write.
    assert workflow["permissions"] == {}
    writing = {name for name, job in jobs.items() if "write" in job["permissions"].values()}
    assert writing == {"publish"}
    # No untrusted text in a script: names of refs come through the environment.
    assert "${{ github" not in " ".join(scripts.values())


def test_no_page_installs_by_a_name_that_is_not_published():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for line in page.read_text("utf-8").splitlines():
            assert not re.search(r"(?:pip|pipx|uv tool) install ['\"]?brokerwire", line), page
