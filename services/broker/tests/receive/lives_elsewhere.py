"""Lives that brokers of the receiving model lived in another process.

What a process salts, such as ``hash()``, is the same in all lives of one process: a model that
restarts in its own cannot see that it was saved. So another interpreter, with another salt, lives
some lives first; the model goes on from what they left.
"""

import os
import pickle
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from random import Random

LIVES = 6

_CODE = """
import sys
from services.broker.tests.receive import lives_elsewhere
from services.broker.tests.receive.test_receive_model import OrderedMachine, QUEUES
sys.stdout.buffer.write(lives_elsewhere.lived(OrderedMachine, QUEUES))
"""


@cache
def lives():
    """What the lives left, each as the attributes of a machine."""
    # A process without the variable has a salt by chance; this one's is another by choice.
    salt = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    child = subprocess.run(
        [sys.executable, "-c", _CODE],
        cwd=Path(__file__).parents[4],
        env={**os.environ, "PYTHONHASHSEED": salt},
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    return pickle.loads(child.stdout)  # noqa: S301 - our own child wrote it.


def lived(machine_class, queues):
    """Live, and return what is left, pickled."""
    return pickle.dumps([_left(machine_class(), queues, Random(seed)) for seed in range(LIVES)])


def _left(machine, queues, random):
    for _ in range(3):
        groups = random.choices("abc-", k=8)
        machine.send(queue=random.choice(queues), groups=groups)
        for out in machine.take(random.randint(1, 3), 30):
            if random.random() < 0.3:
                machine.settle_all(out)
    machine.take(2, 30)  # Nobody settles it before the end.
    machine.save()
    machine.snapshot = partial(dict, machine.snapshot())  # As JSON, which is what a process leaves.
    machine.store.close()
    names = ("disk", "clock", "lives", "snapshot", "saved_offsets")
    return {name: getattr(machine, name) for name in names} | {"said": vars(machine.model)}
