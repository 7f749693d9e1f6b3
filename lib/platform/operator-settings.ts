import { readDirectoryRoles } from './directory-roles.ts';
import { InvalidConfiguration, namesUser } from './environment.ts';
import type { Environment } from './environment.ts';
import type { Scope } from './scopes.ts';
import { SECOND, msOf } from './time.ts';

/** How operators' tokens are verified, and how operators sign in. */
export type OperatorSettings = {
  readonly issuer: string;
  readonly audience: string;
  /** The longest that a token is accepted after it was issued, whatever its own expiry says. */
  readonly maxAgeSeconds: number;
  /** The organisation's directory, beside or instead of the rest. */
  readonly directory?: DirectorySettings;
} & (
  | { readonly kind: 'secret'; readonly secret: Uint8Array }
  | { readonly kind: 'jwks'; readonly url: string }
  | { readonly kind: 'none' }
);

/** An OpenID provider that knows the operators and their roles. */
export interface DirectorySettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The scopes of each role, group or scope of the directory. */
  readonly roles: ReadonlyMap<string, readonly Scope[]>;
}

export function operatorSettings(env: Environment): OperatorSettings {
  const directory = directorySettings(env);
  const expected = {
    issuer: env.OPERATOR_JWT_ISSUER ?? 'postbud',
    audience: env.OPERATOR_JWT_AUDIENCE ?? 'postbud-operators',
    maxAgeSeconds: msOf(env.OPERATOR_TOKEN_MAX_AGE ?? '24h') / SECOND,
    ...(directory && { directory }),
  };
  if (env.OPERATOR_JWT_SECRET && env.OPERATOR_JWKS_URL) {
    throw new InvalidConfiguration('OPERATOR_JWKS_URL', 'must not be set when OPERATOR_JWT_SECRET is');
  }
  if (env.OPERATOR_JWKS_URL) {
    for (const variable of ['OPERATOR_JWT_ISSUER', 'OPERATOR_JWT_AUDIENCE'] as const) {
      // Without them any token of that key server would be accepted, even one issued for another service.
      if (!env[variable]) {
        const claim = variable === 'OPERATOR_JWT_ISSUER' ? 'iss' : 'aud';
        throw new InvalidConfiguration(
          variable,
          `must be set when OPERATOR_JWKS_URL is, to the ${claim} of the key server’s tokens`,
        );
      }
    }
    return { ...expected, kind: 'jwks', url: env.OPERATOR_JWKS_URL };
  }
  if (!env.OPERATOR_JWT_SECRET) return { ...expected, kind: 'none' };
  return { ...expected, kind: 'secret', secret: new TextEncoder().encode(env.OPERATOR_JWT_SECRET) };
}

function directorySettings(env: Environment): DirectorySettings | undefined {
  const [issuer, clientId, clientSecret, roles] = DIRECTORY.map((variable) => env[variable]);
  if (issuer && clientId && clientSecret && roles) {
    requireIssuer(issuer);
    const read = readDirectoryRoles(roles);
    if ('wrong' in read) throw new InvalidConfiguration('OPERATOR_OIDC_ROLES', read.wrong);
    return { issuer, clientId, clientSecret, roles: read.roles };
  }
  const set = DIRECTORY.find((variable) => env[variable]);
  if (set === undefined) return undefined;
  const unset = DIRECTORY.find((variable) => !env[variable])!;
  throw new InvalidConfiguration(unset, `must be set when ${set} is`);
}

const DIRECTORY = [
  'OPERATOR_OIDC_ISSUER',
  'OPERATOR_OIDC_CLIENT_ID',
  'OPERATOR_OIDC_CLIENT_SECRET',
  'OPERATOR_OIDC_ROLES',
] as const;

/** @throws InvalidConfiguration for an issuer whose tokens could not be trusted, or are never issued in that name. */
function requireIssuer(issuer: string): void {
  const wrong = wrongInIssuer(new URL(issuer), issuer);
  if (wrong !== null) throw new InvalidConfiguration('OPERATOR_OIDC_ISSUER', wrong);
}

function wrongInIssuer({ protocol, hostname, pathname, search, hash }: URL, issuer: string): string | null {
  if (namesUser(issuer)) return 'must not contain a user or a password';
  if (protocol === 'http:' && !LOOPBACK.test(hostname))
    return 'must be a URL that starts with https://; http:// is for a directory on this machine';
  if (pathname.includes('/.well-known/')) return 'must end before /.well-known/openid-configuration';
  if (search || hash) return 'must be a URL without ? and #';
  return ENTRA.test(hostname) ? wrongInEntraPath(pathname) : null;
}

/** Entra's issuers have the id in small letters, also where the tenant was asked for by one of its domains. */
function wrongInEntraPath(path: string): string | null {
  if (ENTRA_TENANT.test(path)) return null;
  if (ENTRA_TENANT.test(path.replace(/\/+$/, '')))
    return 'must end with v2.0, without a slash after it: Entra ID names itself so';
  if (ENTRA_TENANT.test(path.toLowerCase()))
    return 'must be in small letters, the tenant id too: Entra ID names itself so';
  return 'must name your tenant by its id, https://login.microsoftonline.com/<tenant id>/v2.0: common and organizations admit anybody’s, and without v2.0 tokens have another issuer';
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

const ENTRA = /^login\.(microsoftonline\.(com|us)|partner\.microsoftonline\.cn)$/;

const ENTRA_TENANT = /^\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\/v2\.0$/;
