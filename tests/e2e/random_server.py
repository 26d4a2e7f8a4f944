"""Checks one random network after another in one process, as starting one takes longer than most networks do.

A line in is [FOLDER, THREADS, [FORCE, ...]] in JSON: the model of that folder is run with each `force` of weft.build, and
with open extents if there is no force. A line out says `right` or `wrong`.
"""
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import numpy as np


class Server:
    """One such process, started when it is first needed."""

    def __init__(self, **environment):
        self.environment = environment
        self.process = None

    def is_right(self, folder, limit_s, threads=1, forces=()):
        """False if it says that something is wrong, takes too long, or ends."""
        if not self.process or self.process.poll() is not None:
            self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True, bufsize=1,
                                            env=os.environ | {'PYTHONPATH': os.pathsep.join(sys.path)} | self.environment)
        try:
            self.process.stdin.write(json.dumps([str(folder), threads, list(forces)]) + '\n')
            answered = select.select([self.process.stdout], [], [], limit_s)[0]
            if answered and self.process.stdout.readline() == 'right\n':
                return True
        except BrokenPipeError:
            pass
        self.close()
        return False

    def close(self):
        if self.process:
            self.process.kill()
            self.process.communicate()
        self.process = None


def is_right(folder, threads, forces):
    import random_open
    import weft
    from random_graphs import difference
    if not forces:
        return not random_open.main(folder)
    with np.load(folder / 'inputs.npz') as inputs, np.load(folder / 'outputs.npz') as outputs:
        inputs, expected = dict(inputs), dict(outputs)
    for force in forces:
        try:
            found = weft.build(folder / 'model.onnx', threads=threads, force=force).run(inputs)
        except weft.Error as error:
            print(f'force={force}: {error}')
            return False
        if difference({name: np.asarray(array) for name, array in found.items()}, expected):
            return False
    return True


def serve():
    answers = os.fdopen(os.dup(1), 'w', buffering=1)
    os.dup2(2, 1)  # what is wrong is told by a run of the folder alone
    for line in sys.stdin:
        folder, threads, forces = json.loads(line)
        answers.write('right\n' if is_right(Path(folder), threads, forces) else 'wrong\n')


if __name__ == '__main__':
    serve()
