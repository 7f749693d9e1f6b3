import { domainToASCII } from 'node:url';

/**
 * Writes an address with its domain as the name system has it: `post@bærum.kommune.no` becomes
 * `post@xn--brum-voa.kommune.no`.
 *
 * @returns an address that no check accepts when there is no `@` or the domain is none.
 */
export function asciiAddress(address: string): string {
  const at = address.lastIndexOf('@');
  const domain = address.slice(at + 1);
  // Read as part of a URL, which would end at a slash and decode a percent sign.
  const isDomain = /^[\p{L}\p{M}\p{N}.-]+$/u.test(domain);
  return `${address.slice(0, at)}@${isDomain ? domainToASCII(domain) : ''}`;
}
