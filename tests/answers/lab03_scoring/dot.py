"""Answers to dot."""

from answers.core import right, wrong_edits
from answers.lab03_scoring.shared import PRODUCTS, score
from answers.signs import AXES, CUT, FACTOR, FITS, NOTHING, TAKEN_OUT

from attention_course.scores import DotScore
from nbjudge import edit

for product in PRODUCTS:
    right("dot", product.__name__)(score(product))


def compared(product):
    return edit(DotScore.forward, "query @ projected.mT", product)


wrong_edits(
    "dot",
    EntryByEntry=(compared("(query * projected).sum(-1)"), FITS),
    ThreeLetters=(compared("torch.einsum('btd,bsd->bts', query, projected)"), AXES),
    AxesFromTheFront=(
        compared("query @ projected.transpose(1, 2)"),
        AXES,
        FITS,
        "axes counted from the front",
    ),
    AllAxesTurned=(
        compared("query @ projected.permute(*range(projected.dim() - 1, -1, -1))"),
        FITS,
        "all axes of the keys are reversed",
    ),
    KeysDetached=(compared("query @ projected.detach().mT"), CUT),
    MeanNotSum=(
        compared("(query.unsqueeze(-2) * projected.unsqueeze(-3)).mean(-1)"),
        FACTOR,
    ),
    Softmaxed=(
        compared("torch.softmax(query @ projected.mT, dim=-1)"),
        "weights instead of scores",
    ),
    ThroughNumbers=(
        compared("query.new_tensor((query @ projected.mT).tolist())"),
        TAKEN_OUT,
        CUT,
    ),
    FirstSentence=(compared("query @ projected[0].mT"),),
    Distance=(
        compared("-(query.unsqueeze(-2) - projected.unsqueeze(-3)).norm(dim=-1)"),
    ),
    SixtyFourEntries=(
        compared("query[..., :64] @ projected[..., :64].mT"),
        "wrong for long inputs",
    ),
    OneQueryDetached=(
        compared("(query if query.size(-2) > 1 else query.detach()) @ projected.mT"),
        CUT,
    ),
    TwoAxesTakenOut=(
        compared("query @ (projected if query.dim() == 3 else projected.data).mT"),
        CUT,
    ),
    LargeTakenOut=(
        compared("query @ projected.mT.where(projected.mT < 1e3, projected.data.mT)"),
        CUT,
    ),
    NoReturn=(edit(DotScore.forward, "return ", ""), NOTHING),
)
