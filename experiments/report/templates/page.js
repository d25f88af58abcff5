const sections = [...document.querySelectorAll("details.section")];

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let one = target.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
  (target.closest("section:has(> h3)") ?? target.closest("details") ?? target).scrollIntoView();
}

function button(label, where, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  made.addEventListener("click", () => act(made));
  where.append(made);
}

function cells(row) {
  return [...row.cells].map((cell) => {
    const parts = [...cell.childNodes].filter((part) => part.nodeName !== "SMALL" || !part.classList.contains("flag"));
    const flag = cell.querySelector("small.flag");
    const text = parts.map((part) => part.textContent.trim()).filter(Boolean).join(" ");
    return flag ? `${text} (${flag.textContent})` : text;
  });
}

const LATEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--", "−": "$-$", "†": "$\\dagger$", "±": "$\\pm$" };

function latex(rows) {
  const safe = (text) => text.replace(/[\\~^–−†±&%$#_{}]/g, (c) => LATEX[c] ?? `\\${c}`);
  const line = (row) => row.map(safe).join(" & ") + " \\\\";
  const [head, ...body] = rows.map(line);
  return ["\\begin{tabular}{" + "l".repeat(rows[0].length) + "}", "\\toprule", head, "\\midrule", ...body, "\\bottomrule", "\\end{tabular}", ""].join("\n");
}

function markdown(rows) {
  const line = (row) => "| " + row.map((text) => text.replace(/\|/g, "\\|")).join(" | ") + " |";
  const [head, ...body] = rows.map(line);
  return [head, "|" + " --- |".repeat(rows[0].length), ...body, ""].join("\n");
}

async function copy(text, made) {
  const label = made.textContent;
  try {
    await navigator.clipboard.writeText(text);
    made.textContent = "copied";
  } catch {
    made.textContent = "not allowed here";
  }
  setTimeout(() => (made.textContent = label), 1500);
}

for (const table of document.querySelectorAll(".scroll > table")) {
  const tools = document.createElement("div");
  tools.className = "tools";
  const rows = () => [...table.rows].map(cells);
  button("copy as LaTeX", tools, (made) => copy(latex(rows()), made));
  button("copy as Markdown", tools, (made) => copy(markdown(rows()), made));
  table.parentElement.before(tools);
}
const nav = document.querySelector("nav");
if (nav) {
  button("unfold all", nav.querySelector("h2").parentElement, (made) => {
    const open = sections.some((one) => !one.open);
    for (const one of sections) one.open = open;
    made.textContent = open ? "fold all" : "unfold all";
  });
  nav.querySelector("h2").after(nav.lastElementChild);
}
const folded = () => sections.filter((one) => !one.open);
let before = [];
addEventListener("beforeprint", () => { before = folded(); for (const one of before) one.open = true; });
addEventListener("afterprint", () => { for (const one of before) one.open = false; });
addEventListener("hashchange", reveal);
reveal();
