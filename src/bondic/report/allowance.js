"use strict";
/* Sliders over the intervals of a curve of allowances: nothing is computed here, points are looked up. */
(function () {
  const data = JSON.parse(document.getElementById("bondic-data").textContent);
  const byId = (id) => document.getElementById(id);
  const text = (value) => String(Number(value.toPrecision(6)));
  const averages = byId("allow-averages"), single = byId("allow-single");
  const [top, floor] = data.frame, [least, most] = data.range;
  const y = (v) => floor - (floor - top) * (Math.min(Math.max(v, least), most) - least) / ((most - least) || 1);

  // single values below the averages are the averages
  function point(row) {
    const wanted = Number(single.value);
    return (wanted > 0 && row.find((item) => item.single === data.singles[wanted - 1])) || row[0];
  }

  function same(item) {
    return data.allowance !== null && item.averages === data.allowance[0] && item.single === data.allowance[1];
  }

  function show() {
    const found = point(data.rows[Number(averages.value)]), bar = byId("allow-now"), step = 98 / data.rows.length;
    const none = found.status === "REJECTED";
    byId("allow-averages-shown").textContent = text(found.averages);
    byId("allow-single-shown").textContent = text(found.single);
    [["allow-low", 0], ["allow-high", 1]].forEach(([id, k]) => {
      byId(id).textContent = found.words[k];
      byId(id).dataset.value = String(k ? found.high : found.low);
    });
    byId("allow-verdict").textContent = none ? "The log contradicts this allowance."
      : found.status === "TRIVIAL" ? "With this allowance the log adds nothing: this is the whole value range."
      : same(found) ? "This is the reported interval." : "Valid if rows are as alike as this says.";
    bar.setAttribute("x", (1 + step * (Number(averages.value) + 0.04)) + "%");
    bar.setAttribute("width", 0.92 * step + "%");
    bar.setAttribute("y", none ? floor : y(found.high) - 1.5);
    bar.setAttribute("height", none ? 0 : Math.max(y(found.low) - y(found.high), 1) + 3);
    showBreak();
  }

  // the largest listed allowance up to which the decision holds, at the single values of the second slider
  function showBreak() {
    const typed = byId("allow-threshold").value.trim(), out = byId("allow-break"), x = Number(typed);
    out.hidden = typed === "" || !isFinite(x);
    if (out.hidden) return;
    const up = byId("allow-direction").value === "above";
    let held = null, failed = null;
    for (const item of data.rows.map(point)) {
      if (item.status === "REJECTED" && held === null) continue;
      if (item.status !== "REJECTED" && (up ? item.low >= x : item.high <= x)) held = item;
      else { failed = item; break; }
    }
    out.dataset.value = String(held && held.averages);
    if (held === null) { out.textContent = "No listed allowance shows it."; return; }
    const apart = held.single > held.averages;
    out.textContent = (failed === null ? "It holds for all listed allowances."
      : "It holds up to ±\u00a0" + text(held.averages) + (apart ? " on average" : "") + ", and no longer at ±\u00a0" + text(failed.averages) + ".")
      + " If this decision is wrong, groups differ by more than " + text(held.averages) + " in value"
      + (apart ? " on average, or by more than " + text(held.single) + " one by one." : ".");
  }

  if (data.allowance !== null) {
    averages.value = String(data.rows.findIndex((row) => row[0].averages === data.allowance[0]));
    if (data.allowance[1] > data.allowance[0]) single.value = String(1 + data.singles.indexOf(data.allowance[1]));
  }
  averages.addEventListener("input", show);
  single.addEventListener("input", show);
  byId("allow-threshold").addEventListener("input", showBreak);
  byId("allow-direction").addEventListener("change", showBreak);
  show();
})();
