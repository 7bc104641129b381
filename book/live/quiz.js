/* A quiz that answers: the first choice counts, and this browser remembers it.
 *
 * Without this script each answer is a fold that says whether it is right and why.
 */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  // The answers of one question follow each other.
  const questions = [];
  for (const answer of document.querySelectorAll("details.quiz")) {
    const last = questions[questions.length - 1];
    if (last && last[last.length - 1].nextElementSibling === answer) last.push(answer);
    else questions.push([answer]);
  }
  if (!questions.length) return;

  const place = `quiz ${location.pathname.split("/").pop()}`;
  let chosen = {};
  try {
    chosen = JSON.parse(localStorage.getItem(place)) || {};
  } catch { /* nothing is kept where the browser keeps nothing */ }

  const right = (answer) => answer.querySelector("strong")?.textContent === "Right.";
  const total = document.createElement("p");
  total.setAttribute("role", "status");
  const again = document.createElement("button");
  again.type = "button";
  again.className = "quiz-again";
  again.textContent = "Start the quiz again";
  const end = questions[questions.length - 1];
  end[end.length - 1].after(total, again);

  function show() {
    questions.forEach((answers, q) => answers.forEach((answer, a) => {
      const seen = (chosen[q] || []).includes(a);
      answer.classList.toggle("quiz-right", seen && right(answer));
      answer.classList.toggle("quiz-wrong", seen && !right(answer));
    }));
    const begun = questions.filter((_, q) => chosen[q]?.length);
    const first = questions.filter((answers, q) => chosen[q]?.length && right(answers[chosen[q][0]]));
    again.hidden = !begun.length;
    total.textContent = begun.length
      ? `${first.length} of ${begun.length} right at the first choice; ` +
        `the quiz has ${questions.length} questions.`
      : "";
    try {
      localStorage.setItem(place, JSON.stringify(chosen));
    } catch { /* see above */ }
  }

  questions.forEach((answers, q) => answers.forEach((answer, a) =>
    answer.addEventListener("toggle", () => {
      if (!answer.open || (chosen[q] || []).includes(a)) return;
      (chosen[q] ||= []).push(a);
      show();
    })));
  again.addEventListener("click", () => {
    chosen = {};
    questions.flat().forEach((answer) => { answer.open = false; });
    show();
    questions[0][0].querySelector("summary").focus();
  });
  show();
});
