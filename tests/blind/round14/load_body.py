import copy

import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("set algebra over names, then copy_ into the tensors of state_dict")
def load_body(body, weights, prefix):
    own = body.state_dict()
    full = {prefix + name: name for name in own}
    common = full.keys() & weights.keys()
    bad = [n for n in common if tuple(weights[n].shape) != tuple(own[full[n]].shape)]
    if bad:
        raise ValueError("shapes differ: " + ", ".join(sorted(bad)))
    with torch.no_grad():
        for name in full:  # in the order of the body
            if name in common:
                own[full[name]].copy_(weights[name].detach())
    missing = [full[n] for n in sorted(full.keys() - common)]
    return missing, sorted(weights.keys() - common)


@right("walks the modules recursively and writes into .data")
def load_body(body, weights, prefix):  # noqa: F811
    targets = {}

    def walk(module, path):
        for name, tensor in module._parameters.items():
            if tensor is not None:
                targets[path + name] = tensor
        for name, tensor in module._buffers.items():
            if tensor is not None and name not in module._non_persistent_buffers_set:
                targets[path + name] = tensor
        for name, child in module._modules.items():
            if child is not None:
                walk(child, path + name + ".")

    walk(body, "")
    plan, missing = [], []
    for name, tensor in targets.items():
        try:
            source = weights[f"{prefix}{name}"]
        except KeyError:
            missing.append(name)
            continue
        if source.dim() != tensor.dim() or any(
            a != b for a, b in zip(source.shape, tensor.shape)
        ):
            raise ValueError(
                f"{name}: {list(source.shape)} in the file, {list(tensor.shape)} here"
            )
        plan.append((tensor, source))
    for tensor, source in plan:
        tensor.data[...] = source.data.to(tensor.device, tensor.dtype)
    used = {prefix + name for name in targets}
    return missing, [name for name in weights if name not in used]


@right("one loop over the file with slices of names, load_state_dict per found name")
def load_body(body, weights, prefix):  # noqa: F811
    own, start = body.state_dict(), len(prefix)
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name[start:]
        if name[:start] == prefix and rest in own:
            if tensor.shape != own[rest].shape:
                raise ValueError(name)
            found[rest] = tensor.detach().clone()
        else:
            unexpected.append(name)
    body.load_state_dict(found, strict=False)
    return [name for name in own if name not in found], unexpected


@right("merges two sorted lists of names, like the last step of a merge sort")
def load_body(body, weights, prefix):  # noqa: F811
    own = body.state_dict(keep_vars=True)
    left = sorted(prefix + name for name in own)
    right_ = sorted(weights)
    missing, unexpected, both = [], [], []
    i = j = 0
    while i < len(left) or j < len(right_):
        if j == len(right_) or (i < len(left) and left[i] < right_[j]):
            missing.append(left[i][len(prefix) :])
            i += 1
        elif i == len(left) or right_[j] < left[i]:
            unexpected.append(right_[j])
            j += 1
        else:
            both.append(left[i])
            i, j = i + 1, j + 1
    for name in both:
        if weights[name].size() != own[name[len(prefix) :]].size():
            raise ValueError(f"the shape of {name} differs")
    both = set(both)
    with torch.no_grad():
        for name, target in own.items():
            if prefix + name in both:
                target.copy_(weights[prefix + name])
    return missing, unexpected


# ---------------------------------------------------------------- wrong


