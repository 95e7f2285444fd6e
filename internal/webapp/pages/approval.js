(function () {
  "use strict";
  var state = document.getElementById("state");
  if (!state) return;
  var until = Date.now() + Number(state.dataset.seconds) * 1000;
  if (history.replaceState) history.replaceState(null, "", state.dataset.wait);
  function look() {
    fetch(state.dataset.status, { cache: "no-store", credentials: "omit", redirect: "error" })
      .then(function (r) { return r.json(); })
      .then(function (s) {
        if (s.redirect) { location.replace(s.redirect); return; }
        if (s.status !== "pending") { location.replace(state.dataset.wait); return; }
        setTimeout(look, 2000);
      })
      .catch(function () { setTimeout(look, Date.now() > until ? 10000 : 4000); });
  }
  setTimeout(look, 2000);
})();
