// Tables: a click on a header sorts, words filter the rows of long tables, and a button copies what is shown.
const addTools = (() => {
  const FEW = 10; // rows that one sees at a glance
  const NUMBER = /^[-+]?[\d,]*\.?\d+(e[-+]?\d+)?(?=[\s%,]|$)/i;
  const text = (cell) => (cell ? cell.textContent.trim().replace(/\s+/g, " ") : "");
  const element = (name, properties) => Object.assign(document.createElement(name), properties);

  // Cells without a value stay last, whichever the order.
  const sort = (header) => {
    const direction = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    const sign = direction === "ascending" ? 1 : -1;
    const body = header.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, value: text(row.cells[header.cellIndex]) }));
    const filled = rows.filter(({ value }) => value !== "" && value !== "nan");
    const number = (one) => parseFloat(one.value.replaceAll(",", ""));
    const compare = filled.every(({ value }) => NUMBER.test(value))
      ? (a, b) => number(a) - number(b)
      : (a, b) => a.value.localeCompare(b.value, "en", { numeric: true });
    filled.sort((a, b) => sign * compare(a, b));
    body.append(...filled.map(({ row }) => row), ...rows.filter((one) => !filled.includes(one)).map(({ row }) => row));
    for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction);
  };

  const filter = (rows, words, said) => {
    const wanted = words.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !wanted.every((word) => row.textContent.toLowerCase().includes(word));
    said.textContent = words.trim() ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
  };

  // A spreadsheet takes text that begins like a formula for one, so such text is quoted as spreadsheets do.
  const quoted = (cell) => (/^[-+=@]/.test(cell) && !/^[-+]?[\d.,]+( ± [\d.,]+)?%?$/.test(cell) ? `'${cell}` : cell);

  const copy = (table, said) => {
    const rows = [...table.rows].filter((row) => !row.hidden);
    const lines = rows.map((row) => [...row.cells].map((cell) => quoted(text(cell))).join("\t"));
    // Unlike navigator.clipboard, this works in a page that was opened as a file, and in the frame of a notebook.
    const give = (event) => {
      event.clipboardData.setData("text/plain", lines.join("\n"));
      event.preventDefault();
      said.textContent = "copied";
    };
    document.addEventListener("copy", give, { once: true });
    document.execCommand("copy");
  };

  return (table) => {
    const said = element("output", { className: "quiet" });
    const tools = element("div", { className: "tools" });
    const rows = [...table.tBodies[0].rows];
    if (rows.length > FEW && table.matches(".rows")) {
      const words = element("input", { type: "search", placeholder: `filter ${rows.length} rows` });
      words.setAttribute("aria-label", "filter the rows of the table by words");
      words.addEventListener("input", () => filter(rows, words.value, said));
      tools.append(words);
    }
    const button = element("button", { type: "button", textContent: "copy", title: "copy the table for a spreadsheet" });
    button.addEventListener("click", () => copy(table, said));
    tools.append(button, said);
    (table.closest(".wide") ?? table).before(tools);
    for (const header of table.matches(".rows") ? table.tHead.rows[0].cells : []) {
      if (!text(header)) continue;
      const sorter = element("button", { type: "button", title: "sort by this column" });
      sorter.append(...header.childNodes);
      header.append(sorter);
      header.addEventListener("click", () => sort(header)); // the button takes the keyboard
    }
  };
})();
for (const table of document.querySelectorAll(".rows, .matrix")) addTools(table);

// Puts the rows of a table whose boxes are checked side by side: their facts that differ, and the command that compares.
const place = document.getElementById("side-by-side");
if (place) {
  const runs = new Map(JSON.parse(place.querySelector("script").textContent).map((one) => [one.run, one.facts]));
  const chosen = new Set();
  const add = (parent, name, textContent) => parent.appendChild(Object.assign(document.createElement(name), { textContent }));

  const show = () => {
    place.replaceChildren();
    if (chosen.size < 2) return;
    const all = [...runs.keys()].filter((run) => chosen.has(run));
    const names = new Set(all.flatMap((run) => Object.keys(runs.get(run))));
    const wide = Object.assign(add(place, "div"), { className: "wide" });
    const table = Object.assign(add(wide, "table"), { className: "rows" });
    const head = table.createTHead().insertRow();
    for (const name of ["", ...all]) add(head, "th", name);
    const body = table.createTBody();
    for (const name of names) {
      const values = all.map((run) => runs.get(run)[name] ?? "");
      if (values.every((value) => value === values[0])) continue;
      const row = body.insertRow();
      for (const value of [name, ...values]) add(row, "td", value);
    }
    addTools(table);
    add(place, "p", "What is equal is left out. Metrics are of the eval rows of each run; on equal rows, with intervals:");
    add(place, "pre", `fullpass compare ${all.reverse().join(" ")}${place.dataset.file}`);
  };

  for (const row of place.previousElementSibling.querySelector("tbody").rows) {
    const box = Object.assign(document.createElement("input"), { type: "checkbox", value: row.cells[0].textContent.trim() });
    box.setAttribute("aria-label", `put run ${box.value} beside others`);
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(box.value);
      else chosen.delete(box.value);
      show();
    });
    row.cells[0].prepend(box, " ");
  }
}
