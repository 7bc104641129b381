import re

import torch
from torch import nn
from blind import right, wrong


@right("two passes over the body's names, each tensor copied by hand")
def load_body(body, weights, prefix):
    own = body.state_dict()
    missing = []
    for name, tensor in own.items():
        if prefix + name not in weights:
            missing.append(name)
        elif weights[prefix + name].shape != tensor.shape:
            raise ValueError(f"{name} has another shape in the file")
    known = {prefix + name for name in own}
    with torch.no_grad():
        for name, tensor in own.items():
            if name not in missing:
                tensor.copy_(weights[prefix + name])
    return missing, [name for name in weights if name not in known]


@right("load_state_dict on clones, shapes compared before it, lists sorted")
def load_body(body, weights, prefix, strict=False):
    own = {name: tensor.size() for name, tensor in body.state_dict().items()}
    found = {
        name.removeprefix(prefix): tensor.detach().clone()
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    fits = {name: found[name] for name in found.keys() & own.keys()}
    for name, tensor in fits.items():
        if tensor.size() != own[name]:
            raise ValueError(f"shape of {prefix}{name}: {tensor.size()}, not {own[name]}")
    body.load_state_dict(fits, strict=strict)
    unexpected = sorted(weights.keys() - {prefix + name for name in fits})
    return sorted(own.keys() - fits.keys()), unexpected


@right("set algebra on the names as in the file")
def load_body(body, weights, prefix):
    own = {prefix + name: tensor for name, tensor in body.state_dict().items()}
    both = own.keys() & weights.keys()
    different = [name for name in both if own[name].shape != weights[name].shape]
    if different:
        raise ValueError("different shapes: " + ", ".join(different))
    for name in both:
        own[name].data.copy_(weights[name].data)
    missing = [name[len(prefix) :] for name in own.keys() - both]
    return missing, list(weights.keys() - both)


@right("sorts the file's names into pairs first, then writes with in-place indexing")
def load_body(body, weights, prefix):
    left = dict(body.state_dict())  # shrinks to the missing ones
    pairs, unexpected = [], []
    for name, given in weights.items():
        target = left.pop(name[len(prefix) :], None) if name.startswith(prefix) else None
        if target is None:
            unexpected.append(name)
        elif tuple(target.shape) != tuple(given.shape):
            raise ValueError("shapes differ", name)
        else:
            pairs.append((target, given))
    for target, given in pairs:
        target[...] = given.detach().to(target)
    return [*left], unexpected


@wrong(
    "the unexpected names are those that load_state_dict reports: the old head's are not among them, and the others lack the prefix",
    "The *unexpected* names are those of the file's tensors that the body does not have, including the old head's.",
    "old head missing in the unexpected names",
)
def load_body(body, weights, prefix):
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    own = body.state_dict()
    for name in found:
        if name in own and found[name].shape != own[name].shape:
            raise ValueError(name)
    missing, unexpected = body.load_state_dict(found, strict=False)
    return list(missing), [prefix + name for name in unexpected]


@wrong(
    "turns load_state_dict's error into a ValueError: it comes after the tensors that fit were copied",
    "Raise it before you copy anything.",
    "shape error comes after copying",
)
def load_body(body, weights, prefix):
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    try:
        missing, _ = body.load_state_dict(found, strict=False)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    known = {prefix + name for name in body.state_dict()}
    return list(missing), [name for name in weights if name not in known]


@wrong(
    "writes the unexpected names of the prefix's part without the prefix",
    "Write them as in the file, with the prefix if they have one.",
    "prefix cut off in the unexpected names",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        short = name.removeprefix(prefix)
        if name.startswith(prefix) and short in own:
            if tensor.shape != own[short].shape:
                raise ValueError(f"{short}: {tensor.shape}")
            found[short] = tensor
        else:
            unexpected.append(short)
    body.load_state_dict(found, strict=False)
    return [name for name in own if name not in found], unexpected


@wrong(
    "removeprefix without startswith: a tensor of the file without the prefix whose name is one of the body's is copied",
    "Names that do not begin with the prefix belong to the old head.",
    "names without the prefix are loaded, too",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        short = name.removeprefix(prefix)
        if short not in own:
            unexpected.append(name)
        elif tensor.shape != own[short].shape:
            raise ValueError(f"shape of {name}")
        else:
            found[short] = tensor
    body.load_state_dict(found, strict=False)
    return [name for name in own if name not in found], unexpected


@wrong(
    "compares the numbers of elements and reshapes: (2, 3) is copied into (3, 2) without an error",
    "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix.",
    "only the number of elements is compared",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    known = {prefix + name: name for name in own}
    for name, short in known.items():
        if name in weights and weights[name].numel() != own[short].numel():
            raise ValueError(f"{short} does not fit")
    for name, short in known.items():
        if name in weights:
            own[short].copy_(weights[name].detach().reshape(own[short].shape))
    missing = [short for name, short in known.items() if name not in weights]
    return missing, [name for name in weights if name not in known]


@wrong(
    "load_state_dict with assign=True: the body's tensors become the file's own, with the file's dtype",
    "The body must not share memory with the file's tensors.",
    "assigned instead of copied",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {
        name[len(prefix) :]: tensor
        for name, tensor in weights.items()
        if name.startswith(prefix) and name[len(prefix) :] in own
    }
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{name}: {tuple(tensor.shape)}")
    body.load_state_dict(found, strict=False, assign=True)
    unexpected = [n for n in weights if n not in {prefix + name for name in found}]
    return [name for name in own if name not in found], unexpected


@wrong(
    "goes through named_parameters and named_buffers: buffers that are not saved are reported missing (or copied), tied parameters are found under one name only",
    "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them.",
    "counts buffers that are not in the state dict",
)
def load_body(body, weights, prefix):
    own = {**dict(body.named_parameters()), **dict(body.named_buffers())}
    known = {prefix + name: tensor for name, tensor in own.items()}
    for name, tensor in known.items():
        if name in weights and weights[name].shape != tensor.shape:
            raise ValueError(f"shape of {name}")
    with torch.no_grad():
        for name, tensor in known.items():
            if name in weights:
                tensor.copy_(weights[name])
    missing = [name for name in own if prefix + name not in weights]
    return missing, [name for name in weights if name not in known]


@wrong(
    "removes the prefix wherever it stands in the name: of bert.albert.weight (body: albert.weight) only alweight is left",
    "Remove the prefix from those names of the file that begin with it.",
    "prefix removed inside names, too",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        short = name.replace(prefix, "")
        if name.startswith(prefix) and short in own:
            found[short] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{name}: shapes differ")
    missing = [name for name in own if name not in found]
    body.load_state_dict(found, strict=False)
    return missing, unexpected


@wrong(
    "uses the prefix as a regular expression, whose dot fits any character: berta.weight or bert_.weight counts as the body's",
    "Names that do not begin with the prefix belong to the old head.",
    "prefix used as a regular expression",
)
def load_body(body, weights, prefix):
    begin = re.compile(prefix)
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        match = begin.match(name)
        short = name[match.end() :] if match else None
        if short not in own:
            unexpected.append(name)
            continue
        if tensor.shape != own[short].shape:
            raise ValueError(f"{name} has the shape {tuple(tensor.shape)}")
        found[short] = tensor
    body.load_state_dict(found, strict=False)
    return [name for name in own if name not in found], unexpected


@wrong(
    "compares shapes only among the parameters: a buffer of another shape that broadcasts, such as (1,) for (3,), is copied without an error",
    "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix.",
    "shapes of buffers are not compared",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    for name, parameter in body.named_parameters(remove_duplicate=False):
        given = weights.get(prefix + name)
        if given is not None and given.shape != parameter.shape:
            raise ValueError(f"{name}: {given.shape} in the file, {parameter.shape} here")
    missing = []
    for name, tensor in own.items():
        if prefix + name in weights:
            tensor.copy_(weights[prefix + name].detach())
        else:
            missing.append(name)
    known = {prefix + name for name in own}
    return missing, [name for name in weights if name not in known]
