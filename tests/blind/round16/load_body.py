import re

import torch
from blind import right, wrong

PREFIX = "Remove the prefix from those names of the file that begin with it."
COPY = "If the rest is a name of the body, copy the tensor into the body's tensor of this name."
SHARE = "The body must not share memory with the file's tensors."
TENSORS = "The body's tensors are those in `body.state_dict()`: its parameters, and the buffers that are saved with them."
KEEP = "Keep their dtype and their `requires_grad`, even if the file's tensors have different ones."
MISSING = "The *missing* names are those of the body's tensors that the file does not have."
UNEXPECTED = "The *unexpected* names are those of the file's tensors that the body does not have, including the old head's."
WRITTEN = "Write them as in the file, with the prefix if they have one."
SHAPE = "If a tensor's name matches but its shape does not, raise a `ValueError` that contains the name, with or without the prefix."
BEFORE = "Raise it before you copy anything."
HEAD = "Names that do not begin with the prefix belong to the old head."
INPUTS = "Do not change the inputs."


@right("works with sets of the file's spelling of the names, copies with copy_")
def load_body(body, weights, prefix):
    wanted = {prefix + name: tensor for name, tensor in body.state_dict().items()}
    both = wanted.keys() & weights.keys()
    bad = [name for name in both if wanted[name].shape != weights[name].shape]
    if bad:
        raise ValueError(f"shapes differ: {bad}")
    with torch.no_grad():
        for name in both:
            wanted[name].copy_(weights[name])
    missing = [name[len(prefix) :] for name in wanted.keys() - both]
    return missing, list(weights.keys() - both)


@right("completes the file with the body's own tensors and loads it strictly")
def load_body(body, weights, prefix):
    own = body.state_dict()
    full, missing = dict(own), []
    for name in own:
        if prefix + name not in weights:
            missing.append(name)
            continue
        full[name] = weights[prefix + name]
        if full[name].size() != own[name].size():
            raise ValueError(name)
    body.load_state_dict(full, strict=True)
    used = {prefix + name for name in own}
    return missing, [name for name in weights if name not in used]


@right("merges the two sorted lists of names with two fingers")
def load_body(body, weights, prefix):
    own = body.state_dict()
    ours, theirs = sorted(prefix + n for n in own), sorted(weights)
    missing, unexpected, pairs = [], [], []
    while ours or theirs:
        if not theirs or (ours and ours[0] < theirs[0]):
            missing.append(ours.pop(0)[len(prefix) :])
        elif not ours or theirs[0] < ours[0]:
            unexpected.append(theirs.pop(0))
        else:
            name = ours.pop(0)
            pairs.append((name, own[name[len(prefix) :]], weights[theirs.pop(0)]))
    for name, mine, new in pairs:
        if tuple(mine.shape) != tuple(new.shape):
            raise ValueError("wrong shape of " + name)
    for _, mine, new in pairs:
        mine.data[...] = new.detach()
    return missing, unexpected


@right("starts from two full lists and crosses names off; plans the copies as closures")
def load_body(body, weights, prefix):
    state, plan = body.state_dict(keep_vars=True), []
    missing, unexpected = list(state), list(weights)
    for name in weights:
        head, _, _ = name.partition(prefix) if prefix else ("", "", "")
        if head or not name.startswith(prefix) or name[len(prefix) :] not in state:
            continue
        short = name[len(prefix) :]
        if state[short].shape != weights[name].shape:
            raise ValueError(f"{name}: {state[short].shape} and {weights[name].shape}")
        plan.append(lambda a=state[short].detach(), b=weights[name].detach(): a.copy_(b))
        missing.remove(short)
        unexpected.remove(name)
    for step in plan:
        step()
    return missing, unexpected


@wrong("trusts load_state_dict for the unexpected names, so the old head's are not listed", breaks=UNEXPECTED, name="old head not reported")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}
    for name, tensor in found.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(name)
    missing, unexpected = body.load_state_dict(found, strict=False)
    return missing, [prefix + name for name in unexpected]


@wrong("checks the shape of each tensor just before it copies it, so tensors before the bad one are already copied", breaks=BEFORE, name="copies before all shapes are checked")
def load_body(body, weights, prefix):
    own, used = body.state_dict(), set()
    for name, tensor in own.items():
        if prefix + name in weights:
            new = weights[prefix + name]
            if new.shape != tensor.shape:
                raise ValueError(name)
            tensor.copy_(new.detach())
            used.add(prefix + name)
    missing = [n for n in own if prefix + n not in used]
    return missing, [n for n in weights if n not in used]


