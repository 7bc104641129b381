import torch
from torch import nn

from attention_course.masks import padding_mask
from blind import right, wrong


# ---------------------------------------------------------------- right


@right("loops over parameters and modules and sets the flags itself")
class SentenceClassifier(nn.Module):
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        for p in self.body.parameters():
            p.requires_grad = False
        self.frozen = True
        self._quiet()

    def _quiet(self):
        for module in self.body.modules():
            module.training = False

    def train(self, mode=True):
        nn.Module.train(self, mode)
        if self.frozen:
            self._quiet()
        return self


@right("freeze calls train with the present mode; train gives the body mode and not frozen")
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.train(False)

    def train(self, mode=True):
        result = super().train(mode)
        self.body.train(bool(mode) and not self.frozen)
        return result


@right("does by hand what nn.Module.train does, child by child")
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.frozen = True
        for module in self.body.modules():
            for p in module.parameters(recurse=False):
                p.requires_grad_(False)
        self.body.eval()
        return self

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        if self.frozen:
            self.body.eval()
        return self


@right("freeze returns the model; body.apply puts each module into eval mode")
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        list(map(lambda p: p.requires_grad_(False), self.body.parameters()))
        self.body.apply(lambda module: module.eval() and None)
        self.frozen = True
        return self

    def train(self, mode=True):
        try:
            return super().train(mode)
        finally:
            if self.frozen:
                self.body.apply(lambda module: module.train(False))


# ---------------------------------------------------------------- wrong


@wrong(
    "sets requires_grad on the module, which has no effect on its parameters",
    "Set `requires_grad` of all the body's parameters to False.",
    "requires_grad set on the module",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.body.requires_grad = False
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "train ignores its argument, so eval() leaves the model in train mode",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.",
    "train ignores mode",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train()
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "freeze only remembers that the body is frozen; it stays in train mode until the next call of train",
    "`freeze()` does both steps at once.",
    "freeze leaves the body in train mode",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.body.requires_grad_(False)
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "train does not return the model",
    "It returns the module, and your `train` must return it, too.",
    "train returns None",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()


@wrong(
    "decides by requires_grad whether the body is frozen",
    "Only `freeze()` freezes the body: if the body's parameters do not require gradients for a different reason, the body still follows `mode`.",
    "infers frozen from requires_grad",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong(
    "with a frozen body, train switches only the head, so model.training keeps its old value",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.",
    "model.training of a frozen model is stale",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        if self.frozen:
            self.head.train(mode)
            return self
        return super().train(mode)


@wrong(
    "puts only the dropout modules of a frozen body into eval mode; batch norms and attention that drop by their own `training` stay in train mode",
    "Put the body into eval mode, and keep it there.",
    "only nn.Dropout modules in eval mode",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.training = False
            for module in self.body.modules():
                if isinstance(module, nn.Dropout):
                    module.eval()
        return self


@wrong(
    "train gives the body `not self.frozen`, so a body that is not frozen is in train mode even after eval()",
    "A body that is not frozen follows `mode`.",
    "unfrozen body ignores eval mode",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        self.body.train(not self.frozen)
        return self


@wrong(
    "goes through the children of the body only, and misses parameters of the body module itself",
    "Set `requires_grad` of all the body's parameters to False.",
    "misses the body's direct parameters",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    def freeze(self):
        for part in self.body.children():
            part.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "keeps a list of frozen bodies in the class, and every model with a frozen sibling puts its own body into eval mode",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "frozen state shared by all objects",
)
class SentenceClassifier(nn.Module):  # noqa: F811
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]  # (B, S)
        states = self.body(
            input_ids=source, attention_mask=mask.long()
        ).last_hidden_state
        logits = self.head(states, mask)
        return logits, None  # no weights

    frozen_bodies = []

    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen_bodies.append(self.body)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen_bodies:
            self.body.eval()
        return self
