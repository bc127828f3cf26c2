(function () {
  "use strict";
  var form = document.querySelector(".review"), box = document.getElementById("review-save");
  if (!form) return;

  function written(field) { return field.value.trim(); }
  function verdicts() {
    return Array.from(form.querySelectorAll("tr[data-id]")).map(function (row) {
      var one = { id: row.dataset.id, verdict: row.querySelector("input:checked").value }, note = written(row.querySelector("input[type=text]"));
      if (note) one.note = note;
      return one;
    }).filter(function (one) { return one.verdict !== ""; });
  }

  box.hidden = false;
  box.querySelector("button").addEventListener("click", function () {
    var given = verdicts(), site = document.getElementById("review-site"), initials = document.getElementById("review-initials");
    var text = JSON.stringify({ format: 1, run_id: form.dataset.run, site: written(site), initials: written(initials), verdicts: given }, null, 1);
    // A file made by the page itself: nothing is sent anywhere, and the page's policy would not let it.
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "application/json" }));
    link.download = form.dataset.file;
    link.click();
    box.querySelector("span").textContent = given.length + (given.length === 1 ? " verdict" : " verdicts") + " saved as " + form.dataset.file + ".";
  });
}());
