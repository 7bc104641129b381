import torch
from attention_course.scores import Score

from blind import right, wrong


@right("an einsum with an ellipsis")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("a loop over the keys, each multiplied entry by entry and summed")
class DotScore(Score):
    def forward(self, query, projected):
        columns = []
        for s in range(projected.size(-2)):
            columns.append((query * projected[..., s : s + 1, :]).sum(dim=-1))
        return torch.stack(columns, dim=-1)


@right("all leading axes flattened into one for bmm in float64, then restored")
class DotScore(Score):
    def forward(self, query, projected):
        q = query.reshape(-1, *query.shape[-2:]).double()
        k = projected.reshape(-1, *projected.shape[-2:]).double()
        scores = torch.bmm(q, k.transpose(1, 2))
        shape = (*query.shape[:-1], projected.size(-2))
        return scores.reshape(shape).to(query.dtype)


@right("keys times queries, transposed at the end; an extra attribute counts the calls")
class DotScore(Score):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, query, projected):
        self.calls += 1
        return torch.matmul(projected, query.transpose(-2, -1)).transpose(-2, -1)


@wrong(
    "transposes the keys with .T, which reverses all axes: right only without a batch",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none.",
    ".T reverses the batch axes too",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.T


@wrong(
    "multiplies query t by key t only, entry by entry",
    "A single matrix product, `@`, computes all T x S dot products.",
    "pairs query t with key t only",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query * projected).sum(dim=-1)


@wrong(
    "returns the softmax of the scores",
    "Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    "returns weights instead of scores",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).softmax(dim=-1)


@wrong(
    "reshapes the keys to (D, S) instead of transposing them, which mixes the entries of"
    " different keys unless S or D is 1",
    "Transpose the keys first: `x.mT` exchanges the last two axes and leaves all others"
    " alone.",
    "reshape is not a transpose",
)
class DotScore(Score):
    def forward(self, query, projected):
        *batch, size, width = projected.shape
        return query @ projected.reshape(*batch, width, size)


@wrong(
    "squeezes the result: with one query, one key or one sentence, an axis is missing",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "squeeze removes axes of length one",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).squeeze()


@wrong(
    "computes in float32 and returns float32, also for float64 and bfloat16 vectors",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "always float32",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "writes the scores into a tensor of the right dtype, but on the CPU: vectors on a"
    " GPU give a result on the CPU",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "the result stays on the CPU",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        size = projected.size(-2)
        scores = torch.zeros(*query.shape[:-1], size, dtype=query.dtype)
        for t in range(query.size(-2)):
            for s in range(size):
                products = query[..., t, :] * projected[..., s, :]
                scores[..., t, s] = products.sum(dim=-1)
        return scores


@wrong(
    "keeps the transposed keys of the first call and uses them again whenever the number"
    " of keys is the same",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "keeps the first source's keys",
    subtle=True,
)
class DotScore(Score):
    def __init__(self):
        super().__init__()
        self.keys = None

    def forward(self, query, projected):
        if self.keys is None or self.keys.size(-1) != projected.size(-2):
            self.keys = projected.mT
        return query @ self.keys


@wrong(
    "detaches the keys, because they are prepared already: they get no gradients",
    "Gradients must be right, too.",
    "no gradients for the keys",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.detach().mT


@wrong(
    "uses torch.inner, which is right for (T, D) and (S, D), but gives (B, T, B, S) for a"
    " batch",
    "Your code must work in all three cases.",
    "torch.inner compares across the sentences of a batch",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.inner(query, projected)
