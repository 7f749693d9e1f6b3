import { domainToASCII } from 'node:url';

/**
 * Writes an address with its domain in ASCII (IDNA): `post@bærum.kommune.no` becomes
 * `post@xn--brum-voa.kommune.no`.
 *
 * @returns an invalid address if the domain is missing or invalid.
 */
export function asciiAddress(address: string): string {
  const at = address.lastIndexOf('@');
  const domain = address.slice(at + 1);
  // `domainToASCII` parses a URL's host, which ends at a slash and decodes percent signs.
  const isDomain = /^[\p{L}\p{M}\p{N}.-]+$/u.test(domain);
  return `${address.slice(0, at)}@${isDomain ? domainToASCII(domain) : ''}`;
}
