(function () {
  "use strict";
  var form = document.querySelector(".filters"),
    list = document.getElementById("list");
  if (!form) return;
  function chosen(id) {
    var select = document.getElementById(id);
    return select ? select.value : "";
  }
  var lines = Array.from(list.querySelectorAll(".c:not([data-flagged])")).map(
    function (line) {
      return {
        line: line,
        home: line.parentNode,
        id: line.querySelector(".id bdi").textContent,
        at: line.dataset.at || "",
        state: line.dataset.state || "",
        nights: Number(line.dataset.nights || 1),
      };
    },
  );
  var homes = Array.from(
    new Set(
      lines.map(function (one) {
        return one.home;
      }),
    ),
  );
  var orders = {
    place: function (a, b) {
      return a.at.localeCompare(b.at, undefined, { numeric: true });
    },
    nights: function (a, b) {
      return b.nights - a.nights;
    },
    id: function (a, b) {
      return a.id.localeCompare(b.id, undefined, { numeric: true });
    },
  };
  function passes(one, at, state, verdict) {
    if ((at && one.at !== at) || (state && one.state !== state)) return false;
    if (!verdict) return true;
    var ticked = one.line.querySelector(".t input:checked");
    return (ticked && ticked.value ? ticked.value : "none") === verdict;
  }
  function show() {
    var at = chosen("by-place"),
      state = chosen("by-state"),
      verdict = chosen("by-verdict"),
      order = orders[chosen("in-order")];
    var count = 0,
      together = Boolean(order),
      narrowed = Boolean(at || state || verdict);
    lines.forEach(function (one) {
      one.line.hidden = !passes(one, at, state, verdict);
      if (!one.line.hidden) count += 1;
    });
    // In another order there is no place where the reviews end, so the stretches become
    // one.
    homes.forEach(function (home) {
      home.replaceChildren();
    });
    (order ? lines.slice().sort(order) : lines).forEach(function (one) {
      (together ? homes[0] : one.home).append(one.line);
    });
    list.classList.toggle("together", together);
    if (narrowed)
      list.querySelectorAll(".part.more").forEach(function (part) {
        part.open = true;
      });
    document.getElementById("shown").textContent = narrowed
      ? count.toLocaleString("en") +
        " of " +
        lines.length.toLocaleString("en") +
        " shown"
      : "";
  }
  form.hidden = false;
  form.addEventListener("change", show);
  // A page that is opened again may come with the choices of before.
  window.addEventListener("pageshow", function () {
    form.reset();
    show();
  });
  // On paper every line is there, folded or not; afterwards the page is as it was.
  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.from(
      list.querySelectorAll(".part:is(.more, .judged):not([open])"),
    );
    folded.forEach(function (part) {
      part.open = true;
    });
  });
  window.addEventListener("afterprint", function () {
    folded.forEach(function (part) {
      part.open = false;
    });
  });
})();
