// Where screen serve shows a page, *Save* sends words instead of making a download.
document.addEventListener("review", ({ detail: review }) => {
  const { reader, key } = document.querySelector("script[data-reader]").dataset;
  const address = location.pathname.replace(/html$/, "json");
  const lineOf = new Map(review.lines.map((line) => [review.verdictOn(line).id, line]));
  const touched = () => review.lines.filter((line) => line.dataset.given);
  const clock = (time) => new Date(time).toTimeString().slice(0, 5);
  const say = (words) => ((review.box.hidden = false), (review.told.textContent = words));
  const state = () => (touched().length ? "not saved, kept here" : "not up to date");
  const failed = ({ message }) => say(`${clock(Date.now())}: ${state()}: ${message}.`);
  // What is not saved outlives this tab, by the places of lines and never by ids.
  function keep() {
    const unnamed = (line, place) => ({ ...review.verdictOn(line), id: undefined, place });
    const kept = review.lines.map(unnamed).filter((word) => word.given);
    localStorage.setItem(key, JSON.stringify(kept));
    if (kept.length) say(`${kept.length} not saved yet (Ctrl+S saves).`);
  }
  function tick(line, { verdict, note, action }) {
    const details = line.querySelector("details");
    review.choices(line.querySelector(".t"));
    line.querySelector(`.t input[value="${verdict}"]`).checked = true;
    if (details && note) review.note(details).value = note;
    if (details && action) review.action(details).value = action;
  }
  function show(word) {
    const line = lineOf.get(word.id), said = document.createElement("p");
    said.className = "note word";
    said.textContent = `${word.verdict}: ${word.by}, ${clock(word.given)}, ${word.state}`;
    line.append(said);
    if (word.by === reader && !line.dataset.given) tick(line, word);
  }
  async function ask(more) {
    const headers = { "X-Letterbox": "1", "Content-Type": "application/json" };
    const answer = await fetch(address, { headers, ...more }).catch(() => new Response());
    const told = await answer.json().catch(() => ({ error: "the service does not answer" }));
    if (told.error) throw new Error(told.error);
    document.querySelectorAll(".word").forEach((old) => old.remove());
    told.words.filter((word) => lineOf.has(word.id)).forEach(show);
    return told;
  }
  async function send() {
    const sent = touched().map((line) => ({ ...review.verdictOn(line), line }));
    if (!sent.length) return say("Nothing to save yet: no verdict has been given.");
    const words = sent.map(({ line, given, ...word }) => word);
    const saying = JSON.stringify({ run_id: review.run, words });
    const told = await ask({ method: "POST", body: saying });
    const isSettled = ({ line, given }) => line.dataset.given === given;
    sent.filter(isSettled).forEach(({ line }) => delete line.dataset.given);
    if (!touched().length) review.saved("");
    keep();
    say(`${told.done} by ${reader}, ${clock(Date.now())}.`);
  }
  review.save = () => send().catch(failed);
  review.box.querySelectorAll("label").forEach((label) => (label.hidden = true));
  const kept = JSON.parse(localStorage.getItem(key) || "[]");
  kept.forEach((word) => tick(review.lines[word.place], word));
  kept.forEach((word) => review.changed(review.lines[word.place]));
  document.addEventListener("change", keep);
  setInterval(() => ask().catch(failed), 30000);
  ask().catch(failed);
});
