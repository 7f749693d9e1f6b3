import { nearest } from './nearest.ts';
import { SCOPES } from './scopes.ts';
import type { Scope } from './scopes.ts';

const ROLES =
  'must be roles with their scopes, for example Drift=event-bus:read event-bus:replay,/support/reading=event-bus:read';

/**
 * Reads `OPERATOR_OIDC_ROLES`. The names are the directory's: with spaces, slashes and colons, or ids. A comma ends an
 * entry, and the last `=` of an entry ends its role.
 *
 * @returns the scopes of each role, or what the variable must be. What is wrong is not repeated: it may be a secret.
 */
export function readDirectoryRoles(
  text: string,
): { readonly roles: ReadonlyMap<string, readonly Scope[]> } | { readonly wrong: string } {
  const roles = new Map<string, readonly Scope[]>();
  for (const [index, entry] of text.split(',').entries()) {
    const place = `entry ${index + 1}`;
    if (!entry.includes('=')) return { wrong: `${ROLES}: ${place} has no =` };
    const role = entry.slice(0, entry.lastIndexOf('=')).trim();
    const given = entry
      .slice(entry.lastIndexOf('=') + 1)
      .split(/\s+/)
      .filter(Boolean);
    if (role === '') return { wrong: `${ROLES}: ${place} has no role before its =` };
    if (role.includes('=event-bus:'))
      return { wrong: `${ROLES}: ${place} has two entries; a comma ends one` };
    if (given.length === 0) return { wrong: `${ROLES}: ${place} has no scope after its =` };
    if (roles.has(role)) return { wrong: `${ROLES}: ${place} names a role for the second time` };
    const unknown = given.find((scope) => !isScope(scope));
    if (unknown !== undefined)
      return { wrong: `${ROLES}: ${place} has an unknown scope; ${advice(unknown)}` };
    roles.set(role, given.filter(isScope));
  }
  const isAnybodyIn = [...roles.values()].some((given) => given.includes('event-bus:read'));
  return isAnybodyIn
    ? { roles }
    : { wrong: `${ROLES}: no role has event-bus:read, without which nobody can open the console` };
}

function isScope(text: string): text is Scope {
  return SCOPES.some((scope) => scope === text);
}

function advice(unknown: string): string {
  const meant = nearest(unknown, SCOPES);
  return meant === null ? `the scopes are ${SCOPES.join(', ')}` : `did you mean ${meant}?`;
}
