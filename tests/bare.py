"""A bare environment: it sees what is installed beside pytest, but no editable
install."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

# The folders of packages that this Python uses; the .pth files in them are not read in a
# bare environment, and they are what editable installs are.
PARENTS = [Path(path) for path in sys.path if Path(path).name == "site-packages"]


def packages(folder):
    """Return where an environment's own packages are."""
    (found,) = folder.glob("lib/python*/site-packages")
    return found


def make(folder, *wheels):
    """Make an environment whose one .pth names the parents, and unpack wheels in it."""
    command = [sys.executable, "-m", "venv", "--without-pip", folder]
    subprocess.run(command, check=True)
    (packages(folder) / "parents.pth").write_text("\n".join(map(str, PARENTS)))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages(folder))
    return folder


def run(folder, *command, cwd, ok=True, **variables):
    """Run a command of an environment, as if it were active, and return what it
    says."""
    homes = [folder, *(path.parents[2] for path in PARENTS)]
    binaries = [*(str(home / "bin") for home in homes), os.environ["PATH"]]
    shared = [str(home / "share" / "jupyter") for home in homes]
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "PATH": os.pathsep.join(binaries),
        "JUPYTER_PATH": os.pathsep.join(shared),
        "PYTHONDONTWRITEBYTECODE": "1",
        **variables,
    }
    done = subprocess.run(
        [folder / "bin" / "python", *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout + done.stderr
