from attention_course.masks import padding_mask
from blind import bugs
from torch import nn


def make(bug):
    class SentenceClassifier(nn.Module):
        def __init__(self, body, head):
            super().__init__()
            self.body, self.head, self.frozen = body, head, False

        def forward(self, source, lengths):
            mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]
            states = self.body(
                input_ids=source, attention_mask=mask.long()
            ).last_hidden_state
            return self.head(states, mask), None

        def freeze(self):
            self.frozen = bug != "flag not set"
            if bug == "head frozen, too":
                self.requires_grad_(False)
            elif bug == "weights alone, not biases":
                for name, p in self.body.named_parameters():
                    p.requires_grad_("bias" in name)
            elif bug == "first parameter alone":
                next(self.body.parameters()).requires_grad_(False)
            elif bug == "gradients thrown away alone":
                self.body.zero_grad()
            else:
                self.body.requires_grad_(False)
            if bug == "eval mode only at the next train()":
                return
            if bug == "head in eval mode, too":
                self.eval()
            elif bug == "body's children alone":
                for child in self.body.children():
                    child.eval()
            elif bug == "whole model in training mode":
                self.train()
            else:
                self.body.eval()

        def train(self, mode=True):
            if bug == "frozen model stays as it is" and self.frozen:
                return self
            if bug == "head alone":
                self.head.train(mode)
                return self
            super().train(mode)
            frozen = self.frozen
            if bug == "frozen by requires_grad":
                frozen = not any(p.requires_grad for p in self.body.parameters())
            if bug == "always in use":
                frozen = True
            if bug == "training thaws":
                frozen = self.frozen = self.frozen and not mode
            if frozen:
                self.body.eval()
            if bug == "head follows the body" and frozen:
                self.head.eval()
            if bug == "returns nothing":
                return None
            if bug == "returns the body":
                return self.body
            if bug == "gradients back in training" and mode:
                self.body.requires_grad_(True)
            if bug == "flag training untouched" and frozen:
                self.training = False
            return self

    return SentenceClassifier


RULE = "`freeze()` does both, at once. `train(mode)` does what it does in every module, and then keeps a frozen body in eval mode"
bugs(
    make,
    {
        name: RULE
        for name in (
            "flag not set",
            "head frozen, too",
            "weights alone, not biases",
            "first parameter alone",
            "gradients thrown away alone",
            "eval mode only at the next train()",
            "head in eval mode, too",
            "body's children alone",
            "whole model in training mode",
            "frozen model stays as it is",
            "head alone",
            "frozen by requires_grad",
            "always in use",
            "training thaws",
            "head follows the body",
            "returns nothing",
            "returns the body",
            "gradients back in training",
            "flag training untouched",
        )
    },
)
