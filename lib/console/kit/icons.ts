import { raw } from 'hono/html';

import type { Html } from '../../platform/markup.ts';

/** Icons stand beside words with the same meaning, so screen readers skip them. */
export const BUS_ICON = icon(
  '<path d="M3 12h18M6 12V7m6 5v5m6-5V7"/><circle cx="6" cy="5.2" r="1.8"/><circle cx="12" cy="18.8" r="1.8"/><circle cx="18" cy="5.2" r="1.8"/>',
);
export const CHECK_ICON = icon('<circle cx="12" cy="12" r="9"/><path d="m8 12.3 2.7 2.7L16 9.6"/>');
export const CLOCK_ICON = icon('<circle cx="12" cy="12" r="9"/><path d="M12 7v5l3 2"/>');
export const COPY_ICON = icon(
  '<rect x="9" y="9" width="11" height="11" rx="2"/><path d="M5 15V6a2 2 0 0 1 2-2h9"/>',
);
export const DEAD_ICON = icon(
  '<path d="M8.2 3h7.6L21 8.2v7.6L15.8 21H8.2L3 15.8V8.2z"/><path d="M12 8v5m0 3v.1"/>',
);
export const DOT_ICON = icon('<circle cx="12" cy="12" r="4"/>');
export const HALT_ICON = icon('<circle cx="12" cy="12" r="9"/><path d="M9 9h6v6H9z"/>');
export const KEYS_ICON = icon(
  '<rect x="3" y="6" width="18" height="12" rx="2"/><path d="M7 10h.1M11 10h.1M15 10h.1M8 14h8"/>',
);
export const LOCK_ICON = icon(
  '<rect x="5" y="11" width="14" height="9" rx="2"/><path d="M8 11V8a4 4 0 0 1 8 0v3"/>',
);
export const MOON_ICON = icon('<path d="M20 14.5A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.5z"/>');
export const PAUSE_ICON = icon('<path d="M9 5v14M15 5v14"/>');
export const PERSON_ICON = icon('<circle cx="12" cy="8" r="3.5"/><path d="M5 20a7 7 0 0 1 14 0"/>');
export const RELAY_ICON = icon('<path d="M5 12h14m-5-5 5 5-5 5"/>');
export const RETRY_ICON = icon('<path d="M20 11a8 8 0 1 0-2.3 6"/><path d="M20 5v6h-6"/>');
export const SEARCH_ICON = icon('<circle cx="11" cy="11" r="6"/><path d="m20 20-4.6-4.6"/>');
export const SILENT_ICON = icon('<path d="M3 12h5m8 0h5M8 7v10m8-10v10"/>');
export const WARNING_ICON = icon('<path d="M12 4 2.8 20h18.4z"/><path d="M12 10v4.5m0 2.5v.1"/>');

function icon(shapes: string): Html {
  return raw(`<svg class="ico" viewBox="0 0 24 24" aria-hidden="true">${shapes}</svg>`);
}
