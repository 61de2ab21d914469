# SPDX-License-Identifier: Apache-2.0
# Draws small decks and layouts, legal or not: awk -v seed=N -v count=M -f random_deck.awk
# Prints one a line: RANKS|MODE|keys of the arithmetic|keys of the grid. MODE is same (reproducible,
# equal bytes) or close (fast mode, equal to a tolerance). Extents are awkward on purpose: sequences
# shorter than the shards, vocabularies that no shard divides, odd heads.

# Park and Miller 1988: the same sequence with every awk.
function draw(n) {
  state = (state * 16807) % 2147483647
  return state % n
}
function pick(words,   parts) {
  return parts[1 + draw(split(words, parts, " "))]
}
function chance(percent) {
  return draw(100) < percent
}
function truth(percent) {
  return chance(percent) ? "true" : "false"
}
function key(name, value) {
  return " " name "=" value
}

function draw_model(   heads, keys, d) {
  heads = pick("1 2 3 4 4 6 8 8 8 12 16")
  do d = 1 + draw(heads); while (heads % d != 0)
  layers = 1 + draw(6)
  position = pick("learned rope rope none")
  keys = key("model.vocab_size", 3 + draw(120)) key("model.hidden_size", 1 + draw(40)) \
         key("model.num_layers", layers) key("model.num_heads", heads) \
         key("model.num_kv_heads", d) \
         key("model.head_dim", position == "rope" ? 2 + 2 * draw(6) : 1 + draw(12)) \
         key("model.intermediate_size", pick("8 16 24 32 40 48 64 96 13")) \
         key("model.position", position) key("model.norm", pick("layernorm rmsnorm")) \
         key("model.norm_bias", truth(50)) key("model.activation", pick("gelu_tanh gelu swiglu")) \
         key("model.bias", truth(50)) key("model.tie_embeddings", truth(50)) \
         key("model.residual", pick("sequential parallel")) key("model.qk_norm", truth(40)) \
         key("model.logit_scale", pick("1.0 1.0 0.25 2.0")) \
         key("model.init_scale_residual", truth(50)) key("model.init_std", pick("0.02 0.1 0.3"))
  if (position == "rope") {
    keys = keys key("model.rope_style", pick("half interleaved"))
    if (chance(30))
      keys = keys key("model.rope_scaling", pick("linear llama3")) \
             key("model.rope_scaling_factor", "4.0") key("model.rope_original_length", 8)
  }
  if (chance(30)) keys = keys key("model.attention_dropout", "0.2")
  if (chance(30)) keys = keys key("model.residual_dropout", "0.1")
  if (chance(30)) keys = keys key("model.embedding_dropout", "0.1")
  return keys
}

function draw_batch() {
  return key("batch.seq_length", chance(50) ? pick("8 16 24 32 48") : 1 + draw(40)) \
         key("batch.micro_batch_size", pick("1 1 1 2 3")) \
         key("batch.global_batch_size", pick("4 6 8 8 8 12 16 16 24"))
}

function draw_numerics(   keys, type) {
  # In double: an ill-conditioned model (a norm over two channels) may blow up any rounding.
  if (mode == "close")
    return key("numerics.reproducible", "false") key("numerics.compute_type", "fp64")
  type = pick("fp32 fp32 fp32 bf16 bf16 fp16 fp64")
  keys = key("numerics.compute_type", type)
  if (type == "bf16" && chance(50)) keys = keys key("numerics.master_type", "bf16")
  if (chance(25)) keys = keys key("numerics.virtual_tensor_parallel", pick("1 2 4 8 16"))
  if (chance(25)) keys = keys key("numerics.logits_mib", pick("0.0001 0.002 0.01"))
  return keys
}

# Any blocks for each stage, with the right sum where there is one.
function draw_stage_blocks(stages,   left, blocks, s, n) {
  left = layers
  for (s = 0; s < stages; ++s) {
    n = s + 1 == stages ? left : 1 + draw(left > stages - s ? left - (stages - s) + 1 : 1)
    left -= n
    blocks = blocks (s ? "," : "") n
  }
  return "[" blocks "]"
}

function draw_grid(   tp, pp, dp, chunks, keys, schedule) {
  do {
    tp = mode == "same" ? pick("1 2 2 4 8") : pick("1 2 3 4")
    pp = pick("1 1 2 2 3 4")
    dp = mode == "same" ? pick("1 2 2 4") : pick("1 2 3 4")
  } while (tp * pp * dp > (chance(5) ? 16 : 8) || tp * pp * dp == 1)
  ranks = tp * pp * dp
  chunks = 1
  keys = key("grid.tensor_parallel", tp) key("grid.pipeline_parallel", pp) \
         key("grid.zero_stage", draw(4)) key("grid.recompute", pick("none none selective full"))
  if (chance(30)) keys = keys key("grid.data_parallel", dp)
  if (chance(30)) keys = keys key("grid.recompute_interval", 1 + draw(3))
  if (tp > 1) keys = keys key("grid.sequence_parallel", truth(50))
  if (dp > 2 && chance(50)) keys = keys key("grid.zero_shards", pick("1 2 3"))
  if (pp > 1) {
    schedule = pick("gpipe 1f1b interleaved interleaved zero_bubble")
    keys = keys key("grid.pipeline_schedule", schedule)
    if (schedule == "interleaved") {
      chunks = 2
      if (chance(20)) keys = keys key("grid.virtual_stages", chunks = 3)
    }
    if (chance(25)) keys = keys key("grid.stage_blocks", draw_stage_blocks(pp * chunks))
    else keys = keys key("grid.stage_balance", pick("cost even"))
  }
  if (chance(25))
    keys = keys key("grid.rank_order", pick("tp,pp,dp,cp dp,tp,cp,pp cp,tp,dp,pp pp,tp,cp,dp"))
  if (chance(30)) keys = keys key("grid.bucket_mib", pick("0.001 0.01 0.1"))
  if (chance(20)) keys = keys key("grid.overlap", "false")
  return keys
}

BEGIN {
  state = (seed * 48271 + 11) % 2147483647
  if (state == 0) state = 1
  for (i = 0; i < 20; ++i) draw(2)
  for (i = 0; i < count; ++i) {
    mode = chance(75) ? "same" : "close"
    arithmetic = draw_model() draw_batch() draw_numerics()
    grid = draw_grid()
    print ranks "|" mode "|" substr(arithmetic, 2) "|" substr(grid, 2)
  }
}
