import torch
from attention_course.attention import masked_softmax
from blind import bugs


def make(bug):
    def covered_step(scores, memory, coverage, penalty):
        lowered = scores - penalty * coverage[:, None]
        if bug == "raised":
            lowered = scores + penalty * coverage[:, None]
        if bug == "penalty squared":
            lowered = scores - penalty**2 * coverage[:, None]
        if bug == "at most 1 of coverage":
            lowered = scores - penalty * coverage.clamp(max=1)[:, None]
        if bug == "read or not":
            lowered = scores - penalty * (coverage > 0.5).to(scores)[:, None]
        if bug == "share of the coverage":
            total = coverage.sum(-1, keepdim=True).clamp(min=1)
            lowered = scores - penalty * (coverage / total)[:, None]
        if bug == "only above the fair share":
            lowered = scores - penalty * (coverage - coverage.mean(-1, True))[:, None]
            lowered = lowered.maximum(scores - penalty * coverage[:, None])
        mask = None if bug == "mask ignored" else memory.mask
        weights = masked_softmax(lowered, mask)
        if bug == "after the softmax":
            weights = masked_softmax(scores, mask) - penalty * coverage[:, None]
        if bug == "multiplied after the softmax":
            weights = masked_softmax(scores, mask) * torch.exp(-coverage[:, None])
        if bug == "own weights lower, too":
            own = masked_softmax(scores, mask)
            weights = masked_softmax(lowered - penalty * own, mask)
        context = weights @ memory.value
        new = coverage + weights[:, 0]
        if bug == "in place":
            coverage += weights[:, 0].detach()
            new = coverage
        if bug == "weights replace the coverage":
            new = weights[:, 0]
        if bug == "old coverage returned":
            new = coverage
        if bug == "the larger of both":
            new = torch.maximum(coverage, weights[:, 0])
        if bug == "coverage without gradient":
            new = coverage + weights[:, 0].detach()
        if bug == "coverage with an axis":
            new = coverage[:, None] + weights
        if bug == "penalty in the coverage":
            new = coverage + penalty * weights[:, 0]
        if bug == "unlowered weights returned":
            weights = masked_softmax(scores, mask)
        if bug == "no axis in the context":
            context = context[:, 0]
        if bug == "penalty of 0 taken for 1":
            if not penalty:
                return covered_step(scores, memory, coverage, 1.0)
        return context, weights, new

    return covered_step


RULE = "the three lines of the formula"
bugs(
    make,
    {
        name: RULE
        for name in (
            "raised",
            "penalty squared",
            "at most 1 of coverage",
            "read or not",
            "share of the coverage",
            "mask ignored",
            "after the softmax",
            "multiplied after the softmax",
            "own weights lower, too",
            "in place",
            "weights replace the coverage",
            "old coverage returned",
            "the larger of both",
            "coverage without gradient",
            "coverage with an axis",
            "penalty in the coverage",
            "unlowered weights returned",
            "no axis in the context",
            "penalty of 0 taken for 1",
        )
    },
)
