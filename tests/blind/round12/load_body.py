import torch
from torch import nn

from blind import right, wrong

REMOVE = "Remove the prefix from those names of the file that begin with it."
REST = "If the rest is a name of the body, copy the tensor into the body's tensor of this name."
SHARE = "The body must not share memory with the file's tensors."
TENSORS = "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them."
DTYPE = "Keep their dtype and their `requires_grad`, even if the file's tensors have different ones."
MISSING = "The missing names, as in the body, and the unexpected names, as in the file."
UNEXPECTED = "The *unexpected* names are those of the file's tensors that the body does not have, including the old head's."
WRITTEN = "Write them as in the file, with the prefix if they have one."
SHAPE = "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix."
BEFORE = "Raise it before you copy anything."
HEAD = "Names that do not begin with the prefix belong to the old head."


# wrong, plain


@wrong(
    "writes the unexpected names without the prefix",
    WRITTEN,
    "unexpected names lose their prefix",
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
            raise ValueError(f"{name} has the wrong shape")
    missing, unexpected = body.load_state_dict(found, strict=False)
    head = [name for name in weights if not name.startswith(prefix)]
    return missing, unexpected + head


@wrong(
    "leaves the old head out of the unexpected names",
    UNEXPECTED,
    "old head not reported",
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
            raise ValueError(f"{name} has the wrong shape")
    missing, unexpected = body.load_state_dict(found, strict=False)
    return missing, [prefix + name for name in unexpected]


@wrong(
    "writes the missing names with the prefix",
    MISSING,
    "missing names with a prefix",
)
def load_body(body, weights, prefix):
    own = {prefix + name: tensor for name, tensor in body.state_dict().items()}
    for name in own.keys() & weights.keys():
        if own[name].shape != weights[name].shape:
            raise ValueError(f"{name} has the wrong shape")
    for name in own.keys() & weights.keys():
        own[name].copy_(weights[name])
    return list(own.keys() - weights.keys()), list(weights.keys() - own.keys())


@wrong(
    "lstrip takes away any letters of the prefix, also the first ones of the name",
    REMOVE,
    "lstrip in place of removeprefix",
)
def load_body(body, weights, prefix):
    own, found, unexpected = body.state_dict(), {}, []
    for name, tensor in weights.items():
        rest = name.lstrip(prefix)
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"{name} has the wrong shape")
    missing, _ = body.load_state_dict(found, strict=False)
    return list(missing), unexpected


# wrong, subtle


@wrong(
    "removes the prefix wherever it stands: a body's name such as x.bert.y loses a part",
    REMOVE,
    "prefix removed in the middle of a name",
    subtle=True,
)
def load_body(body, weights, prefix):
    own, found, unexpected = body.state_dict(), {}, []
    for name, tensor in weights.items():
        rest = name.replace(prefix, "")
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"{name} has the wrong shape")
    missing, _ = body.load_state_dict(found, strict=False)
    return list(missing), unexpected


@wrong(
    "compares the shapes while it copies, so that the tensors before are copied already",
    BEFORE,
    "some tensors copied before the error",
    subtle=True,
)
def load_body(body, weights, prefix):
    own, unexpected = body.state_dict(), []
    missing = set(own)
    for name, tensor in weights.items():
        rest = name.removeprefix(prefix)
        if not name.startswith(prefix) or rest not in own:
            unexpected.append(name)
            continue
        if own[rest].shape != tensor.shape:
            raise ValueError(f"{name} has the wrong shape")
        own[rest].copy_(tensor)
        missing.discard(rest)
    return list(missing), unexpected


@wrong(
    "assigns the file's tensors to the body, with their memory and their dtype",
    SHARE,
    "file's tensors taken over, not copied",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix) and name.removeprefix(prefix) in own
    }
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"{name} has the wrong shape")
    missing, _ = body.load_state_dict(found, strict=False, assign=True)
    used = {prefix + name for name in found}
    return list(missing), [name for name in weights if name not in used]


