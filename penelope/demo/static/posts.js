// Fills the grid page by page: the next page is fetched when the end of the grid comes into sight.
"use strict";
{
  const end = document.querySelector("[data-posts]");
  const grid = document.querySelector(".grid");
  const sorry = end.nextElementSibling;
  let after = Number(end.dataset.after);

  const tile = ({ shortcode, caption }) => {
    const link = document.createElement("a");
    const picture = document.createElement("img");
    Object.assign(link, { href: `/p/${shortcode}/` });
    Object.assign(picture, { src: `/p/${shortcode}/thumb.png`, alt: caption, width: 240, height: 240, loading: "lazy" });
    link.append(picture);
    return link;
  };

  const more = async () => {
    grid.ariaBusy = "true";
    try {
      const answer = await fetch(`${end.dataset.posts}?after=${after}`);
      const page = await answer.json();
      if (!answer.ok) throw new Error(page.error);
      grid.append(...page.posts.map(tile));
      after = page.next;
      if (after === null) end.textContent = `That is everything: ${page.total}.`;
    } catch (error) {
      after = null;
      sorry.textContent = error.message;
      sorry.hidden = false;
    }
    grid.ariaBusy = "false";
  };

  const watch = new IntersectionObserver(async (seen) => {
    if (!seen.at(-1).isIntersecting) return;
    watch.unobserve(end);
    await more();
    if (after !== null) watch.observe(end); // observing afresh reports at once when the end is still in sight
  }, { rootMargin: "40px" });
  watch.observe(end);
}
