import { expect } from 'vitest';

/** What the demo shows, whoever runs it, and against whatever. */
export function expectDemo(output: string): void {
  const lines = output.split('\n');
  const lineOf = (pattern: RegExp) => expect(lines).toContainEqual(expect.stringMatching(pattern));
  lineOf(/\b201\b.*card intent.*eventId/);
  lineOf(/\b201\b.*wallet intent.*eventId/);
  lineOf(/\b200\b.*card webhook.*"duplicate":false/);
  lineOf(/\b200\b.*the same again.*"duplicate":true/);
  lineOf(/\b200\b.*wallet callback.*"duplicate":false/);
  lineOf(/\b200\b.*identity callback.*"duplicate":false/);
  lineOf(/\b401\b.*forged/);
  lineOf(/\b200\b.*a visitor asks.*"text":/);
  lineOf(/\b200\b.*an inquiry.*"ok":true/);
  lineOf(/\b429\b.*asks too often.*Retry-After: \d+/);
  // The last one, which is the inquiry's unless a relay was slower than the inquiry.
  lineOf(/mail +to (post@solvik\.example\.no: \[book-demo\]|(?:person|kari)-\w+@example\.no: )/);
  lineOf(/^inquiry\.submitted +audit .*delivered/);
  lineOf(/payment\.intent\.created +audit .*delivered/);
  lineOf(/webhook\.cardpayments\.received +payments .*delivered/);
  lineOf(/webhook\.walletpayments\.received +payments .*delivered/);
  lineOf(/webhook\.identityprovider\.received +identity .*delivered/);
  lineOf(/└ user\.signed_up +audit .*delivered/);
  lineOf(/^ +ledger .*delivered/);
  lineOf(/^ +notifications .*delivered/);
}
