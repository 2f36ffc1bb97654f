#!/usr/bin/python3
"""Lists a tree, one line a file, so that what different readers see can be compared.

usage: manifest.py FOLDER OUTPUT

A line is: path, type, mode, links, uid, gid, size, mtime in nanoseconds, and the content: a
digest of a file's bytes, a link's target, a device's numbers. The fields are separated by tabs;
odd bytes of paths and targets are written in per cent. A reader that cannot know a field writes
`?` there.
"""
import hashlib
import os
import stat
import sys
import urllib.parse

TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
         stat.S_IFCHR: "character", stat.S_IFBLK: "block", stat.S_IFSOCK: "socket"}
PIECE = 1 << 20
SPARSE = 1 << 30


def quote(raw):
    return urllib.parse.quote_from_bytes(raw, safe="/ +,:@=~!()")


def digest(file, size):
    """Of an open file's bytes. Of a file over 1 GiB, which is a sparse one here, only the first
    mebibyte, the last, and those at the powers of two."""
    total = hashlib.sha256()
    if size <= SPARSE:
        while piece := file.read(PIECE):
            total.update(piece)
        return total.hexdigest()
    starts = {0, size - PIECE} | {1 << power for power in range(20, size.bit_length())}
    for start in sorted(starts):
        file.seek(start)
        total.update(file.read(min(PIECE, size - start)))
    return total.hexdigest()


def content(path, status):
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG:
        with open(path, "rb", buffering=0) as file:
            return digest(file, status.st_size)
    if kind == stat.S_IFLNK:
        return quote(os.readlink(path))
    if kind in (stat.S_IFCHR, stat.S_IFBLK):
        return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return "-"


def line(name, mode, *fields):
    """One line; `fields` are what follows the mode."""
    kind = TYPES[stat.S_IFMT(mode)]
    return "\t".join(map(str, (quote(name), kind, oct(stat.S_IMODE(mode)), *fields)))


def describe(path, name):
    status = os.lstat(path)
    return line(name, status.st_mode, status.st_nlink, status.st_uid, status.st_gid,
                status.st_size, status.st_mtime_ns, content(path, status))


def write(lines, output):
    with open(output, "w") as file:
        file.writelines(line + "\n" for line in sorted(lines))
    print(f"did: listed {len(lines)} files")


def main():
    root = os.fsencode(sys.argv[1])
    lines = [describe(root, b".")]
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            lines.append(describe(path, os.path.relpath(path, root)))
    write(lines, sys.argv[2])


if __name__ == "__main__":
    main()