@wrong("removeprefix leaves names without the prefix as they are, so a tensor of the old head whose whole name is a name of the body is copied", breaks=HEAD, name="names without the prefix are loaded, too")
def load_body(body, weights, prefix):
    own = body.state_dict()
    short = {name: name.removeprefix(prefix) for name in weights}
    unexpected = [name for name in weights if short[name] not in own]
    missing = [name for name in own if name not in short.values()]
    hits = [name for name in weights if short[name] in own]
    for name in hits:
        if own[short[name]].shape != weights[name].shape:
            raise ValueError(name)
    for name in hits:
        own[short[name]].copy_(weights[name].detach())
    return missing, unexpected


@wrong("removes the prefix everywhere with replace: a body's name that contains the prefix again (bert.layer.bert.weight) is not found", breaks=PREFIX, name="replace instead of removeprefix")
def load_body(body, weights, prefix):
    own, found, unexpected = body.state_dict(), {}, []
    for name, tensor in weights.items():
        short = name.replace(prefix, "") if prefix else name
        if name.startswith(prefix) and short in own:
            found[short] = tensor
        else:
            unexpected.append(name)
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(name)
    for name, tensor in found.items():
        own[name].copy_(tensor.detach())
    return [n for n in own if n not in found], unexpected


@wrong("looks only at the parameters: saved buffers (a running mean) are not copied and are called unexpected", breaks=TENSORS, name="forgets the buffers")
def load_body(body, weights, prefix):
    own = dict(body.named_parameters())
    hits = [n for n in own if prefix + n in weights]
    for n in hits:
        if own[n].shape != weights[prefix + n].shape:
            raise ValueError(n)
    with torch.no_grad():
        for n in hits:
            own[n].copy_(weights[prefix + n])
    names = {prefix + n for n in hits}
    return [n for n in own if n not in hits], [n for n in weights if n not in names]


@wrong("takes the list of missing names from load_state_dict, which forgets num_batches_tracked of a BatchNorm when the file lacks it", breaks=MISSING, name="missing list of load_state_dict with a BatchNorm")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n[len(prefix) :]: t for n, t in weights.items() if n.startswith(prefix) and n[len(prefix) :] in own}
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(name)
    missing = body.load_state_dict(found, strict=False).missing_keys
    used = {prefix + n for n in found}
    return list(missing), [n for n in weights if n not in used]


@wrong("load_state_dict(assign=True) puts the file's own tensors into the body, in the file's dtype", breaks=SHARE, name="assigns instead of copying")
def load_body(body, weights, prefix):
    own = body.state_dict()
    found = {n: weights[prefix + n] for n in own if prefix + n in weights}
    for name, tensor in found.items():
        if own[name].shape != tensor.shape:
            raise ValueError(name)
    body.load_state_dict(found, strict=False, assign=True)
    used = {prefix + n for n in found}
    return [n for n in own if n not in found], [n for n in weights if n not in used]


@wrong("compares only the number of entries and reshapes: a transposed weight (3, 2) goes into (2, 3), and (1,) into ()", breaks=SHAPE, name="compares numel instead of the shape")
def load_body(body, weights, prefix):
    own = body.state_dict()
    hits = [n for n in own if prefix + n in weights]
    for n in hits:
        if own[n].numel() != weights[prefix + n].numel():
            raise ValueError(n)
    for n in hits:
        own[n].copy_(weights[prefix + n].detach().reshape(own[n].shape))
    used = {prefix + n for n in hits}
    return [n for n in own if prefix + n not in used], [n for n in weights if n not in used]


@wrong("sets requires_grad as in the file: a frozen body is thawed by a file of parameters, and a body that trains is frozen by plain tensors", breaks=KEEP, name="takes requires_grad from the file")
def load_body(body, weights, prefix):
    own = body.state_dict(keep_vars=True)
    hits = [n for n in own if prefix + n in weights]
    for n in hits:
        if own[n].shape != weights[prefix + n].shape:
            raise ValueError(n)
    for n in hits:
        own[n].data.copy_(weights[prefix + n].detach())
        if own[n].is_floating_point():
            own[n].requires_grad_(weights[prefix + n].requires_grad)
    used = {prefix + n for n in hits}
    return [n for n in own if prefix + n not in used], [n for n in weights if n not in used]


@wrong("pops what it has used out of the file's dict, so that the rest is the unexpected names; a second call finds nothing", breaks="weights: a dict from the file's names to tensors; do not change it.", name="empties the dict of weights")
def load_body(body, weights, prefix):
    own = body.state_dict()
    hits = [n for n in own if prefix + n in weights]
    for n in hits:
        if own[n].shape != weights[prefix + n].shape:
            raise ValueError(n)
    for n in hits:
        own[n].copy_(weights.pop(prefix + n).detach())
    return [n for n in own if n not in hits], list(weights)
