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
  const main = document.querySelector('main[data-seen]');
  if (!main) return;
  if (/^[A-Z2-7]{20,}$/.test(token)) history.replaceState(null, '', location.pathname + location.search);
  document.documentElement.classList.add('script');

  document.addEventListener('click', async e => {
    if (!e.target.matches('.copy')) return;
    await navigator.clipboard.writeText(e.target.previousElementSibling.textContent);
    e.target.textContent = 'Copied';
    setTimeout(() => { e.target.textContent = 'Copy'; }, 1500);
  });

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
