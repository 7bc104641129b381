import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("Fills up the table with the body's own tensors and loads it strictly")
def load_full_table(body, weights, prefix):
    own = body.state_dict()
    for name, tensor in own.items():
        found = weights.get(prefix + name, tensor)
        if found.shape != tensor.shape:
            raise ValueError(f"{prefix + name}: {found.shape} is not {tensor.shape}")
    missing = [name for name in own if prefix + name not in weights]
    unexpected = list(weights.keys() - {prefix + name for name in own})
    table = {name: weights.get(prefix + name, own[name]).detach().clone() for name in own}
    body.load_state_dict(table)
    return missing, unexpected


@right("Joins two sorted lists of names with two pointers, and assigns with [...]")
def merge_join(body, weights, prefix):
    own = body.state_dict()
    left = sorted(prefix + name for name in own)
    there = sorted(weights)
    missing, unexpected, both = [], [], []
    i = j = 0
    while i < len(left) or j < len(there):
        if j == len(there) or (i < len(left) and left[i] < there[j]):
            missing.append(left[i][len(prefix):])
            i += 1
        elif i == len(left) or there[j] < left[i]:
            unexpected.append(there[j])
            j += 1
        else:
            both.append(left[i])
            i, j = i + 1, j + 1
    for name in both:
        if tuple(weights[name].size()) != tuple(own[name[len(prefix):]].size()):
            raise ValueError("wrong shape: " + name)
    with torch.no_grad():
        for name in both:
            own[name[len(prefix):]][...] = weights[name]
    return missing, unexpected


@right("Walks to each tensor with getattr along the dots")
def walk_by_getattr(body, weights, prefix):
    def reach(name):
        thing = body
        for part in name.split("."):
            thing = getattr(thing, part)
        return thing

    pairs, missing, left = [], [], dict.fromkeys(weights)
    for name in body.state_dict().keys():
        key = f"{prefix}{name}"
        if key in left:
            left.pop(key)
            pairs.append((key, reach(name)))
        else:
            missing += [name]
    bad = [key for key, tensor in pairs if weights[key].shape != tensor.shape]
    if bad:
        raise ValueError(", ".join(bad))
    for key, tensor in pairs:
        tensor.data.copy_(weights[key].data)
    return missing, [*left]


@right("Goes over the file and marks what was used; copies at the very end, backwards")
@torch.no_grad()
def closures(body, weights, prefix):
    own, todo, unexpected = body.state_dict(), [], []
    missing = set(own)
    for name in weights:
        short = name[len(prefix):] if name[: len(prefix)] == prefix else None
        if short is None or short not in own:
            unexpected.append(name)
            continue
        missing.discard(short)
        here, new = own[short], weights[name]
        if here.dim() != new.dim() or any(a != b for a, b in zip(here.shape, new.shape)):
            raise ValueError(f"{short} is {list(here.shape)}, the file has {list(new.shape)}")
        todo.append(lambda here=here, new=new: here.copy_(new.clone()))
    while todo:
        todo.pop()()
    return sorted(missing), unexpected


# ---------------------------------------------------------------- wrong


@wrong(
    "removeprefix on every name: what has no prefix goes in under its full name",
    breaks="What does not begin with the prefix belongs to the old head.",
    name="takes names without the prefix, too",
    subtle=True,
)
def no_startswith(body, weights, prefix):
    own = body.state_dict()
    table = {name.removeprefix(prefix): tensor for name, tensor in weights.items()}
    for name in own:
        if name in table and table[name].shape != own[name].shape:
            raise ValueError(f"{name} has another shape")
    body.load_state_dict({n: t for n, t in table.items() if n in own}, strict=False)
    missing = [name for name in own if name not in table]
    unexpected = [name for name in weights if name.removeprefix(prefix) not in own]
    return missing, unexpected


@wrong(
    "name.replace(prefix, '') also takes the prefix out of the middle of a name",
    breaks="Copy into the body every tensor that it has under that name, without the prefix.",
    name="replace instead of removeprefix",
    subtle=True,
)
def replace_everywhere(body, weights, prefix):
    own = body.state_dict()
    names = {n.replace(prefix, ""): n for n in weights if n.startswith(prefix)}
    fits = {short: weights[n] for short, n in names.items() if short in own}
    for short, tensor in fits.items():
        if tensor.shape != own[short].shape:
            raise ValueError(f"{short}: {tuple(tensor.shape)}")
    for short, tensor in fits.items():
        own[short].copy_(tensor.detach())
    missing = [n for n in own if n not in fits]
    unexpected = [
        n for n in weights if not n.startswith(prefix) or n.replace(prefix, "") not in own
    ]
    return missing, unexpected


@wrong(
    "goes over named_parameters() alone",
    breaks="The body's tensors are those of `body.state_dict()`: its parameters, and the buffers that are saved with them.",
    name="buffers forgotten",
    subtle=True,
)
def parameters_alone(body, weights, prefix):
    own = dict(body.named_parameters())
    for name, tensor in own.items():
        if prefix + name in weights and weights[prefix + name].shape != tensor.shape:
            raise ValueError(f"shape of {prefix + name}")
    with torch.no_grad():
        for name, tensor in own.items():
            if prefix + name in weights:
                tensor.copy_(weights[prefix + name])
    missing = [n for n in own if prefix + n not in weights]
    unexpected = [n for n in weights if n not in {prefix + o for o in own}]
    return missing, unexpected


