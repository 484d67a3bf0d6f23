"use strict";
/* The page's own copy of the bound: the same formulas as bondic.methods.frontier, on the numbers stored in the page.
   Every end point is moved outward by a relative 4e-13, far more than the arithmetic here can lose. */
(function () {
  const data = JSON.parse(document.getElementById("bondic-data").textContent);
  const OUTWARD = 4e-13, UNDERFLOW = 1e-300, SMALLEST = 1e-9, LARGEST = 1 - 1e-9;
  const byId = (id) => document.getElementById(id);
  const panel = (byId("what-if") || { dataset: {} }).dataset, FREE = panel.radius === "free";

  function epsilon(alpha) {
    const law = data.noise, level = Math.log(2 / (alpha * data.shares.noise));
    if (law.kind === "root") return Math.sqrt(2 * law.variance * level * law.planned) / law.rows;
    if (law.kind === "rate") return (level + law.rate * law.rate * law.charge / 8) / law.rate / law.rows;
    return law.epsilon;
  }

  function initial(alpha) {
    const law = data.initial;
    if (law.kind === "none" || law.width === 0) return 0;
    const delta = alpha * data.shares.initial;
    if (law.kind === "mean") return law.width * Math.sqrt(Math.log(law.sides / delta) * law.square / 2);
    let best = Infinity;
    for (let j = 1; j <= 24; j++) {
      const level = Math.log(law.sides * j * (j + 1) / delta);
      const rate = Math.sqrt(8 * level / Math.pow(4, j - 1)) / law.width;
      best = Math.min(best, (level / rate + law.width * law.width * law.count / 8 * rate) / law.count);
    }
    return best;
  }

  // what is added for an omega besides r |mu|, at both ends
  function rest(point, eps, start) { return eps * point[3] + point[4] + start + point[5]; }

  function ends(radius, alpha) {
    const eps = epsilon(alpha), start = initial(alpha);
    let low = -Infinity, high = Infinity;
    for (const point of data.points) {
      const spread = radius * point[2] + rest(point, eps, start);
      const below = point[0] - spread - OUTWARD * (Math.abs(point[0]) + spread) - UNDERFLOW;
      const above = point[1] + spread + OUTWARD * (Math.abs(point[1]) + spread) + UNDERFLOW;
      if (data.side !== "upper") low = Math.max(low, below);
      if (data.side !== "lower") high = Math.min(high, above);
    }
    return [low, high];
  }

  function interval(radius, alpha) {
    const [low, high] = ends(radius, alpha);
    return [Math.max(low, data.range[0]), Math.min(high, data.range[1])];
  }

  // a witness at one level of noise is one at every lower level
  function contradicted(radius, alpha) {
    const [low, high] = interval(radius, alpha);
    return low > high || (radius < data.floor && alpha >= data.alpha);
  }

  function breakdownRadius(direction, threshold, alpha) {
    const up = direction === "above", eps = epsilon(alpha), start = initial(alpha);
    if (up ? data.range[0] > threshold : data.range[1] < threshold) return Infinity;
    if (data.side === (up ? "upper" : "lower")) return 0;
    let best = 0;
    for (const point of data.points) {
      const value = up ? point[0] : point[1], other = rest(point, eps, start);
      const room = (up ? value - threshold : threshold - value) - other
        - OUTWARD * (Math.abs(value) + Math.abs(threshold) + other);
      if (room > 0) best = Math.max(best, point[2] === 0 ? Infinity : room / point[2] * (1 - OUTWARD));
    }
    return best;
  }

  function breakdownAlpha(direction, threshold, radius) {
    const proved = (alpha) => {
      const [low, high] = interval(radius, alpha);
      return direction === "above" ? low > threshold : high < threshold;
    };
    if (proved(SMALLEST)) return SMALLEST;
    if (!proved(LARGEST)) return 1;
    let no = Math.log(SMALLEST), yes = Math.log(LARGEST);
    for (let k = 0; k < 60; k++) {
      const middle = 0.5 * (no + yes);
      if (proved(Math.exp(middle))) yes = middle; else no = middle;
    }
    return Math.exp(yes);
  }

  // ---- numbers as text: 6 digits, rounded outward (but for a hair) where a direction is given
  function text(value, direction) {
    if (!isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (value === 0) return "0";
    const size = Math.pow(10, Math.floor(Math.log10(Math.abs(value))) - 5);
    const hair = 1e-9 * Math.abs(value);  // the last digits of a range rounded outward are no news
    let rounded = Math.round(value / size) * size;
    if (direction === "down" && rounded > value + hair) rounded -= size;
    if (direction === "up" && rounded < value - hair) rounded += size;
    return String(Number(rounded.toPrecision(6))).replace("-", "−");
  }

  function put(id, value, shown) {
    const place = byId(id);
    place.textContent = shown === undefined ? text(value) : shown;
    place.dataset.value = String(value);
  }

  // ---- state: what the reader has chosen
  const ALPHA_LOW = Math.log(1e-4), ALPHA_HIGH = Math.log(0.5);
  const state = { radius: data.radius, alpha: data.alpha, threshold: null, direction: "above" };
  const base = data.radius > 0 ? data.radius : 1;  // where the slider stands in the middle
  const DOWN = 2, UP = Math.max(2, Math.log10(10 * data.floor / base) || 0);  // decades around it; contradicted radii are passed
  const radiusAt = (t) => t === 500 ? base : base * Math.pow(10, (t < 500 ? DOWN : UP) * (t / 500 - 1));
  const alphaAt = (t) => Math.exp(ALPHA_LOW + (ALPHA_HIGH - ALPHA_LOW) * t / 1000);
  const clamp = (t) => String(Math.min(1000, Math.max(0, Math.round(t))));

  function show() {
    const [low, high] = interval(state.radius, state.alpha);
    const against = contradicted(state.radius, state.alpha);
    put("what-low", low, against ? "–" : text(low, "down"));
    put("what-high", high, against ? "–" : text(high, "up"));
    const moved = state.radius !== data.radius || state.alpha !== data.alpha;
    const verdict = byId("what-verdict");
    verdict.className = "verdict" + (against ? " bad" : "");
    if (against) verdict.textContent = "No interval: at this α the log contradicts the assumptions with such a small radius.";
    else if (low <= data.range[0] && high >= data.range[1]) verdict.textContent = `With these numbers the log adds nothing to what ${panel.ranges}.`;
    else if (!moved) verdict.textContent = "This is the reported interval.";
    else verdict.textContent = panel.guarantee !== "finite-sample" ? "Not the reported interval."
      : "Not the reported interval. It would be valid if these numbers had been chosen beforehand.";
    showBreakdown();
    draw();
  }

  function showBreakdown() {
    const out = byId("break-out"), { threshold, direction, radius, alpha } = state;
    out.hidden = threshold === null;
    if (threshold === null) return;
    const r = breakdownRadius(direction, threshold, alpha), a = breakdownAlpha(direction, threshold, radius);
    if (!FREE) put("break-radius", r, r === 0 ? "for no radius" : r === Infinity ? "for every radius"
      : "up to radius " + text(r, "down") + (data.radius > 0 ? " (" + text(r / data.radius, "down") + " × the reported one)" : ""));
    put("break-alpha", a, data.noise.kind === "fixed" ? "not available for this noise bound" : a >= 1 ? "for no α"
      : a <= SMALLEST ? "down to α = 1e-9 and below" : "down to α = " + text(a, "up"));
  }

  // ---- the curve over r, drawn for the width at hand
  function draw() {
    if (FREE) return;  // there is no radius to vary
    const box = byId("curve"), width = Math.max(280, box.clientWidth), height = 260;
    const pad = { left: 46, right: 10, top: 10, bottom: 34 }, steps = 160;
    const t0 = Math.log10(base) - DOWN, t1 = Math.log10(base) + UP;
    const [v0, v1] = data.range, span = v1 - v0 || 1;
    const x = (r) => pad.left + (width - pad.left - pad.right) * (Math.min(t1, Math.max(t0, Math.log10(r))) - t0) / (t1 - t0);
    const y = (v) => pad.top + (height - pad.top - pad.bottom) * (v1 + 0.03 * span - v) / (1.06 * span);
    const upper = [], lower = [];
    let crossing = null;
    for (let k = 0; k <= steps; k++) {
      const r = Math.pow(10, t0 + (t1 - t0) * k / steps), [low, high] = interval(r, state.alpha);
      if (contradicted(r, state.alpha)) { crossing = r; continue; }
      upper.push(x(r).toFixed(1) + "," + y(high).toFixed(1));
      lower.unshift(x(r).toFixed(1) + "," + y(low).toFixed(1));
    }
    const parts = ['<svg viewBox="0 0 ' + width + " " + height + '" role="img" aria-label="interval against the radius of Q">'];
    for (const v of ticks(v0, v1)) {
      parts.push('<line class="rule" x1="' + pad.left + '" x2="' + (width - pad.right) + '" y1="' + y(v) + '" y2="' + y(v) + '"/>');
      parts.push('<text x="' + (pad.left - 6) + '" y="' + (y(v) + 4) + '" text-anchor="end">' + text(v) + "</text>");
    }
    const every = Math.ceil(56 * (t1 - t0) / (width - pad.left - pad.right));  // decades between labels that have room
    for (let d = Math.ceil(t0); d <= t1; d += every) {
      const r = Math.pow(10, d);
      parts.push('<text x="' + x(r) + '" y="' + (height - pad.bottom + 16) + '" text-anchor="middle">' + text(r) + "</text>");
    }
    parts.push('<text x="' + (width - pad.right) + '" y="' + (height - 3) + '" text-anchor="end">radius of Q (log scale)</text>');
    if (crossing !== null) {
      parts.push('<rect class="contradicted" x="' + pad.left + '" y="' + pad.top + '" width="' + (x(crossing) - pad.left)
        + '" height="' + (height - pad.top - pad.bottom) + '"><title>contradicted by the log</title></rect>');
      if (x(crossing) - pad.left > 150) parts.push('<text class="bad" x="' + (pad.left + 8) + '" y="' + (pad.top + 18) + '">contradicted by the log</text>');
    }
    if (upper.length) parts.push('<polygon class="band" points="' + upper.concat(lower).join(" ") + '"/>');
    if (state.threshold !== null && state.threshold >= v0 && state.threshold <= v1) {
      parts.push('<line class="threshold" x1="' + pad.left + '" x2="' + (width - pad.right) + '" y1="' + y(state.threshold) + '" y2="' + y(state.threshold) + '"/>');
    }
    parts.push('<line class="chosen" x1="' + x(data.radius) + '" x2="' + x(data.radius) + '" y1="' + pad.top + '" y2="' + (height - pad.bottom) + '"><title>the reported radius</title></line>');
    const [low, high] = interval(state.radius, state.alpha), at = x(state.radius);
    if (!contradicted(state.radius, state.alpha)) {
      parts.push('<line class="marker" x1="' + at + '" x2="' + at + '" y1="' + y(high) + '" y2="' + y(low) + '"/>');
      for (const v of [low, high]) parts.push('<circle class="dot" cx="' + at + '" cy="' + y(v) + '" r="4"/>');
    }
    box.innerHTML = parts.join("") + "</svg>";
  }

  function ticks(low, high) {
    const raw = (high - low) / 5 || 1, size = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= raw);
    const out = [];
    for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) out.push(Math.abs(v) < 1e-9 * step ? 0 : v);
    return out;
  }

  // ---- controls
  function setRadius(value, from) {
    if (!(isFinite(value) && value >= 0)) return;
    state.radius = value;
    if (FREE) return show();
    const decades = Math.log10(value / base);
    if (from !== "slider") byId("radius-slider").value = clamp(500 * (decades / (decades < 0 ? DOWN : UP) + 1));
    if (from !== "number") byId("radius-number").value = String(value);
    show();
  }

  function setAlpha(value, from) {
    if (!(value > 0 && value < 1)) return;
    state.alpha = value;
    if (from !== "slider") byId("alpha-slider").value = clamp(1000 * (Math.log(value) - ALPHA_LOW) / (ALPHA_HIGH - ALPHA_LOW));
    if (from !== "number") byId("alpha-number").value = String(value);
    show();
  }

  function number(id) { const v = byId(id).value.trim(); return v === "" ? NaN : Number(v); }

  if (data.points) {
    if (!FREE) {
      byId("radius-slider").addEventListener("input", (e) => setRadius(radiusAt(Number(e.target.value)), "slider"));
      byId("radius-number").addEventListener("input", () => setRadius(number("radius-number"), "number"));
    }
    byId("alpha-slider").addEventListener("input", (e) => setAlpha(alphaAt(Number(e.target.value)), "slider"));
    byId("alpha-number").addEventListener("input", () => setAlpha(number("alpha-number"), "number"));
    byId("what-reset").addEventListener("click", () => { setAlpha(data.alpha); setRadius(data.radius); });
    const threshold = () => {
      const value = number("break-threshold");
      state.threshold = isFinite(value) ? value : null;
      state.direction = byId("break-direction").value;
      show();
    };
    byId("break-threshold").addEventListener("input", threshold);
    byId("break-direction").addEventListener("change", threshold);
    if (data.noise.kind === "fixed") { byId("alpha-slider").disabled = true; byId("alpha-number").disabled = true; }
    setAlpha(data.alpha);
    setRadius(data.radius);
    window.addEventListener("resize", draw);
    window.bondicReport = { interval, ends, contradicted, epsilon, initial, breakdownRadius, breakdownAlpha, state };
  }

  const root = document.documentElement;
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
})();
