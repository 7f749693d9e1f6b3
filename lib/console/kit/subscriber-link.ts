import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { subscriberPath } from './links.ts';

/** A subscriber's name, with a link to its health: of one topic where the page is about one. */
export function subscriberLink(subscriber: string, topic?: string): Html {
  return html`<a class="mono" href="${subscriberPath(subscriber, { topic })}">${subscriber}</a>`;
}
