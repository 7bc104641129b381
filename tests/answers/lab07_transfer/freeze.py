"""Answers to freeze."""

from functools import partial

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.signs import NO_NAME

from attention_labs.lab07_transfer.freeze import (
    CALLS,
    SentenceClassifier,
    make_classifier,
)
from nbjudge import Request, edit


@wide("freeze")
def any_depth(g):
    for number in range(40):
        init = (1 + number % 4, 7, 4, 6)
        made = make_classifier(SentenceClassifier, *init)
        weights = {name: draw(g, *x.shape) for name, x in made.named_parameters()}
        calls = [
            [*CALLS][i] for i in torch.randint(len(CALLS), (8,), generator=g).tolist()
        ]
        yield Request((calls,), init, weights)


freeze = partial(edit, SentenceClassifier.freeze)
train = partial(edit, SentenceClassifier.train)
SHUT, REST = "self.body.requires_grad_(False)", "self.body.eval()"
KEEP = f"if self.frozen:\n        {REST}"

right("freeze", "Classifier")(SentenceClassifier)
right_edits(
    "freeze",
    one_by_one=freeze(SHUT, "for p in self.body.parameters(): p.requires_grad = False")
    & freeze(REST, "self.train(self.training)"),
    by_name=freeze(
        SHUT,
        "for name, p in self.named_parameters():"
        " p.requires_grad_(not name.startswith('body.'))",
    )
    & freeze(REST, "self.body.train(False)"),
    all_but_the_head=freeze(SHUT, "self.requires_grad_(False)")
    & freeze(REST, f"self.head.requires_grad_(True); self.body = {REST}; return self"),
    every_module=train(
        "super().train(mode)", "for module in self.modules(): module.training = mode"
    )
    & train(REST, "for module in self.body.modules(): module.training = False"),
    back_to_eval=train("super().train(mode)", "result = super().train(mode)")
    & train(KEEP, "self.body.train(mode if not self.frozen else False)")
    & train("return self", "return result"),
    the_body_refuses=freeze(REST, f"{REST}.train = lambda mode=True: self.body")
    & train(KEEP, ""),
    another_attribute=freeze("self.frozen", "self.kept")
    & freeze(
        SHUT,
        "for part in self.body.modules():"
        " [p.requires_grad_(False) for p in part.parameters(recurse=False)]",
    )
    & train("self.frozen", "getattr(self, 'kept', False)"),
    children_in_turn=train("super().train(mode)", "self.training = mode")
    & train(
        KEEP,
        "for name, child in self.named_children():"
        " child.train(mode if name != 'body' or not self.frozen else False)",
    ),
    module_by_module=freeze(
        SHUT,
        "for module in self.body.modules(): module.training = False;"
        " [p.requires_grad_(False) for p in module.parameters(recurse=False)]",
    )
    & freeze(REST, "pass"),
)

ATTRIBUTE = "requires_grad set on the module, not its parameters"
OTHERS = "the wrong parameters are frozen"
DROPOUT = "dropout in the frozen body"
FOLLOWS = "a frozen body follows `train`"
RESTS = "a part is in eval mode that should be in train mode"
IGNORED = "the mode argument is ignored"

wrong_edits(
    "freeze",
    train_as_before=(train(KEEP, ""), FOLLOWS),
    attribute_of_the_module=(freeze(SHUT, "self.body.requires_grad = 0"), ATTRIBUTE),
    everything_frozen=(
        freeze(SHUT, "for p in self.parameters(): p.requires_grad = False"),
        "the head is frozen, too",
    ),
    embeddings_only=(
        freeze(SHUT, "self.body.embeddings.requires_grad_(False)"),
        OTHERS,
    ),
    by_a_word_in_the_name=(
        freeze(
            SHUT,
            "for name, p in self.named_parameters():"
            " p.requires_grad_('body' not in name)",
        ),
        OTHERS,
    ),
    layers_only=(freeze(SHUT, "self.body.encoder.requires_grad_(False)"), OTHERS),
    flag_forgotten=(freeze("self.frozen = True", ""), FOLLOWS),
    all_of_it_in_eval=(
        freeze(REST, "self.eval()"),
        RESTS,
        "the head is never in train mode",
    ),
    trains_nothing_if_frozen=(
        train(
            "super().train(mode)\n    if self.frozen:\n        self.body.eval()",
            "if self.frozen: return self.eval() if mode and self.training else self\n"
            "    super().train(mode)",
        ),
        RESTS,
        IGNORED,
    ),
    eval_before_train=(
        train(f"super().train(mode)\n    {KEEP}", f"{KEEP}\n    super().train(mode)"),
        FOLLOWS,
    ),
    returns_the_body=(
        train(f"{KEEP}\n    return self", f"return {REST} if self.frozen else None"),
        "train does not return the model",
    ),
    endless=(train("super()", "self"), "infinite recursion"),
    never_asks=(
        train("if self.frozen", "if True"),
        "an unfrozen body stays in eval mode, too",
    ),
    mode_not_handed_on=(train("train(mode)", "train()"), IGNORED, RESTS, DROPOUT),
    one_layer_only=(
        freeze(SHUT, "self.body.encoder.layer[-1].requires_grad_(False)"),
        OTHERS,
    ),
    layers_in_eval=(train(REST, "self.body.encoder.eval()"), DROPOUT),
    the_head_in_eval=(train(REST, f"{REST}; self.head[2].eval()"), RESTS),
    one_part_after_the_other=(
        train("super().train(mode)", "self.training = mode; self.head.train(mode)")
        & train(KEEP, "self.body.train(mode and not self.frozen)"),
        "a part of the model does not follow `train`",
    ),
    misspelt_freeze=(freeze("requires_grad_", "require_grad_"), NO_NAME),
)
