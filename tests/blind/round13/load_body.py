import torch
from torch import nn

from blind import right, wrong


@right("asks for prefix + the body's name, and copies with no_grad into the kept variables")
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    pairs = {prefix + name: target for name, target in own.items()}
    for name, target in pairs.items():
        if name in weights and tuple(weights[name].shape) != tuple(target.shape):
            raise ValueError(f"the shape of {name} does not fit")
    with torch.no_grad():
        for name, target in pairs.items():
            if name in weights:
                target.copy_(weights[name])
    missing = [name for name in own if prefix + name not in weights]
    unexpected = [name for name in weights if name not in pairs]
    return missing, unexpected


@right("load_state_dict of the known names only; both lists are set differences, sorted")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {}
    for name in weights:
        if name.startswith(prefix) and name[len(prefix) :] in own:
            found[name[len(prefix) :]] = weights[name]
    bad = [name for name in found if found[name].shape != own[name].shape]
    if bad:
        raise ValueError("other shapes: " + ", ".join(bad))
    body.load_state_dict(found, strict=False)
    missing = sorted(set(own) - set(found))
    unexpected = sorted(set(weights) - {prefix + name for name in found})
    return missing, unexpected


@right("walks to each tensor through get_submodule and getattr, last name first")
def load_body(body, weights, prefix):
    def tensor_of(name):
        path, _, leaf = name.rpartition(".")
        return getattr(body.get_submodule(path), leaf)

    names = list(body.state_dict())
    jobs, missing = [], []
    for name in reversed(names):
        target = tensor_of(name)
        source = weights.get(prefix + name)
        if source is None:
            missing.append(name)
        elif source.shape != target.shape:
            raise ValueError(f"{name}: {source.shape} is not {target.shape}")
        else:
            jobs.append((target, source.detach()))
    known = set(names)
    unexpected = [
        name
        for name in weights
        if not (name.startswith(prefix) and name[len(prefix) :] in known)
    ]
    for target, source in jobs:
        target.detach().copy_(source)
    return missing, unexpected


@right("sorts the file into three lists, writes by assigning to target[...]")
def load_body(body, weights, prefix):
    own = body.state_dict()
    missing = dict.fromkeys(own)
    unexpected, wanted = [], []
    for full, tensor in weights.items():
        before, rest = full[: len(prefix)], full[len(prefix) :]
        if before == prefix and rest in own:
            wanted.append((full, own[rest], tensor.detach()))
            del missing[rest]
        else:
            unexpected += [full]
    for full, target, tensor in wanted:
        if list(target.shape) != list(tensor.shape):
            raise ValueError(full)
    while wanted:
        _, target, tensor = wanted.pop()
        target[...] = tensor.to(device=target.device, dtype=target.dtype)
    return list(missing), unexpected


@wrong(
    "returns as unexpected only what load_state_dict reports: the old head is not listed",
    "The *unexpected* names are those of the file's tensors that the body does not have,"
    " including the old head's.",
    "old head not reported as unexpected",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"shape of {name}")
    missing, unexpected = body.load_state_dict(found, strict=False)
    return list(missing), [prefix + name for name in unexpected]


@wrong(
    "reports the unexpected names without the prefix",
    "Write them as in the file, with the prefix if they have one.",
    "unexpected names have lost their prefix",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name.removeprefix(prefix)
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(rest)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"shape of {name}")
    body.load_state_dict(found, strict=False)
    return [name for name in own if name not in found], unexpected


@wrong(
    "lstrip(prefix) takes away all leading letters that occur in the prefix:"
    " bert.embeddings becomes mbeddings",
    "Remove the prefix from those names of the file that begin with it.",
    "lstrip instead of removeprefix",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name.lstrip(prefix)
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"shape of {name}")
    body.load_state_dict(found, strict=False)
    return [name for name in own if name not in found], unexpected


@wrong(
    "puts the file's tensor itself into the parameter: .to(dtype) copies only if the dtype"
    " differs, so with equal dtypes the body shares the file's memory",
    "The body must not share memory with the file's tensors.",
    "assigns .data instead of copying",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name.removeprefix(prefix)
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"shape of {name}")
    for name, tensor in found.items():
        target = own[name]
        target.data = tensor.detach().to(device=target.device, dtype=target.dtype)
    return [name for name in own if name not in found], unexpected


@wrong(
    "compares the shapes in the loop that copies: the tensors before the bad one are"
    " already copied when the error comes",
    "Raise it before you copy anything.",
    "copies a part before the ValueError",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    copied, unexpected = set(), []
    with torch.no_grad():
        for name, tensor in weights.items():
            rest = name.removeprefix(prefix)
            if not name.startswith(prefix) or rest not in own:
                unexpected.append(name)
                continue
            if own[rest].shape != tensor.shape:
                raise ValueError(f"shape of {name}")
            own[rest].copy_(tensor)
            copied.add(rest)
    return [name for name in own if name not in copied], unexpected


@wrong(
    "name.replace(prefix, '') takes the prefix away wherever it stands: the file's"
    " bert.bert.weight becomes weight, not bert.weight",
    "Remove the prefix from those names of the file that begin with it.",
    "replaces the prefix inside the name, too",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name.replace(prefix, "")
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"shape of {name}")
    body.load_state_dict(found, strict=False)
    return [name for name in own if name not in found], unexpected


@wrong(
    "removeprefix without startswith: an old head's tensor without the prefix whose name"
    " happens to be a name of the body (file: dense.weight, body: dense.weight) is copied",
    "Names that do not begin with the prefix belong to the old head.",
    "takes names without the prefix, too",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name.removeprefix(prefix)
        if rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"shape of {name}")
    body.load_state_dict(found, strict=False)
    return [name for name in own if name not in found], unexpected


@wrong(
    "takes named_buffers() whole: a buffer with persistent=False (as BERT's position_ids)"
    " is reported as missing, and copied if the file has it",
    "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers"
    " that are saved with them.",
    "counts buffers that are not saved",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = dict(body.named_parameters(remove_duplicate=False))
    own |= dict(body.named_buffers(remove_duplicate=False))
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name.removeprefix(prefix)
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"shape of {name}")
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    return [name for name in own if name not in found], unexpected


@wrong(
    "finds bad shapes by trying copy_ on a clone: copy_ broadcasts, so a file's tensor (3,)"
    " goes into a body's tensor (2, 3) without an error",
    "If a tensor's name matches but its shape does not, raise a `ValueError` that contains"
    " the name, with or without the prefix.",
    "shapes that broadcast are accepted",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name.removeprefix(prefix)
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor.detach()
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        try:
            own[name].clone().copy_(tensor)  # on a copy first
        except RuntimeError:
            raise ValueError(f"shape of {name}") from None
    for name, tensor in found.items():
        own[name].copy_(tensor)
    return [name for name in own if name not in found], unexpected


@wrong(
    "sets .data to a clone of the file's tensor: a bfloat16 file makes a float32 body"
    " bfloat16",
    "Keep their dtype and their `requires_grad`, even if the file's tensors have different"
    " ones.",
    "the body takes over the file's dtype",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    found, unexpected = {}, []
    for name, tensor in weights.items():
        rest = name.removeprefix(prefix)
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"shape of {name}")
    for name, tensor in found.items():
        own[name].data = tensor.detach().clone().to(own[name].device)
    return [name for name in own if name not in found], unexpected
