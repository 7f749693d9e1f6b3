// Adds to the console's pages: refreshing, times in the reader's zone, selecting and copying.
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
let wasHeld = false;
let isAsking = false;
let fetchedAt = Date.now();

// Refreshing

const isDirty = (field) =>
  field.type === 'checkbox'
    ? field.checked !== field.defaultChecked
    : field.type !== 'hidden' && field.value !== field.defaultValue;

const isHeld = () => isPaused || isBusy();

/** Whether someone is typing, selecting or filling a form, which a refresh would undo. */
function isBusy() {
  return (
    Boolean(find('[data-unsent]')) ||
    main.contains(document.activeElement?.closest('input, select, textarea') ?? null) ||
    all('details[open]', main).length > 0 ||
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
  live.dataset.drawn ??= find('time', live).textContent;
  const words = `${reason}, as of ${live.dataset.drawn}`;
  if (live.textContent !== words) live.textContent = words;
}

/** A server that takes longer does not answer: the page says so instead of looking fresh. */
const LONGEST_ANSWER_MS = 10_000;

/** @param isForced by key: also while updates are paused. */
async function refresh() {
  fetchedAt = Date.now();
  const signal = AbortSignal.timeout(LONGEST_ANSWER_MS);
  const response = await fetch(location.href, { headers: { accept: 'text/html' }, signal }).catch(() => null);
  if (response?.status === 401) return showSignedOut();
  // The connection may also end within the answer.
  const text = await response?.text().catch(() => null);
  const fresh = new DOMParser().parseFromString(text ?? '', 'text/html');
  const away = find('[data-away]', fresh);
  if (!(response?.ok && text) && !away) return showStale('Not updated: the server did not answer');
  if (!find('#navigation', fresh)) return showSignedOut();
  showTimes(fresh);
  document.title = fresh.title;
  // Someone may have begun to type or to select meanwhile.
  if (!isHeld()) return swap(fresh);
  showStale(away ? away.textContent.trim().replace(/\.$/, '') : 'Not refreshing');
  if (!isPaused && !away) follow(fresh);
}

/** Says how the action goes on, in the region that is there already: screen readers hear what changes in it. */
function follow(fresh) {
  const [region, news] = [find('#done'), find('#done', fresh)];
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
  replaceAround(find('#done'), find('#done', fresh));
  main.dataset.refresh = find('main', fresh).dataset.refresh;
  find('#navigation').replaceChildren(...find('#navigation', fresh).childNodes);
  for (const [index, region] of all('.scroll', main).entries()) region.scrollLeft = scrolled[index] ?? 0;
  if (focused >= 0) all(focusable, main)[focused]?.focus({ preventScroll: true });
  const news = find('[data-alert]')?.textContent;
  if (news && news !== alert) announce(news);
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

const HIDDEN_SECONDS = 60;

setInterval(() => {
  const seconds = Number(main.dataset.refresh ?? 0);
  if (seconds === 0 || isSignedOut) return;
  if (isHeld() && !wasHeld) showStale('Not refreshing');
  if (isHeld() !== wasHeld) showPause();
  // The page is refreshed as soon as nothing holds it.
  if (wasHeld && !isHeld()) fetchedAt = 0;
  wasHeld = isHeld();
  // A slow server is not asked again meanwhile, nor does an older answer come after a newer one.
  if (isPaused || isAsking) return;
  // While someone types, it is asked all the same whether the database is there and how an action goes on.
  // Nobody looks, but the title says how many incidents happen now. A timer may fire a little early.
  const pause = document.hidden ? Math.max(seconds, HIDDEN_SECONDS) : seconds;
  if (Date.now() - fetchedAt < pause * 1000 - 100) return;
  isAsking = true;
  void refresh().finally(() => (isAsking = false));
}, 1000);

// Times

const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Writes the times of a page, which the server has in UTC, in the browser’s zone, or in UTC where that was chosen. */
function showTimes(page) {
  const timeZone = localStorage.zone === 'UTC' ? 'UTC' : ownZone;
  const name = timeZone === 'UTC' ? ' UTC' : '';
  const two = '2-digit';
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: two,
    minute: two,
    second: two,
    hourCycle: 'h23',
  });
  const calendar = new Intl.DateTimeFormat('en-CA', { timeZone });
  const dayOf = (at) => Date.parse(calendar.format(at)) / 86_400_000;
  for (const element of all('time, [data-at]', page)) {
    const at = new Date(element.dataset.at ?? element.dateTime);
    const is = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]));
    const [date, clock] = [`${is.day} ${is.month} ${is.year}`, `${is.hour}:${is.minute}`];
    const days = Math.abs(dayOf(new Date()) - dayOf(at));
    const day = days === 0 ? '' : days < 7 ? `${is.weekday} ` : `${date} `;
    const words = {
      second: day + clock + (day === '' ? `:${is.second}` : '') + name,
      weekday: `${is.weekday} ${clock}`,
      // Of a chart: one of its labels of each day has the weekday.
      axis: is.hour === '00' ? is.weekday : is.hour < '06' ? `${is.weekday} ${clock}` : clock,
    }[element.dataset.to ?? 'second'];
    element.textContent = element.dateTime ? words : element.textContent.replace(LEADING_TIME, words);
    if (element.title) element.title = `${is.weekday} ${date}, ${clock}:${is.second}, ${timeZone}`;
  }
  for (const element of all('[data-zone-name]', page)) element.textContent = timeZone;
  const button = find('[data-zone]', page);
  if (!button) return;
  button.textContent = timeZone === 'UTC' ? `Show ${ownZone}` : 'Show UTC';
  button.hidden = ownZone === 'UTC';
}

