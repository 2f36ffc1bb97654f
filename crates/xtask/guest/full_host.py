#!/usr/bin/python3
"""Fills what holds the disk of a volume that could still grow, and goes on when there is room.

usage: full_host.py POLICY

What an fsync has answered is there at every moment, whatever else is refused: while the host is
full, when it has room again, and when the server died meanwhile. A line `room` or `die` asks
somebody outside for more room, or for a death and more room; the shared folder has a file `done-N`
after the Nth. The policy says what else may be heard: under `sync` a change may be lost to its
caller (EIO), because it was made before its place was refused.
"""
import errno
import os
import random
import sys
import time

import checks
from checks import check

KIB = 1 << 10
MIB = 1 << 20
# More than the host has room for, and than the log.
MOST = 4000


def write(path, data):
    """A new file, of which every byte is on stable storage."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    try:
        done = 0
        while done < len(data):
            done += os.write(handle, data[done:])
        os.fsync(handle)
    finally:
        os.close(handle)


def fill(folder, size, chance, kept):
    """Files until one is refused. Gives back the error's number; none if there was no end."""
    for number in range(MOST):
        path = os.path.join(folder, f"{size}-{number}")
        data = chance.randbytes(size)
        try:
            write(path, data)
        except OSError as error:
            return error.errno
        kept[path] = data
    return None


def compare(name, kept):
    """Whether every file that was answered is as it was."""
    checks.forget_caches()
    with check(f"{name}: all that was answered is there"):
        for path, data in kept.items():
            checks.equal(checks.same_bytes(path, data), True, f"{path} is as it was")


def goes_on(name, folder, chance, kept):
    """With room again a file can be made before long."""
    with check(f"{name}: there is room again"):
        path, data = os.path.join(folder, "again"), chance.randbytes(3 * MIB)
        last = None
        for attempt in range(60):
            try:
                write(f"{path}-{attempt}", data)
                kept[f"{path}-{attempt}"] = data
                return
            except OSError as error:
                last = error
                time.sleep(0.5)
        raise last


def main():
    policy = sys.argv[1]
    allowed = [errno.ENOSPC] if policy == "log" else [errno.ENOSPC, errno.EIO]
    chance, asked = random.Random(policy), checks.Asked()
    kept, filled = {}, {}
    for name, word in [("first", "room"), ("second", "die")]:
        quiet, busy, small = [os.path.join(name, part) for part in ("quiet", "busy", "small")]
        for folder in (quiet, busy, small):
            os.makedirs(folder)
        for number, size in enumerate([1, 700, 4 * KIB, 40 * KIB, 200 * KIB, MIB]):
            path, data = os.path.join(quiet, str(number)), chance.randbytes(size)
            write(path, data)
            kept[path] = data
        os.sync()
        for folder, size in ((busy, MIB), (small, 2 * KIB)):
            with check(f"{name}: files of {size} bytes find no space in the end"):
                found = fill(folder, size, chance, filled)
                checks.equal(found in allowed, True, f"errno {found} is one of {allowed}")
        compare(f"{name}, full", kept)
        with check(f"{name}: there is nothing left for another"):
            try:
                write(os.path.join(quiet, "more"), bytes(MIB))
            except OSError as error:
                checks.equal(error.errno in allowed, True, f"errno {error.errno}")
            else:
                raise AssertionError("it was taken")
        asked.ask(word)
        goes_on(name, quiet, chance, kept)
        kept.update(filled)
        filled = {}
        compare(f"{name}, with room", kept)
    checks.finish(f"kept {len(kept)} files while the host was full")


main()
