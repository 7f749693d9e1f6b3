/** A value that cannot be stored, by its dotted path, and why. */
interface Issue {
  readonly path: string;
  readonly message: string;
}

/** Whether Postgres takes a text, also in JSON: it refuses U+0000 and half surrogate pairs. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

export const NOT_STORABLE = 'U+0000 and unpaired surrogates cannot be stored';

/** Makes a text storable. @param nul in place of each U+0000. */
export function storable(text: string, nul = ''): string {
  return text.toWellFormed().replaceAll('\0', nul);
}

/** Finds what Postgres does not store in a value, which may be more than its schema names. */
export function unstorable(value: unknown): Issue[] {
  const issues: Issue[] = [];
  noteUnstorable(value, [], issues);
  return issues;
}

/** @param path of the value; the same array for all, because each event's whole payload is gone through. */
export function noteUnstorable(value: unknown, path: string[], issues: Issue[]): void {
  if (typeof value === 'string') {
    if (isStorable(value)) return;
    issues.push({ path: path.join('.'), message: NOT_STORABLE });
  }
  // `JSON.stringify` would write null.
  if (typeof value === 'number' && !Number.isFinite(value))
    issues.push({ path: path.join('.'), message: 'numbers beyond a double cannot be stored' });
  if (typeof value !== 'object' || value === null) return;
  // Postgres parses JSON recursively, and its stack limit may differ from ours.
  if (path.length > 100) {
    issues.push({ path: path.slice(0, 10).join('.'), message: 'expected at most 100 levels of nesting' });
    return;
  }
  for (const [key, inner] of Object.entries(value)) {
    path.push(key);
    noteUnstorable(key, path, issues);
    noteUnstorable(inner, path, issues);
    path.pop();
  }
}
