import torch
from blind import bugs


def make(bug):
    def packed_rows(sentence):
        s = sentence
        B, T = s.shape
        t = torch.arange(T, device=s.device)
        same = s[:, :, None] == s[:, None, :]
        token = s > 0
        mask = same & token[:, :, None] & token[:, None, :]
        if bug == "padding attends to padding":
            mask = same
        if bug == "padding attends to itself":
            mask = mask | (torch.eye(T, dtype=torch.bool, device=s.device) & ~mask)
        if bug == "causal":
            mask = mask.tril()
        if bug == "not to itself":
            mask = mask & ~torch.eye(T, dtype=torch.bool, device=s.device)
        if bug == "earlier sentences as well":
            mask = (s[:, :, None] >= s[:, None, :]) & token[:, :, None] & token[:, None, :]
        if bug == "numbers modulo 256":
            mask = ((s % 256)[:, :, None] == (s % 256)[:, None, :]) & mask.any()
            mask = mask & token[:, :, None] & token[:, None, :]
        if bug == "all real tokens":
            mask = token[:, :, None] & token[:, None, :]
        if bug == "rows mixed":
            mask = mask.any(0, keepdim=True).expand(B, -1, -1)
        before = (same & (t < t[:, None])).sum(-1)
        where = before * token
        if bug == "padding has positions":
            where = before
        if bug == "positions from 1":
            where = (before + 1) * token
        if bug == "positions of the row":
            where = t.expand(B, -1) * token
        if bug == "numbers that rise by 1":
            first = (s[:, None, :] < s[:, :, None]) & token[:, None, :]
            where = (t - first.sum(-1)) * token
        if bug == "numbers up to the length":
            many = s.clamp(max=T)
            where = ((many[:, :, None] == many[:, None, :]) & (t < t[:, None])).sum(-1)
            where = where * token
        if bug == "positions in 32 bits":
            where = where.int()
        if bug == "mask of numbers":
            mask = mask.long()
        if bug == "counted from the end":
            where = (same & (t > t[:, None])).sum(-1) * token
        if bug == "padding at -1":
            where = torch.where(token, where, -1)
        if bug == "exchanged":
            return where, mask
        if bug == "an axis for heads":
            mask = mask[:, None]
        return mask, where

    return packed_rows


MASK = "A token may attend to all tokens of its own sentence, to earlier ones, to later ones and to itself. It may attend to nothing else."
PAD = "Padding attends to nothing, nothing attends to it, and its positions are 0."
WHERE = "Positions count from 0, and they begin anew in each sentence."
bugs(
    make,
    {
        "padding attends to padding": PAD,
        "padding attends to itself": PAD,
        "causal": MASK,
        "not to itself": MASK,
        "earlier sentences as well": MASK,
        "numbers modulo 256": "which can be any number from 1 on",
        "all real tokens": MASK,
        "rows mixed": MASK,
        "padding has positions": PAD,
        "positions from 1": WHERE,
        "positions of the row": WHERE,
        "numbers that rise by 1": "The numbers need not rise from left to right.",
        "numbers up to the length": "which can be any number from 1 on",
        "positions in 32 bits": "of dtype long",
        "mask of numbers": "of dtype bool",
        "counted from the end": WHERE,
        "padding at -1": PAD,
        "exchanged": "A mask (B, T, T); and positions (B, T)",
        "an axis for heads": "A mask (B, T, T)",
    },
)