@wrong(
    "removes the prefix wherever it occurs in a name, with replace",
    "Remove the prefix from those names of the file that begin with it.",
    "replaces the prefix everywhere in names",
)
def load_body(body, weights, prefix):  # noqa: F811
    own = body.state_dict()
    found = {
        name.replace(prefix, ""): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(name)
    with torch.no_grad():
        for name in own:
            if name in found:
                own[name].copy_(found[name])
    missing = [name for name in own if name not in found]
    unexpected = [
        name
        for name in weights
        if not name.startswith(prefix) or name.replace(prefix, "") not in own
    ]
    return missing, unexpected


@wrong(
    "reports only the unexpected names of load_state_dict, not those of the old head",
    "The *unexpected* names are those of the file's tensors that the body does not have, including the old head's.",
    "forgets the names of the old head",
)
def load_body(body, weights, prefix):  # noqa: F811
    own = body.state_dict()
    found = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(name)
    body.load_state_dict(found, strict=False)
    missing = [name for name in own if name not in found]
    return missing, [prefix + name for name in found if name not in own]


@wrong(
    "puts the file's tensors into the body with assign=True",
    "Keep their dtype and their `requires_grad`, even if the file's tensors have different ones.",
    "assigns the file's tensors instead of copying",
)
def load_body(body, weights, prefix):  # noqa: F811
    own = body.state_dict()
    found = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(name)
    body.load_state_dict(found, strict=False, assign=True)
    missing = [name for name in own if name not in found]
    names = {prefix + name for name in own}
    return missing, [name for name in weights if name not in names]


@wrong(
    "checks the shape and copies in the same loop, so earlier tensors are already copied when it raises",
    "Raise it before you copy anything.",
    "raises after copying some tensors",
)
def load_body(body, weights, prefix):  # noqa: F811
    missing, used = [], set()
    with torch.no_grad():
        for name, tensor in body.state_dict().items():
            full = prefix + name
            if full not in weights:
                missing.append(name)
                continue
            if weights[full].shape != tensor.shape:
                raise ValueError(f"{name} has another shape in the file")
            tensor.copy_(weights[full])
            used.add(full)
    return missing, [name for name in weights if name not in used]


@wrong(
    "takes named_parameters and named_buffers for the body's tensors: buffers that are not saved are reported as missing, and the second name of a tied weight as unexpected",
    "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them.",
    "lists parameters and buffers without state_dict",
)
def load_body(body, weights, prefix):  # noqa: F811
    own = dict(body.named_parameters()) | dict(body.named_buffers())
    missing = [name for name in own if prefix + name not in weights]
    names = {prefix + name for name in own}
    unexpected = [name for name in weights if name not in names]
    for name, tensor in own.items():
        if name not in missing and weights[prefix + name].shape != tensor.shape:
            raise ValueError(name)
    with torch.no_grad():
        for name, tensor in own.items():
            if name not in missing:
                tensor.copy_(weights[prefix + name])
    return missing, unexpected


@wrong(
    "removeprefix without startswith: a name of the old head that has no prefix but equals a name of the body is copied too",
    "Names that do not begin with the prefix belong to the old head.",
    "copies names that lack the prefix",
)
def load_body(body, weights, prefix):  # noqa: F811
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name.removeprefix(prefix)
        if rest not in own:
            unexpected.append(name)
            continue
        if own[rest].shape != tensor.shape:
            raise ValueError(name)
        found[rest] = tensor
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    return [name for name in own if name not in found], unexpected


@wrong(
    "sets .data to file_tensor.to(dtype), which is the file's own memory if the dtype is already right",
    "The body must not share memory with the file's tensors.",
    "shares memory when dtypes are equal",
)
def load_body(body, weights, prefix):  # noqa: F811
    own = body.state_dict(keep_vars=True)
    found = {name: weights[prefix + name] for name in own if prefix + name in weights}
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(name)
    for name, tensor in found.items():
        target = own[name]
        target.data = tensor.detach().to(device=target.device, dtype=target.dtype)
    missing = [name for name in own if name not in found]
    names = {prefix + name for name in found}
    return missing, [name for name in weights if name not in names]


@wrong(
    "tries load_state_dict on a deep copy to find different shapes: PyTorch silently accepts shape (1,) for a tensor without axes, such as num_batches_tracked",
    "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix.",
    "leaves the shape check to load_state_dict",
)
def load_body(body, weights, prefix):  # noqa: F811
    own = body.state_dict()
    found = {name: weights[prefix + name] for name in own if prefix + name in weights}
    try:
        copy.deepcopy(body).load_state_dict(found, strict=False)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    body.load_state_dict(found, strict=False)
    missing = [name for name in own if name not in found]
    names = {prefix + name for name in found}
    return missing, [name for name in weights if name not in names]


@wrong(
    "converts every tensor of the file to float32 first: float64 weights are rounded, and so are large integers in buffers",
    "If the rest is a name of the body, copy the tensor into the body's tensor of this name.",
    "copies by way of float32",
)
def load_body(body, weights, prefix):  # noqa: F811
    own = body.state_dict()
    found = {
        name: weights[prefix + name].float()
        for name in own
        if prefix + name in weights
    }
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(name)
    body.load_state_dict(found, strict=False)
    missing = [name for name in own if name not in found]
    names = {prefix + name for name in found}
    return missing, [name for name in weights if name not in names]


@wrong(
    "replaces each parameter by a new nn.Parameter, which always requires gradients and breaks tied weights and optimizers",
    "Keep their dtype and their `requires_grad`, even if the file's tensors have different ones.",
    "replaces parameters, so requires_grad becomes True",
)
def load_body(body, weights, prefix):  # noqa: F811
    own = body.state_dict(keep_vars=True)
    found = {name: weights[prefix + name] for name in own if prefix + name in weights}
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{prefix}{name}")
    for name, tensor in found.items():
        path, _, last = name.rpartition(".")
        module = body.get_submodule(path)
        new = tensor.detach().to(own[name].device, own[name].dtype, copy=True)
        if isinstance(own[name], nn.Parameter):
            new = nn.Parameter(new)
        setattr(module, last, new)
    missing = [name for name in own if name not in found]
    names = {prefix + name for name in found}
    return missing, [name for name in weights if name not in names]
