/** Enough to tell one cause from another; the whole answer stands with its attempt. */
const LONGEST = 120;

/** Where JSON answers say what is wrong: problems (RFC 9457) in `detail` and `title`. The most telling first. */
const TELLING = ['detail', 'message', 'error_description', 'error', 'title', 'code', 'errors'];

/**
 * Finds what a component says in an answer that refused events, as one line: `account closed`. So two causes behind one
 * status are told apart wherever an error is shown or grouped.
 *
 * @param answer without personal data, and cut perhaps.
 * @returns null for an answer that says nothing: one without a body, a binary one, a page, JSON without a text.
 */
export function saidIn(answer: string | null): string | null {
  const text = answer?.trim() ?? '';
  if (text.startsWith('<') || text.startsWith('[a binary body')) return null;
  const [line = ''] = (/^[{["]/.test(text) ? inJson(text) : text).trim().split('\n');
  const said = line.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim();
  if (said === '') return null;
  return said.length <= LONGEST ? said : `${said.slice(0, LONGEST).trimEnd().toWellFormed()}…`;
}

function inJson(text: string): string {
  try {
    return inValue(JSON.parse(text)) ?? '';
  } catch {
    // It was cut.
    return (
      /"(?:detail|message|error_description|error|title)"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? ''
    );
  }
}

function inValue(value: unknown): string | null {
  if (typeof value === 'string') return value.trim() === '' ? null : value;
  if (Array.isArray(value)) return value.length === 0 ? null : inValue(value[0]);
  if (typeof value !== 'object' || value === null) return null;
  const fields = new Map<string, unknown>(Object.entries(value));
  for (const name of TELLING) {
    const said = inValue(fields.get(name));
    if (said !== null) return said;
  }
  return null;
}
