(function () {
  "use strict";

  // Tables: a button in each head sorts by what the cells' data-sort say, numbers as numbers, empty cells last.
  function sorted(table, at, down) {
    var body = table.tBodies[0];
    var rows = Array.from(body.rows).map(function (row) {
      var cell = row.cells[at];
      var raw = cell.hasAttribute("data-sort") ? cell.getAttribute("data-sort") : cell.textContent.trim();
      if (raw === "\u2013") raw = "";
      return { row: row, raw: raw, number: raw === "" ? NaN : Number(raw) };
    });
    var numeric = rows.every(function (one) { return one.raw === "" || !isNaN(one.number); });
    rows.sort(function (a, b) {
      if (a.raw === "" || b.raw === "") return (a.raw === "") - (b.raw === "");
      var order = numeric ? a.number - b.number : a.raw.localeCompare(b.raw);
      return down ? -order : order;
    });
    rows.forEach(function (one) { body.appendChild(one.row); });
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, at) {
      head.querySelector("button").addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sorted(table, at, down);
      });
    });
  });

  // The tooltip: names come from data, so they are put in as text.
  var tip = document.getElementById("tip");
  function tooltip(handler, event, item, value) {
    if (value === null || value === undefined || value === "") {
      tip.hidden = true;
      return;
    }
    tip.replaceChildren();
    var list = document.createElement("dl");
    Object.keys(value).forEach(function (key, i) {
      var name = document.createElement("dt");
      var said = document.createElement("dd");
      name.textContent = key;
      said.textContent = String(value[key]);
      if (i === 0) {
        name.className = "hidden";
        said.className = "first";
      }
      list.append(name, said);
    });
    tip.append(list);
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    var left = event.clientX + 14;
    var top = event.clientY + 14;
    if (left + box.width > window.innerWidth - 8) left = Math.max(8, event.clientX - box.width - 14);
    if (top + box.height > window.innerHeight - 8) top = Math.max(8, event.clientY - box.height - 14);
    tip.style.left = left + "px";
    tip.style.top = top + "px";
  }
  window.addEventListener("scroll", function () { tip.hidden = true; }, { passive: true });

  // Charts: colours are the page's own variables, so that they follow light, dark and print by themselves.
  var font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  var config = {
    background: null,
    font: font,
    view: { stroke: null },
    aria: false,
    axis: {
      labelColor: "var(--soft)", titleColor: "var(--soft)", titleFontWeight: "normal", titleFontSize: 12,
      labelFontSize: 11, gridColor: "var(--line)", domainColor: "var(--line)", tickColor: "var(--line)",
      titlePadding: 10, labelPadding: 6, tickCount: 8
    },
    legend: {
      labelColor: "var(--ink)", titleColor: "var(--soft)", labelFontSize: 12, symbolSize: 90, labelLimit: 260, columns: 3,
      symbolBaseFillColor: "var(--ink)", symbolStrokeColor: "transparent", symbolStrokeWidth: 0, offset: 14
    }
  };
  var root = document.documentElement;
  var specs = JSON.parse(document.getElementById("specs").textContent);
  var names = Object.keys(specs);
  function next() {
    var name = names.shift();
    if (name === undefined) {
      root.dataset.charts = "drawn";
      return;
    }
    var place = document.getElementById(name);
    var options = {
      ast: true, mode: "vega-lite", renderer: "svg", actions: false, defaultStyle: false, config: config, tooltip: tooltip
    };
    window.vegaEmbed(place, specs[name], options).then(
      function () { setTimeout(next, 0); },
      function (error) {
        place.textContent = "This chart cannot be drawn here; its numbers are in the table below it.";
        console.error(error);
        setTimeout(next, 0);
      }
    );
  }
  next();
})();
