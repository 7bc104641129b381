import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong
from attention_course.scores import Score

FORMULA = "$$e_{ts} = v^\\top \\tanh(W q_t + U k_s)$$"
EVERY = "Score every query (..., T, query_dim) against every projected key (..., S,\n        A): (..., T, S)."
COMPUTE = "Compute U k for every key (..., S, key_dim): (..., S, A)."
EACH = "A small network compares each query with each key."
AXES = "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care."
MANNERS = "(what it was handed is unchanged, and the dtype and the device are kept)"
PLACE = "What depends on the source alone is computed once per source: `project_keys`."


@right("a loop over the queries")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        wq = self.query_proj(query)
        out = wq.new_empty(*wq.shape[:-1], projected.size(-2))
        for t in range(wq.size(-2)):
            out[..., t, :] = self.energy_proj((wq[..., t : t + 1, :] + projected).tanh())[..., 0]
        return out


@right("einsum for v")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return torch.einsum("...d,ad->...a", key, self.key_proj.weight)

    def forward(self, query, projected):
        hidden = torch.tanh(projected.unsqueeze(-3) + self.query_proj(query).unsqueeze(-2))
        return torch.einsum("...tsa,a->...ts", hidden, self.energy_proj.weight[0])


@right("one hidden unit after the other")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        wq, v, e = self.query_proj(query), self.energy_proj.weight.flatten(), 0
        for a in range(v.numel()):
            e = e + v[a] * torch.tanh(wq[..., :, None, a] + projected[..., None, :, a])
        return e


@right("tanh from the sigmoid, keys one after the other")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query, projected):
        wq = query @ self.query_proj.weight.T
        out = wq.new_zeros(*wq.shape[:-1], projected.size(-2))
        for s in range(projected.size(-2)):
            hidden = 2 * torch.sigmoid(2 * (wq + projected[..., s, None, :])) - 1
            out[..., s] = (hidden @ self.energy_proj.weight.T).squeeze(-1)
        return out

    def project_keys(self, key):
        return key @ self.key_proj.weight.T


@wrong("no tanh", breaks=FORMULA, name="tanh forgotten")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(sums).squeeze(-1)


@wrong("the last axis stays on", breaks=EVERY, name="an axis of length one too many")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(sums.tanh())


@wrong("U is applied at every step", breaks=COMPUTE, name="keys projected in forward")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(-2) + self.key_proj(projected).unsqueeze(-3)
        return self.energy_proj(sums.tanh()).squeeze(-1)


@wrong("axes put in at 2 and 1", breaks=AXES, name="right for three axes only", subtle=True)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(2) + projected.unsqueeze(1)
        return self.energy_proj(sums.tanh()).squeeze(-1)


@wrong("squeeze of all axes", breaks=EVERY, name="axes of length one lost", subtle=True)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(sums.tanh()).squeeze()


@wrong("one query: added to the projected keys in place", breaks=MANNERS, name="input changed at one query", subtle=True)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        wq = self.query_proj(query)
        if wq.size(-2) == 1:
            sums = (projected + wq).unsqueeze(-3)
            projected.data.copy_(sums.data.squeeze(-3))
        else:
            sums = wq.unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(sums.tanh()).squeeze(-1)


@wrong("W q of the first call is kept", breaks=EACH, name="state kept between calls", subtle=True)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        kept = getattr(self, "kept", None)
        if kept is None or kept.shape[:-1] != query.shape[:-1]:
            self.kept = self.query_proj(query)
        sums = self.kept.unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(sums.tanh()).squeeze(-1)


@wrong("tanh by its formula", breaks=FORMULA, name="overflow in tanh", subtle=True)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        twice = (2 * (self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3))).exp()
        return self.energy_proj((twice - 1) / (twice + 1)).squeeze(-1)


@wrong("scores written into a tensor of the default dtype", breaks=MANNERS, name="dtype and device lost", subtle=True)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        wq = self.query_proj(query)
        out = torch.zeros(*wq.shape[:-1], projected.size(-2))
        for t in range(wq.size(-2)):
            out[..., t, :] = self.energy_proj((wq[..., t : t + 1, :] + projected).tanh())[..., 0]
        return out


@wrong("queries in blocks of four: what is left over stays zero", breaks=EVERY, name="last block lost", subtle=True)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        wq = self.query_proj(query)
        out = wq.new_zeros(*wq.shape[:-1], projected.size(-2))
        for block in range(max(1, wq.size(-2) // 4)):
            part = slice(4 * block, 4 * block + 4)
            sums = wq[..., part, None, :] + projected.unsqueeze(-3)
            out[..., part, :] = self.energy_proj(sums.tanh()).squeeze(-1)
        return out
