import torch
from blind import right, wrong

from attention_course.scores import Score


# Right
@right("sum over D of outer products, one entry of the vectors at a time")
class R1(Score):
    def forward(self, query, projected):
        total = query[..., :, None, 0] * projected[..., None, :, 0]
        for d in range(1, query.shape[-1]):
            total = total + query[..., :, None, d] * projected[..., None, :, d]
        return total


@right("einsum with an ellipsis and letters of its own")
class R2(Score):
    def forward(self, query, projected):
        return torch.einsum("...ij,...kj->...ik", query, projected)


@right("keys times queries, and then turned")
class R3(Score):
    def forward(self, query, projected):
        return torch.matmul(projected, query.swapaxes(-1, -2)).transpose(-2, -1)


@right("one query after the other, with products of a matrix and a column")
class R4(Score):
    def forward(self, query, projected):
        columns = [projected @ q.mT for q in query.split(1, dim=-2)]
        return torch.cat(columns, dim=-1).mT


# Wrong
@wrong(
    "projected.T, which turns all axes",
    breaks="The axes in front of the last two may be `(B,)` or `(B, H)`, or missing",
    name="T turns all axes",
    subtle=True,
)
class W1(Score):
    def forward(self, query, projected):
        return query @ projected.permute(*range(projected.dim() - 1, -1, -1))


@wrong(
    "torch.bmm, which takes three axes only",
    breaks="The axes in front of the last two may be `(B,)` or `(B, H)`, or missing:"
    " write code that does not care.",
    name="three axes only",
    subtle=True,
)
class W2(Score):
    def forward(self, query, projected):
        return torch.bmm(query, projected.transpose(1, 2))


@wrong(
    "entry by entry with broadcasting over T: right for one query",
    breaks="Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    name="one query only",
    subtle=True,
)
class W3(Score):
    def forward(self, query, projected):
        return (query * projected).sum(dim=-1).unsqueeze(-2)


@wrong(
    "squeezes the scores of a single query",
    breaks="Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    name="axes of length one disappear",
    subtle=True,
)
class W4(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).squeeze(-2)


@wrong(
    "keeps the keys of the first call",
    breaks="Score every query (..., T, D) against every key (..., S, D)",
    name="the keys of an earlier sentence",
    subtle=True,
)
class W5(Score):
    def forward(self, query, projected):
        if getattr(self, "keys", None) is None or self.keys.shape != projected.shape:
            self.keys = projected
        return query @ self.keys.mT


@wrong(
    "the keys are turned in project_keys, forward expects them so",
    breaks="there is nothing to do, and the base class `Score` returns the keys as they"
    " are",
    name="keys turned in project_keys",
    subtle=True,
)
class W6(Score):
    def project_keys(self, key):
        return key.mT

    def forward(self, query, projected):
        return query @ projected


@wrong(
    "float32 for the product",
    breaks="the dtype and the device are kept",
    name="float32 whatever comes in",
    subtle=True,
)
class W7(Score):
    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "tensordot over the last axes: every sentence with every other",
    breaks="Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    name="queries against keys of other sentences",
    subtle=True,
)
class W8(Score):
    def forward(self, query, projected):
        return torch.tensordot(query, projected, dims=([-1], [-1]))


@wrong(
    "all leading axes become one, and stay so",
    breaks="The axes in front of the last two may be `(B,)` or `(B, H)`, or missing",
    name="leading axes flattened",
    subtle=True,
)
class W9(Score):
    def forward(self, query, projected):
        q = query.reshape(-1, *query.shape[-2:])
        k = projected.reshape(-1, *projected.shape[-2:])
        return q @ k.mT


@wrong(
    "writes row after row into a tensor of zeros of the default dtype on the CPU",
    breaks="the dtype and the device are kept",
    name="a new tensor of default dtype",
    subtle=True,
)
class W10(Score):
    def forward(self, query, projected):
        shape = (*query.shape[:-1], projected.shape[-2])
        out = torch.zeros(shape)
        for t in range(query.shape[-2]):
            out[..., t, :] = (query[..., t, None, :] * projected).sum(dim=-1)
        return out
