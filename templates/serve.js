// *Save* sends (screen serve). What is unsaved outlives this tab, by place and never by id.
document.addEventListener("review", ({ detail: review }) => {
  const { reader, key } = document.querySelector("script[data-reader]").dataset;
  const address = location.pathname.replace(/html$/, "json");
  const lineOf = new Map(review.lines.map((line) => [review.verdictOn(line).id, line]));
  const touched = () => review.lines.filter((line) => line.dataset.given);
  const clock = (time) => new Date(time).toTimeString().slice(0, 5);
  const say = (words) => (review.status.textContent = words);
  const state = () => (touched().length ? "not saved, kept here" : "not up to date");
  const failed = ({ message }) => say(`${clock(Date.now())}: ${state()}: ${message}.`);
  const placeOf = (line) => `${key} ${review.lines.indexOf(line)}`;
  const kept = (line) => JSON.parse(localStorage.getItem(placeOf(line)));
  function keep({ target }) {
    const line = target.closest(".list .c");
    if (!line?.dataset.given) return;
    const { id, ...word } = review.verdictOn(line);
    localStorage.setItem(placeOf(line), JSON.stringify(word));
    say(`${touched().length} not saved yet (Ctrl+S saves).`);
  }
  function tick(line, { verdict, note, action }) {
    const details = line.querySelector("details");
    review.choices(line.querySelector(".t"));
    line.querySelector(`.t input[value="${verdict}"]`).checked = true;
    if (details && note) review.note(details).value = note;
    if (details && action) review.action(details).value = action;
  }
  function show(word) {
    const line = lineOf.get(word.id), said = line.appendChild(document.createElement("p"));
    const what = [word.verdict, word.action, word.note].filter(Boolean).join(", ");
    said.className = "note word";
    said.textContent = `${what}: ${word.by}, ${clock(word.given)}, ${word.state}`;
    if (word.by === reader && !line.dataset.given) tick(line, word);
  }
  async function ask(more) {
    const headers = { "X-Letterbox": "1", "Content-Type": "application/json" };
    const answer = await fetch(address, { headers, ...more }).catch(() => new Response());
    const reply = await answer.json().catch(() => ({ error: "the service does not answer" }));
    if (reply.error) throw new Error(reply.error);
    document.querySelectorAll(".word").forEach((old) => old.remove());
    reply.words.filter((word) => lineOf.has(word.id)).forEach(show);
    return reply;
  }
  async function send() {
    const sent = touched().map((line) => ({ ...review.verdictOn(line), line }));
    if (!sent.length) return say("Nothing to save yet: no verdict has been given.");
    const words = sent.map(({ line, given, ...word }) => word);
    const saying = JSON.stringify({ run_id: review.run, words });
    const reply = await ask({ method: "POST", body: saying });
    const settled = sent.filter(({ line, given }) => line.dataset.given === given);
    settled.forEach(({ line }) => delete line.dataset.given);
    settled.forEach(({ line }) => localStorage.removeItem(placeOf(line)));
    review.saved(`${reply.done} by ${reader}, ${clock(Date.now())}.`);
  }
  review.save = () => send().catch(failed);
  review.box.querySelectorAll("label").forEach((label) => (label.hidden = true));
  document.addEventListener("input", keep);
  setInterval(() => ask().catch(failed), 30000);
  ask().catch(failed);
  review.lines.filter(kept).forEach((line) => (tick(line, kept(line)), review.changed(line)));
});
