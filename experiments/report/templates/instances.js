{
  const { texts, rows } = JSON.parse(document.querySelector("#instances-data").textContent);
  const filter = document.querySelector("#filter");
  const choices = [...filter.querySelectorAll("select:not([name])")];
  const place = document.querySelector("#instances");

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const spoken = (conversations) => {
    const pair = element("div", undefined, "pair");
    for (const [heading, turns] of conversations) {
      const one = element("div");
      one.append(element("h3", texts[heading], "soft"));
      for (const [label, text, own] of turns) {
        const turn = element("div", undefined, own ? "turn asked" : "turn");
        turn.append(element("b", texts[label]), texts[text]);
        one.append(turn);
      }
      pair.append(one);
    }
    return pair;
  };
  const made = rows.map(([facets, score, facts, conversations]) => {
    const one = element("details");
    const summary = element("summary");
    for (const facet of facets) summary.append(element("span", texts[facet]));
    summary.append(element("b", score === null ? "–" : score.toFixed(3).replace("-", "−")), element("span", texts[facts], "facts"));
    one.append(summary);
    one.addEventListener("toggle", () => { if (one.childElementCount < 2) one.append(spoken(conversations)); });
    return one;
  });
  const whole = rows.map(([facets, , facts, conversations]) =>
    [...facets, facts, ...conversations.flatMap(([heading, turns]) => [heading, ...turns.flatMap((turn) => turn.slice(0, 2))])].map((i) => texts[i]).join("\n").toLowerCase());

  let sorted;
  const show = () => {
    const { from, to, text, sort } = filter.elements;
    const order = rows.map((_, i) => i);
    if (sort.value) order.sort((i, j) => (rows[i][1] === null) - (rows[j][1] === null) || sort.value * (rows[j][1] - rows[i][1]) || i - j);
    if (sort.value !== sorted) place.replaceChildren(...order.map((i) => made[i]));
    sorted = sort.value;
    const sought = text.value.trim().toLowerCase();
    let shown = 0;
    rows.forEach(([facets, score], i) => {
      const fits = choices.every((choice, j) => choice.value === "" || choice.value === texts[facets[j]]) &&
        (from.value === "" || (score !== null && score >= from.valueAsNumber)) &&
        (to.value === "" || (score !== null && score <= to.valueAsNumber)) && whole[i].includes(sought);
      made[i].hidden = !fits;
      shown += fits;
    });
    filter.querySelector("output").textContent = shown;
  };
  filter.addEventListener("input", show);
  filter.hidden = false;
  show();
}
