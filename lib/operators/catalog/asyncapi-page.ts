import { COPY_ICON } from '../page/icons.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { heading, layout } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { counted } from '../page/words.ts';

interface Described {
  readonly channels: object;
  readonly operations: object;
}

/** The bus in AsyncAPI, to be copied into a tool; programs get it as JSON from the same address. */
export function asyncApiPage(document: Described, context: PageContext): Html {
  const [channels, operations] = [document.channels, document.operations].map(
    (part) => Object.keys(part).length,
  );
  const content = html`${heading({
      title: 'AsyncAPI',
      lead: `AsyncAPI 3.0 of all topics: ${counted(channels ?? 0, 'channel')}, ${counted(operations ?? 0, 'operation')}. Programs get it as JSON from this address.`,
      actions: html`<button class="btn" type="button" data-js data-copy="#asyncapi">
        ${COPY_ICON}<span>Copy</span>
      </button>`,
    })}
    <pre class="code" id="asyncapi" tabindex="0" role="region" aria-label="AsyncAPI document">
${JSON.stringify(document, null, 2)}</pre>`;
  return layout({ title: 'AsyncAPI', section: 'catalog', content }, context);
}
