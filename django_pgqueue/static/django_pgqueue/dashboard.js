// Replaces the figures of the dashboard every few seconds while the page is visible. Without it the page is complete, and is not refreshed.
"use strict";

(() => {
    const part = document.getElementById("pgqueue-part");
    const status = document.getElementById("pgqueue-status");
    const wanted = document.getElementById("pgqueue-refresh");
    if (!part || !status || !wanted) return;

    const seconds = Number(part.dataset.seconds) || 15;
    const longest = 30_000;
    const title = document.title;
    let timer = null;
    let running = false;
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

    // A user who selects text or uses the keyboard must not lose the position.
    function isInUse() {
        const selection = document.getSelection();
        return Boolean(selection && !selection.isCollapsed && part.contains(selection.anchorNode));
    }

    function show(html) {
        const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
        const boxes = () => [...part.querySelectorAll(".pgqueue-wide, .pgq-scroll")];
        const scrolled = boxes().map((box) => box.scrollLeft);
        part.innerHTML = html;
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
            const html = await load();
            if (!isInUse()) show(html);
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
})();
