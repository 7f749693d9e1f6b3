import type { JWTPayload } from 'jose';

import type { DirectorySettings } from '../../platform/operator-settings.ts';
import type { Scope } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { log } from '../../platform/log.ts';
import { truncate } from '../kit/words.ts';

/** A person or a program, as a directory's token names it. */
export interface Person {
  readonly subject: string;
  readonly name: string;
  /** The names that `OPERATOR_OIDC_ROLES` may map. */
  readonly roles: readonly string[];
  /** Those that the roles give together. */
  readonly scopes: ReadonlySet<Scope>;
}

/**
 * Reads who a verified token of the directory is about, and in which roles.
 *
 * Entra ID has app roles in `roles`, groups by their ids in `groups`, delegated scopes in `scp` as one text, and the
 * person in `oid`: its `sub` differs from application to application. Keycloak has groups with a slash before them, and
 * `scope`, as ID-porten does.
 *
 * @returns null for a token without a usable subject.
 * @throws Problem 403 `no_role` for a person without a mapped role; the log names the claims that were looked at.
 */
export function personIn(claims: JWTPayload, directory: DirectorySettings): Person | null {
  const subject = [claims['oid'], claims.sub].find(isName);
  if (subject === undefined) return null;
  const name = [claims['name'], claims['preferred_username']].find(isName);
  const roles = new Set([
    ...['roles', 'groups'].flatMap((claim) => namesIn(claims[claim])),
    // These have no spaces in a name.
    ...['scp', 'scope'].flatMap((claim) => namesIn(claims[claim]).flatMap((text) => text.split(' '))),
  ]);
  roles.delete('');
  const of = { subject, name: name?.trim() ?? subject, roles: [...roles] };
  const scopes = scopesOf(of, directory);
  if (scopes.size === 0) refuse(of, claims);
  return { ...of, scopes };
}

/** The scopes that a person's roles give together. */
export function scopesOf({ roles }: Pick<Person, 'roles'>, directory: DirectorySettings): ReadonlySet<Scope> {
  return new Set(roles.flatMap((role) => directory.roles.get(role) ?? []));
}

/** @throws Problem 403 `no_role`, always. */
function refuse(person: Omit<Person, 'scopes'>, claims: JWTPayload): never {
  log('warn', 'a token of the directory has no role that is mapped', {
    claims: ROLE_CLAIMS.filter((claim) => claims[claim] !== undefined),
    roles: person.roles.length,
    isOverfull: isOverfull(claims),
  });
  throw new Problem('no_role', {
    detail: [
      `Signed in as ${truncate(60, person.name)}, but none of your roles is mapped.`,
      seenWords(person.roles),
      ...(isOverfull(claims) ? [OVERFULL] : []),
      'Ask whoever runs Postbud to name one of yours in OPERATOR_OIDC_ROLES.',
    ].join(' '),
    headers: { 'www-authenticate': 'Bearer error="insufficient_scope", scope="event-bus:read"' },
  });
}

const ROLE_CLAIMS = ['roles', 'groups', 'scp', 'scope'] as const;

/** Of a list, or of a text alone. */
function namesIn(claim: unknown): string[] {
  const listed: readonly unknown[] = Array.isArray(claim) ? claim : [claim];
  return listed.filter((name) => typeof name === 'string');
}

/** Claims may hold anything. The subject is recorded with each action, so Postgres must be able to store it. */
export function isName(claim: unknown): claim is string {
  return typeof claim === 'string' && claim.trim() !== '' && !/\p{Cc}/u.test(claim);
}

/** Entra ID leaves out the groups of a person who is in more than 200. */
function isOverfull(claims: JWTPayload): boolean {
  const elsewhere = claims['_claim_names'];
  return (
    claims['hasgroups'] === true ||
    (typeof elsewhere === 'object' && elsewhere !== null && 'groups' in elsewhere)
  );
}

const OVERFULL =
  'You are in more groups than a token of the directory holds, so it has left them out: an app role does not have this limit.';

/** About five ids of groups: someone may be in two hundred. */
const LONGEST_LIST = 200;

function seenWords(roles: readonly string[]): string {
  return `The directory sent ${truncate(LONGEST_LIST, roles.join(', ')) || 'none'}.`;
}
