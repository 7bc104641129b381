// The search page: Sphinx finds the pages, and this script sorts and quotes them. It reads
// EXCERPTS (excerpts.js) instead of fetching pages, and so also works from file://.
{
  const SECTIONS = 3; // of a page are quoted
  const AROUND = 90; // letters before and after what was found
  // Who looks for a word wants to learn it, then to practise it, then to look it up.
  const KINDS = [/^book\/(\d\d_|sentences)/, /^labs\//, /^(?!book\/(instructor|write_a|report|changelog|lecture))/, /./];
  const kind = (name) => KINDS.findIndex((pattern) => pattern.test(name));

  const parts = (words) => words.map((word) => word.replace(/[^\p{L}\p{N}_]/gu, "")).filter(Boolean);
  const count = (text, words) => words.reduce((sum, word) => {
    const times = text.toLowerCase().split(word).length - 1;
    return sum && times ? sum + times : 0; // every word, or none
  }, 1);

  const marked = (text, words) => {
    const line = document.createElement("p");
    const pattern = new RegExp(`(${words.join("|")})`, "giu");
    text.split(pattern).forEach((piece, i) => {
      if (i % 2) line.appendChild(document.createElement("mark")).textContent = piece;
      else line.append(piece);
    });
    return line;
  };

  const quote = (text, words) => {
    const lower = text.toLowerCase();
    const places = words.map((word) => lower.indexOf(word)).filter((place) => place >= 0);
    const middle = places.length ? Math.min(...places) : 0;
    const start = middle > AROUND ? text.indexOf(" ", middle - AROUND) + 1 : 0;
    const end = middle + 2 * AROUND >= text.length ? text.length : text.lastIndexOf(" ", middle + 2 * AROUND);
    return `${start ? "… " : ""}${text.slice(start, end)}${end < text.length ? " …" : ""}`;
  };

  const show = (name, anchors, words) => {
    const sections = EXCERPTS[name] ?? [];
    const scored = sections.map(([id, title, text], i) => ({
      id, title, text, i, hits: (3 * count(title, words) + count(text, words) + (anchors.has(`#${id}`) ? 5 : 0)) / (title === "Quiz" || title === "Exercises" ? 9 : 1),
    }));
    const best = scored.filter((s) => s.hits > 0).sort((a, b) => b.hits - a.hits).slice(0, SECTIONS);
    const item = document.createElement("li");
    const link = item.appendChild(document.createElement("a"));
    link.href = `${name}.html`;
    link.textContent = sections.length ? sections[0][1] : name;
    link.className = "search-page";
    for (const section of best.length ? best : scored.slice(0, 1)) {
      const found = item.appendChild(document.createElement("div"));
      if (section.i) {
        const inside = found.appendChild(document.createElement("a"));
        inside.href = `${name}.html#${section.id}`;
        inside.textContent = section.title;
      }
      if (section.text) found.appendChild(marked(quote(section.text, words), words));
    }
    return item;
  };

  Search.query = (query) => {
    const [text, terms, excluded, highlight, objects] = Search._parseQuery(query);
    const words = parts([...highlight]);
    const pages = new Map();
    if (words.length) {
      for (const [name, , anchor, , score] of Search._performSearch(text, terms, excluded, highlight, objects)) {
        const page = pages.get(name) ?? { name, anchors: new Set(), score: 0 };
        page.anchors.add(anchor);
        page.score = Math.max(page.score, score);
        pages.set(name, page);
      }
    }
    for (const page of pages.values()) {
      for (const [, title, excerpt] of EXCERPTS[page.name] ?? []) {
        page.score += 3 * count(title, words) + count(excerpt, words);
      }
    }
    const order = [...pages.values()].sort((a, b) => kind(a.name) - kind(b.name) || b.score - a.score);
    order.forEach((page) => Search.output.append(show(page.name, page.anchors, words)));
    Search.stopPulse();
    Search.title.textContent = "Search results";
    Search.status.textContent = order.length
      ? `${order.length} ${order.length === 1 ? "page mentions" : "pages mention"} “${query}”.`
      : `No page mentions “${query}”. Try fewer words, or the singular.`;
  };
}
