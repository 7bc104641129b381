import torch
from torch import nn

from attention_course.masks import padding_mask
from blind import right, wrong


@right("one line in train: the body's mode is mode and not frozen")
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
        """Keep the body as it is from now on: no gradients, eval mode."""
        for parameter in self.body.parameters():
            parameter.requires_grad = False
        self.frozen = True
        self.train(self.training)

    def train(self, mode=True):
        result = super().train(mode)
        self.body.train(mode and not self.frozen)
        return result


@right("sets the flag `training` of every module by hand, without super()")
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
        self.frozen = True
        self.body.apply(lambda module: setattr(module, "training", False))
        for parameter in self.body.parameters():
            parameter.requires_grad_(False)
        return self

    def train(self, mode: bool = True):
        self.training = mode
        for child in self.children():
            child.train(False if self.frozen and child is self.body else mode)
        return self


@right("looks through all modules after super().train, with another name for the flag")
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

    _kept = ()

    def freeze(self):
        self.body.requires_grad_(False).eval()
        self.frozen, self._kept = True, ("body",)

    def train(self, mode=True):
        nn.Module.train(self, mode)
        for name in self._kept:
            for module in self.get_submodule(name).modules():
                module.training = False
        return self


class _Freezable(nn.Module):
    """A base class that keeps some of its parts in eval mode."""

    frozen = False

    def parts_to_keep(self):
        return []

    def train(self, mode=True):
        super().train(mode)
        for part in self.parts_to_keep():
            part.eval()
        return self


@right("inherits train from a helper class and says which parts are kept")
class SentenceClassifier(_Freezable):
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

    def parts_to_keep(self):
        return [self.body] if self.frozen else []

    def freeze(self):
        self.frozen = True
        self.body.requires_grad_(False)
        for part in self.parts_to_keep():
            part.eval()

    def train(self, mode=True):
        return super().train(mode)


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "puts the body into eval mode and only then calls super().train, which undoes it:"
    " after model.train() the body drops out again",
    "`train(mode)` does what it does in every module, and then keeps a frozen body in"
    " eval mode; a body that is not frozen follows `mode`.",
    "super().train comes last and undoes eval",
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
    "`self.body.requires_grad = False` sets an attribute of the module; the parameters"
    " still require a gradient",
    "Its parameters do not require a gradient: they are not trained, and no gradient is"
    " computed for the blocks.",
    "requires_grad set on the module",
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
    "freeze only remembers; the body stays in training mode until train is called",
    "`freeze()` does both, at once.",
    "eval mode only at the next train()",
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


# --- corners -----------------------------------------------------------------------


@wrong(
    "train asks whether any parameter of the body requires a gradient: a body without"
    " gradients that was never frozen stays in eval mode",
    "Only `freeze()` freezes the body: a body whose parameters do not require a"
    " gradient for another reason follows `mode`.",
    "frozen is read off requires_grad",
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
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong(
    "sets only the flag of the body itself; the dropouts inside it go on in training"
    " mode after train()",
    "It stays in eval mode.",
    "eval flag not passed on to inner modules",
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
        for parameter in self.body.parameters():
            parameter.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.training = False
        return self


@wrong(
    "hands the mode to the two parts only: the model's own `training` never changes, so"
    " after eval() the model still says it is in training mode",
    "`train(mode)` does what it does in every module, and then keeps a frozen body in"
    " eval mode; a body that is not frozen follows `mode`.",
    "model's own training flag is not set",
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
        self.head.train(mode)
        if self.frozen:
            self.body.eval()
        else:
            self.body.train(mode)
        return self


@wrong(
    "switches the flag over: a second freeze() takes the body out of the frozen state,"
    " and the next train() puts it into training mode",
    'Keep the body as it is from now on: no gradients, eval mode.',
    "second freeze() unfreezes the mode",
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


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "puts only the dropouts of the body into eval mode: right for this lab's BERT, but"
    " the body's `training` is True and a BatchNorm in it goes on learning",
    "It stays in eval mode.",
    "only nn.Dropout modules are switched off",
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
    "restores the mode that the body had before the call in place of eval mode: if"
    " somebody called model.body.train(), train() keeps the frozen body in training",
    "`train(mode)` does what it does in every module, and then keeps a frozen body in"
    " eval mode; a body that is not frozen follows `mode`.",
    "keeps the old mode instead of eval mode",
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
        self.body.requires_grad_(False).eval()
        self.frozen = True

    def train(self, mode=True):
        before = self.body.training
        super().train(mode)
        if self.frozen:
            self.body.train(before)
        return self


@wrong(
    "freeze calls eval() and requires_grad_ on the whole model and then turns the"
    " head's parameters on again, but not its mode; only a later train() repairs the"
    " head, and a head parameter that was off before is on",
    "Keep the body as it is from now on: no gradients, eval mode.",
    "freeze() changes the head, too",
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
        self.requires_grad_(False)
        self.eval()
        self.head.requires_grad_(True)
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self
