// Adds to the console's pages: refreshing, filtering, selecting and keyboard shortcuts.
// Every page, link and form works without it.

const root = document.documentElement;
if (localStorage.theme) root.dataset.theme = localStorage.theme;
// If storage is forbidden, the script has failed by now, and the page works without it.
root.classList.add('js');

const find = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const main = find('main');
let isPaused = false;
let isSignedOut = false;
let fetchedAt = Date.now();

// Refreshing

const isDirty = (field) =>
  field.type === 'checkbox'
    ? field.checked !== field.defaultChecked
    : field.type !== 'hidden' && field.value !== field.defaultValue;

const isHeld = () => isPaused || document.hidden || isBusy();

/** Whether someone is typing, selecting or filling a form, which a refresh would undo. */
function isBusy() {
  return (
    Boolean(find('#keys[open], [data-unsent]')) ||
    main.contains(document.activeElement?.closest('input, select, textarea') ?? null) ||
    all('details[open]:not([data-opened])', main).length > 0 ||
    all('input', main).some(isDirty) ||
    all('option', main).some((option) => option.selected !== option.defaultSelected)
  );
}

/** Announces words to screen readers. */
function announce(words) {
  find('#said').textContent = words;
}

/** Says why the page is not refreshed, and when it was drawn. */
function showStale(reason) {
  const live = find('[data-live]');
  if (!live) return;
  live.closest('.live').classList.add('held');
  live.dataset.at ??= find('time', live).textContent;
  const words = `${reason}, as of ${live.dataset.at}`;
  if (live.textContent !== words) live.textContent = words;
}

/** Whether the page waits for an action to end, which it asks each second. */
const isFollowing = () => main.dataset.refresh === '1';

/** A server that takes longer does not answer: the page says so instead of looking fresh. */
const LONGEST_ANSWER_MS = 10_000;

/** @param isForced by key: also while updates are paused. */
async function refresh(isForced = false) {
  fetchedAt = Date.now();
  const signal = AbortSignal.timeout(LONGEST_ANSWER_MS);
  const response = await fetch(location.href, { headers: { accept: 'text/html' }, signal }).catch(() => null);
  if (response?.status === 401) return showSignedOut();
  if (!response?.ok) return showStale('Not updated: the server did not answer');
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
  if (!find('#navigation', fresh)) return showSignedOut();
  // Someone may have begun to type or to select meanwhile.
  if (isForced ? !isBusy() : !isHeld()) swap(fresh);
  else if (!isPaused) follow(fresh);
}

/** Says how the action goes on, in the region that is there already: screen readers hear what changes in it. */
function follow(fresh) {
  const [region, news] = [find('#following'), find('#following', fresh)];
  if (!region || !news) return;
  main.dataset.refresh = find('main', fresh).dataset.refresh;
  region.className = news.className;
  if (region.textContent !== news.textContent) region.replaceChildren(...news.childNodes);
}

function showSignedOut() {
  isSignedOut = true;
  showStale('Signed out: reload to sign in');
  announce('Signed out. Reload to sign in.');
}

/** Replaces the page; focus and the tables' scroll positions stay. */
function swap(fresh) {
  const alert = find('[data-alert]')?.textContent;
  const scrolled = all('.scroll', main).map((region) => region.scrollLeft);
  const focusable = 'a, button, summary, [tabindex="0"]';
  const focused = all(focusable, main).indexOf(document.activeElement);
  follow(fresh);
  replaceAround(find('#following'), find('#following', fresh));
  main.dataset.refresh = find('main', fresh).dataset.refresh;
  find('#navigation').replaceChildren(...find('#navigation', fresh).childNodes);
  for (const [index, region] of all('.scroll', main).entries()) region.scrollLeft = scrolled[index] ?? 0;
  if (focused >= 0) all(focusable, main)[focused]?.focus({ preventScroll: true });
  const news = find('[data-alert]')?.textContent;
  if (news && news !== alert) announce(news);
  filter();
  showPause();
}

/** Replaces everything in the page but the region. */
function replaceAround(region, news) {
  const nodes = [...news.parentNode.childNodes];
  while (region.previousSibling) region.previousSibling.remove();
  while (region.nextSibling) region.nextSibling.remove();
  region.before(...nodes.slice(0, nodes.indexOf(news)));
  region.after(...nodes.slice(nodes.indexOf(news) + 1));
}

setInterval(() => {
  const seconds = Number(main.dataset.refresh ?? 0);
  if (seconds === 0 || isSignedOut) return;
  if (isHeld() && !(isFollowing() && isBusy() && !isPaused)) {
    // The page is refreshed as soon as nothing holds it.
    fetchedAt = 0;
    return showStale('Not refreshing');
  }
  // A timer may fire a little early.
  if (Date.now() - fetchedAt >= seconds * 1000 - 100) void refresh();
}, 1000);

// Filtering and selecting

/** Hides topics that do not match the filter, and groups without a match. */
function filter() {
  const field = find('[data-filter]');
  if (!field) return;
  const words = field.value.trim().toLowerCase();
  const list = find(field.dataset.filter);
  const rows = all('[data-words]', list);
  for (const row of rows) row.hidden = !row.dataset.words.includes(words);
  for (const group of all('[data-group]', list))
    group.hidden = all('[data-words]:not([hidden])', group).length === 0;
  for (const more of all('details.more', list)) more.open = more.hasAttribute('data-opened') || words !== '';
  find('[data-none]').hidden = rows.length === 0 || rows.some((row) => !row.hidden);
}

