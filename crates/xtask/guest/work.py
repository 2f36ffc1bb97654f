"""Work with files whose answers are known, beside changes that somebody outside makes."""
import os
import random
import threading

import checks
from checks import check

KIB = 1 << 10


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

    def compare(self, name, more=lambda: None):
        """Whether every file is as it was last written, and no other is there. `more` compares more."""
        checks.forget_caches()
        with check(name):
            names = sorted(os.path.basename(path) for path in self.kept)
            checks.equal(sorted(os.listdir(self.folder)), names, "the names")
            for path, data in self.kept.items():
                checks.equal(checks.same_bytes(path, data), True, f"{path} is as it was")
            more()


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


def beside_words(work, words, files, more=lambda: None):
    """Asks for one change after the other, and works meanwhile: no call fails, and all that was
    answered is there."""
    asked = checks.Asked()
    for word in words:
        beside = Beside(work)
        beside.start()
        asked.ask(word)
        beside.is_over = True
        beside.join()
        with check(f"{word}: no call fails meanwhile"):
            checks.equal(beside.error, None, f"after {beside.steps} steps")
        work.compare(f"{word}: all that was answered is there", more)
        for _ in range(files // 10):
            work.step()
        work.compare(f"{word}: what was written afterwards is there", more)
