(function () {
  "use strict";
  var notice = document.getElementById("exploring"),
    words = document.getElementById("exploring-words");
  var panels = [];

  function percent(share) {
    if (share === null) return "–";
    var value = 100 * share;
    if (value >= 99.995 && value < 100) return ">99.99%";
    if (value > 0 && value < 0.095)
      return value < 0.01 ? "<0.01%" : value.toFixed(2) + "%";
    return (
      value.toFixed(
        share === 0 || share === 1 || (value >= 10 && value < 99.5)
          ? 0
          : value < 99.95
            ? 1
            : 2,
      ) + "%"
    );
  }
  function fixed(value, places) {
    return value.toFixed(places).replace("-", "−");
  }
  function nearest(thresholds, wanted) {
    var best = 0;
    thresholds.forEach(function (t, i) {
      if (Math.abs(t - wanted) < Math.abs(thresholds[best] - wanted)) best = i;
    });
    return best;
  }

  function show(panel, step, exploring) {
    var d = panel.figures,
      threshold = d.threshold[step];
    var flagged = d.flagged
      ? d.flagged[step].toLocaleString("en")
      : d.flag_rate[step] === null
        ? "–"
        : (100 * d.flag_rate[step]).toFixed(1);
    var figure = {
      threshold: threshold < d.low ? "none" : fixed(threshold, d.places),
      sensitivity: percent(d.sensitivity[step]),
      specificity: percent(d.specificity[step]),
      flagged: flagged,
    };
    panel.shown.forEach(function (place) {
      place.textContent = figure[place.dataset.show];
    });
    var said =
      "threshold " +
      figure.threshold +
      ", sensitivity " +
      figure.sensitivity +
      ", specificity " +
      figure.specificity +
      ", " +
      flagged +
      (d.flagged ? " flagged" : " flags per 100 rows");
    panel.slider.setAttribute(
      "aria-valuetext",
      exploring ? said + ", not the validated threshold" : d.spoken,
    );
    var box = panel.box,
      at = box.left + ((box.right - box.left) * (threshold - d.low)) / (d.high - d.low);
    panel.line.setAttribute("d", "M" + at + " " + box.upper + "V" + box.lower);
    panel.line.setAttribute("visibility", exploring ? "visible" : "hidden");
    panel.rows.forEach(function (one) {
      var now = exploring ? one.score >= threshold : one.was;
      if (now === one.now) return;
      one.now = now;
      one.row.classList.toggle("in", !one.was && now);
      one.row.classList.toggle("out", one.was && !now);
    });
    panel.exploring = exploring;
    var away = panels.filter(function (p) {
      return p.exploring;
    });
    notice.hidden = away.length === 0;
    document.body.classList.toggle("exploring", away.length > 0);
    if (exploring) {
      var named = panel.rows.filter(function (one) {
        return one.score >= threshold;
      }).length;
      var more = d.flagged ? d.flagged[step] - named : 0;
      words.textContent =
        "At " +
        said +
        "." +
        (more > 0
          ? " " +
            more.toLocaleString("en") +
            " of them are counted but not named on this page."
          : "");
    }
  }
  function reset() {
    panels.forEach(function (panel) {
      panel.slider.value = panel.figures.start;
      show(panel, panel.figures.validated, false);
    });
  }

  // What is so for most rows is not written in them: the first panel, and being
  // flagged.
  var rows = Array.from(document.querySelectorAll("[data-score]"))
    .filter(function (row) {
      return row.dataset.score !== "";
    })
    .map(function (row) {
      var was = row.dataset.flagged !== "0";
      return {
        row: row,
        score: Number(row.dataset.score),
        panel: row.dataset.panel || "0",
        was: was,
        now: was,
      };
    });
  document.querySelectorAll(".panel").forEach(function (element) {
    var figures = JSON.parse(element.querySelector("script").textContent);
    var panel = {
      figures: figures,
      line: element.querySelector(".wide .explore"),
      exploring: false,
      box: {
        left: figures.box[0],
        right: figures.box[1],
        upper: figures.box[2],
        lower: figures.box[3],
      },
      slider: element.querySelector("input[type=range]"),
      shown: Array.from(element.querySelectorAll("[data-show]")),
      rows: rows.filter(function (one) {
        return one.panel === element.dataset.number;
      }),
    };
    panels.push(panel);
    panel.slider.addEventListener("input", function () {
      if (Number(panel.slider.value) === figures.start) {
        show(panel, figures.validated, false);
        return;
      }
      var wanted =
        figures.low + ((figures.high - figures.low) * panel.slider.value) / 1000;
      var step = nearest(figures.threshold, wanted);
      show(panel, step, step !== figures.validated);
    });
    element.querySelector(".controls").hidden = false;
  });
  reset();
  document.getElementById("back").addEventListener("click", function () {
    reset();
  });
  window.addEventListener("beforeprint", reset);
  window.addEventListener("pageshow", reset);
})();
