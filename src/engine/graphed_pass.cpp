// SPDX-License-Identifier: Apache-2.0
#include "engine/graphed_pass.hpp"

#include "tensor/profile.hpp"

namespace espalier {

template <class T>
void GraphedPass<T>::passes(double gradient_scale) {
  stage_.forward_pass(0, 0, nullptr);
  stage_.backward_pass(0, 0, nullptr, nullptr, gradient_scale, BackwardPart::together);
}

template <class T>
void GraphedPass<T>::run(double gradient_scale) {
  Recording& r = stage_.begins_sum(0) ? first_ : later_;
  if (!r.is_warm) {
    r.is_warm = true;
    return passes(gradient_scale);
  }
  if (r.graph.is_empty() || r.scale != gradient_scale) {
    r.scale = gradient_scale;
    r.graph.record([&] { passes(gradient_scale); });  // tells the blocks as well
  } else {
    stage_.tell_gradients_done(0);
  }
  r.graph.launch();
  Profile::instance().separate();  // its time belongs to no part
}

template class GraphedPass<float>;
template class GraphedPass<double>;
template class GraphedPass<bf16>;
template class GraphedPass<fp16>;

}  // namespace espalier
