import torch
from torch import nn
from blind import right, wrong

COPY_RULE = "If the rest is a name of the body, copy the tensor into the body's tensor of this name."
OLD_HEAD = 'Names that do not begin with the prefix belong to the old head.'
UNEXPECTED = "The *unexpected* names are those of the file's tensors that the body does not have, including the old head's."
AS_IN_FILE = "Write them as in the file, with the prefix if they have one."
FIRST = "Raise it before you copy anything."
SHARE = "The body must not share memory with the file's tensors."
STRIP = "Remove the prefix from those names of the file that begin with it."
STATE = "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them."
SHAPES = "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."
IN_PLACE = "body: a module; copy into its tensors in place."


# ---------------------------------------------------------------- right answers


@right("no load_state_dict: copy_ into the detached tensors of state_dict, seen from the body")
def load_body(body, weights, prefix):
    own = body.state_dict()
    pairs = [(t, weights[prefix + n], n) for n, t in own.items() if prefix + n in weights]
    for to, source, name in pairs:
        if tuple(to.shape) != tuple(source.shape):
            raise ValueError("shape of " + name)
    with torch.no_grad():
        for to, source, _ in pairs:
            to.copy_(source)
    in_file = {prefix + n for n in own}
    return [n for n in own if prefix + n not in weights], [n for n in weights if n not in in_file]


@right("a complete dict, own tensors where the file has none, loaded with strict=True")
def load_body(body, weights, prefix):
    whole = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    missing = set(whole)
    unexpected = []
    for name in weights:
        short = name[len(prefix):]
        if name[: len(prefix)] != prefix or short not in whole:
            unexpected.append(name)
            continue
        if weights[name].size() != whole[short].size():
            raise ValueError(f"{name} has shape {list(weights[name].size())}")
        whole[short] = weights[name]
        missing.remove(short)
    body.load_state_dict(whole, strict=True)
    return sorted(missing, reverse=True), sorted(unexpected)


def own_tensors(module, path=""):
    """Walk over a module by hand, with the second names of shared tensors."""
    for name, tensor in module._parameters.items():
        if tensor is not None:
            yield path + name, tensor
    for name, tensor in module._buffers.items():
        if tensor is not None and name not in module._non_persistent_buffers_set:
            yield path + name, tensor
    for name, child in module._modules.items():
        if child is not None:
            yield from own_tensors(child, path + name + ".")


@right("walks over the modules itself and writes through .data[...], sets for the names")
def load_body(body, weights, prefix):
    own = dict(own_tensors(body))
    stripped = {n.removeprefix(prefix): n for n in weights if n.startswith(prefix)}
    both = own.keys() & stripped.keys()
    wrong_shapes = [stripped[n] for n in both if own[n].shape != weights[stripped[n]].shape]
    if wrong_shapes:
        raise ValueError("wrong shapes: " + ", ".join(wrong_shapes))
    for name in both:
        own[name].data[...] = weights[stripped[name]].data
    unexpected = weights.keys() - {stripped[name] for name in both}
    return list(own.keys() - both), list(unexpected)


@right("state_dict(prefix=...) gives the body's names as they are called in the file")
def load_body(body, weights, prefix):
    mine = body.state_dict(prefix=prefix)
    for name, tensor in mine.items():
        if name in weights and weights[name].shape != tensor.shape:
            raise ValueError(f"{name}: {weights[name].shape} does not fit {tensor.shape}")
    missing, unexpected = [], [name for name in weights if name not in mine]
    for name, tensor in mine.items():
        if name in weights:
            tensor.copy_(weights[name].detach())
        else:
            missing.append(name[len(prefix):])
    return missing, unexpected


# ---------------------------------------------------------------- wrong answers


@wrong("removeprefix on every name, so names without the prefix are copied as well",
       breaks=OLD_HEAD, name="names without the prefix are taken for the body's")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found, unexpected = {}, []
    for name, tensor in weights.items():
        short = name.removeprefix(prefix)
        if short in own:
            if own[short].shape != tensor.shape:
                raise ValueError(name)
            found[short] = tensor
        else:
            unexpected.append(name)
    missing, _ = body.load_state_dict(found, strict=False)
    return list(missing), unexpected


@wrong("returns load_state_dict's second list with the prefix, which lacks the old head",
       breaks=UNEXPECTED, name="the old head is not reported")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{name} has another shape")
    missing, unexpected = body.load_state_dict(found, strict=False)
    return list(missing), [prefix + name for name in unexpected]


