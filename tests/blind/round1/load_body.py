import re

import torch

from blind import right, wrong

EVERY = "Copy into the body every tensor that it has under that name, without the prefix."
RAISE = "A tensor whose name fits and whose shape does not: raise a `ValueError` that names it, before anything has been copied."
FILE = "*Unexpected*: what the file has and the body has not, old head included, as it is called in the file."


@right("a new table, shapes, load_state_dict")
def load_body(body, weights, prefix):
    own = body.state_dict()
    table = {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }
    for name, tensor in table.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{prefix}{name}: {tensor.shape}, not {own[name].shape}")
    body.load_state_dict(table, strict=False)
    missing = [name for name in own if name not in table]
    unexpected = [n for n in weights if n not in {prefix + name for name in own}]
    return missing, unexpected


@right("from the body's side, copied by hand")
def load_body(body, weights, prefix):
    pairs, missing = [], []
    left = set(weights)
    for name, mine in body.state_dict().items():
        if prefix + name not in weights:
            missing.append(name)
            continue
        theirs = weights[prefix + name]
        left.remove(prefix + name)
        if tuple(mine.shape) != tuple(theirs.shape):
            raise ValueError("wrong shape: " + prefix + name)
        pairs.append((mine, theirs))
    with torch.no_grad():
        for mine, theirs in pairs:
            mine.copy_(theirs)
    return missing, sorted(left)


@right("the body's old numbers filled up with the file's, loaded as a whole")
def load_body(body, weights, prefix):
    table = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    found = {n: prefix + n for n in table if prefix + n in weights}
    bad = [f for n, f in found.items() if weights[f].size() != table[n].size()]
    if bad:
        raise ValueError("shapes differ: " + ", ".join(bad))
    table.update((n, weights[f]) for n, f in found.items())
    body.load_state_dict(table)
    return (
        [n for n in table if n not in found],
        [f for f in weights if f not in found.values()],
    )


@right("prefix by a regular expression; parameters and buffers through keep_vars")
def load_body(body, weights, prefix):
    begins = re.compile(re.escape(prefix) + "(.*)", re.DOTALL)
    own = body.state_dict(keep_vars=True)
    missing, unexpected, todo = dict.fromkeys(own), [], []
    for name, tensor in weights.items():
        match = begins.fullmatch(name)
        if match is None or match[1] not in own:
            unexpected.append(name)
            continue
        del missing[match[1]]
        if own[match[1]].shape != tensor.shape:
            raise ValueError(f"{name!r} does not fit")
        todo.append((own[match[1]].data, tensor))
    for mine, theirs in todo:
        mine[...] = theirs.detach().to(mine.device, mine.dtype)
    return list(missing), unexpected


def check_shapes(own, table, prefix):
    for name, tensor in table.items():
        if name in own and own[name].shape != tensor.shape:
            raise ValueError(f"{prefix}{name} has another shape")


def cut(weights, prefix):
    return {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}


def report(own, weights, prefix):
    expected = {prefix + name for name in own}
    return (
        [name for name in own if prefix + name not in weights],
        [name for name in weights if name not in expected],
    )


@wrong("reports what load_state_dict reports: no old head", breaks=FILE, name="old head not reported")
def load_body(body, weights, prefix):
    table = cut(weights, prefix)
    check_shapes(body.state_dict(), table, prefix)
    _, unexpected = body.load_state_dict(table, strict=False)
    missing = report(body.state_dict(), weights, prefix)[0]
    return missing, [prefix + name for name in unexpected]


@wrong("what does not fit is left out without a word", breaks=RAISE, name="wrong shapes skipped")
def load_body(body, weights, prefix):
    own = body.state_dict()
    table = {
        n: t for n, t in cut(weights, prefix).items() if n in own and own[n].shape == t.shape
    }
    body.load_state_dict(table, strict=False)
    return report(own, weights, prefix)


