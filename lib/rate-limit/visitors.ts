import { createHmac, randomBytes } from 'node:crypto';
import { isIPv4, isIPv6 } from 'node:net';

/** Names visitors without keeping their addresses. */
export interface Visitors {
  /** @returns what stands for the caller's address: the same at each call, on every instance with the same secret. */
  keyOf(request: Request): string;
}

export interface VisitorsOptions {
  /** Whether the platform in front writes the headers that tell the address; anyone else may write them too. */
  readonly isBehindPlatform: boolean;
  /** Shared by the instances that count together; each process makes up its own where it is left out. */
  readonly secret?: string | undefined;
}

export function createVisitors({ isBehindPlatform, secret }: VisitorsOptions): Visitors {
  const hmacKey = secret ? createHmac('sha256', secret).update('postbud visitors').digest() : randomBytes(32);
  return {
    keyOf(request) {
      const address = isBehindPlatform ? forwardedAddress(request.headers) : socketAddress(request);
      return createHmac('sha256', hmacKey).update(networkOf(address)).digest('base64url');
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

/**
 * Tells whose an address is: of IPv6 one household has a whole /64, and could call from a new address every time.
 *
 * @returns an IPv4 address, also of one written as IPv6; the first four groups of an IPv6 address; else `local`.
 * @see https://www.rfc-editor.org/rfc/rfc4291#section-2.2
 */
export function networkOf(address: string): string {
  if (isIPv4(address)) return address;
  if (!isIPv6(address)) return LOCAL;
  const groups = groupsOf(address);
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xff_ff;
  if (!isMapped)
    return `${groups
      .slice(0, 4)
      .map((group) => group.toString(16))
      .join(':')}::/64`;
  return groups
    .slice(6)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.');
}

/** The eight numbers of an IPv6 address. */
function groupsOf(address: string): number[] {
  const [withoutZone = ''] = address.split('%');
  const [head = [], tail] = withoutZone
    .split('::')
    .map((half) => half.split(':').filter(Boolean).flatMap(numbersOf));
  if (!tail) return head;
  return [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail];
}

/** The last 32 bits may be written as IPv4 is. */
function numbersOf(group: string): number[] {
  if (!group.includes('.')) return [Number.parseInt(group, 16)];
  const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
  return [a * 256 + b, c * 256 + d];
}
