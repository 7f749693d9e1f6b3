import { createHmac, randomBytes } from 'node:crypto';

import ipaddr from 'ipaddr.js';

import type { Limit } from './limiter.ts';

/** How often one visitor may call, or all visitors of one network. */
export interface VisitorLimit extends Limit {
  /** Counts the callers from one /56 or /48 of IPv6 together, and no others. Undefined: counts each visitor alone. */
  readonly network?: 56 | 48;
  /** Counts only requests that are valid. */
  readonly onlyValid?: boolean;
  /** Counts only the requests that count against the day's budget, of which it is a part. */
  readonly partOfBudget?: boolean;
}

/** Names visitors without keeping their addresses. */
export interface Visitors {
  /** @returns what stands for the caller: the same at each call, on every instance with the same secret. */
  keysOf(request: Request): VisitorKeys;
}

interface VisitorKeys {
  /** Of the visitor: an IPv4 address, or the /64 of an IPv6 address. */
  readonly own: string;
  /** Of the wider networks that an IPv6 address is in; an IPv4 address stands alone. */
  readonly 56?: string;
  readonly 48?: string;
}

export interface VisitorsOptions {
  /** Whether the platform in front writes the headers that tell the address; anyone else may write them too. */
  readonly isBehindPlatform: boolean;
  /** Shared by the instances that count together; each process makes up its own where it is left out. */
  readonly secret?: string | undefined;
}

export function createVisitors({ isBehindPlatform, secret }: VisitorsOptions): Visitors {
  const hmacKey = secret ? createHmac('sha256', secret).update('postbud visitors').digest() : randomBytes(32);
  const keyOf = (network: string) => createHmac('sha256', hmacKey).update(network).digest('base64url');
  return {
    keysOf(request) {
      const address = isBehindPlatform ? forwardedAddress(request.headers) : socketAddress(request);
      const { own, ...wider } = networksOf(address);
      return { own: keyOf(own), ...('56' in wider && { 56: keyOf(wider[56]), 48: keyOf(wider[48]) }) };
    },
  };
}

function forwardedAddress(headers: Headers): string {
  const [first = ''] = (headers.get('x-forwarded-for') ?? '').split(',');
  return first.trim() || (headers.get('x-real-ip') ?? '').trim();
}

/** The local server puts it on the request. */
function socketAddress(request: Request & { readonly ip?: unknown }): string {
  return typeof request.ip === 'string' ? request.ip : '';
}

/** All callers whose address is not known, together. */
const LOCAL = 'local';

type Networks = { readonly own: string } | { readonly own: string; readonly 56: string; readonly 48: string };

/**
 * Tells whose an address is: of IPv6 one household has a whole /64 and could call from a new address every time, and one
 * customer has up to a /48, which is 65,536 of those.
 *
 * @returns as `own` an IPv4 address, also of one written as IPv6; the /64 of an IPv6 address; else `local`.
 * @see https://www.rfc-editor.org/rfc/rfc6177#section-2 what customers are given
 */
export function networksOf(address: string): Networks {
  // Not what else the library takes: `0x7f.1` names a host in a URL, and never a caller.
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return { own: address };
  if (!ipaddr.IPv6.isValid(address)) return { own: LOCAL };
  const parsed = ipaddr.IPv6.parse(address);
  const embedded = embeddedIPv4(parsed);
  if (embedded) return { own: embedded };
  // Without its zone, which is of this machine and not of the network.
  const plain = new ipaddr.IPv6(parsed.parts).toString();
  const network = (bits: number) =>
    `${ipaddr.IPv6.networkAddressFromCIDR(`${plain}/${bits}`).toString()}/${bits}`;
  return { own: network(64), 56: network(56), 48: network(48) };
}

/** The IPv4 address that an IPv6 address stands for: mapped (RFC 4291), of a translator (RFC 6145, 6052), or of 6to4. */
function embeddedIPv4(address: ipaddr.IPv6): string | undefined {
  const bytes = address.toByteArray();
  switch (address.range()) {
    case 'ipv4Mapped':
    case 'rfc6145':
    case 'rfc6052':
      return bytes.slice(12).join('.');
    case '6to4':
      return bytes.slice(2, 6).join('.');
    default:
      return undefined;
  }
}
