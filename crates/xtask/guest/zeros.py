#!/usr/bin/python3
"""Writes bytes that a return may bring back wrong: zeros, writes over writes, ends that moved.

usage: zeros.py ROUNDS [delayed]

In each round every case of CASES makes files in a folder of its own, and every byte of them is on
stable storage when it is done: writes are synchronous, or an fsync follows. An fsync of a file that
was only truncated sends nothing, and of a volume that is declared delayed no truncation is promised
that no COMMIT or synchronous write of its file follows: there, one does. Then a line `die HOW`
asks somebody outside for a death of the server, and the shared folder has a file `back-N` when it
is served again after the Nth. What can be read then must be what was written.

How the server is brought back is not for us to know; the names of HOWS are those of zeros.rs. After
each of them some files grow, the server dies once more as it does in `crash`, and all files are
compared again: a return that has left something behind shows it at the next.
"""
import os
import random
import subprocess
import sys
import time

import checks
from checks import check

KIB = 1 << 10
MIB = 1 << 20
# Of the volume, as it is made when nothing else is said.
BLOCK = 32 * KIB
FRAGMENT = 4 * KIB
# The largest file without an indirect block.
DIRECT = 12 * BLOCK
# Small enough to ride in its entry of the log; the client writes it with one call.
SMALL = 2 * KIB

HOWS = ["crash", "repair", "repair-again"]

# Whether answers of the volume do not wait for the disk.
IS_DELAYED = sys.argv[2:] == ["delayed"]


def make_durable(handle):
    """Has all that was done to a file on stable storage."""
    if IS_DELAYED and os.fstat(handle).st_size > 0:
        os.pwrite(handle, os.pread(handle, 1, 0), 0)
    os.fsync(handle)


class File:
    """A file, and what it must hold."""

    def __init__(self, path):
        self.path = path
        self.bytes = bytearray()
        self.handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_SYNC, 0o644)

    def write(self, at, data):
        """One synchronous write."""
        if len(self.bytes) < at + len(data):
            self.bytes.extend(bytes(at + len(data) - len(self.bytes)))
        self.bytes[at:at + len(data)] = data
        done = os.pwrite(self.handle, data, at)
        checks.equal(done, len(data), f"bytes written to {self.path}")

    def resize(self, size):
        os.ftruncate(self.handle, size)
        del self.bytes[size:]
        self.bytes.extend(bytes(size - len(self.bytes)))

    def close(self):
        make_durable(self.handle)
        os.close(self.handle)


def dd(path, source, *words):
    """As people type it."""
    subprocess.run(["dd", f"if={source}", f"of={path}", "oflag=sync", "status=none", *words],
                   check=True)


def typed(folder, chance):
    """A mebibyte of zeros and then one large write in it, by dd."""
    path = os.path.join(folder, "typed")
    with open("/tmp/random", "wb") as file:
        file.write(chance.randbytes(64 * KIB))
    dd(path, "/dev/zero", "bs=1M", "count=1")
    dd(path, "/tmp/random", "bs=64k", "seek=12", "count=1", "conv=notrunc")
    expected = bytes(768 * KIB) + checks.read("/tmp/random") + bytes(192 * KIB)
    return {path: expected}


def zeros_under_bytes(folder, chance):
    """A large write into zeros of any length: at their start, within them and at their end."""
    expected = {}
    for length, at, size in [(64 * KIB, 0, 64 * KIB), (256 * KIB, 100 * KIB, 40 * KIB),
                             (MIB, 768 * KIB, 256 * KIB), (4 * MIB, 3 * MIB, 512 * KIB),
                             (4 * MIB, 0, MIB)]:
        file = File(os.path.join(folder, f"zeros-{length}-{at}"))
        for start in range(0, length, MIB):
            file.write(start, bytes(min(length - start, MIB)))
        file.write(at, chance.randbytes(size))
        file.close()
        expected[file.path] = bytes(file.bytes)
    return expected


def bytes_under_zeros(folder, chance):
    """Zeros over bytes: over all, and over a part whose ends are in no order."""
    expected = {}
    for at, size in [(0, MIB), (300 * KIB + 700, 128 * KIB + 9), (DIRECT, BLOCK)]:
        file = File(os.path.join(folder, f"bytes-{at}"))
        file.write(0, chance.randbytes(MIB))
        file.write(at, bytes(size))
        file.close()
        expected[file.path] = bytes(file.bytes)
    return expected


