import torch
from blind import bugs
from torch import nn


def make(bug):
    def grow_embedding(embedding, count):
        old = embedding.weight
        V, D = old.shape
        padding = embedding.padding_idx
        words = torch.ones(V, dtype=torch.bool, device=old.device)
        if padding is not None and bug != "padding in the mean":
            words[padding] = False
        if bug == "id 0 is padding in any case":
            words[0] = V == 1
        if bug == "padding_idx 0 taken for none" and padding == 0:
            words[0] = True
        mean = old.detach()[words].mean(0)
        if bug == "divided by all rows":
            mean = old.detach()[words].sum(0) / V
        if bug == "median":
            mean = old.detach()[words].median(0).values
        if bug == "mean of the first and the last":
            mean = (old.detach()[0] + old.detach()[-1]) / 2
        kind = torch.float32 if bug == "float32" else old.dtype
        device = "cpu" if bug == "on the CPU" else old.device
        keep = None if bug == "padding_idx lost" else padding
        if bug == "padding_idx is the last id":
            keep = None if padding is None else V + count - 1
        new = nn.Embedding(V + count, D, padding_idx=keep, device=device, dtype=kind)
        if bug == "a single number for the mean":
            mean = mean.mean().expand(D)
        with torch.no_grad():
            if bug == "rows moved behind the new ones":
                new.weight[count:] = old
                new.weight[:count] = mean
            else:
                new.weight[:V] = old
                new.weight[V:] = mean
            if bug == "noise on the new rows":
                new.weight[V:] += 0.01 * torch.randn_like(new.weight[V:])
            if bug == "rows left as drawn":
                new.weight[V:] = torch.randn_like(new.weight[V:])
            if bug == "new rows are zeros":
                new.weight[V:] = 0
            if bug == "padding's row zeroed" and padding is not None:
                new.weight[padding] = 0
            if bug == "old embedding changed":
                old[:] = new.weight[:V] * 1.001
        if bug != "always trainable":
            new.weight.requires_grad_(old.requires_grad)
        if bug == "same object without new rows" and count == 0:
            return embedding
        if bug == "shared rows":
            new.weight = nn.Parameter(
                old.data if count == 0 else new.weight.data, old.requires_grad
            )
        if bug == "one row more":
            extra = torch.cat([new.weight.detach(), mean[None].to(new.weight)])
            new = nn.Embedding.from_pretrained(extra, not old.requires_grad, keep)
        if bug == "num_embeddings of the old":
            new.num_embeddings = V
        return new

    return grow_embedding


RULE = "the four points of the text"
bugs(
    make,
    {
        name: RULE
        for name in (
            "padding in the mean",
            "id 0 is padding in any case",
            "padding_idx 0 taken for none",
            "divided by all rows",
            "median",
            "mean of the first and the last",
            "float32",
            "on the CPU",
            "padding_idx lost",
            "padding_idx is the last id",
            "a single number for the mean",
            "rows moved behind the new ones",
            "noise on the new rows",
            "rows left as drawn",
            "new rows are zeros",
            "padding's row zeroed",
            "old embedding changed",
            "always trainable",
            "same object without new rows",
            "shared rows",
            "one row more",
            "num_embeddings of the old",
        )
    },
)
