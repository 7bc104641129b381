import torch
from torch import nn

from blind import right, wrong


@right("set arithmetic on full names, shapes first, then copy_ into the state dict's tensors")
def load_body(body, weights, prefix):
    own = {prefix + name: tensor for name, tensor in body.state_dict().items()}
    both = own.keys() & weights.keys()
    wrong_shapes = [name for name in both if own[name].shape != weights[name].shape]
    if wrong_shapes:
        raise ValueError(f"different shapes: {', '.join(sorted(wrong_shapes))}")
    with torch.no_grad():
        for name in both:
            own[name].copy_(weights[name])
    missing = [name[len(prefix) :] for name in own.keys() - both]
    return missing, list(weights.keys() - both)


@right("load_state_dict with what fits and with its own tensors for the rest, strict")
def load_body(body, weights, prefix, verbose=False):
    state = body.state_dict()
    new, missing = {}, []
    for name, tensor in state.items():
        new[name] = weights.get(prefix + name)
        if new[name] is None:
            new[name] = tensor
            missing.append(name)
        elif new[name].size() != tensor.size():
            raise ValueError(
                f"{name}: {tuple(new[name].size())} in the file, {tuple(tensor.size())} in the body"
            )
    unexpected = []
    for name in weights:
        if not (name.startswith(prefix) and name[len(prefix) :] in state):
            unexpected.append(name)
    if verbose:
        print(len(missing), "missing", len(unexpected), "unexpected")
    body.load_state_dict(new)
    return missing, unexpected


