import functools
from typing import NamedTuple

import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("the library's load_state_dict after a check of the shapes")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{name}: {tensor.shape} in the file, {own[name].shape}")
    missing, extra = body.load_state_dict(found, strict=False)
    old_head = [name for name in weights if not name.startswith(prefix)]
    return list(missing), [prefix + name for name in extra] + old_head


@right("goes through the body's names, and copies into the tensors of state_dict()")
def load_body(body, weights, prefix):
    pairs, missing = [], []
    for name, target in body.state_dict().items():
        source = weights.get(prefix + name)
        if source is None:
            missing.append(name)
        elif tuple(source.shape) != tuple(target.shape):
            raise ValueError("wrong shape: " + prefix + name)
        else:
            pairs.append((target, source, prefix + name))
    with torch.no_grad():
        for target, source, _ in pairs:
            target.copy_(source.detach())
    used = {name for _, _, name in pairs}
    return missing, [name for name in weights if name not in used]


@right("fills the gaps of the file with the body's own tensors, then loads strictly")
def load_body(body, weights, prefix):
    own = body.state_dict()
    wanted = {prefix + name: name for name in own}
    both = [name for name in weights if name in wanted]
    bad = [n for n in both if weights[n].size() != own[wanted[n]].size()]
    if bad:
        raise ValueError("shapes differ: " + ", ".join(bad))
    full = {name: weights.get(prefix + name, own[name]) for name in own}
    body.load_state_dict(full, strict=True)
    return (
        sorted(name for file, name in wanted.items() if file not in weights),
        sorted(set(weights) - set(wanted)),
    )


class Report(NamedTuple):
    missing: list
    unexpected: list


class Loader:
    """Sort the names with sets, and reach the tensors by attribute paths."""

    def __init__(self, body, weights, prefix):
        self.body, self.weights, self.prefix = body, weights, prefix
        self.names = set(body.state_dict())
        self.have = {n[len(prefix) :] for n in weights if n[: len(prefix)] == prefix}

    def target(self, name):
        return functools.reduce(getattr, name.split("."), self.body)

    def source(self, name):
        return self.weights[f"{self.prefix}{name}"]

    def check(self):
        for name in self.names & self.have:
            if list(self.source(name).shape) != list(self.target(name).shape):
                raise ValueError(f"the shape of {name!r} does not fit")

    def copy(self):
        with torch.no_grad():
            for name in self.names & self.have:
                self.target(name)[...] = self.source(name)

    def report(self):
        known = {self.prefix + name for name in self.names}
        return Report(
            list(self.names - self.have), [n for n in self.weights if n not in known]
        )


@right("a class with sets; reaches tensors by getattr and writes with [...] =")
def load_body(body, weights, prefix):
    loader = Loader(body, weights, prefix)
    loader.check()
    loader.copy()
    return loader.report()


# ---------------------------------------------------------------- wrong


