// Bars: for a terminal, and as SVG.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace idmint {

struct Bar {
  std::string label;
  double value = 0;  // 0 or more
  std::string text;  // the value as it is to be read
};

// One line for each, at most 80 columns as long as labels and texts leave room for a bar: the
// label, a bar as long as the value is large, the text. The longest bar is the largest value. With
// `blocks`, of Unicode block elements in eighths of a column; without, of #.
[[nodiscard]] std::string text_chart(std::span<const Bar> bars, bool blocks);

// Text of an element, or of an attribute in double quotes, of XML or HTML; escaped() too.
[[nodiscard]] std::string xml_text(std::string_view text);

// A document of its own, readable on light and on dark ground (prefers-color-scheme).
[[nodiscard]] std::string svg_chart(std::string_view title, std::string_view note,
                                    std::span<const Bar> bars);

}  // namespace idmint
