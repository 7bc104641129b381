"""A PostgreSQL server and a Dask cluster, started for a test and ended after it."""

import contextlib
import glob
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

END_SECONDS = 120.0


def postgres_programs() -> Path | None:
    """Find the server's programs, which Debian keeps out of the PATH."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    if program := found[-1] if found else shutil.which("initdb"):
        return Path(program).parent
    return None


class Postgres:
    """A server of its own, behind a socket in a folder of its own."""

    def __init__(self, **settings: str):
        self.programs = postgres_programs()
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        # it refuses to run as root
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid())[0]
        if os.getuid() == 0:
            shutil.chown(self.folder, self.user, self.user)
        self.settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            **settings,
        }
        self._run("initdb", "-D", "data", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()
        self._run("createdb", "-h", str(self.folder), "gradebook")
        self.url = f"postgresql+psycopg://{self.user}@/gradebook?host={self.folder}"

    def start(self) -> None:
        given = " ".join(f"-c {name}='{x}'" for name, x in self.settings.items())
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", given, "start")

    def restart(self) -> None:
        """End every connection at once, and start again."""
        self.stop()
        self.start()

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.stop()
        shutil.rmtree(self.folder)

    def query(self, statement: str) -> list[tuple]:
        import psycopg

        place = self.url.replace("+psycopg", "")
        with psycopg.connect(place) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self.programs / program), *arguments],
            cwd=self.folder,
            user=self.user if os.getuid() == 0 else None,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


class Cluster:
    """A Dask scheduler, and workers that are processes of this machine."""

    def __init__(self, folder: Path):
        self.folder, self.workers = folder, []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start the scheduler."""
        self.scheduler = self._start(
            "scheduler",
            "--host=127.0.0.1",
            f"--port={self.port}",
            # as the guide says: it looks at itself 50 times a second otherwise
            DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL="1s",
        )
        end = time.monotonic() + END_SECONDS
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            assert time.monotonic() < end and self.scheduler.poll() is None
            time.sleep(0.1)

    def work(self, **environment: str) -> subprocess.Popen:
        """Start a worker."""
        number = len(self.workers)
        worker = self._start(
            "worker",
            self.address,
            "--no-nanny",
            "--nthreads=1",
            "--nworkers=1",
            f"--name=worker{number}",
            f"--local-directory={self.folder}",
            **environment,
        )
        self.workers.append(worker)
        return worker

    def restart(self) -> None:
        """Kill the scheduler, which forgets everything, and start it again."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.start()

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, what: str, *arguments: str, **environment: str):
        with (self.folder / f"{what}.log").open("a") as log:
            return subprocess.Popen(
                [
                    *(sys.executable, "-m", f"distributed.cli.dask_{what}"),
                    *("--no-dashboard", *arguments),
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **environment},
            )
