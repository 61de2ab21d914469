# SPDX-License-Identifier: Apache-2.0
"""The model of a gradient dump in plain PyTorch: whole matrices, explicit masks, autograd.

Independent of the C++ program on purpose: it follows docs/gradient-dump-format.md alone.
Notation: B sequences, S positions, H query heads, K key/value heads, D channels of a head.
"""
import math

import torch

# Faults that can be built in on purpose, to see that the comparison notices them.
BREAKS = ("attention-scale", "document-mask", "positions", "norm-eps", "residual", "activation",
          "loss-mean", "head-groups", "logit-scale", "rope-pairs", "rope-scaling", "qk-norm")


class DoesNotApply(Exception):
    """A fault was asked for that changes nothing in this model."""


def expected_shapes(m, seq_length):
    """Name and shape of every parameter of the model with the keys `m`, in order."""
    hidden, inter = m["hidden_size"], m["intermediate_size"]
    heads, kv_heads, dim = m["num_heads"], m["num_kv_heads"], m["head_dim"]
    norm_bias = m["norm"] == "layernorm" and m["norm_bias"]
    shapes = {}

    def norm(name, width):
        shapes[name + ".weight"] = (width,)
        if norm_bias:
            shapes[name + ".bias"] = (width,)

    def linear(name, outputs, inputs):
        shapes[name + ".weight"] = (outputs, inputs)
        if m["bias"]:
            shapes[name + ".bias"] = (outputs,)

    shapes["embedding.token.weight"] = (m["vocab_size"], hidden)
    if m["position"] == "learned":
        shapes["embedding.position.weight"] = (seq_length, hidden)
    for n in range(m["num_layers"]):
        layer = f"layers.{n}."
        norm(layer + "attention.norm", hidden)
        linear(layer + "attention.qkv", (heads + 2 * kv_heads) * dim, hidden)
        if m["qk_norm"]:
            norm(layer + "attention.q_norm", dim)
            norm(layer + "attention.k_norm", dim)
        linear(layer + "attention.output", hidden, heads * dim)
        if m["residual"] == "sequential":
            norm(layer + "mlp.norm", hidden)
        if m["activation"] == "swiglu":
            linear(layer + "mlp.gate_up", 2 * inter, hidden)
        else:
            linear(layer + "mlp.up", inter, hidden)
        linear(layer + "mlp.down", hidden, inter)
    norm("final_norm", hidden)
    if not m["tie_embeddings"]:
        shapes["output.weight"] = (m["vocab_size"], hidden)
    return shapes


def rope_frequencies(m):
    """Radians a position, one for each pair of channels, in double."""
    dim = m["head_dim"]
    frequencies = []
    for i in range(dim // 2):
        f = m["rope_theta"] ** (-2.0 * i / dim)
        if m["rope_scaling"] == "linear":
            f /= m["rope_scaling_factor"]
        elif m["rope_scaling"] == "llama3":
            turns = m["rope_original_length"] * f / (2 * math.pi)  # within the original length
            low, high = m["rope_low_freq_factor"], m["rope_high_freq_factor"]
            share = min(1.0, max(0.0, (turns - low) / (high - low)))  # 1: left alone
            f = share * f + (1 - share) * f / m["rope_scaling_factor"]
        frequencies.append(f)
    return torch.tensor(frequencies, dtype=torch.float64)


def rotate(x, positions, m):
    """x [B, S, heads, D] turned by the angles of positions [B, S]."""
    angle = positions.to(torch.float64)[:, :, None, None] * rope_frequencies(m)
    cos, sin = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
    half = m["head_dim"] // 2
    if m["rope_style"] == "half":
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)


