import torch
from blind import bugs


def make(bug):
    def accuracy(model, batches):
        mode = model.training
        if bug != "no eval mode":
            model.eval()
        hits = total = 0
        shares = []
        with torch.set_grad_enabled(bug == "with gradients"):
            for batch in batches:
                logits, _ = model(batch.source, batch.lengths)
                labels = batch.labels[:, 0]
                if bug == "compared with an axis left":
                    right = (logits.argmax(-1) == batch.labels).sum()
                    hits, total = hits + int(right), total + len(labels) ** 2
                    continue
                said = logits.argmax(-1)
                if bug == "the least probable":
                    said = logits.argmin(-1)
                if bug == "above zero":
                    said = (logits[:, -1] > 0).long()
                if bug == "axis of the batch":
                    said = logits.argmax(0)[: len(labels)]
                right = said == labels
                if bug == "first sentence of a batch":
                    right = right[:1]
                hits, total = hits + int(right.sum()), total + len(right)
                shares.append(float(right.float().mean()))
                if bug == "first batch alone":
                    break
        if bug == "always back to training":
            model.train()
        elif bug == "stays in eval mode":
            pass
        elif bug == "sets the flag alone":
            model.training = mode
        elif bug == "parts set one by one":
            for part in model.modules():
                part.training = mode
        elif bug == "eval only if it came so, else modes of children":
            model.train(mode)
        else:
            model.train(mode)
        if bug == "mean of the batches":
            return sum(shares) / len(shares)
        if bug == "a percentage":
            return 100 * hits / total
        if bug == "errors":
            return 1 - hits / total
        if bug == "number of hits":
            return hits
        if bug == "rounded to two places":
            return round(hits / total, 2)
        if bug == "batches times the first batch's size":
            return hits / (len(shares) * max(1, total // len(shares)))
        return hits / total

    return accuracy


RULE = "the three points of the text"
bugs(
    make,
    {
        name: RULE
        for name in (
            "no eval mode",
            "with gradients",
            "compared with an axis left",
            "the least probable",
            "above zero",
            "axis of the batch",
            "first sentence of a batch",
            "first batch alone",
            "always back to training",
            "stays in eval mode",
            "sets the flag alone",
            "parts set one by one",
            "mean of the batches",
            "a percentage",
            "errors",
            "number of hits",
            "rounded to two places",
            "batches times the first batch's size",
        )
    },
)
