import torch
from blind import right, wrong

COPY = "Remove the prefix from those names of the file that begin with it. If the rest is a name of the body, copy the tensor into the body's tensor of this name."
SHARE = "The body must not share memory with the file's tensors."
STATE = "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them."
KEEP = "Keep their dtype and their `requires_grad`, even if the file's tensors have different ones."
UNEXPECTED = "The *unexpected* names are those of the file's tensors that the body does not have, including the old head's."
AS_IN_FILE = "Write them as in the file, with the prefix if they have one."
SHAPE = "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix."
BEFORE = "Raise it before you copy anything."


@right("plain loops over names, checks first, copy_ under no_grad")
def load_body(body, weights, prefix):
    own = body.state_dict()
    pairs, unexpected, had = [], [], set()
    for name, tensor in weights.items():
        short = name[len(prefix) :] if name.startswith(prefix) else None
        if short is None or short not in own:
            unexpected.append(name)
            continue
        if own[short].shape != tensor.shape:
            raise ValueError(f"{name}: {tuple(tensor.shape)} in the file")
        pairs.append((own[short], tensor))
        had.add(short)
    with torch.no_grad():
        for target, tensor in pairs:
            target.copy_(tensor)
    return [name for name in own if name not in had], unexpected


@right("puts the prefix before the body's names, set differences, slice assignment")
def load_body(body, weights, prefix):
    wanted = {prefix + name: tensor for name, tensor in body.state_dict().items()}
    both = wanted.keys() & weights.keys()
    bad = sorted(n for n in both if wanted[n].size() != weights[n].size())
    if bad:
        raise ValueError("other shapes: " + ", ".join(bad))
    for name in both:
        source = weights[name].detach().to(wanted[name].device, wanted[name].dtype)
        wanted[name][...] = source
    missing = [name[len(prefix) :] for name in wanted.keys() - weights.keys()]
    return missing, list(weights.keys() - wanted.keys())


@right("load_state_dict with a renamed dict, its own lists of names")
def load_body(body, weights, prefix):
    names = set(body.state_dict())
    found = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix) and name.removeprefix(prefix) in names
    }
    for name, tensor in body.state_dict().items():
        if name in found and found[name].shape != tensor.shape:
            raise ValueError(name)
    body.load_state_dict(found, strict=False)
    unexpected = [
        n for n in weights if not (n.startswith(prefix) and n[len(prefix) :] in found)
    ]
    return sorted(names - set(found)), unexpected


def _whole_state(body):
    """The live parameters and buffers, by name."""
    return dict(body.state_dict(keep_vars=True))


def _same_shape(name, one, two):
    if list(one.shape) != list(two.shape):
        raise ValueError(f"size mismatch for {name!r}: {one.shape} and {two.shape}")


@right("live tensors with keep_vars, copies through .data, two passes")
def load_body(body, weights, prefix):
    state = _whole_state(body)
    missing = []
    for name, tensor in state.items():
        if prefix + name not in weights:
            missing.append(name)
        else:
            _same_shape(name, tensor, weights[prefix + name])
    for name, tensor in state.items():
        if name not in missing:
            tensor.data.copy_(weights[prefix + name].data)
    expected = [prefix + name for name in state]
    return missing, [name for name in weights if name not in expected]


@wrong("removes the prefix wherever it occurs in a name", breaks=COPY, name="replace instead of removeprefix")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        short = name.replace(prefix, "") if prefix else name
        if name.startswith(prefix) and short in own:
            found[short] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(name)
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    return [name for name in own if name not in found], unexpected


@wrong("a name without the prefix that equals a body's name is not reported", breaks=UNEXPECTED, name="removeprefix without startswith in the report")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    found = {n: t for n, t in found.items() if n in own}
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(name)
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    missing = [name for name in own if name not in found]
    unexpected = [name for name in weights if name.removeprefix(prefix) not in own]
    return missing, unexpected