@wrong(
    "returns the two lists of load_state_dict, with the prefix put back, and nothing else",
    breaks="The *unexpected* names are those of the file's tensors that the body does not have, including the old head's.",
    name="old head is not reported",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(name)
    missing, extra = body.load_state_dict(found, strict=False)
    return missing, [prefix + name for name in extra]


@wrong(
    "reports unexpected names after the prefix was removed",
    breaks="Write them as in the file, with the prefix if they have one.",
    name="unexpected names lack the prefix",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        short = name.removeprefix(prefix)
        if not name.startswith(prefix) or short not in own:
            unexpected.append(short)
        elif own[short].shape != tensor.shape:
            raise ValueError(name)
        else:
            found[short] = tensor
    missing, _ = body.load_state_dict(found, strict=False)
    return missing, unexpected


@wrong(
    "looks only at named_parameters(), so buffers are neither copied nor missing",
    breaks="The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them.",
    name="buffers forgotten",
)
def load_body(body, weights, prefix):
    own = dict(body.named_parameters())
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name in own:
        if name in found and own[name].shape != found[name].shape:
            raise ValueError(name)
    with torch.no_grad():
        for name in own:
            if name in found:
                own[name].copy_(found[name])
    missing = [name for name in own if name not in found]
    return missing, [n for n in weights if n not in {prefix + name for name in own}]


@wrong(
    "checks each shape just before it copies this tensor, so earlier ones are copied",
    breaks="Raise it before you copy anything.",
    name="copies until the first error",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    missing, unexpected = set(own), []
    for name, tensor in weights.items():
        short = name.removeprefix(prefix)
        if name.startswith(prefix) and short in own:
            if own[short].shape != tensor.shape:
                raise ValueError(f"{name} has the wrong shape")
            with torch.no_grad():
                own[short].copy_(tensor)
            missing.discard(short)
        else:
            unexpected.append(name)
    return sorted(missing), unexpected


@wrong(
    "removeprefix on every name, without a look whether the name begins with it",
    breaks="Names that do not begin with the prefix belong to the old head.",
    name="copies names that lack the prefix",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {name.removeprefix(prefix): tensor for name, tensor in weights.items()}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(name)
    missing, _ = body.load_state_dict(found, strict=False)
    return missing, [n for n in weights if n.removeprefix(prefix) not in own]


@wrong(
    "name.replace(prefix, ''), which also removes the prefix inside of a name",
    breaks="Remove the prefix from those names of the file that begin with it.",
    name="prefix removed in the middle of a name",
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
        if own[name].shape != tensor.shape:
            raise ValueError(name)
    missing, _ = body.load_state_dict(found, strict=False)
    return missing, unexpected


@wrong(
    "compares the number of elements and reshapes, so a transposed matrix is accepted",
    breaks="If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix.",
    name="numel instead of shape",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    fits = {name: found[name] for name in own if name in found}
    for name, tensor in fits.items():
        if tensor.numel() != own[name].numel():
            raise ValueError(name)
    with torch.no_grad():
        for name, tensor in fits.items():
            own[name].copy_(tensor.reshape(own[name].shape))
    missing = [name for name in own if name not in found]
    return missing, [n for n in weights if n not in {prefix + name for name in fits}]


@wrong(
    "param.data = tensor.to(dtype), which is the file's tensor where the dtypes agree",
    breaks="The body must not share memory with the file's tensors.",
    name="body shares memory with the file",
)
def load_body(body, weights, prefix):
    names = body.state_dict().keys()
    own = dict(body.named_parameters(remove_duplicate=False))
    own.update(body.named_buffers(remove_duplicate=False))
    for name in names:
        if prefix + name in weights and weights[prefix + name].shape != own[name].shape:
            raise ValueError(name)
    missing = []
    for name in names:
        if prefix + name in weights:
            own[name].data = weights[prefix + name].detach().to(own[name])
        else:
            missing.append(name)
    return missing, [n for n in weights if n not in {prefix + name for name in names}]


@wrong(
    "takes all of named_buffers(), so buffers that are not saved count as missing",
    breaks="The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them.",
    name="counts buffers that are not saved",
)
def load_body(body, weights, prefix):
    own = {**dict(body.named_parameters()), **dict(body.named_buffers())}
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name in own:
        if name in found and own[name].shape != found[name].shape:
            raise ValueError(name)
    with torch.no_grad():
        for name in own:
            if name in found:
                own[name].copy_(found[name])
    missing = [name for name in own if name not in found]
    return missing, [n for n in weights if n not in {prefix + name for name in own}]


@wrong(
    "also takes over requires_grad from the file's tensors",
    breaks="Keep their dtype and their `requires_grad`, even if the file's tensors have different ones.",
    name="requires_grad of the file",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(name)
    missing, extra = body.load_state_dict(found, strict=False)
    for name, parameter in body.named_parameters():
        if name in found:
            parameter.requires_grad_(found[name].requires_grad)
    return missing, [n for n in weights if n not in {prefix + name for name in own}]
