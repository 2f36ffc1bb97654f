#!/usr/bin/python3
"""Copies a tree and writes a large file while the server is killed and started again outside.

usage: crash_copy.py FILES MEBIBYTES

It prints `progress N` after N per cent of the tree; the server dies and comes back at some of
these lines. Nothing here is asked to cope: the mount is a hard one, so every call must succeed, as
if nothing had happened. The folders are made first: calls that change names are what
exactly_once.py is about.
"""
import hashlib
import os
import sys
import threading

import checks
import tree

COPY = "crash"
LARGE = "crash.large"
MIB = 1 << 20


def piece(number):
    """A mebibyte that differs from every other."""
    return hashlib.sha256(b"%d" % number).digest() * (MIB // 32)


def write_large(count, errors):
    """Writes without waiting for the server but for every 16th piece."""
    try:
        with open(LARGE, "wb", buffering=0) as file:
            for number in range(count):
                checks.equal(file.write(piece(number)), MIB, "bytes written")
                if number % 16 == 15:
                    os.fsync(file.fileno())
    except Exception as error:
        errors.append(error)


def main():
    folders, files = tree.choose(int(sys.argv[1]))
    files = [pair for pair in files if not os.path.islink(pair[0])]
    pieces = int(sys.argv[2])
    tree.make_folders(folders, COPY)
    os.sync()
    errors = []
    writer = threading.Thread(target=write_large, args=(pieces, errors))
    writer.start()
    with checks.check("a copy goes on over the server's deaths without an error"):
        for done, (source, target) in enumerate(files):
            if done * 100 // len(files) != (done - 1) * 100 // len(files):
                print(f"progress {done * 100 // len(files)}", flush=True)
            with open(os.path.join(COPY, target), "wb") as file:
                file.write(checks.read(source))
    with checks.check("a large file is written over the server's deaths without an error"):
        writer.join()
        checks.equal(errors, [], "errors")
    print("progress 100", flush=True)
    with checks.check("every file of the copy holds what was written"):
        checks.forget_caches()
        wrong = [target for source, target in files
                 if not checks.same_bytes(os.path.join(COPY, target), checks.read(source))]
        checks.equal(wrong, [], "files that differ")
    with checks.check("the large file holds what was written"):
        with open(LARGE, "rb") as file:
            for number in range(pieces):
                checks.equal(file.read(MIB) == piece(number), True, f"piece {number}")
            checks.equal(file.read(1), b"", "what follows the last piece")
    checks.finish(f"copied {len(files)} files and wrote {pieces} MiB meanwhile")


main()
