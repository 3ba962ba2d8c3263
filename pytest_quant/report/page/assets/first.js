"use strict";
// Before anything is shown: a script runs, and the reader may have chosen a theme.
(function () {
  const root = document.documentElement;
  root.classList.add("scripted");
  try {
    const kept = localStorage.getItem("pytest-quant-theme");
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch (error) {
    // A browser that keeps nothing for files shows the theme of the system.
  }
})();
