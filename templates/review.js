(function () {
  "use strict";
  var form = document.querySelector(".review"), box = document.getElementById("review-save"), further = document.querySelector(".further.verdicts");
  if (!form) return;

  function written(field) { return field.value.trim(); }
  // An id is written in full beside the row only where the reader is shown something else.
  function named(row) { return row.dataset.id === undefined ? row.querySelector("bdi").textContent : row.dataset.id; }
  function verdicts() {
    var ticked = Array.from(form.querySelectorAll("tbody tr")).map(function (row) {
      var one = { id: named(row), verdict: row.querySelector("input:checked").value }, note = written(row.lastElementChild.querySelector("input"));
      if (note) one.note = note;
      return one;
    });
    var chosen = Array.from(document.querySelectorAll(".further select")).map(function (select) {
      return { id: named(select.closest("tr")), verdict: select.value };
    });
    return ticked.concat(chosen).filter(function (one) { return one.verdict !== ""; });
  }
  // Of thousands of rows few are ever judged: a row gets its choice when somebody comes to it.
  function choice(cell) {
    var select = document.createElement("select");
    [["", "no verdict"]].concat(JSON.parse(form.dataset.words)).forEach(function (pair) { select.add(new Option(pair[1], pair[0])); });
    select.setAttribute("aria-label", "Verdict on " + cell.parentNode.querySelector("bdi").textContent);
    cell.removeAttribute("tabindex");
    cell.replaceChildren(select);
    select.focus();
  }
  if (further) {
    further.querySelectorAll("td:last-child").forEach(function (cell) { cell.tabIndex = 0; });
    ["focusin", "click"].forEach(function (event) {
      further.addEventListener(event, function (at) { if (at.target.tabIndex === 0 && at.target.matches("td:last-child")) choice(at.target); });
    });
  }

  // What is ticked lives in this page alone, so leaving it unsaved is worth a question.
  var unsaved = false;
  document.addEventListener("change", function (at) { if (at.target.closest(".review form, .further.verdicts")) unsaved = true; });
  window.addEventListener("beforeunload", function (event) { if (unsaved && verdicts().length) event.preventDefault(); });

  box.hidden = false;
  box.querySelector("button").addEventListener("click", function () {
    var given = verdicts(), site = document.getElementById("review-site"), initials = document.getElementById("review-initials");
    var said = box.querySelector("span");
    if (given.length === 0) { said.textContent = "Nothing to save yet: no verdict has been given."; return; }
    var text = JSON.stringify({ format: 1, run_id: form.dataset.run, site: written(site), initials: written(initials), verdicts: given }, null, 1);
    // A file made by the page itself: nothing is sent anywhere, and the page's policy would not let it.
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "application/json" }));
    link.download = form.dataset.file;
    link.click();
    unsaved = false;
    said.textContent = given.length + (given.length === 1 ? " verdict" : " verdicts") + " saved as " + form.dataset.file + ".";
  });
}());
