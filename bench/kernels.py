"""Contractions, from comprehension to machine code, and bare leaves, against the peak of the multipliers.

    ./dev bench kernels

Each program takes turns with a loop of nothing but multiply-adds, so that its percentage holds whatever the clock does.
"""
import subprocess
from pathlib import Path

BIN = Path(__file__).resolve().parent.parent / 'build' / 'bin'

if __name__ == '__main__':
    for program in ('leaf_bench', 'contraction_bench'):
        print(f'# {program}', flush=True)
        subprocess.run([BIN / program], check=True)