class ReferenceModel:
    """Forward pass of a model with keys `m` and parameters `p` (name -> tensor)."""

    def __init__(self, m, p, broken=None):
        self.m, self.p, self.broken = dict(m), p, broken
        if broken:
            self.break_model()

    def break_model(self):
        m = self.m
        applies = {
            "head-groups": 1 < m["num_kv_heads"] < m["num_heads"],
            "logit-scale": True,
            "rope-pairs": m["position"] == "rope",
            "rope-scaling": m["position"] == "rope" and m["rope_scaling"] != "none",
            "qk-norm": m["qk_norm"],
        }
        if not applies.get(self.broken, True):
            raise DoesNotApply(self.broken)
        if self.broken == "norm-eps":
            m["norm_eps"] *= 10
        elif self.broken == "logit-scale":
            m["logit_scale"] *= 1.001
        elif self.broken == "rope-pairs":
            m["rope_style"] = "half" if m["rope_style"] == "interleaved" else "interleaved"
        elif self.broken == "rope-scaling":
            m["rope_scaling"] = "none"

    def linear(self, x, name):
        y = x @ self.p[name + ".weight"].T
        return y + self.p[name + ".bias"] if self.m["bias"] else y

    def norm(self, x, name):
        m, weight = self.m, self.p[name + ".weight"]
        if m["norm"] == "rmsnorm":
            return weight * x / torch.sqrt((x * x).mean(-1, keepdim=True) + m["norm_eps"])
        centred = x - x.mean(-1, keepdim=True)
        y = weight * centred / torch.sqrt((centred ** 2).mean(-1, keepdim=True) + m["norm_eps"])
        return y + self.p[name + ".bias"] if m["norm_bias"] else y

    def attention(self, x, name, positions, document_start):
        m = self.m
        batch, length, _ = x.shape
        heads, kv_heads, dim = m["num_heads"], m["num_kv_heads"], m["head_dim"]
        qkv = self.linear(x, name + ".qkv").view(batch, length, heads + 2 * kv_heads, dim)
        q = qkv[:, :, :heads]
        k = qkv[:, :, heads:heads + kv_heads]
        v = qkv[:, :, heads + kv_heads:]
        if m["qk_norm"] and self.broken != "qk-norm":
            q, k = self.norm(q, name + ".q_norm"), self.norm(k, name + ".k_norm")
        if m["position"] == "rope":
            q, k = rotate(q, positions, m), rotate(k, positions, m)
        group = heads // kv_heads
        if self.broken == "head-groups":
            k, v = k.repeat(1, 1, group, 1), v.repeat(1, 1, group, 1)
        else:  # query heads [g * group, (g + 1) * group) share key/value head g
            k, v = k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)
        scores = torch.einsum("bshd,bthd->bhst", q, k) / math.sqrt(dim)
        if self.broken == "attention-scale":
            scores = scores * 1.01
        query = torch.arange(length)[None, :, None]
        key = torch.arange(length)[None, None, :]
        visible = (key <= query) & (key >= document_start[:, :, None])
        weights = torch.softmax(scores.masked_fill(~visible[:, None], -math.inf), dim=-1)
        mixed = torch.einsum("bhst,bthd->bshd", weights, v).reshape(batch, length, heads * dim)
        return self.linear(mixed, name + ".output")

    def activate_gelu(self, u):
        tanh = self.m["activation"] == "gelu_tanh"
        if tanh != (self.broken == "activation"):
            return 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u ** 3)))
        return 0.5 * u * (1 + torch.erf(u / math.sqrt(2)))

    def mlp(self, x, name):
        if self.m["activation"] != "swiglu":
            return self.linear(self.activate_gelu(self.linear(x, name + ".up")), name + ".down")
        both = self.linear(x, name + ".gate_up")
        gate, up = both.chunk(2, dim=-1)
        if self.broken == "activation":
            gate, up = up, gate
        return self.linear(gate * torch.sigmoid(gate) * up, name + ".down")

    def logits(self, inputs, positions, document_start):
        m, p = self.m, self.p
        x = p["embedding.token.weight"][inputs]
        if m["position"] == "learned":
            x = x + p["embedding.position.weight"][positions]
        for n in range(m["num_layers"]):
            layer = f"layers.{n}."
            normed = self.norm(x, layer + "attention.norm")
            attended = self.attention(normed, layer + "attention", positions, document_start)
            parallel = (m["residual"] == "parallel") != (self.broken == "residual")
            if parallel:
                name = layer + ("attention.norm" if m["residual"] == "parallel" else "mlp.norm")
                x = x + attended + self.mlp(self.norm(x, name), layer + "mlp")
            else:
                x = x + attended
                name = layer + ("mlp.norm" if m["residual"] == "sequential" else "attention.norm")
                x = x + self.mlp(self.norm(x, name), layer + "mlp")
        x = self.norm(x, "final_norm")
        output = p["embedding.token.weight" if m["tie_embeddings"] else "output.weight"]
        return m["logit_scale"] * (x @ output.T)

    def loss(self, tokens):
        """Sum over the predicted tokens of -log p(target), divided by their number."""
        inputs, targets = tokens["inputs"], tokens["targets"]
        positions, start = tokens["positions"], tokens["document_start"]
        if self.broken == "document-mask":
            if not bool((start > 0).any()):
                raise DoesNotApply(self.broken)
            start = torch.zeros_like(start)
        if self.broken == "positions":
            if self.m["position"] == "none":
                raise DoesNotApply(self.broken)
            positions = torch.flip(positions, dims=[1])
        logits = self.logits(inputs, positions, start)
        predicted = targets >= 0
        chosen = logits[predicted].gather(-1, targets[predicted][:, None])[:, 0]
        losses = torch.logsumexp(logits[predicted], dim=-1) - chosen
        count = targets.numel() if self.broken == "loss-mean" else int(predicted.sum())
        if self.broken == "loss-mean" and count == int(predicted.sum()):
            raise DoesNotApply(self.broken)
        return losses.sum() / count


def loss_and_gradients(m, parameters, tokens, dtype, broken=None):
    """Loss as float and gradients (name -> tensor) in `dtype`, from numpy arrays."""
    p = {name: torch.tensor(value, dtype=dtype, requires_grad=True)
         for name, value in parameters.items()}
    t = {name: torch.tensor(value, dtype=torch.int64) for name, value in tokens.items()}
    loss = ReferenceModel(m, p, broken).loss(t)
    loss.backward()
    gradients = {name: torch.zeros_like(x) if x.grad is None else x.grad for name, x in p.items()}
    return float(loss.detach()), gradients
