// Replaces the figures of the dashboard, or the rows of a list, every few seconds while the page is visible, and gives lists some keys. Without it each page is complete, and is not refreshed.
"use strict";

(() => {
    const part = document.querySelector("#pgqueue-part, #changelist-form");
    const status = document.getElementById("pgqueue-status");
    const wanted = document.getElementById("pgqueue-refresh");
    const help = document.getElementById("pgqueue-keys");
    if (!part || !status || !wanted) return;

    const seconds = Number(wanted.dataset.seconds) || 15;
    const longest = 30_000;
    const title = document.title;
    let timer = null;
    let running = false;
    let isNew = false;
    let last = new Date();

    wanted.closest("[hidden]").hidden = false;

    class Refused extends Error {}

    function fill(text, values) {
        return text.replace(/%\((\w+)\)s/g, (_all, name) => values[name]);
    }

    async function load() {
        const response = await fetch(location.href, {
            headers: {"X-Pgqueue-Part": "1"},
            redirect: "manual",
            cache: "no-store",
            signal: AbortSignal.timeout(longest),
        });
        if (response.type === "opaqueredirect") throw new Refused(status.dataset.login);
        if (!response.ok) throw new Refused(fill(status.dataset.answer, {status: response.status}));
        return response.text();
    }

    // A user who selects text, has ticked a row or chooses an action must not lose that.
    function isInUse() {
        const selection = document.getSelection();
        if (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) return true;
        if (!part.matches("form")) return false;
        const isChosen = [...part.querySelectorAll("select")].some((select) => select.value);
        return isChosen || Boolean(part.querySelector("input:checked, :is(input, select, textarea):focus"));
    }

    // The dashboard answers with its part alone, a list with the whole page.
    function show(html) {
        const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
        const boxes = () => [...part.querySelectorAll(".pgqueue-wide, .pgq-scroll, .results")];
        const scrolled = boxes().map((box) => box.scrollLeft);
        const page = new DOMParser().parseFromString(html, "text/html");
        part.innerHTML = (page.getElementById(part.id) ?? page.body).innerHTML;
        isNew = true;
        boxes().forEach((box, place) => { box.scrollLeft = scrolled[place] ?? box.scrollLeft; });
        if (focused) {
            const again = [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused);
            if (again) again.focus({preventScroll: true});
        }
        showAlertCount();
    }

    function showAlertCount() {
        const found = part.querySelector("[data-alerts]");
        const alerts = found ? Number(found.dataset.alerts) : 0;
        document.title = alerts ? `(${alerts}) ${title}` : title;
    }

    async function refresh() {
        if (running) return;
        running = true;
        try {
            const html = isInUse() ? null : await load();
            if (html !== null && !isInUse()) show(html);
            last = new Date();
            status.hidden = true;
        } catch (error) {
            const reason = error instanceof Refused ? error.message : status.dataset.network;
            status.textContent = fill(status.dataset.error, {since: last.toLocaleTimeString(), reason});
            status.hidden = false;
        } finally {
            running = false;
            plan();
        }
    }

    function plan() {
        clearTimeout(timer);
        timer = null;
        if (wanted.checked && !document.hidden) timer = setTimeout(refresh, seconds * 1000);
    }

    document.addEventListener("visibilitychange", () => {
        if (!document.hidden && wanted.checked && Date.now() - last > seconds * 1000) refresh();
        else plan();
    });
    wanted.addEventListener("change", plan);
    showAlertCount();
    plan();
    if (!help) return;

    const ticked = () => part.querySelector("input.action-select:checked");
    const rows = () => [...part.querySelectorAll("#result_list > tbody > tr")];
    const current = () => rows().find((row) => row.contains(document.activeElement));

    // The script of the admin knows the boxes of the page as it was loaded. Before one changes, it gets the present ones.
    part.addEventListener("click", () => {
        const boxes = part.querySelectorAll("input.action-select");
        if (isNew && boxes.length && window.Actions) window.Actions(boxes);
        isNew = false;
    }, true);

    function step(by) {
        const all = rows();
        all[all.indexOf(current()) + by]?.querySelector("th a")?.focus();
    }

    // Sends the form with the first of these actions that the list has, for the ticked rows or else the current one.
    function act(...names) {
        const select = part.querySelector("select[name=action]");
        const option = [...(select?.options ?? [])].find(({value}) => names.includes(value));
        if (!option) return;
        if (!ticked()) current()?.querySelector("input.action-select")?.click();
        if (!ticked()) return;
        select.value = option.value;
        part.querySelector("button[name=index]").click();
    }

    const keys = {
        j: () => step(1),
        k: () => step(-1),
        o: () => current()?.querySelector("th a")?.click(),
        r: () => act("redrive", "retry_now"),
        p: () => act("pause"),
        "?": () => help.showModal(),
    };
    document.addEventListener("keydown", (event) => {
        const isTyping = event.target.closest("input:not([type=checkbox]), select, textarea, [contenteditable], dialog");
        if (!Object.hasOwn(keys, event.key) || event.ctrlKey || event.altKey || event.metaKey || isTyping) return;
        event.preventDefault();
        keys[event.key]();
    });
    document.getElementById("pgqueue-help").addEventListener("click", keys["?"]);
})();
