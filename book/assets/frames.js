// What scrolls sideways in a frame of its own must take the focus, or a keyboard cannot
// reach its end. Only what is wider than its frame becomes a stop on the way.
{
  const FRAMES = "div.math, span.math, mjx-container[display='true'], .pst-scrollable-table-container, "
    + ".cell_output .text_html, div.highlight pre, .figure-frame, .report, .weights";
  const look = (frame) => {
    if (frame.scrollWidth > frame.clientWidth + 1) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  };
  const lookAtAll = () => document.querySelectorAll(`.bd-article :is(${FRAMES})`).forEach(look);
  addEventListener("load", () => {
    lookAtAll();
    addEventListener("resize", lookAtAll);
    // what is folded has no width until it opens
    document.addEventListener("toggle", lookAtAll, true);
    document.addEventListener("change", lookAtAll);
  });
  // formulas have their width when MathJax has set them; it starts after this script
  if (window.MathJax) {
    MathJax.startup = {
      pageReady: () => MathJax.startup.defaultPageReady().then(lookAtAll),
    };
  }
}

// Copying takes the focus away from the button.
addEventListener("click", ({ target }) => {
  const button = target.closest(".copybtn");
  if (button) setTimeout(() => button.focus({ preventScroll: true }));
});
