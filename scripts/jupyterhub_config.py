"""A JupyterHub for this course: the accounts of one machine and nbgrader's exchange.

As root, from the root of the repository:

    HUB_INSTRUCTORS=ada jupyterhub -f scripts/jupyterhub_config.py

Everybody who has an account here logs in with its password and works under it. What one
account may not read is decided by the machine, not by this file: `HUB_COURSE` has to
belong to the instructor, and be closed to others.

`make hub` sets HUB_LOOK: one password for all, and every server runs under the account
that started the hub. It separates nobody.

HUB_INSTRUCTORS: accounts, with commas between them, that see Formgrader.
HUB_COURSE: the folder of the course, which is this one if nothing else is said.
HUB_STATE: where the hub, the exchange and the book are; /srv/attention.
"""

import json
import os
import sys
from pathlib import Path

c = get_config()

root = Path(__file__).resolve().parents[1]
instructors = set(os.environ.get("HUB_INSTRUCTORS", "").split(",")) - {""}
course = Path(os.environ.get("HUB_COURSE", root)).resolve()
state = Path(os.environ.get("HUB_STATE", "/srv/attention")).resolve()
look = os.environ.get("HUB_LOOK")


def folder(name, mode):
    """Make a folder of the hub; whatever the umask is, its permissions are these."""
    path = state / name
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    return path


own = folder("hub", 0o700)  # whoever reads this is everybody
exchange = folder("exchange", 0o777)
state.chmod(0o755)

# What a server of each kind reads beside the settings of the environment.
ROLES = {
    "student": {
        "jupyter_server_config": {
            "ServerApp": {
                "jpserver_extensions": {
                    "nbgrader.server_extensions.formgrader": False,
                    "nbgrader.server_extensions.course_list": False,
                }
            }
        },
        "labconfig/page_config": {
            "disabledExtensions": {
                "@jupyter/nbgrader:formgrader": True,
                "@jupyter/nbgrader:course-list": True,
            }
        },
    },
    "instructor": {
        "labconfig/page_config": {
            "disabledExtensions": {"@jupyter/nbgrader:create-assignment": False}
        }
    },
}
for role, files in ROLES.items():
    nbgrader = {"Exchange": {"root": str(exchange)}}
    if role == "instructor":
        # a server begins in its user's home; nbgrader reads this folder's own settings
        nbgrader["CourseDirectory"] = {"root": str(course)}
    for name, settings in {**files, "nbgrader_config": nbgrader}.items():
        path = folder("settings", 0o755) / role / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))
        path.chmod(0o644)
        path.parent.chmod(0o755)


def prepare(spawner):
    """Give a server the settings of its role, and an instructor the course."""
    role = "instructor" if spawner.user.name in instructors else "student"
    spawner.environment["JUPYTER_CONFIG_PATH"] = str(state / "settings" / role)
    if role == "instructor":
        spawner.notebook_dir = str(course)


c.JupyterHub.db_url = f"sqlite:///{own / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(own / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(own / "proxy.pid")
c.JupyterHub.bind_url = "http://127.0.0.1:8000"

c.JupyterHub.authenticator_class = "dummy" if look else "pam"
c.JupyterHub.spawner_class = (
    "simple" if look else "jupyterhub.spawner.LocalProcessSpawner"
)
c.Authenticator.allow_all = True  # who has an account and knows its password
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.default_url = "/lab"
c.Spawner.start_timeout = c.Spawner.http_timeout = 180  # at the start of a class
c.Spawner.pre_spawn_hook = prepare
c.Spawner.environment = {
    # pages of the book, as each server shows them to its own user
    "ATTENTION_SITE": str(state / "book"),
    "ATTENTION_BOOK": "/hub/user-redirect/attention-book/book/",
    "OMP_NUM_THREADS": "1",
    "TQDM_DISABLE": "1",
}
if look:
    c.SimpleLocalProcessSpawner.home_dir_template = str(state / "homes" / "{username}")
    print(
        "This hub is for looking: any name logs in, and all servers run under this"
        " account, so it separates nobody."
    )
