import torch
from torch import nn

from attention_course.masks import padding_mask
from blind import right, wrong


@right("goes through modules() and parameters() one by one")
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
        for module in self.body.modules():
            module.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            for module in self.body.modules():
                module.eval()
        return self


@right("train sets the body's mode a second time, to `mode and not frozen`")
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
        self.body.requires_grad_(False).eval()
        return self

    def train(self, mode=True):
        same = super().train(mode)
        same.body.train(mode and not same.frozen)
        return same


@right("a helper that both methods call, nn.Module.train instead of super()")
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

    def _quieten(self):
        if self.frozen:
            self.body.train(False)
        return self

    def freeze(self):
        list(map(lambda p: p.requires_grad_(False), self.body.parameters()))
        self.frozen = True
        self._quieten()

    def train(self, mode=True):
        nn.Module.train(self, mode)
        return self._quieten()


@right("apply() with a function that sets the flags; an extra attribute counts the calls")
class SentenceClassifier(nn.Module):
    calls = 0

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
        def rest(module):
            module.training = False
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad_(False)

        self.body.apply(rest)
        self.frozen = True
        self.calls = self.calls + 1

    def train(self, mode=True):
        super().train(mode)
        if self.frozen and mode:
            self.body.apply(lambda module: setattr(module, "training", False))
        return self


@wrong(
    "sets body.requires_grad, an attribute of the module without any effect",
    "Set `requires_grad` of all the body's parameters to False.",
    "module.requires_grad = False",
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
    "train does only what it does in every module",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back"
    " into eval mode.",
    "train() wakes the frozen body",
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
        return super().train(mode)


@wrong(
    "train returns nothing",
    "It returns the module, and your `train` must return it, too.",
    "train returns None",
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
    "freeze leaves the mode to the next call of train()",
    "`freeze()` does both steps at once.",
    "freeze does not switch to eval mode itself",
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
    "train looks at requires_grad: a body whose parameters somebody else has switched off is"
    " kept in eval mode, too",
    "Only `freeze()` freezes the body: if the body's parameters do not require gradients for"
    " a different reason, the body still follows `mode`.",
    "takes requires_grad for frozen",
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if not any(p.requires_grad for p in self.body.parameters()):
            self.body.eval()
        return self


@wrong(
    "for a frozen body, train switches only the head: the model's own `training` keeps its"
    " old value",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back"
    " into eval mode.",
    "model.training is stale once frozen",
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        if not self.frozen:
            return super().train(mode)
        self.body.eval()
        self.head.train(mode)
        return self


@wrong(
    "after train(), only the flag of the body itself is set back: the dropouts inside it"
    " stay in train mode",
    "Put the body into eval mode, and keep it there.",
    "body.training = False without its parts",
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.training = False
        return self


@wrong(
    "freeze turns requires_grad round: a second freeze(), or a body of which a part was off"
    " already, leaves parameters to train",
    "Set `requires_grad` of all the body's parameters to False.",
    "toggles requires_grad",
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
        for parameter in self.body.parameters():
            parameter.requires_grad = not parameter.requires_grad
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


@wrong(
    "train keeps a body in eval mode that it finds in eval mode: after eval(), train() does"
    " not wake a body that is not frozen",
    "A body that is not frozen follows `mode`.",
    "takes eval mode for frozen",
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        resting = not self.body.training
        super().train(mode)
        if resting:
            self.body.eval()
        return self


@wrong(
    "train returns at once if the model is in this mode already: model.head.eval() and then"
    " model.train() leave the head in eval mode",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back"
    " into eval mode.",
    "skips the parts if the model's mode is unchanged",
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
        self.body.requires_grad_(False)
        self.body.eval()
        self.frozen = True

    def train(self, mode=True):
        if self.training != mode:
            super().train(mode)
        if self.frozen:
            self.body.eval()
        return self
