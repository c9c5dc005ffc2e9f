"""Guided dynamic routing (GDR): source words are routed to capsules, seen from the decoder state.

    b[i,j] = 0
    repeat   c[i,:] = softmax_j b[i,:] on real words, zero on padding      assignments
             Omega[j] = squash(sum_i c[i,j] v[i,j])                        capsules
             b[i,j] += agreement of v[i,j] with Omega[j], seen from z_t    between two rounds

The first round is uniform and depends on neither z nor t: its capsules are computed once for each
sentence, together with the votes. Shape letters: b sentences, j capsules, i source words, t target
positions or beams, c width of a capsule, d width of the model.

Routing as the paper writes it: slow and plain; tests compare the fast form with it.

    b[i,j] += w . tanh(W_b [z_t; v[i,j]; Omega[j]])

`literal_routing` concatenates and multiplies, position by position of a (b t i j) grid. In
`split_routing` W_b is three maps, each applied once where its input does not change; the hidden
values still exist as a whole.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from untold.config.model import SeparatorConfig
from untold.models.backbone import Widths
from untold.models.layers import full_precision, sigmoid_scores, widen
from untold.models.routing_kernels import RoutingForm, dot_routing, squash

# Products of two such numbers, summed over any width, stay finite in fp32.
_LARGEST = 1e15
_STRENGTH = 4.0  # initial strength of the prior: a covered word begins as past, another as future


@dataclass(frozen=True)
class Routed:
    """Holds capsules (past, future, redundant) and the share of every word in each.

    The assignments are those that the capsules were last filled with. They are zero on padding.
    A separator may leave out the redundant capsules, which nothing reads, but not their
    assignments.
    """

    capsules: Float[Tensor, "b t r c"]  # shorter than one
    assignments: Float[Tensor, "b t i j"]


class Separator(nn.Module, ABC):
    """Tells source words apart as past, future and redundant at every target position.

    Fusion and losses see this interface alone. `cast` runs once for each sentence, `forward` for
    all target positions or for the beams of one step. Every source word votes for every capsule:
    v[i,j] = W_j h[i].
    """

    def __init__(self, config: SeparatorConfig, widths: Widths, d_capsule: int) -> None:
        super().__init__()
        self.counts = config.counts
        self.vote = nn.Linear(widths.source, sum(self.counts) * d_capsule, bias=False)
        _initialise_by_capsule(self.vote, d_capsule)

    def votes(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b j i c"]:
        """Returns the votes, capsules before words, so that all products are batched ones."""
        flat = self.vote(_bounded(states))
        return flat.unflatten(-1, (sum(self.counts), -1)).transpose(1, 2).contiguous()

    @abstractmethod
    def cast(self, states: Float[Tensor, "b i d"], mask: Bool[Tensor, "b i"]) -> tuple[Tensor, ...]:
        """Computes all that depends on the source alone; the first axis of each tensor is b."""

    @abstractmethod
    def forward(
        self,
        votes: tuple[Tensor, ...],
        mask: Bool[Tensor, "b i"],
        guide: Float[Tensor, "b t d"],
        prior: Float[Tensor, "b j t i"] | None = None,
    ) -> Routed:
        """Routes the source words for each target position; positions do not see each other.

        `votes` is what `cast` returned; `prior` holds logits that a routing starts from.
        """


class GuidedRouting(Separator):
    """GDR: routing by agreement, guided by the decoder state."""

    def __init__(self, config: SeparatorConfig, widths: Widths, d_capsule: int) -> None:
        super().__init__(config, widths, d_capsule)
        self.rounds = config.num_iterations - 1
        self.agreement = None  # a single round is uniform: there is nothing to agree on
        if self.rounds and config.agreement == "dot":
            self.agreement = DotAgreement(widths.state, d_capsule, sum(self.counts))
        elif self.rounds:
            self.agreement = MlpAgreement(widths.state, d_capsule)

    def cast(self, states: Float[Tensor, "b i d"], mask: Bool[Tensor, "b i"]) -> tuple[Tensor, ...]:
        """Returns votes, the first round's capsules as the agreement sees them, and its keys."""
        votes = widen(self.votes(states))
        if self.agreement is None:
            return (votes,)
        with full_precision(votes):
            first = self.agreement.capsule(uniform_routing(votes, mask).capsules.transpose(1, 2))
            keys = self.agreement.keys(votes)
        return (votes, first) if keys is votes else (votes, first, keys)

    def forward(
        self,
        votes: tuple[Tensor, ...],
        mask: Bool[Tensor, "b i"],
        guide: Float[Tensor, "b t d"],
        prior: Float[Tensor, "b j t i"] | None = None,
    ) -> Routed:
        """Runs the rounds after the first; assignments sum to one over the capsules."""
        if self.agreement is None:
            return uniform_routing(votes[0], mask, guide.shape[1])
        guided = widen(self.agreement.guided(_bounded(guide)))
        with full_precision(guided):
            if not (torch.is_grad_enabled() and isinstance(self.agreement, DotAgreement)):
                return self.route(votes, mask, guided, prior)
            form = RoutingForm(self.rounds, sum(self.counts[:2]), self.agreement.scale)
            learnt = guided, self.agreement.capsule.weight
            capsules, assignments = dot_routing(form, votes, learnt, mask, prior)
        return Routed(capsules.transpose(1, 2), assignments.permute(0, 2, 3, 1))

    def route(
        self,
        votes: tuple[Tensor, ...],
        mask: Bool[Tensor, "b i"],
        guided: Float[Tensor, "b _ t c"],
        prior: Float[Tensor, "b j t i"] | None = None,
    ) -> Routed:
        """Routes operation by operation; `guided` is the guide as the agreement sees it."""
        agreement, (cast, first, *rest) = self.agreement, votes
        assert agreement is not None
        keys = rest[0] if rest else cast
        logits = agreement.scores(keys, first + guided)
        if prior is not None:
            logits = logits + prior
        real = mask[:, None, None].to(cast.dtype)
        assignments = logits.softmax(1) * real
        capsules = squash(assignments @ cast)
        for _ in range(self.rounds - 1):
            logits = logits + agreement.scores(keys, agreement.capsule(capsules) + guided)
            assignments = logits.softmax(1) * real
            capsules = squash(assignments @ cast)
        return Routed(capsules.transpose(1, 2), assignments.permute(0, 2, 3, 1))


