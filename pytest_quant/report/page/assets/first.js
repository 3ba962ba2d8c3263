"use strict";
// Before anything is shown: a script runs, and the reader may have chosen a theme, where the browser keeps one.
document.documentElement.classList.add("scripted");
try {
  document.documentElement.dataset.theme = localStorage.getItem("pytest-quant-theme") || "auto";
} catch (error) {
  document.documentElement.dataset.theme = "auto";
}
