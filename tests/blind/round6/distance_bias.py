import torch
from blind import bugs


def make(bug):
    def distance_bias(scores, slope):
        T, S = scores.shape[-2:]
        t = torch.arange(T, device=scores.device) + S - T
        s = torch.arange(S, device=scores.device)
        if bug == "queries from 0":
            t = t - (S - T)
        if bug == "queries one too early":
            t = t - 1
        if bug == "keys from 1":
            s = s + 1
        distance = (t[:, None] - s).abs()
        if bug == "the past alone":
            distance = (t[:, None] - s).clamp(min=0)
        if bug == "signed":
            distance = t[:, None] - s
        if bug == "squared":
            distance = distance**2
        if bug == "root":
            distance = distance.to(scores.dtype).sqrt()
        if bug == "no further than 128":
            distance = distance.clamp(max=128)
        if bug == "share of the length":
            distance = distance / S
        if bug == "raised":
            return scores + slope * distance
        if bug == "multiplied":
            return scores * (1 - slope * distance)
        if bug == "in place":
            scores -= (slope * distance).to(scores.dtype)
            return scores
        if bug == "weights":
            return (scores - slope * distance).softmax(-1)
        if bug == "dtype of the slope":
            return scores - torch.tensor(slope, dtype=torch.float64) * distance
        if bug == "later keys forbidden":
            return (scores - slope * distance).masked_fill(s > t[:, None], -torch.inf)
        if bug == "slope of 1 at most":
            slope = min(slope, 1)
        if bug == "distances in the scores' dtype":
            t, s = t.to(scores.dtype), s.to(scores.dtype)
            return scores - slope * (t[:, None] - s).abs()
        return scores - (slope * distance).to(scores.dtype)

    return distance_bias


WHERE = "The last query stands at the position of the last key"
BIAS = "e' = e - m |p_t - s|"
bugs(
    make,
    {
        "queries from 0": WHERE,
        "queries one too early": WHERE,
        "keys from 1": "The keys stand at the positions 0 to S - 1.",
        "the past alone": "The distance counts in both directions",
        "signed": "The distance counts in both directions",
        "squared": BIAS,
        "root": BIAS,
        "no further than 128": BIAS,
        "share of the length": BIAS,
        "raised": BIAS,
        "multiplied": BIAS,
        "in place": "What comes in stays as it is",
        "weights": "What you return are scores.",
        "dtype of the slope": "what goes out has its dtype",
        "later keys forbidden": "a key two positions after the query loses as much",
        "slope of 1 at most": "slope: a number, 0 or more",
    },
)
