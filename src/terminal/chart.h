// Bar charts for a terminal and as SVG.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace idmint {

struct Bar {
  std::string label;
  double value = 0;  // 0 or more
  std::string text;  // the value as printed
};

// One line for each bar: the label, the bar and the text. At most 80 columns if labels and texts
// leave room. The longest bar is the largest value. With `blocks` it consists of Unicode block
// elements in eighths of a column, otherwise of #.
[[nodiscard]] std::string text_chart(std::span<const Bar> bars, bool blocks);

// The text escaped for an element, or an attribute in double quotes, of XML or HTML; also
// escaped().
[[nodiscard]] std::string xml_text(std::string_view text);

// A complete document, readable on a light and on a dark background (prefers-color-scheme).
[[nodiscard]] std::string svg_chart(std::string_view title, std::string_view note,
                                    std::span<const Bar> bars);

}  // namespace idmint
