import torch
from blind import bugs


def make(bug):
    @torch.no_grad()
    def looks_ahead(model, source, lengths, target):
        mode = model.training
        if bug != "no eval mode":
            model.eval()
        try:
            if bug == "leaves eval mode":
                mode = False
            before, _ = model(source, lengths, target)
            size = before.size(-1)
            tokens = range(size)
            if bug == "from token 4 on":
                tokens = range(4, size)
            if bug == "token 0 left out":
                tokens = range(1, size)
            if bug == "the last token of the vocabulary left out":
                tokens = range(size - 1)
            if bug == "three tokens alone":
                tokens = range(min(3, size))
            if bug == "tokens of the target alone":
                tokens = sorted(set(target.flatten().tolist()))
            places = range(1, target.size(1))
            if bug == "the last position alone":
                places = range(target.size(1) - 1, target.size(1))
            if bug == "last position left out":
                places = range(1, target.size(1) - 1)
            if bug == "every second position":
                places = range(1, target.size(1), 2)
            if bug == "from position 2 on":
                places = range(2, target.size(1))
            for t in places:
                for v in tokens:
                    changed = target.clone()
                    if bug == "in place":
                        changed = target
                    if bug == "first sentence alone changed":
                        changed[0, t] = v
                    elif bug == "everything from there on changed":
                        changed[:, t:] = v
                    elif bug == "next token by 1":
                        changed[:, t] = (target[:, t] + 1) % size
                    else:
                        changed[:, t] = v
                    after, _ = model(source, lengths, changed)
                    moved = (after - before)[:, :t].abs()
                    if bug == "itself counted":
                        moved = (after - before)[:, : t + 1].abs()
                    if bug == "the position right before alone":
                        moved = (after - before)[:, t - 1 : t].abs()
                    if bug == "first position alone":
                        moved = (after - before)[:, :1].abs()
                    if bug == "first sentence alone compared":
                        moved = moved[:1]
                    if bug == "mean of the changes":
                        moved = moved.mean()[None]
                    if bug == "argmax alone":
                        a, b = after[:, :t].argmax(-1), before[:, :t].argmax(-1)
                        moved = (a != b).float()
                    if bug == "sum without magnitude":
                        moved = (after - before)[:, :t].sum()[None]
                    limit = {
                        "anything above 0": 0,
                        "above 0.1": 0.1,
                        "above 1": 1.0,
                    }.get(bug, 1e-3)
                    if bool((moved > limit).any()):
                        return True
            return 0 if bug == "a number" else False
        finally:
            model.train(mode)

    return looks_ahead


RULE = "the three points of the text"
bugs(
    make,
    {
        name: RULE
        for name in (
            "no eval mode",
            "leaves eval mode",
            "from token 4 on",
            "token 0 left out",
            "the last token of the vocabulary left out",
            "three tokens alone",
            "tokens of the target alone",
            "the last position alone",
            "last position left out",
            "every second position",
            "from position 2 on",
            "in place",
            "first sentence alone changed",
            "next token by 1",
            "itself counted",
            "the position right before alone",
            "first position alone",
            "first sentence alone compared",
            "mean of the changes",
            "argmax alone",
            "anything above 0",
            "above 0.1",
            "above 1",
        )
    },
)
