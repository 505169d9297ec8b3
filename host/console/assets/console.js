// Small helpers of the console: the title, keys for asks, notifications and plots. Pages can be read without them.
"use strict";
(() => {
  const title = document.title.replace(/^\(\d+\) /, "");
  let known = count();
  function count() { const s = document.getElementById("page-state"); return s ? Number(s.dataset.asks) : 0; }
  function update() {
    const n = count(), badge = document.getElementById("asks-count");
    document.title = (n ? "(" + n + ") " : "") + title;
    if (badge) { badge.textContent = n; badge.hidden = !n; }
    if (n > known && document.hidden && "Notification" in window && Notification.permission === "granted") {
      new Notification("toolhost", { body: n === 1 ? "A call asks for permission." : n + " calls ask for permission.", tag: "asks" });
    }
    known = n;
  }
  let focused = "";
  document.addEventListener("htmx:beforeSwap", () => { focused = document.activeElement ? document.activeElement.id : ""; });
  document.addEventListener("htmx:sseBeforeMessage", () => { focused = document.activeElement ? document.activeElement.id : ""; });
  document.addEventListener("htmx:afterSettle", () => {
    const at = focused && document.getElementById(focused);
    if (at && document.activeElement !== at) at.focus({ preventScroll: true });
    update();
  });
  const notify = document.getElementById("notify");
  if (notify && "Notification" in window && Notification.permission === "default") {
    notify.hidden = false;
    notify.addEventListener("click", () => Notification.requestPermission().then(() => { notify.hidden = true; }));
  }
  document.addEventListener("keydown", (e) => {
    const asks = [...document.querySelectorAll(".ask")];
    if (!asks.length || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
    const at = asks.indexOf(document.activeElement.closest ? document.activeElement.closest(".ask") : null);
    if (e.key === "j") asks[Math.min(at + 1, asks.length - 1)].focus();
    else if (e.key === "k") asks[Math.max(at - 1, 0)].focus();
    else if (at >= 0 && e.key === "a") asks[at].querySelector("button.primary").click();
    else if (at >= 0 && e.key === "d") asks[at].querySelector("button.danger").click();
    else return;
    e.preventDefault();
  });
  const plots = document.getElementById("plots");
  if (plots && window.uPlot) figures(plots);

  function figures(root) {
    const span = document.getElementById("span"), tool = document.getElementById("ftool");
    const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const colours = ["#3b82f6", "#e8833a", "#2fa36b", "#c2569b", "#8a6fe0", "#b59b1f", "#4aa8b8", "#d0524a"];
    const charts = new Map();
    const from = new URLSearchParams(location.search);
    if (from.get("span")) span.value = from.get("span");
    async function load() {
      const res = await fetch("/console/figures");
      if (!res.ok) return;
      const all = await res.json(), last = Date.now() / 1000 - Number(span.value);
      const samples = all.filter((s) => s.at >= last);
      const tools = [...new Set(samples.flatMap((s) => Object.keys(s.tools)))].sort();
      const wanted = tool.value || from.get("tool") || "";
      tool.replaceChildren(new Option("all", ""), ...tools.map((t) => new Option(t, t)));
      tool.value = tools.includes(wanted) ? wanted : "";
      const shown = tool.value ? [tool.value] : tools;
      const plugins = [...new Set(samples.flatMap((s) => Object.keys(s.plugins)))].sort();
      const at = samples.map((s) => s.at);
      draw("Calls a second", at, shown.map((t) => [t, samples.map((s) => s.tools[t] ? s.tools[t].calls : null)]));
      draw("Errors a second", at, shown.map((t) => [t, samples.map((s) => s.tools[t] ? s.tools[t].errors : null)]));
      draw("Duration since the start, ms", at, shown.slice(0, 3).flatMap((t) => ["p50", "p95", "p99"].map((q) => [t + " " + q, samples.map((s) => s.tools[t] ? s.tools[t][q] : null)])));
      draw("Processors", at, plugins.map((p) => [p, samples.map((s) => s.plugins[p] ? s.plugins[p].cpu : null)]));
      draw("Memory, MiB", at, plugins.map((p) => [p, samples.map((s) => s.plugins[p] ? s.plugins[p].memory / 1048576 : null)]));
    }
    // The grid changes the width of a box when others are added, and when the window changes.
    const sizes = new ResizeObserver((entries) => {
      for (const e of entries) {
        const drawn = [...charts.values()].find((c) => c.box === e.target);
        if (drawn && drawn.chart) drawn.chart.setSize({ width: Math.floor(e.contentRect.width), height: 200 });
      }
    });
    const number = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
    function axisSize(u, values, i, cycle) {
      const axis = u.axes[i];
      if (cycle > 1) return axis._size; // the second round would only repeat the first
      u.ctx.font = axis.font[0];
      return Math.ceil(axis.ticks.size + axis.gap + Math.max(0, ...(values || []).map((v) => u.ctx.measureText(v).width)) / devicePixelRatio);
    }
    function draw(name, at, all) {
      const lines = all.filter((l) => l[1].some((v) => v)); // a line of zeros only lengthens the legend
      const old = charts.get(name), key = lines.map((l) => l[0]).join();
      const data = [at, ...lines.map((l) => l[1])];
      if (old && old.key === key) { if (old.chart) old.chart.setData(data); return; }
      const box = old ? old.box : root.appendChild(document.createElement("div"));
      sizes.observe(box);
      if (old && old.chart) old.chart.destroy();
      box.replaceChildren();
      const drawn = { box, key, chart: null };
      charts.set(name, drawn);
      if (!lines.length) {
        const head = document.createElement("h2"), text = document.createElement("p");
        head.textContent = name; text.textContent = "Nothing in this span."; text.className = "dim";
        box.append(head, text);
        return;
      }
      const axis = { stroke: css("--dim"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") } };
      const scale = { ...axis, size: axisSize, values: (u, splits) => splits.map((v) => v === null ? "" : number.format(v)) };
      drawn.chart = new uPlot({ title: name, width: box.clientWidth, height: 200, series: [{ label: "Time" }, ...lines.map((l, i) => ({ label: l[0], stroke: colours[i % colours.length], width: 1.5, spanGaps: true }))], axes: [axis, scale] }, data, box);
    }
    span.addEventListener("change", load); tool.addEventListener("change", () => { from.delete("tool"); load(); });
    load(); setInterval(load, 5000);
  }
})();
