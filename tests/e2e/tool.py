"""The built binary, called as a user calls it; tolerance as the command line understands it."""
import hashlib
import json
import os
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / 'models/digits.onnx'


def within(found, expected, tolerance=1e-4):
    """Whether each element is as near as a part of the output's scale."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if expected.dtype.kind != 'f':
        return np.array_equal(found, expected)
    return np.abs(found.astype(np.float64) - expected).max() <= tolerance * np.abs(expected).max()


def rewritten(data, old, new):
    """The bytes of a plan file with a text of the same length in its first section, and every hash right again."""
    assert len(old) == len(new) and old in data
    sections = struct.unpack_from('<I', data, 12)[0]
    table = bytearray(data[:16 + 64 * sections])
    offset, size = struct.unpack_from('<16xQQ', table, 16)
    text = data[offset:offset + size].replace(old, new)
    table[16 + 32:16 + 64] = hashlib.sha256(text).digest()
    head = bytes(table) + hashlib.sha256(table).digest()
    return head + data[len(head):offset] + text + data[offset + size:]


def interrupted(process, after_s=3):
    """That a process which goes on and on ends soon once Ctrl-C asks it to."""
    time.sleep(after_s)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    process.communicate(timeout=30)
    assert process.returncode == 130 and time.monotonic() - begin < 2


class Weft:
    """Calls the binary in a folder of the test's own."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder

    def __call__(self, *arguments, code=0, limit_s=120, env=None, stdin=os.devnull):
        """What was printed on stdout; `code` is the exit code that is expected, or a tuple of those that are right; `stdin`
        is a file."""
        command = [str(a) for a in (self.binary, *arguments)]
        with open(stdin, 'rb') as given:
            done = subprocess.run(command, cwd=self.folder, env=os.environ | (env or {}), stdin=given,
                                  capture_output=True, text=True, timeout=limit_s)
        assert done.returncode in (code if isinstance(code, tuple) else (code,)), f'{" ".join(command[1:])}: exit {done.returncode}, expected {code}\n{done.stderr}'
        self.said = done.stderr
        return done.stdout

    def json(self, *arguments, **options):
        """The one document that --json prints."""
        document = json.loads(self(*arguments, '--json', **options))
        assert document['schema'] == 1
        return document

    def run(self, model, inputs, *arguments, **options):
        """Outputs by name for inputs by name."""
        np.savez(self.folder / 'inputs.npz', **inputs)
        self('run', model, *arguments, '--quiet', '--inputs', 'inputs.npz', '-o', 'outputs.npz', **options)
        with np.load(self.folder / 'outputs.npz') as outputs:
            return dict(outputs)