def large_over_small(folder, chance):
    """Small writes that the log holds, and a large one over them that it does not; then a small one
    once more, which is the newest of all."""
    expected = {}
    for number in range(8):
        file = File(os.path.join(folder, f"small-{number}"))
        file.write(0, chance.randbytes(512 * KIB))
        for _ in range(6):
            file.write(chance.randrange(256) * SMALL, chance.randbytes(SMALL))
        file.write(0, chance.randbytes(512 * KIB))
        if number % 2:
            file.write(chance.randrange(256) * SMALL, chance.randbytes(SMALL))
        file.close()
        expected[file.path] = bytes(file.bytes)
    return expected


def end_that_moved(folder, chance):
    """A file that becomes shorter, to an end within its block 13 or elsewhere, and longer again.
    What stood behind the end does not come back."""
    expected = {}
    for end in (13 * BLOCK + FRAGMENT, 13 * BLOCK + 2 * FRAGMENT, 13 * BLOCK + FRAGMENT + 700,
                13 * BLOCK, 12 * BLOCK + FRAGMENT, 5 * BLOCK + FRAGMENT, 5 * BLOCK + 10):
        for longer in ("resize", "write"):
            file = File(os.path.join(folder, f"end-{end}-{longer}"))
            file.write(0, chance.randbytes(end // BLOCK * BLOCK + BLOCK))
            last = end // BLOCK * BLOCK
            for at in range(last, last + BLOCK, 2 * FRAGMENT):
                file.write(at + FRAGMENT, chance.randbytes(FRAGMENT))
            file.resize(end)
            if longer == "resize":
                file.resize(15 * BLOCK)
            else:
                file.write(15 * BLOCK, chance.randbytes(100))
            file.close()
            expected[file.path] = bytes(file.bytes)
    return expected


def end_that_will_move(folder, chance):
    """The same of a file that becomes longer when the server has died in between."""
    expected = {}
    for end in (13 * BLOCK + FRAGMENT, 12 * BLOCK + 3 * FRAGMENT, 13 * BLOCK + 700, 5 * BLOCK + 10):
        file = File(os.path.join(folder, f"end-{end}"))
        file.write(0, chance.randbytes(end // BLOCK * BLOCK))
        for at in range(end // BLOCK * BLOCK, end // BLOCK * BLOCK + BLOCK, FRAGMENT):
            file.write(at, chance.randbytes(FRAGMENT))
        file.resize(end)
        file.close()
        expected[file.path] = bytes(file.bytes)
    return expected


def make_longer(expected):
    """What is to happen to those files after a death."""
    for path, data in expected.items():
        with open(path, "r+b") as file:
            file.truncate(15 * BLOCK)
            make_durable(file.fileno())
        expected[path] = data + bytes(15 * BLOCK - len(data))


CASES = [typed, zeros_under_bytes, bytes_under_zeros, large_over_small, end_that_moved,
         end_that_will_move]


class Deaths:
    """How often the server has died."""

    def __init__(self):
        self.count = 0

    def die(self, how):
        """Waits until the server has died and is back."""
        self.count += 1
        print(f"die {how}", flush=True)
        while not os.path.exists(f"/run/share/back-{self.count}"):
            time.sleep(0.02)
        checks.forget_caches()


def difference(path, expected):
    """Where the file holds something else, if it does."""
    if checks.same_bytes(path, expected):
        return None
    found = checks.read(path)
    if len(found) != len(expected):
        return f"{path} has {len(found)} bytes, not {len(expected)}"
    wrong = [at for at in range(len(found)) if found[at] != expected[at]]
    zeros = sum(found[at] == 0 for at in wrong)
    return (f"{path}: {len(wrong)} bytes from {wrong[0]} to {wrong[-1]} are not those that were "
            f"written, {zeros} of them are zero now")


def compare(name, expected):
    """One check for the files of each case."""
    for case, files in expected.items():
        with check(f"{name}: {case.replace('_', ' ')}"):
            told = [difference(path, data) for path, data in files.items()]
            told = [sentence for sentence in told if sentence]
            checks.equal(len(told), 0, f"{'; '.join(told[:3])}; files that differ")


def main():
    rounds = int(sys.argv[1])
    deaths = Deaths()
    files = 0
    for number in range(rounds):
        chance = random.Random(number)
        for how in HOWS:
            name = f"{how}-{number}"
            expected = {}
            for case in CASES:
                folder = os.path.join(name, case.__name__)
                os.makedirs(folder)
                expected[case.__name__] = case(folder, chance)
            checks.forget_caches()
            compare(f"{name}, before", expected)
            deaths.die(how)
            compare(f"{name}, after", expected)
            make_longer(expected[end_that_will_move.__name__])
            compare(f"{name}, grown", expected)
            deaths.die("crash")
            compare(f"{name}, after one more", expected)
            files += sum(map(len, expected.values()))
    checks.finish(f"compared {files} files over {deaths.count} deaths")


main()
