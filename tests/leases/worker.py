"""Takes ids and appends each to a file of its own, 8 bytes, until it is stopped:
worker.py URL POOL WINDOW_MS FOLDER REST FORKS. It rests so many seconds after each 1,000.

With FORKS each 1,000th id is followed by a child, which must get none from this generator, and takes some from its own.
"""

import os
import signal
import struct
import sys
import time

from leased_snowflake import SnowflakeGenerator

stopping = False


def stop(*_):
    global stopping
    stopping = True


def new_file(folder):
    """Of this process alone: a number of a process may come again."""
    return os.path.join(folder, f"python-{os.getpid()}-{time.monotonic_ns()}.ids")


def opened(url, pool, window):
    """The daemon may be away, and each worker id owned by one that was killed."""
    while not stopping:
        try:
            return SnowflakeGenerator(url, pool, window_ms=window, holder="python")
        except Exception:
            time.sleep(0.05)


def child(generator, url, pool, window, folder):
    try:
        generator.next()
        name = "inherited"
    except RuntimeError:
        name = f"refused-{os.getpid()}"
    open(os.path.join(folder, name), "w").close()
    own = opened(url, pool, window)
    if own:
        write(own, 100, new_file(folder))
        own.close()
    os._exit(0)


def write(generator, count, path):
    with open(path, "ab", buffering=0) as file:
        for _ in range(count):
            try:
                file.write(struct.pack("<Q", generator.next()))
            except Exception:
                if stopping:
                    return
                time.sleep(0.01)


def main():
    url, pool, window, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    rest, forks = float(sys.argv[5]), sys.argv[6] == "1"
    signal.signal(signal.SIGTERM, stop)
    generator = opened(url, pool, window)
    path = new_file(folder)
    while not stopping:
        write(generator, 1000, path)
        time.sleep(rest)
        if forks and not stopping:
            pid = os.fork()
            if pid == 0:
                child(generator, url, pool, window, folder)
            os.waitpid(pid, 0)
    if generator:
        generator.close()


main()
