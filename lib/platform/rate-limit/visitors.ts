import { createHmac, randomBytes } from 'node:crypto';

import ipaddr from 'ipaddr.js';

import type { Limit } from './limiter.ts';

/** A limit for each visitor, or for all visitors of one network together. */
export interface VisitorLimit extends Limit {
  /** Counts all visitors of one /56 or /48 of IPv6 together, and no others. If left out, each visitor alone. */
  readonly network?: 56 | 48;
  /** Counts only requests that are valid. */
  readonly onlyValid?: boolean;
}

/** Names visitors without keeping their addresses. */
export interface Visitors {
  /** @returns keys that stand for the caller: the same for each call, on every instance with the same secret. */
  keysOf(request: Request): VisitorNetworks;
}

/** A visitor and the networks around it, or the keys of these. */
interface VisitorNetworks {
  /** The visitor: an IPv4 address, or the /64 of an IPv6 address. */
  readonly own: string;
  /** The wider networks of an IPv6 address; an IPv4 address has none. */
  readonly 56?: string;
  readonly 48?: string;
  /** The network that has a share of each day's budget: the /24 of an IPv4 address, the /48 of an IPv6 address. */
  readonly share: string;
}

export interface VisitorsOptions {
  /** Whether the platform sets the headers that carry the address. Otherwise the caller could forge them. */
  readonly isBehindPlatform: boolean;
  /** Shared by the instances that count together. If left out, each process makes its own. */
  readonly secret?: string | undefined;
}

export function createVisitors({ isBehindPlatform, secret }: VisitorsOptions): Visitors {
  const hmacKey = secret ? createHmac('sha256', secret).update('postbud visitors').digest() : randomBytes(32);
  const keyOf = (network: string) => createHmac('sha256', hmacKey).update(network).digest('base64url');
  return {
    keysOf(request) {
      const address = isBehindPlatform ? forwardedAddress(request.headers) : socketAddress(request);
      const { own, share, 56: household, 48: customer } = networksOf(address);
      return {
        own: keyOf(own),
        share: keyOf(share),
        ...(household && customer && { 56: keyOf(household), 48: keyOf(customer) }),
      };
    },
  };
}

/** The visitor's address according to the platform, which sets these headers. Empty if there is none. */
export function forwardedAddress(headers: Headers): string {
  const [first = ''] = (headers.get('x-forwarded-for') ?? '').split(',');
  return first.trim() || (headers.get('x-real-ip') ?? '').trim();
}

/** The local server sets `ip` on the request. */
function socketAddress(request: Request & { readonly ip?: unknown }): string {
  return typeof request.ip === 'string' ? request.ip : '';
}

/** The key that all callers without a known address share. */
const LOCAL = 'local';

/**
 * Finds the networks of an address. One IPv6 household has a whole /64 and could call from a new address each time; one
 * customer has up to a /48, which is 65,536 of those.
 *
 * @returns as `own` an IPv4 address, also of one written as IPv6; the /64 of an IPv6 address; else `local`. As `share`
 *   the /24 or /48 around it, which is about the smallest network that is announced on the internet by itself.
 * @see https://www.rfc-editor.org/rfc/rfc6177#section-2 for the networks of customers
 */
export function networksOf(address: string): VisitorNetworks {
  // The library also parses forms such as `0x7f.1`, which occur in URLs but never as a caller's address.
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return ofIPv4(address);
  if (!ipaddr.IPv6.isValid(address)) return { own: LOCAL, share: LOCAL };
  const parsed = ipaddr.IPv6.parse(address);
  const embedded = embeddedIPv4(parsed);
  if (embedded) return ofIPv4(embedded);
  // Without its zone, which names an interface of this machine.
  const plain = new ipaddr.IPv6(parsed.parts).toString();
  const network = (bits: number) =>
    `${ipaddr.IPv6.networkAddressFromCIDR(`${plain}/${bits}`).toString()}/${bits}`;
  return { own: network(64), 56: network(56), 48: network(48), share: network(48) };
}

function ofIPv4(address: string): VisitorNetworks {
  return { own: address, share: `${ipaddr.IPv4.networkAddressFromCIDR(`${address}/24`).toString()}/24` };
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
