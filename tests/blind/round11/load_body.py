import copy
import re

import torch
from torch import nn

from blind import right, wrong


@right("pops the body's names from a shallow copy of the file; what stays is unexpected")
def load_body(body, weights, prefix):
    rest = dict(weights)
    missing, pairs = [], []
    for name, target in body.state_dict().items():
        source = rest.pop(prefix + name, None)
        if source is None:
            missing.append(name)
        elif source.shape != target.shape:
            raise ValueError(f"{name}: {tuple(source.shape)} in the file")
        else:
            pairs.append((target, source))
    with torch.no_grad():
        for target, source in pairs:
            target.copy_(source)
    return missing, list(rest)


@right("set algebra on the body's names with the prefix put in front")
def load_body(body, weights, prefix):
    ours = {prefix + name: tensor for name, tensor in body.state_dict().items()}
    both = ours.keys() & weights.keys()
    bad = sorted(n for n in both if list(ours[n].size()) != list(weights[n].size()))
    if bad:
        raise ValueError("the shape differs: " + ", ".join(bad))
    for name in both:
        ours[name].data.copy_(weights[name].detach())
    missing = sorted(name[len(prefix) :] for name in ours.keys() - both)
    return missing, sorted(weights.keys() - both)


@right("loads strictly, with the body's own tensors where the file has none")
def load_body(body, weights, prefix):
    own = body.state_dict()
    full, missing = {}, []
    for name, tensor in own.items():
        if prefix + name in weights:
            full[name] = weights[prefix + name]
            if full[name].shape != tensor.shape:
                raise ValueError(f"cannot copy {prefix}{name}: other shape")
        else:
            full[name] = tensor
            missing.append(name)
    body.load_state_dict(full, strict=True)
    unexpected = [
        name
        for name in weights
        if not (name[: len(prefix)] == prefix and name[len(prefix) :] in own)
    ]
    return missing, unexpected


@right("takes the names apart with an escaped pattern, assigns with [...] at the end")
def load_body(body, weights, prefix):
    pattern = re.compile(re.escape(prefix) + r"(.+)", re.DOTALL)
    own = body.state_dict(keep_vars=True)
    missing = dict.fromkeys(own)  # an ordered set
    unexpected, jobs = [], []
    for name, source in weights.items():
        match = pattern.fullmatch(name)
        if match is None or match.group(1) not in own:
            unexpected.append(name)
            continue
        short = match.group(1)
        del missing[short]
        if own[short].ndim != source.ndim or any(
            a != b for a, b in zip(own[short].shape, source.shape)
        ):
            raise ValueError(name)
        jobs.append((own[short].detach(), source.detach()))
    while jobs:
        target, source = jobs.pop()
        target[...] = source.to(target.device, target.dtype)
    return [*missing], unexpected


