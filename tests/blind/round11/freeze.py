import torch
from torch import nn

from attention_course.masks import padding_mask
from blind import right, wrong


@right("one line in train for both kinds of bodies: mode and not frozen")
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
        self.body.train(not self.frozen)
        for parameter in self.body.parameters():
            parameter.requires_grad_(False)

    def train(self, mode=True):
        result = super().train(mode)
        self.body.train(mode and not self.frozen)
        return result


@right("nn.Module.train by its name, and the body's modules one by one")
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
        for _, module in self.body.named_modules():
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad = False
        self._settle(True)
        self.frozen = True

    def _settle(self, frozen):
        if frozen:
            self.body.train(False)

    def train(self, mode=True):
        nn.Module.train(self, mode)
        self._settle(self.frozen)
        return self


@right("apply instead of loops; try/finally puts the body back")
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
        def fix(module):
            module.requires_grad_(False)
            module.eval()

        self.body.apply(fix)
        self.frozen = True

    def train(self, mode=True):
        try:
            return super().train(mode)
        finally:
            if self.frozen:
                self.body.apply(nn.Module.eval)


@right("a list of the parts to keep in eval mode, which freeze fills")
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

    def _kept(self):
        return [self.body] if self.frozen else []

    def freeze(self):
        setattr(self, "frozen", True)
        for part in self._kept():
            part.eval().requires_grad_(False)

    def train(self, mode=True):
        model = super().train(mode=mode)
        for part in self._kept():
            part.eval()
        return model


@wrong(
    "sets the attribute requires_grad of the module, which no parameter sees",
    "Set `requires_grad` of all the body's parameters to False.",
    "requires_grad of a module has no effect",
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
    "puts the body into eval mode only in freeze, so that the next train() ends it",
    "2. Put the body into eval mode, and keep it there.",
    "train() puts the frozen body back into train mode",
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
    "takes the body as frozen if none of its parameters requires a gradient",
    "Only `freeze()` freezes the body: if the body's parameters do not require gradients for a different reason, the body still follows `mode`.",
    "guesses from requires_grad that the body is frozen",
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
    "freeze leaves the mode to the next call of train",
    "`freeze()` does both steps at once.",
    "freeze does not switch to eval mode",
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
    "keeps the body in eval mode if it was in eval mode before the call, frozen or not: after eval(), train() no longer reaches it",
    "A body that is not frozen follows `mode`.",
    "a body that is not frozen stays in eval mode",
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
        in_eval = not self.body.training
        super().train(mode)
        if self.frozen or in_eval:
            self.body.eval()
        return self


@wrong(
    "switches only the head of a frozen model, so that the model's own training stays as it was",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.",
    "the model's own mode is not switched",
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
        self.head.train(mode)
        self.body.eval()
        return self


@wrong(
    "sets only the body's own flag: its submodules, such as dropout, stay in train mode",
    "2. Put the body into eval mode, and keep it there.",
    "only the body's own flag is set",
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
    "freezes the children of the body: parameters that the body itself holds still require gradients",
    "Set `requires_grad` of all the body's parameters to False.",
    "the body's own parameters are not frozen",
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
    "skips a frozen body in train instead of putting it back: if body.train() has been called since, it stays in train mode",
    "`train(mode)` first does what it does in every module, and then puts a frozen body back into eval mode.",
    "a frozen body is skipped instead of put back",
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
        for part in self.children():
            if part is not self.body or not self.frozen:
                part.train(mode)
        return self