def _tensors(module, path=""):
    """Yield what a state dict holds, without making one."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield path + name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield path + name, buffer
    for name, child in module._modules.items():
        if child is not None:
            yield from _tensors(child, path + name + ".")


@right("walks through the modules recursively, plans all copies, then makes them")
def load_body(body, weights, prefix):
    left, plan, missing = dict(weights), [], []
    for name, tensor in _tensors(body):
        source = left.pop(prefix + name, None)
        if source is None:
            missing.append(name)
            continue
        if source.shape != tensor.shape:
            raise ValueError(f"{prefix}{name} has another shape in the file")
        plan.append((tensor, source))
    for tensor, source in plan:
        tensor.detach().copy_(source.detach())
    return missing, list(left)


class ShapeMismatch(ValueError):
    """A tensor of the file does not fit."""

    def __init__(self, name, file, body):
        super().__init__(f"{name}: file {tuple(file.shape)}, body {tuple(body.shape)}")


@right("an exception class of its own below ValueError, values written by index")
def load_body(body, weights, prefix):
    state = body.state_dict()
    found, unexpected = {}, []
    for full, tensor in weights.items():
        head, name = full[: len(prefix)], full[len(prefix) :]
        if head == prefix and name in state:
            found[name] = tensor
        else:
            unexpected.append(full)
    for name in found:
        if found[name].shape != state[name].shape:
            raise ShapeMismatch(name, found[name], state[name])
    for name, tensor in found.items():
        state[name][...] = tensor.detach().to(state[name])
    return [name for name in state if name not in found], unexpected


@wrong(
    "returns load_state_dict's own list: names without the prefix are not among the unexpected ones, and the others lack the prefix",
    "The *unexpected* names are those of the file's tensors that the body does not have, including the old head's.",
    "old head not among the unexpected names",
)
def load_body(body, weights, prefix):
    state = body.state_dict()
    found = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
    for name in found:
        if name in state and state[name].shape != found[name].shape:
            raise ValueError(name)
    report = body.load_state_dict(found, strict=False)
    return list(report.missing_keys), list(report.unexpected_keys)


@wrong(
    "leaves the shapes to load_state_dict and turns its RuntimeError into a ValueError: all tensors that fit have been copied by then",
    "Raise it before you copy anything.",
    "error comes after copying",
)
def load_body(body, weights, prefix):
    state = body.state_dict()
    found = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
    try:
        missing, _ = body.load_state_dict(found, strict=False)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    known = {prefix + name for name in state}
    return list(missing), [name for name in weights if name not in known]


@wrong(
    "does not look at shapes: load_state_dict raises a RuntimeError, which is no ValueError",
    "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix.",
    "RuntimeError instead of ValueError for shapes",
)
def load_body(body, weights, prefix):
    found = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
    missing, extra = body.load_state_dict(found, strict=False)
    head = [name for name in weights if not name.startswith(prefix)]
    return missing, [prefix + name for name in extra] + head


@wrong(
    "removeprefix on all names: a tensor of the old head whose name has no prefix but is a name of the body is copied and not reported",
    "Names that do not begin with the prefix belong to the old head.",
    "copies names that lack the prefix",
)
def load_body(body, weights, prefix):
    state = body.state_dict()
    found = {n.removeprefix(prefix): w for n, w in weights.items()}
    fits = {n: w for n, w in found.items() if n in state}
    for name, tensor in fits.items():
        if tensor.shape != state[name].shape:
            raise ValueError(f"shape of {name}")
    missing, _ = body.load_state_dict(fits, strict=False)
    return missing, [n for n in weights if n.removeprefix(prefix) not in state]


@wrong(
    "compares the number of entries and reshapes: a (2, 3) tensor goes into a (3, 2) tensor without an error",
    "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix.",
    "compares sizes, not shapes",
)
def load_body(body, weights, prefix):
    state = body.state_dict()
    found = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
    found = {n: w for n, w in found.items() if n in state}
    for name, tensor in found.items():
        if tensor.numel() != state[name].numel():
            raise ValueError(f"shape of {name}")
    with torch.no_grad():
        for name, tensor in found.items():
            state[name].copy_(tensor.reshape(state[name].shape))
    missing = [name for name in state if name not in found]
    return missing, [n for n in weights if n.removeprefix(prefix) not in found or not n.startswith(prefix)]


@wrong(
    "assigns clones of the file's tensors: a float32 body gets bfloat16 parameters from a bfloat16 file",
    "Keep their dtype and their `requires_grad`, even if the file's tensors have different ones.",
    "body takes over the file's dtype",
)
def load_body(body, weights, prefix):
    state = body.state_dict()
    found = {
        n.removeprefix(prefix): w.detach().clone()
        for n, w in weights.items()
        if n.startswith(prefix)
    }
    for name, tensor in found.items():
        if name in state and state[name].shape != tensor.shape:
            raise ValueError(name)
    missing, _ = body.load_state_dict(found, strict=False, assign=True)
    return missing, [n for n in weights if n not in {prefix + own for own in state}]


@wrong(
    "default lists are made once: a second call also returns the names of the first",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "mutable default arguments collect names",
)
def load_body(body, weights, prefix, missing=[], unexpected=[]):
    state = body.state_dict()
    pairs = []
    for name, tensor in state.items():
        if prefix + name not in weights:
            missing.append(name)
        elif weights[prefix + name].shape != tensor.shape:
            raise ValueError(f"{name} has another shape")
        else:
            pairs.append((tensor, weights[prefix + name]))
    unexpected += [n for n in weights if not n.startswith(prefix) or n.removeprefix(prefix) not in state]
    with torch.no_grad():
        for tensor, new in pairs:
            tensor.copy_(new)
    return missing, unexpected


@wrong(
    "takes named_parameters and named_buffers for the body's tensors: buffers that are not saved count as missing, and the second name of a shared parameter as unexpected",
    "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them.",
    "buffers that are not saved count as missing",
)
def load_body(body, weights, prefix):
    own = dict(body.named_parameters()) | dict(body.named_buffers())
    found = {n: weights[prefix + n] for n in own if prefix + n in weights}
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{name}: {tensor.shape} and {own[name].shape}")
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    missing = [name for name in own if name not in found]
    return missing, [n for n in weights if not n.startswith(prefix) or n[len(prefix) :] not in found]


@wrong(
    "sets .data to tensor.to(...), which copies only if dtype or device differ: with equal dtypes the body shares memory with the file",
    "The body must not share memory with the file's tensors.",
    "body shares memory with the file",
)
def load_body(body, weights, prefix):
    state = body.state_dict(keep_vars=True)
    found = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
    for name, own in state.items():
        if name in found and found[name].shape != own.shape:
            raise ValueError(name)
    for name, own in state.items():
        if name in found:
            own.data = found[name].detach().to(device=own.device, dtype=own.dtype)
    known = [prefix + name for name in state]
    return [name for name in state if name not in found], [n for n in weights if n not in known]


@wrong(
    "cuts names at their first dot: right for prefixes such as 'bert.', but with 'model.bert.', or an empty prefix, nothing is found",
    "Remove the prefix from those names of the file that begin with it.",
    "cuts at the first dot",
)
def load_body(body, weights, prefix):
    state = body.state_dict()
    found, unexpected = {}, []
    for full, tensor in weights.items():
        name = full.split(".", 1)[-1]
        if full.startswith(prefix) and name in state:
            if tensor.shape != state[name].shape:
                raise ValueError(f"{full} does not fit")
            found[name] = tensor
        else:
            unexpected.append(full)
    missing, _ = body.load_state_dict(found, strict=False)
    return missing, unexpected
