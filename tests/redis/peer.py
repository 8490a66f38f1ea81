"""A lock of another library, driven by lines on stdin, answered by lines on stdout.

Arguments: a resource, then the URLs of the nodes. Commands: `try`, `acquire`, `release`, and
`count N`, which adds one to the number at `counter` on the first node, N times, under the lock.
"""

import logging
import sys
import time

from pottery import Redlock
from redis import Redis

logging.disable(logging.CRITICAL)

resource, *urls = sys.argv[1:]
masters = [Redis.from_url(url, socket_timeout=2) for url in urls]
lock = Redlock(key=resource, masters=set(masters), auto_release_time=10)


def count(rounds):
    for _ in range(rounds):
        assert lock.acquire(timeout=30)
        seen = int(masters[0].get("counter") or 0)
        time.sleep(0.001)
        masters[0].set("counter", seen + 1)
        lock.release()


for line in sys.stdin:
    command, *arguments = line.split()
    if command == "try":
        answer = "yes" if lock.acquire(blocking=False) else "no"
    elif command == "acquire":
        answer = "yes" if lock.acquire(timeout=20) else "no"
    elif command == "release":
        lock.release()
        answer = "done"
    elif command == "count":
        count(int(arguments[0]))
        answer = "done"
    print(answer, flush=True)
