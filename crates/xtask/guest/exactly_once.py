#!/usr/bin/python3
"""Makes, links, renames and removes names while the server dies and comes back outside.

usage: exactly_once.py FOLDER OBJECTS WORKERS

WORKERS go through objects, each worker in a folder of its own, until there are OBJECTS of them and
somebody outside has seen enough: then the shared folder has a file `enough`. An object sees MKDIR,
LINK, RENAME, one of SYMLINK, MKNOD and CREATE, REMOVE and RMDIR. Executed twice, they fail: with
EEXIST those that make a name, with ENOENT the others. CREATE alone does not, if the client marks it
for that (EXCLUSIVE). Every tenth object is made once more and stays.

The calls are the bare system calls, and nothing is tried again here. A call that fails is counted,
and the work goes on as if it had not: `failed COUNT CALL ERRNO` tells of it. `progress 0` and
`progress 100` enclose the work.
"""
import collections
import errno
import itertools
import os
import stat
import sys
import threading
import time

import checks

SEED, NEW, NAME, OTHER = "seed", "new", "name", "other"
ENOUGH = "/run/share/enough"


def create(path):
    """Makes a file that must not be there yet."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def symlink(path):
    os.symlink(SEED, path)


# What an object has beside its link, how it is made, and how to know it.
OTHERS = [
    ("SYMLINK", symlink, stat.S_ISLNK),
    ("MKNOD", os.mkfifo, stat.S_ISFIFO),
    ("CREATE", create, stat.S_ISREG),
]


def other(number):
    """That of the object of this number."""
    return OTHERS[number // 10 % len(OTHERS)]


class Work:
    """What all workers share. (A step of an iterator or a list is one step to threads, too.)"""

    def __init__(self, objects):
        self.numbers = itertools.count()
        self.objects = objects
        self.is_enough = False
        self.failed = []
        self.errors = []

    def next_object(self):
        number = next(self.numbers)
        return None if self.is_enough and number >= self.objects else number

    def call(self, name, function, *paths):
        try:
            function(*paths)
        except OSError as error:
            self.failed.append((name, errno.errorcode[error.errno], paths[-1]))


class Worker:
    """One worker, its folder, and the objects that stay there."""

    def __init__(self, work, folder):
        self.work = work
        self.folder = folder
        self.kept = []
        self.thread = threading.Thread(target=self.run)
        os.mkdir(folder)
        with open(os.path.join(folder, SEED), "wb"):
            pass

    def run(self):
        try:
            while (number := self.work.next_object()) is not None:
                self.make(number)
                self.remove(number)
                if number % 10 == 0:
                    self.make(number)
                    self.kept.append(number)
        except Exception as error:  # the main thread tells of it
            self.work.errors.append(error)

    def path(self, *names):
        return os.path.join(self.folder, *map(str, names))

    def make(self, number):
        self.work.call("MKDIR", os.mkdir, self.path(number))
        self.work.call("LINK", os.link, self.path(SEED), self.path(number, NEW))
        self.work.call("RENAME", os.rename, self.path(number, NEW), self.path(number, NAME))
        name, function, _ = other(number)
        self.work.call(name, function, self.path(number, OTHER))

    def remove(self, number):
        self.work.call("REMOVE", os.unlink, self.path(number, OTHER))
        self.work.call("REMOVE", os.unlink, self.path(number, NAME))
        self.work.call("RMDIR", os.rmdir, self.path(number))

    def must_be_as_expected(self):
        """Whether the folder holds what the objects have left, and nothing else."""
        names = sorted(os.listdir(self.folder))
        checks.equal(names, sorted([SEED, *map(str, self.kept)]), f"names in {self.folder}")
        checks.equal(os.stat(self.folder).st_nlink, 2 + len(self.kept), f"links of {self.folder}")
        seed = os.stat(self.path(SEED))
        checks.equal(seed.st_nlink, 1 + len(self.kept), f"links of the seed in {self.folder}")
        for number in self.kept:
            folder = self.path(number)
            checks.equal(sorted(os.listdir(folder)), [NAME, OTHER], f"names in {folder}")
            checks.equal(os.stat(self.path(number, NAME)).st_ino, seed.st_ino, f"{folder}/{NAME}")
            name, _, is_expected = other(number)
            mode = os.lstat(self.path(number, OTHER)).st_mode
            checks.equal(is_expected(mode), True, f"{folder}/{OTHER} is of {name}")


def main():
    folder = sys.argv[1]
    objects, count = map(int, sys.argv[2:])
    os.mkdir(folder)
    work = Work(objects)
    workers = [Worker(work, f"{folder}/worker{number}") for number in range(count)]
    print("progress 0", flush=True)
    for worker in workers:
        worker.thread.start()
    while not os.path.exists(ENOUGH):
        time.sleep(0.05)
    work.is_enough = True
    for worker in workers:
        worker.thread.join()
    print("progress 100", flush=True)
    done = next(work.numbers) - count
    for (call, error), times in collections.Counter(
            (call, error) for call, error, _ in work.failed).items():
        print(f"failed {times} {call} {error}")
    with checks.check("no call fails over the server's deaths"):
        checks.equal(work.failed[:10], [], "failures")
        checks.equal(work.errors, [], "exceptions")
    with checks.check("the tree is what the calls have made"):
        checks.forget_caches()
        checks.equal(len(os.listdir(folder)), count, "folders")
        for worker in workers:
            worker.must_be_as_expected()
    kept = sum(len(worker.kept) for worker in workers)
    checks.finish(f"{done} objects, {7 * done + 4 * kept} calls that may be executed once")


main()