@wrong(
    "takes named_buffers() for what is saved: buffers that are not saved are missing, too",
    breaks="its parameters, and the buffers that are saved with them",
    name="counts buffers that are not saved",
    subtle=True,
)
def every_buffer(body, weights, prefix):
    own = {**dict(body.named_parameters()), **dict(body.named_buffers())}
    fits = {n: weights[prefix + n] for n in own if prefix + n in weights}
    for n, tensor in fits.items():
        if tensor.shape != own[n].shape:
            raise ValueError(f"{prefix + n} does not fit")
    with torch.no_grad():
        for n, tensor in fits.items():
            own[n].copy_(tensor)
    missing = [n for n in own if n not in fits]
    unexpected = [n for n in weights if not (n.startswith(prefix) and n[len(prefix):] in fits)]
    return missing, unexpected


@wrong(
    "turns the RuntimeError of load_state_dict into a ValueError: the others are copied by then",
    breaks="raise a `ValueError` that names it, before anything has been copied",
    name="half-loaded body after the error",
    subtle=True,
)
def error_afterwards(body, weights, prefix):
    table = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    own = set(body.state_dict())
    try:
        body.load_state_dict(table, strict=False)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    missing = sorted(own - set(table))
    unexpected = [n for n in weights if n not in {prefix + o for o in own}]
    return missing, unexpected


@wrong(
    "asks whether the shapes can be broadcast: one row is copied into all",
    breaks="A tensor whose name fits and whose shape does not: raise a `ValueError` that names it",
    name="broadcasting hides a wrong shape",
    subtle=True,
)
def broadcast_fits(body, weights, prefix):
    own = body.state_dict()
    fits = {n: weights[prefix + n].detach() for n in own if prefix + n in weights}
    for n, tensor in fits.items():
        try:
            tensor.expand(own[n].shape)
        except RuntimeError:
            raise ValueError(f"{prefix + n} cannot be copied into {n}") from None
    for n, tensor in fits.items():
        own[n].copy_(tensor)
    missing = [n for n in own if n not in fits]
    unexpected = [n for n in weights if n not in {prefix + o for o in own}]
    return missing, unexpected


@wrong(
    "load_state_dict(assign=True) with clones: the body takes over the dtype of the file",
    breaks="They keep their dtype and their `requires_grad`, whatever the file's tensors have.",
    name="dtype of the file",
    subtle=True,
)
def assign_clones(body, weights, prefix):
    own = body.state_dict()
    table = {}
    for name, tensor in weights.items():
        if name.startswith(prefix) and name.removeprefix(prefix) in own:
            table[name.removeprefix(prefix)] = tensor.detach().clone()
    for name, tensor in table.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{name}: shape {tuple(tensor.shape)}")
    missing = [n for n in own if n not in table]
    unexpected = [n for n in weights if n not in {prefix + t for t in table}]
    body.load_state_dict(table, strict=False, assign=True)
    return missing, unexpected


@wrong(
    "sets .data to tensor.to(dtype, device), which copies only if something changes",
    breaks="Copy: the body must not share memory with the file's tensors.",
    name="shares memory with the file",
    subtle=True,
)
def data_is_the_files(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    used = {prefix + n: n for n in own if prefix + n in weights}
    for key, n in used.items():
        if weights[key].shape != own[n].shape:
            raise ValueError(f"{key} is {tuple(weights[key].shape)}")
    for key, n in used.items():
        own[n].data = weights[key].detach().to(own[n])
    return [n for n in own if prefix + n not in used], [k for k in weights if k not in used]


@wrong(
    "unexpected is what load_state_dict says, with the prefix put back; the old head is not in it",
    breaks="*Unexpected*: what the file has and the body has not, old head included, as it is called in the file.",
    name="old head not reported",
)
def without_old_head(body, weights, prefix):
    table = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    own = body.state_dict()
    for n in own:
        if n in table and table[n].shape != own[n].shape:
            raise ValueError(f"{n} has the shape {tuple(table[n].shape)}")
    missing, unexpected = body.load_state_dict(table, strict=False)
    return list(missing), [prefix + n for n in unexpected]


@wrong(
    "pops what it uses out of the file's table, and what is left is unexpected",
    breaks="weights: a dict from the file's names to tensors; it stays as it is.",
    name="empties the dict it was handed",
    subtle=True,
)
def pops(body, weights, prefix):
    own = body.state_dict()
    for n in own:
        if prefix + n in weights and weights[prefix + n].shape != own[n].shape:
            raise ValueError(f"{prefix + n} has another shape")
    missing = []
    for n, tensor in own.items():
        new = weights.pop(prefix + n, None)
        if new is None:
            missing.append(n)
        else:
            tensor.copy_(new.detach())
    return missing, list(weights)
