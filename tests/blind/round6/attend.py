import torch
from blind import bugs


def make(bug):
    def soft(scores, mask):
        if mask is None:
            return scores.softmax(-1)
        low = torch.finfo(scores.dtype).min
        return scores.masked_fill(~mask, low).softmax(-1).masked_fill(~mask, 0)

    def attend(scores, value, mask=None, dropout=None):
        if bug == "mask ignored":
            mask = None
        weights = soft(scores, mask)
        mixed = weights if dropout is None else dropout(weights)
        if bug == "dropout on the context":
            context = weights @ value
            return context if dropout is None else dropout(context), weights
        if bug == "dropout on the values":
            v = value if dropout is None else dropout(value)
            return weights @ v, weights
        if bug == "dropout on the scores":
            mixed = weights if dropout is None else soft(dropout(scores), mask)
        if bug == "weights after dropout returned":
            return mixed @ value, mixed
        if bug == "dropout ignored":
            mixed = weights
        if bug == "dropout called twice":
            mixed = weights if dropout is None else dropout(dropout(weights))
        if bug == "divided again after dropout":
            total = mixed.sum(-1, keepdim=True)
            mixed = mixed / total.masked_fill(total == 0, 1)
        if bug == "weights without gradient":
            return weights.detach() @ value, weights
        if bug == "values masked, too":
            seen = value if mask is None else value * mask.any(-2)[..., None]
            return mixed @ seen, weights
        if bug == "exchanged":
            return weights, mixed @ value
        if bug == "the context alone":
            return mixed @ value
        if bug == "the best value alone":
            best = torch.nn.functional.one_hot(weights.argmax(-1), weights.size(-1))
            return best.to(value.dtype) @ value, weights
        if bug == "three axes alone":
            return torch.bmm(mixed, value), weights
        if bug == "summed over queries":
            context = (mixed @ value).sum(-2, keepdim=True).expand_as(mixed @ value)
            return context, weights
        if bug == "scores returned":
            return mixed @ value, scores
        if bug == "scaled by the width of the values":
            w = soft(scores / value.size(-1) ** 0.5, mask)
            return w @ value, w
        return mixed @ value, weights

    return attend


SUM = "c_t = sum of alpha_ts v_s"
DROP = "`dropout`, where it is given, is a module to be called on the weights that make the context."
bugs(
    make,
    {
        "mask ignored": "mask: True = may attend",
        "dropout on the context": DROP,
        "dropout on the values": DROP,
        "dropout on the scores": DROP,
        "weights after dropout returned": "The weights that you *return* are the weights before dropout",
        "dropout ignored": DROP,
        "dropout called twice": DROP,
        "divided again after dropout": DROP,
        "weights without gradient": SUM,
        "exchanged": "The context, and the weights",
        "the context alone": "The context, and the weights",
        "the best value alone": SUM,
        "three axes alone": "(..., T, S)",
        "summed over queries": SUM,
        "scores returned": "The context, and the weights",
        "scaled by the width of the values": SUM,
    },
)