@wrong(
    "removes the prefix where there is one, and takes names without it, too",
    HEAD,
    "a head's tensor with a name of the body is copied",
    subtle=True,
)
def load_body(body, weights, prefix):
    own, found, unexpected = body.state_dict(), {}, []
    for name, tensor in weights.items():
        rest = name.removeprefix(prefix)
        if rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"{name} has the wrong shape")
    missing, _ = body.load_state_dict(found, strict=False)
    return list(missing), unexpected


@wrong(
    "looks at the parameters only: buffers are not copied, and are called unexpected",
    TENSORS,
    "buffers forgotten",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = dict(body.named_parameters(remove_duplicate=False))
    found = {name: weights[prefix + name] for name in own if prefix + name in weights}
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(f"{name} has the wrong shape")
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
    used = {prefix + name for name in found}
    return (
        [name for name in own if name not in found],
        [name for name in weights if name not in used],
    )


@wrong(
    "compares the numbers of elements, so that a transposed matrix is poured in",
    SHAPE,
    "number of elements in place of shape",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {name: weights[prefix + name] for name in own if prefix + name in weights}
    for name, tensor in found.items():
        if own[name].numel() != tensor.numel():
            raise ValueError(f"{name} has the wrong shape")
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].view(-1).copy_(tensor.reshape(-1))
    used = {prefix + name for name in found}
    return (
        [name for name in own if name not in found],
        [name for name in weights if name not in used],
    )


# right


@right("looks for the body's names in the file, and copies into the state dict's tensors")
def load_body(body, weights, prefix):
    own = body.state_dict()
    both = [name for name in own if prefix + name in weights]
    bad = [name for name in both if weights[prefix + name].shape != own[name].shape]
    if bad:
        raise ValueError("wrong shapes: " + ", ".join(sorted(bad)))
    with torch.no_grad():
        for name in both:
            own[name].copy_(weights[prefix + name].detach())
    taken = set(map(prefix.__add__, both))
    return [n for n in own if n not in both], [n for n in weights if n not in taken]


@right("sets of names with the prefix, clones of the tensors, and load_state_dict")
def load_body(body, weights, prefix):
    own = body.state_dict()
    wanted = {prefix + name for name in own}
    for name in sorted(wanted & set(weights), reverse=True):
        there, here = weights[name].shape, own[name[len(prefix) :]].shape
        if tuple(there) != tuple(here):
            raise ValueError(f"{name} has the shape {there} in the file, not {here}")
    copies = {
        name[len(prefix) :]: weights[name].clone() for name in wanted & set(weights)
    }
    body.load_state_dict(copies, strict=False)
    missing = [name[len(prefix) :] for name in wanted - set(weights)]
    return missing, list(set(weights) - wanted)


@right("the library's two lists, to which it adds prefix and old head")
def load_body(body, weights, prefix):
    shapes = {name: tensor.shape for name, tensor in body.state_dict().items()}
    mine, head = {}, []
    for name in weights:
        if name.startswith(prefix):
            mine[name.removeprefix(prefix)] = weights[name]
        else:
            head.append(name)
    for name in mine:
        if mine[name].shape != shapes.get(name, mine[name].shape):
            raise ValueError(name)
    missing, unexpected = body.load_state_dict(mine, strict=False)
    return list(missing), head + [prefix + name for name in unexpected]


@right("two passes through one helper, the first of which only looks")
def load_body(body, weights, prefix):
    own = body.state_dict()
    missing, unexpected = list(own), []

    def walk(act):
        for name, tensor in weights.items():
            begins, rest = name[: len(prefix)] == prefix, name[len(prefix) :]
            act(name, tensor, rest if begins and rest in own else None)

    def look(name, tensor, rest):
        if rest is None:
            unexpected.append(name)
        elif own[rest].size() != tensor.size():
            raise ValueError(f"cannot copy {name!r}")

    def copy(name, tensor, rest):
        if rest is not None:
            own[rest].data[...] = tensor.data
            missing.remove(rest)

    walk(look)
    walk(copy)
    return missing, unexpected