@wrong(
    "reports only the unexpected names below the prefix, not the old head's",
    "The *unexpected* names are those of the file's tensors that the body does not have, including the old head's.",
    "the old head's names are left out of the unexpected ones",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    for name in own:
        if name in found and found[name].shape != own[name].shape:
            raise ValueError(name)
    with torch.no_grad():
        for name in own:
            if name in found:
                own[name].copy_(found[name])
    missing = [name for name in own if name not in found]
    return missing, [prefix + name for name in found if name not in own]


@wrong(
    "writes the unexpected names without the prefix",
    "Write them as in the file, with the prefix if they have one.",
    "unexpected names without the prefix",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        short = name.removeprefix(prefix)
        if name.startswith(prefix) and short in own:
            found[short] = tensor
        else:
            unexpected.append(short)
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(name)
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    return [name for name in own if name not in found], unexpected


@wrong(
    "assigns the file's tensors instead of copying them",
    "The body must not share memory with the file's tensors.",
    "the body shares memory with the file",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {
        name: weights[prefix + name].detach() for name in own if prefix + name in weights
    }
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(name)
    found = {name: tensor.to(own[name]) for name, tensor in found.items()}
    body.load_state_dict(found, strict=False, assign=True)
    missing = [name for name in own if name not in found]
    known = {prefix + name for name in own}
    return missing, [name for name in weights if name not in known]


@wrong(
    "knows only the parameters: buffers are not copied, and count as unexpected",
    "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them.",
    "buffers forgotten",
)
def load_body(body, weights, prefix):
    own = dict(body.named_parameters(remove_duplicate=False))
    known = {prefix + name: tensor for name, tensor in own.items()}
    for name, tensor in known.items():
        if name in weights and weights[name].shape != tensor.shape:
            raise ValueError(name)
    with torch.no_grad():
        for name, tensor in known.items():
            if name in weights:
                tensor.copy_(weights[name])
    missing = [name for name in own if prefix + name not in weights]
    return missing, [name for name in weights if name not in known]


@wrong(
    "takes all buffers, also those that are not saved (persistent=False)",
    "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them.",
    "buffers that are not saved are counted as the body's tensors",
)
def load_body(body, weights, prefix):
    own = {
        **dict(body.named_parameters(remove_duplicate=False)),
        **dict(body.named_buffers(remove_duplicate=False)),
    }
    known = {prefix + name: tensor for name, tensor in own.items()}
    for name, tensor in known.items():
        if name in weights and weights[name].shape != tensor.shape:
            raise ValueError(name)
    with torch.no_grad():
        for name, tensor in known.items():
            if name in weights:
                tensor.copy_(weights[name])
    missing = [name for name in own if prefix + name not in weights]
    return missing, [name for name in weights if name not in known]


@wrong(
    "removes the prefix without asking whether it is there, so that names of the old head without it are copied if the body has the same name",
    "Names that do not begin with the prefix belong to the old head.",
    "names without the prefix are copied, too",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        short = name.removeprefix(prefix)
        if short in own:
            if tensor.shape != own[short].shape:
                raise ValueError(name)
            found[short] = tensor
        else:
            unexpected.append(name)
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    return [name for name in own if name not in found], unexpected


@wrong(
    "sets the requires_grad of the parameters to that of the file's tensors",
    "Keep their dtype and their `requires_grad`, even if the file's tensors have different ones.",
    "requires_grad is taken from the file",
)
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    found = {name: weights[prefix + name] for name in own if prefix + name in weights}
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{prefix}{name} has the wrong shape")
    for name, tensor in found.items():
        own[name].data.copy_(tensor.detach())
        if isinstance(own[name], nn.Parameter):
            own[name].requires_grad_(tensor.requires_grad)
    known = {prefix + name for name in own}
    missing = [name for name in own if name not in found]
    return missing, [name for name in weights if name not in known]


@wrong(
    "replace() removes the prefix everywhere in the name, so bert.layer.bert.weight becomes layer.weight",
    "Remove the prefix from those names of the file that begin with it.",
    "the prefix is removed in the middle of names, too",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        short = name.replace(prefix, "") if name.startswith(prefix) else None
        if short in own:
            if tensor.shape != own[short].shape:
                raise ValueError(name)
            found[short] = tensor
        else:
            unexpected.append(name)
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    return [name for name in own if name not in found], unexpected


@wrong(
    "lets load_state_dict compare the shapes on a copy of the body, but it takes a tensor of shape (1,) for one of shape ()",
    "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix.",
    "shape (1,) is copied into shape () without an error",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {name: weights[prefix + name] for name in own if prefix + name in weights}
    try:
        copy.deepcopy(body).load_state_dict(found, strict=False)
    except RuntimeError as error:  # its message lists the names
        raise ValueError(str(error)) from error
    body.load_state_dict(found, strict=False)
    known = {prefix + name for name in own}
    missing = [name for name in own if name not in found]
    return missing, [name for name in weights if name not in known]


@wrong(
    "turns the RuntimeError of load_state_dict into a ValueError, but by then all tensors that fit have been copied",
    "Raise it before you copy anything.",
    "tensors are copied before the ValueError",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {name: weights[prefix + name] for name in own if prefix + name in weights}
    for name, tensor in found.items():
        if tensor.dim() != own[name].dim():
            raise ValueError(f"{name} has {tensor.dim()} axes")
    try:
        body.load_state_dict(found, strict=False)
    except RuntimeError as error:  # its message lists the names
        raise ValueError(str(error)) from error
    known = {prefix + name for name in own}
    missing = [name for name in own if name not in found]
    return missing, [name for name in weights if name not in known]
