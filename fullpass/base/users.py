"""Who acts: the user of this process, for records that people read."""

import getpass
import os
import socket


def user_and_host() -> str:
    """Returns the user and the machine, as `ann@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
