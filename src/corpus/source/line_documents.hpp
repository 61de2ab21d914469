// SPDX-License-Identifier: Apache-2.0
// A part read line by line: what plain lines and JSON Lines share.
#pragma once

#include "corpus/source/line_scanner.hpp"
#include "corpus/source/part_input.hpp"

namespace espalier {

/// The lines that start in a part of a file. A subclass makes documents of them.
class LineDocuments : public PartReader {
 public:
  /// Longer lines than `longest_line` bytes are faults.
  LineDocuments(const PartRequest& request, int64_t longest_line);
  bool next(Document& out) override;
  int64_t disk_position() const override { return input_.disk_position(); }

 protected:
  /// Makes a document of line `number`; false if it is none.
  virtual bool read_line(const Line& line, int64_t number, Document& out) = 0;
  const PartRequest& request() const { return request_; }

 private:
  void finish();

  PartRequest request_;
  int64_t longest_line_;
  int64_t end_;
  PartInput input_;
  LineScanner lines_;
};

}  // namespace espalier
