// The script of an example marketing site. It calls the functions on another origin, as a real one does.
const api = new URLSearchParams(location.search).get('api') ?? 'http://localhost:3000';
const SYSTEM = 'Du svarer på spørsmål om leie av kommunale lokaler i Solvik.';
const messages = [];

const turns = document.querySelector('#turns');
const chatStatus = document.querySelector('#chat-status');
const inquiryStatus = document.querySelector('#inquiry-status');

document.querySelector('#chat').addEventListener('submit', async (event) => {
  event.preventDefault();
  const question = event.target.elements.question.value.trim();
  if (!question) return;
  event.target.reset();
  messages.push({ role: 'user', content: question });
  turn('user', question);
  chatStatus.textContent = 'Skriver …';
  try {
    const text = await answer(turn('assistant', ''));
    messages.push({ role: 'assistant', content: text });
    chatStatus.textContent = '';
  } catch (error) {
    messages.pop();
    chatStatus.textContent = error.message;
  }
});

/** Streams an answer into an element. @returns its text. */
async function answer(into) {
  const response = await fetch(`${api}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify({ system: SYSTEM, messages: messages.slice(-15) }),
  });
  if (!response.ok) {
    into.remove();
    throw new Error(await inWords(response));
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffered = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return into.textContent;
    buffered += value;
    const events = buffered.split('\n\n');
    buffered = events.pop();
    for (const event of events) {
      const [, name] = /^event: (.*)$/m.exec(event) ?? [];
      const [, data] = /^data: (.*)$/m.exec(event) ?? [];
      if (name === 'delta') into.textContent += JSON.parse(data).text;
      if (name === 'error') throw new Error(JSON.parse(data).detail);
    }
  }
}

document.querySelector('#inquiry').addEventListener('submit', async (event) => {
  event.preventDefault();
  inquiryStatus.textContent = 'Sender …';
  try {
    const response = await fetch(`${api}/api/inquiry`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(Object.fromEntries(new FormData(event.target))),
    });
    if (!response.ok) throw new Error(await inWords(response));
    event.target.reset();
    inquiryStatus.textContent = 'Takk! Vi svarer så snart vi kan.';
  } catch (error) {
    inquiryStatus.textContent = error.message;
  }
});

/** Tells a visitor what went wrong and, after a 429, how long to wait. */
async function inWords(response) {
  const problem = await response.json().catch(() => ({}));
  const wait = response.headers.get('retry-after');
  if (response.status === 429) return `Litt for mange på én gang. Prøv igjen om ${wait} sekunder.`;
  if (problem.issues) return problem.issues.map(({ path, message }) => `${path}: ${message}`).join('. ');
  return problem.detail ?? 'Noe gikk galt. Prøv igjen.';
}

function turn(role, text) {
  const item = document.createElement('li');
  item.dataset.role = role;
  item.textContent = text;
  turns.append(item);
  return item;
}
