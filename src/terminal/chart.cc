#include "terminal/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/text.h"

namespace idmint {

namespace {

double largest_of(std::span<const Bar> bars) {
  double largest = 0;
  for (const Bar& bar : bars) largest = std::max(largest, bar.value);
  return largest;
}

// In eighths of a column; at least one unless zero.
std::size_t eighths(double value, double largest, std::size_t columns) {
  if (!(value > 0) || !(largest > 0)) return 0;
  const double all = static_cast<double>(columns * 8);
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::llround(value / largest * all)));
}

// "12.5"
std::string tenth(double value) {
  const long long tenths = std::llround(value * 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string safe;
  for (const char c : escaped(text)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string text_chart(std::span<const Bar> bars, bool blocks) {
  constexpr std::size_t width = 80;
  constexpr std::size_t least = 10;
  std::size_t labels = 0;
  std::size_t texts = 0;
  for (const Bar& bar : bars) {
    labels = std::max(labels, bar.label.size());
    texts = std::max(texts, bar.text.size());
  }
  const std::size_t taken = labels + texts + 4;
  const std::size_t columns = taken + least > width ? least : width - taken;
  constexpr std::array parts = {"",       "\u258f", "\u258e", "\u258d",
                                "\u258c", "\u258b", "\u258a", "\u2589"};
  const double largest = largest_of(bars);
  std::string chart;
  for (const Bar& bar : bars) {
    const std::size_t length = eighths(bar.value, largest, columns);
    const std::size_t whole = blocks ? length / 8 : (length + 7) / 8;
    const std::size_t rest = blocks ? length % 8 : 0;
    chart += bar.label + std::string(labels - bar.label.size() + 2, ' ');
    for (std::size_t i = 0; i < whole; ++i) chart += blocks ? "\u2588" : "#";
    chart += parts[rest];
    chart += std::string(columns - whole - (rest != 0 ? 1 : 0) + 2 + texts - bar.text.size(), ' ');
    chart += bar.text + "\n";
  }
  return chart;
}

std::string svg_chart(std::string_view title, std::string_view note, std::span<const Bar> bars) {
  constexpr double width = 720;
  constexpr double step = 30;
  constexpr double top = 64;
  constexpr double left = 150;
  constexpr double room = 400;  // of the longest bar; the text is to the right of it
  const double height = top + step * static_cast<double>(bars.size()) + 16;
  const double largest = largest_of(bars);
  std::string svg =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"" +
      tenth(width) + "\" height=\"" + tenth(height) + "\" viewBox=\"0 0 " + tenth(width) + " " +
      tenth(height) + "\">\n<title>" + xml_text(title) + "</title>\n<desc>" + xml_text(note) +
      "</desc>\n"
      "<style>\n"
      "  text { font: 14px system-ui, sans-serif; fill: #1f2328 }\n"
      "  .title { font-size: 17px; font-weight: 600 }\n"
      "  .note { font-size: 12px; fill: #59636e }\n"
      "  .label { text-anchor: end }\n"
      "  .ground { fill: #ffffff }\n"
      "  .bar { fill: #0969da }\n"
      "  @media (prefers-color-scheme: dark) {\n"
      "    text { fill: #f0f6fc }\n"
      "    .note { fill: #9198a1 }\n"
      "    .ground { fill: #0d1117 }\n"
      "    .bar { fill: #4493f8 }\n"
      "  }\n"
      "</style>\n"
      "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n"
      "<text class=\"title\" x=\"16.0\" y=\"26.0\">" +
      xml_text(title) + "</text>\n<text class=\"note\" x=\"16.0\" y=\"46.0\">" + xml_text(note) +
      "</text>\n";
  double y = top;
  for (const Bar& bar : bars) {
    const double length =
        bar.value > 0 && largest > 0 ? std::max(1.0, bar.value / largest * room) : 0;
    svg += "<text class=\"label\" x=\"" + tenth(left - 10) + "\" y=\"" + tenth(y + 15) + "\">" +
           xml_text(bar.label) + "</text>\n<rect class=\"bar\" x=\"" + tenth(left) + "\" y=\"" +
           tenth(y) + "\" width=\"" + tenth(length) + "\" height=\"" + tenth(step - 8) +
           "\" rx=\"2\"/>\n<text x=\"" + tenth(left + length + 8) + "\" y=\"" + tenth(y + 15) +
           "\">" + xml_text(bar.text) + "</text>\n";
    y += step;
  }
  return svg + "</svg>\n";
}

}  // namespace idmint
