// A click on a header sorts its table by that column; another click reverses the order. Cells without a value stay last.
for (const header of document.querySelectorAll(".rows th:not(:empty)")) {
  const isNumber = header.classList.contains("n");
  const value = (row) => {
    const text = row.cells[header.cellIndex].textContent.trim();
    return isNumber ? parseFloat(text.replaceAll(",", "")) : text;
  };
  const isEmpty = (row) => value(row) === "" || Number.isNaN(value(row));
  const compare = (a, b) => (isNumber ? value(a) - value(b) : value(a).localeCompare(value(b), "en", { numeric: true }));
  const sort = () => {
    const direction = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    const sign = direction === "ascending" ? 1 : -1;
    const body = header.closest("table").tBodies[0];
    const rows = [...body.rows];
    const filled = rows.filter((row) => !isEmpty(row)).sort((a, b) => sign * compare(a, b));
    body.append(...filled, ...rows.filter(isEmpty));
    for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction);
  };
  header.tabIndex = 0;
  header.title = "sort by this column";
  header.addEventListener("click", sort);
  header.addEventListener("keydown", (event) => event.key === "Enter" && sort());
}
