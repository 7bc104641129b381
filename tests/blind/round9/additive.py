import torch
import torch.nn.functional as F
from attention_course.scores import Score
from blind import right, wrong
from torch import nn


class Given(Score):
    """What the lab gives: the parameters."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)


@right("a loop over the queries, a matrix-vector product with u")
class AdditiveScore(Given):
    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        u = self.energy_proj.weight[0]
        rows = []
        for q in self.query_proj(query).unbind(dim=-2):
            rows.append(torch.tanh(q.unsqueeze(-2) + projected) @ u)
        return torch.stack(rows, dim=-2)


@right("indexes with None and contracts the last axis with einsum")
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        mapped = self.query_proj(query)
        hidden = (mapped[..., :, None, :] + projected[..., None, :, :]).tanh()
        return torch.einsum("...a,a->...", hidden, self.energy_proj.weight.squeeze(0))


@right("a loop over the hidden entries, summed in at least float32")
class AdditiveScore(Given):
    def project_keys(self, key, bias=None):
        return F.linear(key, self.key_proj.weight, bias)

    def forward(self, query, projected):
        mapped, total = query @ self.query_proj.weight.T, 0.0
        wide = torch.promote_types(projected.dtype, torch.float32)
        pairs = zip(
            mapped.unbind(-1), projected.unbind(-1), self.energy_proj.weight.unbind(-1)
        )
        for q, k, u in pairs:
            total = total + torch.tanh(q.unsqueeze(-1) + k.unsqueeze(-2)).to(wide) * u
        return total.to(projected.dtype)


@right("an own small network as part, keys first and the result transposed")
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def compare(self, left, right):
        return self.energy_proj(torch.tanh(torch.add(left, right)))[..., 0]

    def forward(self, query, projected):
        by_key = self.compare(
            projected.unsqueeze(-2), self.query_proj(query).unsqueeze(-3)
        )
        return by_key.transpose(-2, -1)


@wrong(
    "leaves out the tanh, so the score is u^T W q + u^T U k; wrong wherever the sums"
    " are not close to zero",
    "$$e_{ts} = u^\\top \\tanh(W q_t + U k_s)$$",
    "no tanh",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "applies tanh to the queries and to the keys, and adds after that; wrong wherever"
    " the sums are not close to zero",
    "$$e_{ts} = u^\\top \\tanh(W q_t + U k_s)$$",
    "tanh before the sum",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        q, k = self.query_proj(query).tanh(), projected.tanh()
        return self.energy_proj(q.unsqueeze(-2) + k.unsqueeze(-3)).squeeze(-1)


@wrong(
    "keeps the axis of length one that energy_proj leaves: the scores are (..., T, S,"
    " 1)",
    "Score every query (..., T, query_dim) against every projected key (..., S,",
    "last axis not removed",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(hidden.tanh())


@wrong(
    "counts the axes from the front: right for (B, T, D), wrong or an error without a"
    " batch and for (B, H, T, D)",
    "Your code must work in all three cases.",
    "unsqueeze(1) and (2) fit one batch axis only",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(2) + projected.unsqueeze(1)
        return self.energy_proj(hidden.tanh()).squeeze(-1)


@wrong(
    "saves memory for a single query by adding it to the projected keys in place: for"
    " T = 1 and without gradients the caller's projected keys are changed",
    "Do not change the inputs.",
    "add_ into the projected keys for T = 1",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        mapped = self.query_proj(query)
        if query.shape[-2] == 1 and not torch.is_grad_enabled():
            hidden = projected.add_(mapped).tanh().unsqueeze(-3)
        else:
            hidden = (mapped.unsqueeze(-2) + projected.unsqueeze(-3)).tanh()
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "squeeze() removes all axes of length one: for B = 1, T = 1 or S = 1 axes of the"
    " result are missing",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "squeeze without an axis",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(hidden.tanh()).squeeze()


@wrong(
    "fills a tensor of zeros of the default dtype: bfloat16 and float64 modules return"
    " float32 scores",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "torch.zeros has its own dtype and device",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        mapped = self.query_proj(query)
        scores = torch.zeros(*mapped.shape[:-1], projected.shape[-2])
        for t in range(mapped.shape[-2]):
            hidden = torch.tanh(mapped[..., t : t + 1, :] + projected)
            scores[..., t, :] = self.energy_proj(hidden).squeeze(-1)
        return scores


@wrong(
    "writes tanh with exponentials: for sums above about 44 both overflow and the score"
    " is nan",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "own tanh overflows",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        up, down = hidden.exp(), (-hidden).exp()
        wide = (up.square() - 1) / (up.square() + 1)
        hidden = torch.where(hidden > 0, wide, (1 - down.square()) / (1 + down * down))
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "compares with the keys that project_keys saw last and never reads `projected`: if"
    " two sources are projected first, both get the scores of the second",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "uses the last keys, not those it is given",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        self.keys = self.key_proj(key)
        return self.keys

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + self.keys.unsqueeze(-3)
        return self.energy_proj(hidden.tanh()).squeeze(-1)


@wrong(
    "multiplies by u through .data: the numbers are right, but u never gets a gradient"
    " and stays as it was drawn",
    "$W$ is `query_proj`, $U$ is `key_proj`, and the learned vector $u$ is"
    " `energy_proj`.",
    "no gradient reaches u",
)
class AdditiveScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return hidden.tanh() @ self.energy_proj.weight.data[0]
