import type { UIMessageChunk } from 'ai';
import { expectTypeOf, test } from 'vitest';

import type { UiChunk } from '../../lib/edge/chat/ui-stream.ts';

test('the chunks of an answer are those of the AI SDK, whose protocol may move', () => {
  expectTypeOf<UiChunk>().toExtend<UIMessageChunk>();
});
