// SPDX-License-Identifier: Apache-2.0
#include "engine/graphed_pass.hpp"

namespace espalier {

template <class T>
void GraphedPass<T>::passes(double gradient_scale) {
  stage_.forward_pass(0, 0, nullptr);
  stage_.backward_pass(0, 0, nullptr, nullptr, gradient_scale, BackwardPart::together);
}

template <class T>
void GraphedPass<T>::run(double gradient_scale) {
  if (!is_warm_) {
    is_warm_ = true;
    return passes(gradient_scale);
  }
  if (graph_.is_empty() || scale_ != gradient_scale) {
    scale_ = gradient_scale;
    graph_.record([&] { passes(gradient_scale); });  // tells the blocks as well
  } else {
    stage_.tell_gradients_done(0);
  }
  graph_.launch();
}

template class GraphedPass<float>;
template class GraphedPass<double>;
template class GraphedPass<bf16>;
template class GraphedPass<fp16>;

}  // namespace espalier
