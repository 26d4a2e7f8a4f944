"""File tests: a text form, `# RUN:` lines that take it through the tools, `# CHECK:` lines for what must come out.

Substitutions beside lit's own: %models (the folder of small networks). Feature: gpu. Each text is also executed, by a
RUN line of its own, since golden text alone proves nothing.
"""
import glob
import os
import lit.formats

config.name = 'file'
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(config.test_source_root)
build = lit_config.params.get('build', os.path.join(root, 'build'))
config.test_exec_root = os.path.join(build, 'lit')
config.suffixes = ['.graph', '.tc', '.groups', '.call', '.choices', '.sched', '.loops', '.plan', '.test']
config.excludes = ['Inputs']

tools = [os.path.join(build, 'bin'), os.path.join(root, '.venv', 'bin'), '/usr/lib/llvm-19/bin', os.environ['PATH']]
config.environment['PATH'] = os.pathsep.join(tools)
config.environment['PYTHONPATH'] = os.path.join(build, 'python')
config.environment['FILECHECK_OPTS'] = '--dump-input-filter=error'
for name in ('WEFT_CACHE_DIR', 'HOME', 'ASAN_OPTIONS', 'UBSAN_OPTIONS'):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.substitutions.append(('%models', os.path.join(root, 'models')))
if glob.glob('/dev/nvidia[0-9]*'):
    config.available_features.add('gpu')
