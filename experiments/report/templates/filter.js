const filter = document.querySelector("#filter");
const choices = [...filter.querySelectorAll("select")];
const instances = [...document.querySelectorAll("#instances > details")];

function show() {
  const { from, to, text } = filter.elements;
  const sought = text.value.trim().toLowerCase();
  for (const one of instances) {
    const cells = one.firstElementChild.children;
    const score = parseFloat(one.dataset.score);
    one.hidden = !(
      choices.every((choice, i) => choice.value === "" || choice.value === cells[i].textContent) &&
      (from.value === "" || score >= from.valueAsNumber) &&
      (to.value === "" || score <= to.valueAsNumber) &&
      one.textContent.toLowerCase().includes(sought)
    );
  }
  filter.querySelector("output").textContent = instances.filter((one) => !one.hidden).length;
}

filter.addEventListener("input", show);
filter.hidden = false;
show();
