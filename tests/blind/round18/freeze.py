import torch
from torch import nn

from attention_course.masks import padding_mask
from blind import right, wrong


@right('both steps, and super().train')
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

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@right('a loop over the children, the body last, without super()')
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
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            if child is not self.body:
                child.train(mode)
        self.body.train(mode and not self.frozen)
        return self


@right('freeze() sets every module of the body by hand; train() switches the body twice')
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
        for module in self.body.modules():
            module.train(False)
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad_(False)
        self.frozen = True

    def train(self, mode=True):
        model = super().train(mode)
        self.body.train(mode if not self.frozen else False)
        return model


@right('a helper that settles the body is called by both; freeze() calls train() with the current mode')
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

    def settle(self):
        if self.frozen:
            self.body.apply(lambda module: setattr(module, "training", False))
        return self

    def freeze(self):
        self.frozen = True
        for name, parameter in self.named_parameters():
            if name.partition(".")[0] == "body":
                parameter.requires_grad_(False)
        self.train(self.training)

    def train(self, mode=True):
        return super().train(mode).settle()


@wrong(
    'self.body.requires_grad = False, which changes no parameter',
    breaks="Set `requires_grad` of all the body's parameters to False.",
    name='requires_grad of the module',
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
    'train() returns None',
    breaks='It returns the module, and your `train` must return it, too.',
    name='train returns nothing',
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
        if self.frozen:
            self.body.eval()


@wrong(
    'train() of a frozen model only sets the body and leaves the head in its mode',
    breaks='`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.',
    name='frozen model no longer switches its head',
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
            return self
        return super().train(mode)


@wrong(
    'freeze() calls self.eval(), so the head is in eval mode, too',
    breaks='`freeze()` does both steps at once and leaves the head as it is.',
    name='freeze puts the head into eval mode',
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
        self.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    'super().train() without mode: eval() puts the model into train mode',
    breaks='`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.',
    name='mode is not handed on',
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
        super().train()
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    'train() asks the parameters whether the body is frozen',
    breaks="Only `freeze()` freezes the body: if the body's parameters do not require gradients for a different reason, the body still follows `mode`.",
    name='frozen guessed from requires_grad',
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
    'sets only the flag of the body itself; its dropout layers stay in train mode',
    breaks='Put the body into eval mode, and keep it there.',
    name='flag of the outermost module only',
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
        self.body.training = False
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.training = False
        return self


@wrong(
    'a hook puts the body into eval mode when the model is called; train() itself leaves it in train mode',
    breaks='`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.',
    name='eval mode only while the model is called',
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
        self.register_forward_pre_hook(lambda model, _: (model.body.eval(), None)[1])
        self.frozen = True

    def train(self, mode=True):
        return super().train(mode)


@wrong(
    "stores on the class that a body is frozen, so all other models' bodies stay in eval mode",
    breaks='The result of a call must not depend on earlier calls or on other objects of the same class.',
    name='frozen stored on the class',
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

    some_frozen = False

    def freeze(self):
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = type(self).some_frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.some_frozen:
            self.body.eval()
        return self


@wrong(
    'freeze() leaves the mode to the next call of train()',
    breaks='`freeze()` does both steps at once and leaves the head as it is.',
    name='eval mode only after the next train()',
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
