import torch
from blind import bugs

KEPT = {}


def make(bug):
    def causal_mask(size, device=None):
        mask = torch.ones(size, size, dtype=torch.bool, device=device).tril()
        if bug == "upper triangle":
            mask = mask.mT.contiguous()
        if bug == "not itself":
            mask = mask.tril(-1)
        if bug == "one too many":
            mask = torch.ones(size, size, dtype=torch.bool, device=device).tril(1)
        if bug == "numbers":
            mask = mask.float()
        if bug == "made on the CPU":
            mask = torch.ones(size, size, dtype=torch.bool).tril()
        if bug == "kept between calls":
            mask = KEPT.setdefault((size, str(device)), mask)
        if bug == "an axis for sentences":
            mask = mask[None]
        if bug == "at least one":
            size = max(size, 1)
            mask = torch.ones(size, size, dtype=torch.bool, device=device).tril()
        if bug == "at most 512 back":
            mask = mask & ~mask.tril(-512)
        if bug == "turned around":
            mask = ~mask
        if bug == "minus infinity":
            mask = torch.zeros(size, size, device=device).masked_fill(~mask, -torch.inf)
        return mask

    return causal_mask


RULE = "Allow position t to attend to the positions up to and including t: a new mask (T, T), of dtype bool"
bugs(
    make,
    {
        name: RULE
        for name in (
            "upper triangle",
            "not itself",
            "one too many",
            "numbers",
            "made on the CPU",
            "kept between calls",
            "an axis for sentences",
            "at least one",
            "at most 512 back",
            "turned around",
            "minus infinity",
        )
    },
)