@wrong("writes the unexpected names that began with the prefix without it",
       breaks=AS_IN_FILE, name="unexpected names have lost their prefix")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{name} has another shape")
    missing, unexpected = body.load_state_dict(found, strict=False)
    return list(missing), list(unexpected) + [n for n in weights if not n.startswith(prefix)]


@wrong("turns load_state_dict's error into a ValueError, after it has copied what fits",
       breaks=FIRST, name="copies the fitting tensors before it complains")
def load_body(body, weights, prefix):
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    try:
        missing, extra = body.load_state_dict(found, strict=False)
    except RuntimeError as error:
        raise ValueError(str(error))
    gone = {prefix + name for name in extra}
    return list(missing), [n for n in weights if n in gone or not n.startswith(prefix)]


@wrong("sets .data to the file's tensor converted with .to, which is no copy for equal dtypes",
       breaks=SHARE, name="takes the file's memory instead of copying it")
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{name} has another shape")
    for name, tensor in found.items():
        if name in own:
            own[name].data = tensor.detach().to(own[name])
    missing = [name for name in own if name not in found]
    return missing, [n for n in weights if not n.startswith(prefix) or n.removeprefix(prefix) not in own]


@wrong("removes the prefix with replace, so it vanishes from the middle of a name, too",
       breaks=STRIP, name="removes the prefix everywhere in a name")
def load_body(body, weights, prefix):
    own = body.state_dict()
    short = {name: name.replace(prefix, "") for name in weights if name.startswith(prefix)}
    found = {}
    for name, rest in short.items():
        if rest in own:
            if own[rest].shape != weights[name].shape:
                raise ValueError(f"{name} has another shape")
            found[rest] = weights[name]
    missing, _ = body.load_state_dict(found, strict=False)
    return list(missing), [n for n in weights if short.get(n) not in found]


@wrong("lists the body's tensors with named_parameters, which gives a shared tensor only once",
       breaks=STATE, name="the second name of a shared parameter is unknown")
def load_body(body, weights, prefix):
    saved = body.state_dict()
    own = dict(body.named_parameters())
    own |= {n: b for n, b in body.named_buffers() if n in saved}
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{name} has another shape")
    with torch.no_grad():
        for name, tensor in own.items():
            if name in found:
                tensor.copy_(found[name])
    missing = [name for name in own if name not in found]
    return missing, [n for n in weights if not n.startswith(prefix) or n.removeprefix(prefix) not in own]


@wrong("tries whether the tensor can be expanded to the shape of the body's tensor",
       breaks=SHAPES, name="a shape that can be broadcast counts as equal")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {
        n.removeprefix(prefix): t
        for n, t in weights.items()
        if n.startswith(prefix) and n.removeprefix(prefix) in own
    }
    for name, tensor in found.items():
        try:
            tensor.expand_as(own[name])
        except RuntimeError:
            raise ValueError(f"the shape of {name} does not fit") from None
    for name, tensor in found.items():
        own[name].copy_(tensor)
    missing = [name for name in own if name not in found]
    return missing, [n for n in weights if not n.startswith(prefix) or n.removeprefix(prefix) not in own]


@wrong("converts every tensor of the file to float32 before it copies it",
       breaks=PRECISE, name="float64 weights and large integers lose digits on the way")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{name} has another shape")
    plain = {name: tensor.detach().float() for name, tensor in found.items()}
    missing, extra = body.load_state_dict(plain, strict=False)
    gone = {prefix + name for name in extra}
    return list(missing), [n for n in weights if n in gone or not n.startswith(prefix)]


@wrong("puts new parameters and buffers into the modules, with the old dtype and requires_grad",
       breaks=IN_PLACE, name="replaces the body's tensors, so an optimizer or a tied layer keeps the old ones")
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{name} has another shape")
    for name, tensor in found.items():
        if name in own:
            path, _, last = name.rpartition(".")
            fresh = tensor.detach().clone().to(own[name])
            if isinstance(own[name], nn.Parameter):
                fresh = nn.Parameter(fresh, requires_grad=own[name].requires_grad)
            setattr(body.get_submodule(path), last, fresh)
    missing = [name for name in own if name not in found]
    return missing, [n for n in weights if not n.startswith(prefix) or n.removeprefix(prefix) not in own]