class DotAgreement(nn.Module):
    """Scores <v[i,j], W_o Omega[j] + W_z^(j) z> / sqrt(c): every capsule has its own guide."""

    def __init__(self, d_state: int, d_capsule: int, capsules: int) -> None:
        super().__init__()
        self.guide = nn.Linear(d_state, capsules * d_capsule, bias=False)
        self.capsule = nn.Linear(d_capsule, d_capsule, bias=False)
        self.scale = d_capsule**-0.5
        self.capsules = capsules
        _initialise_by_capsule(self.guide, d_capsule)
        nn.init.xavier_uniform_(self.capsule.weight)

    def keys(self, votes: Float[Tensor, "b j i c"]) -> Float[Tensor, "b j i c"]:
        """Returns the votes themselves."""
        return votes

    def guided(self, guide: Float[Tensor, "b t d"]) -> Float[Tensor, "b j t c"]:
        """Computes W_z^(j) z for every capsule."""
        return self.guide(guide).unflatten(-1, (self.capsules, -1)).transpose(1, 2)

    def scores(
        self, keys: Float[Tensor, "b j i c"], query: Float[Tensor, "b j t c"]
    ) -> Float[Tensor, "b j t i"]:
        """Multiplies every key with every query."""
        return (query * self.scale) @ keys.transpose(-1, -2)


class MlpAgreement(nn.Module):
    """Scores w . tanh(W_z z + W_v v[i,j] + W_o Omega[j] + bias), shared by all capsules."""

    def __init__(self, d_state: int, d_capsule: int) -> None:
        super().__init__()
        self.guide = nn.Linear(d_state, d_capsule)
        self.key = nn.Linear(d_capsule, d_capsule, bias=False)
        self.capsule = nn.Linear(d_capsule, d_capsule, bias=False)
        self.weight = nn.Parameter(torch.empty(d_capsule).uniform_(-1, 1) / d_capsule)
        for linear in (self.guide, self.key, self.capsule):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.guide.bias)

    def keys(self, votes: Float[Tensor, "b j i c"]) -> Float[Tensor, "b j i c"]:
        """Computes W_v v."""
        return self.key(votes)

    def guided(self, guide: Float[Tensor, "b t d"]) -> Float[Tensor, "b 1 t c"]:
        """Computes W_z z + bias."""
        return self.guide(guide)[:, None]

    def scores(
        self, keys: Float[Tensor, "b j i c"], query: Float[Tensor, "b j t c"]
    ) -> Float[Tensor, "b j t i"]:
        """Computes weight . tanh(keys + query), less a constant that the softmax over j drops.

        tanh(x) = 2 sigmoid(2x) - 1, and sigmoid is the cheaper of the two on a CPU.
        """
        scores = sigmoid_scores(2 * keys.flatten(0, 1), 2 * query.flatten(0, 1), 2 * self.weight)
        return scores.view(*keys.shape[:2], query.shape[2], keys.shape[2])


