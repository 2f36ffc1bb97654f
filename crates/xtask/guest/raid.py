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
import random
import sys
import threading

import checks
from checks import check

KIB = 1 << 10
# What is asked for, in this order.
WORDS = ["fail", "replace", "die", "make", "leave", "return", "rot"]
# The same, with a rotten block of the quiet file on another disk.
WORDS += ["rotten-return", "rotten-swap", "late"]
# The quiet file is written once and lies still. Somebody outside knows it by these bytes.
QUIET = b"a quiet block of a set of disks "


class Work:
    """Files that come, change and go. What was answered is known."""

    def __init__(self, folder, seed, runs_again):
        self.folder, self.chance, self.kept, self.count = folder, random.Random(seed), {}, 0
        self.runs_again = runs_again
        os.makedirs(folder)

    def step(self):
        """A file is made, changed in its middle, or removed."""
        what = self.chance.randrange(10)
        if what < 6 or not self.kept:
            self.make()
            return
        path = self.chance.choice(sorted(self.kept))
        if what < 9:
            self.change(path)
        else:
            self.remove(path)

    def remove(self, path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            if not self.runs_again:
                raise
        del self.kept[path]

    def make(self):
        path = os.path.join(self.folder, str(self.count))
        data = self.chance.randbytes(self.chance.choice([1, 700, 5 * KIB, 64 * KIB, 300 * KIB]))
        self.count += 1
        self.write(path, os.O_CREAT | os.O_EXCL, 0, data)
        self.kept[path] = data

    def change(self, path):
        old = self.kept[path]
        at = self.chance.randrange(len(old) + 1)
        data = self.chance.randbytes(self.chance.choice([1, 512, 9000]))
        self.write(path, 0, at, data)
        self.kept[path] = old[:at] + data + old[at + len(data) :]

    def write(self, path, flags, at, data):
        handle = os.open(path, flags | os.O_WRONLY, 0o644)
        try:
            while data:
                done = os.pwrite(handle, data, at)
                at, data = at + done, data[done:]
            os.fsync(handle)
        finally:
            os.close(handle)

    def compare(self, name):
        """Whether every file is as it was last written, and no other is there."""
        checks.forget_caches()
        with check(name):
            names = sorted(os.path.basename(path) for path in self.kept)
            checks.equal(sorted(os.listdir(self.folder)), names, "the names")
            for path, data in self.kept.items():
                checks.equal(checks.same_bytes(path, data), True, f"{path} is as it was")
            checks.equal(checks.same_bytes("quiet", quiet_bytes()), True, "the quiet file")


def quiet_bytes():
    """What the quiet file holds: 64 blocks, each with its number."""
    blocks = (QUIET + b"%08d" % number for number in range(64))
    return b"".join(block.ljust(4 * KIB, b".") for block in blocks)


def make_quiet_file():
    with open("quiet", "wb") as file:
        file.write(quiet_bytes())
        file.flush()
        os.fsync(file.fileno())


class Beside(threading.Thread):
    """Work that goes on until it is ended."""

    def __init__(self, work):
        super().__init__()
        self.work, self.is_over, self.error, self.steps = work, False, None, 0

    def run(self):
        try:
            while not self.is_over:
                self.work.step()
                self.steps += 1
        except OSError as error:
            self.error = error


def main():
    files = int(sys.argv[1])
    work = Work("work", 1, sys.argv[2] == "again")
    make_quiet_file()
    for _ in range(files):
        work.step()
    asked = checks.Asked()
    for word in WORDS:
        beside = Beside(work)
        beside.start()
        asked.ask(word)
        beside.is_over = True
        beside.join()
        with check(f"{word}: no call fails meanwhile"):
            checks.equal(beside.error, None, f"after {beside.steps} steps")
        work.compare(f"{word}: all that was answered is there")
        for _ in range(files // 10):
            work.step()
        work.compare(f"{word}: what was written afterwards is there")
    os.sync()
    checks.finish(f"kept {len(work.kept)} files on changing disks")


main()
