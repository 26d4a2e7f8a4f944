"""Cases in processes of their own: one that crashes, or takes longer than the limit, is a case that failed."""
import collections
import multiprocessing
import multiprocessing.connection
import os
import time


def _serve(pipe, cases, work):
    while (name := pipe.recv()) is not None:
        pipe.send(work(cases[name]))


class _Worker:
    def __init__(self, context, cases, work):
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, cases, work), daemon=True)
        self.process.start()
        theirs.close()
        self.name = None

    def start(self, name):
        self.name, self.begin = name, time.monotonic()
        self.pipe.send(name)

    def stop(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_all(cases, work, lost, jobs=2, limit_s=60, said=lambda name, outcome: None):
    """work(case) by name, in the order of `cases`, in `jobs` forks of this process; lost(why) where there is no answer."""
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    context = multiprocessing.get_context('fork')  # the cases need not be computed again
    todo, outcomes = collections.deque(cases), {}
    workers = [_Worker(context, cases, work) for _ in range(min(jobs, len(todo)))]

    def next_case(worker):
        if todo:
            worker.start(todo.popleft())
        else:
            worker.stop()
            workers.remove(worker)

    def replace(worker, reason):
        name = worker.name
        worker.stop()
        workers.remove(worker)
        outcomes[name] = lost(reason)
        said(name, outcomes[name])
        if todo:
            workers.append(_Worker(context, cases, work))
            next_case(workers[-1])

    for worker in list(workers):
        next_case(worker)
    while workers:
        ready = multiprocessing.connection.wait([w.pipe for w in workers], timeout=1)
        for worker in [w for w in workers if w.pipe in ready]:
            try:
                outcomes[worker.name] = worker.pipe.recv()
                said(worker.name, outcomes[worker.name])
                next_case(worker)
            except EOFError:
                worker.process.join()
                replace(worker, f'the process ended with code {worker.process.exitcode}')
        for worker in [w for w in workers if time.monotonic() - w.begin > limit_s and not w.pipe.poll()]:
            replace(worker, f'stopped after {limit_s:g} s')
    return {name: outcomes[name] for name in cases}
