#!/usr/bin/env python3
"""Who may include and link whom, against the tables below (DESIGN's section 2, kept by every test run).

1. Includes between top-level folders form the DAG of MAY_INCLUDE, taken transitively; base is open to all.
2. A third-party library is included only by the folder that owns it; any other one by one folder at most.
3. Includes are root-relative, and no file includes itself through others.
4. An X_ir library (a noun) links nouns only; who may link a verb of another folder stands in MAY_LINK_VERBS.
5. What the executor links, however indirectly, holds no compiler.
"""
import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

import tree

MAY_INCLUDE = {
    'include': '',
    'base': '',
    'affine': 'base',
    'graph': 'base',
    'tc_lang': 'graph affine',
    'fallback': 'graph',
    'polyhedral': 'tc_lang affine',
    'plan': 'fallback',
    'codegen': 'polyhedral plan',
    'partition': 'tc_lang graph fallback polyhedral affine',
    'executor': 'plan fallback include',
    'tuner': 'partition polyhedral codegen executor fallback',
    'driver': 'graph tc_lang partition fallback polyhedral codegen tuner plan executor affine include',
    'cli': 'driver executor',
    'python': 'driver executor',
    'bench': 'driver executor',
    'tests': 'driver executor cli python bench',
}

OWNERS = {  # header -> the folders that may include it; tests beside code and benchmarks may include any
    r'isl/': 'affine polyhedral',
    r'(llvm|llvm-c|lld)/': 'codegen/llvm',
    r'(google/protobuf/|.*\.pb\.h$)': 'graph/onnx',
    r'(oneapi/dnnl|dnnl)': 'fallback/onednn',
    r'cudnn': 'fallback/cudnn',
    r'cublas': 'fallback/cublas',
    r'nvrtc': 'codegen/cuda',
    r're2/': 'fallback/native',
    r'xgboost/': 'tuner',
    r'coin/': 'tests',
    r'sqlite3': 'base/cache',
    r'(tbb|oneapi/tbb)/': 'base/threads',
    r'spdlog/': 'base',
    r'CLI/': 'cli',
    r'nanobind/': 'python',
    r'(png|jpeglib|jerror|tiffio)\.h|webp/|openjpeg': 'fallback/images',
}
SINGLE = [r'openssl/', r'zip\.h']  # one folder, whichever it is

MAY_LINK_VERBS = {
    'partition': 'tc_lang fallback polyhedral',
    'tuner': 'partition polyhedral codegen executor fallback',
    'executor': 'fallback',
    'driver': '*',
    'cli': '*',
    'python': '*',
    'bench': '*',
    'tests': '*',
}
LIBRARIES = {'base', 'affine'}  # folders without a verb: anyone above may link them
NO_COMPILER = {'weft::isl', 'weft::llvm', 'weft::lld', 'weft::protobuf', 'weft::xgboost'}


def closure(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """node -> all that can be reached from it."""
    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for node in edges.get(todo.pop(), ()):
                if node not in seen:
                    seen.add(node)
                    todo.append(node)
        return seen
    return {node: reach(node) for node in edges}


def owner_of(what: str) -> str | None:
    return next((folders for header, folders in OWNERS.items() if re.match(header, what)), None)


def check_includes(root: Path) -> list[str]:
    said = []
    allowed = closure({folder: set(may.split()) for folder, may in MAY_INCLUDE.items()})
    edges: dict[str, set[str]] = defaultdict(set)
    single: dict[str, dict[str, str]] = defaultdict(dict)
    for file in tree.files('.h', '.cpp', '.cu', root=root):
        folder = file.split('/')[0]
        if folder not in MAY_INCLUDE:
            continue  # tools, models, cmake: not part of the product
        for line, quote, what in tree.includes(root / file):
            at = f'{file}:{line}'
            target = 'include/' + what if what.startswith('weft/') else what
            if (root / target).is_file():
                edges[file].add(target)
                other = target.split('/')[0]
                if other not in allowed[folder] | {folder, 'base'} or (folder == 'include' and other != 'include'):
                    hint = '; a test across folders belongs in tests/' if tree.is_test(file) else ''
                    said.append(f'{at}: {folder} may not include {target}{hint}')
                continue
            if quote == '"' and (root / file).with_name(Path(what).name).is_file() and '.pb.' not in what:
                said.append(f'{at}: "{what}" is to be named from the root')
            if tree.is_test(file):
                continue
            owners = owner_of(what)
            if owners and not any(file.startswith(o + '/') for o in owners.split()):
                said.append(f'{at}: only {owners.replace(" ", ", ")} may include {what}')
            for header in SINGLE:
                if re.match(header, what):
                    single[header].setdefault(folder, at)
    for header, users in single.items():
        if len(users) > 1:
            said.append(f'{header} is included by several folders: ' + ', '.join(sorted(users.values())))
    for file, reached in sorted(closure(edges).items()):
        if file in reached:
            said.append(f'{file}: includes itself through ' + ', '.join(sorted(reached & set(edges))[:4]))
    return said


CALL = re.compile(r'weft_(library|test)\s*\(([^)]*)\)')


def libraries(root: Path) -> dict[str, tuple[str, list[str]]]:
    """library -> (folder, what it links), read from the CMakeLists.txt files."""
    found = {}
    for file in tree.files('CMakeLists.txt', root=root):
        text = re.sub(r'#.*', '', (root / file).read_text())
        for kind, call in CALL.findall(text):
            words = call.split()
            links, keyword = [], ''
            for word in words[1:]:
                if word in ('SRCS', 'DEPS', 'PRIVATE_LIBS'):
                    keyword = word
                elif keyword in ('DEPS', 'PRIVATE_LIBS'):
                    links.append(word)
            if kind == 'library':
                found[words[0]] = (file.split('/')[0], links)
    return found


def check_links(root: Path) -> list[str]:
    said = []
    found = libraries(root)
    for name, (folder, links) in sorted(found.items()):
        for link in links:
            if link not in found:
                continue
            other = found[link][0]
            noun = link.endswith('_ir') or other in LIBRARIES
            if name.endswith('_ir') and not noun:
                said.append(f'{folder}/CMakeLists.txt: the noun {name} links {link}, which is no noun')
            may = MAY_LINK_VERBS.get(folder, '')
            if not noun and other != folder and may != '*' and other not in may.split():
                said.append(f'{folder}/CMakeLists.txt: {name} links the verb {link}; it may link {other}\'s nouns only')
    reached = closure({name: set(links) for name, (_, links) in found.items()})
    for name, (folder, _) in sorted(found.items()):
        if folder == 'executor':
            for library in sorted(reached[name] & NO_COMPILER):
                said.append(f'executor/CMakeLists.txt: {name} reaches {library}; a runtime holds no compiler')
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--root', type=Path, default=tree.ROOT)
    root = parser.parse_args().root
    said = check_includes(root) + check_links(root)
    print('\n'.join(said) or 'layers: as designed')
    return 1 if said else 0


if __name__ == '__main__':
    sys.exit(main())
