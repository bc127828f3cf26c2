(function () {
  "use strict";
  var list = document.querySelector("[data-run]"),
    box = document.getElementById("review-save");
  if (!list || !box) return;
  box.hidden = false;
  var words = JSON.parse(list.dataset.words).concat([["", "no verdict"]]),
    actions = JSON.parse(list.dataset.actions),
    made = 0;
  var lines = Array.from(document.querySelectorAll(".list .c")).filter(function (line) {
    return line.querySelector(".t");
  });

  // An id is written in full beside the line only where the reader is shown something
  // else.
  function named(line) {
    return line.dataset.id === undefined
      ? line.querySelector(".id bdi").textContent
      : line.dataset.id;
  }
  // Of thousands of lines few are ever judged: a line gets its choices when it comes
  // into sight, or the keyboard to it.
  function choices(place) {
    if (place.firstChild) return;
    var name = "v" + (made += 1),
      id = place.parentNode.querySelector(".id bdi").textContent;
    words.forEach(function (pair) {
      var input = document.createElement("input");
      input.type = "radio";
      input.name = name;
      input.value = pair[0];
      input.title = pair[1];
      input.setAttribute("aria-label", pair[1] + ": " + id);
      place.append(input);
    });
    place.removeAttribute("tabindex");
    place.setAttribute("role", "radiogroup");
    place.setAttribute("aria-label", "Verdict on " + id);
  }
  function note(details) {
    var made = details.querySelector(".said");
    if (made) return made;
    var input = document.createElement("input");
    input.className = "said";
    input.maxLength = 2000;
    input.placeholder = "Note";
    input.setAttribute(
      "aria-label",
      "Note on " + details.parentNode.querySelector(".id bdi").textContent,
    );
    details.append(input);
    return input;
  }
  // What was done, if the contract names what may be: its `actions`.
  function action(details) {
    var made = details.querySelector(".did");
    if (made || !actions.length) return made;
    var select = document.createElement("select");
    select.className = "did";
    select.setAttribute(
      "aria-label",
      "What was done for " + details.parentNode.querySelector(".id bdi").textContent,
    );
    select.append(new Option("What was done?", ""));
    actions.forEach(function (word) {
      select.append(new Option(word));
    });
    details.append(select);
    return select;
  }
  var seen = new IntersectionObserver(
    function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) {
          choices(entry.target);
          seen.unobserve(entry.target);
        }
      });
    },
    { rootMargin: "900px" },
  );
  lines.forEach(function (line) {
    var place = line.querySelector(".t");
    place.tabIndex = 0;
    seen.observe(place);
  });
  document.addEventListener("focusin", function (event) {
    if (event.target.matches(".t[tabindex]")) {
      choices(event.target);
      event.target.firstChild.focus();
    }
  });
  list.addEventListener(
    "toggle",
    function (event) {
      if (!event.target.parentNode.matches(".c")) return;
      note(event.target);
      action(event.target);
    },
    true,
  );

  function verdictOn(line) {
    var ticked = line.querySelector(".t input:checked"),
      said = line.querySelector(".said"),
      did = line.querySelector(".did");
    var one = { id: named(line), verdict: ticked ? ticked.value : "" };
    if (line.dataset.given) one.given = line.dataset.given;
    if (said && said.value.trim()) one.note = said.value.trim();
    if (did && did.value) one.action = did.value;
    return one;
  }
  function verdicts() {
    return lines.map(verdictOn).filter(function (one) {
      return one.verdict !== "";
    });
  }

  // What is ticked lives in this page alone, so leaving it unsaved is worth a question.
  var unsaved = false,
    status = box.querySelector("[role=status]");
  function changed(line) {
    // Of two words of one reviewer the one given later counts, whichever file is read
    // first.
    line.dataset.given = new Date().toISOString();
    var given = document.querySelectorAll(
      '.list .c .t input:checked:not([value=""])',
    ).length;
    unsaved = given > 0;
    document.body.classList.add("judging");
    status.textContent =
      given +
      (given === 1 ? " verdict" : " verdicts") +
      " not saved yet (Ctrl+S saves).";
  }
  // A note counts while it is typed.
  document.addEventListener("input", function (event) {
    if (event.target.closest(".t, .said, .did")) changed(event.target.closest(".c"));
  });
  window.addEventListener("beforeunload", function (event) {
    if (unsaved) event.preventDefault();
  });

  function save() {
    var given = verdicts();
    if (given.length === 0) {
      status.textContent = "Nothing to save yet: no verdict has been given.";
      return;
    }
    // Who gave a verdict must be known, or two who differ would count as one who
    // changed their mind.
    var empty = Array.from(box.querySelectorAll("[required]")).find(function (input) {
      return !input.value.trim();
    });
    if (empty) {
      status.textContent =
        "Not saved yet: fill in who reviewed (" +
        empty.parentNode.textContent.trim().toLowerCase() +
        ").";
      empty.focus();
      return;
    }
    var text = JSON.stringify(
      {
        format: 1,
        run_id: list.dataset.run,
        site: document.getElementById("review-site").value.trim(),
        initials: document.getElementById("review-initials").value.trim(),
        verdicts: given,
      },
      null,
      1,
    );
    // A file made by the page itself: nothing is sent anywhere, and the page's policy
    // would not let it.
    var link = document.createElement("a");
    link.href = URL.createObjectURL(
      new Blob([text + "\n"], { type: "application/json" }),
    );
    link.download = list.dataset.file;
    link.click();
    saved(
      given.length +
        (given.length === 1 ? " verdict" : " verdicts") +
        " saved as " +
        list.dataset.file +
        "; screen review reads it.",
    );
  }
  function saved(words) {
    unsaved = false;
    status.textContent = words;
  }
  // Where a service takes verdicts (screen serve), its script gives *Save* another
  // target.
  var review = {
    action: action,
    box: box,
    changed: changed,
    choices: choices,
    lines: lines,
    note: note,
    run: list.dataset.run,
    save: save,
    saved: saved,
    status: status,
    verdictOn: verdictOn,
  };
  document.dispatchEvent(new CustomEvent("review", { detail: review }));
  box.querySelector("button").addEventListener("click", function () {
    review.save();
  });
  document.addEventListener("keydown", function (event) {
    if ((event.ctrlKey || event.metaKey) && event.key === "s" && !event.altKey) {
      event.preventDefault();
      review.save();
    }
  });
})();
