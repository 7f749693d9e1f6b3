import { describe, expect, test } from 'vitest';

import { inquiryMail } from '../../lib/components/inquiries/inquiry-mail.ts';
import { inquiryRequest } from '../../lib/edge/inquiry/inquiry-request.ts';

const inquiry = {
  name: 'Kari Nordmann',
  email: 'post@bærum.kommune.no',
  organization: 'Bærum kommune',
  topic: 'Demo av hallbooking',
  phone: '+47 400 00 456',
  persona: 'driftsleder',
  summary: 'Vil se en demo.',
  message: 'Hei!\n\n  Vi har 14 haller.',
  contextSummary: 'Spurte om priser.',
  source: 'kontakt-salg',
};

const kept = { inquiryId: 'inq-1', receivedAt: '2026-01-05T08:15:00Z' };

function mailOf(fields: object = {}, sentAt = kept.receivedAt) {
  return inquiryMail({ ...inquiryRequest.parse({ ...inquiry, ...fields }), ...kept }, new Date(sentAt));
}

const XSS = `"'><script>alert(1)</script><img src=x onerror=alert(1)>&amp;`;

describe('the mail about an inquiry', () => {
  test('the mail has every value, as text and as HTML', () => {
    const { html, text } = mailOf();
    for (const part of [html, text]) {
      for (const value of [
        'Kari Nordmann',
        'post@bærum.kommune.no',
        'Bærum kommune',
        'Demo av hallbooking',
      ]) {
        expect(part).toContain(value);
      }
      for (const value of ['+47 400 00 456', 'Driftsleder', 'Vil se en demo.', 'Vi har 14 haller.']) {
        expect(part).toContain(value);
      }
      for (const value of [
        'Spurte om priser.',
        'Kontaktskjema (salg)',
        'inq-1',
        'mandag 5. januar 2026',
        '09:15',
      ]) {
        expect(part).toContain(value);
      }
    }
  });

  test('a mail that is sent a minute after its inquiry says that it is late, and since when', () => {
    const inTime = mailOf({}, '2026-01-05T08:15:59Z');
    for (const part of [inTime.subject, inTime.html, inTime.text])
      expect(part.toLowerCase()).not.toContain('forsinke');
    const { subject, html, text } = mailOf({}, '2026-01-05T08:16:00Z');
    expect(subject).toBe(
      '[Forsinket, sendt 05.01.2026, 09:15] [kontakt-salg] Demo av hallbooking – Bærum kommune',
    );
    for (const part of [html, text])
      expect(part).toContain(
        'Denne henvendelsen er forsinket: den ble sendt fra nettstedet mandag 5. januar 2026 kl. 09:15. Har dere fått en e-post med samme referanse før, er det den samme henvendelsen.',
      );
  });

  test('the mail has no row for an empty field', () => {
    const { html, text } = mailOf({ phone: '', summary: '', message: '', contextSummary: '' });
    for (const part of [html, text]) {
      expect(part).not.toMatch(/Telefon|Sammendrag|Melding|chatboten|undefined|null/);
    }
  });

  test.each(['name', 'organization', 'topic', 'persona', 'summary', 'message', 'contextSummary'])(
    'the mail escapes %s wherever it stands',
    (field) => {
      const plain = mailOf({ [field]: 'X' }).html;
      const { html } = mailOf({ [field]: XSS });
      expect(html).toContain('&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;');
      expect(html).not.toContain('<script>');
      // The same tags as with a harmless value: nothing was added, nothing broke out of an attribute.
      expect(html.match(/<[a-z!/][^>]*>/g)?.map((tag) => tag.split(/[\s>]/)[0])).toEqual(
        plain.match(/<[a-z!/][^>]*>/g)?.map((tag) => tag.split(/[\s>]/)[0]),
      );
    },
  );

  test('the mail escapes a phone number, an address and the text of a source', () => {
    const source = 'kontakt-om oss, <priser> & vilkår';
    const { html, subject } = mailOf({
      phone: `"><b>+47 400 00 456`,
      email: `o'brien@bærum.kommune.no`,
      source,
    });
    expect(html).toContain('om oss, &lt;priser&gt; &amp; vilkår');
    expect(subject).toContain(`[${source}]`);
    expect(html).toContain('&quot;&gt;&lt;b&gt;+47 400 00 456');
    expect(html).toContain('href="tel:+4740000456"');
    expect(html).toContain('o&#39;brien@bærum.kommune.no');
    expect(html).toContain('href="mailto:o&#39;brien@xn--brum-voa.kommune.no"');
  });

  test('the mail links only real phone numbers', () => {
    expect(mailOf({ phone: 'ring resepsjonen' }).html).not.toContain('tel:');
  });

  test('a value’s text direction ends with the value, and overrides are removed', () => {
    const { html, text, subject } = mailOf({ name: 'שלום\u202Eevil\u202C', topic: '\u2067abc' });
    expect(html).toContain('<bdi>שלוםevil</bdi>');
    expect(html + text + subject).not.toMatch(/[\u202A-\u202E\u2066-\u2069]/);
  });

  test('the mail keeps the lines and indents of long texts', () => {
    const { html, text } = mailOf();
    expect(html).toContain('Hei!<br /><br />  Vi har 14 haller.');
    expect(text).toContain('> Hei!\n> \n>   Vi har 14 haller.');
  });

  test('a visitor’s lines can’t pass for rows of the text', () => {
    const { text } = mailOf({ message: 'Hei\nNavn: Rådmannen\n\nReferanse: 1' });
    expect(text.split('\n').filter((line) => line.startsWith('Navn:'))).toEqual([
      'Navn:         Kari Nordmann',
    ]);
    expect(text.split('\n').filter((line) => line.startsWith('Referanse:'))).toEqual(['Referanse: inq-1']);
  });

  test.each(['__proto__', 'constructor', 'toString'])('the persona %s is only a word', (persona) => {
    expect(mailOf({ persona }).text).toContain(`Rolle:        ${persona}`);
  });

  test('the subject has 150 characters at most, cut between characters', () => {
    expect(mailOf().subject).toBe('[kontakt-salg] Demo av hallbooking – Bærum kommune');
    for (const shift of ['', 'a']) {
      const { subject } = mailOf({ topic: `${shift}${'👋'.repeat(90)}`, organization: 'b'.repeat(200) });
      expect(subject.length).toBeLessThanOrEqual(150);
      expect(subject.isWellFormed()).toBe(true);
      expect(subject).toMatch(/…$/);
    }
  });

  test('the mail has one of a few categories for the provider’s statistics', () => {
    expect(mailOf({ source: 'kontakt-hva-som-helst' }).categories).toEqual(['inquiry', 'kontakt']);
  });

  test('the mail loads nothing from elsewhere', () => {
    expect(mailOf().html).not.toMatch(/\b(src|background)=|url\(|@import|<link|<script/);
    expect(mailOf().html).toContain('<html lang="nb">');
  });
});
