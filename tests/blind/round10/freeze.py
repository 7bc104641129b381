import torch
from torch import nn

from attention_course.masks import padding_mask
from blind import right, wrong


@right("nn.Module.train by name, then the body's mode as one expression; parameters one by one")
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
        for parameter in self.body.parameters():
            parameter.requires_grad = False
        self.body.train(False)
        self.frozen = True

    def train(self, mode=True):
        nn.Module.train(self, mode)
        self.body.train(mode and not self.frozen)
        return self


@right("one private method settles the body; freeze returns the model, too")
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

    def _settle(self):
        if self.frozen:
            self.body.eval()
        return self

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(requires_grad=False)
        return self._settle()

    def train(self, mode=True):
        return super().train(mode)._settle()


class _KeepsFrozenBody(nn.Module):
    """A mixin: does nothing for a module without a frozen body."""

    def train(self, mode=True):
        result = super().train(mode)
        if getattr(self, "frozen", False):
            self.body.eval()
        return result


@right("a base class with its own train; freeze passes the flag through map")
class SentenceClassifier(_KeepsFrozenBody):
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
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        return super().train(mode)


@right("frozen parts as a tuple of names, read with get_submodule; the flag is kept as well")
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

    def freeze(self, parts=("body",)):
        self.frozen, self.still = True, parts
        for part in map(self.get_submodule, parts):
            part.eval().requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        for part in self.still if self.frozen else ():
            self.get_submodule(part).eval()
        return self


@wrong(
    "sets an attribute of the module, which has no effect on its parameters: they are still trained",
    "Set `requires_grad` of all the body's parameters to False.",
    "requires_grad set on the module, not on parameters",
)
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
        self.body.requires_grad = False
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "puts the body into eval mode first, and super().train puts it back into train mode",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.",
    "eval before super().train is undone",
)
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        if self.frozen:
            self.body.eval()
        return super().train(mode)


@wrong(
    "returns None, so model.train().to(device) and model.eval()(...) raise",
    "It returns the module, and your `train` must return it, too.",
    "train does not return the model",
)
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()


@wrong(
    "freeze only notes that the body is frozen: until the next train() its dropout stays on",
    "`freeze()` does both steps at once.",
    "freeze leaves the body in train mode",
)
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
        self.body.requires_grad_(False)
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "switches the flag: a second freeze() thaws the body, which the next train() puts into train mode",
    "Put the body into eval mode, and keep it there.",
    "freezing twice unfreezes",
)
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
        self.frozen = not self.frozen
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "asks the parameters: a body whose parameters were switched off by hand (or that has none) is kept in eval mode, too",
    "Only `freeze()` freezes the body: if its parameters do not require gradients for a different reason, it still follows `mode`.",
    "frozen is guessed from requires_grad",
)
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
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong(
    "puts only nn.Dropout modules back: the body itself, batch norms and attention with functional dropout "
    "(which reads self.training) stay in train mode",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.",
    "only the dropout modules are put into eval mode",
)
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            for module in self.body.modules():
                if isinstance(module, nn.Dropout):
                    module.eval()
        return self


@wrong(
    "sets the flag of the outermost module only: body.training is False, but the dropout inside the body is on",
    "Otherwise its dropout would change the states that the head learns from.",
    "training flag set on the body alone",
)
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.training = False
        return self


@wrong(
    "leaves a frozen body out instead of putting it back: if something has called model.body.train() in between, "
    "model.train() does not repair it",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.",
    "frozen body is skipped, not put back",
)
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        self.training = mode
        for name, child in self.named_children():
            if not (self.frozen and name == "body"):
                child.train(mode)
        return self


@wrong(
    "stores the flag on the class: after one model is frozen, the body of every other model stays in eval mode, too",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "flag is shared by all models",
)
class SentenceClassifier(nn.Module):
    body_is_frozen = False

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
        type(self).body_is_frozen = True

    def train(self, mode=True):
        super().train(mode)
        if type(self).body_is_frozen:
            self.body.eval()
        return self
