"""A bare environment: it sees what is installed beside pytest, but no editable
install."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path


def packages(folder):
    """Return where an environment's own packages are."""
    (found,) = folder.glob("lib/python*/site-packages")
    return found


def make(folder, *wheels):
    """Make an environment, and unpack wheels in it.

    Its one .pth names the folders of packages that this Python uses. The .pth files in
    these are not read, and they are what editable installs are.
    """
    command = [sys.executable, "-m", "venv", "--without-pip", folder]
    subprocess.run(command, check=True)
    named = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages(folder) / "parent.pth").write_text("\n".join(named))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages(folder))
    return folder


def run(folder, *command, cwd, ok=True):
    """Run a command of an environment, as if it were active, and return what it
    says."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    binaries = (folder / "bin", Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join([*map(str, binaries), os.environ["PATH"]])
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [folder / "bin" / "python", *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout + done.stderr
