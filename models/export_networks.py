"""Exports networks of torchvision, timm, transformers and by hand with both of torch's exporters, those of Keras with
tf2onnx, and estimators of scikit-learn with skl2onnx; weights are drawn from a seed.

    python models/export_networks.py --list
    python models/export_networks.py --out DIR [NAME...] [--exporter torchscript|dynamo|skl2onnx|tf2onnx]

writes DIR/NAME.EXPORTER.onnx, and beside it NAME.EXPORTER.json, which tools/real_networks.py reads:
    {"exporter": "torch 2.15.0 dynamo", "source": "timm", "inputs": {"image": {"dtype", "limit", "value"}},
     "shapes": [{"image": [2, 3, 64, 96]}, ...]}
It needs what tools/requirements-exports.txt lists. Each network is exported by a process of its own, with a limit of time.
"""

import argparse
import multiprocessing
import os
import sys
import warnings

from exports import TORCH, describe

LIMIT_S = 240  # for one network
EXPORTERS = (*TORCH, "skl2onnx", "tf2onnx")


def tables():
    from exports_keras import KERAS
    from exports_modules import MODULES
    from exports_packages import PACKAGES
    from exports_tables import TABLES
    return {**MODULES, **PACKAGES, **TABLES, **KERAS}


def export_torch(network, exporter, path):
    """One file from one network, with the symbols of its inputs as names of dynamic extents."""
    import torch
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # a fused operator that cannot be exported
    module = network.make().eval()
    for weights in module.parameters():  # some heads start as zeros, and then no answer depends on the input
        if weights.ndim > 1 and not weights.any():
            torch.nn.init.xavier_normal_(weights)
    example = network.shapes()[0]
    values = []
    for name, about in network.inputs.items():
        if about.value is not None:
            value = torch.full(example[name], about.value)
        elif about.limit is not None:
            value = torch.randint(0, about.limit, example[name])
        else:
            value = torch.randn(example[name])
        values.append(value.to(getattr(torch, about.dtype)))
    names = list(network.inputs)
    dynamic = {name: {axis: e for axis, e in enumerate(about.extents) if isinstance(e, str)}
               for name, about in network.inputs.items()}
    common = {"input_names": names, "opset_version": network.opset}
    with torch.no_grad():
        if exporter == "torchscript":
            torch.onnx.export(module, tuple(values), path, dynamo=False, dynamic_axes=dynamic, **common)
        else:
            # AUTO: what the network cannot do at every extent is made constant, and the shapes to try are then fewer.
            auto = tuple({axis: torch.export.Dim.AUTO for axis in axes} for axes in dynamic.values())
            if type(module).__name__ == "Outputs":
                auto = (auto,)  # its forward takes *values
            torch.onnx.export(module, tuple(values), path, dynamo=True, external_data=False, dynamic_shapes=auto,
                              verbose=False, **common)
    return f"torch {torch.__version__.split('+')[0]} {'TorchScript' if exporter == 'torchscript' else 'dynamo'}"


def export_sklearn(network, path):
    import numpy as np
    import skl2onnx
    (shape,) = network.shapes()[0].values()
    model = skl2onnx.to_onnx(network.make(), np.zeros(shape, np.float32), target_opset=network.opset,
                             options={"zipmap": False} if hasattr(network.make(), "predict_proba") else None)
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    return f"skl2onnx {skl2onnx.__version__}"


def export_keras(network, path):
    import keras
    import numpy as np
    import tensorflow as tf
    import tf2onnx
    keras.utils.set_random_seed(0)
    model = network.make()
    rng = np.random.default_rng(0)
    for weights in model.trainable_variables:  # Keras' own make answers that hardly depend on the input
        shape = weights.shape
        if len(shape) > 1:
            inner = np.prod(shape[:-1] if shape[-1] > 1 else shape[:-2])
            weights.assign(rng.normal(0, (2 / inner) ** 0.5, shape))
    signature = [tf.TensorSpec([None if isinstance(e, str) else e for e in i.extents], i.dtype, name=name)
                 for name, i in network.inputs.items()]
    tf2onnx.convert.from_function(tf.function(lambda *values: model(list(values) if len(values) > 1 else values[0], training=False),
                                              input_signature=signature), signature, opset=network.opset, output_path=path)
    return f"tf2onnx {tf2onnx.__version__}"


def usable(path, shapes):
    """Those shapes that agree with what the file says of its inputs, and its inputs' names."""
    import onnx
    model = onnx.load(path, load_external_data=False)
    fixed = {i.name: [d.dim_value if d.HasField("dim_value") else None for d in i.type.tensor_type.shape.dim]
             for i in model.graph.input}
    shapes = [{name: shape for name, shape in one.items() if name in fixed} for one in shapes]  # unused inputs are dropped
    return [one for one in shapes if all(f in (None, e) for name, shape in one.items() for f, e in zip(fixed[name], shape))]


def make(name, exporter, path):
    """Runs in a process of its own: exporters leave much behind."""
    warnings.simplefilter("ignore")
    sys.stdout = open(os.devnull, "w")
    import torch
    torch.set_num_threads(1)
    network = tables()[name]
    if exporter in TORCH:
        said = export_torch(network, exporter, path)
    else:
        said = {"skl2onnx": export_sklearn, "tf2onnx": export_keras}[exporter](network, path)
    describe(path, said, network.source, network.inputs, usable(path, network.shapes()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--out", default=".", metavar="DIR")
    parser.add_argument("--exporter", choices=EXPORTERS, help="default: all")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    networks = tables()
    if args.list:
        print("\n".join(networks))
        return
    if unknown := [name for name in args.names if name not in networks]:
        sys.exit(f"export_networks: no such network: {', '.join(unknown)}; --list names all")
    os.makedirs(args.out, exist_ok=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.onnx", "onnx", "onnxscript", "exports_modules", "exports_packages", "exports_tables",
                                    "exports_keras"])
    failed = []
    for exporter in [args.exporter] if args.exporter else EXPORTERS:
        for name in args.names or networks:
            path = os.path.join(args.out, f"{name}.{exporter}.onnx")
            if exporter not in networks[name].exporters or os.path.exists(path.removesuffix(".onnx") + ".json"):
                continue
            process = context.Process(target=make, args=(name, exporter, path))
            process.start()
            process.join(LIMIT_S)
            if process.is_alive():
                process.kill()
                process.join()
            if process.exitcode != 0:
                failed.append(os.path.basename(path))
            print(path if process.exitcode == 0 else f"{path}: not exported", flush=True)
    if failed:
        sys.exit(f"export_networks: {len(failed)} were not exported: {', '.join(failed)}")


if __name__ == "__main__":
    main()
