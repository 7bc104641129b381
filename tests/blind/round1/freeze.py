import torch
from torch import nn

from attention_course.masks import padding_mask
from blind import right, wrong


@right('the plain way')
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
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@right('parameter by parameter; train asks the body for mode and not frozen')
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
            parameter.grad = None
        self.frozen = True
        self.body.train(False)

    def train(self, mode=True):
        model = super().train(mode)
        self.body.train(mode and not self.frozen)
        return model


@right('freeze goes through train in the mode that is on')
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
        for module in self.body.modules():
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad_(False)
        self.train(self.training)
        return self

    def train(self, mode=True):
        super().train(mode)
        return self if not self.frozen else (self.body.eval(), self)[1]


@right('train child by child, without super')
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
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode and not (self.frozen and child is self.body))
        return self


@wrong(
    'requires_grad is set on the module, where it does nothing',
    breaks='(`module.requires_grad = False` does nothing at all.)',
    name='requires_grad of a module',
    subtle=False,
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
        self.frozen = True
        self.body.requires_grad = False
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    'train does not know of the freezing',
    breaks='`train(mode)` does what it does in every module, and then keeps a frozen body in eval mode; a body that is not frozen follows `mode`.',
    name='train() wakes the frozen body',
    subtle=False,
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
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        return super().train(mode)


@wrong(
    'a frozen body keeps the whole model in eval mode',
    breaks='`train(mode)` does what it does in every module, and then keeps a frozen body in eval mode; a body that is not frozen follows `mode`.',
    name='head kept in eval mode, too',
    subtle=False,
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
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        return super().train(mode and not self.frozen)


@wrong(
    'eval mode comes only with the next train()',
    breaks='`freeze()` does both, at once.',
    name='freeze does not switch to eval',
    subtle=True,
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
        self.frozen = True
        self.body.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "only the body's own flag, not those of its parts",
    breaks='It stays in eval mode. Otherwise its dropout goes on disturbing what the head is to learn from.',
    name='flag set on the top module only',
    subtle=True,
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
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.training = False

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.training = False
        return self


@wrong(
    'the freezing is kept in the class: all classifiers are frozen',
    breaks='`train(mode)` does what it does in every module, and then keeps a frozen body in eval mode; a body that is not frozen follows `mode`.',
    name='state shared between instances',
    subtle=True,
)
class SentenceClassifier(nn.Module):
    hold = False

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
        type(self).hold = True

    def train(self, mode=True):
        super().train(mode)
        if self.hold:
            self.body.eval()
        return self


@wrong(
    'freezing twice thaws',
    breaks='Keep the body as it is from now on: no gradients, eval mode.',
    name='freeze is a toggle',
    subtle=True,
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
    'frozen is guessed from the parameters: a body without any is always frozen',
    breaks='`train(mode)` does what it does in every module, and then keeps a frozen body in eval mode; a body that is not frozen follows `mode`.',
    name='frozen guessed from requires_grad',
    subtle=True,
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
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong(
    'if frozen, only the head is switched, no other part',
    breaks='`train(mode)` does what it does in every module, and then keeps a frozen body in eval mode; a body that is not frozen follows `mode`.',
    name='other parts do not follow the mode',
    subtle=True,
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
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        if not self.frozen:
            return super().train(mode)
        self.training = mode
        self.head.train(mode)
        self.body.eval()
        return self


@wrong(
    'returns the body if it is frozen',
    breaks='The model itself.',
    name='train returns the body',
    subtle=True,
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
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode=True):
        super().train(mode)
        return self.body.eval() if self.frozen else self
