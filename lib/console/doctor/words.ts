import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import type { Phrase } from '../kit/document.ts';
import { deadLetterPath, eventPath } from '../kit/links.ts';
import { count } from '../kit/words.ts';
import type { Examination } from './read.ts';

/** Each promise that was checked, with what contradicts it: nothing where it was kept. */
export function promisesOf({ checked, findings }: Examination) {
  return checked.map((promise) => ({
    promise,
    contradictions: findings.filter((finding) => finding.promise === promise).map(findingPhrase),
  }));
}

export function brokenIn({ findings }: Examination): number {
  return new Set(findings.map(({ promise }) => promise)).size;
}

function findingPhrase({ count: number, what, examples }: Examination['findings'][number]): Phrase {
  const more = number > examples.length ? ', …' : '';
  return {
    html: html`${count(number)} ${what}: ${examples.map(exampleId)}${more}`,
    text: `${count(number)} ${what}: ${examples.join(', ')}${more}`,
  };
}

function exampleId(id: string, index: number): Html {
  const path = UUID.test(id) ? eventPath(id) : readDeliveryId(id) !== null ? deadLetterPath(id) : null;
  const shown =
    path === null
      ? html`<span class="mono nowrap">${id}</span>`
      : html`<a class="mono nowrap" href="${path}">${id}</a>`;
  return html`${index > 0 && ', '}${shown}`;
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
