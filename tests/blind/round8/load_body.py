import torch
from torch import nn
from blind import right, wrong


@right("walks over the body's own table and copies into each of its tensors")
def load_body(body, weights, prefix):
    table = body.state_dict()
    missing, pairs = [], []
    for name, own in table.items():
        tensor = weights.get(prefix + name)
        if tensor is None:
            missing.append(name)
            continue
        if tuple(tensor.shape) != tuple(own.shape):
            raise ValueError(f"{name}: {tuple(tensor.shape)}, not {tuple(own.shape)}")
        pairs.append((own, tensor))
    with torch.no_grad():
        for own, tensor in pairs:
            own.copy_(tensor)
    wanted = {prefix + name for name in table}
    return missing, [name for name in weights if name not in wanted]


@right("set arithmetic on names, and load_state_dict(strict=True) with a full table")
def load_body(body, weights, prefix):
    own = dict(body.state_dict())
    theirs = {prefix + name: name for name in own}
    common = theirs.keys() & weights.keys()
    wrong_shape = sorted(n for n in common if weights[n].shape != own[theirs[n]].shape)
    if wrong_shape:
        raise ValueError(
            "these tensors have another shape than the body's: "
            + ", ".join(f"{n} (in the body {theirs[n]})" for n in wrong_shape)
        )
    full = {name: tensor.clone() for name, tensor in own.items()}
    full.update({theirs[n]: weights[n].detach().clone() for n in common})
    body.load_state_dict(full)
    return (
        sorted(theirs[n] for n in theirs.keys() - common),
        sorted(weights.keys() - common),
    )


@right("a class that walks over the modules itself, without state_dict")
def load_body(body, weights, prefix):
    def saved(module, path=""):
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield path + name, parameter
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                yield path + name, buffer
        for name, child in module._modules.items():
            if child is not None:
                yield from saved(child, path + name + ".")

    class Loader:
        def __init__(self):
            self.own = list(saved(body))
            self.names = {name for name, _ in self.own}

        def check(self):
            for name, tensor in self.own:
                other = weights.get(prefix + name, tensor)
                if other.shape != tensor.shape:
                    raise ValueError(f"the shape of {prefix}{name} does not fit")

        @torch.no_grad()
        def copy(self):
            for name, tensor in self.own:
                if prefix + name in weights:
                    tensor.copy_(weights[prefix + name])

        def report(self):
            missing = [name for name, _ in self.own if prefix + name not in weights]
            unexpected = [
                name
                for name in weights
                if name[: len(prefix)] != prefix or name[len(prefix) :] not in self.names
            ]
            return missing, unexpected

    loader = Loader()
    loader.check()
    loader.copy()
    return loader.report()


@right("sorts the file's names first; element-wise copy through flat views of .data")
def load_body(body, weights, prefix, message="{}: shape {} in the file, {} in the body"):
    own = body.state_dict(keep_vars=True)
    unexpected, plan, seen = [], [], set()
    for name, tensor in weights.items():
        short = name[len(prefix) :] if name.startswith(prefix) else None
        if short is None or short not in own:
            unexpected.append(name)
            continue
        if list(own[short].shape) != list(tensor.shape):
            raise ValueError(
                message.format(short, list(tensor.shape), list(own[short].shape))
            )
        seen.add(short)
        plan.append((own[short].data, tensor))
    for target, tensor in plan:
        target[...] = tensor.detach().to(device=target.device, dtype=target.dtype)
    return list(filter(lambda name: name not in seen, own)), unexpected


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "returns load_state_dict's list, in which the old head (cls...) is not listed and"
    " the other names have lost their prefix",
    "*Unexpected*: the names of the tensors that the file has and the body does not"
    " have, including the old head's, as the file calls them.",
    "unexpected lacks the old head and the prefix",
)
def load_body(body, weights, prefix):
    table = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    own = body.state_dict()
    for name, tensor in table.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{name} has another shape")
    missing, unexpected = body.load_state_dict(table, strict=False)
    return list(missing), list(unexpected)


@wrong(
    "loops over named_parameters, so buffers (running means, say) are never copied and"
    " their names in the file are called unexpected",
    "The body's tensors are those of `body.state_dict()`: its parameters, and the"
    " buffers that are saved with them.",
    "buffers forgotten",
)
def load_body(body, weights, prefix):
    own = dict(body.named_parameters())
    for name, parameter in own.items():
        if prefix + name in weights:
            if weights[prefix + name].shape != parameter.shape:
                raise ValueError(f"shape of {name}")
    with torch.no_grad():
        for name, parameter in own.items():
            if prefix + name in weights:
                parameter.copy_(weights[prefix + name])
    missing = [name for name in own if prefix + name not in weights]
    wanted = {prefix + name for name in own}
    return missing, [name for name in weights if name not in wanted]