const LEADING_TIME = /^(?:[A-Z][a-z]{2} ?)?(?:\d\d:\d\d)?/;

function toggleZone() {
  localStorage.zone = localStorage.zone === 'UTC' ? 'own' : 'UTC';
  showTimes(document);
  announce(find('[data-zone]').previousElementSibling.textContent);
}

// Selecting

const boxesOf = (list) => all('[data-box]', list);
let lastBox = null;

function countSelected() {
  for (const list of all('[data-bulk]')) {
    const boxes = boxesOf(list);
    const number = boxes.filter((box) => box.checked).length;
    find('[data-selected]', list).textContent = `${number} selected`;
    const button = find('[data-bulk-button]', list);
    if (button) button.textContent = `Replay ${number} ${button.dataset.bulkButton}…`;
    find('[data-all]', list).checked = number > 0 && number === boxes.length;
  }
}

function selectTo(box, isShift) {
  const boxes = boxesOf(box.form);
  const [from, to] = [boxes.indexOf(lastBox), boxes.indexOf(box)].toSorted((one, other) => one - other);
  if (isShift && from >= 0) for (const each of boxes.slice(from, to + 1)) each.checked = box.checked;
  lastBox = box;
}

function selectAll(list, isSelected) {
  for (const box of boxesOf(list)) box.checked = isSelected;
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
  const button = find('[data-pause]');
  if (!button) return;
  find('span', button).textContent = isPaused ? 'Refresh again' : 'Stop refreshing';
  find('.ico', button).toggleAttribute('hidden', isPaused);
  // While someone types or selects there is nothing to stop.
  button.classList.toggle('needless', !isPaused && isBusy());
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
  if (clicked('[data-zone]')) toggleZone();
  if (clicked('[data-pause]')) togglePause();
  if (clicked('[data-copy]')) void copy(clicked('[data-copy]'));
  if (clicked('[data-clear]')) selectAll(clicked('[data-clear]').form, false);
  if (clicked('[data-all]')) selectAll(clicked('[data-all]').form, clicked('[data-all]').checked);
  if (clicked('[data-box]')) selectTo(clicked('[data-box]'), event.shiftKey);
  countSelected();
});

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

// Loading

showTimes(document);

// The form of a sign-in link.
find('[data-send]')?.requestSubmit();

function openTarget() {
  const target = document.getElementById(decoded(location.hash.slice(1)));
  if (target?.matches('details')) target.open = true;
}

/** Decodes a text; one that is malformed, as an address may have it, stays as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
addEventListener('hashchange', openTarget);
openTarget();
countSelected();
// What was there when the page was opened is no change that a screen reader hears of.
const told = find('#done')?.textContent.trim();
if (told) announce(told.replaceAll(/\s+/g, ' '));
