# A peer that runs the same network in a process of its own: `python3 peer.py ARM MODEL INPUTS.npz THREADS cpu|cuda`.
# One line in, one line out, until standard input ends:
#   run           runs of 0.1 ms, one at least, that are not counted, then one that is -> its microseconds
#   outputs FILE  writes the outputs of the last run -> ok
# The first line out is `ready VERSION`; a line `error TEXT` ends the process.
import contextlib
import io
import os
import sys
import time

answers = os.fdopen(os.dup(1), 'w', buffering=1)
os.dup2(2, 1)  # what the library prints is no answer


class Fetched:
    """An array that stays where it is until somebody wants it: so no run is charged for a copy to the host."""

    def __init__(self, fetch):
        self.fetch = fetch

    def __array__(self, dtype=None, copy=None):
        return self.fetch()


def load_on_cuda(arm, model, inputs, threads):
    if arm == 'onnxruntime':
        import onnxruntime as ort
        provider = 'CUDAExecutionProvider'
        if provider not in ort.get_available_providers():
            raise ImportError(f'onnxruntime has no {provider} here')
        # In plain f32, as weft and its libraries.
        how = {'use_tf32': '0', 'cudnn_conv_algo_search': 'EXHAUSTIVE'}
        session = ort.InferenceSession(model, providers=[(provider, how)])
        if provider not in session.get_providers():
            raise RuntimeError(f'{provider} does not start')
        binding = session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value, 'cuda', 0))
        names = [o.name for o in session.get_outputs()]
        for name in names:
            binding.bind_output(name, 'cuda', 0)

        def run():
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            return {name: Fetched(value.numpy) for name, value in zip(names, binding.get_outputs())}
        return ort.__version__, run, lambda: None
    if arm == 'torch':
        version, run, rest = load(arm, model, inputs, threads, 'cuda')
        return version, lambda: {name: Fetched(lambda t=t: t.cpu().numpy()) for name, t in run().items()}, rest
    raise NotImplementedError(f'{arm} does not run on CUDA')


def load(arm, model, inputs, threads, device='cpu'):
    """Gives (version, a function that runs once and gives the outputs by name, a function to wait for its workers)."""
    if arm == 'onnxruntime':
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Its workers would go on spinning in the turn of the next arm.
        options.add_session_config_entry('session.force_spinning_stop', '1')
        session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])
        names = [o.name for o in session.get_outputs()]
        return ort.__version__, lambda: dict(zip(names, session.run(names, inputs))), lambda: None
    if arm == 'openvino':
        import openvino as ov
        core = ov.Core()
        network = core.read_model(model)
        network.reshape({name: list(value.shape) for name, value in inputs.items()})
        config = {'INFERENCE_NUM_THREADS': threads, 'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_PRECISION_HINT': 'f32',
                  'DYNAMIC_QUANTIZATION_GROUP_SIZE': 0}
        compiled = core.compile_model(network, 'CPU', config)
        request = compiled.create_infer_request()
        names = [o.get_any_name() for o in network.outputs]  # compiled ones also have other values' names

        def run():
            request.infer(inputs, share_inputs=True)
            return {name: request.get_output_tensor(i).data for i, name in enumerate(names)}
        return ov.__version__.split('-')[0], run, lambda: None
    if arm == 'torch':
        # What it compiles goes to the folder of this script, which ends with this process, unless the user has a place.
        os.environ.setdefault('TORCHINDUCTOR_CACHE_DIR', os.path.join(os.path.dirname(__file__), 'inductor'))
        with contextlib.redirect_stderr(io.StringIO()):  # where it tells what it tries
            import peer_torch
            return peer_torch.load(model, inputs, threads, device)
    raise ValueError(f'no peer is called {arm}')


def main():
    import numpy as np
    arm, model, path, threads, device = sys.argv[1:]
    with np.load(path, allow_pickle=False) as file:
        inputs = {name: file[name] for name in file.files}
    version, run, rest = (load_on_cuda if device == 'cuda' else load)(arm, model, inputs, int(threads))
    answers.write(f'ready {version}\n')
    outputs = {}
    for line in sys.stdin:
        verb, _, argument = line.strip().partition(' ')
        if verb == 'run':
            begin = time.perf_counter_ns()
            while True:
                run()
                if time.perf_counter_ns() - begin > 100_000:
                    break
            start = time.perf_counter_ns()
            outputs = run()
            spent_us = (time.perf_counter_ns() - start) / 1e3
            rest()
            answers.write(f'{spent_us}\n')
        else:
            np.savez(argument, **outputs)
            answers.write('ok\n')


try:
    main()
except Exception as error:  # whatever the library raises
    answers.write(f'error {type(error).__name__}: {error}'.replace('\n', ' ')[:1000] + '\n')
