/* The scores of the site's search: Sphinx's own, but decisions, proofs and changes come after the guides. */
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^(how-to|tutorials)\//.test(page)) return score + 6;
    if (/^(explanation\/decisions|project)\//.test(page)) return score - 20;
    if (/^explanation\/(chaos|exactly-once-export|formal-model|interleavings|line|lock-order|model|scale)$/.test(page))
      return score - 10;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
