import torch
from torch import nn
from blind import right, wrong

from attention_course.masks import padding_mask


@right("the body gets its mode as a boolean expression")
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
        self.frozen = True
        self.body.train(False)

    def train(self, mode=True):
        super().train(mode)
        self.body.train(mode and not self.frozen)
        return self


@right("freeze chains both steps and returns the model, train works with the returned module")
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
        self.body.eval().requires_grad_(False)
        return self

    def train(self, mode: bool = True):
        result = super().train(mode)
        if result.frozen:
            result.body.eval()
        return result


@right("nn.Module.train called by name, modules of the body switched one by one")
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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

    def quiet(self):
        for module in self.body.modules():
            module.training = False

    def freeze(self):
        self.frozen = True
        self.quiet()
        for _, p in self.body.named_parameters():
            p.requires_grad_(False)

    def train(self, mode=True):
        nn.Module.train(self, mode)
        if self.frozen:
            self.quiet()
        return self


@right("keeps the frozen part in a tuple of its own as well, extra argument in freeze")
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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

    parts_at_rest = ()  # until freeze is called

    def freeze(self, clear_gradients=False):
        self.frozen, self.parts_at_rest = True, ("body",)
        for name in self.parts_at_rest:
            part = getattr(self, name).eval().requires_grad_(False)
            if clear_gradients:
                part.zero_grad()

    def train(self, mode=True):
        model = super().train(mode)
        for name in self.parts_at_rest:
            getattr(model, name).eval()
        return model


@wrong(
    "sets an attribute of the module, not of its parameters, which still require gradients",
    "Set `requires_grad` of all the body's parameters to False.",
    "requires_grad set on the module itself",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
    "freeze leaves the body in train mode until the next call of train",
    "`freeze()` does both steps at once.",
    "freeze does not switch to eval mode",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
    "puts the frozen body into eval mode first, and then all parts, the body too, into train mode",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.",
    "order in train reversed",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
    "takes a body for frozen if no parameter requires a gradient: one whose parameters were switched off otherwise, or that has none, stays in eval mode",
    "Only `freeze()` freezes the body: if its parameters do not require gradients for a different reason, it still follows `mode`.",
    "frozen guessed from requires_grad",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong(
    "switches only the head if the body is frozen: the model's own training flag keeps its old value",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.",
    "model's own mode not set when frozen",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
        if not self.frozen:
            return super().train(mode)
        self.head.train(mode)
        self.body.eval()
        return self


@wrong(
    "freeze puts the whole model into eval mode, the head's dropout too",
    "Put the body into eval mode, and keep it there.",
    "freeze switches the head as well",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
        self.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "freeze turns the flag round, so a second call thaws: after it, train() puts the body into train mode",
    "Freeze the body from now on: no gradients, eval mode.",
    "second freeze undoes the first",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
    "sets the flag of the body only; the dropout modules inside it stay in (or go back to) train mode",
    "Put the body into eval mode, and keep it there.",
    "only the outermost module in eval mode",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
        self.body.training = False
        for parameter in self.body.parameters():
            parameter.requires_grad = False

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.training = False
        return self


@wrong(
    "replaces the body's train method, so a body that another, unfrozen classifier shares no longer follows that one's mode",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "body's own train method overwritten",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
        self.body.eval()
        body = self.body
        self.body.train = lambda mode=True: body

    def train(self, mode=True):
        return super().train(mode)


@wrong(
    "returns the body instead of the model when the body is frozen: model = model.train() loses the head",
    "It returns the module, and your `train` must return it, too.",
    "train returns the body when frozen",
)
class SentenceClassifier(nn.Module):
    """A pretrained body and a new head.

    Args:
        body: called as the library calls its encoders.
        head: called with states (B, S, D) and a mask (B, S).
    """

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
        model = super().train(mode)
        return model.body.eval() if self.frozen else model
