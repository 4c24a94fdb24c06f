// Brings what has changed into the page, adds buttons that copy commands, and says if nothing comes.
// The page says all of it without this script, too; it then stands still.
"use strict";

(() => {
  const source = document.body.dataset.events;
  const stale = document.getElementById("stale");
  const silentMs = 12_000; // the server sends something every five seconds
  let heardMs = Date.now();
  let shownMs = heardMs; // since then something should come
  let lostMs = 0;
  let isHeld = false;
  let waiting = null; // what came while the page was held
  let events = null;

  // ---- buttons ----

  const tools = document.createElement("div");
  tools.className = "tools";
  const live = document.createElement("span");
  live.className = "live";
  const hold = document.createElement("button");
  hold.type = "button";
  tools.append(live, hold);
  document.querySelector(".top").append(tools);
  hold.addEventListener("click", () => {
    isHeld = !isHeld;
    if (!isHeld && waiting) take(waiting);
    tell();
  });

  function tell() {
    hold.textContent = isHeld ? "Go on" : "Hold still";
    hold.setAttribute("aria-pressed", String(isHeld));
    live.className = lostMs ? "live lost" : isHeld ? "live held" : "live";
    live.textContent = lostMs ? "cut off" : isHeld ? "held" : "live";
  }

  function addCopyButtons(root) {
    if (!navigator.clipboard) return; // only where the page comes by https, or from this machine
    for (const code of root.querySelectorAll(".commands .paste:not(.copyable)")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", `Copy: ${code.textContent}`);
      code.classList.add("copyable");
      code.append(button);
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    const line = button.parentElement.firstChild.textContent;
    try {
      await navigator.clipboard.writeText(line);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.parentElement);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1_500);
  });

  // ---- what has changed ----

  // Changes `old` into `fresh` in place: so focus, scroll positions and selections stay.
  function morph(old, fresh) {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    morphChildren(old, fresh);
  }

  function keyOf(node) {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    return node.id || (node.nodeName === "TR" && (node.dataset.member || node.dataset.group)) || "";
  }

  function morphChildren(old, fresh) {
    const keyed = new Map();
    for (const child of old.children) {
      if (keyOf(child)) keyed.set(keyOf(child), child);
    }
    let at = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      const key = keyOf(wanted);
      let found = key ? keyed.get(key) : at;
      if (found && !key && keyOf(found)) found = null;
      if (found && (found.nodeType !== wanted.nodeType || found.nodeName !== wanted.nodeName)) found = null;
      if (!found) {
        old.insertBefore(wanted, at);
        continue;
      }
      if (found === at) at = at.nextSibling;
      else old.insertBefore(found, at);
      if (key) keyed.delete(key);
      if (found.nodeType === Node.ELEMENT_NODE) morph(found, wanted);
      else if (found.data !== wanted.data) found.data = wanted.data;
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function take(news) {
    waiting = null;
    document.title = news.title;
    document.body.dataset.version = news.version;
    for (const [id, html] of Object.entries(news.parts)) {
      if (id === "stale") {
        showStale(html);
        continue;
      }
      const section = document.getElementById(id);
      if (!section) continue;
      const template = document.createElement("template");
      template.innerHTML = html;
      addCopyButtons(template.content);
      morphChildren(section, template.content);
    }
  }

  let toldStale = stale.textContent;

  function showStale(text) {
    toldStale = text;
    const shown = lostMs ? `${cutOff()} ${text}` : text;
    if (stale.textContent !== shown) stale.textContent = shown;
    stale.hidden = !shown;
  }

  function cutOff() {
    const at = new Date(lostMs).toLocaleTimeString();
    return `Cut off: nothing has come from the server of this page since ${at}. What you see is as old as that.`;
  }

  // ---- the connection ----

  // A browser opens no more than six connections to a host, and each stream keeps one. So a tab that
  // nobody sees has none: else the seventh tab would hang.
  function connect() {
    if (events) events.close();
    if (document.hidden) return;
    const stream = new EventSource(source); // its first event brings the whole page
    events = stream;
    stream.addEventListener("message", (event) => {
      heardMs = Date.now();
      lostMs = 0;
      const news = JSON.parse(event.data);
      if (isHeld) {
        waiting = waiting ? { ...news, parts: { ...waiting.parts, ...news.parts } } : news;
        showStale(toldStale);
      } else {
        take(news);
      }
      tell();
    });
    stream.addEventListener("error", () => {
      // A browser gives up where the answer is no stream: a proxy's error page, say.
      if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 3_000);
    });
  }

  setInterval(() => {
    if (document.hidden || Date.now() - Math.max(heardMs, shownMs) < silentMs) return;
    lostMs = lostMs || heardMs;
    showStale(toldStale);
    tell();
  }, 1_000);

  addCopyButtons(document);
  tell();
  if (source) {
    connect();
    document.addEventListener("visibilitychange", () => {
      shownMs = Date.now();
      connect();
    });
  }
})();
