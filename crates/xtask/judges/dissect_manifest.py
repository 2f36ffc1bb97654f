"""The manifest of a disk image as the library dissect.ffs reads it; see ../guest/manifest.py.

usage: dissect_manifest.py IMAGE OUTPUT

The library lists empty entries as files of number 0, and walks every hole of a sparse file, so
the bytes of the largest are left out.
"""
import os
import stat
import sys

from dissect.ffs import ffs

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../guest"))
import manifest


def content(node, mode):
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFREG:
        return "?" if node.size > manifest.SPARSE else manifest.digest(node.open(), node.size)
    if kind == stat.S_IFLNK:
        return manifest.quote(os.fsencode(node.link))
    return "?" if kind in (stat.S_IFCHR, stat.S_IFBLK) else "-"


def describe(node, path):
    mode = node.inode.di_mode
    mtime = node.inode.di_mtime * 10**9 + node.inode.di_mtimensec
    return manifest.line(path, mode, node.inode.di_nlink, node.inode.di_uid, node.inode.di_gid,
                         node.size, mtime, content(node, mode))


def walk(node, path, lines):
    lines.append(describe(node, path))
    if stat.S_ISDIR(node.inode.di_mode):
        for child in node.iterdir():
            if child.inum and child.name not in (".", ".."):
                name = os.fsencode(child.name)
                walk(child, name if path == b"." else path + b"/" + name, lines)


def main():
    with open(sys.argv[1], "rb") as image:
        lines = []
        walk(ffs.FFS(image).root, b".", lines)
        manifest.write(lines, sys.argv[2])


main()
