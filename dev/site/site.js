// The script of an example marketing site. It calls the functions on another origin, as a real one does, and speaks
// Norwegian: the API's texts are for developers, so visitors get words of ours by the codes of its problems.
const SYSTEM = 'Du svarer på spørsmål om leie av kommunale lokaler i Solvik.';
const messages = [];

const chat = document.querySelector('#chat');
const inquiry = document.querySelector('#inquiry');
const turns = document.querySelector('#turns');
const chatStatus = document.querySelector('#chat-status');
const inquiryStatus = document.querySelector('#inquiry-status');

// What a visitor has typed is cleared only when it has arrived.

// It needs this script.
chat.hidden = false;
chat.addEventListener('submit', async (event) => {
  event.preventDefault();
  const form = event.target;
  const question = form.elements.question.value.trim();
  if (!question) return;
  const asked = { role: 'user', content: question };
  const shown = [turn('user', question), turn('assistant', '')];
  setBusy(form, true);
  chatStatus.textContent = 'Skriver …';
  try {
    const text = await answer([...messages, asked], shown[1]);
    messages.push(asked, { role: 'assistant', content: text });
    form.reset();
    chatStatus.textContent = '';
  } catch (error) {
    for (const each of shown) each.remove();
    chatStatus.textContent = wordsOf(error, 'Spørsmålet ditt står der fortsatt.');
  } finally {
    setBusy(form, false);
  }
});

// One key for what was typed, however often it is sent: an answer that got lost does not send it twice.
let idempotencyKey = crypto.randomUUID();
inquiry.addEventListener('input', () => (idempotencyKey = crypto.randomUUID()));

inquiry.addEventListener('submit', async (event) => {
  event.preventDefault();
  const form = event.target;
  const sent = new FormData(form);
  setBusy(form, true);
  markFields(form, []);
  inquiryStatus.textContent = 'Sender …';
  try {
    await post(form.action, sent, { accept: 'application/json', 'idempotency-key': idempotencyKey });
    form.reset();
    idempotencyKey = crypto.randomUUID();
    inquiryStatus.textContent = 'Takk! Vi svarer så snart vi kan.';
  } catch (error) {
    inquiryStatus.textContent = wordsOf(error, 'Det du skrev, står der fortsatt.');
    markFields(form, error.issues ?? []);
  } finally {
    setBusy(form, false);
  }
});

/** Streams an answer into an element. @returns its text. */
async function answer(conversation, into) {
  const body = JSON.stringify({ system: SYSTEM, messages: conversation.slice(-15) });
  const headers = { accept: 'text/event-stream', 'content-type': 'application/json' };
  const response = await post(chat.action, body, headers);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffered = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Refused({ code: 'provider_unreachable' });
    buffered += value;
    const events = buffered.split('\n\n');
    buffered = events.pop();
    for (const event of events) {
      const [, name] = /^event: (.*)$/m.exec(event) ?? [];
      const [, data] = /^data: (.*)$/m.exec(event) ?? [];
      if (name === 'delta') into.textContent += JSON.parse(data).text;
      if (name === 'error') throw new Refused(JSON.parse(data));
      if (name !== 'done') continue;
      if (JSON.parse(data).finishReason === 'length') into.textContent += ' …';
      return into.textContent;
    }
  }
}

/** @throws Refused for an answer with a problem; TypeError without an answer. */
async function post(url, body, headers) {
  const response = await fetch(url, { method: 'POST', headers, body });
  if (response.ok) return response;
  throw new Refused(await response.json().catch(() => ({})), response.headers.get('retry-after'));
}

/** A problem that the API answers. */
class Refused extends Error {
  constructor({ code = '', issues = [], kept = false, mayBeSent = false }, retryAfter = null) {
    super(code);
    Object.assign(this, { code, issues, kept, mayBeSent, retryAfter });
  }
}

// Words