@wrong(
    "compares shapes in the same loop that copies: if the third tensor does not fit,"
    " the first two are already overwritten",
    "If the name of a tensor matches but its shape does not, raise a `ValueError` with"
    " its name in the message, before anything has been copied.",
    "copies before all shapes are compared",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    missing = []
    for name, tensor in own.items():
        if prefix + name not in weights:
            missing.append(name)
            continue
        other = weights[prefix + name]
        if other.shape != tensor.shape:
            raise ValueError(f"{name}: {other.shape} instead of {tensor.shape}")
        tensor.copy_(other.detach())
    unexpected = [
        name
        for name in weights
        if not name.startswith(prefix) or name.removeprefix(prefix) not in own
    ]
    return missing, unexpected


# --- corners -----------------------------------------------------------------------


@wrong(
    "assigns `.data = tensor.to(dtype)`: `to` copies only if the dtypes differ, so with"
    " equal dtypes the body shares its memory with the file",
    "It has to be a copy: the body must not share memory with the file's tensors.",
    "shares memory when dtypes are equal",
)
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    for name, tensor in own.items():
        if prefix + name in weights and weights[prefix + name].shape != tensor.shape:
            raise ValueError(f"{name} has the wrong shape")
    for name, tensor in own.items():
        if prefix + name in weights:
            tensor.data = weights[prefix + name].detach().to(tensor.dtype)
    missing = [name for name in own if prefix + name not in weights]
    unexpected = [
        name for name in weights if name not in {prefix + other for other in own}
    ]
    return missing, unexpected


@wrong(
    "`load_state_dict(..., assign=True)` with cloned tensors: a float32 body with a"
    " float16 file becomes float16",
    "The body's tensors keep their dtype and their `requires_grad`, even if those of"
    " the file's tensors differ.",
    "takes over the file's dtype",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    table = {}
    for name, tensor in weights.items():
        short = name.removeprefix(prefix)
        if name.startswith(prefix) and short in own:
            if tensor.shape != own[short].shape:
                raise ValueError(f"{short}: shapes differ")
            table[short] = tensor.clone()
    body.load_state_dict(table, strict=False, assign=True)
    missing = [name for name in own if name not in table]
    return missing, [n for n in weights if n.removeprefix(prefix) not in table]


@wrong(
    "strips the prefix where it is there and keeps every other name as it is: a tensor"
    " of the old head called `norm.weight` overwrites the body's `norm.weight`",
    "Names that do not begin with the prefix belong to the old head.",
    "old head copied over a body tensor of its name",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    table = {name.removeprefix(prefix): (name, t) for name, t in weights.items()}
    for short, (name, tensor) in table.items():
        if short in own and own[short].shape != tensor.shape:
            raise ValueError(f"{name} does not fit")
    with torch.no_grad():
        for short, (name, tensor) in table.items():
            if short in own:
                own[short].copy_(tensor)
    missing = [name for name in own if name not in table]
    unexpected = [name for short, (name, _) in table.items() if short not in own]
    return missing, unexpected


@wrong(
    "only checks whether the file's tensor can be expanded to the body's shape: a"
    " (1,) or (D,) tensor is silently spread over (D,) or (V, D)",
    "If the name of a tensor matches but its shape does not, raise a `ValueError` with"
    " its name in the message, before anything has been copied.",
    "broadcasts a tensor of another shape",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    ready = {}
    for name, tensor in own.items():
        if prefix + name in weights:
            try:
                ready[name] = weights[prefix + name].detach().expand_as(tensor)
            except RuntimeError as error:
                raise ValueError(f"{name}: {error}") from error
    for name, tensor in ready.items():
        own[name].copy_(tensor)
    missing = [name for name in own if name not in ready]
    known = {prefix + name for name in ready}
    return missing, [name for name in weights if name not in known]


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "takes load_state_dict's own list of missing names; a BatchNorm fills in"
    " `num_batches_tracked` by itself and then does not list it as missing",
    "*Missing*: the names of the tensors that the body has and the file does not have,"
    " as the body calls them.",
    "trusts load_state_dict's missing list",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    table = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    for name in table.keys() & own.keys():
        if table[name].shape != own[name].shape:
            raise ValueError(f"{name}: {table[name].shape}, not {own[name].shape}")
    missing = body.load_state_dict(table, strict=False).missing_keys
    return missing, [name for name in weights if name not in {prefix + o for o in own}]


@wrong(
    "drops what stands before the first dot instead of the prefix: with the prefix"
    " 'model.bert.' (or '') nothing is found, with 'bert.' all is well",
    "Remove the prefix from the file's names, and copy every tensor whose name is then"
    " one of the body's names into the body.",
    "cuts at the first dot, not the prefix",
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        head, _, rest = name.partition(".")
        if name.startswith(prefix) and rest in own:
            found[rest] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}")
    for name, tensor in found.items():
        own[name].copy_(tensor.detach())
    return [name for name in own if name not in found], unexpected


@wrong(
    "switches requires_grad off to be able to copy in place, and afterwards switches it"
    " on for all: a parameter that was frozen before can be trained now",
    "The body's tensors keep their dtype and their `requires_grad`, even if those of"
    " the file's tensors differ.",
    "thaws parameters that were frozen",
)
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    fits = [name for name in own if prefix + name in weights]
    for name in fits:
        if own[name].shape != weights[prefix + name].shape:
            raise ValueError(f"the shapes of {name} differ")
    body.requires_grad_(False)
    for name in fits:
        own[name].copy_(weights[prefix + name].detach())
    body.requires_grad_(True)
    missing = [name for name in own if name not in fits]
    unexpected = [name for name in weights if name[len(prefix) :] not in fits
                  or not name.startswith(prefix)]
    return missing, unexpected
