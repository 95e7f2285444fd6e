(function () {
  "use strict";
  var link = document.getElementById("link"), command = document.getElementById("command");
  var copy = document.getElementById("copy"), copied = document.getElementById("copied");
  function show() {
    var good = /^#[A-Z0-9]{4}-[A-Z0-9]{4}$/i.test(location.hash);
    link.hidden = !good;
    command.textContent = good ? "herald pair " + location.origin + "/pair" + location.hash : "";
    copied.textContent = "";
  }
  copy.addEventListener("click", function () {
    var done = function () { copied.textContent = "Copied. Paste it into a terminal."; };
    var failed = function () {
      getSelection().selectAllChildren(command);
      copied.textContent = "The browser does not let us copy. The command is selected: copy it by hand.";
    };
    if (navigator.clipboard) navigator.clipboard.writeText(command.textContent).then(done, failed);
    else failed();
  });
  addEventListener("hashchange", show);
  show();
})();
