// node search.js SITE QUESTIONS: what the search of a built site finds for each question, as JSON, the best first.
"use strict";
const fs = require("fs");
const vm = require("vm");

const [site, questions] = process.argv.slice(2);
const page = { DOCUMENTATION_OPTIONS: {}, SPHINX_HIGHLIGHT_ENABLED: false, document: { getElementById: () => null } };
page.window = page;
page._ = (text) => text;
page._ready = () => {};
page.localStorage = { setItem: () => {} };
vm.createContext(page);
for (const file of ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"])
  vm.runInContext(fs.readFileSync(`${site}/${file}`, "utf8"), page, { filename: file });
// The search takes its results from the end of the list.
const find = vm.runInContext("(text) => Search._performSearch(...Search._parseQuery(text)).reverse()", page);
const found = JSON.parse(questions).map((text) => [text, find(text).map(([name]) => name)]);
console.log(JSON.stringify(Object.fromEntries(found)));