const boxes = () => all('input[name=deliveryIds]');
let lastBox = null;

function countSelected() {
  const number = boxes().filter((box) => box.checked).length;
  if (!find('[data-bulk]')) return;
  find('[data-selected]').textContent = `${number} selected`;
  find('[data-bulk-button]').textContent = `Replay ${number} selected…`;
  find('[data-all]').checked = number > 0 && number === boxes().length;
}

function selectTo(box, isShift) {
  const [from, to] = [boxes().indexOf(lastBox), boxes().indexOf(box)].toSorted((one, other) => one - other);
  if (isShift && from >= 0) for (const each of boxes().slice(from, to + 1)) each.checked = box.checked;
  lastBox = box;
}

function selectAll(isSelected) {
  for (const box of boxes()) box.checked = isSelected;
}

// Clicks

/** A browser may refuse the clipboard; the text can still be selected. */
async function copy(button) {
  const isCopied = await navigator.clipboard?.writeText(find(button.dataset.copy).textContent).then(
    () => true,
    () => false,
  );
  const words = isCopied ? 'Copied' : 'Not copied';
  find('span', button).textContent = words;
  announce(words);
  setTimeout(() => (find('span', button).textContent = 'Copy'), 3000);
}

function toggleTheme() {
  const isDark =
    (root.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : '')) === 'dark';
  localStorage.theme = root.dataset.theme = isDark ? 'light' : 'dark';
}

function showPause() {
  const words = find('[data-pause] span');
  if (words) words.textContent = isPaused ? 'Refresh again' : 'Stop refreshing';
}

function togglePause() {
  isPaused = !isPaused;
  showPause();
  announce(isPaused ? 'Not refreshing' : 'Refreshing again');
  if (isPaused) showStale('Not refreshing');
  else void refresh();
}

document.addEventListener('click', (event) => {
  const clicked = (selector) => event.target.closest(selector);
  if (clicked('[data-theme-toggle]')) toggleTheme();
  if (clicked('[data-pause]')) togglePause();
  if (clicked('[data-keys]')) find('#keys').showModal();
  if (clicked('[data-copy]')) void copy(clicked('[data-copy]'));
  if (clicked('[data-clear]')) selectAll(false);
  if (clicked('[data-all]')) selectAll(clicked('[data-all]').checked);
  if (clicked('input[name=deliveryIds]')) selectTo(clicked('input[name=deliveryIds]'), event.shiftKey);
  countSelected();
});
document.addEventListener('input', (event) => event.target.matches('[data-filter]') && filter());

// Buttons are disabled after the form is read: the value of a disabled button is not sent.
document.addEventListener('submit', (event) => {
  if (event.target.method === 'post') setTimeout(() => setButtons(event.target, true));
});
addEventListener('pageshow', () => {
  for (const form of document.forms) setButtons(form, false);
});

function setButtons(form, isDisabled) {
  for (const button of all('button:not([type=button])', form)) button.disabled = isDisabled;
}

// Keys

const PAGES = {
  o: '',
  i: '/incidents',
  e: '/events',
  d: '/dead-letters',
  p: '/replays',
  w: '/webhooks',
  c: '/catalog',
  h: '/doctor',
};
const FIELDS = { '/': '[data-find]', f: 'main [data-filter], main [data-search]' };
let before = '';

document.addEventListener('keydown', (event) => {
  const isTyping = event.target.closest('input:not([type=checkbox]), select, textarea, dialog');
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || localStorage.keys === 'off') return;
  const { key } = event;
  const field = key in FIELDS && find(FIELDS[key]);
  if (before === 'g' && key in PAGES) location.assign(`/platform/event-bus${PAGES[key]}`);
  else if (field) field.focus();
  else if (key === 'r' && main.dataset.refresh > 0) void refresh(true);
  else if (key === '?') find('#keys')?.showModal();
  if (field) event.preventDefault();
  before = key;
});

const useKeys = find('[data-keys-on]');
if (useKeys) {
  useKeys.checked = localStorage.keys !== 'off';
  useKeys.addEventListener('change', () => (localStorage.keys = useKeys.checked ? 'on' : 'off'));
}

// Loading

/**
 * Takes the token from the sign-in link of `npm start`: it is after the #, which the browser sends to no server. On the
 * sign-in page itself, following the link loads nothing and changes only what is after the #.
 */
function takeToken() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  const field = find('[data-token]');
  if (!token || !field) return;
  field.value = token;
  history.replaceState(null, '', location.pathname + location.search);
  find('.primary', field.form).focus();
}
addEventListener('hashchange', takeToken);
takeToken();

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target?.matches('details')) target.open = true;
}
addEventListener('hashchange', openTarget);
openTarget();
filter();
countSelected();
// What was there when the page was opened is no change that a screen reader hears of.
const told = find('#following')?.textContent.trim();
if (told) announce(told.replaceAll(/\s+/g, ' '));
