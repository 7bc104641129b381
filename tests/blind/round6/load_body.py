import torch
from blind import bugs


def make(bug):
    @torch.no_grad()
    def load_body(body, weights, prefix):
        own = body.state_dict()
        if bug == "parameters alone":
            own = dict(body.named_parameters())
        if bug == "all buffers":
            own = {**own, **dict(body.named_buffers())}
        fits, unexpected = {}, []
        for name, tensor in weights.items():
            if bug == "prefix replaced anywhere":
                short = name.replace(prefix, "")
            elif bug == "prefix stripped as a set of letters":
                short = name.lstrip(prefix)
            elif bug == "without the prefix as well":
                short = name.removeprefix(prefix)
            elif bug == "up to the first dot":
                short = name.partition(".")[2]
            else:
                short = name[len(prefix) :] if name.startswith(prefix) else None
            if short in own:
                fits[short] = (name, tensor)
            elif bug == "old head left out of the report" and (
                not name.startswith(prefix)
            ):
                pass
            elif bug == "unexpected names without the prefix":
                unexpected.append(name.removeprefix(prefix))
            else:
                unexpected.append(name)
        missing = [name for name in own if name not in fits]
        if bug == "missing names as in the file":
            missing = [prefix + name for name in missing]
        if bug == "wrong shapes are unexpected":
            for short, (name, tensor) in list(fits.items()):
                if own[short].shape != tensor.shape:
                    unexpected.append(name)
                    missing.append(short)
                    del fits[short]
        for short, (name, tensor) in fits.items():
            if own[short].shape != tensor.shape:
                if bug == "broadcast where it fits":
                    try:
                        own[short].copy_(tensor)
                        continue
                    except RuntimeError:
                        pass
                if bug == "same number of entries is enough" and (
                    own[short].numel() == tensor.numel()
                ):
                    own[short].copy_(tensor.reshape(own[short].shape))
                    continue
                if bug == "another error":
                    raise RuntimeError(f"{name} has another shape")
                if bug == "no name in the message":
                    raise ValueError("a tensor has another shape")
                raise ValueError(f"{name} has another shape")
            if bug == "copies before all are compared":
                own[short].copy_(tensor)
        for short, (name, tensor) in fits.items():
            if bug == "memory shared":
                part = body
                *path, last = short.split(".")
                for step in path:
                    part = getattr(part, step)
                getattr(part, last).data = tensor
            elif bug == "trainable afterwards":
                own[short].copy_(tensor)
            elif bug == "entries taken from the file":
                own[short].copy_(tensor)
            elif own[short].shape == tensor.shape:
                own[short].copy_(tensor)
        if bug == "trainable afterwards":
            body.requires_grad_(True)
        if bug == "frozen afterwards":
            body.requires_grad_(False)
        if bug == "entries taken from the file":
            for name, _ in fits.values():
                del weights[name]
        if bug == "dtype of the file":
            kinds = {t.dtype for _, t in fits.values()}
            if kinds:
                body.to(kinds.pop())
        if bug == "exchanged":
            return unexpected, missing
        return missing, unexpected

    return load_body


RULE = "the four points of the text"
bugs(
    make,
    {
        name: RULE
        for name in (
            "parameters alone",
            "all buffers",
            "prefix replaced anywhere",
            "prefix stripped as a set of letters",
            "without the prefix as well",
            "up to the first dot",
            "old head left out of the report",
            "unexpected names without the prefix",
            "missing names as in the file",
            "wrong shapes are unexpected",
            "broadcast where it fits",
            "same number of entries is enough",
            "another error",
            "no name in the message",
            "copies before all are compared",
            "memory shared",
            "trainable afterwards",
            "frozen afterwards",
            "entries taken from the file",
            "dtype of the file",
            "exchanged",
        )
    },
)
