import torch
from blind import bugs


def make(bug):
    def padding_mask(lengths, size):
        if bug == "size of the longest":
            size = int(lengths.max())
        if bug == "made on the CPU":
            return torch.arange(size) < lengths.cpu()[:, None, None]
        place = torch.arange(size, device=lengths.device)
        mask = place < lengths[:, None, None]
        if bug == "one too many":
            mask = place <= lengths[:, None, None]
        if bug == "turned around":
            mask = ~mask
        if bug == "integers":
            mask = mask.long()
        if bug == "no axis for queries":
            mask = mask[:, 0]
        if bug == "axis in front":
            mask = mask.transpose(0, 1)
        if bug == "an empty sentence has one token":
            mask = place < lengths.clamp(min=1)[:, None, None]
        if bug == "a square":
            mask = mask.expand(-1, size, -1)
        if bug == "padding in front":
            mask = mask.flip(-1)
        if bug == "lengths clamped in place":
            lengths.clamp_(max=size - 1)
        return mask

    return padding_mask


MASK = "`True` on the tokens of a sentence, `False` on its padding"
bugs(
    make,
    {
        "size of the longest": "size: it may be more than the longest sentence has",
        "made on the CPU": "on the device of `lengths`",
        "one too many": MASK,
        "turned around": MASK,
        "integers": "of `torch.bool`",
        "no axis for queries": "(B, 1, S)",
        "axis in front": "(B, 1, S)",
        "an empty sentence has one token": "a sentence may have none",
        "a square": "(B, 1, S)",
        "padding in front": MASK,
        "lengths clamped in place": "The lengths stay as they are.",
    },
)
