(function () {
  "use strict";
  var state = document.getElementById("state"), left = document.getElementById("left"), bar = document.getElementById("bar");
  var connected = document.getElementById("connected"), away = document.getElementById("away"), form = document.querySelector("form");
  if (!state || !window.fetch) return;
  var waiting = state.textContent, until, timer, asking = false, sent = false, warned = false;

  function say(text) { if (state.textContent !== text) state.textContent = text; }
  function remain(seconds) { until = Date.now() + seconds * 1000; }
  function two(n) { return (n < 10 ? "0" : "") + n; }

  function tick() {
    var seconds = Math.max(0, Math.ceil((until - Date.now()) / 1000));
    left.textContent = Math.floor(seconds / 60) + ":" + two(seconds % 60) + " left";
    bar.value = seconds;
    if (seconds > 60) warned = false;
    else if (seconds > 0 && !warned) { warned = true; say("Less than a minute is left to decide."); }
    if (seconds === 0) look();
  }

  function look() {
    if (asking) return;
    asking = true;
    clearTimeout(timer);
    fetch(state.dataset.status, { cache: "no-store", credentials: "omit", redirect: "error" })
      .then(function (r) { if (!r.ok) throw 0; return r.json(); })
      .then(function (s) {
        if (s.redirect) { leave(s.redirect); return; }
        if (s.status !== "pending") { leave(state.dataset.wait); return; }
        if (typeof s.seconds === "number") remain(s.seconds);
        if (typeof s.online === "boolean") { connected.hidden = !s.online; away.hidden = s.online; }
        if (!warned) say(waiting);
        again(2000);
      })
      .catch(function () { say("The relay cannot be reached. Trying again."); warned = false; again(4000); });
  }
  function again(after) { asking = false; timer = setTimeout(look, after); }
  function leave(to) { clearInterval(clock); say("Going on."); location.replace(to); }

  // The address of a page that a form's answer shows would send the form again.
  if (history.replaceState) history.replaceState(null, "", state.dataset.wait);
  if (form) form.addEventListener("submit", function (e) { if (sent) e.preventDefault(); sent = true; });
  addEventListener("pageshow", function (e) { sent = false; if (e.persisted) look(); });
  document.addEventListener("visibilitychange", function () { if (!document.hidden) look(); });
  remain(Number(state.dataset.seconds));
  var clock = setInterval(tick, 1000);
  tick();
  timer = setTimeout(look, 2000);
})();
