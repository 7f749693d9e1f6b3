import { raw } from 'hono/html';

import type { PayloadInput } from '../../bus/catalog/catalog.ts';
import { asciiAddress } from '../../platform/mail/address.ts';
import type { Mail } from '../../platform/mail/send-mail.ts';
import { verbatimHtml as html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { MINUTE } from '../../platform/time.ts';

/** An inquiry as it is kept: the request's schema has left its single-line fields single lines. */
export type KeptInquiry = PayloadInput<'inquiry.trapped'>;

/** The kind of a source, for places where a visitor's own words must not appear. */
export function sourceKind({ source: name }: Pick<KeptInquiry, 'source'>): string {
  return name.startsWith('kontakt-') ? 'kontakt' : name;
}

/** An inquiry that is mailed later than this after it was received is marked as late. */
const LATE_MS = 1 * MINUTE;

/**
 * Writes the mail about an inquiry, in Norwegian: HTML in which every value is escaped, and the same rows as text. One that
 * is late says so, and since when.
 */
export function inquiryMail(inquiry: KeptInquiry, sentAt: Date): Mail {
  const receivedAt = new Date(inquiry.receivedAt);
  const isLate = sentAt.getTime() - receivedAt.getTime() >= LATE_MS;
  const content = contentOf(inquiry, receivedAt, isLate);
  return {
    senderName: 'Henvendelse fra nettstedet',
    subject: subjectOf(inquiry, isLate ? `[Forsinket, sendt ${timeIn('short', receivedAt)}] ` : ''),
    html: String(htmlOf(content)),
    text: textOf(content),
    replyTo: { email: inquiry.email, name: inquiry.name },
    categories: ['inquiry', sourceKind(inquiry)],
    reference: inquiry.inquiryId,
  };
}

/** Mail programs cut longer subjects. */
const SUBJECT_MOST = 150;

function subjectOf({ source, topic, organization }: KeptInquiry, mark: string): string {
  const subject = `${mark}[${source}] ${topic} – ${organization}`;
  if (subject.length <= SUBJECT_MOST) return subject;
  const cut = subject.slice(0, SUBJECT_MOST - 1).replace(/[\uD800-\uDBFF]$/, '');
  return `${cut.trimEnd()}…`;
}

/** The content of both forms of the mail. */
interface Content {
  readonly heading: string;
  /** What the reader must know of a late one. */
  readonly notice: string | undefined;
  readonly sender: string;
  readonly email: string;
  readonly rows: readonly Row[];
  readonly texts: readonly Row[];
  readonly hint: string;
  readonly reference: string;
}

interface Row {
  readonly label: string;
  readonly value: string;
  readonly link?: string;
}

function contentOf(inquiry: KeptInquiry, receivedAt: Date, isLate: boolean): Content {
  const { inquiryId, name, email, organization, topic, phone, persona } = inquiry;
  const { summary, message, contextSummary } = inquiry;
  const received = timeIn('full', receivedAt);
  const texts = { Melding: message, Sammendrag: summary, 'Samtalen med chatboten': contextSummary };
  return {
    heading: topic,
    notice: isLate
      ? `Denne henvendelsen er forsinket: den ble sendt fra nettstedet ${received}. Har dere fått en e-post med samme referanse før, er det den samme henvendelsen.`
      : undefined,
    sender: `${name}, ${organization}`,
    email,
    rows: [
      { label: 'Navn', value: name },
      { label: 'Organisasjon', value: organization },
      { label: 'Rolle', value: PERSONAS[persona] ?? persona },
      { label: 'E-post', value: email, link: mailto(email) },
      ...(phone === undefined ? [] : [phoneRow(phone)]),
      { label: 'Kilde', value: sourceLabel(inquiry) },
      { label: 'Mottatt', value: received },
    ],
    texts: Object.entries(texts).flatMap(([label, value]) => (value === undefined ? [] : [{ label, value }])),
    hint: `Svar på denne e-posten, så går svaret rett til ${name}.`,
    reference: inquiryId,
  };
}

const PERSONAS: Readonly<Record<string, string>> = {
  __proto__: null!,
  innbygger: 'Innbygger',
  saksbehandler: 'Saksbehandler',
  driftsleder: 'Driftsleder',
};

/** @see https://www.rfc-editor.org/rfc/rfc6068 whose `@` is written as it is. */
function mailto(email: string): string {
  return `mailto:${encodeURIComponent(asciiAddress(email)).replace('%40', '@')}`;
}

function phoneRow(phone: string): Row {
  const digits = phone.replace(/[^+\d]/g, '');
  return { label: 'Telefon', value: phone, ...(/^\+?\d{5,15}$/.test(digits) && { link: `tel:${digits}` }) };
}

function sourceLabel({ source }: KeptInquiry): string {
  if (source === 'chatbot') return 'Chatboten';
  if (source === 'book-demo') return 'Bestilling av demo';
  return `Kontaktskjema (${source.slice('kontakt-'.length)})`;
}

/** Made when a mail is written: the time zones take some 20 ms of a function's start. */
function timeIn(dateStyle: 'full' | 'short', instant: Date): string {
  const format = new Intl.DateTimeFormat('nb-NO', { dateStyle, timeStyle: 'short', timeZone: 'Europe/Oslo' });
  return format.format(instant);
}

function textOf({ heading, notice, rows, texts, hint, reference }: Content): string {
  const width = Math.max(...rows.map(({ label }) => label.length)) + 2;
  return [
    `NY HENVENDELSE: ${heading}`,
    '',
    ...(notice === undefined ? [] : [notice, '']),
    ...rows.map(({ label, value }) => `${`${label}:`.padEnd(width)}${value}`),
    ...texts.flatMap(({ label, value }) => [
      '',
      `${label}:`,
      ...value.split('\n').map((line) => `> ${line}`),
    ]),
    '',
    hint,
    `Referanse: ${reference}`,
    '',
  ].join('\n');
}

/** Inline, since some mail programs drop style sheets; the sheet below only adds dark colours. */
const FONT = raw(`font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif`);

const DARK = raw(`
  :root { color-scheme: light dark; supported-color-schemes: light dark; }
  @media (prefers-color-scheme: dark) {
    .page { background: #14181b !important; }
    .card { background: #1e2428 !important; border-color: #333c42 !important; }
    .ink { color: #f1f4f5 !important; }
    .soft { color: #a9b6bd !important; }
    .line { border-color: #333c42 !important; }
    .quote { background: #262e33 !important; border-color: #4fa38a !important; color: #f1f4f5 !important; }
    .link { color: #7fd0b6 !important; }
  }
  @media (max-width: 480px) {
    .pad { padding-left: 20px !important; padding-right: 20px !important; }
    .label, .value { display: block !important; width: auto !important; }
    .label { padding-bottom: 0 !important; font-size: 13px !important; }
    .value { padding-top: 0 !important; border-top: 0 !important; }
  }`);

function htmlOf({ heading, notice, sender, email, rows, texts, hint, reference }: Content): Html {
  const preview = texts[0]?.value ?? sender;
  return html`<!doctype html>
    <html lang="nb">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="supported-color-schemes" content="light dark" />
        <title>${heading}</title>
        <style>
          ${DARK}
        </style>
      </head>
      <body class="page" style="margin:0;padding:0;background:#eef1f0;${FONT}">
        <div style="display:none;max-height:0;overflow:hidden;mso-hide:all">${firstOf(preview)}</div>
        <table
          role="presentation"
          class="page"
          width="100%"
          cellpadding="0"
          cellspacing="0"
          style="background:#eef1f0"
        >
          <tr>
            <td align="center" style="padding:32px 12px">
              <!--[if mso]><table role="presentation" width="600"><tr><td><![endif]-->
              <table
                role="presentation"
                class="card"
                width="100%"
                cellpadding="0"
                cellspacing="0"
                style="max-width:600px;background:#ffffff;border:1px solid #dde3e1;border-radius:10px;border-collapse:separate;overflow:hidden"
              >
                <tr>
                  <td style="height:5px;line-height:5px;font-size:0;background:#1f6f5c">&nbsp;</td>
                </tr>
                <tr>
                  <td class="pad" style="padding:30px 36px 22px">
                    <p
                      class="soft"
                      style="margin:0 0 8px;font-size:13px;line-height:18px;font-weight:600;color:#5b6b73"
                    >
                      Ny henvendelse
                    </p>
                    <h1
                      class="ink"
                      dir="auto"
                      style="margin:0;font-size:24px;line-height:31px;font-weight:700;color:#16212a;overflow-wrap:anywhere"
                    >
                      ${heading}
                    </h1>
                    ${
                      notice !== undefined &&
                      html`<p
                        class="ink"
                        style="margin:14px 0 0;font-size:15px;line-height:22px;font-weight:600;color:#16212a"
                      >
                        ${notice}
                      </p>`
                    }
                  </td>
                </tr>
                <tr>
                  <td class="pad" style="padding:0 36px">
                    <table
                      role="presentation"
                      width="100%"
                      cellpadding="0"
                      cellspacing="0"
                      style="table-layout:fixed"
                    >
                      ${rows.map(rowHtml)}
                    </table>
                  </td>
                </tr>
                ${texts.map(blockHtml)}
                <tr>
                  <td class="pad" style="padding:28px 36px 32px">
                    <table role="presentation" cellpadding="0" cellspacing="0">
                      <tr>
                        <td style="border-radius:7px;background:#1f6f5c">
                          <a
                            href="${mailto(email)}?subject=${encodeURIComponent(`Re: ${heading}`)}"
                            style="display:inline-block;padding:12px 22px;font-size:15px;line-height:20px;font-weight:600;color:#ffffff;text-decoration:none"
                            >Svar på henvendelsen</a
                          >
                        </td>
                      </tr>
                    </table>
                    <p
                      class="soft"
                      style="margin:14px 0 0;font-size:14px;line-height:21px;color:#5b6b73;overflow-wrap:anywhere"
                    >
                      <bdi>${hint}</bdi>
                    </p>
                  </td>
                </tr>
              </table>
              <!--[if mso]></td></tr></table><![endif]-->
              <p class="soft" style="margin:16px 0 0;font-size:12px;line-height:18px;color:#5b6b73">
                Referanse ${reference}
              </p>
            </td>
          </tr>
        </table>
      </body>
    </html> `;
}

function rowHtml({ label, value, link }: Row): Html {
  const cell =
    'padding:10px 0;font-size:15px;line-height:22px;vertical-align:top;border-top:1px solid #e6ebe9';
  const text = html`<bdi>${value}</bdi>`;
  const shown = link
    ? html`<a class="link" href="${link}" style="color:#1f6f5c;text-decoration:underline">${text}</a>`
    : text;
  return html`<tr>
    <th
      scope="row"
      class="soft line label"
      align="left"
      width="130"
      style="${cell};width:130px;font-weight:400;color:#5b6b73"
    >
      ${label}
    </th>
    <td class="ink line value" style="${cell};color:#16212a;overflow-wrap:anywhere">${shown}</td>
  </tr>`;
}

/** Writes line breaks as tags too, since Outlook does not support `pre-wrap`. */
function blockHtml({ label, value }: Row): Html {
  const lines = value.split('\n').map((line, index) => (index === 0 ? line : html`<br />${line}`));
  return html`<tr>
    <td class="pad" style="padding:22px 36px 0">
      <h2 class="ink" style="margin:0 0 8px;font-size:15px;line-height:22px;font-weight:600;color:#16212a">
        ${label}
      </h2>
      <div
        class="quote"
        dir="auto"
        style="padding:14px 18px;border-radius:7px;background:#f3f6f5;font-size:15px;line-height:23px;color:#16212a;overflow-wrap:anywhere"
      >
        <span style="white-space:pre-wrap">${lines}</span>
      </div>
    </td>
  </tr>`;
}

/** The preview that mail programs show beside the subject. */
function firstOf(text: string): string {
  return text.replace(/\s+/g, ' ').slice(0, 120).toWellFormed();
}
