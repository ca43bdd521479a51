'use strict';
(() => {
  const login = document.getElementById('login');
  const token = location.hash.slice(1);
  if (login && token) {
    history.replaceState(null, '', location.pathname);
    login.token.value = token;
    login.submit();
    return;
  }
  if (/^[A-Z2-7]{20,}$/.test(token)) history.replaceState(null, '', location.pathname + location.search);
  document.documentElement.classList.add('script');

  document.addEventListener('click', async e => {
    if (!e.target.matches('.copy')) return;
    await navigator.clipboard.writeText(e.target.previousElementSibling.textContent);
    e.target.textContent = 'Copied';
    setTimeout(() => { e.target.textContent = 'Copy'; }, 1500);
  });

  const main = document.querySelector('main[data-seen]');
  if (!main) return;

  // The server sends what changed: whole elements, by their IDs.
  const focusable = 'a, button, input, [tabindex]';
  const replace = ({id, html}) => {
    const old = document.getElementById(id);
    if (!old) return;
    const made = document.createElement('template');
    const drawn = old.tagName === 'g';
    made.innerHTML = drawn ? `<svg>${html}</svg>` : html;
    const fresh = drawn ? made.content.firstChild.firstChild : made.content.firstElementChild;
    const at = [...old.querySelectorAll(focusable)].indexOf(document.activeElement);
    old.replaceWith(fresh);
    if (at >= 0) fresh.querySelectorAll(focusable)[at]?.focus();
  };
  const live = document.getElementById('live');
  const say = (state, text) => { live.className = `live ${state}`; live.textContent = text; };
  const query = new URLSearchParams(location.search);
  query.set('seen', main.dataset.seen);
  const source = new EventSource(`events?${query}`);
  source.onopen = () => say('good', 'live');
  source.onerror = () => {
    say('bad', 'agentctl ui is not reached: this is old');
    // It was reached and said no, as to one who must sign in again: the page itself says why.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
  };
  source.onmessage = e => {
    JSON.parse(e.data).forEach(replace);
    document.title = document.getElementById('summary').dataset.title;
  };

  // The reason of a cell, for those who use no mouse.
  const detail = document.getElementById('detail');
  const why = e => {
    const cell = e.target.closest('[title]');
    if (!cell || !cell.closest('.matrix')) return;
    detail.textContent = cell.title;
    detail.classList.add('on');
  };
  document.addEventListener('focusin', why);
  document.addEventListener('mouseover', why);
})();
