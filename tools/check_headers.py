#!/usr/bin/env python3
"""Each header compiles alone.

Where a foo.cpp that was compiled without precompiled headers includes "foo.h" first, the build has shown it already. Every
other header is compiled here by itself; a success is remembered by the hash of all it reads from the tree, so a second run
is instant.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import tree

CACHE = Path(os.environ.get('XDG_CACHE_HOME', Path.home() / '.cache')) / 'weft-dev' / 'headers'


def compiled(build: Path) -> dict[str, list[str]]:
    """source file -> its compile command, less what names its input and output."""
    found = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        file = os.path.relpath(entry['file'], tree.ROOT)
        if not file.endswith('.cpp'):
            continue  # the C example: our headers are C++
        words = shlex.split(entry['command'])
        words = words[next(i for i, w in enumerate(words) if re.search(r'(g|clang|c)\+\+(-\d+)?$', w)):]
        drop = {i + k for i, w in enumerate(words) if w in ('-o', '-c', '-MT', '-MF') for k in (0, 1)}
        found[file] = [w for i, w in enumerate(words) if i not in drop and w != '-MD']
    return found


def shown_by_build(header: str, sources: dict[str, list[str]]) -> bool:
    source = header.removesuffix('.h') + '.cpp'
    if source not in sources or '-include' in sources[source]:
        return False
    first = tree.includes(tree.ROOT / source)[:1]
    return bool(first) and first[0][2] in (header, header.removeprefix('include/'))


def command_for(header: str, sources: dict[str, list[str]]) -> list[str]:
    """The flags of the source that lies nearest, since include paths differ by folder, without a precompiled header."""
    def nearness(source: str) -> tuple[int, str]:
        return (-len(os.path.commonpath([header, source])), source)
    words = sources[min(sources, key=nearness)]
    drop = {i + k for i, w in enumerate(words) if w == '-include' for k in (0, 1)}
    return [w for i, w in enumerate(words) if i not in drop]


def key_of(header: str, command: list[str]) -> str:
    seen, todo = set(), [header]
    while todo:
        file = todo.pop()
        if file in seen or not (tree.ROOT / file).is_file():
            continue
        seen.add(file)
        todo += [p for _, _, what in tree.includes(tree.ROOT / file) for p in (what, 'include/' + what)]
    digest = hashlib.sha256(' '.join(command).replace(str(tree.ROOT), '').encode())
    for file in sorted(seen):
        digest.update(file.encode() + b'\0' + (tree.ROOT / file).read_bytes())
    return digest.hexdigest()


def compile_alone(header: str, command: list[str]) -> str:
    """'' or what the compiler said."""
    mark = CACHE / key_of(header, command)
    if mark.exists():
        return ''
    text = f'#include "{header}"\n#include "{header}"\n'
    done = subprocess.run([*command, '-fsyntax-only', '-x', 'c++', '-'], input=text, capture_output=True, text=True,
                          cwd=tree.ROOT)
    if done.returncode != 0:
        return f'{header} does not compile alone:\n{done.stderr}'
    CACHE.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return ''


def main() -> int:
    build = tree.ROOT / (sys.argv[1] if len(sys.argv) > 1 else 'build')
    if not (build / 'compile_commands.json').exists():
        print(f'{build.name}/compile_commands.json is missing; run ./dev build')
        return 1
    sources = compiled(build)
    headers = [h for h in tree.files('.h') if sources and not shown_by_build(h, sources)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = [s for s in pool.map(lambda h: compile_alone(h, command_for(h, sources)), headers) if s]
    print('\n'.join(said) or f'headers: {len(headers)} compiled alone, the others are shown by the build')
    return 1 if said else 0


if __name__ == '__main__':
    sys.exit(main())
