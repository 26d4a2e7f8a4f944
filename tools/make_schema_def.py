"""Writes graph/schema.def and graph/onnx/function_bodies.def from the pinned onnx package.

Run from the root of the tree: .venv/bin/python tools/make_schema_def.py
"""

import base64
import pathlib
import re
import textwrap

import onnx
import onnx.defs as defs

ROOT = pathlib.Path(__file__).resolve().parent.parent
OLDEST = 1  # the oldest opset of ai.onnx that weft takes
DTYPES = {
    "bool": "bool", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32", "int32": "i32",
    "uint64": "u64", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float": "f32", "double": "f64",
    "string": "string",
}
FEW_BITS = {
    "uint4": "u4", "int4": "i4", "uint2": "u2", "int2": "i2", "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "float4e2m1": "f4e2m1", "float8e8m0": "f8e8m0",
}
ATTRIBUTES = {
    "INT": "i", "FLOAT": "f", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "INTS": "I", "FLOATS": "F", "STRINGS": "S",
    "GRAPHS": "G", "TYPE_PROTO": "y", "SPARSE_TENSOR": "p",
}


def type_set(allowed):
    """'f16|f32' for tensor types; 'any' is all of DTYPES, 'other' every type that weft has no name for."""
    names, small, other = [], [], False
    for text in allowed:
        match = re.fullmatch(r"tensor\((\w+)\)", text)
        if match and match[1] in DTYPES:
            names.append(DTYPES[match[1]])
        elif match and match[1] in FEW_BITS:
            small.append(FEW_BITS[match[1]])
        else:
            other = True
    if len(names) == len(DTYPES):
        names = ["any"]
    return "|".join(sorted(names + small) + (["other"] if other else []))


def operands(formals, variables):
    out = []
    for formal in formals:
        option = {"Single": "", "Optional": "?", "Variadic": "*"}[formal.option.name]
        if formal.type_str in variables:
            kind = formal.type_str if formal.is_homogeneous else formal.type_str + "~"
        else:
            kind = "=" + type_set([formal.type_str])
        out.append(f"{formal.name}{option}:{kind}")
    return " ".join(out)


def attributes(schema):
    out = []
    for name, a in sorted(schema.attributes.items()):
        out.append(name + ("!" if a.required else "") + ":" + ATTRIBUTES[a.type.name])
    return " ".join(out)


def count(n):
    return -1 if n > 1 << 20 else n


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_schemas():
    newest_old = {}
    for s in defs.get_all_schemas_with_history():
        if s.domain == "" and s.since_version <= OLDEST:
            newest_old[s.name] = max(newest_old.get(s.name, 0), s.since_version)
    lines = []
    for s in defs.get_all_schemas_with_history():
        if s.domain != "" or (s.since_version < OLDEST and s.since_version != newest_old[s.name]):
            continue
        variables = {t.type_param_str for t in s.type_constraints}
        sets = " ".join(f"{t.type_param_str}={type_set(t.allowed_type_strs)}" for t in s.type_constraints)
        fields = [
            quoted(s.name), str(s.since_version), "true" if s.deprecated else "false", str(s.min_input),
            str(count(s.max_input)), str(s.min_output), str(count(s.max_output)), quoted(operands(s.inputs, variables)),
            quoted(operands(s.outputs, variables)), quoted(sets), quoted(attributes(s)),
        ]
        lines.append((s.name, s.since_version, f"WEFT_SCHEMA({', '.join(fields)})\n"))
    lines.sort()
    head = (
        f"// Made by tools/make_schema_def.py from onnx {onnx.__version__}. Domain ai.onnx, opsets {OLDEST} and later.\n"
        "// WEFT_SCHEMA(name, since, deprecated, min_inputs, max_inputs, min_outputs, max_outputs, inputs, outputs,\n"
        "//             type sets, attributes): operands are name[?*]:variable[~]; ? optional, * variadic, ~ mixed types;\n"
        "//             attributes are name[!]:kind, ! required. -1 is no limit.\n"
    )
    (ROOT / "graph/schema.def").write_text(head + "".join(text for _, _, text in lines))


def graphs(nodes):
    """The subgraphs of these nodes, and theirs."""
    for node in nodes:
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield a.g
                yield from graphs(a.g.node)


def native_ops():
    return set(re.findall(r"WEFT_OP\((\w+),", (ROOT / "graph/ops.def").read_text()))


def mend_affine_grid(body):
    """Two mistakes of onnx's text: that a batch of 1 is dropped with the axis of rows, and that what guards an extent of 1
    under align_corners against a division by 0 is there for the depth only."""
    for graph in graphs(body.node):
        for node in graph.node:
            if node.op_type == "Squeeze" and len(node.input) == 1:
                node.input.append("one_1d")
    aligned = next(g.node for g in graphs(body.node) if any("H_float_nimus_one" in n.output for n in g.node))
    for at in reversed(range(len(aligned))):
        if aligned[at].op_type == "Sub" and aligned[at].output[0][0] in "HW":
            name = aligned[at].output[0]
            aligned[at].output[0] = name + "_"
            aligned.insert(at + 1, onnx.helper.make_node("Max", [name + "_", "one_f"], [name]))


MENDED = {"AffineGrid": mend_affine_grid}


def write_bodies():
    """Bodies of the functions that weft has no operator for; attributes are bound when they are expanded."""
    native = native_ops()
    out = [
        f"// Made by tools/make_schema_def.py from onnx {onnx.__version__}: functions of ai.onnx that are expanded at import.\n"
        "// What the script mends in them is its MENDED.\n"
        "// WEFT_FUNCTION(name, since, base64 of the serialized FunctionProto)\n"
    ]
    for s in sorted(defs.get_all_schemas(), key=lambda s: s.name):
        if s.domain != "" or s.name in native or not s.has_function:
            continue
        body = s.function_body
        body.ClearField("doc_string")
        for node in body.node:
            node.ClearField("doc_string")
        MENDED.get(s.name, lambda body: None)(body)
        for a in s.attributes.values():  # defaults of the operator are those of its function
            if a.default_value.name and a.name in body.attribute:
                body.attribute.remove(a.name)
                body.attribute_proto.append(a.default_value)
        text = base64.b64encode(body.SerializeToString(deterministic=True)).decode()
        rows = "\n".join(f'    "{row}"' for row in textwrap.wrap(text, 110))
        out.append(f"WEFT_FUNCTION({quoted(s.name)}, {s.since_version},\n{rows})\n")
    (ROOT / "graph/onnx/function_bodies.def").write_text("".join(out))


if __name__ == "__main__":
    write_schemas()
    write_bodies()