@wrong("counts buffers that are not saved, such as position ids, as the body's tensors", breaks=STATE, name="named_buffers instead of state_dict")
def load_body(body, weights, prefix):
    own = dict(body.named_parameters(remove_duplicate=False))
    own.update(body.named_buffers(remove_duplicate=False))
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and tensor.shape != own[name].shape:
            raise ValueError(name)
    with torch.no_grad():
        for name, tensor in found.items():
            if name in own:
                own[name].copy_(tensor)
    missing = [name for name in own if name not in found]
    known = {prefix + name for name in own}
    return missing, [name for name in weights if name not in known]


@wrong("gives the body's parameters the requires_grad of the file's tensors", breaks=KEEP, name="takes requires_grad from the file")
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    found = {n[len(prefix) :]: t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and tensor.shape != own[name].shape:
            raise ValueError(name)
    with torch.no_grad():
        for name, tensor in found.items():
            if name in own:
                own[name].copy_(tensor)
                own[name].requires_grad_(tensor.requires_grad)
    known = {prefix + name for name in own}
    return [n for n in own if n not in found], [n for n in weights if n not in known]


@wrong("reports a tensor that begins with the prefix by its short name", breaks=AS_IN_FILE, name="unexpected names without the prefix")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name in own:
        if name in found and found[name].shape != own[name].shape:
            raise ValueError(f"shape of {name}")
    with torch.no_grad():
        for name, tensor in own.items():
            if name in found:
                tensor.copy_(found[name])
    missing = [name for name in own if name not in found]
    unexpected = [name for name in found if name not in own]
    unexpected += [name for name in weights if not name.startswith(prefix)]
    return missing, unexpected


@wrong("checks each shape only when its turn comes, so earlier tensors are already copied", breaks=BEFORE, name="check and copy in one loop")
def load_body(body, weights, prefix):
    own = body.state_dict()
    missing, unexpected = list(own), []
    with torch.no_grad():
        for name, tensor in weights.items():
            short = name.removeprefix(prefix)
            if not name.startswith(prefix) or short not in own:
                unexpected.append(name)
                continue
            if tensor.shape != own[short].shape:
                raise ValueError(f"shape of {name}")
            own[short].copy_(tensor)
            missing.remove(short)
    return missing, unexpected


@wrong("compares the number of entries, so a transposed matrix is loaded", breaks=SHAPE, name="numel instead of shape")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    found = {n: t for n, t in found.items() if n in own}
    for name, tensor in found.items():
        if tensor.numel() != own[name].numel():
            raise ValueError(f"{name}: {tensor.numel()} numbers, not {own[name].numel()}")
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor.reshape(own[name].shape))
    missing = [name for name in own if name not in found]
    known = {prefix + name for name in found}
    return missing, [name for name in weights if name not in known]


@wrong("load_state_dict with assign=True puts the file's own tensors into the body", breaks=SHARE, name="assigns instead of copying")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {}
    for name, tensor in weights.items():
        short = name.removeprefix(prefix)
        if name.startswith(prefix) and short in own:
            if tensor.shape != own[short].shape:
                raise ValueError(f"shape of {name}")
            found[short] = tensor.detach().to(own[short])
    body.load_state_dict(found, strict=False, assign=True)
    known = {prefix + name for name in own}
    return [n for n in own if n not in found], [n for n in weights if n not in known]


@wrong("replaces the data, so a body in float32 becomes bfloat16 like the file", breaks=KEEP, name="takes the dtype from the file")
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    found = {n: t for n, t in found.items() if n in own}
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"shape of {name}")
    for name, tensor in found.items():
        own[name].data = tensor.detach().clone().to(own[name].device)
    missing = [name for name in own if name not in found]
    known = {prefix + name for name in found}
    return missing, [name for name in weights if name not in known]


@wrong("splits a name at its first dot, so a prefix of two parts (or of none) never matches", breaks=COPY, name="takes the prefix for the part before the first dot")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        first, dot, rest = name.partition(".")
        if first + dot == prefix and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"shape of {name}")
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    return [name for name in own if name not in found], unexpected