@dataclass(frozen=True)
class Reading:
    """The decoder at positions t of a target, or at one step of beams t: its states and input."""

    states: Float[Tensor, "b t d"]
    guide: Float[Tensor, "b t d"]  # the states, with the share of gradient that routing may give
    tokens: Float[Tensor, "b t o"] | None  # embeddings of the tokens that were read last
    # The first position has read BOS; so have all beams of a first step, or those marked here.
    begins: bool | Bool[Tensor, "b t"]


class RoutingPrior(nn.Module):
    """Adds prior logits to the routing: which source words the steps before have spoken of.

        a_t = softmax_i <K z_t + S E(y_t-1), U h_i> / sqrt(c)     the words that y_t-1 speaks of
        covered_t[i] = sum over t' <= t of a_t'[i]                how far word i was spoken of
        b[i,j] += strength_j (covered_t[i] - 1/2) + <u_j, h_i>

    A decoder state knows well what it is about to say, and less well what was said long ago. The
    sum remembers that, and it grows with what was really said, not with the distance to the end.
    BOS speaks of nothing. The last term says what a word is by itself: function words tend to be
    redundant.

    Without `reads_token` the state alone is asked which words step t is about to speak of, S is
    absent and the sum goes over t' < t.
    """

    def __init__(
        self, widths: Widths, d_key: int, counts: tuple[int, int, int], *, reads_token: bool
    ) -> None:
        super().__init__()
        self.key = nn.Linear(widths.source, d_key, bias=False)
        self.query = nn.Linear(widths.state, d_key, bias=False)
        self.word = nn.Linear(widths.source, sum(counts), bias=False)
        self.token = nn.Linear(widths.output, d_key, bias=False) if reads_token else None
        signs = torch.tensor([1.0] * counts[0] + [-1.0] * counts[1] + [0.0] * counts[2])
        self.strength = nn.Parameter(_STRENGTH * signs)
        self.scale = d_key**-0.5
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.xavier_uniform_(self.query.weight)
        if self.token is not None:
            nn.init.xavier_uniform_(self.token.weight)
        nn.init.zeros_(self.word.weight)

    def cast(self, states: Float[Tensor, "b i d"]) -> tuple[Tensor, Tensor]:
        """Returns what depends on the source alone: keys, and each word's own logits."""
        return self.key(states), widen(self.word(states)).transpose(1, 2)

    def cover(
        self,
        keys: Float[Tensor, "b i c"],
        mask: Bool[Tensor, "b i"],
        read: "Reading",
        covered: Float[Tensor, "b t i"] | None,
    ) -> tuple[Float[Tensor, "b t i"], Float[Tensor, "b t i"]]:
        """Adds up the focus: what is covered as each position sees it, and as it leaves it behind.

        If `covered` is given, the positions are one step of several beams, and it holds what each
        beam has covered before.
        """
        focus = self.focus(keys, mask, read)
        if self.token is None:
            before = focus.cumsum(1) - focus if covered is None else covered
            return before, before + focus
        if isinstance(read.begins, Tensor):
            focus = focus.masked_fill(read.begins[:, :, None], 0.0)
        elif read.begins and covered is None:
            focus = torch.cat([torch.zeros_like(focus[:, :1]), focus[:, 1:]], dim=1)
        elif read.begins:
            focus = torch.zeros_like(focus)
        now = focus.cumsum(1) if covered is None else covered + focus
        return now, now

    def focus(
        self,
        keys: Float[Tensor, "b i c"],
        mask: Bool[Tensor, "b i"],
        read: "Reading",
    ) -> Float[Tensor, "b t i"]:
        """Returns the words that each position speaks of; sums to one over the real words."""
        query = self.query(read.guide)
        if self.token is not None:
            assert read.tokens is not None
            query = query + self.token(read.tokens) * read.tokens.shape[-1] ** 0.5
        scores = widen((query * self.scale) @ keys.transpose(1, 2))
        return scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)

    def prior(
        self, words: Float[Tensor, "b j i"], covered: Float[Tensor, "b t i"]
    ) -> Float[Tensor, "b j t i"]:
        """Returns what is added to the logits of the routing."""
        strength, centred = self.strength[:, None, None], covered[:, None] - 0.5
        return torch.addcmul(words[:, :, None], strength, centred)


