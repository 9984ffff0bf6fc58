"""Collects the root file system of the image: an interpreter, what it links to, and our packages.

Runs inside the base image at build time, on the standard library alone. What is copied is named in
an SBOM (CycloneDX) with the package that it came from, at /usr/share/brokerwire/sbom.cdx.json.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import compileall
import hashlib
import json
import os
import py_compile
import re
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

INTERPRETER = Path("/usr/bin/python3.11")
LIBRARY = Path("/usr/lib/python3.11")
# Where Debian's interpreter looks by itself, also in isolated mode.
PACKAGES = Path("usr/local/lib/python3.11/dist-packages")
# Parts of the standard library that no server needs.
UNUSED = frozenset(
    {
        "__pycache__", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter",
        "turtledemo", "unittest", "distutils", "venv", "config-3.11-x86_64-linux-gnu",
        "config-3.11-aarch64-linux-gnu", "dbm", "curses", "sqlite3", "msilib",
    }
)  # fmt: skip
# A database or a terminal would bring libraries that nothing here calls.
_UNUSED_EXTENSION = re.compile(r"_(sqlite3|curses|curses_panel|dbm|gdbm|tkinter|crypt)\.|readline")
USER = 65532
LICENSES = Path("/usr/share/doc")


def main() -> None:
    """Fill the folder that becomes the image's root."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--site", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument("--version", required=True)
    parser.add_argument("--name", default="brokerwire")
    parser.add_argument("--list", action="store_true", help="only list what is in --root")
    options = parser.parse_args()
    root: Path = options.root
    if options.list:
        _write_sbom(root, _installed(), options.name, options.version)
        return
    copied = _copy_python(root)
    shutil.copytree(options.site, root / PACKAGES, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(root / PACKAGES / "bin", ignore_errors=True)
    copied += _copy_libraries(root)
    _write_system_files(root)
    packages = _owners(copied)
    _copy_licenses(root, packages)
    _write_sbom(root, packages, options.name, options.version)
    _compile(root)
    _settle(root, options.epoch)


def _copy_python(root: Path) -> list[Path]:
    copied = [INTERPRETER]
    _copy(INTERPRETER, root)
    for folder, folders, names in os.walk(LIBRARY):
        folders[:] = sorted(each for each in folders if each not in UNUSED)
        for name in sorted(names):
            path = Path(folder, name)
            # A database or a terminal would bring libraries that nothing here calls.
            if re.match(
                r"_(sqlite3|curses|curses_panel|dbm|gdbm|tkinter|crypt)\.|readline\.", name
            ):
                continue
            _copy(path, root)
            copied.append(path)
    return copied


def _copy_libraries(root: Path) -> list[Path]:
    """Copy what the interpreter and every extension module link to."""
    extensions = sorted(root.rglob("*.so*"))
    needed = sorted(set(_linked([INTERPRETER, *extensions])))
    # A wheel's own libraries lie beside it and are there already.
    needed = [path for path in needed if not path.is_relative_to(root)]
    for path in needed:
        _copy(path, root)
    return needed


def _linked(programs: Iterable[Path]) -> Iterable[Path]:
    for program in programs:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            found = re.search(r"(?:^\s*|=> )(/\S+) \(0x", line)
            if found is None:
                if "not found" in line:
                    raise SystemExit(f"{program}: {line.strip()}")
                continue
            yield Path(found[1])


def _copy(path: Path, root: Path) -> None:
    """Copy a file under its own name; a link becomes the file that it means."""
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path.resolve(), target)
    shutil.copymode(path.resolve(), target)


