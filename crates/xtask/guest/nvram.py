#!/usr/bin/python3
"""Works in the mount of a volume behind an NVRAM while somebody outside changes that.

usage: nvram.py FILES

What an fsync has answered is there at every moment, and no call fails: a client sees no error when
the battery dies and comes back, when the NVRAM goes down and up, when the server is killed while
the NVRAM alone has the newest data, and when the NVRAM is away for a while after that. A line of
one word asks somebody outside for such a thing; meanwhile files are written, changed and removed.
The shared folder has a file `done-N` after the Nth.
"""
import os
import sys

import checks
from work import Work, beside_words

# What is asked for, in this order.
WORDS = ["low", "ok", "down", "up", "die", "silent", "die-low", "ok", "away"]


def main():
    files = int(sys.argv[1])
    work = Work("work", 1, False)
    for _ in range(files):
        work.step()
    beside_words(work, WORDS, files)
    os.sync()
    checks.finish(f"kept {len(work.kept)} files behind a changing NVRAM")


main()
