// Refreshes the board in place. Without this script the page is the same, and a reload renews it.
"use strict";

(() => {
  const EVERY_MS = 2000;
  const board = document.getElementById("board");
  const lost = document.getElementById("lost");
  let refreshed = 0;

  const parts = (root) => [...root.querySelectorAll("[data-part]")];
  const outline = (root) =>
    [...root.querySelectorAll("[data-part], details")].map((part) => part.dataset.part || part.id).join("\n");

  // A part's element stays, so that screen readers hear of a new headline; its content is renewed where it changed.
  function renew(held, part) {
    const marked = document.getSelection();
    if (held.outerHTML === part.outerHTML || (!marked.isCollapsed && marked.containsNode(held, true))) return;
    const focused = held.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    held.className = part.className;
    held.replaceChildren(...part.childNodes);
    if (focused) held.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  function take(fresh) {
    if (outline(fresh) === outline(board)) {
      const held = parts(board);
      parts(fresh).forEach((part, index) => renew(held[index], part));
      return;
    }
    const open = new Map([...board.querySelectorAll("details")].map((each) => [each.id, each.open]));
    board.replaceChildren(...fresh.childNodes);
    board.querySelectorAll("details").forEach((each) => {
      if (open.has(each.id)) each.open = open.get(each.id);
    });
  }

  async function refresh() {
    const answer = await fetch(board.dataset.refresh, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(`the sidecar answered ${answer.status}`);
    take(new DOMParser().parseFromString(await answer.text(), "text/html").body);
    document.title = board.querySelector("[data-title]").dataset.title;
  }

  async function turn() {
    try {
      if (!document.hidden) await refresh();
      lost.hidden = true;
      document.documentElement.dataset.refreshed = String(++refreshed);
    } catch (error) {
      lost.textContent = `Connection lost (${error.message}). What stands below is old; trying again.`;
      lost.hidden = false;
    }
    setTimeout(turn, EVERY_MS);
  }

  setTimeout(turn, EVERY_MS);
})();
