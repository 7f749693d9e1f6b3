// The script of an example marketing site. It calls the functions on another origin, as a real one does, and speaks
// Norwegian: the API's texts are for developers, so visitors get words of ours by the codes of its problems.
const api = new URLSearchParams(location.search).get('api') ?? 'http://localhost:3000';
const SYSTEM = 'Du svarer på spørsmål om leie av kommunale lokaler i Solvik.';
const messages = [];

const turns = document.querySelector('#turns');
const chatStatus = document.querySelector('#chat-status');
const inquiryStatus = document.querySelector('#inquiry-status');

// What a visitor has typed is cleared only when it has arrived.

document.querySelector('#chat').addEventListener('submit', async (event) => {
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

document.querySelector('#inquiry').addEventListener('submit', async (event) => {
  event.preventDefault();
  const form = event.target;
  setBusy(form, true);
  inquiryStatus.textContent = 'Sender …';
  try {
    await post('/api/inquiry', Object.fromEntries(new FormData(form)));
    form.reset();
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
  const body = { system: SYSTEM, messages: conversation.slice(-15) };
  const response = await post('/api/chat', body, { accept: 'text/event-stream' });
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
      if (name === 'done') return into.textContent;
    }
  }
}

/** @throws Refused for an answer with a problem; TypeError without an answer. */
async function post(path, body, headers = {}) {
  const response = await fetch(api + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  if (response.ok) return response;
  throw new Refused(await response.json().catch(() => ({})), response.headers.get('retry-after'));
}

/** A problem that the API answers. */
class Refused extends Error {
  constructor({ code = '', issues = [] }, retryAfter = null) {
    super(code);
    Object.assign(this, { code, issues, retryAfter });
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
  const { code, issues, retryAfter } = error;
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
    field.removeAttribute('aria-invalid');
  });
}

/** Marks the fields that the API did not accept, and goes to the first. */
function markFields(form, issues) {
  const wrong = issues.flatMap(({ path }) => form.elements[path] ?? []);
  for (const field of wrong) field.setAttribute('aria-invalid', 'true');
  wrong[0]?.focus();
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
