#!/usr/bin/python3
"""Works in the mount of a volume on a set of disks while somebody outside takes disks away.

usage: raid.py FILES once|again

What an fsync has answered is there at every moment, and no call fails: a client sees no error when
a disk fails, while another one is made, when the server is killed and comes back with one disk
less, when a disk returns that was away, when bytes of a disk change by themselves, or when two of
these meet. A line of one word asks somebody outside for such a thing; meanwhile files are written,
changed and removed. The shared folder has a file `done-N` after
the Nth. The second word says what the server promises of a removal that is repeated because the server
was killed before it could answer: that it counts once, or that it may run again, and find no name.
"""
import os
import sys

import checks
from work import KIB, Work, beside_words

# What is asked for, in this order.
WORDS = ["fail", "replace", "die", "make", "leave", "return", "rot"]
# The same, with a rotten block of the quiet file on another disk.
WORDS += ["rotten-return", "rotten-swap", "late"]
# The quiet file is written once and lies still. Somebody outside knows it by these bytes.
QUIET = b"a quiet block of a set of disks "


def quiet_bytes():
    """What the quiet file holds: 64 blocks, each with its number."""
    blocks = (QUIET + b"%08d" % number for number in range(64))
    return b"".join(block.ljust(4 * KIB, b".") for block in blocks)


def make_quiet_file():
    with open("quiet", "wb") as file:
        file.write(quiet_bytes())
        file.flush()
        os.fsync(file.fileno())


def compare_quiet_file():
    checks.equal(checks.same_bytes("quiet", quiet_bytes()), True, "the quiet file")


def main():
    files = int(sys.argv[1])
    work = Work("work", 1, sys.argv[2] == "again")
    make_quiet_file()
    for _ in range(files):
        work.step()
    beside_words(work, WORDS, files, compare_quiet_file)
    os.sync()
    checks.finish(f"kept {len(work.kept)} files on changing disks")


main()