def _write_system_files(root: Path) -> None:
    files = {
        "etc/passwd": f"brokerwire:x:{USER}:{USER}:brokerwire:/:/sbin/nologin\n",
        "etc/group": f"brokerwire:x:{USER}:\n",
        "etc/nsswitch.conf": "hosts: files dns\n",
        "usr/bin/brokerwire": (
            f"#!{INTERPRETER} -I\n"
            "from exporter.cli import entry_point\n\n"
            'if __name__ == "__main__":\n    raise SystemExit(entry_point())\n'
        ),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "usr/bin/brokerwire").chmod(0o755)
    for name in ("etc/ssl/certs/ca-certificates.crt", "etc/ssl/openssl.cnf", "etc/os-release"):
        _copy(Path("/", name), root)
    # OpenSSL's default folder; where the linker is looked for on merged systems.
    (root / "usr/lib/ssl").mkdir(parents=True, exist_ok=True)
    (root / "usr/lib/ssl/openssl.cnf").symlink_to("/etc/ssl/openssl.cnf")
    (root / "usr/lib/ssl/certs").symlink_to("/etc/ssl/certs")
    (root / "usr/lib/ssl/cert.pem").symlink_to("/etc/ssl/certs/ca-certificates.crt")
    for name in ("tmp", "run", "proc", "sys", "dev"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


def _owners(paths: list[Path]) -> dict[str, str]:
    """Return the Debian packages that files came from, with their versions."""
    names = {str(path) for path in paths} | {str(path.resolve()) for path in paths}
    # dpkg knows a library under /lib or /usr/lib, as its package has it.
    names |= {name.removeprefix("/usr") for name in names} | {"/etc/ssl/openssl.cnf"}
    done = subprocess.run(
        ["dpkg-query", "--search", *sorted(names)], capture_output=True, text=True, check=False
    )
    owners = {
        owner.strip().partition(":")[0]
        for line in done.stdout.splitlines()
        for owner in line.rpartition(": ")[0].split(",")
        if "diversion" not in line
    }
    owners |= {"ca-certificates", "base-files"}
    done = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\n", *sorted(owners)],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def _copy_licenses(root: Path, packages: dict[str, str]) -> None:
    for name in packages:
        text = LICENSES / name / "copyright"
        if text.exists():
            _copy(text, root)


def _installed() -> dict[str, str]:
    """Return every Debian package of this very system, with its version."""
    done = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\n"],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def _jars(root: Path) -> list[dict[str, Any]]:
    """List the jars beside PySpark's own by their digests: they are pinned by these."""
    return [
        {
            "type": "library",
            "name": path.stem,
            "hashes": [
                {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}
            ],
        }
        for path in sorted((root / "opt" / "brokerwire").rglob("*.jar"))
    ]


def _write_sbom(root: Path, packages: dict[str, str], image: str, version: str) -> None:
    components: list[dict[str, Any]] = [
        {
            "type": "library",
            "name": name,
            "version": found,
            "purl": f"pkg:deb/debian/{name}@{found.replace(':', '%3A').replace('+', '%2B')}",
        }
        for name, found in sorted(packages.items())
    ]
    for info in sorted((root / PACKAGES).glob("*.dist-info")):
        head = (info / "METADATA").read_text("utf-8").partition("\n\n")[0]
        fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
        components.append(
            {
                "type": "library",
                "name": fields["Name"],
                "version": fields["Version"],
                "purl": f"pkg:pypi/{fields['Name'].lower()}@{fields['Version']}",
            }
        )
    components += _jars(root)
    digest = hashlib.sha256(json.dumps(components).encode()).hexdigest()
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # From the contents: the same image has the same.
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32])}",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": image, "version": version}},
        "components": components,
    }
    target = root / "usr/share/brokerwire/sbom.cdx.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1) + "\n")


def _compile(root: Path) -> None:
    """Compile ahead, as a read-only root can never; hashes in place of times keep it repeatable."""
    compileall.compile_dir(
        root / "usr",
        quiet=2,
        stripdir=str(root),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def _settle(root: Path, epoch: int) -> None:
    """Give every file the same owner and time: two builds are one image."""
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = os.path.join(folder, name)  # noqa: PTH118 - a path a file
            os.chown(path, 0, 0, follow_symlinks=False)
            if not os.path.islink(path):  # noqa: PTH114
                mode = os.stat(path).st_mode & 0o1777  # noqa: PTH116
                os.chmod(path, mode | 0o444 if os.path.isfile(path) else mode | 0o555)  # noqa: PTH101, PTH113
            os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))


if __name__ == "__main__":
    main()
