// Fills the dialog's list page by page: the next page is fetched when the end of the list comes into sight.
"use strict";
{
  const list = document.querySelector("[data-source]");
  const end = list.parentElement.querySelector("[role=status]");
  const sorry = list.parentElement.querySelector("[role=alert]");
  let after = 0;

  const row = ({ handle, name, hue }) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const face = document.createElement("i"); // no picture: that would be one more request for each row
    const words = document.createElement("span");
    Object.assign(face, { className: "face", textContent: handle[0].toUpperCase(), ariaHidden: "true" });
    face.style.setProperty("--hue", hue);
    Object.assign(link, { href: `/${handle}/`, textContent: handle });
    words.textContent = name;
    item.append(face, link, words);
    return item;
  };

  const more = async () => {
    list.ariaBusy = "true";
    try {
      const answer = await fetch(`${list.dataset.source}?after=${after}`);
      const page = await answer.json();
      if (!answer.ok) throw new Error(page.error);
      list.append(...page.accounts.map(row));
      after = page.next;
      if (after === null) end.textContent = `That is everybody: ${page.total}.`;
    } catch (error) {
      after = null;
      sorry.textContent = error.message;
      sorry.hidden = false;
    }
    list.ariaBusy = "false";
  };

  const watch = new IntersectionObserver(async (seen) => {
    if (!seen.at(-1).isIntersecting) return;
    watch.unobserve(end);
    await more();
    if (after !== null) watch.observe(end); // observing afresh reports at once when the end is still in sight
  }, { root: list.parentElement, rootMargin: "40px" });
  watch.observe(end);
}
