# SPDX-License-Identifier: Apache-2.0
"""Small models of each family for the golden files: odd sizes, so that no two are confused."""
import numpy

# Keys of the deck's section model that all cases share unless they name them.
COMMON = dict(
    preset="none", vocab_size=19, hidden_size=9, intermediate_size=14, num_layers=2, num_heads=4,
    num_kv_heads=2, head_dim=6, norm="layernorm", norm_bias=True, norm_eps=1e-5,
    position="learned", rope_theta=100.0, rope_style="half", rope_scaling="none",
    rope_scaling_factor=1.0, rope_low_freq_factor=1.0, rope_high_freq_factor=4.0,
    rope_original_length=8192, activation="gelu_tanh", bias=True, tie_embeddings=True,
    residual="sequential", qk_norm=False, logit_scale=1.0,
    embedding_dropout=0.0, attention_dropout=0.0, residual_dropout=0.0, init_std=0.02,
    init_scale_residual=True)

CASES = {
    "gpt2": dict(model=dict(
        hidden_size=8, intermediate_size=11, num_heads=3, num_kv_heads=3, head_dim=4),
        documents=True, reset=False, seq_length=9, seed=11),
    # The periods 6.3, 29 and 135 of three pairs fall below, between and above the limits of the
    # llama3 scaling, 16 and 64.
    "llama": dict(model=dict(
        norm="rmsnorm", norm_bias=False,
        position="rope", rope_scaling="llama3", rope_scaling_factor=8.0, rope_original_length=64,
        activation="swiglu", bias=False, tie_embeddings=False),
        documents=True, reset=True, seq_length=10, seed=12),
    "cohere": dict(model=dict(
        vocab_size=21, num_heads=6, num_kv_heads=3, head_dim=4, norm_bias=False,
        position="rope", rope_style="interleaved", activation="swiglu", bias=False,
        residual="parallel", qk_norm=True, logit_scale=0.625),
        documents=True, reset=True, seq_length=10, seed=13),
    "exact": dict(model=dict(
        vocab_size=23, hidden_size=10, intermediate_size=13, num_layers=1, num_kv_heads=1,
        position="rope", rope_scaling="linear", rope_scaling_factor=4.0, activation="gelu",
        qk_norm=True, norm_eps=1e-4), documents=False, reset=False, seq_length=8, seed=14),
}

BATCH = 2


def make_model(family):
    return {**COMMON, **CASES[family]["model"]}


def make_parameters(shapes, rng):
    """Large enough for attention to be far from uniform; norms near 1, biases small."""
    parameters = {}
    for name, shape in shapes.items():
        values = rng.standard_normal(shape)
        if len(shape) == 2:
            values *= 1.5 / numpy.sqrt(shape[1])
        elif name.endswith("weight"):
            values = 1 + 0.2 * values
        else:
            values *= 0.2
        parameters[name] = values.astype(numpy.float32)
    return parameters


def make_tokens(family, rng):
    """Documents of odd lengths; the last token of each is not predicted, nor are a few others."""
    case = CASES[family]
    length, vocab = case["seq_length"], make_model(family)["vocab_size"]
    inputs = rng.integers(0, vocab, (BATCH, length))
    targets = numpy.roll(inputs, -1, axis=1)
    start = numpy.zeros((BATCH, length), dtype=int)
    if case["documents"]:
        for row, cuts in zip(start, ([3, 4], [1, 6])):
            for cut in cuts:
                row[cut:] = cut
        targets[:, :-1][start[:, 1:] != start[:, :-1]] = -1
    targets[:, -1] = -1
    targets[0, 1] = -1
    places = numpy.arange(length)[None, :].repeat(BATCH, axis=0)
    positions = places - start if case["reset"] else places
    return dict(inputs=inputs, targets=targets, positions=positions, document_start=start)


def make_deck(family, model):
    """An effective deck for the record; the tests take their model from the attributes."""
    def toml(value):
        return str(value).lower() if isinstance(value, bool) else (
            f'"{value}"' if isinstance(value, str) else repr(value))

    case = CASES[family]
    lines = ["[model]"] + [f"{key} = {toml(value)}" for key, value in model.items()]
    lines += ["[batch]", f"seq_length = {case['seq_length']}", f"global_batch_size = {BATCH}",
              "[data]", 'source = "random"', f"document_mask = {toml(case['documents'])}",
              f"reset_positions = {toml(case['reset'])}"]
    return "\n".join(lines) + "\n"
