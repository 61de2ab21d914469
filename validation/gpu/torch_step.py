#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of GPT-2 in PyTorch, for validation/gpu/run.sh to compare with.

Usage: torch_step.py WIDTH LAYERS HEADS BATCH LENGTH STEPS [MICRO_BATCHES]
torch.compile, bf16 autocast, scaled_dot_product_attention, fused AdamW, clipping at 1, tied
embeddings, random tokens, vocabulary padded to 50304: the work of a step of inputs/bench/gpt2-*.toml,
MICRO_BATCHES (default 4) of BATCH sequences each.
Prints one line "tokens/s N", the median of STEPS steps after five others. Exits 77 where there is
no torch with CUDA.
"""

import sys
import time

VOCABULARY = 50304


def main():
    width, layers, heads, batch, length, steps = (int(a) for a in sys.argv[1:7])
    micro_batches = int(sys.argv[7]) if len(sys.argv) > 7 else 4
    try:
        import torch
    except ImportError:
        print("no torch in this Python")
        return 77
    if not torch.cuda.is_available():
        print("this torch sees no CUDA device")
        return 77
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    functional = torch.nn.functional

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention = torch.nn.LayerNorm(width)
            self.qkv = torch.nn.Linear(width, 3 * width)
            self.output = torch.nn.Linear(width, width)
            self.before_mlp = torch.nn.LayerNorm(width)
            self.up = torch.nn.Linear(width, 4 * width)
            self.down = torch.nn.Linear(4 * width, width)

        def forward(self, x):
            shape = (x.shape[0], x.shape[1], heads, width // heads)
            q, k, v = (
                part.reshape(shape).transpose(1, 2)
                for part in self.qkv(self.before_attention(x)).chunk(3, dim=-1)
            )
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.output(mixed.transpose(1, 2).reshape(x.shape))
            inner = functional.gelu(self.up(self.before_mlp(x)), approximate="tanh")
            return x + self.down(inner)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = torch.nn.Embedding(VOCABULARY, width)
            self.positions = torch.nn.Embedding(length, width)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(layers))
            self.last = torch.nn.LayerNorm(width)
            torch.nn.init.normal_(self.tokens.weight, std=0.02)
            torch.nn.init.normal_(self.positions.weight, std=0.02)

        def forward(self, ids, targets):
            places = torch.arange(length, device=ids.device)
            x = self.tokens(ids) + self.positions(places)
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.last(x), self.tokens.weight)
            return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    model = Model().cuda()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    compiled = torch.compile(model)

    def step():
        for _ in range(micro_batches):
            ids = torch.randint(VOCABULARY, (batch, length + 1), device="cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = compiled(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
            (loss / micro_batches).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    seconds = []
    for _ in range(5 + steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    median = sorted(seconds[5:])[steps // 2]
    print(f"torch {torch.__version__}, peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    print(f"tokens/s {micro_batches * batch * length / median:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