def _bounded(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Clamps x; where nothing is to clamp, a CPU saves the copy, its mask and the gradient's."""
    if x.requires_grad and x.device.type == "cpu":
        least, most = x.detach().aminmax()
        if least >= -_LARGEST and most <= _LARGEST:
            return x
    return x.clamp(-_LARGEST, _LARGEST)


def uniform_routing(
    votes: Float[Tensor, "b j i c"], mask: Bool[Tensor, "b i"], positions: int = 1
) -> Routed:
    """Runs the first round: every word is shared evenly by all capsules at every position."""
    shares = mask[:, None, None].to(votes.dtype) / votes.shape[1]
    capsules = squash(shares @ votes).transpose(1, 2)
    assignments = shares.transpose(2, 3).expand(-1, positions, -1, votes.shape[1])
    return Routed(capsules.expand(-1, positions, -1, -1), assignments)


def _initialise_by_capsule(linear: nn.Linear, d_capsule: int) -> None:
    """Initialises each capsule's own map by Xavier, not the stack of them."""
    for weight in linear.weight.data.split(d_capsule):
        nn.init.xavier_uniform_(weight)


def literal_routing(
    gdr: GuidedRouting,
    states: Float[Tensor, "b i d"],
    mask: Bool[Tensor, "b i"],
    guide: Float[Tensor, "b t d"],
) -> Routed:
    """Computes every quantity at its full (b t i j) size, anew in every iteration."""
    (b, i, _), t = states.shape, guide.shape[1]
    votes = gdr.vote(states).unflatten(-1, (sum(gdr.counts), -1))
    votes = votes[:, None].expand(b, t, -1, -1, -1)
    logits = votes.new_zeros(votes.shape[:-1])
    seen = guide[:, :, None, None].expand(-1, -1, i, sum(gdr.counts), -1)

    def fill() -> Routed:
        assignments = logits.softmax(-1) * mask[:, None, :, None]
        return Routed(squash((assignments[..., None] * votes).sum(2)), assignments)

    routed = fill()
    for _ in range(gdr.rounds):
        capsules = routed.capsules[:, :, None].expand_as(votes)
        logits = logits + _literal_agreement(gdr, seen, votes, capsules)
        routed = fill()
    return routed


def _literal_agreement(gdr: GuidedRouting, z: Tensor, v: Tensor, omega: Tensor) -> Tensor:
    agreement = gdr.agreement
    if isinstance(agreement, MlpAgreement):
        maps = agreement.guide.weight, agreement.key.weight, agreement.capsule.weight
        joined = torch.cat([z, v, omega], dim=-1) @ torch.cat(maps, dim=1).T
        return (joined + agreement.guide.bias).tanh() @ agreement.weight
    assert isinstance(agreement, DotAgreement)
    own = agreement.guide.weight.unflatten(0, (agreement.capsules, -1))
    query = omega @ agreement.capsule.weight.T + torch.einsum("btijd,jcd->btijc", z, own)
    return (v * query).sum(-1) * agreement.scale


def split_routing(
    gdr: GuidedRouting,
    states: Float[Tensor, "b i d"],
    mask: Bool[Tensor, "b i"],
    guide: Float[Tensor, "b t d"],
) -> Routed:
    """Hoists W_z z and W_v v of the MLP agreement out of the loop, and nothing else."""
    agreement = gdr.agreement
    assert isinstance(agreement, MlpAgreement)
    votes = gdr.vote(states).unflatten(-1, (sum(gdr.counts), -1))[:, None]
    fixed = agreement.key(votes) + agreement.guide(guide)[:, :, None, None]
    logits = votes.new_zeros(*guide.shape[:2], *votes.shape[2:4])

    def fill() -> Routed:
        assignments = logits.softmax(-1) * mask[:, None, :, None]
        sums = torch.einsum("btij,bijc->btjc", assignments, votes[:, 0])
        return Routed(squash(sums), assignments)

    routed = fill()
    for _ in range(gdr.rounds):
        hidden = (fixed + agreement.capsule(routed.capsules)[:, :, None]).tanh()
        logits = logits + hidden @ agreement.weight
        routed = fill()
    return routed
