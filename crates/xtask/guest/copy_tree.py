#!/usr/bin/python3
"""Copies a real tree into the mount, by several threads, and compares it with its source.

usage: copy_tree.py FILES
"""
import concurrent.futures
import os
import stat
import sys

import checks
import tree

COPY = "copy"


def copy(pair):
    """Copies one file or link with its mode and times; gives its size."""
    source, target = pair[0], os.path.join(COPY, pair[1])
    status = os.lstat(source)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    else:
        with open(target, "wb") as file:
            file.write(checks.read(source))
        os.chmod(target, stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
    return status.st_size


def difference(pair):
    """What the copy of one file got wrong, if anything."""
    source, target = pair[0], os.path.join(COPY, pair[1])
    old, new = os.lstat(source), os.lstat(target)
    if stat.S_ISLNK(old.st_mode):
        return None if os.readlink(source) == os.readlink(target) else "link"
    for field in ("st_mode", "st_size", "st_mtime_ns"):
        if getattr(old, field) != getattr(new, field):
            return f"{field} {getattr(new, field)} instead of {getattr(old, field)}"
    return None if checks.same_bytes(target, checks.read(source)) else "bytes"


def main():
    folders, files = tree.choose(int(sys.argv[1]))
    pool = concurrent.futures.ThreadPoolExecutor(8)
    with checks.check("a tree is copied"):
        tree.make_folders(folders, COPY)
        size = sum(pool.map(copy, files))
    with checks.check("the copy equals its source when the caches are cold"):
        checks.forget_caches()
        differences = {pair[1]: what for pair in files if (what := difference(pair))}
        checks.equal(differences, {}, "differences")
    with checks.check("the copy has as many files as its source"):
        found = sum(len(names) for _, _, names in os.walk(COPY))
        links = sum(os.path.isdir(source) for source, _ in files)
        checks.equal(found + links, len(files), "files")
    checks.finish(f"copied {len(files)} files in {len(folders)} folders, {size >> 20} MiB, "
                  "and compared them")


main()
