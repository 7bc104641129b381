import torch
import torch.nn.functional as F
from attention_course.tasks.core import PAD
from blind import bugs
from torch import nn


def make(bug):
    def train_step(model, optimizer, batch, clip_norm):
        if bug == "training mode in any case":
            model.train()
        if bug == "eval mode in any case":
            model.eval()
        wanted = batch.target_out
        given = batch.target_in
        if bug == "the right answer goes in":
            given = wanted
        if bug == "predicts its input":
            wanted = given
        logits, _ = model(batch.source, batch.lengths, given)
        if bug == "padding counts":
            loss = F.cross_entropy(logits.mT, wanted)
        elif bug == "the sum":
            loss = F.cross_entropy(logits.mT, wanted, ignore_index=PAD, reduction="sum")
        elif bug == "divided by all positions":
            loss = F.cross_entropy(logits.mT, wanted, ignore_index=PAD, reduction="sum")
            loss = loss / wanted.numel()
        elif bug == "mean of the sentences":
            each = F.cross_entropy(
                logits.mT, wanted, ignore_index=PAD, reduction="none"
            )
            loss = (each.sum(1) / (wanted != PAD).sum(1)).mean()
        elif bug == "smoothed":
            loss = F.cross_entropy(
                logits.mT, wanted, ignore_index=PAD, label_smoothing=0.1
            )
        else:
            loss = F.cross_entropy(logits.mT, wanted, ignore_index=PAD)
        if bug != "old gradients stay":
            optimizer.zero_grad()
        loss.backward()
        if bug == "entries clipped":
            nn.utils.clip_grad_value_(model.parameters(), clip_norm)
        elif bug == "each parameter by itself":
            for p in model.parameters():
                nn.utils.clip_grad_norm_([p], clip_norm)
        elif bug == "always of that length":
            total = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.mul_(clip_norm / total)
        elif bug == "norm of largest entries":
            nn.utils.clip_grad_norm_(model.parameters(), clip_norm, norm_type=torch.inf)
        elif bug == "clipped to 1":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        elif bug == "clipped after the step":
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        elif bug != "not clipped":
            nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        if bug == "two steps":
            optimizer.step()
        if bug not in ("no step", "clipped after the step"):
            optimizer.step()
        if bug == "loss after the update":
            with torch.no_grad():
                logits, _ = model(batch.source, batch.lengths, given)
                return F.cross_entropy(logits.mT, wanted, ignore_index=PAD)
        if bug == "loss with a gradient":
            return loss
        if bug == "loss of all tokens":
            return loss.item() * int((wanted != PAD).sum())
        if bug == "nothing returned":
            return None
        if bug == "gradients thrown away afterwards, model frozen":
            model.requires_grad_(False)
        return loss.detach()

    return train_step


RULE = "the loss, the gradient, its length, one step, the loss before the update; its mode stays"
bugs(
    make,
    {
        name: RULE
        for name in (
            "training mode in any case",
            "eval mode in any case",
            "the right answer goes in",
            "predicts its input",
            "padding counts",
            "the sum",
            "divided by all positions",
            "mean of the sentences",
            "smoothed",
            "old gradients stay",
            "entries clipped",
            "each parameter by itself",
            "always of that length",
            "norm of largest entries",
            "clipped to 1",
            "clipped after the step",
            "not clipped",
            "two steps",
            "no step",
            "loss after the update",
            "loss with a gradient",
            "loss of all tokens",
            "nothing returned",
        )
    },
)