@wrong(
    "the body takes over the file's tensors themselves",
    breaks="Copy: the body must not share memory with the file's tensors.",
    name="memory shared with the file",
)
def load_body(body, weights, prefix):
    own, table = body.state_dict(), cut(weights, prefix)
    check_shapes(own, table, prefix)
    body.load_state_dict(table, strict=False, assign=True)
    return report(own, weights, prefix)


@wrong(
    "the prefix is taken out wherever it stands in a name",
    breaks=EVERY,
    name="replace instead of removeprefix",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = body.state_dict()
    table = {n.replace(prefix, ""): t for n, t in weights.items() if n.startswith(prefix)}
    check_shapes(own, table, prefix)
    body.load_state_dict(table, strict=False)
    return report(own, weights, prefix)


@wrong(
    "shapes are looked at while copying: the first tensors are changed already",
    breaks="ValueError: a tensor has another shape than the body's of that name; the body is as it was.",
    name="copied in part before the error",
    subtle=True,
)
def load_body(body, weights, prefix):
    own, table = body.state_dict(), cut(weights, prefix)
    for name, mine in own.items():
        if name in table:
            if mine.shape != table[name].shape:
                raise ValueError(f"{prefix}{name} has another shape")
            mine.copy_(table[name])
    return report(own, weights, prefix)


@wrong(
    "copies are put in the place of the body's tensors: dtype and identity are lost",
    breaks="body: a module; its tensors are changed in place.",
    name="parameters replaced, not changed",
    subtle=True,
)
def load_body(body, weights, prefix):
    own, table = body.state_dict(), cut(weights, prefix)
    check_shapes(own, table, prefix)
    table = {name: tensor.clone() for name, tensor in table.items()}
    body.load_state_dict(table, strict=False, assign=True)
    return report(own, weights, prefix)


@wrong(
    "as many numbers are enough: a transposed matrix is poured in",
    breaks=RAISE,
    name="numel compared instead of shape",
    subtle=True,
)
def load_body(body, weights, prefix):
    own, table = body.state_dict(), cut(weights, prefix)
    fits = {n: t for n, t in table.items() if n in own}
    for name, tensor in fits.items():
        if tensor.numel() != own[name].numel():
            raise ValueError(f"{prefix}{name} has another shape")
    for name, tensor in fits.items():
        own[name].copy_(tensor.reshape(own[name].shape))
    return report(own, weights, prefix)


@wrong(
    "parameters only: buffers are neither copied nor expected",
    breaks=EVERY,
    name="buffers forgotten",
    subtle=True,
)
def load_body(body, weights, prefix):
    own = dict(body.named_parameters())
    table = {n: t for n, t in cut(weights, prefix).items() if n in own}
    check_shapes(own, table, prefix)
    with torch.no_grad():
        for name, tensor in table.items():
            own[name].copy_(tensor)
    return report(own, weights, prefix)


@wrong(
    "what begins with the prefix and is not the body's is reported without the prefix",
    breaks="The names missing in the file, as the body has them, and the unexpected ones, as the file has them.",
    name="unexpected names without prefix",
    subtle=True,
)
def load_body(body, weights, prefix):
    own, table = body.state_dict(), cut(weights, prefix)
    check_shapes(own, table, prefix)
    body.load_state_dict(table, strict=False)
    head = [name for name in weights if not name.startswith(prefix)]
    return (
        report(own, weights, prefix)[0],
        [name for name in table if name not in own] + head,
    )


@wrong(
    "the error does not say which tensor",
    breaks=RAISE,
    name="error without a name",
    subtle=True,
)
def load_body(body, weights, prefix):
    own, table = body.state_dict(), cut(weights, prefix)
    if any(n in own and own[n].shape != t.shape for n, t in table.items()):
        raise ValueError("the file does not fit the body: shapes differ")
    body.load_state_dict(table, strict=False)
    return report(own, weights, prefix)
