"""What the checks know about the tree: its C++ files and what they include."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ('.h', '.cpp', '.cu', '.def')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


def files(*suffixes: str, root: Path = ROOT) -> list[str]:
    """Files that git tracks or would track, relative to the root, that still exist."""
    listed = subprocess.run(['git', '-C', str(root), 'ls-files', '-co', '--exclude-standard', '-z'],
                            capture_output=True, text=True, check=True).stdout.split('\0')
    return sorted({f for f in listed if f.endswith(suffixes) and (root / f).is_file()})


def includes(file: Path) -> list[tuple[int, str, str]]:
    """(line, '<' or '"', what) of each #include of a file."""
    text = file.read_text(errors='replace')
    return [(text.count('\n', 0, m.start()) + 1, m[1], m[2]) for m in INCLUDE.finditer(text)]


def is_test(file: str) -> bool:
    return file.startswith(('tests/', 'bench/')) or file.endswith(('_test.cpp', '_test.h', '_testing.h'))
