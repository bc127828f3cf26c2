(function () {
  "use strict";
  function numbers(text) {
    return text ? text.split(" ").map(Number) : [];
  }
  // A figure over another of other rows, with its 95% interval, as
  // `metrics.intervals.independent_ratio` has it: without a limit above if the other's
  // interval begins at 0.
  function ratioOf(figure, other) {
    if (figure.length < 3 || other.length < 3 || other[0] === 0) return [];
    var product = figure[0] * other[0];
    function term(of, limit) {
      return limit * (2 * of[0] - limit);
    }
    function root(one, another) {
      return Math.sqrt(Math.max(product * product - one * another, 0));
    }
    var low = term(figure, figure[1]),
      high = term(figure, figure[2]),
      otherLow = term(other, other[1]),
      otherHigh = term(other, other[2]);
    var ratio = [
      figure[0] / other[0],
      product > 0 ? low / (product + root(low, otherHigh)) : 0,
    ];
    if (otherLow > 0) ratio.push((product + root(high, otherLow)) / otherLow);
    return ratio;
  }
  function written(ratio) {
    var interval =
      ratio.length === 3
        ? ratio[1].toFixed(2) + "–" + ratio[2].toFixed(2)
        : "at least " + ratio[1].toFixed(2);
    return "ratio " + ratio[0].toFixed(2) + "\n" + interval;
  }
  function levelsIn(table) {
    return Array.from(table.querySelectorAll("th[scope=row]"));
  }

  document.querySelectorAll(".by-column").forEach(function (part) {
    var form = part.querySelector("form");
    if (!form) return;
    var column = form.elements.column,
      reference = form.elements.reference,
      status = form.querySelector("[role=status]"),
      named = Array.from(part.querySelectorAll("[data-columns]")),
      shipped = reference.innerHTML;

    function isShown(of) {
      return (
        column.value === "" || of.dataset.columns.split(" ").includes(column.value)
      );
    }
    // Levels may be the reference where one column is shown.
    function offerLevels() {
      reference.innerHTML = shipped;
      if (column.value === "") return;
      levelsIn(named[column.value]).forEach(function (level, i) {
        reference.add(new Option(level.textContent.trim(), i));
      });
    }
    function showRatios() {
      part.querySelectorAll(".ratio").forEach(function (line) {
        line.remove();
      });
      var level = null,
        others = [];
      if (!["", "rest"].includes(reference.value)) {
        level = levelsIn(named[column.value])[reference.value];
        others = level.parentElement.querySelectorAll("[data-seen]");
      }
      levelsIn(part).forEach(function (other) {
        if (other === level) return;
        var cells = other.parentElement.querySelectorAll("[data-seen]");
        cells.forEach(function (cell, i) {
          var ratio = [];
          if (reference.value === "rest") ratio = numbers(cell.dataset.ratio);
          else if (level)
            ratio = ratioOf(
              numbers(cell.dataset.seen),
              numbers(others[i].dataset.seen),
            );
          if (!ratio.length) return;
          var line = document.createElement("span");
          line.className = "soft ratio";
          line.textContent = written(ratio);
          cell.append(line);
        });
      });
      status.textContent = level
        ? "Ratios to " + level.textContent.trim() + "."
        : "";
    }
    column.addEventListener("change", function () {
      named.forEach(function (of) {
        of.hidden = !isShown(of);
      });
      offerLevels();
      showRatios();
    });
    reference.addEventListener("change", showRatios);
    form.hidden = false;
  });
})();
