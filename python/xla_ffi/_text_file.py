"""Files that are written whole, or left as they are."""

import contextlib
import os
import secrets
import shutil
import stat

#: What stands for a file that is open already: a shell, or another program, writes there too.
_OPEN = ("/proc/", "/dev/fd/", "/dev/stdin", "/dev/stdout", "/dev/stderr")


def write(path, text):
    """Writes a text to ``path``, in UTF-8.

    A reader finds what was there before or all of the new text, also where the disk is full or the process is ended: it
    is written beside the file and takes its name and its permissions. Links are followed. What is no regular file, or is
    open already, is written where it is; so is a file that is somebody else's, or whose folder takes no new one.
    """
    data = text.encode("utf-8")
    target = _target(path)
    try:
        if target is None:
            _in_place(path, data)
        else:
            _beside(target, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _target(path):
    """The file that ``path`` leads to, which another may take the place of; None where none may."""
    path = os.path.join(os.getcwd(), path)
    # As many links as systems follow.
    for _ in range(40):
        folder, name = os.path.split(path)
        path = os.path.join(os.path.realpath(folder), name)
        if path.startswith(_OPEN):
            return None
        if not os.path.islink(path):
            break
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        regular = True
    return path if regular else None


def _in_place(path, data):
    with open(path, "wb") as file:
        file.write(data)


def _beside(target, data):
    there = os.path.exists(target)
    if there:
        # Who may not write the file may not replace it either.
        os.close(os.open(target, os.O_WRONLY))
        # One that takes its place would be the writer's.
        if hasattr(os, "geteuid") and os.geteuid() not in (0, os.stat(target).st_uid):
            _in_place(target, data)
            return
    made = os.path.join(os.path.dirname(target), f".xla_ffi.{secrets.token_hex(8)}")
    try:
        # With the permissions of any new file, unlike those of `tempfile`.
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except PermissionError:
        if not there:
            raise
        _in_place(target, data)
        return
    try:
        with open(handle, "wb") as file:
            if there:
                _like(made, target)
            file.write(data)
            file.flush()
            # Else a file with a name and no contents is what a crash of the machine may leave.
            os.fsync(file.fileno())
        os.replace(made, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise


def _like(made, target):
    """Gives a new file the owner and the permissions of the one whose place it takes."""
    status = os.stat(target)
    if hasattr(os, "chown"):
        # A group that the writer is not in.
        with contextlib.suppress(PermissionError):
            os.chown(made, status.st_uid, status.st_gid)
    # Lists of who may do what are among the extended attributes.
    shutil.copystat(target, made)
