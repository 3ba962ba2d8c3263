"use strict";
// Figures with the digits that the terminal's table has, see pytest_quant/report/text.py.
const numbers = (function () {
  const MORE = 30;

  // A half is rounded to the even digit, as Python does; toFixed rounds it up.
  function fixed(value, digits) {
    const size = Math.abs(value);
    if (size >= 1e21 || digits > 60) return String(value);
    let text = size.toFixed(digits);
    const long = size.toFixed(digits + MORE);
    if (/^50*$/.test(long.slice(digits ? -MORE : long.indexOf(".") + 1))) {
      const cut = long.slice(0, long.length - MORE).replace(/\.$/, "");
      if ("02468".includes(cut.slice(-1))) text = cut;
    }
    return value < 0 && Number(text) !== 0 ? "-" + text : text;
  }

  function withoutZeros(text) {
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }

  function figure(value, digits = 4) {
    if (value === null || value === undefined || Number.isNaN(value)) return "-";
    const size = Math.abs(value);
    if (size >= 10 ** digits - 0.5) return fixed(value, 0);
    if (size === 0) return "0";
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    if (Number(exponent) >= -4) return withoutZeros(fixed(value, digits - 1 - Number(exponent)));
    return withoutZeros(mantissa) + "e-" + String(-Number(exponent)).padStart(2, "0");
  }

  function points(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "-";
    const size = Math.abs(value);
    if (size > 0 && size < 0.005) return figure(value, 2);
    if (size >= 99.995 && size < 100) return figure(value, 8);
    return fixed(value, 2);
  }

  function inUnit(value, unit) {
    return unit === "%" ? points(value) : figure(value);
  }

  function letter(number) {
    return String.fromCharCode(65 + (number % 26)) + (number >= 26 ? Math.floor(number / 26) : "");
  }

  return { figure, fixed, inUnit, letter, points };
})();
