"""A real tree of files to copy: what the host has under /usr."""
import os
import stat

SOURCES = [
    "/usr/lib/python3.11", "/usr/lib/python3", "/usr/include", "/usr/share/perl",
    "/usr/share/doc", "/usr/share/zoneinfo", "/usr/share/man", "/usr/lib/git-core", "/usr/share",
]
LARGEST = 4 << 20


def choose(count):
    """Folders, and `count` files and links in them, as (path, target below the copy) pairs."""
    folders, files, seen = [], [], set()
    for source in SOURCES:
        for folder, inner, names in os.walk(source):
            inner.sort()
            if folder in seen:
                inner.clear()
                continue
            seen.add(folder)
            folders.append((folder, folder[1:]))
            for name in sorted(names):
                path = os.path.join(folder, name)
                status = os.lstat(path)
                if stat.S_ISLNK(status.st_mode) or status.st_size <= LARGEST:
                    files.append((path, path[1:]))
            if len(files) >= count:
                return folders, files[:count]
    return folders, files


def make_folders(folders, copy):
    """Makes the folders, and those above them."""
    for _, target in folders:
        os.makedirs(os.path.join(copy, target), exist_ok=True)
