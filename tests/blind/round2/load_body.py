import torch
from torch import nn

from blind import right, wrong


@right("a new table, shapes first, then copy_ tensor by tensor")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n[len(prefix):]: t for n, t in weights.items() if n.startswith(prefix)}
    for name in own.keys() & found.keys():
        if own[name].shape != found[name].shape:
            raise ValueError(f"{name} has another shape: {tuple(found[name].shape)}")
    with torch.no_grad():
        for name in own.keys() & found.keys():
            own[name].copy_(found[name])
    missing = [name for name in own if name not in found]
    unexpected = [n for n in weights if not n.startswith(prefix) or n[len(prefix):] not in own]
    return missing, unexpected


@right("goes by the body's names, sets for the report")
def load_body(body, weights, prefix):
    theirs = {prefix + name: tensor for name, tensor in body.state_dict().items()}
    both = sorted(set(theirs) & set(weights))
    bad = [n for n in both if tuple(theirs[n].shape) != tuple(weights[n].shape)]
    if bad:
        raise ValueError("shapes do not fit: " + ", ".join(bad))
    for n in both:
        theirs[n].detach().copy_(weights[n].detach())
    missing = sorted(n.removeprefix(prefix) for n in set(theirs) - set(weights))
    return missing, sorted(set(weights) - set(theirs))


@right("load_state_dict with a full table: what the file lacks is the body's own")
def load_body(body, weights, prefix):
    old = body.state_dict()
    table, missing = {}, []
    for name, tensor in old.items():
        new = weights.get(prefix + name)
        if new is None:
            missing.append(name)
            new = tensor
        elif new.size() != tensor.size():
            raise ValueError(f"{prefix + name}: {list(new.size())}, not {list(tensor.size())}")
        table[name] = new.detach().clone()
    body.load_state_dict(table)
    return missing, [n for n in weights if n not in {prefix + name for name in old}]


@right("two passes of one closure, the first one looks, the second one copies")
def load_body(body, weights, prefix):
    left = list(body.state_dict())
    unexpected = []

    def go(act):
        own = body.state_dict()
        for name, tensor in weights.items():
            head, rest = name[: len(prefix)], name[len(prefix):]
            act(name, own.get(rest) if head == prefix else None, tensor, rest)

    def look(name, mine, tensor, rest):
        if mine is not None and mine.shape != tensor.shape:
            raise ValueError(f"shape of {name}")

    def copy(name, mine, tensor, rest):
        if mine is None:
            unexpected.append(name)
        else:
            left.remove(rest)
            mine.data[...] = tensor.data.to(mine.dtype)

    go(look)
    go(copy)
    return left, unexpected


def fits(body, weights, prefix):
    """The file's tensors under the body's names; raises as the text wants it."""
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    found = {n: t for n, t in found.items() if n in own}
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{name} has the shape {tuple(tensor.shape)}")
    missing = [n for n in own if n not in found]
    unexpected = [n for n in weights if n not in {prefix + name for name in own}]
    return own, found, missing, unexpected


@wrong("lstrip for removeprefix", breaks="Copy into the body every tensor that it has under that name, without the prefix.", name="lstrip takes letters, not a prefix", subtle=False)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.lstrip(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and tensor.shape != own[name].shape:
            raise ValueError(name)
    missing, _ = body.load_state_dict(found, strict=False)
    return list(missing), [n for n in weights if n.lstrip(prefix) not in own]


@wrong("the old head is not reported", breaks="*Unexpected*: what the file has and the body has not, old head included, as it is called in the file.", name="old head forgotten", subtle=False)
def load_body(body, weights, prefix):
    own, found, missing, unexpected = fits(body, weights, prefix)
    for name, tensor in found.items():
        own[name].copy_(tensor.detach())
    return missing, [n for n in unexpected if n.startswith(prefix)]


@wrong("missing names carry the prefix", breaks="*Missing*: what the body has and the file has not, as the body calls it.", name="missing as the file would call it", subtle=False)
def load_body(body, weights, prefix):
    own, found, missing, unexpected = fits(body, weights, prefix)
    for name, tensor in found.items():
        own[name].copy_(tensor.detach())
    return [prefix + name for name in missing], unexpected


@wrong("names without the prefix are taken, too", breaks="What does not begin with the prefix belongs to the old head.", name="removeprefix without startswith", subtle=True)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items()}
    for name, tensor in found.items():
        if name in own and tensor.shape != own[name].shape:
            raise ValueError(f"{name}: another shape")
    for name in own.keys() & found.keys():
        own[name].copy_(found[name].detach())
    unexpected = [n for n in weights if n.removeprefix(prefix) not in own]
    return [n for n in own if n not in found], unexpected