const BUSY = 'Tjenesten svarer ikke akkurat nå. Prøv igjen om litt.';
const NOT_SENT = 'Vi fikk ikke sendt henvendelsen. Prøv igjen om litt.';
const CLOSED = 'Denne tjenesten er ikke slått på ennå.';
const PROBLEMS = {
  body_too_large: 'Teksten er for lang.',
  origin_not_allowed: 'Denne siden har ikke lov til å bruke tjenesten.',
  chat_not_configured: CLOSED,
  email_not_configured: CLOSED,
  email_failed: NOT_SENT,
  email_timeout: NOT_SENT,
  email_unreachable: NOT_SENT,
  provider_bad_response: BUSY,
  provider_rejected: BUSY,
  provider_timeout: 'Svaret tok for lang tid. Prøv igjen.',
  provider_unavailable: BUSY,
  provider_unreachable: 'Svaret stoppet underveis. Prøv igjen.',
};
const FIELDS = {
  name: 'Navn',
  email: 'E-post',
  organization: 'Organisasjon',
  persona: 'Jeg er',
  message: 'Melding',
};
const ISSUES = {
  too_small: 'må fylles ut',
  too_big: 'er for lang',
  invalid_email: 'er ikke en gyldig e-postadresse, for eksempel kari@example.no',
};

/** Says what went wrong. @param kept says that nothing typed is lost. */
function wordsOf(error, kept) {
  if (!(error instanceof Refused)) return `Vi får ikke kontakt. ${kept} Sjekk nettet og prøv igjen.`;
  const { code, issues, mayBeSent, retryAfter } = error;
  if (error.kept) return 'Vi har tatt vare på henvendelsen. Du trenger ikke å sende den på nytt.';
  if (mayBeSent) return `Vi vet ikke om henvendelsen kom fram. ${kept}`;
  if (code === 'rate_limited') return `Litt for mange på én gang. ${kept} Prøv igjen om ${wait(retryAfter)}.`;
  if (issues.length > 0) return `${issues.map(issueWords).join('. ')}.`;
  return `${PROBLEMS[code] ?? 'Noe gikk galt hos oss. Prøv igjen om litt.'} ${kept}`;
}

function issueWords({ path, code }) {
  return `${FIELDS[path] ?? 'Skjemaet'} ${ISSUES[code] ?? 'er ikke riktig fylt ut'}`;
}

/** @param seconds as `Retry-After` has them. */
function wait(seconds) {
  const number = Number(seconds) || 60;
  if (number < 120) return `${number} sekunder`;
  return number < 7200 ? `${Math.ceil(number / 60)} minutter` : `${Math.ceil(number / 3600)} timer`;
}

// Browsers say it in their own language, which need not be the page's.
for (const field of document.querySelectorAll('input, textarea')) {
  field.addEventListener('invalid', () => {
    const { typeMismatch } = field.validity;
    field.setCustomValidity(
      typeMismatch ? 'Skriv en e-postadresse, for eksempel kari@example.no.' : 'Fyll ut dette feltet.',
    );
  });
  field.addEventListener('input', () => {
    field.setCustomValidity('');
    unmark(field);
  });
}

/** Says at each field what the API did not accept in it, and goes to the first. */
function markFields(form, issues) {
  for (const field of form.querySelectorAll('[aria-invalid]')) unmark(field);
  for (const issue of issues) {
    const field = form.elements.namedItem(issue.path);
    if (!field?.labels?.length || field.hasAttribute('aria-invalid')) continue;
    const error = document.createElement('p');
    error.id = `${issue.path}-error`;
    error.className = 'error';
    error.textContent = `${issueWords(issue)}.`;
    field.closest('label').after(error);
    field.setAttribute('aria-invalid', 'true');
    field.setAttribute('aria-describedby', error.id);
  }
  form.querySelector('[aria-invalid]')?.focus();
}

function unmark(field) {
  field.removeAttribute('aria-invalid');
  field.removeAttribute('aria-describedby');
  document.getElementById(`${field.name}-error`)?.remove();
}

/** While a request is under way, nothing is sent twice and what was typed stays as it is. */
function setBusy(form, isBusy) {
  form.querySelector('button').disabled = isBusy;
  for (const field of form.querySelectorAll('input, textarea')) field.readOnly = isBusy;
}

function turn(role, text) {
  const item = document.createElement('li');
  item.dataset.role = role;
  item.textContent = text;
  turns.append(item);
  return item;
}
