import { COPY_ICON } from '../page/icons.ts';
import { heading, layout } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { quantity } from '../page/words.ts';

interface AsyncApiDocument {
  readonly channels: object;
  readonly operations: object;
}

/** Draws the AsyncAPI document, to be read or copied. Programs get it as JSON from the same address. */
export function asyncApiPage(document: AsyncApiDocument, context: PageContext): Html {
  const channels = Object.keys(document.channels).length;
  const operations = Object.keys(document.operations).length;
  const content = html`${heading({
      title: 'AsyncAPI',
      lead: `All topics as AsyncAPI 3.0: ${quantity(channels, 'channel')}, ${quantity(operations, 'operation')}. This address also answers JSON, to programs.`,
      actions: html`<button class="btn" type="button" data-js data-copy="#asyncapi">
        ${COPY_ICON}<span>Copy</span>
      </button>`,
    })}
    <pre class="code" id="asyncapi" tabindex="0" role="region" aria-label="AsyncAPI document">
${JSON.stringify(document, null, 2)}</pre>`;
  return layout({ title: 'AsyncAPI', section: 'catalog', content }, context);
}