@wrong("`to` makes no copy where the dtype is the same", breaks="Copy: the body must not share memory with the file's tensors.", name="shared memory", subtle=True)
def load_body(body, weights, prefix):
    own, found, missing, unexpected = fits(body, weights, prefix)
    ours = {**dict(body.named_parameters()), **dict(body.named_buffers())}
    for name, tensor in found.items():
        ours[name].data = tensor.detach().to(ours[name].dtype)
    return missing, unexpected


@wrong("buffers that are not saved are counted", breaks="The body's tensors are those of `body.state_dict()`: its parameters, and the buffers that are saved with them.", name="unsaved buffers reported missing", subtle=True)
def load_body(body, weights, prefix):
    own = {**dict(body.named_parameters()), **dict(body.named_buffers())}
    found = {n: weights[prefix + n] for n in own if prefix + n in weights}
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{name}: another shape")
    for name, tensor in found.items():
        own[name].data.copy_(tensor.detach())
    return [n for n in own if n not in found], [n for n in weights if n not in {prefix + o for o in own}]


@wrong("looks and copies in one loop", breaks="ValueError: a tensor has another shape than the body's of that name; the body is\n            as it was.", name="half copied when it raises", subtle=True)
def load_body(body, weights, prefix):
    own = body.state_dict()
    missing = [n for n in own if prefix + n not in weights]
    for name in own:
        if name not in missing:
            tensor = weights[prefix + name]
            if tensor.shape != own[name].shape:
                raise ValueError(f"{name}: another shape")
            own[name].copy_(tensor.detach())
    return missing, [n for n in weights if n not in {prefix + o for o in own}]


@wrong("counts numbers instead of comparing shapes", breaks="A tensor whose name fits and whose shape does not: raise a `ValueError` that names it, before anything has been copied.", name="as many numbers pass for the same shape", subtle=True)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n: weights[prefix + n] for n in own if prefix + n in weights}
    for name, tensor in found.items():
        if tensor.numel() != own[name].numel():
            raise ValueError(f"{name}: another shape")
    for name, tensor in found.items():
        own[name].copy_(tensor.detach().reshape(own[name].shape))
    return [n for n in own if n not in found], [n for n in weights if n not in {prefix + o for o in own}]


@wrong("what was copied can be trained again", breaks="They keep their dtype and their `requires_grad`, whatever the file's tensors have.", name="frozen parameters thaw", subtle=True)
def load_body(body, weights, prefix):
    own, found, missing, unexpected = fits(body, weights, prefix)
    for name, tensor in found.items():
        own[name].copy_(tensor.detach())
    for name, parameter in body.named_parameters():
        if name in found:
            parameter.requires_grad_(True)
    return missing, unexpected


@wrong("the file's tensors are cloned into place with their dtype", breaks="They keep their dtype and their `requires_grad`, whatever the file's tensors have.", name="dtype of the file", subtle=True)
def load_body(body, weights, prefix):
    own, found, missing, unexpected = fits(body, weights, prefix)
    ours = {**dict(body.named_parameters()), **dict(body.named_buffers())}
    for name, tensor in found.items():
        ours[name].data = tensor.detach().clone()
    return missing, unexpected
