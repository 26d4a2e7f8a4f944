"""Parts of random networks as functions of the model.

Nodes that follow each other become the body of a function, and a call stands in their place: what the network computes stays
the same. Names in a body are drawn from those of the network, so that a value may be called in it as another is called
around the call; some attributes of its nodes become attributes of the function, given by the call or by default.
"""
import random

from onnx import AttributeProto, helper

DOMAIN = 'of.the.model'


def graphs(node):
    return [a.g for a in node.attribute if a.type == AttributeProto.GRAPH and not a.ref_attr_name]


def made(nodes):
    """What nodes define, also in the graphs inside of them."""
    for node in nodes:
        yield from filter(None, node.output)
        for g in graphs(node):
            yield from (i.name for i in g.input)
            yield from (i.name for i in g.initializer)
            yield from made(g.node)


def read(nodes, outputs=()):
    """What nodes read, also in the graphs inside of them."""
    for node in nodes:
        yield from filter(None, node.input)
        for g in graphs(node):
            yield from read(g.node, [o.name for o in g.output])
    yield from outputs


def rename(nodes, names):
    for node in nodes:
        node.input[:] = [names.get(n, n) for n in node.input]
        node.output[:] = [names.get(n, n) for n in node.output]
        for g in graphs(node):
            for value in (*g.input, *g.initializer, *g.output, *g.value_info):
                value.name = names.get(value.name, value.name)
            rename(g.node, names)


def inside(nodes):
    for node in nodes:
        yield node
        for g in graphs(node):
            yield from inside(g.node)


def lift(r, function, call, inner):
    """Makes some attributes of the body's nodes those of the function. A graph that the call gives reads what the caller
    has, so that it may read nothing of `inner`, the body's own."""
    for node in list(inside(function.node)):
        for attribute in node.attribute:
            is_graph = attribute.type == AttributeProto.GRAPH
            if attribute.ref_attr_name or r.random() > (0.7 if is_graph else 0.3):
                continue
            given = AttributeProto()
            given.CopyFrom(attribute)
            given.name = f'a{len(call.attribute) + len(function.attribute_proto)}'
            free = set()
            if is_graph:
                free = set(read(attribute.g.node, [o.name for o in attribute.g.output]))
                free -= {*(i.name for i in attribute.g.input), *(i.name for i in attribute.g.initializer), *made(attribute.g.node)}
            if r.random() < 0.5 and not free & inner:
                function.attribute.append(given.name)
                call.attribute.append(given)
            elif not is_graph:  # a default stands outside of the graphs of the body, and reads nothing of theirs
                function.attribute_proto.append(given)
            else:
                continue
            reference = AttributeProto(name=attribute.name, type=attribute.type, ref_attr_name=given.name)
            attribute.CopyFrom(reference)


def outline(model, r):
    """Puts some nodes of the network into a new function."""
    graph = model.graph
    begin = r.randrange(len(graph.node))
    end = r.randint(begin + 1, len(graph.node))
    nodes = graph.node[begin:end]
    own = list(dict.fromkeys(made(nodes)))
    operands = [n for n in dict.fromkeys(read(nodes)) if n not in set(own)]
    wanted = {*read(graph.node[end:]), *(o.name for o in graph.output)}
    results = [n for node in nodes for n in node.output if n and n in wanted]
    if not results:
        return
    call = helper.make_node(f'F{len(model.functions)}', operands, results, domain=DOMAIN)
    function = helper.make_function(DOMAIN, call.op_type, operands, results, nodes,
                                    [*model.opset_import, *([] if model.functions else [helper.make_opsetid(DOMAIN, 1)])])
    if not model.functions:
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    lift(r, function, call, set(own))
    taken = {*operands, *made(function.node), *read(function.node)}
    pool = {*taken, *made(graph.node), *read(graph.node), *(f'v{i}' for i in range(len(taken)))}
    names = dict(zip(sorted(taken), r.sample(sorted(pool), len(taken)))) if r.random() < 0.7 else {}
    rename(function.node, names)
    for side in (function.input, function.output):
        side[:] = [names.get(n, n) for n in side]
    del graph.node[begin:end]
    graph.node.insert(begin, call)
    model.functions.append(function)


def outlined(model, seed):
    """The network with one to three functions in it, of which one may call another."""
    r = random.Random(seed)
    changed = type(model)()
    changed.CopyFrom(model)
    for _ in range(r.randint(1, 3)):
        outline(changed, r)
    return changed
