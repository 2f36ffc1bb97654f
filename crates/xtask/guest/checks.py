"""What the guest's scripts share: how they report, and how they compare.

A script prints `ok NAME` or `not ok NAME: why` for each of its checks, `progress N` where somebody
outside waits for it, and at its end `did: ...`, one sentence about what it has done. Its exit
status is 1 if a check failed.
"""
import contextlib
import os
import sys
import time
import traceback

failures = 0


@contextlib.contextmanager
def check(name):
    """Reports one check: it fails if the block raises."""
    global failures
    try:
        yield
    except Exception as error:  # whatever it is, the next check can still tell us something
        failures += 1
        frames = traceback.extract_tb(error.__traceback__)
        frame = [frame for frame in frames if frame.filename != __file__][-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        print(f"not ok {name}: {type(error).__name__}: {error} ({where}: {frame.line})")
    else:
        print(f"ok {name}")


class Asked:
    """How often somebody outside was asked for something, by a line of one word. The shared folder
    has a file `done-N` after the Nth."""

    def __init__(self):
        self.count = 0

    def ask(self, word):
        self.count += 1
        print(word, flush=True)
        while not os.path.exists(f"/run/share/done-{self.count}"):
            time.sleep(0.02)


def finish(sentence):
    """Ends the script."""
    print(f"did: {sentence}")
    sys.exit(1 if failures else 0)


def equal(found, expected, what="value"):
    """Fails unless the two are equal."""
    if found != expected:
        raise AssertionError(f"{what}: found {found!r}, expected {expected!r}")


def raises(number, call, *arguments):
    """Fails unless the call fails with this errno."""
    try:
        call(*arguments)
    except OSError as error:
        equal(os.strerror(error.errno), os.strerror(number), "error")
    else:
        raise AssertionError(f"succeeded; expected {os.strerror(number)}")


def forget_caches():
    """Makes the kernel forget all that it has cached, so that the next read asks the server."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as control:
        control.write("3")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def same_bytes(path, expected):
    """Whether the file holds `expected`.

    An emulated kernel has, about once in a thousand runs, shown one byte with one bit changed, in
    a listing or in a file, and the right byte when asked again. That much is forgiven if it
    happens once and is said aloud; any other difference, and any that stays, is a failure.
    """
    found = read(path)
    if found == expected:
        return True
    bits = sum((a ^ b).bit_count() for a, b in zip(found, expected))
    if len(found) == len(expected) and bits == 1:
        forget_caches()
        if read(path) == expected:
            print(f"note: {path}: one bit read differently once")
            return True
    return False
